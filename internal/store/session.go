package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

const (
	// MaxLabel bounds a session's label, in bytes.
	MaxLabel = 200
	// shownText is how much of the newest task and answer a record.Session
	// has, in characters.
	shownText = 500
)

// Session returns a session. One that does not exist, or was deleted, is
// record.ErrNotFound.
func (s *Store) Session(ctx context.Context, key string) (record.Session, error) {
	var out record.Session
	err := s.look(ctx, func(t *tx) (err error) {
		out, err = t.session(ctx, key)
		return err
	})
	if err != nil {
		return record.Session{}, fmt.Errorf("session %s: %w", key, err)
	}
	return out, nil
}

func (t *tx) session(ctx context.Context, key string) (record.Session, error) {
	row, err := t.GetSession(ctx, key)
	if err != nil {
		return record.Session{}, notFound(err)
	}
	if row.DeletedAt.Valid {
		return record.Session{}, record.ErrNotFound
	}
	out, err := t.figures(ctx, []sqldb.Session{row})
	if err != nil {
		return record.Session{}, err
	}
	return out[0], nil
}

// SessionFilter chooses sessions; empty fields choose all that are not
// deleted.
type SessionFilter struct {
	Agent string
	// Search is looked for in keys and labels, in any case.
	Search      string
	ActiveSince time.Time
	// Deleted: those that were deleted too.
	Deleted bool
	// Before is the key of a session: only those less lately active, for the
	// next page. Offset leaves out that many.
	Before string
	Offset int
	// Limit is at most 1000; 0 means 50.
	Limit int
}

// Sessions lists sessions, the most lately active first, and how many there
// are in all pages. A session is active when it takes a message or an entry,
// when a run of it ends, and when somebody changes it.
func (s *Store) Sessions(ctx context.Context, f SessionFilter) (list []record.Session, total int, err error) {
	pattern := sql.NullString{String: containing(f.Search), Valid: f.Search != ""}
	err = s.look(ctx, func(t *tx) error {
		n, err := t.CountSessions(ctx, sqldb.CountSessionsParams{
			Deleted: f.Deleted, Agent: nullString(f.Agent), ActiveSince: nullTime(f.ActiveSince), Pattern: pattern,
		})
		if err != nil {
			return err
		}
		total = int(n)
		rows, err := t.ListSessions(ctx, sqldb.ListSessionsParams{
			Deleted: f.Deleted, Agent: nullString(f.Agent), ActiveSince: nullTime(f.ActiveSince), Pattern: pattern,
			Before: nullString(f.Before), MaxRows: limit(f.Limit), SkipRows: int32(min(max(0, f.Offset), math.MaxInt32)),
		})
		if err != nil {
			return err
		}
		list, err = t.figures(ctx, rows)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("sessions: %w", permanent(err))
	}
	return list, total, nil
}

// containing is the LIKE pattern of texts with s in them.
func containing(s string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(clean(s)) + "%"
}

// figures puts to sessions what their runs add up to.
func (t *tx) figures(ctx context.Context, rows []sqldb.Session) ([]record.Session, error) {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = r.Key
	}
	sums, err := t.SessionFigures(ctx, sqldb.SessionFiguresParams{Keys: keys, Width: shownText})
	if err != nil {
		return nil, err
	}
	byKey := make(map[string]sqldb.SessionFiguresRow, len(sums))
	for _, sum := range sums {
		byKey[sum.Key] = sum
	}
	out := make([]record.Session, len(rows))
	for i, r := range rows {
		sum := byKey[r.Key]
		out[i] = record.Session{
			Key: r.Key, Agent: r.Agent, LastSeq: r.LastSeq, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
			Since: r.Since.UTC(), DeletedAt: utc(r.DeletedAt), Runs: int(sum.Runs), Active: sum.Active, Queued: int(sum.OpenRuns),
			Usage:    agentUsage(sum.PromptTokens, sum.CompletionTokens, sum.TotalTokens),
			LastTask: sum.LastTask, LastText: sum.LastText,
		}
		if sum.Active != "" {
			out[i].Queued--
		}
		if err := decode(r.Settings, &out[i].Settings); err != nil {
			return nil, fmt.Errorf("session %s: %w", r.Key, err)
		}
	}
	return out, nil
}

func agentUsage(prompt, completion, total int64) agent.Usage {
	return agent.Usage{PromptTokens: int(prompt), CompletionTokens: int(completion), TotalTokens: int(total)}
}

// EnsureSession makes a session if there is none, and brings a deleted one
// back. agent, if not empty, is set unless the session has one already.
func (s *Store) EnsureSession(ctx context.Context, key, agent string) error {
	err := checkKey("session", key)
	if err == nil {
		err = s.update(ctx, func(t *tx) error {
			return t.EnsureSession(ctx, sqldb.EnsureSessionParams{Key: key, Agent: clean(agent)})
		})
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", key, err)
	}
	return nil
}

// SetSessionAgent says who answers in a session. No such session is
// record.ErrNotFound.
func (s *Store) SetSessionAgent(ctx context.Context, key, agent string) error {
	n, err := s.q.SetSessionAgent(ctx, sqldb.SetSessionAgentParams{Key: key, Agent: clean(agent)})
	if err == nil && n == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("agent of session %s: %w", key, permanent(err))
	}
	return nil
}

// PatchSession changes what people set for a session, and tells watchers if
// anything is different then; nobody else changes it meanwhile. change must
// be quick; its error is returned. No such session is record.ErrNotFound.
func (s *Store) PatchSession(ctx context.Context, key, by string, change func(*record.SessionSettings) error) (record.Session, error) {
	return s.changeSession(ctx, key, by, "patched", func(t *tx, row sqldb.Session) (bool, error) {
		var settings record.SessionSettings
		if err := decode(row.Settings, &settings); err != nil {
			return false, err
		}
		before, err := encode(settings)
		if err != nil {
			return false, err
		}
		if err := change(&settings); err != nil {
			return false, err
		}
		settings.Label, settings.Model, settings.Browser = clean(settings.Label), clean(settings.Model), clean(settings.Browser)
		switch {
		case len(settings.Label) > MaxLabel:
			return false, fmt.Errorf("%w: label of %d bytes, at most %d are allowed", ErrInvalid, len(settings.Label), MaxLabel)
		case !settings.Mode.Valid():
			return false, fmt.Errorf("%w: mode %q", ErrInvalid, settings.Mode)
		}
		after, err := encode(settings)
		if err != nil || string(after) == string(before) {
			return false, err
		}
		return true, t.SetSessionSettings(ctx, sqldb.SetSessionSettingsParams{Key: key, Settings: after})
	})
}

// ResetSession lets a session's history begin anew: what was said before
// stays on record, and is neither shown nor told to the model any more. No
// such session is record.ErrNotFound.
func (s *Store) ResetSession(ctx context.Context, key, by string) (record.Session, error) {
	return s.changeSession(ctx, key, by, "reset", func(t *tx, _ sqldb.Session) (bool, error) {
		return true, t.ResetSession(ctx, key)
	})
}

// DeleteSession is ResetSession that also forgets the session's agent and
// settings and leaves it out of lists, until somebody speaks in it again. Its
// runs go on.
func (s *Store) DeleteSession(ctx context.Context, key, by string) error {
	_, err := s.changeSession(ctx, key, by, "deleted", func(t *tx, _ sqldb.Session) (bool, error) {
		return true, t.DeleteSession(ctx, key)
	})
	return err
}

// changeSession does change to the session's locked row and, if there was
// something to change, tells watchers what. It returns the session as it is
// then.
func (s *Store) changeSession(ctx context.Context, key, by, what string, change func(t *tx, row sqldb.Session) (bool, error)) (record.Session, error) {
	err := s.update(ctx, func(t *tx) error {
		row, err := t.LockSession(ctx, key)
		if err != nil {
			return notFound(err)
		}
		changed, err := change(t, row)
		if err != nil || !changed {
			return err
		}
		return t.tellSession(key, what, by)
	})
	var out record.Session
	if err == nil {
		out, err = s.Session(ctx, key)
		if what == "deleted" && errors.Is(err, record.ErrNotFound) {
			err = nil
		}
	}
	if err != nil {
		return record.Session{}, fmt.Errorf("session %s, to be %s: %w", key, what, err)
	}
	return out, nil
}

// tellSession adds an event about the session itself.
func (t *tx) tellSession(key, what, by string) error {
	id, err := randomID()
	if err != nil {
		return err
	}
	return t.event(key, "", agent.EventSession, "session/"+id, agent.SessionEvent{What: what, By: clean(by)})
}

// look runs f in a transaction that sees one state of the database, with
// queries that are planned for their parameters: what lists ask for differs
// too much for one plan.
func (s *Store) look(ctx context.Context, f func(t *tx) error) error {
	dbtx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	if err := f(&tx{Queries: s.q.WithTx(dbtx)}); err != nil {
		_ = dbtx.Rollback()
		return err
	}
	return dbtx.Commit()
}
