package gateway

import (
	"context"

	"sgclaw/internal/agent"
)

// Audience is a set of kinds of watchers.
type Audience uint8

// Kinds of watchers of a session.
const (
	ToNative    Audience = 1 << iota // sgclaw.event; made by the hub itself
	ToChat                           // OpenClaw's chat events
	ToAgent                          // OpenClaw's agent events: lifecycle, assistant, tool (cap tool-events)
	ToMessages                       // session.message and the like (sessions.messages.subscribe)
	ToApprovals                      // approvals of the session (includeApprovals, exec.approval.*)
)

// Frame is an event as all its receivers get it. It is marshalled once.
type Frame struct {
	Event   string
	Payload any
	// To says which watchers of the session get it; nil set: none.
	To Audience
	// Key, if not empty, marks a piece of a text being written (its run,
	// step and attempt, say). Where a client lags, a piece is merged into
	// the last one of the same Event and Key that waits for it.
	Key string
	// Merge returns the payload that says what earlier (a payload of the
	// same Event and Key) and then Payload say. Required with Key.
	Merge func(earlier any) any
}

// Translator turns the events of one session, in order, into OpenClaw's
// frames. It may keep state (the text written so far, a run's own seq). It is
// called by one goroutine. The event's ToNative frame is not its business.
type Translator interface {
	Translate(e agent.Event) []*Frame
}

// Hub passes the events of sessions on to the connections that watch them.
type Hub struct {
	g *Gateway
	// translator makes the translator of a session; nil: only ToNative
	// frames are made.
	translator func(session string) Translator
	// changed makes the frames that tell WatchAll's watchers that a session
	// changed; nil: none.
	changed func(ctx context.Context, session string) []*Frame
}

func newHub(g *Gateway) *Hub { return &Hub{g: g} }

// Now is the position of who wants only what is to come.
const Now = int64(-1)

// Watch lets c see a session, as all kinds in to, beside those for which it
// does already. With ToNative, stored events after the number after are
// replayed first, once the response of call has been sent; Now replays none.
// It returns the number of the session's newest event. The session need not
// exist yet.
func (h *Hub) Watch(ctx context.Context, call *Call, session string, to Audience, after int64) (last int64, err error) {
	return 0, nil
}

// Unwatch ends it for the kinds in to.
func (h *Hub) Unwatch(c *Conn, session string, to Audience) {}

// WatchAll lets c hear which sessions change (sessions.subscribe): the frames
// of changed, at most about one set a second and session.
func (h *Hub) WatchAll(c *Conn) {}

// UnwatchAll ends it.
func (h *Hub) UnwatchAll(c *Conn) {}

// Broadcast sends a frame to all connections of this gateway that may see it:
// those with the scope, or all if it is empty.
func (h *Hub) Broadcast(f *Frame, scope string) {}
