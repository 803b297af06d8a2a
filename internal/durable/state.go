package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// Run is what the server itself knows of a run; no worker is needed for it.
type Run struct {
	RunID   string       `json:"run_id"`
	Session string       `json:"session,omitempty"`
	Browser string       `json:"browser,omitempty"`
	User    string       `json:"user,omitempty"`
	Status  agent.Status `json:"status"`
	// Reason is why a message ended that had no workflow of its own.
	Reason string `json:"reason,omitempty"`
	// Into is the run under way that the message was added to; it is queued
	// if that one does not read it.
	Into string `json:"into,omitempty"`
	// Task is the beginning of the task's text.
	Task      string    `json:"task,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Execution is Temporal's own id of the execution that carries the run
	// now; it changes when a run continues as new or is rewound.
	Execution string `json:"execution,omitempty"`
}

// Describe returns what is known of a run. A run that waits in its session
// is StatusQueued. It needs a worker only to find a queued run.
func (c *Client) Describe(ctx context.Context, runID string) (Run, error) {
	r, err := c.describe(ctx, runID)
	if !errors.Is(err, ErrNotFound) {
		return r, err
	}
	q, qerr := c.inSession(ctx, runID)
	if !errors.Is(qerr, ErrNotFound) {
		return q, qerr
	}
	// It may have begun between the two looks.
	return c.describe(ctx, runID)
}

func (c *Client) describe(ctx context.Context, runID string) (Run, error) {
	d, err := c.tc.DescribeWorkflow(ctx, workflows.RunWorkflowID(runID), "")
	if err != nil {
		return Run{}, fault(ctx, "run "+runID, err)
	}
	r := c.fromMetadata(&d.WorkflowExecutionMetadata)
	if summary, err := d.GetStaticSummary(); err == nil {
		r.Task = summary
	}
	return r, nil
}

func (c *Client) fromMetadata(m *client.WorkflowExecutionMetadata) Run {
	r := Run{
		RunID:     runIDOf(m.WorkflowExecution.ID),
		Status:    agent.StatusThinking,
		StartedAt: m.WorkflowStartTime.UTC(),
		Execution: m.WorkflowExecution.RunID,
	}
	if m.WorkflowCloseTime != nil {
		r.EndedAt = m.WorkflowCloseTime.UTC()
	}
	get := func(name string) string {
		v, _ := m.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(name))
		return v
	}
	r.Session, r.Browser, r.User = get(workflows.AttrSession), get(workflows.AttrBrowser), get(workflows.AttrUser)
	if s := agent.Status(get(workflows.AttrState)); s != "" {
		r.Status = s
	}
	r.Status = statusOf(m.Status, r.Status)
	return r
}

// statusOf corrects what the run last said of itself by what the server
// knows: an execution that was ended from outside had no chance to say so.
func statusOf(s enumspb.WorkflowExecutionStatus, said agent.Status) agent.Status {
	switch s {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		if said.Final() || said == agent.StatusQueued {
			return agent.StatusThinking
		}
		return said
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return agent.StatusAborted
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		if said.Final() {
			return said
		}
		return agent.StatusDone
	}
	return agent.StatusFailed
}

// State asks the run where it stands. It answers also for a run that is over,
// as long as the server keeps its history. ErrNoWorker if nobody answers,
// ErrQueued if it has not begun.
func (c *Client) State(ctx context.Context, runID string) (workflows.State, error) {
	var st workflows.State
	return st, c.query(ctx, runID, workflows.StateQuery, &st)
}

// Transcript asks the run what it did.
func (c *Client) Transcript(ctx context.Context, runID string) ([]workflows.Line, error) {
	var lines []workflows.Line
	return lines, c.query(ctx, runID, workflows.TranscriptQuery, &lines)
}

func (c *Client) query(ctx context.Context, runID, name string, out any) error {
	op := name + " of run " + runID
	err := c.ask(ctx, workflows.RunWorkflowID(runID), name, out)
	if errors.Is(err, ErrNotFound) {
		return c.absent(ctx, runID, op)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// ask queries a workflow; ErrNoWorker when nobody answers in time.
func (c *Client) ask(ctx context.Context, workflowID, name string, out any, args ...any) error {
	asked, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	v, err := c.tc.QueryWorkflow(asked, workflowID, "", name, args...)
	if err != nil {
		if ctx.Err() == nil && noAnswer(asked, err) {
			return fmt.Errorf("query %s: %w: %w", name, ErrNoWorker, err)
		}
		return fault(ctx, "query "+name, err)
	}
	if err := v.Get(out); err != nil {
		return fmt.Errorf("query %s: %w", name, err)
	}
	return nil
}

// Inbox asks a session what it runs and what waits in it.
func (c *Client) Inbox(ctx context.Context, session string) (workflows.Inbox, error) {
	var box workflows.Inbox
	if err := c.ask(ctx, workflows.SessionID(session), workflows.InboxQuery, &box); err != nil {
		return box, fmt.Errorf("session %s: %w", session, err)
	}
	return box, nil
}

// settleTime is how long a new session may take to be listed.
const settleTime = 3 * time.Second

// WaitResult waits until the run is over, for as long as ctx lasts, and
// returns how it ended. It follows a run through continue-as-new and
// rewinding, and waits for one that is queued.
func (c *Client) WaitResult(ctx context.Context, runID string) (workflows.Outcome, error) {
	session, asked := "", time.Now()
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		var out workflows.Outcome
		err := c.tc.GetWorkflow(ctx, workflows.RunWorkflowID(runID), "").Get(ctx, &out)
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return out, fmt.Errorf("result of run %s: %w", runID, ctx.Err())
		}
		// Not there yet, ended from outside, or rewound while we waited.
		r, derr := c.Describe(ctx, runID)
		switch {
		case errors.Is(derr, ErrNotFound) && session != "":
			// It was queued and is no more: begun just now, or ended without.
			if q, err := c.unstarted(ctx, session, runID); err == nil {
				return unstarted(q), nil
			}
		case errors.Is(derr, ErrNotFound) && time.Since(asked) < settleTime:
			// A session that was only just started is not listed yet.
		case errors.Is(derr, ErrNotFound) || errors.Is(derr, ErrNoNamespace) || errors.Is(derr, ErrDenied) || errors.Is(derr, ErrInvalid):
			return out, derr
		case derr != nil:
			// A server or worker that is away, or on its way back.
		case r.Status == agent.StatusQueued:
			session = r.Session
		case r.Execution == "":
			return unstarted(r), nil
		case r.Status.Final() && !r.EndedAt.IsZero():
			if over, ok := ended(r, err); ok {
				return over, nil
			}
		}
		if err := pause(ctx, delay); err != nil {
			return out, fmt.Errorf("result of run %s: %w", runID, err)
		}
	}
}

// ended makes the outcome of a run that could not make its own. It is false
// for an error that does not tell of an end, a broken connection for
// instance.
func ended(r Run, err error) (workflows.Outcome, bool) {
	out := workflows.Outcome{RunID: r.RunID, Status: r.Status}
	var execution *temporal.WorkflowExecutionError
	if !errors.As(err, &execution) {
		return out, false
	}
	out.Reason = agent.ReasonInternal
	if r.Status == agent.StatusAborted {
		out.Reason = agent.ReasonAborted
	}
	if cause := errors.Unwrap(execution); cause != nil {
		out.Summary = cause.Error()
	}
	return out, true
}

// unstarted is the outcome of a message that ended without a workflow of its
// own: dropped, or read by another run.
func unstarted(r Run) workflows.Outcome {
	return workflows.Outcome{RunID: r.RunID, Status: r.Status, Success: r.Status == agent.StatusDone, Reason: r.Reason}
}
