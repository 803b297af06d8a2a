// Package gateway serves people's panels and other programs: a WebSocket
// that speaks OpenClaw's protocol version 4, and HTTP beside it. It keeps
// nothing that matters: sessions and runs are in Temporal and PostgreSQL, so
// any number of gateways may stand behind any load balancer, and a client
// that loses one goes on with another.
//
// A request finds its handler in the table of [Methods]. What OpenClaw calls
// the four ways in which handlers work together has one plain counterpart
// each here:
//
//	shared context      the Gateway's fields: the store, the core, the hub
//	events              the hub: what happened, from the database, to all
//	                    who watch a session
//	direct calls        a Go function call
//	request scope       the Call: who asks, by which connection, with what
package gateway

import (
	"context"
	"encoding/json"
	"time"

	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
)

// Call is one request as its handler sees it.
type Call struct {
	// Who asks.
	Who access.Identity
	// Conn is the connection that it came by.
	Conn *Conn
	// Params are the parameters as they came; use openclaw.Decode.
	Params json.RawMessage

	// Early answers the request before the handler has ended: the first of
	// two responses, which says "accepted".
	Early func(payload any)

	// after is done once the response has been queued.
	after []func()
}

// Events are the names of all events that a gateway sends.
func Events() []string {
	return []string{
		openclaw.EventChallenge, openclaw.EventTick, openclaw.EventShutdown, openclaw.EventPresence,
		openclaw.EventChat, openclaw.EventAgent, openclaw.EventSessionMessage, openclaw.EventSessionsChanged,
		openclaw.EventApprovalAsked, openclaw.EventApprovalDone,
		EventNative,
	}
}

// Handler carries out a request. It returns the payload of the response, or
// an *openclaw.Error; other errors are faults of ours, and the client is told
// no more than that.
type Handler func(ctx context.Context, g *Gateway, c *Call) (any, error)

// Method is an entry of the table.
type Method struct {
	Name string
	// Role is the least that may call it.
	Role   access.Role
	Handle Handler
	// Scope is OpenClaw's scope that a client must have asked for; empty is
	// that of Role. What OpenClaw lets readers do and we do not needs it.
	Scope string
	// Timeout bounds Handle; 0 means Config.RequestTimeout, and a negative
	// one that only the connection's end does.
	Timeout time.Duration
}
