package host

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
)

// fakeEngine is a browser that dies when told.
type fakeEngine struct {
	*fakePages
	done   chan struct{}
	closed atomic.Bool
}

func (f *fakeEngine) Done() <-chan struct{} { return f.done }
func (f *fakeEngine) Close(context.Context) error {
	f.closed.Store(true)
	return nil
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{fakePages: newFakePages(), done: make(chan struct{})}
}

// launches gives a test the engines as they are launched.
func launches(t *testing.T) (*Browser, chan *fakeEngine, *atomic.Bool) {
	t.Helper()
	engines, broken := make(chan *fakeEngine, 10), new(atomic.Bool)
	b, err := openBrowser(t.Context(), quiet(t), func(context.Context, int) (Engine, error) {
		if broken.Load() {
			return nil, errors.New("no display")
		}
		e := newFakeEngine()
		engines <- e
		return e, nil
	}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b, engines, broken
}

func text(t *testing.T) page.Request {
	params, err := action.Parse(action.GetText, json.RawMessage(`{"selector":"h1"}`))
	if err != nil {
		t.Fatal(err)
	}
	return page.Request{Action: action.GetText, Params: params}
}

func TestBrowserIsLaunchedAgain(t *testing.T) {
	b, engines, _ := launches(t)
	first := <-engines
	spawned, fault := b.Spawn(t.Context(), "https://oa.example.com/2")
	if fault != nil {
		t.Fatal(fault)
	}
	close(first.done)
	second := <-engines
	if _, _, fault := b.Do(t.Context(), "", text(t)); fault != nil {
		t.Fatal(fault)
	}
	if !first.closed.Load() {
		t.Error("the dead browser was not cleaned up")
	}
	if len(second.did()) != 1 {
		t.Error("the command did not reach the second browser")
	}
	events := b.Notices()
	if len(events) != 1 || events[0].Kind != "crash" || !strings.Contains(events[0].Text, spawned.ID) {
		t.Errorf("told %+v", events)
	}
	if _, _, fault := b.Do(t.Context(), spawned.ID, text(t)); fault == nil || fault.Code != pipe.CodeZombieNotFound {
		t.Errorf("lost page: %v", fault)
	}
}

func TestBrowserIsGivenUp(t *testing.T) {
	b, engines, _ := launches(t)
	for range maxRelaunches + 1 {
		close((<-engines).done)
	}
	<-b.Lost()
	if fault := b.Ready(t.Context()); fault == nil || fault.Code != pipe.CodeBrowserGone {
		t.Errorf("got %v", fault)
	}
	if p, ok := b.Info(""); !ok || p.Domain != "" {
		t.Errorf("main page %+v %v", p, ok)
	}
}

func TestLaunchThatFailsCountsToo(t *testing.T) {
	b, engines, broken := launches(t)
	broken.Store(true)
	close((<-engines).done)
	<-b.Lost()
}

func TestEffectInADyingBrowserIsUnknown(t *testing.T) {
	b, engines, _ := launches(t)
	e := <-engines
	e.block = map[string]chan struct{}{"": make(chan struct{})}
	e.entered = make(chan string, 2)
	params, err := action.Parse(action.Click, json.RawMessage(`{"selector":"#go"}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *pipe.Error, 1)
	go func() {
		_, _, fault := b.Do(ctx, "", page.Request{Action: action.Click, Params: params})
		got <- fault
	}()
	<-e.entered
	close(e.done)
	cancel()
	if fault := <-got; fault == nil || fault.Code != pipe.CodeOutcomeUnknown {
		t.Errorf("got %v", fault)
	}
}

func TestCloseEndsTheBrowser(t *testing.T) {
	b, engines, _ := launches(t)
	e := <-engines
	b.Close(t.Context())
	b.Close(t.Context())
	if !e.closed.Load() {
		t.Error("not closed")
	}
	if fault := b.Ready(t.Context()); fault == nil || fault.Code != pipe.CodeBrowserGone {
		t.Errorf("got %v", fault)
	}
}
