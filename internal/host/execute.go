package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
)

// execute carries out an order, once a person has agreed where that is
// needed.
func (r *Router) execute(ctx context.Context, o *order) reply {
	if inspects(o.Action) {
		return r.act(ctx, o)
	}
	var asked reply
	if asked.fault = r.agree(ctx, o, nil, &asked); asked.fault != nil {
		return asked
	}
	switch o.Action {
	case action.ZombieSpawn:
		return r.spawn(ctx, o)
	case action.ZombieKill:
		p, err := action.Decode[action.ZombieKillParams](o.params)
		if err != nil {
			return invalid(err)
		}
		if fault := r.pages.Kill(ctx, p.PageID); fault != nil {
			return reply{fault: fault}
		}
		return reply{data: &pipe.Data{Text: "closed page " + p.PageID}}
	case action.SessionLogin, action.SessionLogout, action.ClearStorage:
		p, err := action.Decode[action.SessionParams](o.params)
		if err != nil {
			return invalid(err)
		}
		return r.session(ctx, o, p.Domain)
	}
	return r.act(ctx, o)
}

func invalid(err error) reply {
	return reply{fault: pipe.Errorf(pipe.CodeInvalidParams, "%v", err)}
}

// act carries out an action of the page. Actions on an element are agreed to
// when the element is known.
func (r *Router) act(ctx context.Context, o *order) reply {
	var asked reply
	params, note := o.params, ""
	if o.Action == action.Click {
		params, note = boundWait(params)
	}
	q := page.Request{
		Action: o.Action, Params: params, SnapshotAfter: o.SnapshotAfter, ExpectedDomain: o.domain,
	}
	if inspects(o.Action) {
		q.Inspect = func(ctx context.Context, t page.Target) *pipe.Error { return r.agree(ctx, o, &t, &asked) }
		if o.rules.AsksByDialog() {
			q.Dialog = o.dialog.answer
		}
	}
	data, nodes, fault := r.pages.Do(ctx, o.PageID, q)
	if data == nil {
		data = &pipe.Data{}
	}
	if fault != nil && fault.Code == pipe.CodeNeedConfirm {
		if ask := o.dialog.asked(ctx); ask != nil {
			asked = reply{data: &pipe.Data{Confirm: ask}, prompt: dialogPrompt}
		}
		if asked.data != nil {
			data.Confirm = asked.data.Confirm
		}
	}
	switch {
	case fault != nil:
	case note != "":
		data.Text = strings.TrimSpace(data.Text + " " + note)
	case inspects(o.Action) && o.dialog.missed():
		data.Text = strings.TrimSpace(data.Text + " (this time the page asked nothing; look whether it was done)")
	case o.Action == action.Navigate:
		fault = r.expired(o, data)
	}
	return reply{data: data, nodes: nodes, fault: fault, prompt: asked.prompt}
}

// maxWaitAfter is the longest wait after a click, in milliseconds, that still
// leaves time to answer before the agent gives up. Seed 001 allows 30 s for
// the wait (§5.2) and for the whole command (§2.3).
const maxWaitAfter = 20_000

// boundWait cuts a wait that is too long, and says so.
func boundWait(params json.RawMessage) (bounded json.RawMessage, note string) {
	p, err := action.Decode[action.ClickParams](params)
	if err != nil || p.WaitAfter == nil || *p.WaitAfter <= maxWaitAfter {
		return params, ""
	}
	note = fmt.Sprintf("(waited %d ms of %d)", maxWaitAfter, *p.WaitAfter)
	*p.WaitAfter = maxWaitAfter
	if bounded, err = json.Marshal(p); err != nil {
		return params, ""
	}
	return bounded, note
}

func (r *Router) spawn(ctx context.Context, o *order) reply {
	p, err := action.Decode[action.ZombieSpawnParams](o.params)
	if err != nil {
		return invalid(err)
	}
	opened, fault := r.pages.Spawn(ctx, p.URL)
	if fault != nil {
		return reply{fault: fault}
	}
	data := &pipe.Data{Page: &opened, PageID: opened.ID, Text: "opened page " + opened.ID}
	if o.SnapshotAfter {
		r.lookAround(ctx, opened.ID, data)
	}
	return reply{data: data}
}

// lookAround adds the snapshot of a page; without one the reply still holds.
func (r *Router) lookAround(ctx context.Context, pageID string, into *pipe.Data) {
	params, err := action.Parse(action.GetAOMSnapshot, nil)
	if err != nil {
		return
	}
	seen, _, fault := r.pages.Do(ctx, pageID, page.Request{Action: action.GetAOMSnapshot, Params: params})
	if fault != nil || seen == nil {
		return
	}
	into.Page, into.Snapshot, into.Tokens, into.Events = seen.Page, seen.Snapshot, seen.Tokens, seen.Events
	into.Truncated, into.Rest = seen.Truncated, seen.Rest
}

// session carries out the actions on a log-in. They are about a domain, not
// about the page, although sessionLogin uses it.
func (r *Router) session(ctx context.Context, o *order, domain string) reply {
	data := &pipe.Data{}
	var fault *pipe.Error
	switch o.Action {
	case action.SessionLogin:
		fault = r.login(ctx, o, domain)
		data.Text = "logged in to " + domain
	case action.SessionLogout:
		var n int
		n, fault = r.pages.ClearCookies(ctx, domain)
		data.Text = fmt.Sprintf("logged out of %s: %d cookies removed", domain, n)
		r.forget(domain)
	case action.ClearStorage:
		fault = r.pages.ClearStorage(ctx, domain)
		data.Text = "removed what " + domain + " had stored, its cookies apart"
	}
	if fault != nil {
		return reply{fault: fault}
	}
	if o.SnapshotAfter {
		r.lookAround(ctx, o.PageID, data)
	}
	return reply{data: data}
}

// login logs in with the credentials of a domain. No error says what they
// are.
func (r *Router) login(ctx context.Context, o *order, domain string) *pipe.Error {
	if r.cfg.Credentials == nil {
		return pipe.Errorf(pipe.CodeNoCredentials, "this host has no credentials for %s", domain)
	}
	l, err := r.cfg.Credentials.Login(domain)
	if errors.Is(err, ErrNoCredentials) {
		return pipe.Errorf(pipe.CodeNoCredentials, "this host has no credentials for %s", domain)
	}
	if err != nil {
		r.log.Error("read credentials", "domain", domain, "err", err)
		return pipe.Errorf(pipe.CodeNoCredentials, "the credentials cannot be read: %v", err)
	}
	at, err := action.URLHost(l.URL)
	if err != nil {
		return pipe.Errorf(pipe.CodeSessionLoginFail, "login_url: %v", err)
	}
	if fault := domainFault(o.rules, at); fault != nil {
		return fault
	}
	if fault := r.step(ctx, o, at, action.Navigate, action.NavigateParams{URL: l.URL}); fault != nil {
		return pipe.Errorf(pipe.CodeSessionLoginFail, "open the log-in page: %v", fault)
	}
	if _, fault := r.pages.FillLogin(ctx, o.PageID, page.Login{
		Domain: at, User: l.Username, Password: l.Password,
		UserSelector: l.UsernameSelector, PasswordSelector: l.PasswordSelector, SubmitSelector: l.SubmitSelector,
	}); fault != nil {
		return fault
	}
	if l.SuccessSelector != "" {
		if fault := r.step(ctx, o, "", action.WaitForSelector, action.WaitForSelectorParams{
			Selector: l.SuccessSelector, TimeoutMS: 10_000,
		}); fault != nil {
			return pipe.Errorf(pipe.CodeSessionLoginFail, "the page does not look logged in: %v", fault)
		}
	}
	here, _ := r.pages.Info(o.PageID)
	switch {
	case l.SuccessURL != "" && !strings.HasPrefix(here.URL, l.SuccessURL):
		return pipe.Errorf(pipe.CodeSessionLoginFail, "the page did not go where a log-in leads")
	case l.SuccessURL == "" && l.SuccessSelector == "" && samePage(here.URL, l.URL):
		return pipe.Errorf(pipe.CodeSessionLoginFail, "the page still shows the log-in form")
	}
	r.mu.Lock()
	r.logins[domain] = l.URL
	r.mu.Unlock()
	return nil
}

// step does one thing on the page as part of another.
func (r *Router) step(ctx context.Context, o *order, domain, name string, params any) *pipe.Error {
	raw, err := pipe.Encode(params)
	if err == nil {
		raw, err = action.Parse(name, raw)
	}
	if err != nil {
		return pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	_, _, fault := r.pages.Do(ctx, o.PageID, page.Request{Action: name, Params: raw, ExpectedDomain: domain})
	return fault
}

// expired tells a navigation that ended at the log-in page of a domain that
// sessionLogin had logged in to.
func (r *Router) expired(o *order, data *pipe.Data) *pipe.Error {
	r.mu.Lock()
	loginURL, ok := r.logins[o.domain]
	r.mu.Unlock()
	if !ok || data.Page == nil || !samePage(data.Page.URL, loginURL) {
		return nil
	}
	if p, err := action.Decode[action.NavigateParams](o.params); err == nil && samePage(p.URL, loginURL) {
		return nil // it was meant
	}
	r.forget(o.domain)
	return pipe.Errorf(pipe.CodeSessionExpired, "%s asks to log in again", o.domain)
}

func (r *Router) forget(domain string) {
	r.mu.Lock()
	delete(r.logins, domain)
	r.mu.Unlock()
}

// samePage compares two URLs without query and fragment.
func samePage(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	if err != nil {
		return false
	}
	return x.Scheme == y.Scheme && x.Host == y.Host && strings.TrimSuffix(x.Path, "/") == strings.TrimSuffix(y.Path, "/")
}
