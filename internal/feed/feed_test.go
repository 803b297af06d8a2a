package feed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

type stage struct {
	t    *testing.T
	url  string
	s    *store.Store
	feed *Feed
}

func newStage(t *testing.T, opts Options) *stage {
	t.Helper()
	at := pgtest.New(t)
	s, err := store.Open(t.Context(), at, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	st := &stage{t: t, url: at, s: s}
	st.feed = New(slog.New(slog.DiscardHandler), s, at, opts)
	t.Cleanup(func() { st.feed.Close() })
	return st
}

// add appends n events to a session.
func (s *stage) add(session string, n int) {
	s.t.Helper()
	for range n {
		s.accept(session, fmt.Sprintf("%s-%d", session, time.Now().UnixNano()))
	}
}

func (s *stage) accept(session, run string) {
	s.t.Helper()
	// The database may be on its way up again.
	for {
		_, err := s.s.AcceptMessage(s.t.Context(), session, agent.Message{ID: run, Text: "x"})
		if err == nil {
			return
		}
		if !store.Unavailable(err) {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) subscribe(q Query, after int64) *Subscription {
	s.t.Helper()
	sub, err := s.feed.Subscribe(s.t.Context(), q, after)
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

func next(t *testing.T, sub *Subscription) agent.Event {
	t.Helper()
	select {
	case e, ok := <-sub.C:
		if !ok {
			t.Fatalf("subscription ended: %v", sub.Err())
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	return agent.Event{}
}

// seqs expects the stored events from..to, in order.
func seqs(t *testing.T, sub *Subscription, from, to int64) {
	t.Helper()
	for want := from; want <= to; want++ {
		if e := next(t, sub); e.Seq != want {
			t.Fatalf("event %d, want %d", e.Seq, want)
		}
	}
}

// ended waits for the end of a subscription.
func ended(t *testing.T, sub *Subscription) error {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case _, ok := <-sub.C:
			if !ok {
				return sub.Err()
			}
		case <-deadline:
			t.Fatal("the subscription does not end")
		}
	}
}

func TestReplayThenLive(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.add("a:1", 3)
	s.add("b", 2)
	sub, other := s.subscribe(Query{Session: "a:1"}, 1), s.subscribe(Query{Session: "b"}, 0)
	seqs(t, sub, 2, 3)
	s.add("a:1", 500)
	s.add("b", 1)
	seqs(t, sub, 4, 503)
	seqs(t, other, 1, 3)
	// Who asks for what is to come does not get it early.
	late := s.subscribe(Query{Session: "a:1"}, 504)
	s.add("a:1", 2)
	seqs(t, late, 505, 505)
}

func TestEventsOfOneRun(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.accept("s", "one")
	s.accept("s", "two")
	if _, err := s.feed.Subscribe(t.Context(), Query{RunID: "none"}, 0); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
	early := s.subscribe(Query{Session: "s", RunID: "three"}, 0)
	two := s.subscribe(Query{RunID: "two"}, 0)
	s.accept("s", "three")
	if err := s.s.SetStatus(t.Context(), record.Fence{RunID: "two", Execution: "x"}, "k", agent.StatusCooling, "", ""); err != nil {
		t.Fatal(err)
	}
	seqs(t, early, 3, 3)
	seqs(t, two, 2, 2)
	seqs(t, two, 4, 4)
}

func TestDeltasArePassedOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.accept("s", "one")
	s.accept("s", "two")
	sub := s.subscribe(Query{RunID: "one"}, 0)
	seqs(t, sub, 1, 1)
	// Deltas are lost while the feed is not connected yet.
	stop := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for _, run := range []string{"two", "one", "none"} {
				if err := s.s.Delta(t.Context(), run, agent.DeltaEvent{Step: 1, Text: "你好"}); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	e := next(t, sub)
	close(stop)
	sending.Wait()
	var d agent.DeltaEvent
	if err := json.Unmarshal(e.Data, &d); err != nil || e.Kind != agent.EventDelta || e.RunID != "one" || e.Session != "s" || d.Text != "你好" {
		t.Errorf("got %+v, %+v, %v", e, d, err)
	}
}

// Connections are killed again and again while events are written; nothing
// is lost or doubled.
func TestConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	killer, err := sql.Open("postgres", s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close()
	const total = 400
	sub := s.subscribe(Query{Session: "s"}, 0)
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
	seqs(t, sub, 1, total)
	writing.Wait()
	s.add("s", 1)
	seqs(t, sub, total+1, total+1)
}

// While nobody notifies, a subscription looks by itself.
func TestLostNotifications(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Poll: 50 * time.Millisecond})
	s.feed.listener.Close()
	sub := s.subscribe(Query{Session: "s"}, 0)
	s.add("s", 2)
	seqs(t, sub, 1, 2)
	s.add("s", 1)
	seqs(t, sub, 3, 3)
}

func TestSlowSubscriberIsDropped(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Buffer: 2, Stall: 50 * time.Millisecond})
	s.add("s", 5)
	sub, quick := s.subscribe(Query{Session: "s"}, 0), s.subscribe(Query{Session: "s"}, 0)
	seqs(t, quick, 1, 5)
	deadline := time.Now().Add(20 * time.Second)
	for sub.Err() == nil && time.Now().Before(deadline) {
		s.add("s", 1)
		next(t, quick)
	}
	if err := ended(t, sub); !errors.Is(err, ErrSlow) {
		t.Errorf("slow subscriber: %v", err)
	}
	if err := quick.Err(); err != nil {
		t.Errorf("quick subscriber: %v", err)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	sub, err := s.feed.Subscribe(ctx, Query{Session: "s"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	left := s.subscribe(Query{Session: "s"}, 0)
	cancel()
	if err := ended(t, sub); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := s.feed.Close(); err != nil {
		t.Error(err)
	}
	if err := ended(t, left); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, err := s.feed.Subscribe(t.Context(), Query{Session: "s"}, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("subscribed to a closed feed: %v", err)
	}
	if n := len(s.feed.subs); n != 0 {
		t.Errorf("%d sessions are still watched", n)
	}
	s.feed = New(slog.New(slog.DiscardHandler), s.s, s.url, Options{}) // for the cleanup
}

// A feed starts while the database is away, and works once it is there.
func TestDatabaseComesLater(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	p := newProxy(t, s.url)
	later, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	q := later.Query()
	q.Del("host")
	q.Del("port")
	later.Host, later.RawQuery = p.l.Addr().String(), q.Encode()
	f := New(slog.New(slog.DiscardHandler), s.s, later.String(), Options{Poll: time.Hour})
	defer f.Close()
	sub, err := f.Subscribe(t.Context(), Query{Session: "s"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.add("s", 1)
	p.open.Store(true)
	seqs(t, sub, 1, 1)
	s.add("s", 10)
	seqs(t, sub, 2, 11)
}

// A proxy passes connections on to the server once it is open.
type proxy struct {
	l    net.Listener
	open atomic.Bool
}

func newProxy(t *testing.T, at string) *proxy {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	network, addr := "tcp", u.Host
	if host := u.Query().Get("host"); host != "" {
		network, addr = "unix", host+"/.s.PGSQL."+u.Query().Get("port")
	}
	p := &proxy{}
	if p.l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.l.Close() })
	go func() {
		for {
			c, err := p.l.Accept()
			if err != nil {
				return
			}
			if !p.open.Load() {
				c.Close()
				continue
			}
			up, err := net.Dial(network, addr)
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(up, c); up.Close() }()
			go func() { io.Copy(c, up); c.Close() }()
		}
	}()
	return p
}

// Whoever listens for all sessions hears of each once, and of a connection
// that was down.
func TestChanges(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	sub := s.subscribe(Query{Session: "b"}, 0)
	c := s.feed.Changes()
	defer c.Close()
	// The subscription's event tells that the feed listens.
	s.add("b", 1)
	seqs(t, sub, 1, 1)
	s.add("a", 3)
	s.add("b", 1)
	seqs(t, sub, 2, 2)
	heard := map[string]bool{}
	for !heard["a"] || !heard["b"] {
		wait(t, c.C)
		sessions, _ := c.Take()
		for _, name := range sessions {
			heard[name] = true
		}
	}
	if len(heard) != 2 {
		t.Errorf("heard of %v", heard)
	}
	killer, err := sql.Open("postgres", s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close()
	const q = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	if _, err := killer.ExecContext(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	for {
		wait(t, c.C)
		if _, missed := c.Take(); missed {
			break
		}
	}
}

func wait(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was told")
	}
}
