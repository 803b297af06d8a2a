package durable_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/durable/durabletest"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

func send(t *testing.T, c *durable.Client, session, id, text string, mode agent.Mode) {
	t.Helper()
	m := agent.Message{ID: id, Text: text, BrowserID: "b1", Mode: mode, Origin: agent.Origin{User: "li"}}
	if _, err := c.StartTask(t.Context(), session, m); err != nil {
		t.Fatal(err)
	}
}

func TestMessageSteersTheRunUnderWay(t *testing.T) {
	c, core := setup(t)
	ctx := t.Context()
	send(t, c, "desk", "one", "slow", "")
	until(t, "the run thinks", func() bool { return len(core.Thinks("one")) == 1 })
	send(t, c, "desk", "two", "click click", "")
	send(t, c, "desk", "three", "also the other one", agent.ModeSteer)
	until(t, "it is added to the run", func() bool {
		box, err := c.Inbox(ctx, "desk")
		return err == nil && slices.Equal(box.Steered, []string{"three"})
	})
	if r, err := c.Describe(ctx, "three"); err != nil || r.Status != agent.StatusQueued || r.Into != "one" || r.Session != "desk" {
		t.Errorf("Describe = %+v, %v", r, err)
	}
	for name, err := range map[string]error{
		"abort":   first(c.Abort(ctx, "three", workflows.Abort{})),
		"move":    first(c.Move(ctx, "three", workflows.Move{BrowserID: "b1"})),
		"confirm": second(c.Confirm(ctx, "three", agent.Answer{ConfirmID: "x"})),
		"rewind":  func() error { _, err := c.Rewind(ctx, "three", 1, workflows.Instruction{}); return err }(),
	} {
		if !errors.Is(err, durable.ErrSteered) || !errors.Is(err, durable.ErrQueued) || !strings.Contains(err.Error(), "run one") {
			t.Errorf("%s of a message that steers = %v, want ErrSteered", name, err)
		}
	}
	var queued []durable.Run
	until(t, "listed", func() bool {
		runs, err := c.List(ctx, durable.Filter{Session: "desk", Status: agent.StatusQueued})
		queued = runs
		return err == nil && len(runs) == 2
	})
	want := []durable.Run{
		{RunID: "two", Session: "desk", Status: agent.StatusQueued, Task: "click click"},
		{RunID: "three", Session: "desk", Status: agent.StatusQueued, Into: "one"},
	}
	if d := cmp.Diff(queued, want); d != "" {
		t.Errorf("queued (-got +want):\n%s", d)
	}
	waited := make(chan workflows.Outcome, 1)
	go func() { waited <- result(t, c, "three") }()
	core.Release()
	if out := <-waited; out.Status != agent.StatusDone || out.Reason != agent.ReasonSteered || !out.Success {
		t.Errorf("outcome of the message %+v", out)
	}
	if d := cmp.Diff(core.Instructions("one"), []durabletest.Instruction{{Text: "also the other one", Thinks: 1}}); d != "" {
		t.Errorf("instructions (-got +want):\n%s", d)
	}
	result(t, c, "two")
	if r, err := c.Describe(ctx, "three"); err != nil || r.Status != agent.StatusDone || r.Reason != agent.ReasonSteered {
		t.Errorf("Describe of a message that was read = %+v, %v", r, err)
	}
	if err := first(c.Abort(ctx, "three", workflows.Abort{})); !errors.Is(err, durable.ErrRunOver) {
		t.Errorf("abort of a message that was read = %v, want ErrRunOver", err)
	}
	if n := len(core.Thinks("three")); n > 0 {
		t.Errorf("it was run by itself, too")
	}
}

func TestMessageInterruptsTheRunUnderWay(t *testing.T) {
	c, core := setup(t)
	send(t, c, "desk", "one", "slow", "")
	until(t, "the run thinks", func() bool { return len(core.Thinks("one")) == 1 })
	send(t, c, "desk", "two", "click", "")
	send(t, c, "desk", "three", "approve", agent.ModeInterrupt)
	if out := result(t, c, "one"); out.Status != agent.StatusAborted {
		t.Errorf("outcome of the interrupted run %+v", out)
	}
	asked(t, c, "three")
	if n := len(core.Thinks("two")); n > 0 {
		t.Error("the one that waited came first")
	}
	if _, err := c.Abort(t.Context(), "three", workflows.Abort{By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, c, "two"); !out.Success {
		t.Errorf("outcome of the one that waited %+v", out)
	}
}

// TestNothingIsLostAtTheVeryEnd: what comes with the event that ends a
// session or a run is not overlooked. Without a worker both events wait for
// the same workflow task.
func TestNothingIsLostAtTheVeryEnd(t *testing.T) {
	t.Run("of a session of one task", func(t *testing.T) {
		s := temporaltest.Start(t)
		core := durabletest.New(t, s)
		c := dial(t, s)
		stop := core.StartWorker(t)
		core.StartBrowser(t, "b1")
		send(t, c, "", "one", "approve", "")
		asked(t, c, "one")
		stop()
		if err := c.Temporal().TerminateWorkflow(t.Context(), workflows.RunWorkflowID("one"), "", "test"); err != nil {
			t.Fatal(err)
		}
		send(t, c, durable.OwnSession("one"), "two", "click", "")
		core.StartWorker(t)
		if out := result(t, c, "two"); !out.Success {
			t.Errorf("outcome %+v", out)
		}
		ended := func() bool {
			d, err := c.Temporal().DescribeWorkflow(t.Context(), workflows.SessionID(durable.OwnSession("one")), "")
			return err == nil && d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		}
		until(t, "the session ends", ended)
	})
	t.Run("of a run", func(t *testing.T) {
		s := temporaltest.Start(t)
		core := durabletest.New(t, s)
		c := dial(t, s)
		stop := core.StartWorker(t)
		core.StartBrowser(t, "b1")
		held := core.HoldEnd()
		send(t, c, "", "one", "click", "")
		token := <-held
		stop()
		if err := c.Temporal().CompleteActivity(t.Context(), token, activities.FinishResult{Summary: "done"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := core.Signal(t, "one", workflows.InstructName, workflows.Instruction{ID: "i1", Text: "wait"}); err != nil {
			t.Fatal(err)
		}
		core.StartWorker(t)
		if out := result(t, c, "one"); !slices.Equal(out.Unread, []string{"i1"}) {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestTasksAreChecked(t *testing.T) {
	s := temporaltest.Start(t)
	c := dial(t, s)
	for name, m := range map[string]agent.Message{
		"mode":         {Text: "x", Mode: "push"},
		"agent":        {Text: "x", Agent: "a/b"},
		"many asides":  {Text: "x", Aside: make([]agent.Aside, agent.MaxAside+1)},
		"long asides":  {Text: "x", Aside: []agent.Aside{{Text: strings.Repeat("x", workflows.MaxAsideBytes)}, {Text: "y"}}},
		"broken aside": {Text: "x", Aside: []agent.Aside{{Text: "\xff"}}},
	} {
		if _, err := c.StartTask(t.Context(), "", m); !errors.Is(err, durable.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, _, err := c.Confirm(t.Context(), "r", agent.Answer{Approved: true, Scope: "ever"}); !errors.Is(err, durable.ErrInvalid) {
		t.Errorf("scope: %v, want ErrInvalid", err)
	}
	ok := agent.Message{Text: "x", Mode: agent.ModeSteer, Agent: "sales", Aside: []agent.Aside{{Sender: "wang", Text: "hello"}}}
	if _, err := c.StartTask(t.Context(), "agent:sales:desk", ok); err != nil {
		t.Errorf("a task with all of it: %v", err)
	}
}

// TestHistoryTellsWhoRewound, and who aborted.
func TestHistoryTellsWhoRewound(t *testing.T) {
	c, _ := setup(t)
	runID := start(t, c, "", "click approve")
	asked(t, c, runID)
	if _, err := c.Rewind(t.Context(), runID, 1, workflows.Instruction{By: "li"}); err != nil {
		t.Fatal(err)
	}
	asked(t, c, runID)
	if _, err := c.Abort(t.Context(), runID, workflows.Abort{By: "wang", Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	result(t, c, runID)
	var told []string
	it := c.Temporal().GetWorkflowHistory(t.Context(), workflows.RunWorkflowID(runID), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f := e.GetWorkflowTaskFailedEventAttributes(); f.GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
			told = append(told, f.GetFailure().GetMessage())
		}
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activities.FinishName {
			told = append(told, string(a.GetInput().GetPayloads()[0].GetData()))
		}
	}
	if len(told) != 2 || !strings.Contains(told[0], "by li") || !strings.Contains(told[1], "by wang: enough") {
		t.Errorf("the history tells %q", told)
	}
}

// TestSessionTakesNoMoreThanItCanKeep: a server ends a workflow whose history
// is too long, and with a session all that waits in it.
func TestSessionTakesNoMoreThanItCanKeep(t *testing.T) {
	s := temporaltest.Start(t)
	durabletest.New(t, s)
	c := dial(t, s)
	send(t, c, "desk", "one", "click", "")
	for range 12 {
		if err := c.Temporal().SignalWorkflow(t.Context(), workflows.SessionID("desk"), "", "noise", strings.Repeat("x", 3<<19)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.StartTask(t.Context(), "desk", agent.Message{ID: "two", Text: "click"}); !errors.Is(err, durable.ErrFull) {
		t.Errorf("a message too many: %v, want ErrFull", err)
	}
	if got, err := c.StartTask(t.Context(), "desk", agent.Message{ID: "one", Text: "click"}); err != nil || !got.Known {
		t.Errorf("one that waits: %+v, %v", got, err)
	}
}
