package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/store/sqldb"
)

// Channels of NOTIFY.
const (
	// EventsChannel tells of each event that was stored; see ParseEvent.
	EventsChannel = "sgclaw_events"
	// DeltasChannel carries whole events of kind delta; see ParseDelta.
	DeltasChannel = "sgclaw_delta"
)

// maxDelta bounds the event of a delta, in bytes: PostgreSQL takes less than
// 8000 in a NOTIFY, and the session's key goes before it.
const maxDelta = 7999 - MaxKey - 1

// Events returns the events of a session numbered higher than after, in
// order; limit is at most 1000, 0 means 50.
func (s *Store) Events(ctx context.Context, session string, after int64, n int) ([]agent.Event, error) {
	rows, err := s.q.ListEvents(ctx, sqldb.ListEventsParams{Session: session, After: after, MaxRows: limit(n)})
	if err != nil {
		return nil, fmt.Errorf("events of session %s: %w", session, err)
	}
	return toEvents(rows), nil
}

// EventsOfRun is Events for one run. The numbers are its session's, so they
// have gaps where other runs' events are.
func (s *Store) EventsOfRun(ctx context.Context, runID string, after int64, n int) ([]agent.Event, error) {
	rows, err := s.q.ListRunEvents(ctx, sqldb.ListRunEventsParams{RunID: runID, After: after, MaxRows: limit(n)})
	if err != nil {
		return nil, fmt.Errorf("events of run %s: %w", runID, err)
	}
	return toEvents(rows), nil
}

// LastSeq returns the number of a session's newest event, 0 if it has none.
func (s *Store) LastSeq(ctx context.Context, session string) (int64, error) {
	n, err := s.q.LastSeq(ctx, session)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("session %s: %w", session, err)
	}
	return n, nil
}

func toEvents(rows []sqldb.Event) []agent.Event {
	out := make([]agent.Event, 0, len(rows))
	for _, r := range rows {
		out = append(out, agent.Event{
			Session: r.Session, Seq: r.Seq, RunID: r.RunID, Kind: agent.EventKind(r.Kind), At: r.At.UTC(), Data: r.Data.RawMessage,
		})
	}
	return out
}

// Delta announces a piece of a reply being written, best effort: it is not
// stored. Text that does not fit into one notification is cut.
func (s *Store) Delta(ctx context.Context, runID string, d agent.DeltaEvent) error {
	payload, err := fit(runID, d)
	if err == nil {
		err = s.q.NotifyRun(ctx, sqldb.NotifyRunParams{Channel: DeltasChannel, Payload: payload, RunID: runID})
	}
	if err != nil {
		return fmt.Errorf("delta of run %s: %w", runID, err)
	}
	return nil
}

// fit encodes the event of a delta, its text cut so that it is at most
// maxDelta bytes long.
func fit(runID string, d agent.DeltaEvent) (string, error) {
	d.Text = clean(d.Text)
	for n := len(d.Text); ; n /= 2 {
		d.Text = head(d.Text, n)
		data, err := encode(d)
		if err != nil {
			return "", err
		}
		b, err := encode(agent.Event{RunID: runID, Kind: agent.EventDelta, At: time.Now().UTC(), Data: data})
		if err != nil || len(b) <= maxDelta {
			return string(b), err
		}
		if n == 0 {
			return "", fmt.Errorf("%w: event of %d bytes", ErrInvalid, len(b))
		}
	}
}

// ParseEvent reads a notification on EventsChannel.
func ParseEvent(payload string) (session string, seq int64, err error) {
	session, number, ok := cutLast(payload, ":")
	if ok {
		seq, err = strconv.ParseInt(number, 10, 64)
	}
	if !ok || err != nil {
		return "", 0, fmt.Errorf("%w: notification without a number", ErrInvalid)
	}
	return session, seq, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// ParseDelta reads a notification on DeltasChannel.
func ParseDelta(payload string) (agent.Event, error) {
	var e agent.Event
	session, body, ok := strings.Cut(payload, "\n")
	if !ok {
		return e, fmt.Errorf("%w: notification without a session", ErrInvalid)
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return e, fmt.Errorf("notification: %w", err)
	}
	e.Session = session
	return e, nil
}
