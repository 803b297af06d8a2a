package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"

	"sgclaw/internal/durable"
	"sgclaw/internal/feed"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/routing"
	"sgclaw/internal/store"
	"sgclaw/internal/telemetry"
)

// Config says how a gateway serves; zero values work, except that nobody can
// connect as long as there is neither Token nor a token in the store.
type Config struct {
	// Listen is where, "127.0.0.1:18789" if empty. Elsewhere than on
	// loopback there must be a token.
	Listen string
	// Token is the gateway's own; who has it is an operator.
	Token string
	// TLSCertFile and TLSKeyFile, both or none, are PEM.
	TLSCertFile, TLSKeyFile string
	// Origins are pages of other hosts that may connect, such as
	// "https://oa.example" or "chrome-extension://<id>". Pages of the
	// gateway itself always may.
	Origins []string
	// Hosts are the names under which the gateway is reached, beside
	// localhost and addresses.
	Hosts []string
	// MaxClients bounds the connections; 5000 if 0.
	MaxClients int
	// MaxFrameBytes bounds a frame from a client; 4 MiB if 0.
	MaxFrameBytes int
	// MaxBufferedBytes bounds what waits for a client; 16 MiB if 0.
	MaxBufferedBytes int
	// MaxInFlight bounds the requests of a connection that are being
	// carried out; 64 if 0.
	MaxInFlight int
	// VerifyDevices checks the signatures of devices that present one.
	VerifyDevices bool
	// Panel is the built panel; nil, or without index.html: a page that says
	// how to build it.
	Panel fs.FS
	// Agents are the configured agents, the default one first; none is the
	// one named "main". Router finds the agent and the key of a session; nil
	// knows just Agents.
	Agents []Agent
	Router *routing.Router
	// Model is what agents ask that name no other.
	Model Model
	// MaxTask is how long a run may take; a client can only ask for less.
	// 0 is no bound.
	MaxTask time.Duration
	// Logs is the end of the gateway's own log, for operators; nil has none.
	Logs *Logs
	// Telemetry counts; nil counts nothing.
	Telemetry *telemetry.Telemetry
	// Version is what clients are told.
	Version string
	// SessionDefaults tell clients where a message goes that names no
	// session; nil tells nothing.
	SessionDefaults *openclaw.SessionDefaults

	// Times; zero values are the protocol's.
	HandshakeTimeout, TickInterval, PongTimeout, RequestTimeout time.Duration
	// Grace is for how long a session is still listened to that nobody
	// watches any more; 30 s if 0.
	Grace time.Duration
}

func (c *Config) withDefaults() {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:18789")
	c.MaxClients = cmp.Or(c.MaxClients, 5000)
	c.MaxFrameBytes = cmp.Or(c.MaxFrameBytes, 4<<20)
	c.MaxBufferedBytes = cmp.Or(c.MaxBufferedBytes, 16<<20)
	c.MaxInFlight = cmp.Or(c.MaxInFlight, 64)
	c.Version = cmp.Or(c.Version, "dev")
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, openclaw.HandshakeTimeout)
	c.TickInterval = cmp.Or(c.TickInterval, openclaw.TickInterval)
	c.PongTimeout = cmp.Or(c.PongTimeout, openclaw.PongTimeout)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, openclaw.RequestTimeout)
	c.Grace = cmp.Or(c.Grace, 30*time.Second)
}

// Gateway is one gateway process. Its fields are what all handlers share.
type Gateway struct {
	log   *slog.Logger
	store *store.Store
	core  *durable.Client
	feed  *feed.Feed
	hub   *Hub
	cfg   Config

	// instance is the id of this process among the gateways.
	instance string
	started  time.Time
	table    map[string]Method
	door     *doorkeeper
	here     presence
	// up is set once the database has answered.
	up atomic.Bool

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	opening  int // sockets whose handshake is under way
	admitted int // clients that were let in and have not joined
	closed   bool
}

// New makes a gateway over a store, the feed of its events and the core,
// which stay the caller's and must outlive it.
func New(log *slog.Logger, s *store.Store, f *feed.Feed, core *durable.Client, cfg Config) (*Gateway, error) {
	cfg.withDefaults()
	if (cfg.TLSCertFile == "") != (cfg.TLSKeyFile == "") {
		return nil, errors.New("TLS needs a certificate and a key")
	}
	g := &Gateway{
		log: log, store: s, core: core, feed: f, cfg: cfg, started: time.Now(),
		instance: "gw-" + rand.Text()[:12], table: map[string]Method{}, conns: map[*Conn]struct{}{},
		door: newDoorkeeper(cfg.Token, s),
	}
	for _, m := range Methods() {
		if _, twice := g.table[m.Name]; twice {
			return nil, fmt.Errorf("method %s is in the table twice", m.Name)
		}
		g.table[m.Name] = m
	}
	g.hub = newHub(g)
	g.joinHandlers()
	g.here.init(g)
	return g, nil
}

// Ready reports whether the gateway can serve: nil, or what is missing.
func (g *Gateway) Ready(ctx context.Context) error {
	errs := []error{g.store.Ping(ctx)}
	if !g.up.Load() {
		errs = append(errs, errors.New("clients are not let in yet"))
	}
	if g.core != nil {
		if _, err := g.core.Temporal().CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
			errs = append(errs, fmt.Errorf("temporal: %w", err))
		}
	}
	return errors.Join(errs...)
}

// reserve keeps a place for a client, unless there are too many; join or
// release gives it up.
func (g *Gateway) reserve() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.conns)+g.admitted >= g.cfg.MaxClients {
		return false
	}
	g.admitted++
	return true
}

func (g *Gateway) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted--
}

// join takes in a connection that has a place, unless the gateway ends.
func (g *Gateway) join(c *Conn) bool {
	g.mu.Lock()
	g.admitted--
	closed := g.closed
	if !closed {
		g.conns[c] = struct{}{}
	}
	g.mu.Unlock()
	if closed {
		return false
	}
	g.connected(1)
	g.here.changed()
	g.log.Info("client connected", "conn", c.id, "name", c.who.Name, "role", c.who.Role, "client", c.client.ID, "mode", c.client.Mode, "addr", c.addr)
	return true
}

// leave forgets a connection.
func (g *Gateway) leave(c *Conn) {
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
	g.hub.drop(c)
	g.connected(-1)
	g.here.changed()
	g.log.Info("client disconnected", "conn", c.id, "name", c.who.Name)
}

// everyone are the connections there are.
func (g *Gateway) everyone() []*Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]*Conn, 0, len(g.conns))
	for c := range g.conns {
		out = append(out, c)
	}
	return out
}

// recheck closes the connections whose token was revoked or has expired.
func (g *Gateway) recheck(ctx context.Context) {
	good := map[string]bool{}
	for _, c := range g.everyone() {
		key := string(c.hash)
		ok, seen := good[key]
		if !seen {
			ok = g.door.stillGood(ctx, c.hash)
			good[key] = ok
		}
		if !ok && c.end(openclaw.ClosePolicy, "the token is no longer good", true) {
			g.log.Info("token is no longer good", "conn", c.id, "name", c.who.Name)
			g.dropped("token")
		}
	}
}

// Counters; a gateway without telemetry counts nothing.

func (g *Gateway) connected(n int) {
	if t := g.cfg.Telemetry; t != nil {
		t.Connected(context.Background(), n)
	}
}

func (g *Gateway) counted(method, code string, took time.Duration) {
	if t := g.cfg.Telemetry; t != nil {
		t.Request(context.Background(), method, code, took)
	}
}

func (g *Gateway) delivered(after time.Duration) {
	if t := g.cfg.Telemetry; t != nil {
		t.Delivered(context.Background(), after)
	}
}

func (g *Gateway) dropped(reason string) {
	if t := g.cfg.Telemetry; t != nil {
		t.Dropped(context.Background(), reason)
	}
}
