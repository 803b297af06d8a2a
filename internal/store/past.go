package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// MaxPast bounds how many runs, and how many entries, of a session Past
// returns.
const MaxPast = 500

// MaxEntry bounds the text of an entry, and its data, in bytes.
const MaxEntry = 256 << 10

// Past returns what was said in a session after its last reset and its
// newest summary: the newest MaxPast runs that have ended, and entries, in the
// order in which they ended or were added. Messages that became an
// instruction of another run are that run's. beforeRun, if not empty, is the
// run to tell the past of: it is not in it, nor are runs that began after it.
// A session that does not exist has no past; an unknown beforeRun is
// record.ErrNotFound.
func (s *Store) Past(ctx context.Context, session, beforeRun string) (record.Past, error) {
	var out record.Past
	err := s.view(ctx, func(q *sqldb.Queries) (err error) {
		t := &tx{Queries: q}
		out, err = t.past(ctx, session, beforeRun)
		return err
	})
	if err != nil {
		return record.Past{}, fmt.Errorf("past of session %s: %w", session, err)
	}
	return out, nil
}

func (t *tx) past(ctx context.Context, session, beforeRun string) (record.Past, error) {
	var out record.Past
	row, err := t.GetSession(ctx, session)
	if errors.Is(err, sql.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	// Entries have the database's time, and runs begin by Temporal's: what
	// was there when the message came counts in any case.
	var began, came sql.NullTime
	if beforeRun != "" {
		run, err := t.GetRun(ctx, beforeRun)
		if err != nil {
			return out, notFound(err)
		}
		if began = run.StartedAt; began.Valid {
			came = nullTime(latest(run.AcceptedAt, began.Time))
		}
	}
	upTo, upToID := row.Since, ""
	sum, err := t.NewestSummary(ctx, sqldb.NewestSummaryParams{Session: session, Since: row.Since})
	switch {
	case err == nil:
		upTo, upToID = sum.Upto, sum.UptoID
		out.Summary = &record.Summary{
			Text: sum.Text, UpTo: sum.Upto.UTC(), UpToID: sum.UptoID, Model: sum.Model, At: sum.At.UTC(),
			Usage: agentUsage(sum.PromptTokens, sum.CompletionTokens, sum.TotalTokens),
		}
	case !errors.Is(err, sql.ErrNoRows):
		return out, err
	}
	runs, err := t.PastRuns(ctx, sqldb.PastRunsParams{
		Session: session, Since: row.Since, Upto: upTo, UptoID: upToID, BeforeRun: beforeRun, Before: began, MaxRows: MaxPast,
	})
	if err != nil {
		return out, err
	}
	entries, err := t.PastEntries(ctx, sqldb.PastEntriesParams{
		Session: session, Since: row.Since, Upto: upTo, UptoID: upToID, Before: came, MaxRows: MaxPast,
	})
	if err != nil {
		return out, err
	}
	out.Parts, err = t.parts(ctx, runs, entries)
	return out, err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// parts puts runs, with all that was said in them, and entries in order.
func (t *tx) parts(ctx context.Context, runs []sqldb.Run, entries []sqldb.Entry) ([]record.Part, error) {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	turns, err := t.turnsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	parts := make([]record.Part, 0, len(runs)+len(entries))
	for _, row := range runs {
		run, err := toRun(row)
		if err != nil {
			return nil, err
		}
		parts = append(parts, record.Part{ID: run.ID, At: run.EndedAt, Run: &run, Turns: turns[run.ID]})
	}
	for _, e := range entries {
		parts = append(parts, record.Part{ID: e.ID, At: e.AddedAt.UTC(), Entry: toEntry(e)})
	}
	slices.SortFunc(parts, func(a, b record.Part) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return parts, nil
}

// turnsOf returns the turns of runs, without pictures, by run.
func (t *tx) turnsOf(ctx context.Context, ids []string) (map[string][]record.Turn, error) {
	messages, err := t.MessagesOfRuns(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows, err := t.StepsOfRuns(ctx, ids)
	if err != nil {
		return nil, err
	}
	said := make(map[string][]sqldb.Message, len(ids))
	for _, m := range messages {
		said[m.RunID] = append(said[m.RunID], m)
	}
	done := make(map[string][]sqldb.ListStepsRow, len(ids))
	for _, r := range rows {
		done[r.RunID] = append(done[r.RunID], sqldb.ListStepsRow{
			ID: r.ID, Step: r.Step, Idx: r.Idx, Call: r.Call, Outcome: r.Outcome, Code: r.Code, Observation: r.Observation,
			Mime: r.Mime, Page: r.Page, DurationMs: r.DurationMs, Signature: r.Signature, At: r.At,
		})
	}
	out := make(map[string][]record.Turn, len(ids))
	for _, id := range ids {
		if out[id], err = merge(said[id], done[id], nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func toEntry(e sqldb.Entry) *record.Entry {
	return &record.Entry{
		ID: e.ID, Role: e.Role, Label: e.Label, Text: e.Text, By: e.Author, Data: e.Data.RawMessage, At: e.At.UTC(),
	}
}

// SaveContext fixes what a run is shown of its session's past. The first one
// wins, also over rewinds, and is returned.
func (s *Store) SaveContext(ctx context.Context, f record.Fence, c record.Context) (record.Context, error) {
	var out record.Context
	err := s.update(ctx, func(t *tx) error {
		run, err := t.lock(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		body, err := encode(c)
		if err != nil {
			return err
		}
		if err := t.InsertContext(ctx, sqldb.InsertContextParams{RunID: run.ID, Body: body}); err != nil {
			return err
		}
		if body, err = t.GetContext(ctx, run.ID); err != nil {
			return err
		}
		return decode(body, &out)
	})
	if err != nil {
		return record.Context{}, fmt.Errorf("context of run %s: %w", f.RunID, err)
	}
	return out, nil
}

// Context returns what a run is shown of its session's past; nothing if that
// was not fixed.
func (s *Store) Context(ctx context.Context, runID string) (record.Context, error) {
	var out record.Context
	q, err := s.prepared(ctx)
	if err == nil {
		var body []byte
		body, err = q.GetContext(ctx, runID)
		if errors.Is(err, sql.ErrNoRows) {
			return out, nil
		}
		if err == nil {
			err = decode(body, &out)
		}
	}
	if err != nil {
		return record.Context{}, fmt.Errorf("context of run %s: %w", runID, permanent(err))
	}
	return out, nil
}

// SaveSummary keeps a summary of the beginning of a session's history and
// tells watchers; once per place that it goes up to. No such session is
// record.ErrNotFound.
func (s *Store) SaveSummary(ctx context.Context, session string, sum record.Summary) error {
	err := s.update(ctx, func(t *tx) error {
		if sum.UpToID == "" || sum.UpTo.IsZero() {
			return fmt.Errorf("%w: summary that does not say how far it goes", ErrInvalid)
		}
		if _, err := t.GetSession(ctx, session); err != nil {
			return notFound(err)
		}
		n, err := t.InsertSummary(ctx, sqldb.InsertSummaryParams{
			Session: session, Upto: sum.UpTo, UptoID: clean(sum.UpToID), Text: clean(sum.Text), Model: clean(sum.Model),
			PromptTokens: int64(sum.Usage.PromptTokens), CompletionTokens: int64(sum.Usage.CompletionTokens), TotalTokens: int64(sum.Usage.TotalTokens),
		})
		if err != nil || n == 0 {
			return err
		}
		return t.tellSession(session, "compacted", "")
	})
	if err != nil {
		return fmt.Errorf("summary of session %s: %w", session, err)
	}
	return nil
}

// AddEntry adds to a session's history what no run said, and tells watchers;
// once per id. It makes the session if need be. fresh is false if the entry
// was there before; the same id with another text or role is
// record.ErrConflict. A zero e.At means now.
func (s *Store) AddEntry(ctx context.Context, session string, e record.Entry) (fresh bool, err error) {
	err = s.update(ctx, func(t *tx) error {
		fresh, err = t.addEntry(ctx, session, e)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("add entry %s to session %s: %w", e.ID, session, err)
	}
	return fresh, nil
}

func (t *tx) addEntry(ctx context.Context, session string, e record.Entry) (bool, error) {
	if err := errors.Join(checkKey("session", session), checkKey("entry id", e.ID)); err != nil {
		return false, err
	}
	switch e.Role {
	case "user", "assistant", "tool", "note":
	default:
		return false, fmt.Errorf("%w: role %q", ErrInvalid, e.Role)
	}
	data := []byte(nil)
	if len(e.Data) > 0 {
		var err error
		if data, err = encode(e.Data); err != nil {
			return false, fmt.Errorf("%w: data: %w", ErrInvalid, err)
		}
	}
	e.Text, e.Label, e.By = clean(e.Text), clean(e.Label), clean(e.By)
	if n := max(len(e.Text), len(data)); n > MaxEntry {
		return false, fmt.Errorf("%w: entry of %d bytes, at most %d are allowed", ErrInvalid, n, MaxEntry)
	}
	if len(e.Label) > MaxLabel {
		return false, fmt.Errorf("%w: label of %d bytes, at most %d are allowed", ErrInvalid, len(e.Label), MaxLabel)
	}
	if err := t.InsertSession(ctx, session); err != nil {
		return false, err
	}
	n, err := t.InsertEntry(ctx, sqldb.InsertEntryParams{
		Session: session, ID: e.ID, Role: e.Role, Label: e.Label, Text: e.Text, Data: null(data), Author: e.By, At: nullTime(e.At),
	})
	if err != nil {
		return false, err
	}
	if n == 0 {
		old, err := t.GetEntry(ctx, sqldb.GetEntryParams{Session: session, ID: e.ID})
		if err == nil && (old.Text != e.Text || old.Role != e.Role) {
			err = record.ErrConflict
		}
		return false, err
	}
	return true, t.event(session, e.ID, agent.EventEntry, "entry", agent.EntryEvent{
		ID: e.ID, Role: e.Role, Label: e.Label, Text: head(e.Text, agent.MaxInstruction), By: e.By,
	})
}
