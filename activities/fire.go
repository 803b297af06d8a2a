package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"sgclaw/internal/agent"
)

// DeliverName is the activity that hands a schedule's task to its session.
const DeliverName = "deliver"

// DeliverInput is a task of a schedule that is due.
type DeliverInput struct {
	// Schedule is its id, which the ids of all its messages contain.
	Schedule string        `json:"schedule"`
	Session  string        `json:"session"`
	Message  agent.Message `json:"message"`
	// Skip leaves the task out if an earlier one of the schedule waits in
	// the session or is under way there.
	Skip bool `json:"skip,omitempty"`
}

// DeliverResult says what became of it.
type DeliverResult struct {
	RunID   string `json:"run_id"`
	Skipped bool   `json:"skipped,omitempty"`
}

// Deliverer hands tasks to sessions, each message id once: a
// *durable.Client, which says with ErrInvalid what can never be handed over.
type Deliverer interface {
	Deliver(ctx context.Context, in DeliverInput) (DeliverResult, error)
}

// Fire is the activity of schedules.
type Fire struct{ to Deliverer }

// NewFire returns it.
func NewFire(to Deliverer) *Fire { return &Fire{to} }

// Register registers it under its name.
func (f *Fire) Register(r Registrar) {
	r.RegisterActivityWithOptions(f.Deliver, activity.RegisterOptions{Name: DeliverName})
}

// Deliver hands a schedule's task to its session. It may be repeated.
func (f *Fire) Deliver(ctx context.Context, in DeliverInput) (DeliverResult, error) {
	return f.to.Deliver(ctx, in)
}
