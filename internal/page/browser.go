package page

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// maxTabs bounds the tabs that pages open by themselves.
const maxTabs = 10

// Browser is a set of pages of one Chromium: a main page, which every request
// without a page id is for, background pages ("zombies"), and tabs that pages
// opened. A tab that the main page opens becomes the main page until it is
// closed; the page behind it can still be had by its id.
type Browser struct {
	log  *slog.Logger
	conn *cdp.Conn
	opts Options
	refs *refTable

	mu        sync.Mutex
	pages     map[string]*Page // by id
	byTarget  map[string]*Page
	front     []*Page // main page last
	wanted    map[string]chan *Page
	orphans   map[string]cdp.AttachedToTarget
	windows   map[string]*Window // by target
	creating  int
	tabs      int // ids given
	zombies   int
	downloads map[string]*download
	events    []pipe.PageEvent // of tabs and downloads, for the next reply of any page
	changed   chan struct{}    // closed when any of the above changes
	closed    bool
}

// Open takes over the browser at the other end of conn and returns when its
// main page can be used. The caller keeps conn and closes it after the
// Browser.
func Open(ctx context.Context, log *slog.Logger, conn *cdp.Conn, opts Options) (*Browser, error) {
	if opts.MaxDownload == 0 {
		opts.MaxDownload = 100 << 20
	}
	if opts.Patience == 0 {
		opts.Patience = 3 * time.Second
	}
	b := &Browser{
		log: log, conn: conn, opts: opts, refs: newRefTable(),
		pages: map[string]*Page{}, byTarget: map[string]*Page{}, wanted: map[string]chan *Page{},
		orphans: map[string]cdp.AttachedToTarget{}, windows: map[string]*Window{}, downloads: map[string]*download{}, changed: make(chan struct{}),
	}
	b.refs.last, b.zombies, b.tabs = opts.NumberAfter, opts.NumberAfter, opts.NumberAfter
	life := context.WithoutCancel(ctx)
	conn.Handle("", func(e cdp.Event) { b.onEvent(life, e) })
	only := []cdp.TargetFilter{{Type: "page"}}
	behaviour := cdp.SetDownloadBehavior{Behavior: "deny", EventsEnabled: true}
	if opts.DownloadDir != "" {
		behaviour.Behavior, behaviour.DownloadPath = "allowAndName", opts.DownloadDir
	}
	for _, c := range []command{
		{method: "Target.setDiscoverTargets", params: cdp.SetDiscoverTargets{Discover: true, Filter: only}},
		{method: "Browser.setDownloadBehavior", params: behaviour},
		{method: "Target.setAutoAttach", params: cdp.SetAutoAttach{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: true, Filter: only}},
	} {
		if err := conn.Call(ctx, "", c.method, c.params, nil); err != nil {
			return nil, fmt.Errorf("take over browser: %w", err)
		}
	}
	if opts.Attached {
		p, err := b.create(ctx, "about:blank", "", false)
		if err != nil {
			return nil, fmt.Errorf("open page: %w", err)
		}
		b.push(p)
		return b, nil
	}
	if err := b.await(ctx, func() bool { return len(b.front) > 0 }); err != nil {
		return nil, fmt.Errorf("no page to begin with: %w", err)
	}
	return b, nil
}

// Main is the page in front. It is nil only for the moment between the
// closing of the last tab and the opening of a fresh one.
func (b *Browser) Main() *Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mainLocked()
}

func (b *Browser) mainLocked() *Page {
	if len(b.front) == 0 {
		return nil
	}
	return b.front[len(b.front)-1]
}

// Page finds a page by id; "" is the main page.
func (b *Browser) Page(id string) (*Page, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "" {
		p := b.mainLocked()
		return p, p != nil
	}
	p, ok := b.pages[id]
	return p, ok
}

// Spawn opens a background page and waits until it is loaded; its id is
// ID(). More than MaxZombies are CMD_ZOMBIE_POOL_FULL. A page that cannot be
// loaded is closed again.
func (b *Browser) Spawn(ctx context.Context, url string) (*Page, *pipe.Error) {
	if e := b.allowed(url); e != nil {
		return nil, e
	}
	b.mu.Lock()
	open := 0
	for _, p := range b.pages {
		if p.zombie {
			open++
		}
	}
	if open+b.creating >= MaxZombies {
		b.mu.Unlock()
		return nil, pipe.Errorf(pipe.CodeZombiePoolFull, "%d background pages are open; close one with zombieKill first", open)
	}
	b.zombies++
	id := "zombie" + strconv.Itoa(b.zombies)
	b.mu.Unlock()

	p, err := b.create(ctx, "about:blank", id, true)
	if err != nil {
		return nil, fault(err)
	}
	release, err := p.acquire(ctx)
	if err == nil {
		defer release()
		_, e := p.navigate(ctx, url)
		if e == nil {
			return p, nil
		}
		err = e
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := p.close(end); err == nil {
		_ = b.await(end, func() bool { return b.pages[id] == nil })
	}
	return nil, fault(err)
}

// Kill closes a background page, or a tab that a page opened;
// CMD_ZOMBIE_NOT_FOUND if there is none of that id.
func (b *Browser) Kill(ctx context.Context, id string) *pipe.Error {
	b.mu.Lock()
	p, ok := b.pages[id]
	last := ok && len(b.front) == 1 && b.front[0] == p
	b.mu.Unlock()
	if !ok {
		return pipe.Errorf(pipe.CodeZombieNotFound, "there is no page %q", id)
	}
	if last {
		return pipe.Errorf(pipe.CodeZombieNotFound, "%q is the main page, which cannot be closed", id)
	}
	if err := p.close(ctx); err != nil {
		return fault(err)
	}
	err := b.await(ctx, func() bool { return b.pages[id] == nil })
	if err != nil {
		return fault(err)
	}
	return nil
}

// Done is closed when the browser is gone; Err then says why.
func (b *Browser) Done() <-chan struct{} { return b.conn.Done() }

// Err says why the browser is gone; nil while it lives.
func (b *Browser) Err() error { return b.conn.Err() }

// Close closes all pages and lets go of the browser, which it does not end.
func (b *Browser) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	list := make([]*Page, 0, len(b.pages))
	for _, p := range b.pages {
		list = append(list, p)
	}
	windows := slices.Collect(maps.Keys(b.windows))
	b.mu.Unlock()
	var errs []error
	for _, t := range windows {
		// One that the person has closed already is as good.
		_ = b.conn.Post(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: t})
	}
	for _, p := range list {
		if err := p.close(ctx); err != nil && !errors.Is(err, cdp.ErrClosed) {
			errs = append(errs, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := b.await(short, func() bool { return len(b.pages) == 0 }); err != nil && b.Err() == nil {
		errs = append(errs, fmt.Errorf("close pages: %w", err))
	}
	for _, c := range []command{
		{method: "Target.setAutoAttach", params: cdp.SetAutoAttach{Flatten: true}},
		{method: "Target.setDiscoverTargets", params: cdp.SetDiscoverTargets{}},
	} {
		if err := b.conn.Call(ctx, "", c.method, c.params, nil); err != nil && !errors.Is(err, cdp.ErrClosed) {
			errs = append(errs, err)
		}
	}
	b.conn.Handle("", nil)
	return errors.Join(errs...)
}

// ClearCookies removes the cookies of a host and its sub-domains and tells
// how many there were.
func (b *Browser) ClearCookies(ctx context.Context, host string) (int, *pipe.Error) {
	p := b.Main()
	if p == nil {
		return 0, pipe.Errorf(pipe.CodeNoPage, "no page is open")
	}
	var all cdp.Cookies
	if err := b.conn.Call(ctx, "", "Storage.getCookies", nil, &all); err != nil {
		return 0, fault(err)
	}
	n := 0
	for _, c := range all.Cookies {
		domain := strings.ToLower(strings.TrimPrefix(c.Domain, "."))
		if domain != host && !strings.HasSuffix(domain, "."+host) {
			continue
		}
		if err := b.conn.Call(ctx, p.session, "Network.deleteCookies", c, nil); err != nil {
			return n, fault(err)
		}
		n++
	}
	return n, nil
}

// ClearStorage removes all that a host has stored in the browser, except
// cookies.
func (b *Browser) ClearStorage(ctx context.Context, host string) *pipe.Error {
	bracketed := host
	if strings.Contains(host, ":") {
		bracketed = "[" + host + "]"
	}
	origins := map[string]bool{"https://" + bracketed: true, "http://" + bracketed: true}
	b.mu.Lock()
	var here []*Page
	for _, p := range b.pages {
		url := p.url()
		if Domain(url) == host {
			origins[origin(url)] = true
			here = append(here, p)
		}
	}
	main := b.mainLocked()
	b.mu.Unlock()
	if main == nil {
		return pipe.Errorf(pipe.CodeNoPage, "no page is open")
	}
	const types = "local_storage,indexeddb,cache_storage,service_workers,file_systems,shared_storage,storage_buckets"
	for o := range origins {
		if err := b.conn.Call(ctx, main.session, "Storage.clearDataForOrigin", cdp.ClearDataForOrigin{Origin: o, StorageTypes: types}, nil); err != nil {
			return fault(err)
		}
	}
	for _, p := range here {
		var a answer
		if err := p.ask(ctx, p.main(), "sessionClear", args{}, &a); err != nil {
			return fault(err)
		}
	}
	return nil
}

// allowed asks Options.Allow, after what holds for everybody.
func (b *Browser) allowed(rawURL string) *pipe.Error {
	if _, err := action.URLHost(rawURL); err != nil {
		return pipe.Errorf(pipe.CodeDomainNotAllowed, "%v", err)
	}
	if b.opts.Allow == nil {
		return nil
	}
	return b.opts.Allow(rawURL)
}

// await waits until ok, which is called with the lock held.
func (b *Browser) await(ctx context.Context, ok func() bool) error {
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-b.conn.Done():
			return b.conn.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// touch wakes those in await. The lock is held.
func (b *Browser) touch() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// create opens a page of our own. id is empty for tabs.
func (b *Browser) create(ctx context.Context, url, id string, zombie bool) (*Page, error) {
	b.mu.Lock()
	b.creating++
	b.mu.Unlock()
	var res cdp.TargetRef
	err := b.conn.Call(ctx, "", "Target.createTarget", cdp.CreateTarget{URL: url, Background: zombie}, &res)
	b.mu.Lock()
	b.creating--
	if err != nil {
		b.mu.Unlock()
		return nil, err
	}
	attached, ok := b.orphans[res.TargetID]
	delete(b.orphans, res.TargetID)
	ready := make(chan *Page, 1)
	if !ok {
		b.wanted[res.TargetID] = ready
	}
	strays := b.takeStrays()
	b.mu.Unlock()
	for _, a := range strays {
		go b.adopt(context.WithoutCancel(ctx), a)
	}
	if ok {
		return b.take(ctx, attached, id, zombie)
	}
	select {
	case p := <-ready:
		if p == nil {
			return nil, cdp.ErrDetached
		}
		b.mu.Lock()
		if zombie {
			delete(b.pages, p.id)
			p.id, p.zombie = id, true
			b.pages[id] = p
		}
		b.mu.Unlock()
		return p, nil
	case <-b.conn.Done():
		return nil, b.conn.Err()
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.wanted, res.TargetID)
		b.mu.Unlock()
		return nil, ctx.Err()
	}
}

// takeStrays takes what came up while targets were being created and was none
// of them. The lock is held.
func (b *Browser) takeStrays() []cdp.AttachedToTarget {
	if b.creating > 0 {
		return nil
	}
	strays := slices.Collect(maps.Values(b.orphans))
	clear(b.orphans)
	return strays
}

// take makes a Page of an attached target and sets its session up.
func (b *Browser) take(ctx context.Context, a cdp.AttachedToTarget, id string, zombie bool) (*Page, error) {
	b.mu.Lock()
	if id == "" {
		b.tabs++
		id = "tab" + strconv.Itoa(b.tabs)
	}
	p := newPage(b, id, a, zombie)
	b.pages[id] = p
	b.byTarget[p.target] = p
	b.mu.Unlock()
	if err := p.setUp(ctx); err != nil {
		b.drop(p)
		return nil, err
	}
	return p, nil
}

// event notes something for the next reply.
func (b *Browser) event(kind, format string, v ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) < maxEvents {
		b.events = append(b.events, pipe.PageEvent{Kind: kind, Text: cleanText(fmt.Sprintf(format, v...))})
	}
}

func (b *Browser) takeEvents() []pipe.PageEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.events
	b.events = nil
	return list
}

// push makes p the main page.
func (b *Browser) push(p *Page) {
	b.mu.Lock()
	b.front = append(b.front, p)
	b.touch()
	b.mu.Unlock()
}

// drop forgets a page that is gone. If no tab is left, a fresh one is opened.
func (b *Browser) drop(p *Page) {
	p.update(func(s *state) { s.closed = true })
	b.mu.Lock()
	if b.pages[p.id] == p {
		delete(b.pages, p.id)
	}
	delete(b.byTarget, p.target)
	wasMain := b.mainLocked() == p
	for i, q := range b.front {
		if q == p {
			b.front = append(b.front[:i], b.front[i+1:]...)
			break
		}
	}
	next := b.mainLocked()
	lost := wasMain && next == nil && !b.closed
	b.touch()
	b.mu.Unlock()
	if wasMain && next != nil {
		b.event("popup", "the tab %s was closed; %s is the current page again", p.id, clip(next.url(), 200))
	}
	if lost {
		go b.reopen()
	}
}

func (b *Browser) reopen() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p, err := b.create(ctx, "about:blank", "", false)
	if err != nil {
		if !errors.Is(err, cdp.ErrClosed) {
			b.log.Warn("no page could be opened after the last one was closed", "err", err)
		}
		return
	}
	b.event("popup", "the last tab was closed; this is an empty one")
	b.push(p)
}

func (b *Browser) onEvent(ctx context.Context, e cdp.Event) {
	switch e.Method {
	case "Target.attachedToTarget":
		var a cdp.AttachedToTarget
		if err := e.Decode(&a); err != nil {
			b.log.Warn("event ignored", "err", err)
			return
		}
		go b.adopt(ctx, a)
	case "Target.detachedFromTarget":
		var d cdp.DetachedFromTarget
		if e.Decode(&d) != nil {
			return
		}
		if p := b.bySession(d.SessionID); p != nil {
			b.drop(p)
		}
		b.mu.Lock()
		w := b.windows[d.TargetID]
		delete(b.windows, d.TargetID)
		b.mu.Unlock()
		if w != nil {
			close(w.gone)
		}
	case "Target.targetInfoChanged":
		var c cdp.TargetInfoChanged
		if e.Decode(&c) != nil {
			return
		}
		b.mu.Lock()
		p := b.byTarget[c.TargetInfo.TargetID]
		b.mu.Unlock()
		if p != nil {
			p.update(func(s *state) { s.title = c.TargetInfo.Title })
		}
	case "Browser.downloadWillBegin", "Browser.downloadProgress":
		var d cdp.DownloadEvent
		if e.Decode(&d) == nil {
			b.onDownload(ctx, e.Method == "Browser.downloadWillBegin", d)
		}
	}
}

func (b *Browser) bySession(session string) *Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.byTarget {
		if p.session == session {
			return p
		}
	}
	return nil
}

// adopt decides about a page that has come up: one that was asked for, the
// first one, a tab that a page opened, or, in somebody's own browser, none of
// ours. It is paused until then.
func (b *Browser) adopt(ctx context.Context, a cdp.AttachedToTarget) {
	t := a.TargetInfo
	b.mu.Lock()
	opener := b.byTarget[t.OpenerID]
	ready := b.wanted[t.TargetID]
	delete(b.wanted, t.TargetID)
	window := b.windows[t.TargetID]
	_, fromWindow := b.windows[t.OpenerID]
	if ready == nil && opener == nil && window == nil && !fromWindow && b.creating > 0 {
		b.orphans[t.TargetID] = a // create will look for it
		b.mu.Unlock()
		return
	}
	first := len(b.pages) == 0
	open := len(b.front)
	b.mu.Unlock()

	switch {
	case ready != nil:
		p, err := b.take(ctx, a, "", false)
		if err != nil {
			b.log.Warn("page not set up", "err", err)
		}
		ready <- p
	case window != nil:
		window.attached <- a
	case b.opts.Attached && opener == nil, fromWindow:
		_ = b.conn.Post(ctx, a.SessionID, "Runtime.runIfWaitingForDebugger", nil)
		_ = b.conn.Post(ctx, "", "Target.detachFromTarget", cdp.SessionRef{SessionID: a.SessionID})
	case open >= maxTabs:
		_ = b.conn.Post(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: t.TargetID})
		b.event("popup", "a new tab was closed at once: %d are open", open)
	default:
		if opener == nil && !first {
			opener = b.Main()
		}
		b.adoptTab(ctx, a, opener)
	}
}

func (b *Browser) adoptTab(ctx context.Context, a cdp.AttachedToTarget, opener *Page) {
	if opener != nil {
		opener.update(func(s *state) { s.popups++ })
		defer opener.update(func(s *state) { s.popups-- })
	}
	p, err := b.take(ctx, a, "", false)
	if err != nil {
		if !errors.Is(err, cdp.ErrDetached) && !errors.Is(err, cdp.ErrClosed) {
			b.log.Warn("tab not set up", "err", err)
		}
		return // it was closed at once
	}
	if opener == nil {
		b.push(p)
		return
	}
	if !p.settleFirst(ctx, opener.popOpening()) {
		return // its first document was kept away
	}
	if opener.zombie || b.Main() != opener {
		b.event("popup", "a new tab was opened in the background: %s (page_id %s)", clip(p.url(), 200), p.id)
		return
	}
	b.push(p)
	b.event("popup", "a new tab was opened and is now the current page: %s (its page_id is %s, zombieKill closes it; the page before is page_id %s)", clip(p.url(), 200), p.id, opener.id)
}
