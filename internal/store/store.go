// Package store keeps the written record of sessions and runs in PostgreSQL:
// what people asked, what the model said, what was done and what came of it,
// who confirmed what, and the events that watchers see; besides, the
// gateway's tokens, the audit, and who is connected. Temporal decides and
// remembers where a run stands; the store remembers what it was about.
//
// # Writing
//
// Every method that writes is one transaction, and idempotent by a key that
// the caller chooses, so that a retried activity writes once: a message by
// its id, a thought by (run, step), a step by (run, step, index), a
// confirmation by its id, a state by its key. Locks are always taken in the
// order run, browser's breaker, session; so writers do not deadlock.
//
// # Fencing and rewinding
//
// A run is executed by a chain of Temporal executions: continue-as-new and
// reset make a new one each. Every write comes with a record.Fence:
//
//	execution is the head     it may write
//	execution was retired     record.ErrSuperseded: a straggler, it must stop
//	execution is neither      it takes the run over: the head is retired,
//	                          the run's branch number is raised
//
// What other branches wrote at or after the position of the new branch is
// set aside ("rewound"): it stays for the audit, and no read of a run shows
// it. The position is the beginning of the step for Thought and
// RecordThought (nothing of that step is in the new branch's history), the
// call for RecordStep, and the end of the step for everything else,
// because a reset may well lead into the middle of a step. After a
// continue-as-new there is nothing to set aside. A run that had ended and is
// taken over is under way again.
//
// An execution can be told for a straggler only once it, or a later one it
// should have yielded to, has written. That leaves one case open: an
// execution whose very first write is delayed until after its successor's
// takes the run back. A run's first write is quick and retried at once, and
// a rewind is a person's doing, so this is left to them.
//
// # Sessions
//
// A session's history is its runs and entries since its last reset. Nothing
// is removed by a reset or when a session is deleted: sessions.since says
// where the history begins. What a run is shown of it is Past, in the order
// in which things ended; what people are shown is History, in the order in
// which they began.
//
// # Events
//
// An event gets the next number of its session in the transaction that
// causes it, under the session's row lock. So numbers have no gaps, and
// become visible in order: who has read up to n has missed nothing. A
// trigger announces each on the channel sgclaw_events as "session:seq".
// Package feed listens.
package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"
	"github.com/sqlc-dev/pqtype"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// ErrInvalid is record.ErrInvalid: the caller's input cannot be stored.
var ErrInvalid = record.ErrInvalid

// MaxKey bounds session keys and ids, in bytes.
const MaxKey = 512

// Options are choices for Open; zero values work.
type Options struct {
	// MaxConns bounds the connections; 0 means 16.
	MaxConns int
	// Log gets what migrations do; nil discards it.
	Log *slog.Logger
}

// Store is a pool of connections to the database. It is safe for concurrent
// use.
type Store struct {
	db  *sql.DB
	q   *sqldb.Queries
	log *slog.Logger

	mu    sync.Mutex
	ready *sqldb.Queries // the same, prepared; nil before the first transaction
}

// Open connects to the database at a URL (postgres://... or a key=value
// string) and pings it. An error that Unavailable recognises may pass. The
// caller closes the store. The schema is Migrate's business.
func Open(ctx context.Context, at string, opts Options) (*Store, error) {
	cfg, err := pq.NewConfig(at)
	if err != nil {
		// The url itself, which may hold a password, stays out of the error.
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return nil, fmt.Errorf("database url: %w", err)
	}
	if cfg.Runtime == nil {
		cfg.Runtime = map[string]string{}
	}
	// A worker that vanishes without closing its connection must not keep a
	// run locked.
	setDefault(cfg.Runtime, "idle_in_transaction_session_timeout", "60s")
	setDefault(cfg.Runtime, "timezone", "UTC")
	if cfg.ApplicationName == "" {
		cfg.ApplicationName = "sgclaw"
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	connector, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	if opts.MaxConns <= 0 {
		opts.MaxConns = 16
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(opts.MaxConns)
	db.SetMaxIdleConns(opts.MaxConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	s := &Store{db: db, q: sqldb.New(db), log: opts.Log}
	if err := s.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func setDefault(m map[string]string, key, value string) {
	if _, ok := m[key]; !ok {
		m[key] = value
	}
}

// Close closes all connections.
func (s *Store) Close() error { return s.db.Close() }

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// Unavailable reports whether err says that the database could not be
// reached or went away, so that the same call may succeed later.
func Unavailable(err error) bool {
	if err == nil {
		return false
	}
	if e := pq.As(err); e != nil {
		switch e.Code {
		case "53300", // too many connections
			"57P01", "57P02", "57P03", "57P05": // shutting down, crashed, starting up, idle too long
			return true
		}
		return e.Code.Class() == "08" // connection exceptions
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// tx is a transaction under way. Events are kept until its end, so that the
// session's row is locked last and shortly.
type tx struct {
	*sqldb.Queries
	events []sqldb.AppendEventParams
}

// event adds an event to the session of the run; key makes it once.
func (t *tx) event(session, runID string, kind agent.EventKind, key string, data any) error {
	b, err := encode(data)
	if err != nil {
		return err
	}
	t.events = append(t.events, sqldb.AppendEventParams{
		Session: session, RunID: runID, Kind: string(kind), Key: runID + "/" + key,
		Data: pqtype.NullRawMessage{RawMessage: b, Valid: true},
	})
	return nil
}

// prepared returns the queries as prepared statements, which save a round
// trip and planning each. They need the schema, so they are prepared for the
// first transaction and not by Open.
func (s *Store) prepared(ctx context.Context) (*sqldb.Queries, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready == nil {
		q, err := sqldb.Prepare(ctx, s.db)
		if err != nil {
			return nil, err
		}
		s.ready = q
	}
	return s.ready, nil
}

// update runs f in a transaction, then appends the events and commits.
func (s *Store) update(ctx context.Context, f func(t *tx) error) error {
	q, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	dbtx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &tx{Queries: q.WithTx(dbtx)}
	if err = f(t); err == nil {
		for _, e := range t.events {
			if _, err = t.AppendEvent(ctx, e); err != nil {
				break
			}
		}
	}
	if err != nil {
		// The error that matters is f's; a lost connection rolls back too.
		_ = dbtx.Rollback()
		return permanent(err)
	}
	return dbtx.Commit()
}

// permanent marks the errors of the database with which the same statement
// fails every time: the data is not what a column takes (class 22), or more
// than the server can keep (54), in an index for instance.
func permanent(err error) error {
	if e := pq.As(err); e != nil && (e.Code.Class() == "22" || e.Code.Class() == "54") {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// clean makes text storable: PostgreSQL takes neither NUL nor broken UTF-8,
// and page text may hold anything.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// encode marshals v for a column of type json, which keeps the bytes as they
// are but wants valid UTF-8.
func encode(v any) (json.RawMessage, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if !utf8.Valid(b) {
		b = []byte(strings.ToValidUTF8(string(b), "\uFFFD"))
	}
	return b, nil
}

// decode reads a column of type json; null leaves v alone.
func decode(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}

// head returns the beginning of s, at most n bytes and whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func nullString(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func nullTime(t time.Time) sql.NullTime { return sql.NullTime{Time: t, Valid: !t.IsZero()} }

func utc(t sql.NullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
