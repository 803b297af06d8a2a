package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
)

const (
	// writeTimeout is how long a client may take to read what one write
	// sends; after that it is too slow.
	writeTimeout = 30 * time.Second
	// dropTimeout is how long a client that is dropped may take to read to
	// the end of the frame under way, so that it can be told why.
	dropTimeout = 5 * time.Second
	lingerTime  = time.Second
)

// Conn is a client's connection. Its methods are safe for concurrent use.
type Conn struct {
	g       *Gateway
	id      string
	addr    string // host:port
	ws      *websocket.Conn
	out     *outbox
	since   time.Time
	client  openclaw.Client
	caps    []string
	scopes  []string
	who     access.Identity
	holds   access.Role // of its token; who's is the one in which it acts
	hash    []byte      // of its token; nil for the gateway's own
	expires time.Time   // of its token; zero if never
	device  string      // its id, if the signature was checked

	inFlight atomic.Int32
	writing  atomic.Bool        // a write is under way
	running  sync.WaitGroup     // requests being carried out
	abort    context.CancelFunc // ends the connection at once

	// The hub's; guarded by its mu.
	sessions map[string]struct{}
	gone     bool
}

// ID is unique among all connections of all gateways.
func (c *Conn) ID() string { return c.id }

// Client is what the client said of itself.
func (c *Conn) Client() openclaw.Client { return c.client }

// Who is who is connected. The role is that in which the client acts, which
// may be less than that of its token.
func (c *Conn) Who() access.Identity { return c.who }

// HasCap reports whether the client announced a capability, e.g.
// openclaw.CapToolEvents.
func (c *Conn) HasCap(name string) bool { return slices.Contains(c.caps, name) }

// Audience is what the client's kind sees of a session that it uses without
// having said how: chat events, and agent events where it can show them.
func (c *Conn) Audience() Audience {
	if c.HasCap(openclaw.CapToolEvents) {
		return ToChat | ToAgent
	}
	return ToChat
}

// Send queues an event for this client. It never waits; a client for which
// too much waits is dropped.
func (c *Conn) Send(f *Frame) {
	ok, err := c.out.event(f)
	if err != nil {
		c.g.log.Error("event", "event", f.Event, "err", err)
		return
	}
	if !ok {
		c.slow()
	}
}

// respond queues a response.
func (c *Conn) respond(r openclaw.Response) {
	r.Type = openclaw.TypeResponse
	b, err := json.Marshal(r)
	if err != nil {
		c.g.log.Error("response", "conn", c.id, "err", err)
		if b, err = json.Marshal(openclaw.Response{Type: r.Type, ID: r.ID, Error: openclaw.Internal()}); err != nil {
			return
		}
	}
	if !c.out.put(&letter{response: b, size: len(b)}) {
		c.slow()
	}
}

// slow drops a client that does not read as fast as is written to it.
func (c *Conn) slow() {
	if c.end(openclaw.CloseSlow, "client is too slow", false) {
		c.g.log.Warn("client is too slow", "conn", c.id, "name", c.who.Name)
		c.g.dropped("slow")
		time.AfterFunc(dropTimeout, c.abort)
	}
}

// end closes the connection; with flush, after what waits has been written.
// It reports whether it was the first to do so.
func (c *Conn) end(code int, reason string, flush bool) bool {
	return c.out.close(farewell{code, reason, flush})
}

// serve carries the connection from the end of the handshake to its own. It
// returns when nothing of it is left.
func (c *Conn) serve(ctx context.Context) {
	ctx, c.abort = context.WithCancel(ctx)
	defer c.abort()
	if !c.g.join(c) {
		_ = c.ws.Close(openclaw.CloseRestart, "service restart")
		return
	}
	var parts sync.WaitGroup
	parts.Go(func() { c.write(ctx) })
	parts.Go(func() { c.keepAlive(ctx) })
	c.read(ctx)
	// Whatever came first, the rest ends with it.
	c.abort()
	c.out.close(farewell{code: openclaw.CloseNormal})
	c.g.leave(c)
	parts.Wait()
	c.running.Wait()
}

// read takes requests until the socket is closed.
func (c *Conn) read(ctx context.Context) {
	for {
		kind, frame, err := c.ws.Read(ctx)
		if err != nil {
			if errors.Is(err, websocket.ErrMessageTooBig) {
				c.g.dropped("frame")
				linger(ctx)
			}
			c.g.log.Debug("connection ended", "conn", c.id, "err", err)
			return
		}
		// As measured: what is not JSON is ignored.
		if kind != websocket.MessageText || !json.Valid(frame) {
			continue
		}
		c.request(ctx, frame)
	}
}

// linger waits before a socket is closed of which a frame was not read to
// its end. The library has told the client, with code 1009; but to close such
// a socket resets it, and the client might lose what it was told.
func linger(ctx context.Context) { pause(ctx.Done(), lingerTime) }

// request starts to carry out a request.
func (c *Conn) request(ctx context.Context, frame []byte) {
	if c.out.ended() {
		return // it would not be answered: the client is being sent away
	}
	req, refused := openclaw.DecodeRequest(frame)
	if refused != nil {
		if req.ID == "" {
			req.ID = "invalid"
		}
		c.respond(openclaw.Response{ID: req.ID, Error: refused})
		return
	}
	m, ok := c.g.table[req.Method]
	switch need := cmp.Or(m.Scope, scopeOf(m.Role)); {
	case req.Method == openclaw.MethodConnect:
		refused = openclaw.Invalid("connect is only valid as the first request")
	case !ok:
		refused = openclaw.UnknownMethod(req.Method)
	case !covers(c.scopes, need):
		refused = openclaw.MissingScope(need)
	case !c.holds.Covers(m.Role):
		refused = openclaw.MissingScope(scopeOf(m.Role))
	case c.inFlight.Add(1) > int32(c.g.cfg.MaxInFlight):
		c.inFlight.Add(-1)
		refused = openclaw.Unavailable("in-flight", "more than %d requests of this connection are being carried out", c.g.cfg.MaxInFlight)
	}
	if refused != nil {
		name := req.Method
		if !ok {
			name = "unknown" // a label must not be a client's choice
		}
		c.g.counted(name, refused.Code, 0)
		c.respond(openclaw.Response{ID: req.ID, Error: refused})
		return
	}
	c.running.Go(func() {
		defer c.inFlight.Add(-1)
		c.carryOut(ctx, m, req)
	})
}

// carryOut answers a request.
func (c *Conn) carryOut(ctx context.Context, m Method, req openclaw.Request) {
	began := time.Now()
	timeout := m.Timeout
	if timeout == 0 {
		timeout = c.g.cfg.RequestTimeout
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	call := &Call{Who: c.who, Conn: c, Params: req.Params}
	call.Early = func(payload any) { c.respond(openclaw.Response{ID: req.ID, OK: true, Payload: payload}) }
	payload, err := c.handle(ctx, m, call)
	code := ""
	if err != nil {
		e := wireError(err)
		code = e.Code
		if e.Code == openclaw.CodeInternal && ctx.Err() == nil {
			c.g.log.Error("request", "method", m.Name, "conn", c.id, "err", err)
		}
		c.respond(openclaw.Response{ID: req.ID, Error: e})
	} else {
		c.respond(openclaw.Response{ID: req.ID, OK: true, Payload: payload})
	}
	for _, then := range call.after {
		then()
	}
	c.g.counted(m.Name, code, time.Since(began))
}

// handle calls the handler. A panic in it is an error.
func (c *Conn) handle(ctx context.Context, m Method, call *Call) (payload any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.g.log.Error("panic in a handler", "method", m.Name, "panic", p, "stack", string(debug.Stack()))
			payload, err = nil, openclaw.Internal()
		}
	}()
	return m.Handle(ctx, c.g, call)
}

// write writes what waits until the connection ends, then says goodbye.
func (c *Conn) write(ctx context.Context) {
	var buf []byte
	var seq int64
	for {
		l, bye := c.out.take()
		if bye != nil {
			// Waits for the client's goodbye, which read sees.
			_ = c.ws.Close(websocket.StatusCode(bye.code), reasonOf(bye.reason))
			return
		}
		if l == nil {
			select {
			case <-ctx.Done():
				_ = c.ws.CloseNow()
				return
			case <-c.out.wake:
			}
			continue
		}
		next := seq
		if l.frame != nil {
			next++
		}
		text, err := l.text(buf[:0], next)
		if err != nil {
			c.g.log.Error("event", "event", l.frame.Event, "err", err)
			continue
		}
		seq = next
		buf = text
		if err := c.writeOne(ctx, text); err != nil {
			_ = c.ws.CloseNow()
			return
		}
		if l.frame != nil && !l.frame.at.IsZero() {
			c.g.delivered(time.Since(l.frame.at))
		}
		// One large response does not keep its memory.
		if cap(buf) > 64<<10 {
			buf = nil
		}
	}
}

func (c *Conn) writeOne(ctx context.Context, text []byte) error {
	c.writing.Store(true)
	defer c.writing.Store(false)
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := c.ws.Write(bounded, websocket.MessageText, text)
	if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
		c.slow()
	}
	return err
}

// expired reports whether the time of the client's token is over. It needs no
// database, which may be away.
func (c *Conn) expired(now time.Time) bool { return !c.expires.IsZero() && !now.Before(c.expires) }

// keepAlive sends ticks, and ends the connection when the client does not
// answer a ping, or its token's time is over.
func (c *Conn) keepAlive(ctx context.Context) {
	tick := time.NewTicker(c.g.cfg.TickInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if c.expired(now) {
				if c.end(openclaw.ClosePolicy, "the token is no longer good", true) {
					c.g.log.Info("token is no longer good", "conn", c.id, "name", c.who.Name)
					c.g.dropped("token")
				}
				return
			}
			c.Send(&Frame{Event: openclaw.EventTick, Payload: openclaw.Tick{TS: now.UnixMilli()}})
		}
		waiting, cancel := context.WithTimeout(ctx, c.g.cfg.PongTimeout)
		err := c.ws.Ping(waiting)
		silent := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && c.writing.Load() {
			// The ping waits behind a long frame, which has a limit of its own.
			continue
		}
		if err != nil {
			if silent {
				c.g.log.Info("client is silent", "conn", c.id, "name", c.who.Name)
				c.g.dropped("silent")
			}
			c.abort()
			return
		}
	}
}

// reasonOf makes a text fit into a close frame: at most 123 bytes.
func reasonOf(s string) string {
	if len(s) <= 123 {
		return s
	}
	return strings.ToValidUTF8(s[:123], "")
}
