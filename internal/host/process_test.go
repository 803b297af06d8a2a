package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/pipe"
)

// watcher is an Observer that remembers, and lets a test wait.
type watcher struct {
	mu       sync.Mutex
	states   []State
	messages []pipe.Type
	crashes  []int
	stderr   string
	changed  chan struct{}
}

func newWatcher() *watcher { return &watcher{changed: make(chan struct{}, 1)} }

func (w *watcher) note(f func()) {
	w.mu.Lock()
	f()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watcher) OnStateChanged(s State) { w.note(func() { w.states = append(w.states, s) }) }
func (w *watcher) OnMessage(t pipe.Type, _ json.RawMessage) {
	w.note(func() { w.messages = append(w.messages, t) })
}
func (w *watcher) OnCrash(code int, stderr string) {
	w.note(func() { w.crashes, w.stderr = append(w.crashes, code), stderr })
}

// until waits until ok, which may look at the watcher's fields.
func (w *watcher) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		good := ok()
		w.mu.Unlock()
		if good {
			return
		}
		select {
		case <-w.changed:
		case <-deadline:
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("no %s: states %v, messages %v, crashes %v", what, w.states, w.messages, w.crashes)
		}
	}
}

// noCommands is a Commands that takes none.
type noCommands struct{}

func (noCommands) Open(pipe.Key, func([]byte) error) Conversation { return noCommands{} }
func (noCommands) Command([]byte)                                 {}
func (noCommands) Cancel(uint64)                                  {}
func (noCommands) Wind()                                          {}
func (noCommands) Close()                                         {}

func quiet(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(logs{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// logs writes to the test's log.
type logs struct{ t *testing.T }

func (l logs) Write(p []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

func startable(t *testing.T, mode string) (*Process, *watcher) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := NewProcess(quiet(t), noCommands{}, AgentConfig{
		Path: self, Env: append(os.Environ(), fakeAgent+"="+mode), Grace: 300 * time.Millisecond,
	})
	w := newWatcher()
	p.AddObserver(w)
	t.Cleanup(p.Stop)
	return p, w
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "ok")
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.State(); got != StateRunning {
		t.Errorf("state %s, want running", got)
	}
	if p.AgentID() == "" {
		t.Error("no agent id")
	}
	if err := p.Start(t.Context()); !errors.Is(err, ErrAlreadyRunning) {
		t.Errorf("second start: %v", err)
	}
	if err := p.SubmitTask(pipe.SubmitTask{TaskID: "t1", Instruction: "x"}); err != nil {
		t.Fatal(err)
	}
	w.until(t, "task_accepted", func() bool { return slices.Contains(w.messages, pipe.TypeTaskAccepted) })
	p.Stop()
	p.Stop()
	w.until(t, "stopped", func() bool { return len(w.states) == 4 })
	if diff := cmp.Diff(w.states, []State{StateStarting, StateRunning, StateStopping, StateStopped}); diff != "" {
		t.Error(diff)
	}
	if len(w.crashes) != 0 {
		t.Errorf("crashes: %v", w.crashes)
	}
	if err := p.Confirm(pipe.Confirm{ActionID: "a"}); !errors.Is(err, ErrNotRunning) {
		t.Errorf("confirm when stopped: %v", err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Errorf("start again: %v", err)
	}
}

func TestAgentThatDoesNotBecomeReady(t *testing.T) {
	for _, c := range []struct {
		mode, reason string
		code         int
	}{
		{"silent", "PIPE_NO_INIT", 137},
		{"wrong version", "PIPE_VERSION_MISMATCH", 137},
		{"refuses", "PIPE_INVALID_SEED", -2},
		{"crashes at once", "cannot load library", 127},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			p, w := startable(t, c.mode)
			err := p.Start(t.Context())
			if err == nil {
				t.Fatal("started")
			}
			w.until(t, "crash", func() bool { return len(w.crashes) == 1 })
			if !strings.Contains(w.stderr, c.reason) {
				t.Errorf("told %q, want %q in it", w.stderr, c.reason)
			}
			// An agent that refuses exits by itself with 3 unless the host is
			// quicker to kill it.
			if w.crashes[0] != c.code && c.code != -2 {
				t.Errorf("exit code %d, want %d", w.crashes[0], c.code)
			}
			if diff := cmp.Diff(w.states, []State{StateStarting, StateCrashed}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingBinary(t *testing.T) {
	t.Parallel()
	p := NewProcess(quiet(t), noCommands{}, AgentConfig{Path: filepath.Join(t.TempDir(), "none")})
	w := newWatcher()
	p.AddObserver(w)
	if err := p.Start(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	w.until(t, "crash", func() bool { return len(w.crashes) == 1 && w.crashes[0] == -1 })
	if got := p.State(); got != StateCrashed {
		t.Errorf("state %s, want crashed", got)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "crashes")
	_ = p.Start(t.Context())
	w.until(t, "crash", func() bool { return len(w.crashes) == 1 })
	if w.crashes[0] != 7 || !strings.Contains(w.stderr, "the agent is at its end") {
		t.Errorf("crash told as %d %q", w.crashes[0], w.stderr)
	}
	if got := p.State(); got != StateCrashed {
		t.Errorf("state %s, want crashed", got)
	}
}

func TestAgentThatEndsByItselfHasStopped(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "ends")
	_ = p.Start(t.Context())
	w.until(t, "stopped", func() bool { return slices.Contains(w.states, StateStopped) })
	if len(w.crashes) != 0 {
		t.Errorf("crashes: %v", w.crashes)
	}
}

func TestStopInsists(t *testing.T) {
	for _, mode := range []string{"ignores shutdown", "ignores all"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, w := startable(t, mode)
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.Stop()
			w.until(t, "stopped", func() bool { return len(w.states) == 4 })
			if diff := cmp.Diff(w.states, []State{StateStarting, StateRunning, StateStopping, StateStopped}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "silent")
	failed := make(chan error, 1)
	go func() { failed <- p.Start(context.Background()) }()
	w.until(t, "starting", func() bool { return slices.Contains(w.states, StateStarting) })
	for p.State() == StateStarting {
		p.Stop()
	}
	if err := <-failed; err == nil {
		t.Error("start succeeded")
	}
	w.until(t, "stopped", func() bool { return w.states[len(w.states)-1] == StateStopped })
	if len(w.crashes) != 0 {
		t.Errorf("crashes: %v", w.crashes)
	}
}

func TestBadLinesDoNotEndTheListener(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "babbles")
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until(t, "crash", func() bool { return len(w.crashes) == 1 })
	codes := strings.Fields(w.stderr)
	slices.Sort(codes)
	want := []string{
		"PIPE_INVALID_JSON", "PIPE_MESSAGE_TOO_LARGE", "PIPE_UNKNOWN_TYPE", "PIPE_UNKNOWN_TYPE", "PIPE_UNKNOWN_TYPE",
	}
	if diff := cmp.Diff(codes, want); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(w.messages, []pipe.Type{pipe.TypeLog}); diff != "" {
		t.Error(diff)
	}
}

func TestAgentThatClosesStdoutIsEnded(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "closes stdout")
	_ = p.Start(t.Context())
	w.until(t, "end", func() bool { return len(w.crashes) == 1 })
}

func TestKeepStartsAgain(t *testing.T) {
	t.Parallel()
	p, w := startable(t, "crashes")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Keep(ctx); close(ended) }()
	w.until(t, "second crash", func() bool { return len(w.crashes) >= 2 })
	cancel()
	<-ended
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tl tail
	for range 3 {
		_, _ = tl.Write([]byte(strings.Repeat("a", maxTail/2)))
	}
	_, _ = tl.Write([]byte("end"))
	if got := tl.String(); len(got) != maxTail || !strings.HasSuffix(got, "end") {
		t.Errorf("kept %d bytes, ends with %q", len(got), got[len(got)-5:])
	}
}
