package gateway

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"sgclaw/internal/agent"
	"sgclaw/internal/feed"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/store"
)

// Audience is a set of kinds of watchers.
type Audience uint8

// Kinds of watchers of a session.
const (
	ToNative    Audience = 1 << iota // EventNative; made by the hub itself
	ToChat                           // OpenClaw's chat events
	ToAgent                          // OpenClaw's agent events: lifecycle, assistant, tool (cap tool-events)
	ToMessages                       // session.message and the like (sessions.messages.subscribe)
	ToApprovals                      // approvals of the session (includeApprovals, exec.approval.*)
)

// EventNative carries an agent.Event as it is.
const EventNative = "sgclaw.event"

// Translator turns the events of one session, in order, into OpenClaw's
// frames. It may keep state (the text written so far, a run's own seq). It is
// called by one goroutine. The event's ToNative frame is not its business.
type Translator interface {
	Translate(e agent.Event) []*Frame
}

const (
	// maxWatched bounds the sessions that a connection watches.
	maxWatched = 256
	// changesInterval is how often at most WatchAll's watchers hear of one
	// session.
	changesInterval = time.Second
	// gapBatch is how many events of a gap are read at once.
	gapBatch = 200
)

// Hub passes the events of sessions on to the connections that watch them.
// Of each session that somebody watches it has one subscription of the feed,
// a topic. An event is translated once and marshalled once per kind of
// frame.
//
// A watcher that wants what was before is catching up: it reads the gap from
// the store by itself and is left out of the topic's deliveries, until it has
// got as far as the topic. From then on it gets what the topic gets, if its
// number is higher than the last that the watcher had. So it sees each event
// once and in order, and holds up nobody.
type Hub struct {
	g *Gateway
	// translator makes the translator of a session; nil: only ToNative
	// frames are made.
	translator func(session string) Translator
	// changed makes the frames that tell WatchAll's watchers that a session
	// changed, or with an empty key that any may have; nil: none.
	changed func(ctx context.Context, session string) []*Frame

	running sync.WaitGroup

	mu     sync.Mutex // before a topic's
	closed bool
	topics map[string]*topic
	all    map[*Conn]struct{}
}

// topic is a session that is watched.
type topic struct {
	hub     *Hub
	session string
	cancel  context.CancelFunc
	done    <-chan struct{}
	// spawn runs f until it ends or the topic does.
	spawn func(f func(ctx context.Context))

	mu       sync.Mutex
	pos      int64 // the number of the last stored event that was passed on
	watchers map[*Conn]*watcher
	idle     *time.Timer // ends the topic; set while nobody watches
}

// watcher is a connection at a topic.
type watcher struct {
	to       Audience
	pos      int64 // the last event that it got as ToNative
	catching int   // which catching up is under way; 0: none
	round    int   // how many there were
}

func newHub(g *Gateway) *Hub {
	return &Hub{g: g, topics: map[string]*topic{}, all: map[*Conn]struct{}{}}
}

// Now is the position of who wants only what is to come.
const Now = int64(-1)

// Watch lets the caller's connection see a session, as all kinds in to,
// beside those as which it does already. With ToNative, stored events after
// the number after are replayed first, once the call has been answered; Now
// replays none. It returns the number of the session's newest event. The
// session need not exist yet.
func (h *Hub) Watch(ctx context.Context, call *Call, session string, to Audience, after int64) (last int64, err error) {
	if session == "" || len(session) > store.MaxKey || !utf8.ValidString(session) || strings.ContainsRune(session, 0) {
		return 0, openclaw.Invalid("invalid session key")
	}
	last, err = h.g.store.LastSeq(ctx, session)
	if err != nil {
		return 0, err
	}
	c := call.Conn
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := c.sessions[session]; !known && len(c.sessions) >= maxWatched {
		return 0, openclaw.Refused(DetailTooMany, "a connection may watch %d sessions at once", maxWatched)
	}
	if h.closed || c.gone {
		return 0, context.Canceled
	}
	t := h.topics[session]
	if t == nil {
		t = h.open(session, last)
	}
	c.sessions[session] = struct{}{}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	w := t.watchers[c]
	if w == nil {
		w = &watcher{}
		t.watchers[c] = w
	}
	w.to |= to
	if to&ToNative != 0 {
		if after < 0 || after > last {
			after = last
		}
		w.round++
		w.pos, w.catching = after, w.round
		round := w.round
		call.after = append(call.after, func() {
			// Sooner than not, there is no gap.
			if !t.caughtUp(c, round) {
				t.spawn(func(ctx context.Context) { t.catchUp(ctx, c, round) })
			}
		})
	}
	return last, nil
}

// open starts a topic behind an event. h.mu is held.
func (h *Hub) open(session string, pos int64) *topic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &topic{hub: h, session: session, cancel: cancel, done: ctx.Done(), pos: pos, watchers: map[*Conn]*watcher{}}
	t.spawn = func(f func(context.Context)) { h.running.Go(func() { f(ctx) }) }
	h.topics[session] = t
	t.spawn(func(ctx context.Context) { t.run(ctx, pos) })
	return t
}

// Unwatch ends it for the kinds in to.
func (h *Hub) Unwatch(c *Conn, session string, to Audience) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[session]; t != nil {
		h.unwatch(t, c, to)
	}
}

// unwatch does it. h.mu is held.
func (h *Hub) unwatch(t *topic, c *Conn, to Audience) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[c]
	if w == nil {
		return
	}
	w.to &^= to
	if to&ToNative != 0 {
		w.catching = 0
	}
	if w.to != 0 {
		return
	}
	delete(t.watchers, c)
	delete(c.sessions, t.session)
	if len(t.watchers) == 0 && t.idle == nil {
		t.idle = time.AfterFunc(h.g.cfg.Grace, func() { h.endIdle(t) })
	}
}

// endIdle ends a topic that nobody has watched for a while.
func (h *Hub) endIdle(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.watchers) == 0 && h.topics[t.session] == t {
		delete(h.topics, t.session)
		t.cancel()
	}
}

// drop forgets a connection.
func (h *Hub) drop(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.gone = true
	delete(h.all, c)
	for session := range c.sessions {
		h.unwatch(h.topics[session], c, ^Audience(0))
	}
}

// WatchAll lets c hear which sessions change (sessions.subscribe).
func (h *Hub) WatchAll(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.gone {
		h.all[c] = struct{}{}
	}
}

// UnwatchAll ends it.
func (h *Hub) UnwatchAll(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, c)
}

// Broadcast sends a frame to all connections of this gateway that may see it:
// those with the scope, or all if it is empty.
func (h *Hub) Broadcast(f *Frame, scope string) {
	for _, c := range h.g.everyone() {
		if covers(c.scopes, scope) {
			c.Send(f)
		}
	}
}

// run tells WatchAll's watchers of changes until ctx ends.
func (h *Hub) run(ctx context.Context) {
	changes := h.g.feed.Changes()
	defer changes.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes.C:
		}
		h.tellAll(ctx, changes)
		select {
		case <-ctx.Done():
			return
		case <-time.After(changesInterval):
		}
	}
}

func (h *Hub) tellAll(ctx context.Context, changes *feed.Changes) {
	sessions, missed := changes.Take()
	h.mu.Lock()
	nobody := len(h.all) == 0 || h.changed == nil
	h.mu.Unlock()
	if nobody {
		return
	}
	if missed {
		sessions = append(sessions, "")
	}
	for _, session := range sessions {
		frames := h.changed(ctx, session)
		h.mu.Lock()
		conns := make([]*Conn, 0, len(h.all))
		for c := range h.all {
			conns = append(conns, c)
		}
		h.mu.Unlock()
		for _, f := range frames {
			for _, c := range conns {
				c.Send(f)
			}
		}
	}
}

// close ends all topics and waits for them.
func (h *Hub) close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.topics {
		t.cancel()
	}
	clear(h.topics)
	h.mu.Unlock()
	h.running.Wait()
}

// run passes on the session's events after pos until ctx ends.
func (t *topic) run(ctx context.Context, pos int64) {
	log := t.hub.g.log.With(slog.String("session", t.session))
	var tr Translator
	if t.hub.translator != nil {
		tr = t.hub.translator(t.session)
	}
	wait := 100 * time.Millisecond
	for {
		sub, err := t.hub.g.feed.Subscribe(ctx, feed.Query{Session: t.session}, pos)
		if err == nil {
			for e := range sub.C {
				wait = 100 * time.Millisecond
				if e.Seq != 0 && e.Seq <= pos {
					continue
				}
				pos = max(pos, e.Seq)
				t.pass(e, tr)
			}
			err = sub.Err()
		}
		if ctx.Err() != nil {
			return
		}
		log.Warn("subscription ended, it begins again", "err", err)
		if !pause(t.done, wait) {
			return
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// pass hands an event to all who watch.
func (t *topic) pass(e agent.Event, tr Translator) {
	native := nativeFrame(e)
	var frames []*Frame
	if tr != nil {
		frames = t.translate(e, tr)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pos = max(t.pos, e.Seq)
	for c, w := range t.watchers {
		if w.to&ToNative != 0 && w.catching == 0 && (e.Seq == 0 || e.Seq > w.pos) {
			w.pos = max(w.pos, e.Seq)
			c.Send(native)
		}
		for _, f := range frames {
			if f.To&w.to != 0 {
				c.Send(f)
			}
		}
	}
}

// translate makes OpenClaw's frames. An event on which that panics has none:
// it would do so at every gateway.
func (t *topic) translate(e agent.Event, tr Translator) (frames []*Frame) {
	defer func() {
		if p := recover(); p != nil {
			t.hub.g.log.Error("panic in the translation of an event", "session", t.session, "seq", e.Seq, "kind", e.Kind,
				"panic", p, "stack", string(debug.Stack()))
			frames = nil
		}
	}()
	frames = tr.Translate(e)
	for _, f := range frames {
		f.at = e.At
	}
	return frames
}

// caughtUp lets a watcher that is catching up go along with the topic, if it
// has got as far. It reports whether there is nothing left to do.
func (t *topic) caughtUp(c *Conn, round int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[c]
	if w == nil || w.catching != round {
		return true
	}
	if w.pos >= t.pos {
		w.catching = 0
		return true
	}
	return false
}

// catchUp sends a watcher what the store has after its position, no faster
// than it reads, until it has got as far as the topic. The database may be
// away meanwhile.
func (t *topic) catchUp(ctx context.Context, c *Conn, round int) {
	wait := 50 * time.Millisecond
	for !t.caughtUp(c, round) {
		t.mu.Lock()
		w := t.watchers[c]
		if w == nil {
			t.mu.Unlock()
			return
		}
		from, until := w.pos, t.pos
		t.mu.Unlock()
		events, err := t.hub.g.store.Events(ctx, t.session, from, gapBatch)
		if err != nil {
			if !store.Unavailable(err) && ctx.Err() == nil {
				t.hub.g.log.Error("gap of a session", "session", t.session, "err", err)
			}
			if !pause(t.done, wait) {
				return
			}
			wait = min(2*wait, 5*time.Second)
			continue
		}
		for _, e := range events {
			if room := c.out.free(); room != nil {
				select {
				case <-room:
				case <-t.done:
					return
				}
			}
			if !t.replay(c, round, e) {
				return
			}
		}
		if len(events) < gapBatch {
			t.skip(c, round, until)
		}
	}
}

// replay sends an event of a gap, unless the watcher does not want it any
// more.
func (t *topic) replay(c *Conn, round int, e agent.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watchers[c]
	if w == nil || w.catching != round {
		return false
	}
	w.pos = e.Seq
	f := nativeFrame(e)
	f.at = time.Time{} // it is late on purpose
	c.Send(f)
	return true
}

// skip moves a watcher on over numbers that the store does not have.
func (t *topic) skip(c *Conn, round int, to int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.watchers[c]; w != nil && w.catching == round {
		w.pos = max(w.pos, to)
	}
}

// pause waits, unless done comes first.
func pause(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}
