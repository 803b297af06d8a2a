package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// inSession looks for a run that has no workflow (yet): in the task's own
// session, then in the inboxes of all sessions. It is StatusQueued, or final
// if it was dropped before it began or read by another run; else
// ErrNotFound.
func (c *Client) inSession(ctx context.Context, runID string) (Run, error) {
	own := OwnSession(runID)
	d, err := c.tc.DescribeWorkflow(ctx, workflows.SessionID(own), "")
	if err = fault(ctx, "session "+own, err); err == nil {
		m, err := c.mail(ctx, own, runID)
		switch {
		case err != nil:
			return Run{}, err
		case m.over():
			return m.ended(runID, own), nil
		case m.arrived && d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
			return Run{RunID: runID, Session: own, Status: agent.StatusQueued, Task: m.task}, nil
		}
		return Run{}, fmt.Errorf("run %s: %w", runID, ErrNotFound)
	}
	if !errors.Is(err, ErrNotFound) {
		return Run{}, err
	}
	queued, err := c.queued(ctx, func(id string) bool { return id == runID })
	if err != nil {
		return Run{}, err
	}
	if len(queued) > 0 {
		return queued[0], nil
	}
	return c.unstartedAnywhere(ctx, runID)
}

// unstartedAnywhere looks for a message that ended without a run in the
// histories of the open sessions.
func (c *Client) unstartedAnywhere(ctx context.Context, runID string) (Run, error) {
	keys, err := c.sessions(ctx)
	if err != nil {
		return Run{}, err
	}
	for _, key := range keys {
		r, err := c.unstarted(ctx, key, runID)
		if !errors.Is(err, ErrNotFound) {
			return r, err
		}
	}
	return Run{}, fmt.Errorf("run %s: %w", runID, ErrNotFound)
}

// unstarted returns how a message ended that the session let go of without a
// run; else ErrNotFound.
func (c *Client) unstarted(ctx context.Context, session, runID string) (Run, error) {
	m, err := c.mail(ctx, session, runID)
	if err != nil {
		return Run{}, err
	}
	if !m.over() {
		return Run{}, fmt.Errorf("run %s: %w", runID, ErrNotFound)
	}
	return m.ended(runID, session), nil
}

// maxSessions bounds how many sessions are asked what waits in them.
const maxSessions = 100

// queued asks the open sessions for the runs that wait in them and that want
// accepts.
func (c *Client) queued(ctx context.Context, want func(runID string) bool) ([]Run, error) {
	keys, err := c.sessions(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var found []Run
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, key := range keys {
		g.Go(func() error {
			box, err := c.Inbox(gctx, key)
			if errors.Is(err, ErrNotFound) {
				return nil // closed since
			}
			if err != nil {
				return err
			}
			begins := box.Running != "" && want(box.Running) && !c.exists(gctx, box.Running)
			mu.Lock()
			defer mu.Unlock()
			add := func(r Run) {
				if want(r.RunID) {
					r.Session, r.Status = key, agent.StatusQueued
					found = append(found, r)
				}
			}
			if begins {
				add(Run{RunID: box.Running})
			}
			for i, id := range box.Queued {
				r := Run{RunID: id}
				if i < len(box.Tasks) {
					r.Task = box.Tasks[i]
				}
				add(r)
			}
			for _, id := range box.Steered {
				add(Run{RunID: id, Into: box.Running})
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b Run) int { return strings.Compare(a.Session, b.Session) })
	return found, nil
}

// exists reports whether the run has a workflow.
func (c *Client) exists(ctx context.Context, runID string) bool {
	_, err := c.describe(ctx, runID)
	return err == nil
}

type mail struct {
	arrived bool   // the message reached the session
	task    string // the beginning of its text
	aborted bool   // and so did an abort of it
	// finish is how the session ended its record; nil if it did not.
	finish *activities.FinishInput
}

// note takes a message into account if it is the one that is looked for.
func (m *mail) note(q agent.Message, runID string) {
	if q.ID == runID && !m.arrived {
		m.arrived, m.task = true, workflows.Beginning(q.Text)
	}
}

// over reports whether the message ended, if it has no run.
func (m mail) over() bool { return m.aborted || m.finish != nil }

func (m mail) ended(runID, session string) Run {
	r := Run{RunID: runID, Session: session, Status: agent.StatusAborted, Reason: agent.ReasonAborted}
	if m.finish != nil {
		r.Status, r.Reason = m.finish.Status, m.finish.Reason
	}
	return r
}

// mail reads from a session's history what was sent about a run. It works
// without a worker.
func (c *Client) mail(ctx context.Context, session, runID string) (mail, error) {
	var m mail
	dc := converter.GetDefaultDataConverter()
	it := c.tc.GetWorkflowHistory(ctx, workflows.SessionID(session), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return m, fault(ctx, "history of session "+session, err)
		}
		switch a := e.GetAttributes().(type) {
		case *historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes:
			var in workflows.SessionInput
			if dc.FromPayloads(a.WorkflowExecutionStartedEventAttributes.GetInput(), &in) == nil {
				for _, q := range append(in.Queue, in.Steered...) {
					m.note(q, runID)
				}
			}
		case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
			s := a.ActivityTaskScheduledEventAttributes
			var in activities.FinishInput
			if s.GetActivityType().GetName() == activities.FinishName && dc.FromPayloads(s.GetInput(), &in) == nil && in.RunID == runID {
				m.finish = &in
			}
		case *historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes:
			s := a.WorkflowExecutionSignaledEventAttributes
			switch s.GetSignalName() {
			case workflows.MessageSignal:
				var msg agent.Message
				if dc.FromPayloads(s.GetInput(), &msg) == nil {
					m.note(msg, runID)
				}
			case workflows.AbortName:
				var abort workflows.Abort
				m.aborted = m.aborted || dc.FromPayloads(s.GetInput(), &abort) == nil && abort.RunID == runID
			}
		}
	}
	return m, nil
}
