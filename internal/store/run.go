package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// AcceptMessage records that a session took a message: it makes the session
// if need be, and the run, queued. fresh is false if it was there before.
// The same id with another text, or for another session, is
// record.ErrConflict.
func (s *Store) AcceptMessage(ctx context.Context, session string, m agent.Message) (fresh bool, err error) {
	err = s.update(ctx, func(t *tx) error {
		fresh, err = t.accept(ctx, session, m)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("accept message %s: %w", m.ID, err)
	}
	return fresh, nil
}

func (t *tx) accept(ctx context.Context, session string, m agent.Message) (bool, error) {
	if err := errors.Join(checkKey("session", session), checkKey("message id", m.ID)); err != nil {
		return false, err
	}
	m.Text = clean(m.Text)
	if len(m.Text) > agent.MaxInstruction {
		return false, fmt.Errorf("%w: text of %d bytes, at most %d are allowed", ErrInvalid, len(m.Text), agent.MaxInstruction)
	}
	origin, err := encode(m.Origin)
	if err != nil {
		return false, err
	}
	asked, err := encode(m.Settings)
	if err != nil {
		return false, err
	}
	if len(m.Aside) > agent.MaxAside {
		m.Aside = m.Aside[len(m.Aside)-agent.MaxAside:]
	}
	aside, err := encode(m.Aside)
	if err != nil {
		return false, err
	}
	if err := t.InsertSession(ctx, session); err != nil {
		return false, err
	}
	n, err := t.InsertRun(ctx, sqldb.InsertRunParams{
		ID: m.ID, Session: session, Task: m.Text, Browser: clean(m.BrowserID), Origin: origin, Asked: asked, Aside: aside,
	})
	if err != nil {
		return false, err
	}
	if n == 1 {
		return true, t.event(session, m.ID, agent.EventAccepted, "accepted", agent.AcceptedEvent{Task: m.Text, Browser: m.BrowserID, Mode: m.Mode})
	}
	run, err := t.GetRun(ctx, m.ID)
	if err != nil {
		return false, err
	}
	if run.Session != session || run.Task != m.Text {
		return false, record.ErrConflict
	}
	return false, nil
}

func checkKey(what, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: no %s", ErrInvalid, what)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: %s of %d bytes, at most %d are allowed", ErrInvalid, what, len(key), MaxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w: %s with control characters or broken UTF-8", ErrInvalid, what)
	}
	return nil
}

// BeginRun starts the record of a run, accepting its message if that has
// not been done. Settings and Marker are fixed the first time; later calls
// get those, also after a rewind to the beginning.
func (s *Store) BeginRun(ctx context.Context, f record.Fence, b record.Begin) (run record.Run, err error) {
	err = s.update(ctx, func(t *tx) error {
		run, err = t.begin(ctx, f, b)
		return err
	})
	if err != nil {
		return record.Run{}, fmt.Errorf("begin run %s: %w", f.RunID, err)
	}
	return run, nil
}

func (t *tx) begin(ctx context.Context, f record.Fence, b record.Begin) (record.Run, error) {
	if b.Message.ID != f.RunID {
		return record.Run{}, fmt.Errorf("%w: message %s for run %s", ErrInvalid, b.Message.ID, f.RunID)
	}
	if _, err := t.accept(ctx, b.Session, b.Message); err != nil {
		return record.Run{}, err
	}
	row, err := t.lock(ctx, f, position{0, beginning})
	if err != nil {
		return record.Run{}, err
	}
	key := fmt.Sprintf("begun/%d", row.Branch)
	begun, err := t.HasEvent(ctx, sqldb.HasEventParams{Session: row.Session, Key: row.ID + "/" + key})
	if err != nil {
		return record.Run{}, err
	}
	if begun {
		return toRun(row)
	}
	settings := row.Settings.RawMessage
	if !row.Settings.Valid {
		if settings, err = encode(b.Settings); err != nil {
			return record.Run{}, err
		}
	}
	if row.Marker == "" {
		if row.Marker, err = randomID(); err != nil {
			return record.Run{}, err
		}
	}
	row, err = t.BeginRun(ctx, sqldb.BeginRunParams{
		ID: row.ID, Settings: settings, Browser: clean(b.Browser), Marker: row.Marker, StartedAt: b.StartedAt,
	})
	if err != nil {
		return record.Run{}, err
	}
	if _, err := t.InsertMessage(ctx, sqldb.InsertMessageParams{
		RunID: row.ID, Branch: row.Branch, Role: string(record.TurnTask), Key: "task",
		Author: clean(b.Message.Origin.User), Text: row.Task,
	}); err != nil {
		return record.Run{}, err
	}
	if err := t.event(row.Session, row.ID, agent.EventState, key, agent.StateEvent{Status: agent.StatusThinking}); err != nil {
		return record.Run{}, err
	}
	return toRun(row)
}

// randomID returns 16 hex digits.
func randomID() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("random id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// SetStatus records that a run entered a state that is not final, and tells
// watchers; once per key. browser, if not empty, is where the run acts from
// now on. "thinking" and "acting" are set by what is recorded, and need no
// call.
func (s *Store) SetStatus(ctx context.Context, f record.Fence, key string, status agent.Status, detail, browser string) error {
	err := s.update(ctx, func(t *tx) error {
		if status.Final() {
			return fmt.Errorf("%w: status %s is final, it takes Finish", ErrInvalid, status)
		}
		run, err := t.lock(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		key = fmt.Sprintf("state/%d/%s", run.Branch, key)
		done, err := t.HasEvent(ctx, sqldb.HasEventParams{Session: run.Session, Key: run.ID + "/" + key})
		if err != nil || done {
			return err
		}
		if browser == "" {
			browser = run.Browser
		}
		if err := t.SetRunStatus(ctx, sqldb.SetRunStatusParams{
			ID: run.ID, Status: string(status), Detail: clean(detail), Browser: clean(browser),
		}); err != nil {
			return err
		}
		return t.event(run.Session, run.ID, agent.EventState, key, agent.StateEvent{Status: status, Detail: detail})
	})
	if err != nil {
		return fmt.Errorf("set status of run %s: %w", f.RunID, err)
	}
	return nil
}

// Finish ends the record of a run. r says how: its status, success, reason
// and summary, and at says when; the rest is taken from the record. An empty
// summary is filled with the model's last answer. detail is for engineers.
// Open confirmations become void. Called again, it returns the same result
// and changes nothing.
func (s *Store) Finish(ctx context.Context, f record.Fence, r agent.TaskResult, detail string, at time.Time) (agent.TaskResult, error) {
	var out agent.TaskResult
	err := s.update(ctx, func(t *tx) error {
		if !r.Status.Final() {
			return fmt.Errorf("%w: status %s is not final", ErrInvalid, r.Status)
		}
		run, err := t.lockEnded(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		if run.EndedAt.Valid {
			out, err = t.result(ctx, run)
			return err
		}
		if r.Summary == "" {
			r.Summary, err = t.LastFinal(ctx, run.ID)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		if err := t.VoidConfirmations(ctx, sqldb.VoidConfirmationsParams{RunID: run.ID, Branch: run.Branch}); err != nil {
			return err
		}
		var took time.Duration
		if run.StartedAt.Valid {
			took = max(0, at.Sub(run.StartedAt.Time))
		}
		run, err = t.FinishRun(ctx, sqldb.FinishRunParams{
			ID: run.ID, Status: string(r.Status), Success: r.Success, Reason: clean(r.Reason), Summary: clean(r.Summary),
			Detail: clean(detail), EndedAt: at, DurationMs: took.Milliseconds(),
		})
		if err != nil {
			return err
		}
		if out, err = t.result(ctx, run); err != nil {
			return err
		}
		told := out
		told.Steps = nil
		return t.event(run.Session, run.ID, agent.EventDone, fmt.Sprintf("done/%d", run.Branch), told)
	})
	if err != nil {
		return agent.TaskResult{}, fmt.Errorf("finish run %s: %w", f.RunID, err)
	}
	return out, nil
}

// Run returns a run, or record.ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (record.Run, error) {
	q, err := s.prepared(ctx)
	if err != nil {
		return record.Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	row, err := q.GetRun(ctx, id)
	if err != nil {
		return record.Run{}, fmt.Errorf("run %s: %w", id, notFound(err))
	}
	return toRun(row)
}

// Filter chooses runs; empty fields choose all.
type Filter struct {
	Session string
	Status  agent.Status
	Browser string
	// Before is the id of a run: only earlier ones, for the next page.
	Before string
	// Limit is at most 1000; 0 means 50.
	Limit int
}

// Runs lists runs, newest first.
func (s *Store) Runs(ctx context.Context, f Filter) ([]record.Run, error) {
	return s.SearchRuns(ctx, RunSearch{Session: f.Session, Status: f.Status, Browser: f.Browser, Before: f.Before, Limit: f.Limit})
}

// RunSearch chooses runs; empty fields choose all.
type RunSearch struct {
	Session string
	Browser string
	Status  agent.Status
	// User is who asked, exactly.
	User string
	// Text is looked for in tasks and summaries, in any case.
	Text string
	// Before is the id of a run: only earlier ones, for the next page.
	Before string
	// Limit is at most 1000; 0 means 50.
	Limit int
}

// SearchRuns lists the runs that are looked for, newest first.
func (s *Store) SearchRuns(ctx context.Context, f RunSearch) ([]record.Run, error) {
	rows, err := s.q.ListRuns(ctx, sqldb.ListRunsParams{
		Session: nullString(f.Session), Status: nullString(string(f.Status)), Browser: nullString(f.Browser),
		Who: nullString(f.User), Pattern: sql.NullString{String: containing(f.Text), Valid: f.Text != ""},
		OnlyOpen: f.Status != "" && !f.Status.Final(), Before: nullString(f.Before), MaxRows: limit(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("runs: %w", permanent(err))
	}
	out := make([]record.Run, 0, len(rows))
	for _, row := range rows {
		run, err := toRun(row)
		if err != nil {
			return nil, err
		}
		out = append(out, run)
	}
	return out, nil
}

func limit(n int) int32 {
	if n <= 0 {
		return 50
	}
	return int32(min(n, 1000))
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return record.ErrNotFound
	}
	return permanent(err)
}

// Result composes a run's result from the record: so far, if the run has not
// ended. Each call of a reply is a step with the reply's number; thinking and
// the model's time go to the reply's first.
func (s *Store) Result(ctx context.Context, id string) (agent.TaskResult, error) {
	var out agent.TaskResult
	err := s.view(ctx, func(q *sqldb.Queries) error {
		run, err := q.GetRun(ctx, id)
		if err != nil {
			return notFound(err)
		}
		t := &tx{Queries: q}
		out, err = t.result(ctx, run)
		return err
	})
	if err != nil {
		return agent.TaskResult{}, fmt.Errorf("result of run %s: %w", id, err)
	}
	return out, nil
}

func (t *tx) result(ctx context.Context, row sqldb.Run) (agent.TaskResult, error) {
	run, err := toRun(row)
	if err != nil {
		return agent.TaskResult{}, err
	}
	out := agent.TaskResult{
		RunID: run.ID, Status: run.Status, Success: row.Success, Reason: run.Reason, Summary: run.Summary,
		Steps: []agent.Step{}, TokenUsage: run.Usage, Models: run.Models, DurationMS: row.DurationMs,
	}
	turns, err := t.turns(ctx, run.ID, 0)
	if err != nil {
		return agent.TaskResult{}, err
	}
	first := map[int]int{} // step to its place in out.Steps
	for _, turn := range turns {
		switch {
		case turn.Thought != nil:
			first[turn.Step] = len(out.Steps)
			step := agent.Step{Num: turn.Step, Thinking: turn.Thought.Text, DurationMS: turn.Thought.TookMS}
			for _, c := range turn.Thought.Calls {
				step.Action = &c
				out.Steps = append(out.Steps, step)
				step = agent.Step{Num: turn.Step}
			}
			if len(turn.Thought.Calls) == 0 {
				out.Steps = append(out.Steps, step)
			}
		case turn.Observation != nil:
			i, ok := first[turn.Step]
			if i += turn.Observation.Index; !ok || i >= len(out.Steps) || out.Steps[i].Num != turn.Step {
				out.Steps = append(out.Steps, agent.Step{Num: turn.Step})
				i = len(out.Steps) - 1
			}
			o := turn.Observation
			out.Steps[i].Action = &o.Call
			out.Steps[i].Observation = o.Text
			out.Steps[i].Outcome = o.Outcome
			out.Steps[i].DurationMS += o.TookMS
		}
	}
	return out, nil
}

// view runs f in a read-only transaction that sees one state of the
// database.
func (s *Store) view(ctx context.Context, f func(q *sqldb.Queries) error) error {
	q, err := s.prepared(ctx)
	if err != nil {
		return err
	}
	dbtx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	if err := f(q.WithTx(dbtx)); err != nil {
		_ = dbtx.Rollback()
		return err
	}
	return dbtx.Commit()
}

func toRun(row sqldb.Run) (record.Run, error) {
	run := record.Run{
		ID: row.ID, Session: row.Session, Browser: row.Browser, Task: row.Task,
		Status: agent.Status(row.Status), Reason: row.Reason, Summary: row.Summary, Detail: row.Detail, Marker: row.Marker,
		Usage: agent.Usage{
			PromptTokens: int(row.PromptTokens), CompletionTokens: int(row.CompletionTokens), TotalTokens: int(row.TotalTokens),
		},
		Steps: int(row.Step), CreatedAt: row.AcceptedAt.UTC(), StartedAt: utc(row.StartedAt), EndedAt: utc(row.EndedAt),
	}
	settings := row.Asked
	if row.Settings.Valid {
		settings = row.Settings.RawMessage
	}
	if err := errors.Join(decode(row.Origin, &run.Origin), decode(settings, &run.Settings), decode(row.Models, &run.Models), decode(row.Aside, &run.Aside)); err != nil {
		return record.Run{}, fmt.Errorf("run %s: %w", row.ID, err)
	}
	if len(run.Models) == 0 {
		run.Models = nil
	}
	return run, nil
}

// addUsage returns the per-model usage with u added to model's.
func addUsage(models map[string]agent.Usage, model string, u agent.Usage) map[string]agent.Usage {
	out := maps.Clone(models)
	if out == nil {
		out = map[string]agent.Usage{}
	}
	out[model] = out[model].Add(u)
	return out
}
