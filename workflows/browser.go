package workflows

import (
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
)

// Shelf is what a pipehost has at hand for queries. internal/journal and
// pipehost together are the real one.
type Shelf interface {
	// Body returns an observation or a picture that is kept with the
	// browser; an error if it is not there, or not any more.
	Body(ref string) (agent.Body, error)
	Presence() activities.Presence
}

// Browser stands for one browser: a workflow whose id is the browser's queue
// and which that browser's pipehost starts, hosts and never ends. It decides
// nothing. It is there to be queried, because a query reaches the pipehost
// and leaves no trace in any history, which is how long observations get to
// the worker.
type Browser struct{ Shelf Shelf }

// Run is the workflow activities.BrowserWorkflow. It parks until somebody
// cancels or terminates it; the pipehost then starts another at its next
// start.
func (b *Browser) Run(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, activities.ObservationQuery, b.Shelf.Body, workflow.QueryHandlerOptions{
		Description: "An observation or a picture by its ref.",
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandlerWithOptions(ctx, activities.PresenceQuery, func() (activities.Presence, error) {
		return b.Shelf.Presence(), nil
	}, workflow.QueryHandlerOptions{Description: "Which pipehost serves the browser, and where its page stands."}); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return false })
}
