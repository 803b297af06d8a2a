package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sqlc-dev/pqtype"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// Thought returns the model's reply of the fence's step, or nil if there is
// none in the current branch; the run is "thinking" then. As a rule it writes
// nothing.
func (s *Store) Thought(ctx context.Context, f record.Fence) (*record.Thought, error) {
	out, ok, err := s.peek(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("thought %d of run %s: %w", f.Step, f.RunID, err)
	}
	if ok {
		return out, nil
	}
	err = s.update(ctx, func(t *tx) error {
		run, err := t.lock(ctx, f, position{f.Step, beginning})
		if err != nil {
			return err
		}
		out, err = t.thought(ctx, f.RunID, f.Step)
		if err != nil || out != nil {
			return err
		}
		return t.SetThinking(ctx, sqldb.SetThinkingParams{ID: run.ID, Step: int32(f.Step - 1)})
	})
	if err != nil {
		return nil, fmt.Errorf("thought %d of run %s: %w", f.Step, f.RunID, err)
	}
	return out, nil
}

// peek is Thought where nothing is to be changed; else ok is false. Without a
// lock, another execution may take the run over right behind it. That is as
// if it had come a moment later: what the caller writes next is refused.
func (s *Store) peek(ctx context.Context, f record.Fence) (th *record.Thought, ok bool, err error) {
	q, err := s.prepared(ctx)
	if err != nil {
		return nil, false, err
	}
	run, err := q.GetRun(ctx, f.RunID)
	if err != nil {
		return nil, false, notFound(err)
	}
	if run.HeadExecution != f.Execution || !run.Settled || run.EndedAt.Valid {
		return nil, false, nil
	}
	t := &tx{Queries: q}
	th, err = t.thought(ctx, f.RunID, f.Step)
	return th, err == nil && (th != nil || run.Status == string(agent.StatusThinking)), err
}

// Reply returns the recorded reply of a step without fencing: for whoever
// carries out its calls. No reply is record.ErrNotFound.
func (s *Store) Reply(ctx context.Context, runID string, step int) (record.Thought, error) {
	q, err := s.prepared(ctx)
	if err != nil {
		return record.Thought{}, fmt.Errorf("thought %d of run %s: %w", step, runID, err)
	}
	t := &tx{Queries: q}
	out, err := t.thought(ctx, runID, step)
	if err == nil && out == nil {
		err = record.ErrNotFound
	}
	if err != nil {
		return record.Thought{}, fmt.Errorf("thought %d of run %s: %w", step, runID, err)
	}
	return *out, nil
}

func thoughtKey(step int) string { return fmt.Sprintf("thought/%d", step) }

func (t *tx) thought(ctx context.Context, runID string, step int) (*record.Thought, error) {
	row, err := t.GetMessage(ctx, sqldb.GetMessageParams{RunID: runID, Key: thoughtKey(step)})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	th, err := toThought(row)
	return &th, err
}

// RecordThought records the model's reply of the fence's step, adds its
// usage to the run's and tells watchers. Calls without an id get one that is
// unique over rewinds. If there is a reply already, that is returned and
// nothing changes.
func (s *Store) RecordThought(ctx context.Context, f record.Fence, th record.Thought) (record.Thought, error) {
	var out record.Thought
	err := s.update(ctx, func(t *tx) error {
		run, err := t.lock(ctx, f, position{f.Step, beginning})
		if err != nil {
			return err
		}
		old, err := t.thought(ctx, run.ID, f.Step)
		if err != nil {
			return err
		}
		if old != nil {
			out = *old
			return nil
		}
		out, err = t.insertThought(ctx, run, f.Step, th)
		return err
	})
	if err != nil {
		return record.Thought{}, fmt.Errorf("record thought %d of run %s: %w", f.Step, f.RunID, err)
	}
	return out, nil
}

func (t *tx) insertThought(ctx context.Context, run sqldb.Run, step int, th record.Thought) (record.Thought, error) {
	var calls pqtype.NullRawMessage
	if len(th.Calls) > 0 {
		named := make([]agent.Call, len(th.Calls))
		for i, c := range th.Calls {
			if c.ID == "" {
				id, err := randomID()
				if err != nil {
					return th, err
				}
				c.ID = id
			}
			named[i] = c
		}
		th.Calls = named
		b, err := encode(named)
		if err != nil {
			return th, err
		}
		calls = pqtype.NullRawMessage{RawMessage: b, Valid: true}
	}
	ids := make([]string, len(th.ProviderIDs))
	for i, id := range th.ProviderIDs {
		ids[i] = clean(id)
	}
	th.Text, th.Model = clean(th.Text), clean(th.Model)
	row, err := t.InsertThought(ctx, sqldb.InsertThoughtParams{
		RunID: run.ID, Branch: run.Branch, Step: int32(step), Key: thoughtKey(step),
		Text: th.Text, Calls: calls, CallIds: ids, Model: th.Model,
		PromptTokens: int64(th.Usage.PromptTokens), CompletionTokens: int64(th.Usage.CompletionTokens), TotalTokens: int64(th.Usage.TotalTokens),
		TookMs: th.TookMS, Attempt: int32(th.Attempt), Final: th.Final, GaveUp: th.GaveUp, Nudge: clean(th.Nudge),
	})
	if err != nil {
		return th, err
	}
	out, err := toThought(row)
	if err != nil {
		return th, err
	}
	if err := t.addUsage(ctx, run, step, out); err != nil {
		return th, err
	}
	return out, t.event(run.Session, run.ID, agent.EventThought, fmt.Sprintf("thought/%d/%d", run.Branch, step), agent.ThoughtEvent{
		Step: step, Model: out.Model, Text: out.Text, Calls: out.Calls, Usage: out.Usage, TookMS: out.TookMS, Attempt: out.Attempt,
	})
}

func (t *tx) addUsage(ctx context.Context, run sqldb.Run, step int, th record.Thought) error {
	var models map[string]agent.Usage
	if err := decode(run.Models, &models); err != nil {
		return err
	}
	b, err := encode(addUsage(models, th.Model, th.Usage))
	if err != nil {
		return err
	}
	status := agent.StatusThinking
	if len(th.Calls) > 0 {
		status = agent.StatusActing
	}
	return t.AddRunUsage(ctx, sqldb.AddRunUsageParams{
		ID: run.ID, Status: string(status), Step: int32(step),
		PromptTokens:     run.PromptTokens + int64(th.Usage.PromptTokens),
		CompletionTokens: run.CompletionTokens + int64(th.Usage.CompletionTokens),
		TotalTokens:      run.TotalTokens + int64(th.Usage.TotalTokens),
		Models:           b,
	})
}

// instructionKey goes before an instruction's id in the key of its message.
const instructionKey = "instruction/"

// AddInstruction records what a person added, after the fence's step: the
// last one whose thinking has begun. Once per id; the same id with another
// text is record.ErrConflict.
func (s *Store) AddInstruction(ctx context.Context, f record.Fence, id, by, text string) error {
	err := s.update(ctx, func(t *tx) error {
		if err := checkKey("instruction id", id); err != nil {
			return err
		}
		run, err := t.lock(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		text := clean(text)
		key := instructionKey + id
		n, err := t.InsertMessage(ctx, sqldb.InsertMessageParams{
			RunID: run.ID, Branch: run.Branch, Step: int32(f.Step), Role: string(record.TurnInstruction),
			Key: key, Author: clean(by), Text: text,
		})
		if err != nil {
			return err
		}
		if n == 1 {
			return t.event(run.Session, run.ID, agent.EventInstructed, fmt.Sprintf("instructed/%d/%s", run.Branch, id), agent.InstructedEvent{
				ID: id, Step: f.Step, Text: text, By: clean(by),
			})
		}
		old, err := t.GetMessage(ctx, sqldb.GetMessageParams{RunID: run.ID, Key: key})
		if err == nil && old.Text != text {
			return record.ErrConflict
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add instruction %s to run %s: %w", id, f.RunID, err)
	}
	return nil
}

func toThought(row sqldb.Message) (record.Thought, error) {
	th := record.Thought{
		Text: row.Text, ProviderIDs: row.CallIds, Final: row.Final, GaveUp: row.GaveUp, Nudge: row.Nudge,
		Usage: agent.Usage{
			PromptTokens: int(row.PromptTokens), CompletionTokens: int(row.CompletionTokens), TotalTokens: int(row.TotalTokens),
		},
		Model: row.Model, TookMS: row.TookMs, Attempt: int(row.Attempt),
	}
	if len(th.ProviderIDs) == 0 {
		th.ProviderIDs = nil
	}
	return th, decode(row.Calls.RawMessage, &th.Calls)
}
