package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// busy is the world of a session whose runs take an hour each.
type busy struct {
	modes  map[string]agent.Mode // what accept says
	unread []string              // instructions that a run does not read
	fails  bool                  // the first run ends without an outcome
	log    []string
}

func (b *busy) note(words ...string) { b.log = append(b.log, strings.Join(words, " ")) }

func (b *busy) run(ctx workflow.Context, in workflows.RunInput) (workflows.Outcome, error) {
	id := in.Message.ID
	b.note("run", id)
	out := workflows.Outcome{RunID: id, Status: agent.StatusDone}
	over := false
	workflow.Go(ctx, func(ctx workflow.Context) {
		sel := workflow.NewSelector(ctx)
		sel.AddReceive(workflow.GetSignalChannel(ctx, workflows.InstructName), func(c workflow.ReceiveChannel, _ bool) {
			var i workflows.Instruction
			c.Receive(ctx, &i)
			b.note("told", i.ID, i.Text, "by", i.By)
			if slices.Contains(b.unread, i.ID) {
				out.Unread = append(out.Unread, i.ID)
			}
		})
		sel.AddReceive(workflow.GetSignalChannel(ctx, workflows.AbortName), func(c workflow.ReceiveChannel, _ bool) {
			var a workflows.Abort
			c.Receive(ctx, &a)
			b.note("abort by", a.By)
			over = true
		})
		for {
			sel.Select(ctx)
		}
	})
	if _, err := workflow.AwaitWithTimeout(ctx, time.Hour, func() bool { return over }); err != nil {
		return out, err
	}
	b.note("end", id)
	if b.fails {
		b.fails = false
		return out, errors.New("broken")
	}
	return out, nil
}

func (b *busy) env(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := suite.NewTestWorkflowEnvironment()
	e.RegisterWorkflow(workflows.Session)
	e.RegisterWorkflowWithOptions(b.run, workflow.RegisterOptions{Name: workflows.RunType})
	e.RegisterActivityWithOptions(func(_ context.Context, in activities.AcceptInput) (activities.AcceptResult, error) {
		return activities.AcceptResult{Mode: b.modes[in.Message.ID]}, nil
	}, activity.RegisterOptions{Name: activities.AcceptName})
	e.RegisterActivityWithOptions(func(_ context.Context, in activities.FinishInput) (activities.FinishResult, error) {
		b.note("finish", in.RunID, string(in.Status), in.Reason)
		return activities.FinishResult{}, nil
	}, activity.RegisterOptions{Name: activities.FinishName})
	return e
}

// say sends messages to the session, a minute apart. Each is an id; who says
// it is the id's first letter, and its browser what follows an @.
func say(e *testsuite.TestWorkflowEnvironment, ids ...string) {
	for i, id := range ids {
		_, browser, _ := strings.Cut(id, "@")
		e.RegisterDelayedCallback(func() {
			e.SignalWorkflow(workflows.MessageSignal, agent.Message{ID: id, Text: "text", BrowserID: browser, Origin: agent.Origin{User: id[:1]}})
		}, time.Duration(i)*time.Minute)
	}
}

func TestMessageToABusySession(t *testing.T) {
	steer, interrupt := agent.ModeSteer, agent.ModeInterrupt
	for _, tt := range []struct {
		name string
		busy busy
		say  []string
		want []string
	}{
		{
			"it waits", busy{}, []string{"a1", "b2"},
			[]string{"run a1", "end a1", "run b2", "end b2"},
		},
		{
			"it is read by the run", busy{modes: map[string]agent.Mode{"b2": steer}}, []string{"a1", "b2", "c3"},
			[]string{"run a1", "told b2 text by b", "end a1", "finish b2 done STEERED", "run c3", "end c3"},
		},
		{
			"it is not read any more", busy{modes: map[string]agent.Mode{"c3": steer, "d4": steer, "e5": steer}, unread: []string{"c3", "e5"}},
			[]string{"a1", "b2", "c3", "d4", "e5"},
			[]string{
				"run a1", "told c3 text by c", "told d4 text by d", "told e5 text by e", "end a1", "finish d4 done STEERED",
				"run c3", "end c3", "run e5", "end e5", "run b2", "end b2",
			},
		},
		{
			"the run cannot say whether it read it", busy{modes: map[string]agent.Mode{"b2": steer}, fails: true}, []string{"a1", "b2"},
			[]string{"run a1", "told b2 text by b", "end a1", "run b2", "end b2"},
		},
		{
			"it is for another browser", busy{modes: map[string]agent.Mode{"b2@x": steer, "c3@y": steer}}, []string{"a1@x", "b2@x", "c3@y"},
			[]string{"run a1@x", "told b2@x text by b", "end a1@x", "finish b2@x done STEERED", "run c3@y", "end c3@y"},
		},
		{
			"it interrupts", busy{modes: map[string]agent.Mode{"c3": interrupt}}, []string{"a1", "b2", "c3"},
			[]string{"run a1", "abort by c", "end a1", "run c3", "end c3", "run b2", "end b2"},
		},
		{
			"it interrupts before another was read", busy{modes: map[string]agent.Mode{"c3": steer, "d4": interrupt}, unread: []string{"c3"}},
			[]string{"a1", "b2", "c3", "d4"},
			[]string{"run a1", "told c3 text by c", "abort by d", "end a1", "run d4", "end d4", "run c3", "end c3", "run b2", "end b2"},
		},
		{
			"nothing is under way", busy{modes: map[string]agent.Mode{"a1": steer, "b2": interrupt}}, []string{"a1"},
			[]string{"run a1", "end a1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.busy
			e := b.env(t)
			say(e, tt.say...)
			e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
			if err := e.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(b.log, tt.want); d != "" {
				t.Errorf("(-got +want):\n%s", d)
			}
		})
	}
}

// TestSessionThatBeganBeforeQueues: a history from before there were modes
// may hold one all the same, written by a newer worker's activity.
func TestSessionThatBeganBeforeQueues(t *testing.T) {
	b := busy{modes: map[string]agent.Mode{"b2": agent.ModeSteer, "c3": agent.ModeInterrupt}}
	e := b.env(t)
	e.OnGetVersion("busy", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
	say(e, "a1", "b2", "c3")
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	if err := e.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.log, []string{"run a1", "end a1", "run b2", "end b2", "run c3", "end c3"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestInboxTellsWhatWaits(t *testing.T) {
	b := busy{modes: map[string]agent.Mode{"c3": agent.ModeSteer}}
	e := b.env(t)
	say(e, "a1", "b2", "c3")
	var box workflows.Inbox
	e.RegisterDelayedCallback(func() {
		v, err := e.QueryWorkflow(workflows.InboxQuery)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Get(&box); err != nil {
			t.Fatal(err)
		}
	}, 10*time.Minute)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	want := workflows.Inbox{Running: "a1", Queued: []string{"b2"}, Tasks: []string{"text"}, Steered: []string{"c3"}}
	if d := cmp.Diff(box, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

// TestSteeredMessageIsCarriedOver: whoever ends a session's execution, what
// it had not settled is run by the next one.
func TestSteeredMessageIsCarriedOver(t *testing.T) {
	b := busy{}
	e := b.env(t)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{
		Key: "s", Queue: []agent.Message{{ID: "b2", Text: "x"}}, Steered: []agent.Message{{ID: "a1", Text: "x"}},
	})
	if err := e.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.log, []string{"run a1", "end a1", "run b2", "end b2"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestSessionOfOneTaskEndsWithIt(t *testing.T) {
	for _, tt := range []struct {
		key  string
		want time.Duration
		says []string
		log  []string
	}{
		{"cli:a1", time.Hour, []string{"a1"}, []string{"run a1", "end a1"}},
		{"cli:a1", 2 * time.Hour, []string{"a1", "b2"}, []string{"run a1", "end a1", "run b2", "end b2"}},
		{"cli:a1", 0, []string{"a/1"}, nil},
		{"desk", time.Hour + 10*time.Minute, []string{"a1"}, []string{"run a1", "end a1"}},
	} {
		b := busy{}
		e := b.env(t)
		began := e.Now()
		say(e, tt.says...)
		e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: tt.key})
		if err := e.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
		if took := e.Now().Sub(began).Round(time.Minute); took != tt.want {
			t.Errorf("%s with %v took %v, want %v", tt.key, tt.says, took, tt.want)
		}
		if d := cmp.Diff(b.log, tt.log); d != "" {
			t.Errorf("%s (-got +want):\n%s", tt.key, d)
		}
	}
}

func TestSessionLeavesMessagesWithTooMuchAside(t *testing.T) {
	b := busy{}
	e := b.env(t)
	e.RegisterDelayedCallback(func() {
		for _, m := range []agent.Message{
			{ID: "mode", Text: "x", Mode: "push"}, {ID: "agent", Text: "x", Agent: "a b"},
			{ID: "many", Text: "x", Aside: make([]agent.Aside, agent.MaxAside+1)},
			{ID: "long", Text: "x", Aside: []agent.Aside{{Text: strings.Repeat("x", workflows.MaxAsideBytes)}, {Sender: "y"}}},
			{ID: "good", Text: "x", Agent: "sales", Mode: agent.ModeSteer, Aside: make([]agent.Aside, agent.MaxAside)},
		} {
			e.SignalWorkflow(workflows.MessageSignal, m)
		}
	}, 0)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	if d := cmp.Diff(b.log, []string{"run good", "end good"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

// TestRunSaysWhatItDidNotRead: an instruction is shown to the model, or the
// outcome names it.
func TestRunSaysWhatItDidNotRead(t *testing.T) {
	instruct := func(e *testsuite.TestWorkflowEnvironment, id string) {
		e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: id, Text: "more"})
	}
	for _, tt := range []struct {
		name string
		s    *script
		when func(s *script, e *testsuite.TestWorkflowEnvironment)
		want []string
	}{
		{"in time", asking(), func(_ *script, e *testsuite.TestWorkflowEnvironment) {
			e.RegisterDelayedCallback(func() {
				instruct(e, "i1")
				e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true})
			}, time.Minute)
		}, nil},
		{"while it ends", asking(), func(s *script, e *testsuite.TestWorkflowEnvironment) {
			s.finishing = func() { instruct(e, "i1") }
			e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true}) }, time.Minute)
		}, []string{"i1"}},
		{"before it is aborted", asking(), func(_ *script, e *testsuite.TestWorkflowEnvironment) {
			e.RegisterDelayedCallback(func() {
				instruct(e, "i1")
				e.SignalWorkflow(workflows.AbortName, workflows.Abort{By: "li"})
				instruct(e, "i2")
			}, time.Minute)
		}, []string{"i2", "i1"}},
		{"not recorded", asking(), func(s *script, e *testsuite.TestWorkflowEnvironment) {
			s.instructErr = func(in activities.InstructInput) error { return conflict(in.ID) }
			e.RegisterDelayedCallback(func() {
				instruct(e, "i1")
				e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true})
			}, time.Minute)
		}, []string{"i1"}},
		{"after the last step", &script{settings: agent.Settings{MaxSteps: 1}, replies: []activities.ThinkResult{calls("click")}},
			func(s *script, e *testsuite.TestWorkflowEnvironment) {
				s.act = func(activities.ActInput) (agent.Result, error) {
					instruct(e, "i1")
					return agent.Result{Outcome: agent.OutcomeDone}, nil
				}
			}, []string{"i1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := env(t, tt.s)
			tt.when(tt.s, e)
			e.ExecuteWorkflow(workflows.Run, input())
			if d := cmp.Diff(outcome(t, e).Unread, tt.want); d != "" {
				t.Errorf("(-got +want):\n%s", d)
			}
		})
	}
}
