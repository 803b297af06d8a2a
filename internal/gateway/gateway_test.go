package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"sgclaw/internal/access"
	"sgclaw/internal/agent"
	"sgclaw/internal/feed"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/openclaw/schematest"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/store"
)

const (
	testToken = "the gateway's own token"
	patience  = 20 * time.Second
)

// stage is a database with any number of gateways on it.
type stage struct {
	t     testing.TB
	url   string
	store *store.Store
	feed  *feed.Feed
}

func newStage(t testing.TB) *stage {
	t.Helper()
	return stageAt(t, pgtest.New(t))
}

func stageAt(t testing.TB, at string) *stage {
	t.Helper()
	s, err := store.Open(t.Context(), at, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := feed.New((*stage)(nil).quiet(), s, at, feed.Options{})
	t.Cleanup(func() { f.Close() })
	return &stage{t: t, url: at, store: s, feed: f}
}

// served is a gateway that serves.
type served struct {
	*Gateway
	t    testing.TB
	addr string
	stop func() error
}

// gateway starts one; methods are added to its table.
func (s *stage) gateway(cfg Config, methods ...Method) *served {
	s.t.Helper()
	g := s.idle(cfg, methods...)
	l, err := g.Listen(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return s.serve(g, l)
}

// idle makes a gateway that does not serve yet.
func (s *stage) idle(cfg Config, methods ...Method) *Gateway {
	s.t.Helper()
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	cfg.Token = testToken
	g, err := New(s.quiet(), s.store, s.feed, nil, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range append(testMethods, methods...) {
		g.table[m.Name] = m
	}
	return g
}

func (s *stage) serve(g *Gateway, l net.Listener) *served {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	stop := sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			return errors.New("the gateway does not end")
		}
	})
	s.t.Cleanup(func() {
		if err := stop(); err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
	for deadline := time.Now().Add(patience); !g.up.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("the gateway does not come up")
		}
	}
	return &served{Gateway: g, t: s.t, addr: l.Addr().String(), stop: stop}
}

func (*stage) quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// token makes one in the store and returns its secret.
func (s *stage) token(role access.Role) (secret string, id string) {
	s.t.Helper()
	secret, tok, err := access.New("test "+string(role), role, 0)
	if err == nil {
		err = s.store.InsertToken(s.t.Context(), tok)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return secret, tok.ID
}

// accept adds a stored event to a session, as soon as the database lets it.
func (s *stage) accept(session, run string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		_, err := s.store.AcceptMessage(s.t.Context(), session, agent.Message{ID: run, Text: "x"})
		if err == nil {
			return
		}
		if !store.Unavailable(err) || time.Now().After(deadline) {
			s.t.Error(err)
			return
		}
	}
}

type testWatch struct {
	SessionKey string `json:"sessionKey" oc:"required,min=1"`
	After      *int64 `json:"after,omitempty" oc:"min=0"`
}

// testMethods are in the table of every gateway under test.
var testMethods = []Method{
	{Name: "test.echo", Role: access.RoleViewer, Handle: func(_ context.Context, _ *Gateway, c *Call) (any, error) {
		return c.Params, nil
	}},
	{Name: "test.write", Role: access.RoleUser, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		return struct{}{}, nil
	}},
	{Name: "test.approve", Role: access.RoleApprover, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		return struct{}{}, nil
	}},
	{Name: "test.admin", Role: access.RoleOperator, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		return struct{}{}, nil
	}},
	{Name: "test.panic", Role: access.RoleViewer, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		panic("secret detail")
	}},
	{Name: "test.fault", Role: access.RoleViewer, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		return nil, errors.New("secret detail")
	}},
	{Name: "test.twice", Role: access.RoleViewer, Handle: func(_ context.Context, _ *Gateway, c *Call) (any, error) {
		c.Early(map[string]string{"status": "accepted"})
		return map[string]string{"status": "ok"}, nil
	}},
	{Name: "test.stuck", Role: access.RoleViewer, Timeout: 20 * time.Millisecond, Handle: func(ctx context.Context, _ *Gateway, _ *Call) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}},
	{Name: "test.large", Role: access.RoleViewer, Handle: func(context.Context, *Gateway, *Call) (any, error) {
		return strings.Repeat("x", 4<<20), nil
	}},
	{Name: "test.watch", Role: access.RoleViewer, Handle: func(ctx context.Context, g *Gateway, c *Call) (any, error) {
		p, refused := openclaw.Decode[testWatch]("test.watch", c.Params)
		if refused != nil {
			return nil, refused
		}
		after := Now
		if p.After != nil {
			after = *p.After
		}
		last, err := g.hub.Watch(ctx, c, p.SessionKey, ToNative, after)
		return map[string]int64{"lastSeq": last}, err
	}},
	{Name: "test.unwatch", Role: access.RoleViewer, Handle: func(_ context.Context, g *Gateway, c *Call) (any, error) {
		p, refused := openclaw.Decode[testWatch]("test.unwatch", c.Params)
		if refused != nil {
			return nil, refused
		}
		g.hub.Unwatch(c.Conn, p.SessionKey, ToNative)
		return struct{}{}, nil
	}},
	{Name: "test.watchall", Role: access.RoleViewer, Handle: func(_ context.Context, g *Gateway, c *Call) (any, error) {
		g.hub.WatchAll(c.Conn)
		return struct{}{}, nil
	}},
}

// peer is the other end of a connection. Every frame that it gets is held
// to the published schema.
type peer struct {
	t    testing.TB
	ws   *websocket.Conn
	talk schematest.Conversation
	n    int
	seq  int64
	// events that came while a response was waited for
	events []event
	nonce  string
}

type event struct {
	Event   string
	Payload json.RawMessage
	Seq     int64
}

type response struct {
	ID      string
	OK      bool
	Payload json.RawMessage
	Error   *openclaw.Error
}

// detail is the code in the details of the response's error.
func (r response) detail() string {
	if r.Error == nil {
		return ""
	}
	b, err := json.Marshal(r.Error.Details)
	if err != nil {
		return ""
	}
	var d openclaw.Details
	// Details without a code have none.
	_ = json.Unmarshal(b, &d)
	return d.Code
}

// dial opens a socket and takes the challenge.
func (g *served) dial(header http.Header) *peer {
	g.t.Helper()
	ws, resp, err := websocket.Dial(g.t.Context(), "ws://"+g.addr+"/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		g.t.Fatalf("dial: %v, %v", err, resp)
	}
	ws.SetReadLimit(64 << 20)
	c := &peer{t: g.t, ws: ws}
	g.t.Cleanup(func() { ws.CloseNow() })
	var challenge struct{ Nonce string }
	if e := c.event(); e.Event != openclaw.EventChallenge || json.Unmarshal(e.Payload, &challenge) != nil || challenge.Nonce == "" {
		g.t.Fatalf("first frame is %+v", e)
	}
	c.nonce = challenge.Nonce
	return c
}

func connectParams(token string) openclaw.ConnectParams {
	return openclaw.ConnectParams{
		MinProtocol: 4, MaxProtocol: 4, Role: "operator",
		Client: openclaw.Client{ID: openclaw.ClientTest, Mode: openclaw.ModeTest, Version: "1", Platform: "linux"},
		Auth:   &openclaw.Auth{Token: token},
	}
}

// connect dials and is let in.
func (g *served) connect(token string, change ...func(*openclaw.ConnectParams)) *peer {
	g.t.Helper()
	c := g.dial(nil)
	p := connectParams(token)
	for _, f := range change {
		f(&p)
	}
	if r := c.call(openclaw.MethodConnect, p); !r.OK {
		g.t.Fatalf("connect: %v", r.Error)
	}
	return c
}

func (c *peer) write(frame []byte) {
	c.t.Helper()
	c.talk.Sent(frame)
	if err := c.ws.Write(c.t.Context(), websocket.MessageText, frame); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// frame reads a frame, or says how the connection ended.
func (c *peer) frame() ([]byte, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	_, b, err := c.ws.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			c.t.Fatalf("no frame after %v", patience)
		}
		return nil, err
	}
	c.talk.Received(c.t, b)
	return b, nil
}

// next reads an event or a response, whichever comes.
func (c *peer) next() (event, response) {
	c.t.Helper()
	b, err := c.frame()
	if err != nil {
		c.t.Fatalf("connection ended: %v", err)
	}
	var kind struct{ Type string }
	if err := json.Unmarshal(b, &kind); err != nil {
		c.t.Fatal(err)
	}
	if kind.Type == openclaw.TypeResponse {
		var r response
		if err := json.Unmarshal(b, &r); err != nil {
			c.t.Fatal(err)
		}
		return event{}, r
	}
	var e event
	if err := json.Unmarshal(b, &e); err != nil {
		c.t.Fatal(err)
	}
	if e.Seq != 0 {
		if c.seq++; e.Seq != c.seq {
			c.t.Fatalf("event %s has seq %d, want %d", e.Event, e.Seq, c.seq)
		}
	}
	return e, response{}
}

func (c *peer) event() event {
	c.t.Helper()
	if len(c.events) > 0 {
		e := c.events[0]
		c.events = c.events[1:]
		return e
	}
	e, r := c.next()
	if r.ID != "" {
		c.t.Fatalf("response %+v, want an event", r)
	}
	return e
}

// await reads events up to the next one of that name.
func (c *peer) await(name string) event {
	c.t.Helper()
	for {
		if e := c.event(); e.Event == name {
			return e
		}
	}
}

func (c *peer) send(method string, params any) (id string) {
	c.t.Helper()
	c.n++
	id = fmt.Sprintf("%d:test", c.n)
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	frame, err := json.Marshal(openclaw.Request{Type: openclaw.TypeRequest, ID: id, Method: method, Params: raw})
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(frame)
	return id
}

// response reads the response to a request. Events that come before it are
// kept.
func (c *peer) response(id string) response {
	c.t.Helper()
	var before []event
	for {
		e, r := c.next()
		if r.ID == id {
			c.events = append(c.events, before...)
			return r
		}
		if r.ID != "" {
			c.t.Fatalf("response %+v, want one to %s", r, id)
		}
		before = append(before, e)
	}
}

func (c *peer) call(method string, params any) response {
	c.t.Helper()
	return c.response(c.send(method, params))
}

// ended reads until the connection ends and returns the close code.
func (c *peer) ended() websocket.CloseError {
	c.t.Helper()
	for {
		if _, err := c.frame(); err != nil {
			var closed websocket.CloseError
			if !errors.As(err, &closed) {
				c.t.Fatalf("connection ended without a code: %v", err)
			}
			return closed
		}
	}
}

// native reads the next sgclaw.event.
func (c *peer) native() agent.Event {
	c.t.Helper()
	var e agent.Event
	if err := json.Unmarshal(c.await(EventNative).Payload, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// seqs expects the stored events from..to of a session, in order, deltas
// left out.
func (c *peer) seqs(from, to int64) {
	c.t.Helper()
	for want := from; want <= to; {
		e := c.native()
		if e.Kind == agent.EventDelta {
			continue
		}
		if e.Seq != want {
			c.t.Fatalf("event %d, want %d", e.Seq, want)
		}
		want++
	}
}

func get(t *testing.T, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if h := header.Get("Host"); h != "" {
		req.Host = h
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}
