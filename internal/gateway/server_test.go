package gateway

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"sgclaw/internal/access"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/telemetry"
	"sgclaw/internal/temporaltest"
)

// request is a frame as a client writes it.
func request(id, method string, params any) string {
	raw, err := json.Marshal(params)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":"req","id":%q,"method":%q,"params":%s}`, id, method, raw)
}

// What becomes of the first frame of a connection.
func TestHandshake(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{Origins: []string{"https://oa.example"}, Hosts: []string{"gw.example"}})
	viewer, _ := s.token(access.RoleViewer)
	revoked, id := s.token(access.RoleUser)
	if err := s.store.RevokeToken(t.Context(), id, "x"); err != nil {
		t.Fatal(err)
	}
	connect := func(change func(*openclaw.ConnectParams)) string {
		p := connectParams(testToken)
		change(&p)
		return request("1", "connect", p)
	}
	for _, tt := range []struct {
		name, frame string
		origin      string
		detail      string // empty: let in
		message     string // part of it
		code        websocket.StatusCode
	}{
		{name: "token", frame: connect(func(*openclaw.ConnectParams) {})},
		{name: "password", frame: connect(func(p *openclaw.ConnectParams) { p.Auth = &openclaw.Auth{Password: testToken} })},
		{name: "token of the store", frame: connect(func(p *openclaw.ConnectParams) { p.Auth.Token = viewer })},
		{name: "range of versions", frame: connect(func(p *openclaw.ConnectParams) { p.MinProtocol, p.MaxProtocol = 3, 5 })},
		{name: "old probe", frame: connect(func(p *openclaw.ConnectParams) {
			p.MinProtocol, p.MaxProtocol, p.Client.Mode = 3, 3, openclaw.ModeProbe
		})},
		{name: "page of the gateway", frame: connect(func(*openclaw.ConnectParams) {}), origin: "http://" + g.addr},
		{name: "listed page", frame: connect(func(*openclaw.ConnectParams) {}), origin: "https://oa.example"},
		{name: "side panel", frame: connect(func(*openclaw.ConnectParams) {}), origin: ExtensionOrigin},

		{name: "wrong token", frame: connect(func(p *openclaw.ConnectParams) { p.Auth.Token = "x" }), detail: openclaw.DetailTokenMismatch, message: "unauthorized: gateway token mismatch", code: 1008},
		{name: "no token", frame: connect(func(p *openclaw.ConnectParams) { p.Auth = nil }), detail: openclaw.DetailTokenMissing, message: "unauthorized", code: 1008},
		{name: "revoked token", frame: connect(func(p *openclaw.ConnectParams) { p.Auth.Token = revoked }), detail: openclaw.DetailTokenMismatch, message: "revoked", code: 1008},
		{name: "old protocol", frame: connect(func(p *openclaw.ConnectParams) { p.MinProtocol, p.MaxProtocol = 3, 3 }), detail: openclaw.DetailProtocolMismatch, code: 1002},
		{name: "future protocol", frame: connect(func(p *openclaw.ConnectParams) { p.MinProtocol, p.MaxProtocol = 5, 6 }), detail: openclaw.DetailProtocolMismatch, code: 1002},
		{name: "other page", frame: connect(func(*openclaw.ConnectParams) {}), origin: "https://evil.example", detail: openclaw.DetailOrigin, code: 1008},
		{name: "sandboxed page", frame: connect(func(*openclaw.ConnectParams) {}), origin: "null", detail: openclaw.DetailOrigin, code: 1008},
		{name: "node", frame: connect(func(p *openclaw.ConnectParams) { p.Role = "node" }), detail: "-", message: "invalid role", code: 1008},
		{name: "not connect", frame: request("1", "health", struct{}{}), detail: "-", message: "invalid handshake: first request must be connect", code: 1008},
		{name: "not a request", frame: `{"type":"event","id":"1","event":"x"}`, detail: "-", message: "invalid request frame", code: 1008},
		{name: "no id", frame: `{"type":"req","method":"connect"}`, code: 1008},
		{name: "unknown parameter", frame: `{"type":"req","id":"1","method":"connect","params":{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"x","mode":"cli"},"foo":1}}`,
			detail: "-", message: "invalid connect params: at root: unexpected property 'foo'", code: 1008},
		{name: "unknown client", frame: connect(func(p *openclaw.ConnectParams) { p.Client.ID = "netscape" }), detail: "-", message: "at /client/id: must be equal to one of the allowed values", code: 1008},
		{name: "bad JSON", frame: `{"type":`, code: 1000},
		{name: "giant", frame: connect(func(p *openclaw.ConnectParams) { p.UserAgent = strings.Repeat("x", 65<<10) }), code: 1009},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Failures of one row must not slow down the others.
			g.door.backoff = access.NewBackoff(time.Now)
			header := http.Header{}
			if tt.origin != "" {
				header.Set("Origin", tt.origin)
			}
			c := g.dial(header)
			c.t = t
			c.write([]byte(tt.frame))
			if tt.detail != "" || tt.code == 0 {
				r := c.response("1")
				if r.OK != (tt.code == 0) {
					t.Fatalf("got %+v", r)
				}
				if tt.code == 0 {
					return
				}
				if want := strings.Trim(tt.detail, "-"); r.detail() != want || !strings.Contains(r.Error.Message, tt.message) {
					t.Errorf("got %v, details %v; want %q with %s", r.Error, r.Error.Details, tt.message, tt.detail)
				}
			}
			if got := c.ended(); got.Code != tt.code {
				t.Errorf("closed with %v, want %d", got, tt.code)
			}
		})
	}
}

func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{HandshakeTimeout: 50 * time.Millisecond})
	if got := g.dial(nil).ended(); got.Code != openclaw.ClosePolicy || got.Reason != "handshake timeout" {
		t.Errorf("closed with %v", got)
	}
}

// Until the database answers, clients are told to come back.
func TestStarting(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{})
	g.up.Store(false)
	c := g.dial(nil)
	r := c.call("connect", connectParams(testToken))
	if r.OK || r.Error.Code != openclaw.CodeUnavailable || !r.Error.Retryable || r.Error.RetryAfterMs != 500 {
		t.Errorf("got %+v", r)
	}
	if got := c.ended(); got.Code != 1013 || got.Reason != "gateway starting" {
		t.Errorf("closed with %v", got)
	}
}

func TestTooManyClients(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{MaxClients: 1})
	g.connect(testToken)
	c := g.dial(nil)
	if r := c.call("connect", connectParams(testToken)); r.OK || r.Error.Code != openclaw.CodeUnavailable {
		t.Errorf("got %+v", r)
	}
	if got := c.ended(); got.Code != 1013 {
		t.Errorf("closed with %v", got)
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{Version: "1.2", MaxFrameBytes: 1 << 20, MaxBufferedBytes: 2 << 20})
	c := g.dial(nil)
	var got openclaw.HelloOK
	if err := json.Unmarshal(c.call("connect", connectParams(testToken)).Payload, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "hello-ok" || got.Protocol != 4 || got.Server.Version != "1.2" || got.Server.ConnID == "" || got.Auth.Role != "operator" {
		t.Errorf("got %+v", got)
	}
	if want := (openclaw.Policy{MaxPayload: 1 << 20, MaxBufferedBytes: 2 << 20, TickIntervalMs: 30000}); got.Policy != want {
		t.Errorf("policy %+v, want %+v", got.Policy, want)
	}
	if !slices.Contains(got.Features.Methods, "test.echo") || !slices.Contains(got.Features.Events, "chat") {
		t.Errorf("features %+v", got.Features)
	}
	if n := len(got.Snapshot.Presence); n == 0 || got.Snapshot.Presence[n-1].InstanceID != got.Server.ConnID {
		t.Errorf("presence %+v does not end with the client", got.Snapshot.Presence)
	}
}

// Which scopes a client gets, by its token's role and by what it asks for,
// and what it may then call.
func TestScopes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	read, write, approvals, admin := openclaw.ScopeRead, openclaw.ScopeWrite, openclaw.ScopeApprovals, openclaw.ScopeAdmin
	methods := []string{"test.echo", "test.write", "test.approve", "test.admin"}
	for _, tt := range []struct {
		role  access.Role
		asked []string
		may   string // of the methods, by position
		as    access.Role
	}{
		{access.RoleViewer, nil, "1000", access.RoleViewer},
		{access.RoleViewer, []string{admin}, "1000", access.RoleViewer},
		{access.RoleUser, nil, "1100", access.RoleUser},
		{access.RoleUser, []string{admin, approvals}, "1100", access.RoleUser},
		{access.RoleApprover, nil, "1110", access.RoleApprover},
		{access.RoleApprover, []string{approvals}, "0010", access.RoleApprover},
		{access.RoleOperator, nil, "1111", access.RoleOperator},
		{access.RoleOperator, []string{admin}, "1111", access.RoleOperator},
		{access.RoleOperator, []string{read}, "1000", access.RoleViewer},
		{access.RoleOperator, []string{write}, "1100", access.RoleUser},
		{access.RoleUser, []string{"operator.talk"}, "0000", access.RoleViewer},
	} {
		t.Run(fmt.Sprint(tt.role, tt.asked), func(t *testing.T) {
			secret, _ := s.token(tt.role)
			c := g.connect(secret, func(p *openclaw.ConnectParams) { p.Scopes = tt.asked })
			may := ""
			for _, m := range methods {
				r := c.call(m, struct{}{})
				switch {
				case r.OK:
					may += "1"
				case r.Error.Code == openclaw.CodeForbidden && r.detail() == openclaw.DetailMissingScope && r.Error.Message == "missing scope: "+scopeOf(g.table[m].Role):
					may += "0"
				default:
					t.Errorf("%s: %v", m, r.Error)
				}
			}
			if may != tt.may {
				t.Errorf("may call %s, want %s", may, tt.may)
			}
			conns := g.everyone()
			if i := slices.IndexFunc(conns, func(c *Conn) bool { return c.who.Name == "test "+string(tt.role) }); i < 0 || conns[i].Who().Role != tt.as {
				t.Errorf("acts in %+v, want %s", conns, tt.as)
			}
			c.ws.CloseNow()
			waitFor(t, "the connection to be forgotten", func() bool { return len(g.everyone()) == 0 })
		})
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// What becomes of requests that are wrong, and that the connection survives
// each.
func TestRequests(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{})
	c := g.connect(testToken)
	for _, tt := range []struct {
		name, frame, id string
		code, message   string
	}{
		{"unknown method", request("1", "nope.method", struct{}{}), "1", "INVALID_REQUEST", "unknown method: nope.method"},
		{"extra parameter", request("1", "test.watch", map[string]string{"sessionKey": "s", "foo": "x"}), "1", "INVALID_REQUEST", "invalid test.watch params: at root: unexpected property 'foo'"},
		{"missing parameter", request("1", "test.watch", struct{}{}), "1", "INVALID_REQUEST", "invalid test.watch params: must have required property 'sessionKey'"},
		{"connect again", request("1", "connect", connectParams(testToken)), "1", "INVALID_REQUEST", "connect is only valid as the first request"},
		{"extra property of the frame", `{"type":"req","id":"7","method":"test.echo","foo":1}`, "7", "INVALID_REQUEST", "invalid request frame: at root: unexpected property 'foo'"},
		{"no method", `{"type":"req","id":"8"}`, "8", "INVALID_REQUEST", "invalid request frame: must have required property 'method'"},
		{"not a request", `[1]`, "invalid", "INVALID_REQUEST", "invalid request frame: must be object"},
		{"panic", request("1", "test.panic", struct{}{}), "1", "INTERNAL", "internal error; the gateway's log says more"},
		{"fault of ours", request("1", "test.fault", struct{}{}), "1", "INTERNAL", "internal error; the gateway's log says more"},
		{"too long", request("1", "test.stuck", struct{}{}), "1", "UNAVAILABLE", "the request took too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			c.write([]byte(`not JSON`)) // ignored
			c.write([]byte(tt.frame))
			r := c.response(tt.id)
			if r.OK || r.Error.Code != tt.code || r.Error.Message != tt.message {
				t.Errorf("got %+v, %v", r, r.Error)
			}
			if r := c.call("test.echo", map[string]int{"x": 1}); !r.OK || string(r.Payload) != `{"x":1}` {
				t.Errorf("after it: %+v", r)
			}
		})
	}
}

// A method may answer twice.
func TestTwoPhases(t *testing.T) {
	t.Parallel()
	c := newStage(t).gateway(Config{}).connect(testToken)
	id := c.send("test.twice", struct{}{})
	first, second := c.response(id), c.response(id)
	if string(first.Payload) != `{"status":"accepted"}` || string(second.Payload) != `{"status":"ok"}` {
		t.Errorf("got %s, then %s", first.Payload, second.Payload)
	}
}

func TestRequestsInFlight(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{MaxInFlight: 2}, Method{Name: "test.wait", Role: access.RoleViewer, Timeout: -1, Handle: testMethods[7].Handle})
	c := g.connect(testToken)
	c.send("test.wait", struct{}{})
	c.send("test.wait", struct{}{})
	if r := c.call("test.wait", struct{}{}); r.OK || r.Error.Code != openclaw.CodeUnavailable {
		t.Errorf("got %+v", r)
	}
	// Requests end with the connection.
	c.ws.CloseNow()
	waitFor(t, "the requests to end", func() bool { return len(g.everyone()) == 0 })
}

func TestGiantFrame(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{MaxFrameBytes: 100 << 10})
	c := g.connect(testToken)
	if r := c.call("test.echo", strings.Repeat("x", 90<<10)); !r.OK {
		t.Errorf("within the limit: %v", r.Error)
	}
	c.write([]byte(request("1", "test.echo", strings.Repeat("x", 110<<10))))
	if got := c.ended(); got.Code != 1009 {
		t.Errorf("closed with %v", got)
	}
}

// A client that is gone without a word is noticed.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	g := newStage(t).gateway(Config{TickInterval: 20 * time.Millisecond, PongTimeout: 50 * time.Millisecond})
	g.connect(testToken) // does not read from here on, so it answers no ping
	alive := g.connect(testToken)
	// Its reading answers pings, and ticks come meanwhile.
	for range 20 {
		alive.await(openclaw.EventTick)
	}
	if n := len(g.everyone()); n != 1 {
		t.Errorf("%d connections are left, want that which answers", n)
	}
}

// Guessing is slowed down; whoever had a good token before is not.
func TestGuessing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	known, _ := s.token(access.RoleViewer)
	fresh, _ := s.token(access.RoleViewer)
	g.connect(known)
	var last response
	for range 6 {
		last = g.dial(nil).call("connect", connectParams("guess"))
	}
	if last.detail() != openclaw.DetailRateLimited || !last.Error.Retryable || last.Error.RetryAfterMs < 1 {
		t.Errorf("got %+v, %v", last.Error, last.Error.Details)
	}
	if r := g.dial(nil).call("connect", connectParams(fresh)); r.detail() != openclaw.DetailRateLimited {
		t.Errorf("a token not seen before: %+v", r)
	}
	g.connect(known)
}

// A connection does not outlive its token.
func TestRevokedWhileConnected(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{TickInterval: 20 * time.Millisecond})
	secret, id := s.token(access.RoleUser)
	c, other := g.connect(secret), g.connect(testToken)
	if err := s.store.RevokeToken(t.Context(), id, "x"); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(); got.Code != openclaw.ClosePolicy {
		t.Errorf("closed with %v", got)
	}
	other.await(openclaw.EventTick)
}

// Nor does it while the database, which cannot be asked, is away.
func TestExpiryWithoutDatabase(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{TickInterval: 20 * time.Millisecond})
	lasting, _ := s.token(access.RoleUser)
	secret, token, err := access.New("short", access.RoleUser, 3*time.Second)
	if err == nil {
		err = s.store.InsertToken(t.Context(), token)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, other := g.connect(secret), g.connect(lasting)
	s.store.Close()
	if got := c.ended(); got.Code != openclaw.ClosePolicy || got.Reason != "the token is no longer good" {
		t.Errorf("closed with %v", got)
	}
	if time.Now().Before(token.ExpiresAt) {
		t.Error("the connection ended before its token")
	}
	other.await(openclaw.EventTick)
	if r := other.call("test.echo", struct{}{}); !r.OK {
		t.Errorf("one whose token lasts: %v", r.Error)
	}
}

// Who opens sockets and says nothing keeps out only who shares the address,
// and only until a handshake ends.
func TestHalfOpenOfOneAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tel, err := telemetry.Start(t.Context(), s.quiet(), telemetry.Config{Service: "gateway"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	g := s.gateway(Config{HandshakeTimeout: 10 * time.Minute, Telemetry: tel})
	open := func(from string) (*websocket.Conn, int) {
		t.Helper()
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{DialContext: dialer.DialContext}
		ws, resp, err := websocket.Dial(t.Context(), "ws://"+g.addr+"/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
		t.Cleanup(transport.CloseIdleConnections)
		if err != nil {
			if resp == nil {
				t.Fatal(err)
			}
			return nil, resp.StatusCode
		}
		t.Cleanup(func() { ws.CloseNow() })
		return ws, resp.StatusCode
	}
	letIn := func(ws *websocket.Conn) {
		t.Helper()
		c := &peer{t: t, ws: ws}
		c.await(openclaw.EventChallenge)
		if r := c.call(openclaw.MethodConnect, connectParams(testToken)); !r.OK {
			t.Fatalf("connect: %v", r.Error)
		}
	}
	const one, another = "127.0.0.1", "127.0.0.2"
	var silent []*websocket.Conn
	for i := range maxOpeningOfOne {
		ws, status := open(one)
		if ws == nil {
			t.Fatalf("socket %d: status %d", i, status)
		}
		silent = append(silent, ws)
	}
	for range 3 {
		if _, status := open(one); status != http.StatusServiceUnavailable {
			t.Errorf("one more: status %d", status)
		}
	}
	if _, metrics := get(t, "http://"+g.addr+"/metrics", nil); !strings.Contains(metrics, `sgclaw_gateway_dropped_total{reason="handshake"} 3`) {
		t.Error("what was refused is not counted")
	}
	ws, status := open(another)
	if ws == nil {
		t.Fatalf("another address: status %d", status)
	}
	letIn(ws)

	reopened := func() bool {
		ws, _ := open(one)
		return ws != nil
	}
	letIn(silent[0])
	waitFor(t, "the place of a client that was let in", reopened)
	silent[1].CloseNow()
	waitFor(t, "the place of a client that left", reopened)
	for _, ws := range silent[2:] {
		ws.CloseNow()
	}
	waitFor(t, "only the last two to be remembered", func() bool {
		g.door.mu.Lock()
		defer g.door.mu.Unlock()
		return cmp.Equal(g.door.opening, map[string]int{one: 2})
	})
}

// Clients are told that the gateway comes back.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	c := g.connect(testToken)
	go func() { _ = g.stop() }()
	if e := c.await(openclaw.EventShutdown); !bytes.Contains(e.Payload, []byte(`"restartExpectedMs":`)) {
		t.Errorf("got %s", e.Payload)
	}
	if got := c.ended(); got.Code != 1012 || got.Reason != "service restart" {
		t.Errorf("closed with %v", got)
	}
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	left, err := s.store.Presence(t.Context(), time.Hour)
	if err != nil || len(left) != 0 {
		t.Errorf("presence is left: %+v, %v", left, err)
	}
}

func TestDeviceSignatures(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{VerifyDevices: true})
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pub)
	sign := func(nonce string) openclaw.ConnectParams {
		p := connectParams(testToken)
		d := &openclaw.Device{ID: hex.EncodeToString(sum[:]), PublicKey: base64.RawURLEncoding.EncodeToString(pub), SignedAt: time.Now().UnixMilli(), Nonce: nonce}
		text := fmt.Sprintf("v3|%s|test|test|operator||%d|%s|%s|linux|", d.ID, d.SignedAt, testToken, nonce)
		d.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
		p.Device = d
		return p
	}
	c := g.dial(nil)
	if r := c.call("connect", sign(c.nonce)); !r.OK {
		t.Errorf("signed: %v", r.Error)
	}
	c = g.dial(nil)
	if r := c.call("connect", sign("another connection's")); r.detail() != openclaw.DetailDeviceNonce {
		t.Errorf("replayed: %+v", r)
	}
	if got := c.ended(); got.Code != openclaw.ClosePolicy {
		t.Errorf("closed with %v", got)
	}
	g.connect(testToken) // none need be presented
}

func TestListen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, tt := range []struct {
		addr  string
		token bool
		ok    bool
	}{
		{"127.0.0.1:0", false, true}, {"[::1]:0", false, true}, {"localhost:0", false, true},
		{"0.0.0.0:0", false, false}, {":0", false, false}, {"0.0.0.0:0", true, true},
	} {
		g := s.idle(Config{Listen: tt.addr})
		if g.cfg.Token = ""; tt.token {
			g.cfg.Token = testToken
		}
		l, err := g.Listen(t.Context())
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrNoToken) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil {
			l.Close()
		}
	}
	s.token(access.RoleViewer)
	g := s.idle(Config{Listen: ":0"})
	g.cfg.Token = ""
	l, err := g.Listen(t.Context())
	if err != nil {
		t.Fatalf("with a token in the store: %v", err)
	}
	l.Close()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// The certificate of the standard library's test server, and its key.
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	pair := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := Config{TLSCertFile: filepath.Join(dir, "cert.pem"), TLSKeyFile: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{
		cfg.TLSCertFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, cfg.TLSKeyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := s.gateway(cfg)
	ws, _, err := websocket.Dial(t.Context(), "wss://"+g.addr+"/", &websocket.DialOptions{
		HTTPClient: other.Client(), HTTPHeader: http.Header{"Origin": {"https://" + g.addr}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &peer{t: t, ws: ws}
	defer ws.CloseNow()
	c.await(openclaw.EventChallenge)
	if r := c.call("connect", connectParams(testToken)); !r.OK {
		t.Errorf("got %v", r.Error)
	}
	if _, _, err := websocket.Dial(t.Context(), "ws://"+g.addr+"/", nil); err == nil {
		t.Error("served without TLS")
	}
	if _, err := New(s.quiet(), s.store, s.feed, nil, Config{TLSCertFile: "x"}); err == nil {
		t.Error("a certificate without a key was taken")
	}
}

// A gateway is ready when Temporal is there too.
func TestReadyWithTemporal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	there := temporaltest.Start(t)
	away, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: s.quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	for _, tt := range []struct {
		tc   client.Client
		want int
	}{{there.Client, http.StatusOK}, {away, http.StatusServiceUnavailable}} {
		g := s.idle(Config{})
		g.core = durable.New(s.quiet(), tt.tc, there.Namespace)
		l, err := g.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		served := s.serve(g, l)
		if resp, body := get(t, "http://"+served.addr+"/readyz", nil); resp.StatusCode != tt.want {
			t.Errorf("status %d (%s), want %d", resp.StatusCode, body, tt.want)
		}
		// Clients are let in all the same.
		served.connect(testToken)
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	tel, err := telemetry.Start(t.Context(), s.idle(Config{}).log, telemetry.Config{Service: "gateway"})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	g := s.gateway(Config{Hosts: []string{"gw.example"}, Telemetry: tel, Panel: fstest.MapFS{
		"index.html":       {Data: []byte("<p>panel")},
		"assets/app.js":    {Data: []byte("let x")},
		"favicon.svg":      {Data: []byte("<svg/>")},
		"assets/.x/secret": {Data: []byte("y")},
	}})
	bare := s.gateway(Config{})
	c := g.connect(testToken)
	c.call("test.echo", struct{}{})
	c.call("nope", struct{}{})
	for _, tt := range []struct {
		g          *served
		path, host string
		status     int
		body       string
	}{
		{g, "/healthz", "", 200, "ok\n"},
		{g, "/healthz", "probe.example", 200, "ok\n"},
		{g, "/readyz", "", 200, "ok\n"},
		{g, "/", "", 200, "<p>panel"},
		{g, "/runs/abc", "", 200, "<p>panel"},
		{g, "/index.html", "", 200, "<p>panel"},
		{g, "/assets/app.js", "", 200, "let x"},
		{g, "/assets/none.js", "", 404, "404 page not found\n"},
		{g, "/../gateway.go", "", 404, "404 page not found\n"},
		{g, "/", "gw.example", 200, "<p>panel"},
		{g, "/", "gw.example:18789", 200, "<p>panel"},
		{g, "/", "localhost:1", 200, "<p>panel"},
		{g, "/", "[::1]:1", 200, "<p>panel"},
		{g, "/", "evil.example", 421, "the gateway is not reached under this name; gateway.hosts lists its names\n"},
		{g, "/ws", "evil.example", 421, "the gateway is not reached under this name; gateway.hosts lists its names\n"},
		{g, "/metrics", "evil.example", 421, "the gateway is not reached under this name; gateway.hosts lists its names\n"},
		{bare, "/", "", 200, string(noPanel)},
	} {
		header := http.Header{}
		if tt.host != "" {
			header.Set("Host", tt.host)
		}
		resp, body := get(t, "http://"+tt.g.addr+tt.path, header)
		if resp.StatusCode != tt.status {
			t.Errorf("%s at %q: status %d, want %d", tt.path, tt.host, resp.StatusCode, tt.status)
		}
		if diff := cmp.Diff(tt.body, body); diff != "" {
			t.Errorf("%s at %q (-want +got)\n%s", tt.path, tt.host, diff)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); tt.status == 200 && !strings.HasSuffix(tt.path, "z") &&
			(!strings.Contains(csp, "script-src 'self';") || !strings.Contains(csp, "frame-ancestors 'none'")) {
			t.Errorf("%s: policy %q", tt.path, csp)
		}
	}
	_, metrics := get(t, "http://"+g.addr+"/metrics", nil)
	for _, want := range []string{
		"sgclaw_gateway_connections 1", `sgclaw_gateway_requests_total{code="ok",method="test.echo"} 1`,
		`sgclaw_gateway_requests_total{code="INVALID_REQUEST",method="unknown"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	s.store.Close()
	if resp, body := get(t, "http://"+g.addr+"/readyz", nil); resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "sql") {
		t.Errorf("without a database: %d %s", resp.StatusCode, body)
	}
}
