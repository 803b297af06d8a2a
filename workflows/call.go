package workflows

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/internal/agent"
)

// Search attribute keys; durable makes sure that the server knows them.
var (
	attrState   = temporal.NewSearchAttributeKeyKeyword(AttrState)
	attrUser    = temporal.NewSearchAttributeKeyKeyword(AttrUser)
	attrBrowser = temporal.NewSearchAttributeKeyKeyword(AttrBrowser)
	attrSession = temporal.NewSearchAttributeKeyKeyword(AttrSession)
)

// The errors that must not be retried say so themselves; options that name
// them would stand in the history of every step.

// call runs an activity by name and decodes its result.
func call[T any](ctx workflow.Context, opts workflow.ActivityOptions, name string, in any) (T, error) {
	var out T
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), name, in).Get(ctx, &out)
	return out, err
}

// settle lets what arrived together with the last event be received before
// the workflow goes on: its main routine is always woken first. Without it
// an instruction given with a rewind would come one step late.
func settle(ctx workflow.Context) error {
	settled := false
	workflow.Go(ctx, func(workflow.Context) { settled = true })
	return workflow.Await(ctx, func() bool { return settled })
}

// sign is how long a worker's activity may give no sign of life before it is
// tried again; see activities.Heartbeats.
const sign = 2 * time.Second

// TaskTimeout is how long a worker may take for a workflow task until it is
// given to another. It is short because nothing else tells that a worker was
// killed at it; tasks take milliseconds.
const TaskTimeout = 3 * time.Second

// quick is for activities that write to the database: they are retried for
// as long as the database is away, because a run must not end for that.
func quick(summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    sign,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    200 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    5 * time.Second,
		},
		Summary: label(summary),
	}
}

// checking is quick for the critic. What went well needs no words in the
// history: the action before it has them.
func checking(res agent.Result) workflow.ActivityOptions {
	if res.Outcome == agent.OutcomeDone {
		return quick("")
	}
	return quick(string(res.Outcome) + " " + res.Code)
}

// thinking is for model calls: the client library does not retry, Temporal
// does, and waits as long as the service asks.
func thinking(step int) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    3 * time.Minute,
		ScheduleToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout:       sign,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    500 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    30 * time.Second,
			MaximumAttempts:    8,
		},
		Summary: "step " + strconv.Itoa(step),
	}
}

// preparing is for what may be a model call and is not worth waiting for:
// the run can do without.
func preparing() workflow.ActivityOptions {
	opts := thinking(0)
	opts.ScheduleToCloseTimeout = 10 * time.Minute
	opts.RetryPolicy.MaximumAttempts = 3
	opts.Summary = "prepare the session's past"
	return opts
}

// acting is for browser actions. The journal makes a second attempt safe, so
// a delivery that got lost is repeated. An action may be held by the host
// while a person is asked; a host that dies is noticed by its heartbeat.
func acting(queue, id, summary string, wait time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue:              queue,
		ActivityID:             id,
		ScheduleToStartTimeout: wait,
		StartToCloseTimeout:    30 * 24 * time.Hour,
		HeartbeatTimeout:       3 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    100 * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    5 * time.Second,
			MaximumAttempts:    20,
		},
		Summary: label(summary),
	}
}

// validID reports whether an id from outside can be part of a workflow's id,
// a queue's name and a key of the record: 1 to 200 bytes that can be seen,
// without spaces and slashes.
func validID(id string) bool {
	return id != "" && len(id) <= 200 && utf8.ValidString(id) && !strings.ContainsFunc(id, func(r rune) bool {
		return r == '/' || unicode.IsSpace(r) || !unicode.IsGraphic(r)
	})
}

// label makes a text that may come from a page or a person fit for the
// Temporal UI: one line, nothing invisible that could turn its direction,
// at most 200 bytes. Servers bound summaries.
func label(s string) string {
	return shorten(strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s), 200)
}

// code is label in Markdown, as text that is not formatted.
func code(s string) string { return "`" + strings.ReplaceAll(label(s), "`", "'") + "`" }

// Beginning is what lists show of a task's text.
func Beginning(text string) string { return shorten(text, maxTask) }

// shorten cuts s to at most n bytes at a rune's edge.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
