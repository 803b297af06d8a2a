package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// What becomes of a question.
const (
	open     = "open"
	approved = "approved"
	rejected = "rejected"
	expired  = "expired"
	void     = "void" // the run ended or was rewound before anybody answered
)

// Confirmation is a question to a person and what was said, for the audit.
type Confirmation struct {
	RunID     string
	Question  agent.Confirmation
	Decision  string // "open", "approved", "rejected", "expired" or "void"
	DecidedAt time.Time
	By        string
	Note      string
	Rewound   bool // belongs to a branch that was set aside
}

// Ask records a question to a person and tells watchers; once per id. A
// branch may ask under an id that another branch used: that one's question
// is set aside. An id of another run is record.ErrConflict.
func (s *Store) Ask(ctx context.Context, f record.Fence, c agent.Confirmation) error {
	err := s.update(ctx, func(t *tx) error {
		if err := checkKey("confirmation id", c.ID); err != nil {
			return err
		}
		run, err := t.lock(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		old, err := t.GetConfirmation(ctx, c.ID)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case old.RunID != run.ID:
			return record.ErrConflict
		case old.Branch == run.Branch:
			return nil
		default:
			if err := t.RewindConfirmation(ctx, sqldb.RewindConfirmationParams{ID: old.ID, Branch: run.Branch}); err != nil {
				return err
			}
		}
		question, err := encode(c)
		if err != nil {
			return err
		}
		if err := t.InsertConfirmation(ctx, sqldb.InsertConfirmationParams{
			ConfirmID: c.ID, RunID: run.ID, Branch: run.Branch, Step: int32(c.Step), Question: question,
			Digest: clean(c.Digest), AskedAt: c.Since, ExpiresAt: nullTime(c.Until),
		}); err != nil {
			return err
		}
		if err := t.SetRunStatus(ctx, sqldb.SetRunStatusParams{
			ID: run.ID, Status: string(agent.StatusWaitingConfirm), Detail: c.ID, Browser: run.Browser,
		}); err != nil {
			return err
		}
		return t.event(run.Session, run.ID, agent.EventConfirm, fmt.Sprintf("ask/%d/%s", run.Branch, c.ID), c)
	})
	if err != nil {
		return fmt.Errorf("ask %s in run %s: %w", c.ID, f.RunID, err)
	}
	return nil
}

// Decide records what became of the question a.ConfirmID, by whom and when,
// and tells watchers; once. decision is "approved", "rejected", "expired" or
// "void". Without an id it is the run's open question. Deciding otherwise
// than before is record.ErrConflict, unless that decision belongs to a branch
// that was set aside.
func (s *Store) Decide(ctx context.Context, f record.Fence, decision string, a agent.Answer, at time.Time) error {
	err := s.update(ctx, func(t *tx) error {
		switch decision {
		case approved, rejected, expired, void:
		default:
			return fmt.Errorf("%w: decision %q", ErrInvalid, decision)
		}
		run, err := t.lock(ctx, f, position{f.Step, end})
		if err != nil {
			return err
		}
		var c sqldb.Confirmation
		if a.ConfirmID == "" {
			c, err = t.OpenConfirmation(ctx, run.ID)
		} else {
			c, err = t.GetConfirmation(ctx, a.ConfirmID)
		}
		if err != nil {
			return notFound(err)
		}
		if c.RunID != run.ID {
			return record.ErrNotFound
		}
		if c.Outcome != open {
			if c.DecidedBranch.Int32 == run.Branch {
				if c.Outcome != decision {
					return record.ErrConflict
				}
				return nil
			}
			if c, err = t.repeat(ctx, run, c); err != nil {
				return err
			}
		}
		return t.decide(ctx, run, c, a, at, decision)
	})
	if err != nil {
		return fmt.Errorf("decide %s in run %s: %w", a.ConfirmID, f.RunID, err)
	}
	return nil
}

// repeat opens a copy of a question that another branch decided, and sets
// the decided one aside.
func (t *tx) repeat(ctx context.Context, run sqldb.Run, c sqldb.Confirmation) (sqldb.Confirmation, error) {
	if err := t.RewindConfirmation(ctx, sqldb.RewindConfirmationParams{ID: c.ID, Branch: run.Branch}); err != nil {
		return c, err
	}
	if err := t.InsertConfirmation(ctx, sqldb.InsertConfirmationParams{
		ConfirmID: c.ConfirmID, RunID: run.ID, Branch: run.Branch, Step: c.Step, Question: c.Question,
		Digest: c.Digest, AskedAt: c.AskedAt, ExpiresAt: c.ExpiresAt,
	}); err != nil {
		return c, err
	}
	return t.GetConfirmation(ctx, c.ConfirmID)
}

func (t *tx) decide(ctx context.Context, run sqldb.Run, c sqldb.Confirmation, a agent.Answer, at time.Time, decision string) error {
	if err := t.DecideConfirmation(ctx, sqldb.DecideConfirmationParams{
		ID: c.ID, Outcome: decision, DecidedBranch: run.Branch, DecidedAt: at, DecidedBy: clean(a.By), Note: clean(a.Note),
	}); err != nil {
		return err
	}
	if err := t.SetRunStatus(ctx, sqldb.SetRunStatusParams{
		ID: run.ID, Status: string(agent.StatusActing), Browser: run.Browser,
	}); err != nil {
		return err
	}
	a.ConfirmID, a.Approved = c.ConfirmID, decision == approved
	if a.Note == "" && (decision == expired || decision == void) {
		a.Note = decision
	}
	return t.event(run.Session, run.ID, agent.EventConfirmed, fmt.Sprintf("decide/%d/%s", run.Branch, c.ConfirmID), a)
}

// ConfirmationFilter chooses confirmations; zero chooses all but rewound
// ones.
type ConfirmationFilter struct {
	RunID   string
	Open    bool // only those that wait for an answer
	Rewound bool // also those of branches that were set aside
	Limit   int  // at most 1000; 0 means 50
}

// Confirmations lists confirmations, oldest first.
func (s *Store) Confirmations(ctx context.Context, f ConfirmationFilter) ([]Confirmation, error) {
	rows, err := s.q.ListConfirmations(ctx, sqldb.ListConfirmationsParams{
		RunID: nullString(f.RunID), OnlyOpen: f.Open, WithRewound: f.Rewound, MaxRows: limit(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("confirmations: %w", err)
	}
	return toConfirmations(rows)
}

// Decided lists confirmations that are no longer open, the latest decided
// first. before, if not empty, is the id of one: only those decided earlier,
// for the next page. n is at most 1000; 0 means 50.
func (s *Store) Decided(ctx context.Context, before string, n int) ([]Confirmation, error) {
	rows, err := s.q.DecidedConfirmations(ctx, sqldb.DecidedConfirmationsParams{Before: nullString(before), MaxRows: limit(n)})
	if err != nil {
		return nil, fmt.Errorf("decided confirmations: %w", err)
	}
	return toConfirmations(rows)
}

func toConfirmations(rows []sqldb.Confirmation) ([]Confirmation, error) {
	out := make([]Confirmation, 0, len(rows))
	for _, r := range rows {
		c := Confirmation{
			RunID: r.RunID, Decision: r.Outcome, DecidedAt: utc(r.DecidedAt), By: r.DecidedBy, Note: r.Note, Rewound: r.Rewound,
		}
		if err := decode(r.Question, &c.Question); err != nil {
			return nil, fmt.Errorf("confirmation %s: %w", r.ConfirmID, err)
		}
		out = append(out, c)
	}
	return out, nil
}
