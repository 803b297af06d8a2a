package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

func conflict(id string) error {
	return temporal.NewNonRetryableApplicationError(id+" was used before", activities.ErrConflict, nil)
}

// TestYesForTheRun: what a person allowed for the run is granted at once
// when it is asked for the same reason again, and recorded each time.
func TestYesForTheRun(t *testing.T) {
	base := agent.Subject{Role: "button", Name: "批准", Domain: "oa.example", Rule: "approvals", Context: "张三"}
	other := func(change func(s *agent.Subject)) agent.Subject {
		s := base
		change(&s)
		return s
	}
	auto := []string{"decide approved by li", "act granted by li"}
	for _, tt := range []struct {
		name   string
		action string
		second agent.Subject
		want   []string // of the second question
	}{
		{"the same in another row", "click", other(func(s *agent.Subject) { s.Context, s.URL = "李四", "https://oa.example/2" }), auto},
		{"another name", "click", other(func(s *agent.Subject) { s.Name = "驳回" }), nil},
		{"another role", "click", other(func(s *agent.Subject) { s.Role = "link" }), nil},
		{"another rule", "click", other(func(s *agent.Subject) { s.Rule = "amounts" }), nil},
		{"another domain", "click", other(func(s *agent.Subject) { s.Domain = "erp.example" }), nil},
		{"another action", "type", base, nil},
		{"a page's own question", "click", other(func(s *agent.Subject) { s.Rule = agent.RuleNativeDialog }), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{replies: []activities.ThinkResult{calls("click"), calls(tt.action)}}
			var after []string // the second question
			s.act = func(in activities.ActInput) (agent.Result, error) {
				ask, digest := base, "d1"
				if tt.second.Rule == agent.RuleNativeDialog {
					ask = tt.second
				}
				if in.Step == 2 {
					ask, digest = tt.second, "d2"
				}
				if in.Grant == nil {
					return agent.Result{Outcome: agent.OutcomeNeedConfirm, Digest: digest, Ask: &ask}, nil
				}
				if in.Grant.Digest != digest {
					t.Errorf("step %d: granted %s, want %s", in.Step, in.Grant.Digest, digest)
				}
				return agent.Result{Outcome: agent.OutcomeDone}, nil
			}
			e := env(t, s)
			e.RegisterDelayedCallback(func() {
				e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, By: "li", Scope: agent.ScopeRun})
			}, time.Minute)
			e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.AbortName, workflows.Abort{}) }, time.Hour)
			e.ExecuteWorkflow(workflows.Run, input())
			out := outcome(t, e)
			i := slices.IndexFunc(s.log, func(l string) bool { return strings.HasPrefix(l, "ask r1-c2") })
			for _, l := range s.log[i+1 : i+3] {
				after = append(after, strings.Replace(l, "act "+tt.action, "act", 1))
			}
			if tt.want == nil {
				if d := cmp.Diff(after, []string{"decide void by ", "finish aborted ABORTED"}); d != "" {
					t.Errorf("it was not asked again (-got +want):\n%s", d)
				}
				return
			}
			if d := cmp.Diff(after, tt.want); d != "" || out.Status != agent.StatusDone {
				t.Errorf("%+v (-got +want):\n%s", out, d)
			}
		})
	}
}

func TestYesForTheRunIsBoundedAndCarriedOver(t *testing.T) {
	s := &script{settings: agent.Settings{MaxSteps: 1000}}
	for range 400 {
		s.replies = append(s.replies, calls("click"))
	}
	asked := 0
	s.act = func(in activities.ActInput) (agent.Result, error) {
		if in.Grant == nil {
			return agent.Result{Outcome: agent.OutcomeNeedConfirm, Digest: "d", Ask: &agent.Subject{Name: fmt.Sprint(in.Step)}}, nil
		}
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	e := env(t, s)
	answer := func() {
		asked++
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, By: "li", Scope: agent.ScopeRun})
	}
	s.asked = func() { e.RegisterDelayedCallback(answer, time.Second) }
	e.ExecuteWorkflow(workflows.Run, input())
	var can *workflow.ContinueAsNewError
	if err := e.GetWorkflowError(); !errors.As(err, &can) {
		t.Fatalf("got %v, want continue as new", err)
	}
	var next workflows.RunInput
	if err := dc().FromPayloads(can.Input, &next); err != nil {
		t.Fatal(err)
	}
	if n := len(next.State.Allowed); asked < 100 || n != 50 || next.State.Allowed[n-1].Name != fmt.Sprint(asked) {
		t.Errorf("%d questions, %d kept, the last is %+v", asked, n, next.State.Allowed[n-1])
	}
}

func TestScopeIsValidated(t *testing.T) {
	s := asking()
	e := env(t, s)
	e.RegisterDelayedCallback(func() {
		e.UpdateWorkflow(workflows.ConfirmName, "u", &callbacks{t: t, reject: workflows.ErrInvalid}, agent.Answer{Approved: true, Scope: "ever"})
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, Scope: "ever"})
	}, time.Minute)
	e.RegisterDelayedCallback(func() {
		e.UpdateWorkflow(workflows.ConfirmName, "v", &callbacks{t: t}, agent.Answer{Approved: true, By: "li", Scope: agent.ScopeRun})
	}, time.Hour)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide approved by li", "act click granted by li",
		"critic 1.0 done", "think 2", "finish done ")
}

func TestPrepare(t *testing.T) {
	away := 2
	for _, tt := range []struct {
		name    string
		prepare func(context.Context) (activities.PrepareResult, error)
		want    []string
		usage   int
	}{
		{"goes well", func(context.Context) (activities.PrepareResult, error) {
			return activities.PrepareResult{Usage: activities.Tokens{30, 4}}, nil
		}, []string{"begin do it", "prepare", "think 1", "finish done "}, 34},
		{"with less than there should be", func(context.Context) (activities.PrepareResult, error) {
			return activities.PrepareResult{Note: "no model"}, nil
		}, []string{"begin do it", "prepare", "status thinking", "think 1", "finish done "}, 0},
		{"fails", func(context.Context) (activities.PrepareResult, error) {
			return activities.PrepareResult{}, errors.New("broken")
		}, []string{"begin do it", "prepare", "prepare", "prepare", "status thinking", "think 1", "finish done "}, 0},
		{"the database is away", func(context.Context) (activities.PrepareResult, error) {
			if away--; away >= 0 {
				return activities.PrepareResult{}, temporal.NewNonRetryableApplicationError("away", activities.ErrRecordAway, nil)
			}
			return activities.PrepareResult{}, nil
		}, []string{"begin do it", "prepare", "status thinking", "prepare", "status thinking", "prepare", "think 1", "finish done "}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{prepare: tt.prepare}
			e := env(t, s)
			e.ExecuteWorkflow(workflows.Run, input())
			if out := outcome(t, e); !out.Success || out.Usage.TotalTokens != tt.usage {
				t.Errorf("outcome %+v", out)
			}
			wantLog(t, s, tt.want...)
		})
	}
	t.Run("is cut short by an abort", func(t *testing.T) {
		s := &script{}
		e := env(t, s)
		s.prepare = func(ctx context.Context) (activities.PrepareResult, error) {
			e.SignalWorkflow(workflows.AbortName, workflows.Abort{By: "li"})
			<-ctx.Done()
			return activities.PrepareResult{}, ctx.Err()
		}
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Status != agent.StatusAborted {
			t.Errorf("outcome %+v", out)
		}
		wantLog(t, s, "begin do it", "prepare", "finish aborted ABORTED")
	})
	t.Run("not in a run that began before", func(t *testing.T) {
		s := &script{prepare: func(context.Context) (activities.PrepareResult, error) { return activities.PrepareResult{}, nil }}
		e := env(t, s)
		e.OnGetVersion("prepare", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
		e.ExecuteWorkflow(workflows.Run, input())
		outcome(t, e)
		wantLog(t, s, "begin do it", "think 1", "finish done ")
	})
}

func TestUnknownAgentEndsTheRunWithAReason(t *testing.T) {
	s := &script{beginErr: temporal.NewNonRetryableApplicationError("sales", activities.ErrNoAgent, nil)}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	out := outcome(t, e)
	if out.Status != agent.StatusFailed || out.Reason != agent.ReasonNoAgent || s.finished.Detail != "sales" {
		t.Errorf("outcome %+v, detail %q", out, s.finished.Detail)
	}
}

func TestLimitsGoToTheBrowser(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("click")}}
	s.settings.Actions, s.settings.Domains = []string{"click"}, []string{"oa.example"}
	var got activities.ActInput
	s.act = func(in activities.ActInput) (agent.Result, error) {
		got = in
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	if !slices.Equal(got.Actions, s.settings.Actions) || !slices.Equal(got.Domains, s.settings.Domains) {
		t.Errorf("act got %v, %v", got.Actions, got.Domains)
	}
}
