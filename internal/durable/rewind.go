package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"sgclaw/activities"
	"sgclaw/workflows"
)

// Rewound says how a run was rewound.
type Rewound struct {
	RunID string `json:"run_id"`
	Step  int    `json:"step"` // the step that is done anew
	// Execution is Temporal's id of the execution that goes on.
	Execution string `json:"execution"`
}

// Rewind takes a run, under way or over, back to before its step toStep (1
// is the first), and lets it go on from there. What happened in the browser
// stays done. i.By is who does it, for the run's history; a non-empty i.Text
// is an instruction that the model sees with that step. ErrNoStep if the run has not got there, or if the server keeps
// that part of its history no longer.
func (c *Client) Rewind(ctx context.Context, runID string, toStep int, i workflows.Instruction) (Rewound, error) {
	op := fmt.Sprintf("rewind %s to step %d", runID, toStep)
	if toStep < 1 {
		return Rewound{}, fmt.Errorf("%s: %w: steps count from 1", op, ErrInvalid)
	}
	if _, err := c.describe(ctx, runID); err != nil {
		if errors.Is(err, ErrNotFound) {
			return Rewound{}, c.absent(ctx, runID, op)
		}
		return Rewound{}, err
	}
	execution, event, err := c.beforeStep(ctx, runID, toStep)
	if err != nil {
		return Rewound{}, fmt.Errorf("%s: %w", op, err)
	}
	reason := fmt.Sprintf("rewind to step %d", toStep)
	if i.By != "" {
		reason += fmt.Sprintf(" by %.100s", i.By)
	}
	reset := func(execution string, exclude ...enumspb.ResetReapplyExcludeType) (string, error) {
		resp, err := c.tc.ResetWorkflowExecution(ctx, &workflowservice.ResetWorkflowExecutionRequest{
			Namespace:                 c.ns,
			WorkflowExecution:         &commonpb.WorkflowExecution{WorkflowId: workflows.RunWorkflowID(runID), RunId: execution},
			Reason:                    reason,
			WorkflowTaskFinishEventId: event,
			RequestId:                 uuid.NewString(),
			ResetReapplyExcludeTypes:  append(exclude, dropped()...),
		})
		return resp.GetRunId(), fault(ctx, op, err)
	}
	execution, err = reset(execution, enumspb.RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL)
	if err != nil {
		return Rewound{}, err
	}
	rewound := Rewound{RunID: runID, Step: toStep, Execution: execution}
	if i.Text == "" {
		return rewound, nil
	}
	if i.ID == "" {
		i.ID = uuid.NewString()
	}
	if err := c.tc.SignalWorkflow(ctx, workflows.RunWorkflowID(runID), execution, workflows.InstructName, i); err != nil {
		return rewound, fmt.Errorf("%s: rewound, but the instruction was not delivered: %w", op, fault(ctx, "signal", err))
	}
	rewound.Execution, err = reset(execution)
	if err != nil {
		return rewound, fmt.Errorf("%s: rewound, but the instruction may come a step late: %w", op, err)
	}
	return rewound, nil
}

// beforeStep finds the execution that carried out a step, and the event of
// its history to reset to: the end of the workflow task that asked the model
// for the step. It goes back over the executions that continued as new.
func (c *Client) beforeStep(ctx context.Context, runID string, step int) (execution string, event int64, err error) {
	d, err := c.tc.DescribeWorkflow(ctx, workflows.RunWorkflowID(runID), "")
	if err != nil {
		return "", 0, fault(ctx, "run", err)
	}
	execution = d.WorkflowExecution.RunID
	for execution != "" {
		event, previous, err := c.scan(ctx, runID, execution, step)
		if errors.Is(err, ErrNotFound) {
			return "", 0, fmt.Errorf("%w: that part of its history is kept no longer", ErrNoStep)
		}
		if err != nil {
			return "", 0, err
		}
		if event != 0 {
			return execution, event, nil
		}
		execution = previous
	}
	return "", 0, ErrNoStep
}

// scan looks for a step in one execution. It returns 0 when it is not there,
// and the execution before it, if any.
func (c *Client) scan(ctx context.Context, runID, execution string, step int) (event int64, previous string, err error) {
	dc := converter.GetDefaultDataConverter()
	it := c.tc.GetWorkflowHistory(ctx, workflows.RunWorkflowID(runID), execution, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return 0, "", fault(ctx, "history", err)
		}
		switch a := e.GetAttributes().(type) {
		case *historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes:
			previous = a.WorkflowExecutionStartedEventAttributes.GetContinuedExecutionRunId()
		case *historypb.HistoryEvent_ActivityTaskScheduledEventAttributes:
			s := a.ActivityTaskScheduledEventAttributes
			if s.GetActivityType().GetName() != activities.ThinkName {
				continue
			}
			var in activities.ThinkInput
			if err := dc.FromPayloads(s.GetInput(), &in); err != nil {
				return 0, "", fmt.Errorf("history event %d: %w", e.GetEventId(), err)
			}
			if in.Step == step {
				return s.GetWorkflowTaskCompletedEventId(), previous, nil
			}
		}
	}
	return 0, previous, nil
}

// dropped are the messages that a rewind always drops.
func dropped() []enumspb.ResetReapplyExcludeType {
	return []enumspb.ResetReapplyExcludeType{
		enumspb.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE,
		enumspb.RESET_REAPPLY_EXCLUDE_TYPE_CANCEL_REQUEST, //nolint:staticcheck // servers up to 1.32 still cancel a rewound run again without it
	}
}
