package host

import (
	"encoding/json"
	"sync"

	"sgclaw/internal/pipe"
)

// State is where the agent process stands (seed 001 §3.1, ProcessState).
type State string

// The five states.
const (
	StateStopped  State = "stopped"
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateStopping State = "stopping"
	StateCrashed  State = "crashed"
)

// Observer is told what the agent process does (seed 001 §3.1,
// ProcessObserver). Calls come one at a time, in the order in which things
// happened, and may call the Process.
type Observer interface {
	OnStateChanged(State)
	// OnMessage gets every message of the agent that could be read, commands
	// included.
	OnMessage(pipe.Type, json.RawMessage)
	// OnCrash gets the exit status (-1 if the process did not even start,
	// 128+n if signal n ended it) and the end of what it wrote to stderr, or
	// why it was killed.
	OnCrash(exitCode int, stderr string)
}

// notices delivers to observers in order, without making the process wait
// for them.
type notices struct {
	mu        sync.Mutex
	observers map[int]Observer
	next      int
	queue     []func(Observer)
	draining  bool
}

func (n *notices) add(o Observer) (remove func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.observers == nil {
		n.observers = make(map[int]Observer)
	}
	id := n.next
	n.next++
	n.observers[id] = o
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.observers, id)
	}
}

func (n *notices) post(tell func(Observer)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, tell)
	if !n.draining {
		n.draining = true
		go n.drain()
	}
}

func (n *notices) drain() {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 {
			n.draining = false
			n.mu.Unlock()
			return
		}
		tell := n.queue[0]
		n.queue = n.queue[1:]
		to := make([]Observer, 0, len(n.observers))
		for id := range n.next {
			if o, ok := n.observers[id]; ok {
				to = append(to, o)
			}
		}
		n.mu.Unlock()
		for _, o := range to {
			tell(o)
		}
	}
}

// maxTail bounds what is kept of an agent's stderr, in bytes.
const maxTail = 64 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
