package gateway

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"sgclaw/internal/openclaw"
)

// Frame is an event as all its receivers get it. It is marshalled once.
type Frame struct {
	Event   string
	Payload any
	// To says which watchers of the session get it.
	To Audience
	// Key, if not empty, marks a piece of a text being written (its run,
	// step and attempt, say). Where a client lags, a piece is merged into
	// the last one of the same Event and Key that waits for it.
	Key string
	// Merge returns the payload that says what earlier (a payload of the
	// same Event and Key) and then Payload say. It changes neither. Required
	// with Key.
	Merge func(earlier any) any

	at      time.Time // when it happened; zero if that is not to be measured
	version *openclaw.StateVersion
	once    sync.Once
	body    []byte
	err     error
}

// marshal returns the frame without seq and the closing brace.
func (f *Frame) marshal() ([]byte, error) {
	f.once.Do(func() {
		f.body, f.err = json.Marshal(struct {
			Type         string                 `json:"type"`
			Event        string                 `json:"event"`
			Payload      any                    `json:"payload,omitempty"`
			StateVersion *openclaw.StateVersion `json:"stateVersion,omitempty"`
		}{openclaw.TypeEvent, f.Event, f.Payload, f.version})
		if f.err == nil {
			f.body = f.body[:len(f.body)-1]
		}
	})
	return f.body, f.err
}

// lagging is how many messages wait for a client that is merged for.
const lagging = 16

// outbox holds what waits to be written to a client, bounded in bytes.
// Whoever puts into it never waits.
type outbox struct {
	limit int
	wake  chan struct{} // holds one: there is something to write, or to end

	mu      sync.Mutex
	queue   []*letter
	pieces  map[string]*letter // the last waiting one by event and key
	bytes   int
	room    chan struct{} // closed when half of it is free; nil: nobody waits
	closing *farewell
}

// letter is one message that waits: an event, or a response.
type letter struct {
	frame    *Frame
	response []byte
	size     int
	key      string
}

// farewell says how a connection ends.
type farewell struct {
	code   int
	reason string
	flush  bool // what waits is written first
}

func newOutbox(limit int) *outbox {
	return &outbox{limit: limit, wake: make(chan struct{}, 1), pieces: map[string]*letter{}}
}

// event queues an event. It reports false if there is no room.
func (o *outbox) event(f *Frame) (bool, error) {
	body, err := f.marshal()
	if err != nil {
		return true, err
	}
	l := &letter{frame: f, size: len(body)}
	if f.Key != "" {
		l.key = f.Event + "\x00" + f.Key
	}
	return o.put(l), nil
}

func (o *outbox) put(l *letter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing != nil {
		return true
	}
	if l.key != "" {
		if earlier := o.pieces[l.key]; earlier != nil && len(o.queue) >= lagging {
			f := l.frame
			earlier.frame = &Frame{Event: f.Event, Payload: f.Merge(earlier.frame.Payload), Key: f.Key, at: f.at}
			if more := l.size - earlier.size; more > 0 {
				earlier.size += more
				o.bytes += more
			}
			return true
		}
		o.pieces[l.key] = l
	}
	// One message alone may be larger than the limit.
	if len(o.queue) > 0 && o.bytes+l.size > o.limit {
		return false
	}
	o.queue = append(o.queue, l)
	o.bytes += l.size
	o.tell()
	return true
}

// take returns the next message, or how to end, or neither.
func (o *outbox) take() (*letter, *farewell) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 || o.closing != nil && !o.closing.flush {
		return nil, o.closing
	}
	l := o.queue[0]
	o.queue[0] = nil
	o.queue = o.queue[1:]
	o.bytes -= l.size
	if l.key != "" && o.pieces[l.key] == l {
		delete(o.pieces, l.key)
	}
	if o.room != nil && o.bytes <= o.limit/2 {
		close(o.room)
		o.room = nil
	}
	return l, nil
}

// close ends it: nothing more is taken in. The first call counts, and is told
// so.
func (o *outbox) close(f farewell) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing != nil {
		return false
	}
	o.closing = &f
	if !f.flush {
		o.queue, o.bytes = nil, 0
		clear(o.pieces)
	}
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.tell()
	return true
}

// ended reports whether nothing more is taken in.
func (o *outbox) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closing != nil
}

// free returns nil if at least half of the room is, or else a channel that is
// closed when it is, or when the outbox was closed.
func (o *outbox) free() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes <= o.limit/2 || o.closing != nil {
		return nil
	}
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room
}

func (o *outbox) tell() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// text appends the message as it goes over the wire. seq is the number of
// the event, if it is one.
func (l *letter) text(buf []byte, seq int64) ([]byte, error) {
	if l.frame == nil {
		return append(buf, l.response...), nil
	}
	body, err := l.frame.marshal()
	if err != nil {
		return buf, err
	}
	buf = append(buf, body...)
	buf = append(buf, `,"seq":`...)
	buf = strconv.AppendInt(buf, seq, 10)
	return append(buf, '}'), nil
}
