// Package cdp speaks the Chrome DevTools Protocol with flat sessions over any
// transport that carries whole messages: the NUL-delimited pipe of
// --remote-debugging-pipe, or a websocket. It knows nothing about pages; the
// structs of the commands that package page needs are in protocol.go.
//
// A call that can no longer be answered never hangs: it fails when its
// context ends, when the connection closes (ErrClosed), when its session is
// detached (ErrDetached) and when its renderer crashes (ErrCrashed).
package cdp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// Why a call was not answered.
var (
	ErrClosed   = errors.New("devtools connection closed")
	ErrDetached = errors.New("devtools session detached")
	ErrCrashed  = errors.New("renderer crashed")
)

// Error is the browser's answer to a call that it refused.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`

	Method string `json:"-"`
}

func (e *Error) Error() string {
	if e.Data != "" {
		return fmt.Sprintf("%s: %s (%d): %s", e.Method, e.Message, e.Code, e.Data)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Method, e.Message, e.Code)
}

// Transport carries whole DevTools messages. ReadMessage is called by one
// goroutine, WriteMessage by another; Close ends both. Pipe and Dial give
// the real ones, tests use Pipe over net.Pipe.
type Transport interface {
	ReadMessage() ([]byte, error)
	WriteMessage([]byte) error
	io.Closer
}

// Event is something that the browser tells by itself. Session is empty for
// events of the browser as a whole.
type Event struct {
	Session string
	Method  string
	Params  json.RawMessage
}

// Decode unmarshals the event's parameters, ignoring what v does not have.
func (e Event) Decode(v any) error {
	if err := json.Unmarshal(e.Params, v); err != nil {
		return fmt.Errorf("decode %s: %w", e.Method, err)
	}
	return nil
}

// Conn is a DevTools connection. Its methods may be used concurrently.
type Conn struct {
	log  *slog.Logger
	t    Transport
	out  chan []byte
	done chan struct{}

	mu       sync.Mutex
	next     int64
	pending  map[int64]*call
	handlers map[string]*queue
	err      error
	closed   bool
}

type call struct {
	session string
	method  string
	reply   chan reply // capacity 1
}

type reply struct {
	result json.RawMessage
	err    error
}

// message is any message of the protocol.
type message struct {
	ID        int64           `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
}

// New starts a connection on t, which it owns from then on. The caller
// closes the connection.
func New(log *slog.Logger, t Transport) *Conn {
	c := &Conn{
		log: log, t: t,
		out:      make(chan []byte, 64),
		done:     make(chan struct{}),
		pending:  map[int64]*call{},
		handlers: map[string]*queue{},
	}
	go c.read()
	go c.write()
	return c
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err says why the connection ended; nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection; calls under way fail with ErrClosed. Closing
// again does nothing.
func (c *Conn) Close() error {
	c.shut(ErrClosed)
	return nil
}

// Call sends a command to a session (empty: the browser) and waits for its
// answer, which it decodes into result unless that is nil. params may be nil.
func (c *Conn) Call(ctx context.Context, session, method string, params, result any) error {
	cl, err := c.send(ctx, session, method, params)
	if err != nil {
		return err
	}
	return c.wait(ctx, cl, result)
}

// Post sends a command whose answer nobody needs.
func (c *Conn) Post(ctx context.Context, session, method string, params any) error {
	cl, err := c.send(ctx, session, method, params)
	if err != nil {
		return err
	}
	c.forget(cl.id)
	return nil
}

// Pending is a call that was sent and not yet waited for.
type Pending struct {
	c  *Conn
	cl *pendingCall
}

type pendingCall struct {
	id int64
	*call
}

// Go sends a command without waiting, so that several can be under way. The
// commands of one goroutine reach the browser in the order of Go calls. Wait
// must be called.
func (c *Conn) Go(ctx context.Context, session, method string, params any) (Pending, error) {
	cl, err := c.send(ctx, session, method, params)
	return Pending{c, cl}, err
}

// Wait waits for the answer as Call does.
func (p Pending) Wait(ctx context.Context, result any) error {
	return p.c.wait(ctx, p.cl, result)
}

func (c *Conn) send(ctx context.Context, session, method string, params any) (*pendingCall, error) {
	var raw json.RawMessage
	if params != nil {
		var err error
		if raw, err = json.Marshal(params); err != nil {
			return nil, fmt.Errorf("encode %s: %w", method, err)
		}
	}
	cl := &pendingCall{call: &call{session: session, method: method, reply: make(chan reply, 1)}}
	c.mu.Lock()
	if c.closed {
		err := c.err
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	c.next++
	cl.id = c.next
	c.pending[cl.id] = cl.call
	c.mu.Unlock()

	data, err := json.Marshal(message{ID: cl.id, SessionID: session, Method: method, Params: raw})
	if err != nil {
		c.forget(cl.id)
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	select {
	case c.out <- data:
		return cl, nil
	case <-c.done:
		c.forget(cl.id)
		return nil, fmt.Errorf("%s: %w", method, c.Err())
	case <-ctx.Done():
		c.forget(cl.id)
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (c *Conn) wait(ctx context.Context, cl *pendingCall, result any) error {
	select {
	case r := <-cl.reply:
		if r.err != nil {
			var refused *Error
			if errors.As(r.err, &refused) {
				return r.err
			}
			return fmt.Errorf("%s: %w", cl.method, r.err)
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(r.result, result); err != nil {
			return fmt.Errorf("decode result of %s: %w", cl.method, err)
		}
		return nil
	case <-ctx.Done():
		c.forget(cl.id)
		return fmt.Errorf("%s: %w", cl.method, ctx.Err())
	}
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// Handle has fn called with every event of a session (empty: the browser), in
// order and one at a time, on a goroutine of its own: fn may make calls. The
// handler ends with the session, the connection, or when fn is nil. There is
// one handler per session; a further one takes its place.
func (c *Conn) Handle(session string, fn func(Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.handlers[session]; old != nil {
		old.close()
		delete(c.handlers, session)
	}
	if fn == nil || c.closed {
		return
	}
	q := newQueue()
	c.handlers[session] = q
	go q.run(fn)
}

func (c *Conn) write() {
	for {
		select {
		case data := <-c.out:
			if err := c.t.WriteMessage(data); err != nil {
				c.shut(fmt.Errorf("%w: write: %w", ErrClosed, err))
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *Conn) read() {
	for {
		data, err := c.t.ReadMessage()
		if err != nil {
			c.shut(fmt.Errorf("%w: read: %w", ErrClosed, err))
			return
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			c.log.Warn("devtools message ignored", "err", err, "bytes", len(data))
			continue
		}
		if m.ID != 0 {
			c.answer(m)
			continue
		}
		c.event(Event{Session: m.SessionID, Method: m.Method, Params: m.Params})
	}
}

func (c *Conn) answer(m message) {
	c.mu.Lock()
	cl := c.pending[m.ID]
	delete(c.pending, m.ID)
	c.mu.Unlock()
	if cl == nil {
		return // its caller has given up
	}
	if m.Error != nil {
		m.Error.Method = cl.method
		cl.reply <- reply{err: m.Error}
		return
	}
	cl.reply <- reply{result: m.Result}
}

func (c *Conn) event(e Event) {
	c.mu.Lock()
	q := c.handlers[e.Session]
	c.mu.Unlock()
	if q != nil {
		q.put(e)
	}
	switch e.Method {
	case "Inspector.targetCrashed":
		c.failSession(e.Session, ErrCrashed)
	case "Target.detachedFromTarget":
		var p struct {
			SessionID string `json:"sessionId"`
		}
		if e.Decode(&p) == nil && p.SessionID != "" {
			c.failSession(p.SessionID, ErrDetached)
			c.Handle(p.SessionID, nil)
		}
	}
}

func (c *Conn) failSession(session string, err error) {
	if session == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, cl := range c.pending {
		if cl.session == session {
			delete(c.pending, id)
			cl.reply <- reply{err: err}
		}
	}
}

func (c *Conn) shut(err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed, c.err = true, err
	for id, cl := range c.pending {
		delete(c.pending, id)
		cl.reply <- reply{err: err}
	}
	for s, q := range c.handlers {
		q.close()
		delete(c.handlers, s)
	}
	close(c.done)
	c.mu.Unlock()
	if err := c.t.Close(); err != nil {
		c.log.Debug("devtools transport closed with error", "err", err)
	}
}

// queue hands events to a handler without ever making the reader wait.
type queue struct {
	mu     sync.Mutex
	events []Event
	wake   chan struct{} // capacity 1
	closed bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) put(e Event) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close lets the handler finish what is queued.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) run(fn func(Event)) {
	for range q.wake {
		for {
			q.mu.Lock()
			events, closed := q.events, q.closed
			q.events = nil
			q.mu.Unlock()
			for _, e := range events {
				fn(e)
			}
			if len(events) == 0 {
				if closed {
					return
				}
				break
			}
		}
	}
}
