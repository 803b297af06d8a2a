package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// Receipt says how a message reached a run.
type Receipt struct {
	// Signalled is true when no worker answered in time and the message was
	// left as a signal: it will be read as soon as a worker is there, and
	// nobody has checked it yet.
	Signalled bool `json:"signalled,omitempty"`
	// Queued is true when the run had not begun: the message went to its
	// session.
	Queued bool `json:"queued,omitempty"`
}

// Confirm answers a confirmation of the run. An empty ConfirmID answers the
// one that is open now, whichever that is; a caller that showed a person one
// should name it. The same answer by the same person is taken once and
// answered alike, so it may be repeated when no reply came. Errors:
// ErrInvalid, ErrNothingToConfirm, ErrUnknownConfirm, ErrAlreadyDecided, ErrConfirmExpired, ErrDigestMismatch, ErrRunOver,
// ErrQueued, ErrNotFound; ErrNoWorker only without a ConfirmID.
func (c *Client) Confirm(ctx context.Context, runID string, a agent.Answer) (workflows.ConfirmReply, Receipt, error) {
	if a.Scope != "" && a.Scope != agent.ScopeRun {
		return workflows.ConfirmReply{}, Receipt{}, fmt.Errorf("confirm %s: %w: scope %q is not %q", runID, ErrInvalid, a.Scope, agent.ScopeRun)
	}
	if a.ConfirmID == "" {
		// The answer may be delivered twice (see the package comment), so it
		// must say what it answers.
		st, err := c.State(ctx, runID)
		switch {
		case err != nil:
			return workflows.ConfirmReply{}, Receipt{}, err
		case st.Status.Final():
			return workflows.ConfirmReply{}, Receipt{}, fmt.Errorf("confirm %s: %w", runID, ErrRunOver)
		case st.Confirm == nil:
			return workflows.ConfirmReply{}, Receipt{}, fmt.Errorf("confirm %s: %w", runID, ErrNothingToConfirm)
		}
		a.ConfirmID = st.Confirm.ID
		if a.Digest == "" {
			a.Digest = st.Confirm.Digest
		}
	}
	var reply workflows.ConfirmReply
	receipt, err := c.tell(ctx, runID, workflows.ConfirmName, updateID(workflows.ConfirmName, a.ConfirmID, a.Digest, fmt.Sprint(a.Approved), a.By, a.Scope), a, &reply)
	if err == nil && receipt.Signalled {
		reply = workflows.ConfirmReply{ConfirmID: a.ConfirmID, Approved: a.Approved}
	}
	return reply, receipt, err
}

// Abort stops a run; one that still waits in its session is dropped from it.
// ErrSteered if its message was added to another run: that one would have to
// be stopped.
func (c *Client) Abort(ctx context.Context, runID string, a workflows.Abort) (Receipt, error) {
	receipt, err := c.tell(ctx, runID, workflows.AbortName, "", a, nil)
	if !errors.Is(err, ErrQueued) || errors.Is(err, ErrSteered) {
		return receipt, err
	}
	q, err := c.inSession(ctx, runID)
	if err != nil {
		return Receipt{}, err
	}
	a.RunID = runID
	if err := c.tc.SignalWorkflow(ctx, workflows.SessionID(q.Session), "", workflows.AbortName, a); err != nil {
		return Receipt{}, fault(ctx, "abort "+runID, err)
	}
	// It may have begun between the two looks.
	if receipt, err := c.tell(ctx, runID, workflows.AbortName, "", a, nil); err == nil {
		return receipt, nil
	}
	return Receipt{Queued: true}, nil
}

// Instruct adds an instruction to a run, once by its ID; that of another text
// is ErrInvalid. An empty ID gets a new UUID v7.
func (c *Client) Instruct(ctx context.Context, runID string, i workflows.Instruction) (Receipt, error) {
	if i.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Receipt{}, fmt.Errorf("make an id: %w", err)
		}
		i.ID = id.String()
	}
	if i.Text == "" || len(i.Text) > agent.MaxInstruction {
		return Receipt{}, fmt.Errorf("%w: an instruction has 1 to %d bytes, this one has %d", ErrInvalid, agent.MaxInstruction, len(i.Text))
	}
	return c.tell(ctx, runID, workflows.InstructName, updateID(workflows.InstructName, i.ID, i.Sum()), i, nil)
}

// Move sends a run on to another browser.
func (c *Client) Move(ctx context.Context, runID string, m workflows.Move) (Receipt, error) {
	if err := checkID("browser", m.BrowserID); err != nil {
		return Receipt{}, err
	}
	return c.tell(ctx, runID, workflows.MoveName, "", m, nil)
}

func updateID(parts ...string) string {
	id := ""
	for _, p := range parts {
		id += p + "/"
	}
	return id
}

// tell sends the update, and when no worker answers, the signal of the same
// name.
func (c *Client) tell(ctx context.Context, runID, name, id string, payload, reply any) (Receipt, error) {
	op := name + " " + runID
	err := c.update(ctx, runID, name, id, payload, reply)
	switch {
	case err == nil:
		return Receipt{}, nil
	case ctx.Err() != nil:
		return Receipt{}, fault(ctx, op, err)
	case noAnswer(ctx, err):
		err = c.tc.SignalWorkflow(ctx, workflows.RunWorkflowID(runID), "", name, payload)
		if err == nil {
			return Receipt{Signalled: true}, nil
		}
	}
	err = fault(ctx, op, err)
	if errors.Is(err, ErrNotFound) {
		// The server says so of a run that has ended, too.
		return Receipt{}, c.absent(ctx, runID, op)
	}
	return Receipt{}, err
}

func (c *Client) update(ctx context.Context, runID, name, id string, payload, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	h, err := c.tc.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflows.RunWorkflowID(runID), UpdateName: name, UpdateID: id,
		Args: []any{payload}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, reply)
}

// absent tells why a run takes no messages: over, not begun, or unknown.
func (c *Client) absent(ctx context.Context, runID, op string) error {
	_, err := c.describe(ctx, runID)
	if err == nil {
		return fmt.Errorf("%s: %w", op, ErrRunOver)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	q, err := c.inSession(ctx, runID)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", op, err)
	case q.Status.Final():
		return fmt.Errorf("%s: %w", op, ErrRunOver)
	case q.Into != "":
		return fmt.Errorf("%s: %w (run %s)", op, ErrSteered, q.Into)
	}
	return fmt.Errorf("%s: %w", op, ErrQueued)
}
