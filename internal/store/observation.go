package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sqlc-dev/pqtype"

	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// How much of a run is looked at or handed out at once.
const (
	// RecentActions is how many signatures a record.Judge can get: as many
	// as the highest limit of repetition that can be configured.
	RecentActions = 1000
	// KeptImages is how many pictures Conversation loads: the newest. Older
	// observations keep their MIME type, so that it can be told that there
	// was one.
	KeptImages = 3
	// maxTold bounds the observation in an event, in bytes.
	maxTold = 2 << 10
)

// RecordStep records a call of the fence's step and what came of it, has it
// judged, and keeps the verdict and the browser's breaker, all at once. judge
// sees the last keep signatures, at most RecentActions of them. If o.Call has
// no id, it is the call o.Index of the recorded reply. If the step was
// recorded before, the verdict of then is returned and nothing changes. judge
// must be quick, for it holds up the browser's other runs. After the last
// call of its reply the run is "thinking".
func (s *Store) RecordStep(ctx context.Context, f record.Fence, browser string, o record.Observation, keep int, judge record.Judge) (critic.Verdict, error) {
	var verdict critic.Verdict
	err := s.update(ctx, func(t *tx) error {
		run, err := t.lock(ctx, f, position{f.Step, o.Index})
		if err != nil {
			return err
		}
		old, err := t.GetVerdict(ctx, sqldb.GetVerdictParams{RunID: run.ID, Step: int32(f.Step), Idx: int32(o.Index)})
		if err == nil {
			return decode(old.RawMessage, &verdict)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if o.Call.ID == "" {
			if o.Call, err = t.call(ctx, run.ID, f.Step, o.Index); err != nil {
				return err
			}
		}
		if verdict, err = t.judge(ctx, run.ID, browser, o, keep, judge); err != nil {
			return err
		}
		if err := t.insertStep(ctx, run, f.Step, browser, o, verdict); err != nil {
			return err
		}
		if err := t.SetThinkingAfter(ctx, sqldb.SetThinkingAfterParams{ID: run.ID, Key: thoughtKey(f.Step), Done: int32(o.Index) + 1}); err != nil {
			return err
		}
		return t.event(run.Session, run.ID, agent.EventStep, fmt.Sprintf("step/%d/%d/%d", run.Branch, f.Step, o.Index), agent.StepEvent{
			Step: f.Step, Call: o.Call, Outcome: o.Outcome, Code: o.Code, Observation: head(clean(o.Text), maxTold),
			Page: o.Page, DurationMS: o.TookMS,
		})
	})
	if err != nil {
		return critic.Verdict{}, fmt.Errorf("record step %d.%d of run %s: %w", f.Step, o.Index, f.RunID, err)
	}
	return verdict, nil
}

// call finds a call in the recorded reply.
func (t *tx) call(ctx context.Context, runID string, step, index int) (agent.Call, error) {
	th, err := t.thought(ctx, runID, step)
	if err != nil {
		return agent.Call{}, err
	}
	if th == nil || index < 0 || index >= len(th.Calls) {
		return agent.Call{}, fmt.Errorf("%w: the reply has no such call", ErrInvalid)
	}
	return th.Calls[index], nil
}

func (t *tx) judge(ctx context.Context, runID, browser string, o record.Observation, keep int, judge record.Judge) (critic.Verdict, error) {
	if judge == nil {
		return critic.Verdict{}, nil
	}
	recent, err := t.RecentSignatures(ctx, sqldb.RecentSignaturesParams{RunID: runID, MaxRows: int32(max(0, min(keep, RecentActions)-1))})
	if err != nil {
		return critic.Verdict{}, err
	}
	slices.Reverse(recent)
	var verdict critic.Verdict
	err = t.changeBreaker(ctx, browser, func(b critic.Breaker) critic.Breaker {
		b, verdict = judge(append(recent, clean(o.Signature)), b)
		return b
	})
	return verdict, err
}

func (t *tx) insertStep(ctx context.Context, run sqldb.Run, step int, browser string, o record.Observation, v critic.Verdict) error {
	call, err := encode(o.Call)
	if err != nil {
		return err
	}
	page, err := encode(o.Page)
	if err != nil {
		return err
	}
	verdict, err := encode(v)
	if err != nil {
		return err
	}
	return t.InsertStep(ctx, sqldb.InsertStepParams{
		RunID: run.ID, Branch: run.Branch, Step: int32(step), Idx: int32(o.Index),
		Action: clean(o.Call.Action), Call: call, Outcome: string(o.Outcome), Code: clean(o.Code),
		Observation: clean(o.Text), Image: o.Image, Mime: clean(o.MIME), Page: null(page), Browser: clean(browser),
		DurationMs: o.TookMS, Signature: clean(o.Signature), Verdict: null(verdict),
	})
}

func null(b json.RawMessage) pqtype.NullRawMessage {
	return pqtype.NullRawMessage{RawMessage: b, Valid: len(b) > 0}
}

// Conversation returns a run's turns in order: in each step the reply, the
// observations of its calls, and what people added after it. Of the pictures
// only the newest KeptImages are loaded. It reads what Thought has made the
// current branch.
func (s *Store) Conversation(ctx context.Context, f record.Fence) ([]record.Turn, error) {
	return s.Turns(ctx, f.RunID)
}

// Turns is Conversation for those who only look on.
func (s *Store) Turns(ctx context.Context, runID string) ([]record.Turn, error) {
	var out []record.Turn
	err := s.view(ctx, func(q *sqldb.Queries) (err error) {
		t := &tx{Queries: q}
		out, err = t.turns(ctx, runID, KeptImages)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("conversation of run %s: %w", runID, err)
	}
	return out, nil
}

// turns returns messages and steps in order, with the newest pictures.
func (t *tx) turns(ctx context.Context, runID string, images int) ([]record.Turn, error) {
	messages, err := t.ListMessages(ctx, runID)
	if err != nil {
		return nil, err
	}
	steps, err := t.ListSteps(ctx, runID)
	if err != nil {
		return nil, err
	}
	pictures := map[int64][]byte{}
	if images > 0 && slices.ContainsFunc(steps, func(r sqldb.ListStepsRow) bool { return r.Mime != "" }) {
		rows, err := t.ListImages(ctx, sqldb.ListImagesParams{RunID: runID, MaxRows: int32(images)})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			pictures[r.ID] = r.Image
		}
	}
	return merge(messages, steps, pictures)
}

// merge puts a run's messages and steps in order. pictures are by the row of
// their step.
func merge(messages []sqldb.Message, steps []sqldb.ListStepsRow, pictures map[int64][]byte) ([]record.Turn, error) {
	out := make([]record.Turn, 0, len(messages)+len(steps))
	observed := func(before int32) error {
		for len(steps) > 0 && steps[0].Step < before {
			turn, err := observationTurn(steps[0], pictures[steps[0].ID])
			if err != nil {
				return err
			}
			out = append(out, turn)
			steps = steps[1:]
		}
		return nil
	}
	// ListMessages gives a step's reply before what people added after it,
	// ListSteps a step's calls in order: what is left is to put the latter
	// between the two.
	for _, m := range messages {
		before := m.Step
		if m.Role == string(record.TurnInstruction) {
			before++
		}
		if err := observed(before); err != nil {
			return nil, err
		}
		turn, err := messageTurn(m)
		if err != nil {
			return nil, err
		}
		out = append(out, turn)
	}
	const all = 1<<31 - 1
	return out, observed(all)
}

func messageTurn(m sqldb.Message) (record.Turn, error) {
	turn := record.Turn{Kind: record.TurnKind(m.Role), Step: int(m.Step), At: m.At.UTC()}
	if turn.Kind == record.TurnInstruction {
		turn.ID = strings.TrimPrefix(m.Key, instructionKey)
	}
	if turn.Kind != record.TurnThought {
		turn.Text, turn.By = m.Text, m.Author
		return turn, nil
	}
	th, err := toThought(m)
	turn.Thought = &th
	return turn, err
}

func observationTurn(r sqldb.ListStepsRow, image []byte) (record.Turn, error) {
	o := record.Observation{
		Index: int(r.Idx), Outcome: agent.Outcome(r.Outcome), Code: r.Code, Text: r.Observation,
		Image: image, MIME: r.Mime, TookMS: r.DurationMs, Signature: r.Signature,
	}
	err := errors.Join(decode(r.Call, &o.Call), decode(r.Page.RawMessage, &o.Page))
	return record.Turn{Kind: record.TurnObservation, Step: int(r.Step), At: r.At.UTC(), Observation: &o}, err
}
