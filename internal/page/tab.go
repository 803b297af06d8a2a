package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

const (
	// patience is how long an action may take, without what Inspect takes:
	// less than the pipe's 30 s, so that there is always an answer.
	patience = 25 * time.Second
)

// Page is one page.
type Page struct {
	tracker
	frames
	asking asking
	// unchosen is the selector of the last select that the page asked about
	// and was answered No. It belongs to the request at hand.
	unchosen string

	b      *Browser
	id     string
	zombie bool
	popup  bool          // another page opened it
	busy   chan struct{} // capacity 1: holds the one request at a time
}

func newPage(b *Browser, id string, a cdp.AttachedToTarget, zombie bool) *Page {
	t := a.TargetInfo
	return &Page{
		tracker: tracker{
			gone: b.conn.Done(), err: b.conn.Err, changed: make(chan struct{}),
			state: state{url: t.URL, title: t.Title, inflight: map[string]bool{}},
		},
		frames: frames{
			log: b.log, conn: b.conn, target: t.TargetID, session: a.SessionID,
			worlds: map[frameKey]world{}, oopif: map[string]string{}, owners: map[string]node{},
		},
		b: b, id: id, zombie: zombie, popup: t.OpenerID != "", busy: make(chan struct{}, 1),
	}
}

// setUp makes a session ready before anything runs in it.
func (p *Page) setUp(ctx context.Context) error {
	life := context.WithoutCancel(ctx) // the handler ends with the session
	p.conn.Handle(p.session, func(e cdp.Event) { p.onEvent(life, p.session, e) })
	if err := p.intercept(ctx, p.session); err != nil {
		return err
	}
	list := p.setUpCalls(true)
	calls := make([]cdp.Pending, 0, len(list))
	for _, c := range list {
		call, err := p.conn.Go(ctx, p.session, c.method, c.params)
		if err != nil {
			return err
		}
		calls = append(calls, call)
	}
	var errs []error
	for i, c := range calls {
		var refused *cdp.Error
		err := c.Wait(ctx, nil)
		if errors.As(err, &refused) && list[i].dispensable {
			p.log.Debug("page set-up step refused", "err", err) // an older browser
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// command is a DevTools command to be sent.
type command struct {
	method      string
	params      any
	dispensable bool // of a set-up: the page can be used without it
}

// intercept has every document of a session asked about. Without it nothing
// may run there.
func (p *Page) intercept(ctx context.Context, session string) error {
	return p.conn.Call(ctx, session, "Fetch.enable", cdp.FetchEnable{
		HandleAuthRequests: true,
		Patterns:           []cdp.RequestPattern{{URLPattern: "*", ResourceType: "Document", RequestStage: "Request"}},
	}, nil)
}

func (p *Page) setUpCalls(top bool) []command {
	list := []command{
		{method: "Page.enable"},
		{method: "Inspector.enable", dispensable: true},
		{method: "Network.enable", params: struct {
			Total    int `json:"maxTotalBufferSize"`
			Resource int `json:"maxResourceBufferSize"`
		}{1, 1}},
		{method: "Target.setAutoAttach", params: cdp.SetAutoAttach{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: true, Filter: []cdp.TargetFilter{{Type: "iframe"}}}},
	}
	if p.b.opts.Strict {
		list = append(list, command{method: "Network.setBypassServiceWorker", params: cdp.Toggle{Bypass: true}})
	}
	if top {
		list = append(list,
			command{method: "Page.setLifecycleEventsEnabled", params: cdp.Toggle{Enabled: true}},
			command{method: "Emulation.setFocusEmulationEnabled", params: cdp.Toggle{Enabled: true}, dispensable: true},
			command{method: "Page.setInterceptFileChooserDialog", params: cdp.Toggle{Enabled: true, Cancel: true}, dispensable: true})
	}
	return append(list, command{method: "Runtime.runIfWaitingForDebugger"})
}

// ID is the page's own id, by which it can be had while another page is the
// main one.
func (p *Page) ID() string { return p.id }

// Info says where the page stands, without asking it. Its ID is empty while
// it is the main page.
func (p *Page) Info() agent.Page {
	s := p.now()
	info := agent.Page{ID: p.id, URL: clip(s.url, 2048), Domain: Domain(s.url), Title: clip(cleanText(s.title), 256)}
	if p.b.Main() == p {
		info.ID = ""
	}
	return info
}

// Domain is the host of a document's URL as policies compare it; empty for
// anything but http and https, an error page included.
func Domain(rawURL string) string {
	if u, err := url.Parse(rawURL); err == nil && u.User != nil {
		u.User = nil
		rawURL = u.String()
	}
	host, err := action.URLHost(rawURL)
	if err != nil {
		return ""
	}
	return host
}

func origin(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func (p *Page) takeEvents() []pipe.PageEvent {
	return append(p.popEvents(), p.b.takeEvents()...)
}

func (p *Page) close(ctx context.Context) error {
	err := p.conn.Call(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: p.target}, nil)
	var refused *cdp.Error
	if errors.As(err, &refused) {
		return nil // it is gone already
	}
	return err
}

// acquire takes the page for one request.
func (p *Page) acquire(ctx context.Context) (release func(), err error) {
	select {
	case p.busy <- struct{}{}:
		return func() { <-p.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Do carries out one action. Data is never nil and carries the page, also
// with an error. Nodes are set for getAomSnapshot with format "tree" only.
// ctx should leave the action its time: it gives up by itself after 25 s,
// waiting for earlier requests of the page and for Inspect not counted.
func (p *Page) Do(ctx context.Context, r Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	switch r.Action {
	case action.ZombieSpawn, action.ZombieKill:
		return p.background(ctx, r)
	}
	release, err := p.acquire(ctx)
	if err != nil {
		return &pipe.Data{Page: ptr(p.Info())}, nil, fault(err)
	}
	defer release()
	clock := newClock(ctx, patience)
	if r.Action == action.WaitForSelector {
		clock.grant(4 * time.Second) // timeout_ms may be 30 s
	}
	defer clock.stop()
	data, nodes, e := p.carryOut(clock, r)
	e = p.endAsking(e)
	if data == nil {
		data = &pipe.Data{}
	}
	p.finish(clock.ctx, r, data, e)
	return data, nodes, e
}

func (p *Page) carryOut(c *clock, r Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	if p.now().crashed && r.Action != action.Navigate {
		return nil, nil, fault(cdp.ErrCrashed)
	}
	if r.Action != action.Navigate {
		if e := p.expect(r.ExpectedDomain); e != nil {
			return nil, nil, e
		}
	}
	var data *pipe.Data
	var e *pipe.Error
	switch r.Action {
	case action.Navigate:
		data, e = goTo(c.ctx, p, r)
	case action.Click:
		data, e = clickOn(c, p, r)
	case action.Type:
		data, e = typeInto(c, p, r)
	case action.Select:
		data, e = selectIn(c, p, r)
	case action.GetText:
		data, e = getText(c.ctx, p, r)
	case action.GetHTML:
		data, e = getHTML(c.ctx, p, r)
	case action.WaitForSelector:
		data, e = waitFor(c.ctx, p, r)
	case action.PageScreenshot:
		data, e = takeScreenshot(c.ctx, p, r)
	case action.ScrollTo:
		data, e = scroll(c.ctx, p, r)
	case action.GetAOMSnapshot:
		return getSnapshot(c.ctx, p, r)
	case action.StorageSet:
		data, e = storageSet(c.ctx, p, r)
	case action.StorageGet:
		data, e = storageGet(c.ctx, p, r)
	default:
		e = pipe.Errorf(pipe.CodeActionNotAllowed, "a page cannot do %q", r.Action)
	}
	return data, nil, e
}

// finish adds what every reply has: the page, what happened besides, and the
// snapshot if it was asked for.
func (p *Page) finish(ctx context.Context, r Request, data *pipe.Data, e *pipe.Error) {
	shown := p
	s := p.now()
	if main := p.b.Main(); s.closed && main != nil {
		shown = main
	}
	if !s.closed && !s.crashed && r.Action != action.GetAOMSnapshot {
		short, cancel := context.WithTimeout(ctx, time.Second)
		var a answer
		if s.navigating {
			cancel() // its document is about to go
		} else if err := p.ask(short, p.main(), "about", args{}, &a); err == nil {
			p.update(func(s *state) { s.title = a.Title })
		}
		cancel()
	}
	if r.SnapshotAfter && data.Snapshot == "" && (e == nil || e.Code != pipe.CodePageCrashed && e.Code != pipe.CodeBrowserGone) {
		// The tab that a click opened is what the model has to see.
		if main := p.b.Main(); !p.zombie && main != nil && main != p {
			shown = main
		}
		data.Events = append(data.Events, p.takeEvents()...)
		s, err := shown.snapshot(ctx, snapshotOptions{tokens: 4000, events: data.Events})
		if err == nil {
			data.Snapshot, data.Tokens = s.text, s.tokens
			data.Truncated, data.Rest = data.Truncated || s.truncated, orElse(data.Rest, s.rest)
		} else {
			p.log.Debug("no snapshot after the action", "action", r.Action, "err", err)
		}
	}
	data.Page = ptr(shown.Info())
	data.Events = append(data.Events, p.takeEvents()...)
}

// background carries out the actions that are about other pages.
func (p *Page) background(ctx context.Context, r Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	data := &pipe.Data{Page: ptr(p.Info())}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.Action == action.ZombieKill {
		params, err := action.Decode[action.ZombieKillParams](r.Params)
		if err != nil {
			return data, nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
		}
		if e := p.b.Kill(ctx, params.PageID); e != nil {
			return data, nil, e
		}
		data.Text = fmt.Sprintf("closed page %s", params.PageID)
		data.Events = p.takeEvents()
		return data, nil, nil
	}
	params, err := action.Decode[action.ZombieSpawnParams](r.Params)
	if err != nil {
		return data, nil, pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	if e := expectHost(params.URL, r.ExpectedDomain); e != nil {
		return data, nil, e
	}
	spawned, e := p.b.Spawn(ctx, params.URL)
	if e != nil {
		return data, nil, e
	}
	info := spawned.Info()
	data.Page, data.PageID = &info, spawned.id
	data.Text = fmt.Sprintf("opened %s in the background; its page_id is %s", info.URL, spawned.id)
	if r.SnapshotAfter {
		if s, err := spawned.snapshot(ctx, snapshotOptions{tokens: 4000}); err == nil {
			data.Snapshot, data.Tokens, data.Truncated, data.Rest = s.text, s.tokens, s.truncated, s.rest
		}
	}
	data.Events = spawned.takeEvents()
	return data, nil, nil
}

// expect checks the domain of the page as it is now.
func (p *Page) expect(domain string) *pipe.Error {
	if domain == "" {
		return nil
	}
	here := p.Info()
	if here.Domain == "" {
		return pipe.Errorf(pipe.CodeNoPage, "no page of a site is open; navigate first")
	}
	if here.Domain != domain {
		return pipe.Errorf(pipe.CodeDomainMismatch, "expected domain %s but the current page is %s", domain, here.Domain)
	}
	return nil
}

func expectHost(rawURL, domain string) *pipe.Error {
	host, err := action.URLHost(rawURL)
	if err != nil {
		return pipe.Errorf(pipe.CodeDomainNotAllowed, "%v", err)
	}
	if domain != "" && host != domain {
		return pipe.Errorf(pipe.CodeDomainMismatch, "expected domain %s but the URL's is %s", domain, host)
	}
	return nil
}

func (p *Page) onEvent(ctx context.Context, session string, e cdp.Event) {
	switch e.Method {
	case "Fetch.requestPaused":
		decode(p, e, func(r cdp.RequestPaused) { p.onRequest(ctx, session, r) })
	case "Fetch.authRequired":
		decode(p, e, func(r cdp.RequestPaused) {
			reply := cdp.ContinueWithAuth{RequestID: r.RequestID}
			reply.Response.Response = "CancelAuth"
			_ = p.conn.Post(ctx, session, "Fetch.continueWithAuth", reply)
			p.event("auth", "%s asked for a user name and password (HTTP); the question was cancelled", clip(r.Request.URL, 200))
		})
	case "Page.javascriptDialogOpening":
		decode(p, e, func(d cdp.DialogOpening) { p.onDialog(ctx, session, d) })
	case "Page.windowOpen":
		decode(p, e, func(f cdp.FrameEvent) { p.update(func(s *state) { s.opening = f.URL }) })
	case "Page.fileChooserOpened":
		p.event("filechooser", "the page asked for a file; none was chosen")
	case "Page.frameNavigated":
		decode(p, e, func(n cdp.FrameNavigated) { p.onNavigated(ctx, n.Frame) })
	case "Page.navigatedWithinDocument":
		decode(p, e, func(f cdp.FrameEvent) {
			if f.FrameID == p.target {
				p.update(func(s *state) { s.url = f.URL })
			}
		})
	case "Page.frameStartedNavigating", "Page.frameRequestedNavigation":
		decode(p, e, func(f cdp.FrameEvent) {
			if f.FrameID == p.target && !strings.HasSuffix(f.NavigationType, "SameDocument") && !strings.HasPrefix(f.NavigationType, "sameDocument") {
				p.update(func(s *state) { s.navigating = true })
			}
		})
	case "Page.frameStoppedLoading", "Page.frameClearedScheduledNavigation":
		decode(p, e, func(f cdp.FrameEvent) {
			if f.FrameID == p.target && e.Method == "Page.frameStoppedLoading" {
				p.update(func(s *state) { s.navigating = false })
			}
		})
	case "Page.lifecycleEvent":
		decode(p, e, func(f cdp.FrameEvent) {
			if f.FrameID != p.target {
				return
			}
			switch f.Name {
			case "DOMContentLoaded":
				p.update(func(s *state) { s.domReady = f.LoaderID })
			case "load":
				p.update(func(s *state) { s.domReady, s.loaded = f.LoaderID, f.LoaderID })
			}
		})
	case "Network.requestWillBeSent":
		decode(p, e, func(r cdp.NetworkRequest) {
			if r.Type == "XHR" || r.Type == "Fetch" {
				p.asking.noteRequest(r.Request.Method)
				p.update(func(s *state) { s.inflight[r.RequestID] = true; s.waiting = len(s.inflight) })
			}
		})
	case "Network.loadingFinished", "Network.loadingFailed":
		decode(p, e, func(r cdp.NetworkRequest) {
			p.update(func(s *state) { delete(s.inflight, r.RequestID); s.waiting = len(s.inflight) })
		})
	case "Inspector.targetCrashed":
		if session == p.session {
			p.update(func(s *state) { s.crashed, s.navigating = true, false })
		}
		p.event("crash", "the page's process crashed")
	case "Target.attachedToTarget":
		decode(p, e, func(a cdp.AttachedToTarget) { p.onFrame(ctx, a) })
	case "Target.detachedFromTarget":
		decode(p, e, func(d cdp.DetachedFromTarget) { p.together(d.SessionID) })
	}
}

func decode[T any](p *Page, e cdp.Event, fn func(T)) {
	var v T
	if err := json.Unmarshal(e.Params, &v); err != nil {
		p.log.Warn("event ignored", "method", e.Method, "err", err)
		return
	}
	fn(v)
}

// onRequest lets a document be requested, or not. Kept away, the page stays
// as it is.
func (p *Page) onRequest(ctx context.Context, session string, r cdp.RequestPaused) {
	isMain := r.FrameID == p.target && r.ResourceType == "Document"
	if e := p.b.allowed(r.Request.URL); e != nil {
		p.update(func(s *state) {
			if isMain {
				s.hops = append(s.hops, r.Request.URL)
				s.blocked, s.navigating = pipe.Errorf(e.Code, "%s (%s)", e.Message, chainText(s.hops)), false
				s.hops = nil
			}
		})
		what := "a frame"
		if isMain {
			what = "the page"
		}
		p.event("blocked", "%s wanted to open %s: %s", what, clip(r.Request.URL, 200), e.Message)
		// Aborted, unlike a block, leaves the old document in its place.
		_ = p.conn.Post(ctx, session, "Fetch.failRequest", cdp.RequestRef{RequestID: r.RequestID, ErrorReason: "Aborted"})
		if isMain && p.popup && Domain(p.url()) == "" {
			// An empty tab is of no use to anybody.
			p.b.event("blocked", "a new tab was closed: %s", e.Message)
			_ = p.conn.Post(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: p.target})
		}
		return
	}
	if isMain {
		p.update(func(s *state) {
			s.navigating = true
			s.hops = append(s.hops, r.Request.URL)
		})
	}
	_ = p.conn.Post(ctx, session, "Fetch.continueRequest", cdp.RequestRef{RequestID: r.RequestID})
}

func chainText(hops []string) string {
	short := make([]string, 0, len(hops))
	for _, h := range hops[max(0, len(hops)-6):] {
		short = append(short, clip(h, 120))
	}
	return strings.Join(short, " → ")
}

func (p *Page) onNavigated(ctx context.Context, f cdp.Frame) {
	if f.ID != p.target {
		return
	}
	shown := f.URL + f.URLFragment
	if f.UnreachableURL != "" {
		shown = "chrome-error://chromewebdata/"
	}
	before := p.url()
	p.leaveAll()
	p.update(func(s *state) {
		s.url, s.loader, s.navigating, s.crashed = shown, f.LoaderID, false, false
		s.commits++
		s.hops = nil
		s.inflight, s.waiting = map[string]bool{}, 0
	})
	if before != shown && before != "" {
		p.event("navigation", "the page is now %s", clip(shown, 300))
	}
	// What was requested was allowed; a document that is there all the same
	// and must not be is left at once.
	if Domain(shown) != "" {
		if e := p.b.allowed(shown); e != nil {
			p.update(func(s *state) { s.blocked = e })
			p.event("blocked", "%s was left: %s", clip(shown, 200), e.Message)
			_ = p.conn.Post(ctx, p.session, "Page.navigate", cdp.Navigate{URL: "about:blank"})
		}
	}
}

// onFrame sets up a frame that has got a process of its own. It is paused
// until then.
func (p *Page) onFrame(ctx context.Context, a cdp.AttachedToTarget) {
	p.apart(a.TargetInfo.TargetID, a.SessionID)
	p.conn.Handle(a.SessionID, func(e cdp.Event) { p.onEvent(ctx, a.SessionID, e) })
	go func() {
		if err := p.intercept(ctx, a.SessionID); err != nil {
			if !errors.Is(err, cdp.ErrDetached) && !errors.Is(err, cdp.ErrClosed) {
				p.log.Warn("frame left paused", "err", err)
			}
			return
		}
		for _, c := range p.setUpCalls(false) {
			if err := p.conn.Post(ctx, a.SessionID, c.method, c.params); err != nil {
				return
			}
		}
	}()
}

// fault gives an error of DevTools its code.
func fault(err error) *pipe.Error {
	var e *pipe.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, cdp.ErrCrashed):
		return pipe.Errorf(pipe.CodePageCrashed, "the page's process crashed; navigate to open it again")
	case errors.Is(err, cdp.ErrDetached):
		return pipe.Errorf(pipe.CodeNoPage, "the page was closed")
	case errors.Is(err, cdp.ErrClosed):
		return pipe.Errorf(pipe.CodeBrowserGone, "the browser is gone: %v", err)
	case errors.Is(err, errHung), errors.Is(err, context.DeadlineExceeded):
		return pipe.Errorf(pipe.CodeTimeout, "the page did not answer in time: %v", err)
	case errors.Is(err, context.Canceled):
		return pipe.Errorf(pipe.CodeInternal, "the request was given up: %v", err)
	}
	return pipe.Errorf(pipe.CodeInternal, "%v", err)
}

// clock limits an action in time, but stands still while a person is asked.
type clock struct {
	ctx    context.Context //nolint:containedctx // made and ended with the action
	cancel context.CancelCauseFunc
	timer  *time.Timer
	end    time.Time
}

func newClock(ctx context.Context, d time.Duration) *clock {
	inner, cancel := context.WithCancelCause(ctx)
	c := &clock{ctx: deadline{inner}, cancel: cancel, end: time.Now().Add(d)}
	c.timer = time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return c
}

// deadline says why it ended in Err, as a context with a timeout does.
type deadline struct{ context.Context }

func (d deadline) Err() error {
	if d.Context.Err() == nil {
		return nil
	}
	if cause := context.Cause(d.Context); errors.Is(cause, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

func (c *clock) grant(d time.Duration) {
	c.end = c.end.Add(d)
	c.timer.Reset(time.Until(c.end))
}

// hold runs fn off the clock.
func (c *clock) hold(fn func()) {
	c.timer.Stop()
	left := time.Until(c.end)
	fn()
	c.end = time.Now().Add(left)
	c.timer.Reset(left)
}

func (c *clock) stop() {
	c.timer.Stop()
	c.cancel(context.Canceled)
}

func ptr[T any](v T) *T { return &v }

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// clip shortens what is quoted, in bytes.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
