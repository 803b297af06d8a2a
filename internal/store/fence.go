package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// position is a point in a run: a step, and in it the beginning, the moment
// before a call, or the end.
type position struct {
	step int
	idx  int
}

const (
	beginning = -1
	end       = math.MaxInt32
)

// lock locks the run for writing in the name of f. If f's execution is new
// to the run it takes over, and what other branches wrote from p on is set
// aside. The row returned is as it is now.
func (t *tx) lock(ctx context.Context, f record.Fence, p position) (sqldb.Run, error) {
	run, err := t.lockEnded(ctx, f, p)
	if err == nil && run.EndedAt.Valid {
		// What comes after the end comes from an activity that nobody waits
		// for any more.
		return run, record.ErrSuperseded
	}
	return run, err
}

// lockEnded is lock for writes that a run takes after its end too.
func (t *tx) lockEnded(ctx context.Context, f record.Fence, p position) (sqldb.Run, error) {
	if f.RunID == "" || f.Execution == "" {
		return sqldb.Run{}, fmt.Errorf("%w: fence without run or execution", ErrInvalid)
	}
	run, err := t.LockRun(ctx, f.RunID)
	if errors.Is(err, sql.ErrNoRows) {
		return run, record.ErrNotFound
	}
	if err != nil {
		return run, err
	}
	if run.HeadExecution != f.Execution {
		if slices.Contains(run.RetiredExecutions, f.Execution) {
			return run, record.ErrSuperseded
		}
		run, err = t.TakeOver(ctx, sqldb.TakeOverParams{ID: run.ID, Execution: f.Execution})
		if err != nil {
			return run, err
		}
	}
	if run.Settled {
		return run, nil
	}
	return run, t.rewind(ctx, &run, p)
}

// rewind sets aside what other branches than the run's wrote from p on.
func (t *tx) rewind(ctx context.Context, run *sqldb.Run, p position) error {
	whole := p.idx == beginning
	step := int32(p.step)
	messages, err := t.RewindMessages(ctx, sqldb.RewindMessagesParams{RunID: run.ID, Branch: run.Branch, Step: step, Whole: whole})
	if err != nil {
		return err
	}
	steps, err := t.RewindSteps(ctx, sqldb.RewindStepsParams{RunID: run.ID, Branch: run.Branch, Step: step, Idx: int32(p.idx)})
	if err != nil {
		return err
	}
	asked, err := t.RewindConfirmations(ctx, sqldb.RewindConfirmationsParams{RunID: run.ID, Branch: run.Branch, Step: step, Whole: whole})
	if err != nil {
		return err
	}
	if p.idx != end {
		// From here on the branch only meets what it wrote itself.
		if err := t.SettleRun(ctx, run.ID); err != nil {
			return err
		}
		run.Settled = true
	}
	if messages+steps+asked == 0 {
		return nil
	}
	if p.idx == end {
		step++
	}
	return t.event(run.Session, run.ID, agent.EventState, fmt.Sprintf("rewound/%d/%d", run.Branch, step),
		agent.StateEvent{Status: agent.Status(run.Status), Detail: fmt.Sprintf("rewound to step %d", step), Rewound: new(int(step))})
}
