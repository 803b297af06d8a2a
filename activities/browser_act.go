package activities

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/locale"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// Host is the browser at the other end of the pipe. internal/browser.Client
// is the real one.
type Host interface {
	// Do sends a command, whose Type, Seq and signature it sets, and waits
	// for the response. Its errors are listed at pipe.ErrNotSent. When a
	// response comes after Do has returned without it, late gets it, once.
	Do(ctx context.Context, cmd pipe.Command, late func(pipe.Response)) (resp pipe.Response, held time.Duration, err error)
	// Send writes another message and returns when it is written.
	Send(ctx context.Context, message any) error
	// Offer writes a message that may get lost, without blocking.
	Offer(message any)
	// Page returns where a page stood when the host last spoke of it.
	Page(id string) (agent.Page, bool)
}

// Journal remembers effects and observations over crashes; every method that
// writes returns when it is on disk. internal/journal is the real one.
type Journal interface {
	// Begin makes an absent effect begun: fresh, it may be sent, once. Else
	// prior is its result, or nil if the outcome is unknown.
	Begin(e agent.Effect) (prior *agent.Result, fresh bool, err error)
	// Prior is Begin without beginning.
	Prior(e agent.Effect) (prior *agent.Result, found bool, err error)
	// Spent reports whether the effect's grant was used by another one.
	Spent(e agent.Effect) (bool, error)
	// Asked reports whether this digest was asked for the effect's call.
	Asked(e agent.Effect, digest string) (bool, error)
	// Done records the result of a begun effect, and bodies by ref.
	Done(e agent.Effect, r agent.Result, bodies map[string]agent.Body) error
	// Void makes a begun effect absent: nothing was done.
	Void(e agent.Effect) error
	// Meet notes that the run is at work here.
	Meet(runID string) error
	// Keep stores bodies by ref.
	Keep(bodies map[string]agent.Body) error
	// Body returns what Keep or Done stored.
	Body(ref string) (agent.Body, error)
	// Ask remembers which run asks a question at the browser.
	Ask(confirmID, runID string) error
}

// Policy is layer 2 of the access control. policy.Engine is the real one.
type Policy interface {
	// Check judges an action and, if it is allowed, counts it.
	Check(req policy.Request) policy.Verdict
}

// BrowserConfig shapes Browser. The zero value is usable.
type BrowserConfig struct {
	// SnapshotAfter: the host appends a snapshot when a command asks for it
	// (pipe.CapSnapshotAfter). Otherwise a second command gets it.
	SnapshotAfter bool
	// Locale is the language of the log lines that people at the browser
	// read: "zh" or "en".
	Locale string
	// Heartbeat is the interval of heartbeats, and so how soon an abort is
	// felt on a server that does not push cancellations; default 200 ms.
	Heartbeat time.Duration
	// Finish is how long an action in hand may go on after its worker was
	// told to stop; then the attempt fails, so that the next one need not
	// wait for a heartbeat to be missed. Default 1 s, half of
	// pipe.StopGrace.
	Finish time.Duration
	// LateWait is how long a second attempt at an effect waits for the
	// response to a first one that is still under way in this process;
	// default pipe.CommandTimeout.
	LateWait time.Duration
}

// Browser has the activities of one browser.
type Browser struct {
	log     *slog.Logger
	host    Host
	journal Journal
	policy  Policy
	cfg     BrowserConfig

	mu      sync.Mutex
	flights map[string]chan struct{} // effects under way, by once-only key
	told    map[string]bool          // keys of the notifications written
	toldAll []string                 // the same in order
}

// NewBrowser makes the activities of the browser behind host.
func NewBrowser(log *slog.Logger, host Host, journal Journal, policy Policy, cfg BrowserConfig) *Browser {
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 200 * time.Millisecond
	}
	if cfg.Finish <= 0 {
		cfg.Finish = pipe.StopGrace / 2
	}
	if cfg.LateWait <= 0 {
		cfg.LateWait = pipe.CommandTimeout
	}
	return &Browser{
		log: log, host: host, journal: journal, policy: policy, cfg: cfg,
		flights: map[string]chan struct{}{}, told: map[string]bool{},
	}
}

// Act is the activity "act": it carries out one browser action, an effect at
// most once however often it is tried. What the browser or the policy says
// is its result. Its errors are faults of the surroundings (the pipe closed,
// the journal cannot be written), after which another attempt is safe.
//
//	absent, policy says no or not yet -> result, nothing recorded
//	absent                            -> begin, send, record, result
//	done                              -> the recorded result
//	begun                             -> outcome unknown, never sent again
//
// Reads skip the journal.
func (b *Browser) Act(ctx context.Context, in ActInput) (agent.Result, error) {
	ctx, rest := b.beat(ctx)
	defer rest()
	in.RunID = RunID(ctx, in.RunID)
	spec, ok := action.Lookup(in.Call.Action)
	if !ok {
		return b.denied(in, pipe.Errorf(pipe.CodeActionNotAllowed, "there is no action %q", in.Call.Action)), nil
	}
	params, err := action.Parse(in.Call.Action, in.Call.Params)
	if err != nil {
		return b.denied(in, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)), nil
	}
	in.Call.Params = params
	a := &act{Browser: b, in: in, spec: spec, effect: agent.Effect{
		RunID: in.RunID, Step: in.Step, CallID: in.Call.ID, Action: in.Call.Action,
	}}
	if in.Grant != nil {
		a.effect.GrantID = in.Grant.ID
	}
	began := time.Now()
	res, err := a.run(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		// Not as a cancellation, which nobody asked for.
		err = errStopping
	}
	switch {
	case err != nil:
		b.log.Warn("action not carried out", "run_id", in.RunID, "step", in.Step, "action", in.Call.Action, "err", err)
	default:
		b.log.Info("action", "run_id", in.RunID, "step", in.Step, "action", in.Call.Action, "host", a.domain,
			"outcome", string(res.Outcome), "code", res.Code, "took_ms", time.Since(began).Milliseconds())
		a.report(res)
	}
	return res, err
}

// act is one call of Act.
type act struct {
	*Browser
	in     ActInput
	spec   action.Spec
	effect agent.Effect
	domain string
	done   func() // ends the effect's flight
}

func (a *act) run(ctx context.Context) (agent.Result, error) {
	if a.spec.Effect {
		res, done, err := a.once(ctx)
		if res != nil || err != nil {
			return deref(res), err
		}
		a.done = done
		defer func() {
			if a.done != nil {
				a.done()
			}
		}()
	} else if err := a.journal.Meet(a.in.RunID); err != nil {
		return agent.Result{}, err
	}
	var err error
	a.domain, err = a.expected()
	if err != nil {
		return a.denied(a.in, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)), nil
	}
	if a.domain == "" {
		return a.denied(a.in, pipe.Errorf(pipe.CodeNoPage, "no page is open there; navigate first")), nil
	}
	if beyond := a.beyond(); beyond != nil {
		return a.denied(a.in, beyond), nil
	}
	if res, err := a.allow(); res != nil || err != nil {
		return deref(res), err
	}
	if a.spec.Effect {
		prior, fresh, err := a.journal.Begin(a.effect)
		if err != nil {
			return agent.Result{}, err
		}
		if !fresh {
			return a.again(prior), nil
		}
	}
	a.announce(ctx)
	return a.send(ctx)
}

// once looks whether the effect was tried before: a result means that
// nothing is to be done. Otherwise the effect is this caller's until done is
// called; another attempt in this process waits for that.
func (a *act) once(ctx context.Context) (res *agent.Result, done func(), err error) {
	key := a.effect.Key()
	late := time.NewTimer(a.cfg.LateWait)
	defer late.Stop()
	for waited := false; ; {
		flight, mine := a.board(key)
		if !mine && !waited {
			select {
			case <-flight:
			case <-late.C:
				waited = true
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
			continue
		}
		prior, found, err := a.journal.Prior(a.effect)
		if err != nil || found || !mine {
			if mine {
				a.land(key, flight)
			}
			if err != nil {
				return nil, nil, err
			}
			r := a.again(prior)
			return &r, nil, nil
		}
		return nil, func() { a.land(key, flight) }, nil
	}
}

func (b *Browser) board(key string) (flight chan struct{}, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.flights[key]; f != nil {
		return f, false
	}
	f := make(chan struct{})
	b.flights[key] = f
	return f, true
}

func (b *Browser) land(key string, flight chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights[key] == flight {
		delete(b.flights, key)
		close(flight)
	}
}

// again is the result of an effect that must not be sent again.
func (a *act) again(prior *agent.Result) agent.Result {
	if prior != nil {
		return *prior
	}
	return a.unknown(pipe.CodeOutcomeUnknown, "it was sent before, and the answer got lost in a crash")
}

// expected is the domain that the command is for: the target's when it opens
// a URL, else the page's.
func (a *act) expected() (string, error) {
	if a.spec.URL {
		return action.Target(a.in.Call.Action, a.in.Call.Params)
	}
	domain := a.in.Domain
	if domain == "" {
		domain = a.page().Domain
	}
	if domain == "" {
		return "", nil
	}
	return action.Host(domain)
}

// beyond says that an action is outside the limits of the run's agent, which
// hold besides the browser's rules; nil if it is not.
func (a *act) beyond() *pipe.Error {
	call := a.in.Call
	if len(a.in.Actions) > 0 && !slices.Contains(a.in.Actions, call.Action) {
		return pipe.Errorf(pipe.Code(policy.CodeActionNotAllowed), "Action not permitted to this agent: %s", call.Action)
	}
	domains := []string{a.domain}
	switch call.Action {
	case action.SessionLogin, action.SessionLogout, action.ClearStorage:
		// They name the site that they are about.
		p, err := action.Decode[action.SessionParams](call.Params)
		if err != nil {
			return pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
		}
		domains = append(domains, p.Domain)
	}
	for _, d := range domains {
		if !a.within(d) {
			return pipe.Errorf(pipe.Code(policy.CodeDomainNotAllowed), "Domain not permitted to this agent: %s", d)
		}
	}
	return nil
}

// within reports whether the run's agent may act on a domain.
func (a *act) within(domain string) bool {
	if len(a.in.Domains) == 0 {
		return true
	}
	hosts, err := policy.ParseHosts(a.in.Domains)
	if err != nil {
		// The worker reads them before it hands them on.
		a.log.Error("domains of the agent cannot be used", "run_id", a.in.RunID, "err", err)
		return false
	}
	return hosts.Has(domain)
}

// allow asks the policy and looks at the grant. A result means that nothing
// is to be sent.
func (a *act) allow() (*agent.Result, error) {
	call, page := a.in.Call, a.page()
	ask := agent.Subject{Domain: a.domain, URL: page.URL}
	digest := agent.Digest(call.Action, call.Params, call.PageID, ask)
	granted, err := a.granted(digest)
	if err != nil {
		return nil, err
	}
	v := a.policy.Check(policy.Request{
		Action: call.Action, Domain: a.domain, StorageKey: storageKey(call), Granted: granted,
	})
	switch {
	case v.Decision == policy.Deny:
		r := a.denied(a.in, &pipe.Error{Code: pipe.Code(v.Code), Message: v.Message})
		if v.Code == policy.CodeRateLimit {
			r.Outcome, r.RetryAfterMS = agent.OutcomeRateLimited, max(1, v.RetryAfter.Milliseconds())
		}
		return &r, nil
	case v.Decision == policy.NeedConfirm:
		ask.Rule = "need_confirm"
	case a.in.Confirm && !granted:
		ask.Rule = "confirm_actions"
	case a.in.Grant != nil && !granted:
		r := a.denied(a.in, pipe.Errorf(pipe.CodeGrantInvalid, "the confirmation was given for something else, or was used before"))
		return &r, nil
	default:
		return nil, nil
	}
	// Also with a grant that does not fit any more: what would be done now
	// is another thing than what the person saw, and is asked anew.
	return &agent.Result{
		Outcome: agent.OutcomeNeedConfirm, Code: string(pipe.CodeNeedConfirm), Page: page, Ask: &ask, Digest: digest,
		Text: verb(agent.OutcomeNeedConfirm) + ": " + call.Action,
	}, nil
}

// granted reports whether the grant is good for this layer: it answers the
// question that this layer asks, or one that the host asked about the same
// call, and was not used for another. Whether it fits what the page shows by
// then is for the host to see.
func (a *act) granted(digest string) (bool, error) {
	g := a.in.Grant
	if g == nil || g.ID == "" {
		return false, nil
	}
	if spent, err := a.journal.Spent(a.effect); spent || err != nil {
		return false, err
	}
	if g.Digest == digest {
		return true, nil
	}
	return a.journal.Asked(a.effect, g.Digest)
}

func storageKey(c agent.Call) *string {
	switch c.Action {
	case action.StorageGet, action.StorageSet:
	default:
		return nil
	}
	p, err := action.Decode[action.StorageGetParams](c.Params)
	if err != nil {
		p.Key = "" // which no prefix permits
	}
	return &p.Key
}

// page is where the action's page stood last.
func (a *act) page() agent.Page {
	p, _ := a.host.Page(a.in.Call.PageID)
	return boundPage(p)
}

// send sends the command and turns what comes back into a result.
func (a *act) send(ctx context.Context) (agent.Result, error) {
	cmd := pipe.Command{
		Action: a.in.Call.Action, Params: a.in.Call.Params, PageID: a.in.Call.PageID,
		SnapshotAfter: a.wantsSnapshot() && a.cfg.SnapshotAfter,
		Security:      pipe.Security{ExpectedDomain: a.domain, Grant: a.in.Grant},
	}
	var late func(pipe.Response)
	if a.spec.Effect {
		late = a.late(a.done)
	}
	resp, held, err := a.host.Do(ctx, cmd, late)
	if err != nil {
		return a.unanswered(ctx, err)
	}
	if a.wantsSnapshot() && !a.cfg.SnapshotAfter && resp.Success {
		a.follow(ctx, &resp)
	}
	res, bodies := a.result(resp)
	res.HeldMS = held.Milliseconds()
	if err := a.record(res, bodies); err != nil {
		// The result itself is good. Should it get lost on its way, the
		// next attempt finds the effect begun and says unknown.
		a.log.Error("result not recorded", "run_id", a.in.RunID, "step", a.in.Step, "err", err)
		res.Ref = ""
	}
	return res, nil
}

// record writes the result and its bodies to the journal.
func (a *act) record(res agent.Result, bodies map[string]agent.Body) error {
	switch {
	case res.Outcome == agent.OutcomeNeedConfirm:
		// Also of a read: the grant must be recognized.
		return a.journal.Done(a.effect, res, bodies)
	case !a.spec.Effect:
		if len(bodies) == 0 {
			return nil
		}
		return a.journal.Keep(bodies)
	case res.Outcome == agent.OutcomeRateLimited, res.Code == string(pipe.CodeCancelled):
		return a.journal.Void(a.effect)
	case res.Outcome == agent.OutcomeUnknown:
		return a.journal.Keep(bodies)
	}
	return a.journal.Done(a.effect, res, bodies)
}

// late makes the callback for a response that comes after the activity gave
// up on it: it is recorded, so that another attempt finds it.
func (a *act) late(done func()) func(pipe.Response) {
	return func(resp pipe.Response) {
		defer done()
		res, bodies := a.result(resp)
		if err := a.record(res, bodies); err != nil {
			a.log.Error("late result not recorded", "run_id", a.in.RunID, "step", a.in.Step, "err", err)
			return
		}
		a.log.Info("late result recorded", "run_id", a.in.RunID, "step", a.in.Step, "action", a.in.Call.Action, "outcome", string(res.Outcome))
	}
}

// unanswered decides what it means that no response came.
func (a *act) unanswered(ctx context.Context, err error) (agent.Result, error) {
	refused := (*pipe.Error)(nil)
	if errors.Is(err, pipe.ErrNotSent) {
		if a.spec.Effect {
			if err := a.journal.Void(a.effect); err != nil {
				a.log.Error("effect not voided", "run_id", a.in.RunID, "step", a.in.Step, "err", err)
			}
		}
		if ctx.Err() == nil && errors.As(err, &refused) {
			return a.denied(a.in, refused), nil
		}
		return agent.Result{}, err
	}
	if a.spec.Effect {
		// The response may still come: the flight goes on until then, or
		// until nobody would wait for it any more.
		done := a.done
		a.done = nil
		time.AfterFunc(a.cfg.LateWait, done)
	}
	if !errors.As(err, &refused) {
		// Cancelled, or the pipe closed. Whoever tries again finds the effect
		// begun or, if a late response comes, done. A run that goes on
		// without trying again must know.
		if a.spec.Effect && ctx.Err() != nil {
			err = temporal.NewCanceledError("sent")
		}
		return agent.Result{}, err
	}
	if a.spec.Effect {
		return a.unknown(refused.Code, refused.Message), nil
	}
	return a.denied(a.in, refused), nil
}

// follow gets the snapshot from a host that does not append it.
func (a *act) follow(ctx context.Context, resp *pipe.Response) {
	page, domain := a.in.Call.PageID, a.domain
	if d := resp.Data; d != nil {
		if d.PageID != "" {
			page = d.PageID
		}
		if d.Page != nil && d.Page.Domain != "" {
			domain = d.Page.Domain
		}
	}
	params, err := action.Parse(action.GetAOMSnapshot, nil)
	if err != nil || !a.within(domain) || a.policy.Check(policy.Request{Action: action.GetAOMSnapshot, Domain: domain}).Decision != policy.Allow {
		return
	}
	seen, _, err := a.host.Do(ctx, pipe.Command{
		Action: action.GetAOMSnapshot, Params: params, PageID: page, Security: pipe.Security{ExpectedDomain: domain},
	}, nil)
	if err != nil || !seen.Success || seen.Data == nil {
		a.log.Warn("no snapshot after the action", "run_id", a.in.RunID, "step", a.in.Step, "err", err)
		return
	}
	if resp.Data == nil {
		resp.Data = &pipe.Data{}
	}
	resp.Data.Snapshot, resp.Data.Tokens = seen.Data.Snapshot, seen.Data.Tokens
	resp.Data.Events = append(resp.Data.Events, seen.Data.Events...)
	if seen.Data.Page != nil {
		resp.Data.Page = seen.Data.Page
	}
}

// wantsSnapshot: after what may have changed what is to be seen.
func (a *act) wantsSnapshot() bool {
	switch a.in.Call.Action {
	case action.Navigate, action.ScrollTo:
		return a.in.Snapshot
	case action.StorageSet, action.ZombieKill:
		return false
	}
	return a.in.Snapshot && a.spec.Effect
}

// result turns a response into the result for the history and the bodies
// that stay in the journal.
func (a *act) result(resp pipe.Response) (agent.Result, map[string]agent.Body) {
	res := agent.Result{Outcome: agent.OutcomeDone, Page: a.page()}
	data := pipe.Data{}
	if resp.Data != nil {
		data = *resp.Data
	}
	if data.Page != nil {
		res.Page = boundPage(*data.Page)
		a.withhold(&resp, &data)
	}
	if resp.Timing != nil {
		res.ExecMS = max(0, resp.Timing.ExecMS)
	}
	bodies := map[string]agent.Body{}
	if !resp.Success {
		res.Outcome, res.Code = a.failure(resp.Error, data, &res, bodies)
	}
	inline(&res, agent.Body{Text: observation(a.in.Call, res.Outcome, resp), Image: data.Image, MIME: data.MIME}, bodies)
	return res, bodies
}

// withhold leaves out of a response what a page shows that the agent may not
// act on: an action can lead there.
func (a *act) withhold(resp *pipe.Response, data *pipe.Data) {
	if len(a.in.Domains) == 0 {
		return
	}
	if host, err := action.Host(data.Page.Domain); err == nil && a.within(host) {
		return
	}
	data.Snapshot, data.HTML, data.Image, data.MIME = "", "", nil, ""
	data.Events = append(slices.Clone(data.Events), pipe.PageEvent{
		Kind: "blocked", Text: "the page is on a domain that is not permitted to this agent, and is not shown: " + data.Page.Domain,
	})
	resp.Data, resp.AOMSnapshot = data, nil
}

// failure classes an error response.
func (a *act) failure(e *pipe.Error, data pipe.Data, res *agent.Result, bodies map[string]agent.Body) (agent.Outcome, string) {
	if e == nil {
		e = pipe.Errorf(pipe.CodeInternal, "the browser gave no reason")
	}
	code := boundCode(e.Code)
	switch code {
	case pipe.CodeNeedConfirm:
		ask := agent.Subject{Domain: a.domain, URL: res.Page.URL}
		res.Digest = agent.Digest(a.in.Call.Action, a.in.Call.Params, a.in.Call.PageID, ask)
		if c := data.Confirm; c != nil {
			ask = boundSubject(c.Subject)
			res.Digest = head(c.Digest, 2*maxCode)
			if len(c.Image) > 0 {
				ask.Picture = newRef()
				bodies[ask.Picture] = agent.Body{Image: c.Image, MIME: "image/jpeg"}
			}
		}
		res.Ask = &ask
		return agent.OutcomeNeedConfirm, string(code)
	case pipe.CodeRateLimit:
		res.RetryAfterMS = min(data.RetryAfterMS, maxRetry.Milliseconds())
		if res.RetryAfterMS <= 0 {
			res.RetryAfterMS = 1000
		}
		return agent.OutcomeRateLimited, string(code)
	case pipe.CodeConfirmRejected:
		return agent.OutcomeRefused, string(code)
	case pipe.CodeTimeout, pipe.CodeOutcomeUnknown, pipe.CodePageCrashed, pipe.CodeBrowserGone:
		if a.spec.Effect {
			// The host itself cannot tell how far it came.
			return agent.OutcomeUnknown, string(code)
		}
	}
	return agent.OutcomeFailed, string(code)
}

// denied is the result of an action that was not sent.
func (b *Browser) denied(in ActInput, e *pipe.Error) agent.Result {
	page, _ := b.host.Page(in.Call.PageID)
	res := agent.Result{Outcome: agent.OutcomeFailed, Code: string(e.Code), Page: boundPage(page)}
	bodies := map[string]agent.Body{}
	inline(&res, agent.Body{Text: fmt.Sprintf("failed: %s: %s: %s", in.Call.Action, e.Code, e.Message)}, bodies)
	if err := b.journal.Keep(bodies); err != nil {
		b.log.Error("observation not kept", "run_id", in.RunID, "step", in.Step, "err", err)
		res.Ref = ""
	}
	return res
}

// unknown is the result of an effect of which nobody knows what became.
func (a *act) unknown(code pipe.Code, why string) agent.Result {
	return agent.Result{
		Outcome: agent.OutcomeUnknown, Code: string(code), Page: a.page(),
		Text: head(fmt.Sprintf("unknown: %s may or may not have happened: %s. Look at the page before doing anything again.",
			a.in.Call.Action, why), agent.MaxInline),
	}
}

// briefText bounds what a result says of an observation that is kept apart,
// in bytes.
const briefText = 48

// inline puts a body into the result, or into bodies under a ref if it is
// too long for the history.
func inline(res *agent.Result, body agent.Body, bodies map[string]agent.Body) {
	if len(body.Text) <= agent.MaxInline && len(body.Image) == 0 {
		res.Text = body.Text
		return
	}
	body.Page = res.Page
	res.Ref = newRef()
	bodies[res.Ref] = body
	// What is left in the result is for who reads the history.
	first, _, _ := strings.Cut(body.Text, "\n")
	res.Text, res.Page.Title = head(first, briefText), ""
}

// announce shows the action in the execution log at the browser, once.
func (a *act) announce(ctx context.Context) {
	if a.in.TaskID == "" || activity.GetInfo(ctx).Attempt > 1 {
		return
	}
	message := a.in.Log
	if message == "" {
		message = describe(a.in.Call, a.cfg.Locale)
	}
	a.host.Offer(&pipe.Log{Type: pipe.TypeLog, TaskID: a.in.TaskID, Time: time.Now().UTC(), Level: "info", Message: message})
}

// report shows in the execution log what did not go well.
func (a *act) report(res agent.Result) {
	if a.in.TaskID == "" {
		return
	}
	switch res.Outcome {
	case agent.OutcomeFailed, agent.OutcomeUnknown, agent.OutcomeRefused:
		line, _, _ := strings.Cut(res.Text, "\n")
		if res.Outcome == agent.OutcomeRefused {
			line = locale.Text(a.cfg.Locale, locale.Refused) + ": " + describe(a.in.Call, a.cfg.Locale)
		}
		a.host.Offer(&pipe.Log{Type: pipe.TypeLog, TaskID: a.in.TaskID, Time: time.Now().UTC(), Level: "warn", Message: line})
	}
}

// errStopping ends the actions of a process that is about to end.
var errStopping = errors.New("pipehost is stopping")

// beat sends heartbeats until rest is called: they tell the server that this
// process lives, and bring back a cancellation. The context it returns ends
// with errStopping when the worker stops.
func (b *Browser) beat(ctx context.Context) (_ context.Context, rest func()) {
	// A heartbeat on its way must not end with the activity: the SDK would
	// warn of it.
	whole := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	stop := activity.GetWorkerStopChannel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(b.cfg.Heartbeat)
		defer t.Stop()
		var finish <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				activity.RecordHeartbeat(whole)
			case <-stop:
				stop, finish = nil, time.After(b.cfg.Finish)
			case <-finish:
				cancel(errStopping)
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// newRef makes a ref for the journal: 65 random bits.
func newRef() string { return rand.Text()[:13] }

func deref(r *agent.Result) agent.Result {
	if r == nil {
		return agent.Result{}
	}
	return *r
}
