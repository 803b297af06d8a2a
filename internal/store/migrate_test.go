package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"sgclaw/internal/agent"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/record"
)

func TestMigrationsGoUpAndDown(t *testing.T) {
	t.Parallel()
	s := dial(t, pgtest.Empty(t))
	ctx := t.Context()
	for i, step := range []struct {
		do      func(context.Context) error
		applied bool
	}{{s.Migrate, true}, {s.rollback, false}, {s.Migrate, true}, {s.Migrate, true}} {
		if err := step.do(ctx); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		list, err := s.MigrationStatus(ctx)
		if err != nil || len(list) == 0 {
			t.Fatalf("step %d: status %v, %v", i, list, err)
		}
		for _, m := range list {
			if m.Applied != step.applied {
				t.Errorf("step %d: %s applied: %v, want %v", i, m.Name, m.Applied, step.applied)
			}
		}
		var left int
		const q = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relname <> 'goose_db_version'"
		if err := s.db.QueryRowContext(ctx, q).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left > 0 != step.applied {
			t.Errorf("step %d: %d tables", i, left)
		}
	}
	if _, err := s.AcceptMessage(ctx, "s", agent.Message{ID: "r", Text: "x"}); err != nil {
		t.Error(err)
	}
}

func TestMigratorsWaitForEachOther(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	var wg sync.WaitGroup
	for range 3 {
		s := dial(t, url)
		wg.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("other"), false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{sql.ErrNoRows, false},
		{io.EOF, true},
		{driver.ErrBadConn, true},
		{fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), true},
		{&pq.Error{Code: "57P01"}, true},
		{&pq.Error{Code: "08006"}, true},
		{&pq.Error{Code: "53300"}, true},
		{&pq.Error{Code: "23505"}, false},
		{&pq.Error{Code: "42P01"}, false},
	} {
		if got := Unavailable(c.err); got != c.want {
			t.Errorf("Unavailable(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Open(t.Context(), "postgres://x@"+l.Addr().String()+"/x?sslmode=disable", Options{}); !Unavailable(err) {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := Open(t.Context(), "postgres://u:secret@[", Options{}); err == nil || Unavailable(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("broken url: %v", err)
	}
}

// A database that restarts is no reason to give up: the same call works
// again.
func TestConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s, killer := dial(t, url), dial(t, url)
	ctx := t.Context()
	if _, err := s.AcceptMessage(ctx, "s", agent.Message{ID: "r", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	dbtx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, killer)
	_, err = dbtx.ExecContext(ctx, "SELECT 1")
	if !Unavailable(err) {
		t.Errorf("killed in a transaction: %v", err)
	}
	_ = dbtx.Rollback()
	deadline := time.Now().Add(5 * time.Second)
	for {
		if _, err = s.AcceptMessage(ctx, "s", agent.Message{ID: "r2", Text: "x"}); err == nil {
			return
		}
		if !Unavailable(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// kill ends all other connections to the store's database.
func kill(t *testing.T, s *Store) {
	t.Helper()
	const q = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
	if _, err := s.db.ExecContext(t.Context(), q); err != nil {
		t.Fatal(err)
	}
}

func TestLongDeltasAreCut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"短", string(make([]byte, 9000)), fmt.Sprintf("%09000d", 1), longest("批准"), longest("<&\u2028")} {
		payload, err := fit("run", agent.DeltaEvent{Step: 1, Text: text})
		if err != nil || len(payload) > maxDelta {
			t.Errorf("%.10q: %d bytes, %v", text, len(payload), err)
		}
		e, err := ParseDelta("s:1\n" + payload)
		if err != nil || e.Session != "s:1" || e.RunID != "run" || e.Kind != agent.EventDelta {
			t.Errorf("%.10q: %+v, %v", text, e, err)
		}
	}
	if session, seq, err := ParseEvent("a:b:12"); session != "a:b" || seq != 12 || err != nil {
		t.Errorf("event is %s, %d, %v", session, seq, err)
	}
	for _, bad := range []string{"", "a", "a:", ":x"} {
		if _, _, err := ParseEvent(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func longest(s string) string {
	for len(s) < 20000 {
		s += s
	}
	return s
}

// What was there before sessions had settings is a session like any other.
func TestMigrationOfSessions(t *testing.T) {
	t.Parallel()
	s := dial(t, pgtest.Empty(t))
	ctx := t.Context()
	p, err := s.provider()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"INSERT INTO sessions (key, last_seq) VALUES ('idle', 0), ('a', 1)",
		`INSERT INTO runs (id, session, task, browser, origin, asked, status, accepted_at, ended_at)
			VALUES ('r', 'a', 'x', 'b', '{}', '{}', 'done', '2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z')`,
		"INSERT INTO events (session, seq, run_id, key, kind) VALUES ('a', 1, 'r', 'k', 'done')",
	} {
		if _, err := s.db.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if got := sessionKeys(t, s, SessionFilter{}); got != "idle a" {
		t.Errorf("sessions are %s", got)
	}
	got := session(t, s, "a")
	if got.Runs != 1 || !got.Since.IsZero() || got.UpdatedAt.Day() != 2 || got.Settings != (record.SessionSettings{}) {
		t.Errorf("session is %+v", got)
	}
	if got := parts(t, s, "a", ""); got != "r" {
		t.Errorf("past is %s", got)
	}
	if _, err := s.ResetSession(ctx, "a", "li"); err != nil {
		t.Fatal(err)
	}
	// Back, and forth again.
	if _, err := p.DownTo(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if got := parts(t, s, "a", ""); got != "r" {
		t.Errorf("past is %s", got)
	}
}
