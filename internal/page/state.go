package page

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/cdp"
	"sgclaw/internal/pipe"
)

// maxEvents bounds what is told with one reply.
const maxEvents = 20

// state is what DevTools has told about a page.
type state struct {
	url        string // committed in the main frame
	title      string
	loader     string          // of the main frame's document
	domReady   string          // loader whose DOM is complete
	loaded     string          // loader whose load event has fired
	navigating bool            // a navigation of the main frame is under way
	commits    int             // documents so far
	inflight   map[string]bool // fetches and XHRs, by request id
	waiting    int             // how many
	popups     int             // tabs on their way
	opening    string          // URL of the last of them
	crashed    bool
	closed     bool
	hops       []string    // documents requested for the main frame since the last commit
	blocked    *pipe.Error // why the last document was kept away
	events     []pipe.PageEvent
}

// tracker keeps a page's state and wakes those who wait for a change of it.
type tracker struct {
	gone <-chan struct{} // closed with the connection
	err  func() error    // why

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed when state changes
}

// now is a copy of the state, of which inflight, hops and events are not to be
// read.
func (t *tracker) now() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// update changes the state and wakes those who wait for it.
func (t *tracker) update(fn func(*state)) {
	t.mu.Lock()
	fn(&t.state)
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
}

// await waits until ok, which is called with the lock held. It fails with
// ctx, and when the page crashes or is closed.
func (t *tracker) await(ctx context.Context, ok func(*state) bool) error {
	for {
		t.mu.Lock()
		done, crashed, closed, changed := ok(&t.state), t.state.crashed, t.state.closed, t.changed
		t.mu.Unlock()
		switch {
		case done:
			return nil
		case crashed:
			return cdp.ErrCrashed
		case closed:
			return cdp.ErrDetached
		}
		select {
		case <-changed:
		case <-t.gone:
			return t.err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitFor is await for a limited time; running out of it is no error.
func (t *tracker) awaitFor(ctx context.Context, d time.Duration, ok func(*state) bool) error {
	short, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := t.await(short, ok); err != nil && (ctx.Err() != nil || short.Err() == nil) {
		return err
	}
	return nil
}

func (t *tracker) url() string { return t.now().url }

// event notes something for the next reply, once.
func (t *tracker) event(kind, format string, v ...any) {
	text := cleanText(fmt.Sprintf(format, v...))
	t.update(func(s *state) {
		if len(s.events) >= maxEvents {
			return
		}
		for _, e := range s.events {
			if e.Kind == kind && e.Text == text {
				return
			}
		}
		s.events = append(s.events, pipe.PageEvent{Kind: kind, Text: text})
	})
}

// dropEvent takes back what the reply says anyway.
func (t *tracker) dropEvent(kind string) {
	t.update(func(s *state) {
		kept := s.events[:0]
		for _, e := range s.events {
			if e.Kind != kind {
				kept = append(kept, e)
			}
		}
		s.events = kept
	})
}

func (t *tracker) popEvents() []pipe.PageEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.state.events
	t.state.events = nil
	return list
}

func (t *tracker) popBlocked() *pipe.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.state.blocked
	t.state.blocked = nil
	return e
}

// popOpening says what the tab that is on its way was opened for.
func (t *tracker) popOpening() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.state.opening
	t.state.opening = ""
	return u
}

// settleFirst waits until a tab that was just opened shows something, or will
// not. It tells whether there is anything to show.
func (t *tracker) settleFirst(ctx context.Context, url string) bool {
	begin := 150 * time.Millisecond
	if url != "" && !strings.HasPrefix(url, "about:") {
		begin = 2 * time.Second
	}
	over := func(s *state) bool { return s.commits > 0 || s.blocked != nil || s.closed }
	_ = t.awaitFor(ctx, begin, func(s *state) bool { return s.navigating || over(s) })
	_ = t.awaitFor(ctx, 3*time.Second, func(s *state) bool { return !s.navigating || over(s) })
	s := t.now()
	return !s.closed && (s.blocked == nil || s.commits > 0)
}
