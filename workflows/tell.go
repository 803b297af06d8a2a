package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/pipe"
)

// TellInput is the input of Tell.
type TellInput struct {
	Browser  string            `json:"browser"`
	Complete pipe.TaskComplete `json:"complete"`
}

// Tell delivers the result of a task to the browser that it came from, and
// waits up to a week for that browser to come back.
func Tell(ctx workflow.Context, in TellInput) error {
	b, err := json.Marshal(in.Complete)
	if err != nil {
		return err
	}
	opts := acting(activities.BrowserQueue(in.Browser), "", "tell the browser the result", 0)
	opts.StartToCloseTimeout = 30 * time.Second
	opts.ScheduleToCloseTimeout = 7 * 24 * time.Hour
	opts.RetryPolicy.MaximumAttempts = 0
	_, err = call[struct{}](ctx, opts, activities.NotifyName, activities.NotifyInput{
		// A run that was rewound ends again.
		Key: in.Complete.RunID + "-done-" + workflow.GetInfo(ctx).WorkflowExecution.RunID, Message: b,
	})
	return err
}
