package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"sgclaw/internal/openclaw"
)

const (
	// maxOpening bounds the sockets whose handshake is under way, which
	// anybody can open.
	maxOpening = 1024
	// restartExpected is what clients are told to expect when the gateway
	// ends: somebody, if not this process, will be back.
	restartExpected = 5 * time.Second
	// partingTimeout is how long clients may take to say goodbye, and
	// leaveTimeout how long the database may: five seconds in all.
	partingTimeout = 4 * time.Second
	leaveTimeout   = time.Second
)

// ErrNoToken says that the gateway would listen to other machines, and nobody
// could be told from anybody.
var ErrNoToken = errors.New("to listen elsewhere than on this machine a token is needed: set gateway.token or gateway.token_file, or make one with `starter token`")

// Listen opens the configured address. Without a token at all it is
// ErrNoToken to listen elsewhere than on loopback.
func (g *Gateway) Listen(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(g.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway address: %w", err)
	}
	if !loopback(host) && g.cfg.Token == "" {
		tokens, err := g.store.Tokens(ctx)
		if err != nil {
			return nil, err
		}
		good := func(hash []byte) bool { return g.door.stillGood(ctx, hash) }
		found := false
		for _, t := range tokens {
			found = found || good(t.Hash)
		}
		if !found {
			return nil, ErrNoToken
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", g.cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway address: %w", err)
	}
	if g.cfg.TLSCertFile == "" {
		return l, nil
	}
	cert, err := tls.LoadX509KeyPair(g.cfg.TLSCertFile, g.cfg.TLSKeyFile)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gateway certificate: %w", err), l.Close())
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}), nil
}

// loopback reports whether a host is this machine only.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Serve serves clients until ctx ends. Then it tells them that the gateway
// comes back, closes their connections, and returns when they are closed,
// nil after an orderly end. It closes l. It may be called once.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	// What serves connections goes on until they were told of the end.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){g.start, g.here.run, g.hub.run, g.patrol} {
		parts.Go(func() { part(serving) })
	}
	var sockets sync.WaitGroup
	server := &http.Server{
		Handler:           g.handler(serving, &sockets),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTimeout)
	defer cancel()
	g.farewell(parting, &sockets)
	stop()
	err = errors.Join(err, server.Shutdown(parting))
	sockets.Wait()
	parts.Wait()
	g.hub.close()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if e := g.store.Leave(leaving, g.instance); e != nil {
		g.log.Warn("presence", "err", e)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// A client that takes its time with a page is no fault.
		return server.Close()
	}
	return err
}

// farewell tells all clients that the gateway comes back, and waits until
// they are gone.
func (g *Gateway) farewell(ctx context.Context, sockets *sync.WaitGroup) {
	ms := restartExpected.Milliseconds()
	f := &Frame{Event: openclaw.EventShutdown, Payload: openclaw.Shutdown{Reason: "gateway restarting", RestartExpectedMs: &ms}}
	for _, c := range g.everyone() {
		c.Send(f)
		c.end(openclaw.CloseRestart, "service restart", true)
	}
	gone := make(chan struct{})
	go func() {
		sockets.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// start waits for the database to answer; until then clients are told that
// the gateway is starting.
func (g *Gateway) start(ctx context.Context) {
	for !g.up.Load() {
		if _, err := g.store.LastSeq(ctx, "none"); err == nil {
			g.up.Store(true)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// patrol looks after tokens.
func (g *Gateway) patrol(ctx context.Context) {
	tick := time.NewTicker(g.cfg.TickInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.recheck(ctx)
		}
	}
}

// socket upgrades a request and serves the connection.
func (g *Gateway) socket(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	closed := g.closed
	full := !closed && (g.opening >= maxOpening || !g.door.enter(r.RemoteAddr))
	if !closed && !full {
		g.opening++
	}
	g.mu.Unlock()
	if full {
		g.dropped("handshake")
	}
	if closed || full {
		http.Error(w, "too many connections are being opened", http.StatusServiceUnavailable)
		return
	}
	opened := sync.OnceFunc(func() {
		g.mu.Lock()
		g.opening--
		g.mu.Unlock()
		g.door.left(r.RemoteAddr)
	})
	defer opened()
	// The origin is checked in the handshake, where a browser's page can be
	// told why.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		g.log.Debug("upgrade", "err", err)
		return
	}
	defer func() { _ = ws.CloseNow() }()
	c := &Conn{
		g: g, id: uuid.NewString(), addr: r.RemoteAddr, ws: ws, out: newOutbox(g.cfg.MaxBufferedBytes),
		since: time.Now(), sessions: map[string]struct{}{}, abort: func() {},
	}
	if g.handshake(ctx, c, r) {
		opened()
		c.serve(ctx)
	}
}

// handshake lets a client in or refuses it, and reports which. The
// connection is closed where it is refused.
func (g *Gateway) handshake(ctx context.Context, c *Conn, r *http.Request) bool {
	c.ws.SetReadLimit(openclaw.MaxConnectBytes)
	slow := time.AfterFunc(g.cfg.HandshakeTimeout, func() {
		g.dropped("handshake")
		_ = c.ws.Close(openclaw.ClosePolicy, "handshake timeout")
	})
	defer slow.Stop()
	nonce := uuid.NewString()
	challenge := openclaw.Event{
		Type: openclaw.TypeEvent, Event: openclaw.EventChallenge,
		Payload: openclaw.Challenge{Nonce: nonce, TS: time.Now().UnixMilli()},
	}
	if err := c.writeNow(ctx, challenge); err != nil {
		return false
	}
	kind, frame, err := c.ws.Read(ctx)
	if err != nil {
		if errors.Is(err, websocket.ErrMessageTooBig) {
			linger(ctx)
		}
		return false
	}
	if kind != websocket.MessageText || !json.Valid(frame) {
		_ = c.ws.Close(openclaw.CloseNormal, "")
		return false
	}
	req, refused := openclaw.DecodeRequest(frame)
	var p openclaw.ConnectParams
	if refused == nil && req.Method != openclaw.MethodConnect {
		refused = openclaw.InvalidHandshake()
	}
	if refused == nil {
		p, refused = openclaw.Decode[openclaw.ConnectParams](openclaw.MethodConnect, req.Params)
	}
	if refused == nil {
		refused = g.admit(ctx, c, p, nonce, r)
	}
	slow.Stop()
	if refused == nil {
		c.ws.SetReadLimit(int64(g.cfg.MaxFrameBytes))
		err := c.writeNow(ctx, openclaw.Response{Type: openclaw.TypeResponse, ID: req.ID, OK: true, Payload: g.hello(c)})
		if err != nil {
			g.release()
		}
		return err == nil
	}
	g.counted(openclaw.MethodConnect, refused.Code, 0)
	g.dropped("refused")
	g.log.Info("client refused", "addr", c.addr, "client", p.Client.ID, "why", refused.Message)
	if req.ID != "" {
		_ = c.writeNow(ctx, openclaw.Response{Type: openclaw.TypeResponse, ID: req.ID, Error: refused})
	}
	code, reason := closeFor(refused)
	_ = c.ws.Close(websocket.StatusCode(code), reasonOf(reason))
	return false
}

// closeFor is how a connection is closed after an error of the handshake.
func closeFor(e *openclaw.Error) (code int, reason string) {
	if e.Code == openclaw.CodeUnavailable {
		if r, ok := e.Details.(openclaw.ReasonDetails); ok && r == openclaw.Starting().Details {
			return openclaw.CloseTryLater, "gateway starting"
		}
		return openclaw.CloseTryLater, e.Message
	}
	if _, ok := e.Details.(openclaw.ProtocolDetails); ok {
		return openclaw.CloseProtocol, "protocol mismatch"
	}
	return openclaw.ClosePolicy, e.Message
}

// admit decides about a client, and fills in who it is. Whoever is let in has
// a place.
func (g *Gateway) admit(ctx context.Context, c *Conn, p openclaw.ConnectParams, nonce string, r *http.Request) *openclaw.Error {
	oldest := openclaw.ProtocolVersion
	if p.Client.Mode == openclaw.ModeProbe {
		oldest = openclaw.MinProbe
	}
	if p.MinProtocol > openclaw.ProtocolVersion || p.MaxProtocol < oldest {
		return openclaw.ProtocolMismatch(p)
	}
	if !g.up.Load() {
		return openclaw.Starting()
	}
	if p.Role != "" && p.Role != openclaw.RoleOperator {
		return openclaw.Invalid("invalid role: the gateway serves operators only")
	}
	if origin := r.Header.Get("Origin"); origin != "" && !g.mayConnect(origin, r) {
		return openclaw.OriginNotAllowed(origin)
	}
	bounded, cancel := context.WithTimeout(ctx, g.cfg.HandshakeTimeout)
	defer cancel()
	who, token, refused := g.door.admit(bounded, p.Auth.Secret(), c.addr)
	if refused != nil {
		return refused
	}
	if g.cfg.VerifyDevices && p.Device != nil {
		if refused := openclaw.VerifyDevice(p, nonce, time.Now()); refused != nil {
			return refused
		}
		c.device = p.Device.ID
	}
	if !g.reserve() {
		return openclaw.Unavailable("clients", "the gateway has as many clients as it may have (%d)", g.cfg.MaxClients)
	}
	if token.ID != "" {
		go func() {
			touching, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := g.store.TouchToken(touching, who.TokenID); err != nil {
				g.log.Debug("token", "err", err)
			}
		}()
	}
	c.client, c.caps, c.hash, c.expires = p.Client, p.Caps, token.Hash, token.ExpiresAt
	c.scopes = grant(who.Role, p.Scopes)
	c.holds = who.Role
	who.Role = roleFor(who.Role, c.scopes)
	c.who = who
	return nil
}

// hello is the payload that a client is let in with.
func (g *Gateway) hello(c *Conn) openclaw.HelloOK {
	self := c.presence()
	self.TS = c.since.UnixMilli()
	list, version := g.here.snapshot(self)
	methods := make([]string, 0, len(g.table))
	for name := range g.table {
		methods = append(methods, name)
	}
	slices.Sort(methods)
	now := time.Now()
	return openclaw.HelloOK{
		Type: "hello-ok", Protocol: openclaw.ProtocolVersion,
		Server:   openclaw.Server{Version: g.cfg.Version, BootID: g.instance, ConnID: c.id},
		Features: openclaw.Features{Methods: methods, Events: Events()},
		Snapshot: openclaw.Snapshot{
			Presence: list, Health: openclaw.SnapshotHealth{OK: true, TS: now.UnixMilli()},
			StateVersion: openclaw.StateVersion{Presence: version}, UptimeMs: now.Sub(g.started).Milliseconds(),
			SessionDefaults: g.cfg.SessionDefaults, AuthMode: "token",
		},
		Auth: openclaw.HelloAuth{Role: openclaw.RoleOperator, Scopes: c.scopes, IssuedAtMs: now.UnixMilli()},
		Policy: openclaw.Policy{
			MaxPayload: g.cfg.MaxFrameBytes, MaxBufferedBytes: g.cfg.MaxBufferedBytes, TickIntervalMs: g.cfg.TickInterval.Milliseconds(),
		},
	}
}

// mayConnect reports whether a web page may connect: one that the gateway
// itself served, or of an origin that is listed.
func (g *Gateway) mayConnect(origin string, r *http.Request) bool {
	if slices.ContainsFunc(g.cfg.Origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		return true
	}
	scheme := "http://"
	if g.cfg.TLSCertFile != "" {
		scheme = "https://"
	}
	// r.Host was checked.
	return origin == ExtensionOrigin || strings.EqualFold(origin, scheme+r.Host) || strings.EqualFold(origin, "https://"+r.Host)
}

// writeNow writes a frame past the outbox, during the handshake.
func (c *Conn) writeNow(ctx context.Context, frame any) error {
	b, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, c.g.cfg.HandshakeTimeout)
	defer cancel()
	return c.ws.Write(bounded, websocket.MessageText, b)
}
