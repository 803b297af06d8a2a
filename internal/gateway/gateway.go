package gateway

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"sgclaw/internal/durable"
	"sgclaw/internal/feed"
	"sgclaw/internal/store"
	"sgclaw/internal/telemetry"
)

// Config says how a gateway serves; zero values work, except that nobody can
// connect as long as there is neither Token nor a token in the store.
type Config struct {
	// Listen is where, "127.0.0.1:18789" if empty. Elsewhere than on
	// loopback a token is needed.
	Listen string
	// Token is the gateway's own token; who has it is an operator.
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
	// MaxClients bounds the connections; 4096 if 0.
	MaxClients int
	// MaxFrameBytes bounds a frame from a client; 25 MiB if 0.
	MaxFrameBytes int
	// MaxBufferedBytes bounds what waits for a client; 8 MiB if 0.
	MaxBufferedBytes int
	// MaxInFlight bounds the requests of a connection that are being
	// carried out; 64 if 0.
	MaxInFlight int
	// VerifyDevices checks the signatures of devices that present one.
	VerifyDevices bool
	// Panel is the built panel; nil, or without index.html: a page that says
	// how to build it.
	Panel fs.FS
	// Telemetry counts; nil counts nothing.
	Telemetry *telemetry.Telemetry

	// Times, for tests; zero values are the protocol's.
	HandshakeTimeout, TickInterval, PongTimeout, RequestTimeout time.Duration
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
	table    map[string]Method
	instance string
	started  time.Time
}

// New makes a gateway over a store, the feed of its events and the core,
// which stay the caller's and must outlive it.
func New(log *slog.Logger, s *store.Store, f *feed.Feed, core *durable.Client, cfg Config) (*Gateway, error) {
	g := &Gateway{log: log, store: s, core: core, feed: f, cfg: cfg, started: time.Now()}
	g.hub = newHub(g)
	return g, nil
}

// Listen opens the configured address.
func (g *Gateway) Listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", g.cfg.Listen)
}

// Serve serves clients until ctx ends. Then it tells them that it will be
// back, closes their connections, and returns when they are closed, nil
// after an orderly end.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	<-ctx.Done()
	return l.Close()
}
