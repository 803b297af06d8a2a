package gateway

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sgclaw/internal/access"
	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/postgres"
)

func from(session string, after int64) map[string]any {
	return map[string]any{"sessionKey": session, "after": after}
}

func lastSeq(t testing.TB, r response) int64 {
	t.Helper()
	var v struct{ LastSeq int64 }
	if err := json.Unmarshal(r.Payload, &v); err != nil || !r.OK {
		t.Fatalf("watch: %+v, %v", r, err)
	}
	return v.LastSeq
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	for i := range 3 {
		s.accept("s", fmt.Sprint("before-", i))
	}
	live, gap, other := g.connect(testToken), g.connect(testToken), g.connect(testToken)
	if n := lastSeq(t, live.call("test.watch", map[string]string{"sessionKey": "s"})); n != 3 {
		t.Errorf("last seq %d", n)
	}
	// The answer comes before the replay: response keeps what came earlier.
	if n := lastSeq(t, gap.call("test.watch", from("s", 1))); n != 3 || len(gap.events) > 0 {
		t.Errorf("last seq %d, and %d events before the answer", n, len(gap.events))
	}
	lastSeq(t, other.call("test.watch", from("other", 0)))
	gap.seqs(2, 3)
	s.accept("s", "now")
	gap.seqs(4, 4)
	live.seqs(4, 4)
	// Again, from the beginning: it begins anew.
	lastSeq(t, live.call("test.watch", from("s", 0)))
	live.seqs(1, 4)
	// A number that there is not yet is that of the newest.
	lastSeq(t, gap.call("test.watch", from("s", 99)))
	s.accept("s", "later")
	gap.seqs(5, 5)
	live.seqs(5, 5)
	// Who has left hears nothing; the others do.
	live.call("test.unwatch", map[string]string{"sessionKey": "s"})
	s.accept("s", "last")
	gap.seqs(6, 6)
	s.accept("other", "first")
	other.seqs(1, 1)
	if r := live.call("test.echo", struct{}{}); !r.OK || len(live.events) > 0 {
		t.Errorf("after leaving: %+v, %v", r, live.events)
	}
}

// Clients that come and go while events are written see each event once and
// in order, whichever gateway they are at and wherever they begin.
func TestGapsAreFilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gates := []*served{s.gateway(Config{Grace: time.Millisecond}), stageAt(t, s.url).gateway(Config{Grace: time.Millisecond})}
	const total = 600
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range total {
			s.accept("s", fmt.Sprint("run-", i))
		}
	})
	var clients sync.WaitGroup
	for n := range 6 {
		clients.Go(func() {
			seen := int64(0)
			for hop := n; seen < total; hop++ {
				c := gates[hop%2].connect(testToken)
				lastSeq(t, c.call("test.watch", from("s", seen)))
				until := min(total, seen+int64(20+17*n))
				c.seqs(seen+1, until)
				seen = until
				c.ws.CloseNow()
			}
		})
	}
	clients.Wait()
	writing.Wait()
}

// A gap much longer than what may wait for a client is sent as fast as it
// reads, and is no reason to drop it.
func TestLongGap(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{MaxBufferedBytes: 256 << 10})
	const total = 900 // more than the kernel takes, too
	pad := strings.Repeat("x", 16<<10)
	for i := range total {
		if _, err := s.store.AcceptMessage(t.Context(), "s", agent.Message{ID: fmt.Sprint("m", i), Text: pad}); err != nil {
			t.Fatal(err)
		}
	}
	c := g.connect(testToken)
	lastSeq(t, c.call("test.watch", from("s", 0)))
	// It begins to read only when all that may wait for it does.
	waitFor(t, "the outbox to fill", func() bool { return g.everyone()[0].out.free() != nil })
	c.seqs(1, total)
}

// A client that does not read is dropped, with a code that says so, and the
// others do not notice.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const limit = 256 << 10
	g := s.gateway(Config{MaxBufferedBytes: limit})
	slow, quick := g.connect(testToken), g.connect(testToken)
	for _, c := range []*peer{slow, quick} {
		lastSeq(t, c.call("test.watch", from("s", 0)))
	}
	// What the kernel takes for the slow one is filled up first.
	for range 8 {
		slow.send("test.large", struct{}{})
	}
	pad := strings.Repeat("x", 16<<10)
	var n int64
	gone := func() bool {
		for _, c := range g.everyone() {
			if c.out.free() != nil {
				return false
			}
		}
		return len(g.everyone()) == 1
	}
	for deadline := time.Now().Add(patience); !gone(); {
		if time.Now().After(deadline) {
			t.Fatal("the slow client is still there")
		}
		n++
		if _, err := s.store.AcceptMessage(t.Context(), "s", agent.Message{ID: fmt.Sprint("m", n), Text: pad}); err != nil {
			t.Fatal(err)
		}
		quick.seqs(n, n)
	}
}

// A client that begins to read again in time is told why it is dropped.
func TestSlowClientIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{MaxBufferedBytes: 64 << 10})
	c := g.connect(testToken)
	for range 8 {
		c.send("test.large", struct{}{})
	}
	waitFor(t, "it to be dropped", func() bool {
		conn := g.everyone()
		if len(conn) == 0 {
			return true
		}
		conn[0].out.mu.Lock()
		defer conn[0].out.mu.Unlock()
		return conn[0].out.closing != nil
	})
	if got := c.ended(); got.Code != openclaw.CloseSlow {
		t.Errorf("closed with %v", got)
	}
}

// Pieces of a reply reach a client as they come.
func TestDeltas(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	c := g.connect(testToken)
	lastSeq(t, c.call("test.watch", from("s", 0)))
	s.accept("s", "run")
	c.seqs(1, 1)
	send := func(step int, text string) {
		if err := s.store.Delta(t.Context(), "run", agent.DeltaEvent{Step: step, Text: text}); err != nil {
			t.Error(err)
		}
	}
	// The first that arrives tells that the feed listens.
	stop := make(chan struct{})
	var probing sync.WaitGroup
	probing.Go(func() {
		for pause(stop, 10*time.Millisecond) {
			send(0, "probe")
		}
	})
	if e := c.native(); e.Kind != agent.EventDelta || e.Seq != 0 || e.RunID != "run" {
		t.Errorf("got %+v", e)
	}
	close(stop)
	probing.Wait()
	for i := range 20 {
		piece := fmt.Sprint("汉字", i)
		send(1, piece)
		d := agent.DeltaEvent{}
		for d.Step == 0 {
			if err := json.Unmarshal(c.native().Data, &d); err != nil {
				t.Fatal(err)
			}
		}
		if d.Text != piece {
			t.Fatalf("got %+v, want %s", d, piece)
		}
	}
}

func pieceFrame(run string, step int, text string) *Frame {
	data, err := json.Marshal(agent.DeltaEvent{Step: step, Text: text})
	if err != nil {
		panic(err)
	}
	return nativeFrame(agent.Event{Session: "s", RunID: run, Kind: agent.EventDelta, Data: data})
}

// Behind a client that lags, pieces of one text become one, in its place;
// those of other texts and other events stay apart.
func TestOutboxMerges(t *testing.T) {
	o := newOutbox(1 << 20)
	put := func(f *Frame) {
		t.Helper()
		if ok, err := o.event(f); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for i := range lagging {
		put(&Frame{Event: "x", Payload: i})
	}
	for range 100 {
		put(pieceFrame("a", 1, "a"))
		put(pieceFrame("b", 1, "b"))
	}
	put(&Frame{Event: "x", Payload: "between"})
	put(pieceFrame("a", 2, "c"))
	put(pieceFrame("a", 2, "d"))
	var got []string
	for {
		l, _ := o.take()
		if l == nil {
			break
		}
		b, err := l.text(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Payload agent.Event }
		var d agent.DeltaEvent
		if json.Unmarshal(b, &f) == nil && json.Unmarshal(f.Payload.Data, &d) == nil {
			got = append(got, d.Text)
		}
	}
	if want := []string{strings.Repeat("a", 100), strings.Repeat("b", 100), "cd"}; strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("got %q", got)
	}
	if o.bytes != 0 || len(o.pieces) != 0 {
		t.Errorf("%d bytes and %d pieces are left", o.bytes, len(o.pieces))
	}
}

// A frame is marshalled once, however many get it.
func TestFramesAreShared(t *testing.T) {
	f := &Frame{Event: "x", Payload: counted{new(int)}}
	for range 3 {
		if _, err := newOutbox(100).event(f); err != nil {
			t.Fatal(err)
		}
	}
	if n := *f.Payload.(counted).n; n != 1 {
		t.Errorf("marshalled %d times", n)
	}
}

type counted struct{ n *int }

func (c counted) MarshalJSON() ([]byte, error) {
	*c.n++
	return []byte("1"), nil
}

// All database connections are killed again and again.
func TestDatabaseConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{})
	killer, err := sql.Open("postgres", s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close()
	const total = 200
	early := g.connect(testToken)
	lastSeq(t, early.call("test.watch", from("s", 0)))
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range total {
			if i%40 == 20 {
				const q = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
				if _, err := killer.ExecContext(t.Context(), q); err != nil {
					t.Error(err)
				}
			}
			s.accept("s", fmt.Sprint("run-", i))
		}
	})
	early.seqs(1, total)
	writing.Wait()
	late := g.connect(testToken)
	lastSeq(t, late.call("test.watch", from("s", 0)))
	late.seqs(1, total)
}

// The database server ends and comes back: connections stay, requests that
// need it say so, and watchers go on where they were.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := postgres.Config{DataDir: filepath.Join(dir, "data"), Socket: filepath.Join(dir, "s"), LogFile: filepath.Join(dir, "log")}
	db, err := postgres.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Stop() })
	s := stageAt(t, db.URL())
	if err := s.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := s.gateway(Config{})
	secret, _ := s.token(access.RoleViewer)
	c := g.connect(testToken)
	lastSeq(t, c.call("test.watch", from("s", 0)))
	s.accept("s", "one")
	c.seqs(1, 1)
	db.Stop()
	if r := c.call("test.watch", from("t", 0)); r.OK || r.Error.Code != openclaw.CodeUnavailable || !r.Error.Retryable {
		t.Errorf("without a database: %+v, %v", r, r.Error)
	}
	refused := g.dial(nil)
	if r := refused.call("connect", connectParams(secret)); r.OK || r.Error.Code != openclaw.CodeUnavailable {
		t.Errorf("connect without a database: %+v, %v", r, r.Error)
	}
	if got := refused.ended(); got.Code != openclaw.CloseTryLater {
		t.Errorf("closed with %v", got)
	}
	if db, err = postgres.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.accept("s", "two")
	s.accept("s", "three")
	c.seqs(2, 3)
	lastSeq(t, g.connect(secret).call("test.watch", from("s", 0)))
}

// Topics that nobody watches end, and those that somebody does stay.
func TestTopicsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g := s.gateway(Config{Grace: 10 * time.Millisecond})
	topics := func() int {
		g.hub.mu.Lock()
		defer g.hub.mu.Unlock()
		return len(g.hub.topics)
	}
	a, b := g.connect(testToken), g.connect(testToken)
	for _, c := range []*peer{a, b} {
		lastSeq(t, c.call("test.watch", from("s", 0)))
	}
	lastSeq(t, a.call("test.watch", from("t", 0)))
	if n := topics(); n != 2 {
		t.Errorf("%d topics, want 2", n)
	}
	a.ws.CloseNow()
	waitFor(t, "the topic that only one watched to end", func() bool { return topics() == 1 })
	s.accept("s", "x")
	b.seqs(1, 1)
	b.call("test.unwatch", map[string]string{"sessionKey": "s"})
	waitFor(t, "the last topic to end", func() bool { return topics() == 0 })
	// And begin again.
	lastSeq(t, b.call("test.watch", from("s", 0)))
	b.seqs(1, 1)
}

func TestTooManyWatches(t *testing.T) {
	t.Parallel()
	c := newStage(t).gateway(Config{}).connect(testToken)
	for i := range maxWatched {
		lastSeq(t, c.call("test.watch", from(fmt.Sprint("s", i), 0)))
	}
	if r := c.call("test.watch", from("more", 0)); r.detail() != DetailTooMany {
		t.Errorf("got %+v", r)
	}
	lastSeq(t, c.call("test.watch", from("s0", 0)))
}

// Whoever listens for all sessions hears of each that changes.
func TestWatchAll(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	l := s.idle(Config{})
	l.hub.changed = func(_ context.Context, session string) []*Frame {
		return []*Frame{{Event: "sessions.changed", Payload: map[string]string{"sessionKey": session}}}
	}
	at, err := l.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := s.serve(l, at)
	c := g.connect(testToken)
	c.call("test.watchall", struct{}{})
	heard := map[string]bool{"": true}
	for n := 0; !heard["a"] || !heard["b"]; n++ {
		if heard[""] {
			// The feed did not listen before, so it may have missed them.
			s.accept("b", fmt.Sprint("b", n))
			s.accept("a", fmt.Sprint("a", n))
			heard = map[string]bool{}
		}
		var p struct{ SessionKey string }
		if err := json.Unmarshal(c.await("sessions.changed").Payload, &p); err != nil {
			t.Fatal(err)
		}
		heard[p.SessionKey] = true
	}
}

type brittle struct{}

func (brittle) Translate(e agent.Event) []*Frame {
	if e.RunID == "bad" {
		panic("cannot be told")
	}
	return []*Frame{{Event: "chat.test", Payload: e.RunID, To: ToNative}}
}

// An event that cannot be translated holds up no other.
func TestPanicInTranslation(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	idle := s.idle(Config{})
	idle.hub.translator = func(string) Translator { return brittle{} }
	at, err := idle.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := s.serve(idle, at).connect(testToken)
	lastSeq(t, c.call("test.watch", from("s", 0)))
	s.accept("s", "bad")
	s.accept("s", "good")
	if e := c.await("chat.test"); string(e.Payload) != `"good"` {
		t.Errorf("got %s", e.Payload)
	}
}

func TestBadSessionKeys(t *testing.T) {
	t.Parallel()
	c := newStage(t).gateway(Config{}).connect(testToken)
	for _, key := range []string{"a\x00b", strings.Repeat("x", 513)} {
		if r := c.call("test.watch", from(key, 0)); r.OK || r.Error.Code != openclaw.CodeInvalidRequest {
			t.Errorf("%q: %+v, %v", key, r, r.Error)
		}
	}
}

// Each gateway tells its clients who is at the other.
func TestPresenceOfTwoGateways(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one, two := s.gateway(Config{}), stageAt(t, s.url).gateway(Config{})
	one.connect(testToken, func(p *openclaw.ConnectParams) { p.Client.DisplayName = "Anna's panel" })
	waitFor(t, "the first client to be written down", func() bool { return len(one.Presence()) >= 2 })
	c := two.connect(testToken, func(p *openclaw.ConnectParams) { p.Client.DisplayName = "Ben's panel" })
	for {
		var p openclaw.PresenceEvent
		if err := json.Unmarshal(c.await(openclaw.EventPresence).Payload, &p); err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, e := range p.Presence {
			found[e.Host] = true
		}
		if found["Anna's panel"] && found["Ben's panel"] {
			return
		}
	}
}

// FuzzFrame feeds a connection with frames as a client may write them.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(request("1", "test.echo", map[string]int{"x": 1})))
	f.Add([]byte(request("1", "test.watch", struct{}{})))
	f.Add([]byte(`{"type":"req","id":"","method":"x"}`))
	f.Add([]byte(`[[]]`))
	f.Add([]byte(`{"type":"req","id":"1","method":"connect","params":null}`))
	g := &Gateway{table: map[string]Method{}, conns: map[*Conn]struct{}{}}
	g.cfg.withDefaults()
	g.log = (&stage{}).quiet()
	for _, m := range testMethods[:4] {
		g.table[m.Name] = m
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if !json.Valid(frame) {
			t.Skip()
		}
		c := &Conn{g: g, out: newOutbox(1 << 20), scopes: roleScopes[access.RoleUser], holds: access.RoleUser, abort: func() {}}
		c.request(t.Context(), frame)
		c.running.Wait()
		l, _ := c.out.take()
		if l == nil {
			t.Fatalf("%q is not answered", frame)
		}
		var r response
		if err := json.Unmarshal(l.response, &r); err != nil || r.ID == "" || r.OK == (r.Error != nil) {
			t.Errorf("%q is answered %s", frame, l.response)
		}
	})
}
