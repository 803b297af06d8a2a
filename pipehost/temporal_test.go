package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/pipe"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

// driver is a run reduced to what a pipehost sees of it.
const driverQueue = "driver"

type drive struct {
	Browser string
	Act     *activities.ActInput
	Notify  *activities.NotifyInput
}

func driver(ctx workflow.Context, in drive) (res agent.Result, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.BrowserQueue(in.Browser),
		StartToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:    5 * time.Second,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 20},
	})
	if in.Notify != nil {
		return res, workflow.ExecuteActivity(ctx, activities.NotifyName, in.Notify).Get(ctx, nil)
	}
	err = workflow.ExecuteActivity(ctx, activities.ActName, in.Act).Get(ctx, &res)
	return res, err
}

// stage is a Temporal server with a worker that drives, and a place for
// pipehosts.
type stage struct {
	*place
	client client.Client
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := temporaltest.Start(t)
	w := worker.New(s.Client, driverQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(driver, workflow.RegisterOptions{Name: "driver"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &stage{place: newPlace(t, s.Address, s.Namespace), client: s.Client}
}

func (s *stage) drive(in drive) client.WorkflowRun {
	s.t.Helper()
	run, err := s.client.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{TaskQueue: driverQueue}, "driver", in)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *stage) result(run client.WorkflowRun) agent.Result {
	s.t.Helper()
	var res agent.Result
	if err := run.Get(s.t.Context(), &res); err != nil {
		s.t.Fatal(err)
	}
	return res
}

func click(step int) *activities.ActInput {
	return &activities.ActInput{RunID: "run", Step: step, Call: agent.Call{
		ID: "c1", Action: "click", Params: json.RawMessage(`{"selector":"ref=e1"}`),
	}}
}

func (h *host) answer(c *pipe.Command, text string) {
	h.t.Helper()
	h.say(&pipe.Response{Seq: c.Seq, Type: pipe.TypeResponse, Success: true, Data: &pipe.Data{
		Text: text, Page: &agent.Page{URL: "http://oa.example.com/leave", Domain: "oa.example.com", Title: "请假"},
	}})
}

func TestActThroughTemporal(t *testing.T) {
	s := newStage(t)
	h := s.start("b1")
	h.awaitState(pipe.StateRunning)
	in := click(1)
	in.TaskID, in.Log = "t1", "点击 批准"
	run := s.drive(drive{Browser: "b1", Act: in})
	if l := await[pipe.Log](h, nil); l.TaskID != "t1" || l.Message != "点击 批准" {
		t.Errorf("log %+v", l)
	}
	c := await[pipe.Command](h, nil)
	if c.Seq != 1 || c.Action != "click" || c.Security.ExpectedDomain != "oa.example.com" {
		t.Errorf("command %+v", c)
	}
	long := strings.Repeat("长", 4000)
	h.answer(c, long)
	res := s.result(run)
	if res.Outcome != agent.OutcomeDone || res.Ref == "" || len(res.Text) > agent.MaxInline {
		t.Fatalf("result %+v", res)
	}

	// The rest is fetched by a query, which leaves no trace.
	dc := durable.New(slog.New(slog.DiscardHandler), s.client, s.ns)
	body, err := dc.Observation(t.Context(), "b1", res.Ref)
	if err != nil || !strings.Contains(body.Text, long) {
		t.Errorf("observation of %d bytes, err %v", len(body.Text), err)
	}
	if _, err := dc.Observation(t.Context(), "b1", "01a1fcf7-215f-7cf5-8b8d-4b17dd6ed7bc"); err == nil {
		t.Error("an unknown observation is no error")
	}
	v, err := s.client.QueryWorkflow(t.Context(), activities.BrowserQueue("b1"), "", activities.PresenceQuery)
	var presence activities.Presence
	if err == nil {
		err = v.Get(&presence)
	}
	if err != nil || presence.AgentID != h.ack.AgentID || presence.Page.Title != "请假" {
		t.Errorf("presence %+v, err %v", presence, err)
	}

	// After a restart the new process answers.
	h.kill()
	h = s.start("b1")
	h.awaitState(pipe.StateRunning)
	began := time.Now()
	if _, err := dc.Observation(t.Context(), "b1", res.Ref); err != nil {
		t.Errorf("observation after a restart: %v", err)
	}
	t.Logf("observation after a restart took %v", time.Since(began))
}

// TestKilledInMidEffect is the promise of the journal, with real processes.
func TestKilledInMidEffect(t *testing.T) {
	s := newStage(t)
	h := s.start("b1")
	h.awaitState(pipe.StateRunning)
	run := s.drive(drive{Browser: "b1", Act: click(1)})
	await[pipe.Command](h, nil)
	h.kill()

	h = s.start("b1")
	res := s.result(run)
	if res.Outcome != agent.OutcomeUnknown || res.Code != string(pipe.CodeOutcomeUnknown) {
		t.Errorf("result %+v", res)
	}
	// The next effect is the new process's first command.
	run = s.drive(drive{Browser: "b1", Act: click(2)})
	c := await[pipe.Command](h, nil)
	if c.Seq != 1 {
		t.Errorf("the killed effect was sent again: %+v", c)
	}
	h.answer(c, "clicked")
	if res := s.result(run); res.Outcome != agent.OutcomeDone {
		t.Errorf("next effect %+v", res)
	}
	h.kill()
	out, _, _ := s.operator("journal", "list", "--browser", "b1")
	if !strings.Contains(out, "begun") || !strings.Contains(out, "unknown") || !strings.Contains(out, "run/2/c1/") {
		t.Errorf("journal list:\n%s", out)
	}
}

func TestCancellationIsFelt(t *testing.T) {
	s := newStage(t)
	h := s.start("b1")
	h.awaitState(pipe.StateRunning)
	run := s.drive(drive{Browser: "b1", Act: click(1)})
	c := await[pipe.Command](h, nil)
	began := time.Now()
	if err := s.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	// The workflow waits until the activity has heard it.
	err := run.Get(t.Context(), nil)
	if err == nil || !temporal.IsCanceledError(err) {
		t.Errorf("cancelled run: %v", err)
	}
	took := time.Since(began)
	t.Logf("cancellation was felt after %v", took)
	if took > 2*time.Second {
		t.Errorf("cancellation was felt after %v", took)
	}
	// What the host says after that is recorded.
	h.answer(c, "clicked after all")
	run = s.drive(drive{Browser: "b1", Act: click(1)})
	if res := s.result(run); res.Outcome != agent.OutcomeDone || !strings.Contains(res.Text, "after all") {
		t.Errorf("late result %+v", res)
	}
}

func TestShutdownFinishesTheCommandInHand(t *testing.T) {
	s := newStage(t)
	h := s.start("b1")
	h.awaitState(pipe.StateRunning)
	run := s.drive(drive{Browser: "b1", Act: click(1)})
	c := await[pipe.Command](h, nil)
	began := time.Now()
	h.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	time.AfterFunc(300*time.Millisecond, func() { h.answer(c, "clicked") })
	h.leaves(began)
	s.start("b1")
	if res := s.result(run); res.Outcome != agent.OutcomeDone {
		t.Errorf("result %+v", res)
	}
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	s := newStage(t)
	h := s.start("b1")
	h.awaitState(pipe.StateRunning)
	run := s.drive(drive{Browser: "b1", Act: click(1)})
	await[pipe.Command](h, nil)
	began := time.Now()
	h.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	h.leaves(began)
	began = time.Now()
	s.start("b1")
	if res := s.result(run); res.Outcome != agent.OutcomeUnknown {
		t.Errorf("result %+v", res)
	}
	// The attempt was given up in order; nobody waited for a heartbeat.
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the next attempt took %v", took)
	}
}

func TestTasksOfTheBrowser(t *testing.T) {
	s := newStage(t)
	// The server is away when the task is submitted, and the process dies.
	away := *s.place
	away.server = nowhere
	h := away.start("b1")
	h.awaitState(pipe.StateOffline)
	h.say(&pipe.SubmitTask{Type: pipe.TypeSubmitTask, TaskID: "t1", Instruction: "批准三天以内的假单"})
	await(h, func(st *pipe.State) bool { return st.TaskID == "t1" })
	h.kill()

	other := s.start("b2")
	other.say(&pipe.AbortTask{Type: pipe.TypeAbortTask, TaskID: "t9"})
	await(other, func(e *pipe.ErrorMessage) bool { return e.Code == pipe.CodeUnknownTask })

	h = s.start("b1")
	if m := await[pipe.TaskAccepted](h, nil); m.TaskID != "t1" || m.RunID != "t1" {
		t.Errorf("accepted %+v", m)
	}
	d, err := s.client.DescribeWorkflowExecution(t.Context(), workflows.SessionID(durable.OwnSession("t1")), "")
	if err != nil {
		t.Fatal(err)
	}
	if n := d.GetWorkflowExecutionInfo().GetType().GetName(); n != workflows.SessionType {
		t.Errorf("the task became a %s", n)
	}
	h.say(&pipe.Confirm{Type: pipe.TypeConfirm, ActionID: "t1-c9", Approved: true})
	await(h, func(e *pipe.ErrorMessage) bool { return e.Code == pipe.CodeUnknownConfirm })
	// Whether there is such a task only a worker knows, and none is there.
	// That holds up no other message.
	h.say(&pipe.AbortTask{Type: pipe.TypeAbortTask, TaskID: "t9"})
	h.awaitState(pipe.StateOffline)
	h.say(&pipe.SubmitTask{Type: pipe.TypeSubmitTask, TaskID: "t2", Instruction: "报告其余的假单", Session: "office"})
	await(h, func(m *pipe.TaskAccepted) bool { return m.TaskID == "t2" })

	run := s.drive(drive{Browser: "b1", Notify: &activities.NotifyInput{Key: "k", Message: encode(t, pipe.TaskComplete{
		Type: pipe.TypeTaskComplete, TaskID: "t1", RunID: "t1", Status: "done", Success: true, Summary: "好",
	})}})
	if m := await[pipe.TaskComplete](h, nil); m.Summary != "好" {
		t.Errorf("complete %+v", m)
	}
	if err := run.Get(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
