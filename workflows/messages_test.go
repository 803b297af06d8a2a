package workflows_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

func TestSignalThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	for _, name := range []string{workflows.ConfirmName, workflows.AbortName, workflows.InstructName, workflows.MoveName} {
		t.Run(name, func(t *testing.T) {
			s := asking()
			e := env(t, s)
			e.RegisterDelayedCallback(func() { e.SignalWorkflow(name, "yes") }, time.Minute)
			e.RegisterDelayedCallback(func() {
				e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: "i1", Text: "go on"})
				e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, By: "li"})
			}, time.Hour)
			e.SetTestTimeout(5 * time.Second)
			e.ExecuteWorkflow(workflows.Run, input())
			outcome(t, e)
			wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide approved by li", "act click granted by li",
				"critic 1.0 done", "instruct after 1: go on", "think 2", "finish done ")
		})
	}
}

func TestInstructionThatCannotBeRecordedDoesNotEndTheRun(t *testing.T) {
	s := asking()
	s.instructErr = func(in activities.InstructInput) error {
		if in.ID == "used" {
			return temporal.NewNonRetryableApplicationError("used before", activities.ErrConflict, nil)
		}
		return nil
	}
	e := env(t, s)
	e.RegisterDelayedCallback(func() {
		for _, id := range []string{"a\nb", strings.Repeat("x", 600), "used", "good"} {
			e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: id, Text: "text"})
		}
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{By: strings.Repeat("long name ", 100)})
	}, time.Minute)
	e.ExecuteWorkflow(workflows.Run, input())
	if out := outcome(t, e); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	instructed := 0
	for _, l := range s.log {
		if strings.HasPrefix(l, "instruct") {
			instructed++
		}
		if len(l) > 300 {
			t.Errorf("%d bytes: %.100s", len(l), l)
		}
	}
	if instructed != 2 {
		t.Errorf("%d instructions tried, want 2: %q", instructed, s.log)
	}
}

func TestInstructionWithAUsedIDIsLeftUnread(t *testing.T) {
	s := asking()
	e := env(t, s)
	e.RegisterDelayedCallback(func() {
		for _, text := range []string{"also this", "also this", "and that"} {
			e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: "i1", Text: text})
		}
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, By: "li"})
	}, time.Minute)
	e.ExecuteWorkflow(workflows.Run, input())
	if out := outcome(t, e); !slices.Equal(out.Unread, []string{"i1"}) {
		t.Errorf("unread %q", out.Unread)
	}
	wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide approved by li", "act click granted by li",
		"critic 1.0 done", "instruct after 1: also this", "think 2", "finish done ")
}

func TestMoveNeedsABrowser(t *testing.T) {
	s := asking()
	e := env(t, s)
	e.RegisterDelayedCallback(func() {
		e.SignalWorkflow(workflows.MoveName, workflows.Move{BrowserID: strings.Repeat("x", 2000)})
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{By: "li"})
	}, time.Minute)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	v, err := e.QueryWorkflow(workflows.StateQuery)
	if err != nil {
		t.Fatal(err)
	}
	var st workflows.State
	if err := v.Get(&st); err != nil {
		t.Fatal(err)
	}
	if st.Browser != "b1" {
		t.Errorf("browser is %.50q", st.Browser)
	}
}

func TestRunWithoutRecordSaysWhyItCouldNotBegin(t *testing.T) {
	s := &script{beginErr: temporal.NewNonRetryableApplicationError("the text is too long", activities.ErrInvalid, nil),
		finishErr: temporal.NewNonRetryableApplicationError("no such run", activities.ErrNotFound, nil)}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	if err := e.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "the text is too long") {
		t.Errorf("got %v", err)
	}
}
