package host

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// order is a command that has passed the checks.
type order struct {
	*job
	params json.RawMessage // as action.Parse returned them
	spec   action.Spec
	domain string // that the command is about
	rules  *policy.Rules
	agreed string // digest that a person at this host agreed to
	dialog *dialogue
}

// attempt checks a command against the rules and the page as they are now,
// and carries it out.
func (r *Router) attempt(ctx context.Context, j *job, agreed string) reply {
	if fault := r.pages.Ready(ctx); fault != nil {
		return reply{fault: fault}
	}
	o, fault := r.check(j)
	if fault != nil {
		return reply{fault: fault}
	}
	o.agreed, o.dialog = agreed, &dialogue{r: r, o: o}
	return r.execute(ctx, o)
}

// check is the MAC of seed 001 §3.3: blocked, not permitted, domain not
// allowed, domain mismatch; and the parameters, and the storage prefix.
// Whether a person must agree comes after, since it may depend on the
// element.
func (r *Router) check(j *job) (*order, *pipe.Error) {
	o := &order{job: j, rules: r.rules()}
	if fault := actionFault(o.rules, j.Action); fault != nil {
		return nil, fault
	}
	params, err := action.Parse(j.Action, j.Params)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	o.params = params
	o.spec, _ = action.Lookup(j.Action)

	here, ok := r.pages.Info(j.PageID)
	switch {
	case !ok && j.PageID == "":
		return nil, pipe.Errorf(pipe.CodeNoPage, "the browser shows no page at the moment")
	case !ok:
		return nil, pipe.Errorf(pipe.CodeZombieNotFound, "there is no page %q", j.PageID)
	}
	real, fault := r.domains(o, here)
	if fault != nil {
		return nil, fault
	}
	expected, err := action.Host(j.Security.ExpectedDomain)
	if err != nil {
		return nil, pipe.Errorf(pipe.CodeDomainNotAllowed, "security.expected_domain: %v", err)
	}
	current := real[0]
	if slices.Contains(real, expected) {
		current = expected
	}
	if v := o.rules.CheckPage(j.Action, expected, current); v.Decision == policy.Deny {
		if v.Code == policy.CodeDomainMismatch && current == "" {
			return nil, pipe.Errorf(pipe.CodeDomainMismatch, "expected %s but the page is on no site; navigate first", expected)
		}
		return nil, denied(v.Err())
	}
	o.domain = expected
	if fault := r.storage(o); fault != nil {
		return nil, fault
	}
	return o, nil
}

// domains are those that a command may name as expected: where its page
// really is, or for an action that opens a URL the URL's host. Closing a page
// is also about the page that is closed, and the session actions are about
// the domain that they name.
func (r *Router) domains(o *order, here agent.Page) ([]string, *pipe.Error) {
	switch {
	case o.spec.URL:
		target, err := action.Target(o.Action, o.params)
		if err != nil {
			return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
		}
		return []string{target}, nil
	case o.Action == action.ZombieKill:
		p, err := action.Decode[action.ZombieKillParams](o.params)
		if err != nil {
			return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
		}
		there, ok := r.pages.Info(p.PageID)
		if !ok || p.PageID == "" {
			return nil, pipe.Errorf(pipe.CodeZombieNotFound, "there is no background page %q", p.PageID)
		}
		return []string{there.Domain, here.Domain}, nil
	case o.Action == action.SessionLogin, o.Action == action.SessionLogout, o.Action == action.ClearStorage:
		p, err := action.Decode[action.SessionParams](o.params)
		if err != nil {
			return nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
		}
		if fault := domainFault(o.rules, p.Domain); fault != nil {
			return nil, fault
		}
		return []string{here.Domain, p.Domain}, nil
	}
	return []string{here.Domain}, nil
}

func (r *Router) storage(o *order) *pipe.Error {
	if o.Action != action.StorageGet && o.Action != action.StorageSet {
		return nil
	}
	p, err := action.Decode[action.StorageGetParams](o.params)
	if err != nil {
		return pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	return denied(o.rules.CheckStorageKey(p.Key).Err())
}

// inspects reports whether package page shows the element of an action
// before it is acted on.
func inspects(name string) bool {
	return name == action.Click || name == action.Type || name == action.Select
}

// actionFault is the part of the MAC that needs no domain, so that a blocked
// action is told as such even when its parameters make no sense.
func actionFault(rules *policy.Rules, name string) *pipe.Error {
	v := rules.CheckPage(name, "", "")
	if v.Code == policy.CodeActionBlocked || v.Code == policy.CodeActionNotAllowed {
		return denied(v.Err())
	}
	return nil
}

func domainFault(rules *policy.Rules, host string) *pipe.Error {
	if rules.AllowDomain(host) {
		return nil
	}
	return pipe.Errorf(pipe.CodeDomainNotAllowed, "Domain not in whitelist: %s", host)
}

// AllowURL answers for page.Options.Allow: whether a document may be
// requested from a URL.
func AllowURL(rules *policy.Rules, rawURL string) *pipe.Error { return denied(rules.AllowURL(rawURL)) }

// denied puts a denial of the policy into the pipe's terms.
func denied(err error) *pipe.Error {
	var d *policy.DeniedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &d):
		return &pipe.Error{Code: pipe.Code(d.Code), Message: d.Message}
	}
	return pipe.Errorf(pipe.CodeInternal, "%v", err)
}

// ruleByName is Subject.Rule of an action that the rules list in
// need_confirm.
const ruleByName = "need_confirm"

// subject says what a person would be asked about, and whether one must be.
// t is the element that would be acted on, nil for actions without one.
//
// An action that the rules confirm by name has the domain as its subject and
// nothing of the element, because the agent asks for it before it has seen
// the element, and both sides must mean the same. What confirm_when finds
// goes first: it says more.
func (r *Router) subject(o *order, t *page.Target) (agent.Subject, policy.Prompt, bool) {
	here, _ := r.pages.Info(o.PageID)
	for _, e := range elements(o, here, t) {
		rule, prompt, ask := o.rules.ConfirmWhen(e)
		if !ask {
			continue
		}
		s := agent.Subject{Role: e.Role, Name: e.Name, URL: e.URL, Domain: o.domain, Rule: rule, Prompt: o.rules.OwnPrompt(rule)}
		if t != nil {
			s.Context = t.Context
		}
		return s, prompt, true
	}
	if v := o.rules.CheckPage(o.Action, o.domain, o.domain); v.Decision == policy.NeedConfirm {
		return agent.Subject{Domain: o.domain, URL: here.URL, Rule: ruleByName}, v.Prompt, true
	}
	return agent.Subject{}, policy.Prompt{}, false
}

// elements are what an order would act on, as rules see it: the element, and
// the button that Enter in it would press.
func elements(o *order, here agent.Page, t *page.Target) []policy.Element {
	e := policy.Element{Action: o.Action, Domain: o.domain, URL: here.URL}
	var p struct {
		URL   string `json:"url"`
		Text  string `json:"text"`
		Value string `json:"value"`
	}
	// What an action does not have stays empty.
	_ = json.Unmarshal(o.params, &p)
	if o.spec.URL {
		e.URL, e.LinkURL = p.URL, p.URL
	}
	if t == nil {
		return []policy.Element{e}
	}
	e.Text = p.Text
	if o.Action == action.Select {
		e.Text = p.Value
	}
	e.Role, e.Name, e.URL, e.LinkURL, e.FormSubmit = t.Role, t.Name, t.URL, t.LinkURL, t.FormSubmit
	if d := page.Domain(t.FrameURL); d != "" {
		e.Domain = d
	}
	found := []policy.Element{e}
	if t.SubmitName != "" {
		e.Role, e.Name = "button", t.SubmitName
		found = append(found, e)
	}
	return found
}

// agree answers whether an order may be carried out on what it would act on:
// nil, or the reason why not, with what a person must be asked in asked. A
// grant that answers is used up. A yes to a question that the page asked at
// the element before is also one to the press.
func (r *Router) agree(ctx context.Context, o *order, t *page.Target, asked *reply) *pipe.Error {
	if o.isTaken() {
		return cancelled()
	}
	subject, prompt, needed := r.subject(o, t)
	if !needed {
		if t != nil {
			o.dialog.agreed(t, false)
		}
		return nil
	}
	digest := agent.Digest(o.Action, o.params, o.PageID, subject)
	covers := func(yes string) bool {
		return yes == digest || t != nil &&
			r.dialogs.covers(yes, agent.Digest(o.Action, o.params, o.PageID, elementSubject(o, t)))
	}
	if o.agreed != "" && covers(o.agreed) {
		if t != nil {
			o.dialog.agreed(t, false)
		}
		return nil
	}
	if g := o.Security.Grant; g != nil && o.agreed == "" {
		switch {
		case r.grants.used(g.ID):
			return pipe.Errorf(pipe.CodeGrantInvalid, "grant %s was used before", g.ID)
		case covers(g.Digest) && r.grants.use(g.ID):
			if t != nil {
				o.dialog.agreed(t, true)
			}
			r.log.Info("grant used", "seq", o.Seq, "action", o.Action, "grant", g.ID, "by", g.By, "at", g.At)
			return nil
		}
	}
	ask := &pipe.ConfirmAsk{Subject: subject, Digest: digest}
	if t != nil && t.Picture != nil {
		image, err := t.Picture(ctx)
		if err != nil {
			r.log.Debug("no picture of the element", "seq", o.Seq, "err", err)
		}
		ask.Image = image
	}
	asked.data, asked.prompt = &pipe.Data{Confirm: ask}, prompt
	return pipe.Errorf(pipe.CodeNeedConfirm, "a person must agree to %s on %s first", o.Action, o.domain)
}

// maxGrants bounds how many used grants are remembered.
const maxGrants = 8192

// grants remembers which grants were used.
type grants struct {
	mu    sync.Mutex
	ids   map[string]struct{}
	order []string
}

func (g *grants) used(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.ids[id]
	return ok
}

// use takes a grant and reports whether it was still to be had.
func (g *grants) use(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.ids[id]; ok {
		return false
	}
	if g.ids == nil {
		g.ids = make(map[string]struct{})
	}
	g.ids[id] = struct{}{}
	g.order = append(g.order, id)
	if len(g.order) > maxGrants {
		delete(g.ids, g.order[0])
		g.order = g.order[1:]
	}
	return true
}
