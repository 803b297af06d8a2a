package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
)

// Engine is one running Chromium with its pages. Drive makes the real one.
type Engine interface {
	Info(pageID string) (agent.Page, bool)
	Do(ctx context.Context, pageID string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error)
	Spawn(ctx context.Context, url string) (agent.Page, *pipe.Error)
	Kill(ctx context.Context, pageID string) *pipe.Error
	FillLogin(ctx context.Context, pageID string, l page.Login) (*pipe.Data, *pipe.Error)
	ClearCookies(ctx context.Context, domain string) (int, *pipe.Error)
	ClearStorage(ctx context.Context, domain string) *pipe.Error
	// Done is closed when the browser is gone.
	Done() <-chan struct{}
	// Close ends the browser and leaves no process behind.
	Close(ctx context.Context) error
}

// Launch starts an Engine. before is how many were started before it: their
// refs and page ids must not come up again for something else, see
// page.Options.NumberAfter.
type Launch func(ctx context.Context, before int) (Engine, error)

// A browser that dies is started again, but not for ever.
const (
	maxRelaunches  = 3
	relaunchWindow = 10 * time.Minute
	relaunchPause  = 500 * time.Millisecond // before the first; twice as long before each further one
)

// Browser keeps a Chromium running: if it dies, another one is launched, at
// most 3 times in 10 minutes; after that every command is answered
// CMD_BROWSER_GONE. The other one starts empty: refs and background pages of
// the first are void, and the next response says so.
type Browser struct {
	log    *slog.Logger
	launch Launch
	before int // engines launched
	pause  time.Duration
	stop   context.CancelFunc
	done   chan struct{} // closed when nothing watches any more
	given  chan struct{} // closed when there will be no other browser

	mu       sync.Mutex
	engine   Engine        // nil while there is none
	settled  chan struct{} // closed when there is an engine, or will be none
	gone     *pipe.Error   // why there will be none
	launches []time.Time   // again, within the window
	zombies  map[string]bool
	lost     map[string]bool
	events   []pipe.PageEvent // to be told with the next response
}

// OpenBrowser launches a browser and watches over it until Close. ctx bounds
// the first launch only.
func OpenBrowser(ctx context.Context, log *slog.Logger, launch Launch) (*Browser, error) {
	return openBrowser(ctx, log, launch, relaunchPause)
}

func openBrowser(ctx context.Context, log *slog.Logger, launch Launch, pause time.Duration) (*Browser, error) {
	e, err := launch(ctx, 0)
	if err != nil {
		return nil, err
	}
	b := &Browser{
		log: log, launch: launch, pause: pause, done: make(chan struct{}), given: make(chan struct{}),
		engine: e, settled: make(chan struct{}),
		zombies: make(map[string]bool), lost: make(map[string]bool),
	}
	close(b.settled)
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	go b.watch(watch, e)
	return b, nil
}

// watch replaces engines until ctx ends or the attempts are used up.
func (b *Browser) watch(ctx context.Context, e Engine) {
	defer close(b.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Done():
		}
		b.log.Error("browser gone")
		b.mu.Lock()
		b.engine, b.settled = nil, make(chan struct{})
		for id := range b.zombies {
			b.lost[id] = true
		}
		b.mu.Unlock()
		b.end(ctx, e)
		if e = b.relaunch(ctx); e == nil {
			return
		}
	}
}

// relaunch returns nil if there will be no other browser.
func (b *Browser) relaunch(ctx context.Context) Engine {
	for pause := b.pause; ; pause *= 2 {
		now := time.Now()
		b.launches = slices.DeleteFunc(b.launches, func(t time.Time) bool { return now.Sub(t) > relaunchWindow })
		if len(b.launches) >= maxRelaunches {
			b.log.Error("browser given up", "launches", maxRelaunches, "within", relaunchWindow)
			close(b.given)
			b.settle(nil, pipe.Errorf(pipe.CodeBrowserGone, "the browser died %d times in %s and is not started again", maxRelaunches+1, relaunchWindow))
			return nil
		}
		b.launches = append(b.launches, now)
		select {
		case <-ctx.Done():
			b.settle(nil, closing())
			return nil
		case <-time.After(pause):
		}
		b.before++
		e, err := b.launch(ctx, b.before)
		if err != nil {
			b.log.Error("launch browser again", "err", err)
			continue
		}
		b.settle(e, nil)
		return e
	}
}

func closing() *pipe.Error {
	return pipe.Errorf(pipe.CodeBrowserGone, "the browser host is closing")
}

// settle puts an engine in place, or says that there will be none.
func (b *Browser) settle(e Engine, gone *pipe.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.engine, b.gone = e, gone
	if e != nil {
		text := "the browser died and was started again; refs from before are void, navigate first"
		if len(b.zombies) > 0 {
			ids := make([]string, 0, len(b.zombies))
			for id := range b.zombies {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			text += "; lost background pages: " + strings.Join(ids, ", ")
		}
		b.events = append(b.events, pipe.PageEvent{Kind: "crash", Text: text})
		clear(b.zombies)
	}
	close(b.settled)
}

// end closes an engine, within bounds even if its caller is in a hurry.
func (b *Browser) end(ctx context.Context, e Engine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		b.log.Warn("close browser", "err", err)
	}
}

// Close ends the browser; no process of it is left afterwards.
func (b *Browser) Close(ctx context.Context) {
	b.stop()
	<-b.done
	b.mu.Lock()
	e := b.engine
	b.engine = nil
	if b.gone == nil {
		b.gone = closing()
	}
	b.mu.Unlock()
	if e != nil {
		b.end(ctx, e)
	}
}

// Lost is closed when the browser has died for good.
func (b *Browser) Lost() <-chan struct{} { return b.given }

// Ready waits until there is a browser; an error if there will be none.
func (b *Browser) Ready(ctx context.Context) *pipe.Error {
	_, fault := b.take(ctx)
	return fault
}

// take returns the engine of the moment.
func (b *Browser) take(ctx context.Context) (Engine, *pipe.Error) {
	b.mu.Lock()
	settled := b.settled
	b.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
		return nil, restarting()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		return nil, b.gone
	}
	if b.engine == nil {
		return nil, restarting()
	}
	return b.engine, nil
}

// restarting has a code that says: nothing was done, try again.
func restarting() *pipe.Error {
	return pipe.Errorf(pipe.CodeRateLimit, "the browser died and is being started again; nothing was done")
}

// on is take for a page that must not be one that was lost.
func (b *Browser) on(ctx context.Context, pageID string) (Engine, *pipe.Error) {
	e, fault := b.take(ctx)
	if fault != nil {
		return nil, fault
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost[pageID] {
		return nil, pipe.Errorf(pipe.CodeZombieNotFound, "page %s was lost when the browser died", pageID)
	}
	return e, nil
}

// Notices returns what has happened to the browser since the last call.
func (b *Browser) Notices() []pipe.PageEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}

// Info says where a page stands, see Pages.
func (b *Browser) Info(pageID string) (agent.Page, bool) {
	b.mu.Lock()
	e, lost := b.engine, b.lost[pageID]
	b.mu.Unlock()
	if e == nil || lost {
		return agent.Page{}, pageID == ""
	}
	return e.Info(pageID)
}

// Do carries out an action, see Pages. If the browser dies meanwhile, an
// effect's outcome is unknown.
func (b *Browser) Do(ctx context.Context, pageID string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	e, fault := b.on(ctx, pageID)
	if fault != nil {
		return nil, nil, fault
	}
	data, nodes, fault := e.Do(ctx, pageID, r)
	if fault != nil && isDone(e) {
		spec, _ := action.Lookup(r.Action)
		if spec.Effect && fault.Code != pipe.CodeNeedConfirm {
			return nil, nil, pipe.Errorf(pipe.CodeOutcomeUnknown, "the browser died while %s was under way", r.Action)
		}
		return nil, nil, pipe.Errorf(pipe.CodePageCrashed, "the browser died while %s was under way", r.Action)
	}
	return data, nodes, fault
}

func isDone(e Engine) bool {
	select {
	case <-e.Done():
		return true
	default:
		return false
	}
}

// Spawn opens a background page, see Pages.
func (b *Browser) Spawn(ctx context.Context, url string) (agent.Page, *pipe.Error) {
	e, fault := b.take(ctx)
	if fault != nil {
		return agent.Page{}, fault
	}
	p, fault := e.Spawn(ctx, url)
	if fault != nil {
		return p, fault
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.zombies[p.ID] = true
	delete(b.lost, p.ID)
	return p, nil
}

// Kill closes a background page, see Pages.
func (b *Browser) Kill(ctx context.Context, pageID string) *pipe.Error {
	e, fault := b.on(ctx, pageID)
	if fault != nil {
		return fault
	}
	if fault := e.Kill(ctx, pageID); fault != nil {
		return fault
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.zombies, pageID)
	return nil
}

// FillLogin fills in a log-in form, see Pages.
func (b *Browser) FillLogin(ctx context.Context, pageID string, l page.Login) (*pipe.Data, *pipe.Error) {
	e, fault := b.on(ctx, pageID)
	if fault != nil {
		return nil, fault
	}
	return e.FillLogin(ctx, pageID, l)
}

// ClearCookies logs out of a domain, see Pages.
func (b *Browser) ClearCookies(ctx context.Context, domain string) (int, *pipe.Error) {
	e, fault := b.take(ctx)
	if fault != nil {
		return 0, fault
	}
	return e.ClearCookies(ctx, domain)
}

// ClearStorage forgets what a domain stored, see Pages.
func (b *Browser) ClearStorage(ctx context.Context, domain string) *pipe.Error {
	e, fault := b.take(ctx)
	if fault != nil {
		return fault
	}
	return e.ClearStorage(ctx, domain)
}

// Drive makes an Engine of an opened browser. end is called after the pages
// are closed and ends the browser itself.
func Drive(b *page.Browser, end func(context.Context) error) Engine { return &engine{b, end} }

// engine addresses the pages of a page.Browser by id.
type engine struct {
	*page.Browser
	end func(context.Context) error
}

func (e *engine) page(id string) (*page.Page, *pipe.Error) {
	if p, ok := e.Page(id); ok {
		return p, nil
	}
	return nil, pipe.Errorf(pipe.CodeZombieNotFound, "there is no page %q", id)
}

func (e *engine) Info(id string) (agent.Page, bool) {
	p, ok := e.Page(id)
	if !ok {
		return agent.Page{}, false
	}
	return p.Info(), true
}

func (e *engine) Do(ctx context.Context, id string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	p, fault := e.page(id)
	if fault != nil {
		return nil, nil, fault
	}
	return p.Do(ctx, r)
}

func (e *engine) Spawn(ctx context.Context, url string) (agent.Page, *pipe.Error) {
	p, fault := e.Browser.Spawn(ctx, url)
	if fault != nil {
		return agent.Page{}, fault
	}
	return p.Info(), nil
}

func (e *engine) FillLogin(ctx context.Context, id string, l page.Login) (*pipe.Data, *pipe.Error) {
	p, fault := e.page(id)
	if fault != nil {
		return nil, fault
	}
	return p.FillLogin(ctx, l)
}

func (e *engine) Close(ctx context.Context) error {
	return errors.Join(e.Browser.Close(ctx), e.end(ctx))
}
