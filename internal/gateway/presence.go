package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"sgclaw/internal/openclaw"
	"sgclaw/internal/store"
)

const (
	// beatInterval is how often a gateway says who is connected to it, and
	// fresh how long that is good for.
	beatInterval = 15 * time.Second
	fresh        = 3 * beatInterval
	// settle is how long changes are gathered before they are told.
	settle = time.Second
	// shownPresence bounds what an event and a snapshot list, so that a
	// thousand clients do not tell each other of a thousand clients.
	shownPresence = 50
	maxClaim      = 200 // characters of what a client says of itself
)

// presence knows who is connected to this gateway and the others.
type presence struct {
	g     *Gateway
	host  string
	dirty chan struct{}

	mu      sync.Mutex
	others  []openclaw.Presence // at the other gateways
	told    []string            // ids of all of whom clients were told
	version int64
}

func (p *presence) init(g *Gateway) {
	p.g, p.dirty = g, make(chan struct{}, 1)
	host, err := os.Hostname()
	if err != nil {
		host = "gateway"
	}
	p.host = host
}

// changed tells that somebody came or left.
func (p *presence) changed() {
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// Presence lists who is connected: to this gateway, and, as of some seconds
// ago, to the others. The gateways themselves are among them.
func (g *Gateway) Presence() []openclaw.Presence { return g.here.list(math.MaxInt) }

// list is Presence, at most n of them.
func (p *presence) list(n int) []openclaw.Presence {
	now := time.Now().UnixMilli()
	conns := p.g.everyone()
	slices.SortFunc(conns, func(a, b *Conn) int { return a.since.Compare(b.since) })
	self := p.self()
	self.TS, self.OnlineSince = now, p.g.started.UnixMilli()
	out := []openclaw.Presence{self}
	for _, c := range conns[:min(len(conns), n-1)] {
		e := c.presence()
		e.TS, e.OnlineSince = now, c.since.UnixMilli()
		out = append(out, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(out, p.others[:min(len(p.others), n-len(out))]...)
}

// snapshot is what a client is told that has just connected.
func (p *presence) snapshot(self openclaw.Presence) ([]openclaw.Presence, int64) {
	shown := p.list(shownPresence)
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(shown, self), p.version
}

// run keeps the store and the clients informed until ctx ends.
func (p *presence) run(ctx context.Context) {
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		if err := p.beat(ctx); err != nil && ctx.Err() == nil && !store.Unavailable(err) {
			p.g.log.Warn("presence", "err", err)
		}
		p.tell()
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			continue
		case <-p.dirty:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle):
		}
	}
}

// beat writes down who is here and reads who is elsewhere.
func (p *presence) beat(ctx context.Context) error {
	now := time.Now()
	conns := p.g.everyone()
	rows := make([]store.Presence, 0, len(conns)+1)
	row := func(conn string, entry openclaw.Presence) error {
		body, err := json.Marshal(entry)
		rows = append(rows, store.Presence{Conn: conn, Body: body})
		return err
	}
	if err := row("", p.self()); err != nil {
		return err
	}
	for _, c := range conns {
		if err := row(c.id, c.presence()); err != nil {
			return err
		}
	}
	if err := p.g.store.Beat(ctx, p.g.instance, rows); err != nil {
		return err
	}
	all, err := p.g.store.Presence(ctx, fresh)
	if err != nil {
		return err
	}
	others := []openclaw.Presence{}
	for _, r := range all {
		if r.Instance == p.g.instance {
			continue
		}
		var e openclaw.Presence
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return fmt.Errorf("presence of %s: %w", r.Instance, err)
		}
		e.TS, e.OnlineSince = now.UnixMilli(), r.Since.UnixMilli()
		others = append(others, e)
	}
	p.mu.Lock()
	p.others = others
	p.mu.Unlock()
	return nil
}

// tell tells the clients who is connected, if that is news.
func (p *presence) tell() {
	all := p.g.Presence()
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.InstanceID
	}
	p.mu.Lock()
	news := !slices.Equal(p.told, ids)
	if news {
		p.told = ids
		p.version++
	}
	version := p.version
	p.mu.Unlock()
	if news {
		p.g.hub.Broadcast(&Frame{
			Event:   openclaw.EventPresence,
			Payload: openclaw.PresenceEvent{Presence: all[:min(len(all), shownPresence)]},
			version: &openclaw.StateVersion{Presence: version},
		}, "")
	}
}

// self is the gateway's own entry.
func (p *presence) self() openclaw.Presence {
	return openclaw.Presence{
		Host: p.host, Version: p.g.cfg.Version, Platform: runtime.GOOS, Mode: "gateway", Reason: "self",
		Text: fmt.Sprintf("Gateway: %s · %s", p.host, p.g.cfg.Version), InstanceID: p.g.instance,
	}
}

// presence is what others are told of a client. Much of it is what the
// client says of itself.
func (c *Conn) presence() openclaw.Presence {
	e := openclaw.Presence{
		Host: clipped(c.client.DisplayName), Version: clipped(c.client.Version), Platform: clipped(c.client.Platform),
		DeviceFamily: clipped(c.client.DeviceFamily), Mode: c.client.Mode, Reason: "connect",
		Text:  fmt.Sprintf("Client: %s · %s · %s", c.who.Name, c.client.ID, clipped(c.client.Version)),
		Roles: []string{string(c.who.Role)}, Scopes: c.scopes, InstanceID: c.id, DeviceID: c.device,
	}
	if e.Host == "" {
		e.Host = c.client.ID
	}
	if host, _, err := net.SplitHostPort(c.addr); err == nil && !loopback(host) {
		e.IP = host
	}
	return e
}

// clipped shortens what a client says of itself.
func clipped(s string) string {
	if r := []rune(s); len(r) > maxClaim {
		return string(r[:maxClaim])
	}
	return s
}
