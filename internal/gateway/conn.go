package gateway

import (
	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
)

// Conn is a client's connection. Its methods are safe for concurrent use.
type Conn struct {
	g      *Gateway
	id     string
	who    access.Identity
	client openclaw.Client
	caps   []string
	scopes []string
}

// ID is unique among all connections of all gateways.
func (c *Conn) ID() string { return c.id }

// Client is what the client said of itself.
func (c *Conn) Client() openclaw.Client { return c.client }

// HasCap reports whether the client announced a capability, e.g.
// openclaw.CapToolEvents.
func (c *Conn) HasCap(name string) bool { return false }

// Audience is what the client's kind sees of a session that it uses without
// having said how: chat events, and agent events where it can show them.
func (c *Conn) Audience() Audience {
	if c.HasCap(openclaw.CapToolEvents) {
		return ToChat | ToAgent
	}
	return ToChat
}

// Send queues an event for this client alone.
func (c *Conn) Send(f *Frame) {}
