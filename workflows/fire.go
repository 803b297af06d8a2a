package workflows

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
)

// FireType is the type of the workflow that a schedule starts, and
// FireWorkflowID the beginning of its id; the server adds the time.
const FireType = "Fire"

// FireWorkflowID begins the ids of a schedule's workflows.
func FireWorkflowID(schedule string) string { return "fire/" + schedule }

// FireInput is a schedule's task. It is the same at each firing.
type FireInput struct {
	Schedule string `json:"schedule"`
	// Session takes the task. With Fresh, each firing has one of its own,
	// whose key begins so.
	Session string `json:"session"`
	Fresh   bool   `json:"fresh,omitempty"`
	// Message is the task, without an id.
	Message agent.Message `json:"message"`
	Skip    bool          `json:"skip,omitempty"` // see activities.DeliverInput
	// Definition is what the schedule's client wants back; it is not read
	// here.
	Definition json.RawMessage `json:"definition,omitempty"`
}

// nominal is when the server meant the workflow to start: the server sets it
// on whatever a schedule starts.
var nominal = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// FireMessageID is the id of the message, and so of the run, of the firing
// that was due at a time. It depends on nothing else: a firing that is
// repeated, by whatever restart or reset, is the same message.
func FireMessageID(schedule string, due time.Time) string {
	return "cron:" + schedule + ":" + stamp(due)
}

// FireSession is the session of that firing.
func FireSession(in FireInput, due time.Time) string {
	if !in.Fresh {
		return in.Session
	}
	return in.Session + ":run:" + stamp(due)
}

// stamp is exact to the second, as the server is.
func stamp(due time.Time) string { return due.UTC().Format("20060102T150405Z") }

// Fire hands a schedule's task to its session when it is due. How the task
// goes on is the session's business.
func Fire(ctx workflow.Context, in FireInput) (activities.DeliverResult, error) {
	info := workflow.GetInfo(ctx)
	due, ok := workflow.GetTypedSearchAttributes(ctx).GetTime(nominal)
	if !ok {
		due = info.WorkflowStartTime // started by hand
	}
	m := in.Message
	m.ID = FireMessageID(in.Schedule, due)
	return call[activities.DeliverResult](ctx, quick("due "+due.UTC().Format(time.RFC3339)), activities.DeliverName, activities.DeliverInput{
		Schedule: in.Schedule, Session: FireSession(in, due), Message: m, Skip: in.Skip,
	})
}
