package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
	"sgclaw/workflows"
)

// script is the world of a run: what the model answers and what the browser
// does, and a log of what the run asked for.
type script struct {
	replies  []activities.ThinkResult
	thinkErr func(in activities.ThinkInput) error

	beginErr, finishErr error
	queue               string // of the last act
	notified            func(in activities.NotifyInput)
	instructErr         func(in activities.InstructInput) error
	finishing           func() // called while the run ends
	asked               func() // called when a question is recorded
	prepare             func(ctx context.Context) (activities.PrepareResult, error)

	act      func(in activities.ActInput) (agent.Result, error)
	settings agent.Settings
	verdict  func(in activities.CriticInput) activities.Verdict
	log      []string
	finished activities.FinishInput
}

func (s *script) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// env makes a test environment in which the script answers every activity.
func env(t *testing.T, s *script) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := suite.NewTestWorkflowEnvironment()
	e.RegisterWorkflow(workflows.Run)
	e.RegisterWorkflow(workflows.Tell)
	if s.settings.MaxSteps == 0 {
		s.settings.MaxSteps = 50
	}
	register := func(name string, fn any) {
		e.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	register(activities.BeginName, func(_ context.Context, in activities.BeginInput) (activities.BeginResult, error) {
		s.note("begin %s", in.Message.Text)
		return activities.BeginResult{Settings: s.settings, Browser: "b1"}, s.beginErr
	})
	register(activities.PrepareName, func(ctx context.Context) (activities.PrepareResult, error) {
		if s.prepare == nil {
			return activities.PrepareResult{}, nil
		}
		s.note("prepare")
		return s.prepare(ctx)
	})
	register(activities.ThinkName, func(_ context.Context, in activities.ThinkInput) (activities.ThinkResult, error) {
		if s.thinkErr != nil {
			if err := s.thinkErr(in); err != nil {
				s.note("think %d compact %d: error", in.Step, in.Compact)
				return activities.ThinkResult{}, err
			}
		}
		s.note("think %d", in.Step)
		if in.Step > len(s.replies) {
			return activities.ThinkResult{Final: true, Summary: "done"}, nil
		}
		return s.replies[in.Step-1], nil
	})
	register(activities.ActName, func(ctx context.Context, in activities.ActInput) (agent.Result, error) {
		s.queue = activity.GetInfo(ctx).TaskQueue
		g := ""
		if in.Grant != nil {
			g = " granted by " + in.Grant.By
		}
		s.note("act %s%s", in.Call.Action, g)
		if s.act != nil {
			return s.act(in)
		}
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	})
	register(activities.CriticName, func(_ context.Context, in activities.CriticInput) (activities.Verdict, error) {
		s.note("critic %d.%d %s", in.Step, in.Index, strings.TrimSpace(string(in.Result.Outcome)+" "+in.Result.Code))
		if s.verdict != nil {
			return s.verdict(in), nil
		}
		return activities.Verdict{}, nil
	})
	register(activities.StatusName, func(_ context.Context, in activities.StatusInput) error {
		s.note("status %s", in.Status)
		return nil
	})
	register(activities.AskName, func(_ context.Context, in activities.AskInput) error {
		s.note("ask %s %s", in.Confirmation.ID, in.Confirmation.Ask.Name)
		if s.asked != nil {
			s.asked()
		}
		return nil
	})
	register(activities.DecideName, func(_ context.Context, in activities.DecideInput) error {
		s.note("decide %s by %s", in.Decision, in.Answer.By)
		return nil
	})
	register(activities.InstructName, func(_ context.Context, in activities.InstructInput) error {
		s.note("instruct after %d: %s", in.Step, in.Text)
		if s.instructErr != nil {
			return s.instructErr(in)
		}
		return nil
	})
	register(activities.FinishName, func(_ context.Context, in activities.FinishInput) (activities.FinishResult, error) {
		s.note("finish %s %s", in.Status, in.Reason)
		s.finished = in
		if s.finishing != nil {
			s.finishing()
		}
		return activities.FinishResult{Summary: in.Summary}, s.finishErr
	})
	register(activities.NotifyName, func(_ context.Context, in activities.NotifyInput) error {
		var m struct{ Type string }
		if err := json.Unmarshal(in.Message, &m); err != nil {
			return err
		}
		s.note("notify %s", m.Type)
		if s.notified != nil {
			s.notified(in)
		}
		return nil
	})
	return e
}

func calls(actions ...string) activities.ThinkResult {
	var r activities.ThinkResult
	for i, a := range actions {
		r.Calls = append(r.Calls, agent.Call{ID: fmt.Sprintf("%s%d", a, i), Action: a, Params: json.RawMessage(`{"selector":"[ref=e1]"}`)})
	}
	return r
}

func dc() converter.DataConverter { return converter.GetDefaultDataConverter() }

func input() workflows.RunInput {
	return workflows.RunInput{Session: "s", Message: agent.Message{ID: "r1", Text: "do it", BrowserID: "b1"}}
}

func outcome(t *testing.T, e *testsuite.TestWorkflowEnvironment) workflows.Outcome {
	t.Helper()
	if !e.IsWorkflowCompleted() {
		t.Fatal("the run did not end")
	}
	if err := e.GetWorkflowError(); err != nil {
		t.Fatalf("run: %v", err)
	}
	var out workflows.Outcome
	if err := e.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func wantLog(t *testing.T, s *script, want ...string) {
	t.Helper()
	if d := cmp.Diff(s.log, want); d != "" {
		t.Errorf("what the run did (-got +want):\n%s", d)
	}
}

func TestRunGoesStepByStep(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("navigate"), calls("click", "type")}}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	out := outcome(t, e)
	if !out.Success || out.Status != agent.StatusDone || out.Steps != 3 {
		t.Errorf("outcome %+v", out)
	}
	wantLog(t, s, "begin do it", "think 1", "act navigate", "critic 1.0 done", "think 2", "act click", "critic 2.0 done", "act type", "critic 2.1 done", "think 3", "finish done ")
}

func TestCallsAfterAFailedOneAreNotExecuted(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("click", "type")}}
	s.act = func(activities.ActInput) (agent.Result, error) {
		return agent.Result{Outcome: agent.OutcomeFailed, Code: "CMD_REF_STALE"}, nil
	}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "act click", "critic 1.0 failed CMD_REF_STALE", "critic 1.1 skipped", "think 2", "finish done ")
}

func TestFaultyCallIsAnsweredNotExecuted(t *testing.T) {
	r := calls("click")
	r.Calls[0].Fault = "no selector"
	s := &script{replies: []activities.ThinkResult{r}}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "critic 1.0 failed CMD_INVALID_PARAMS", "think 2", "finish done ")
}

func TestUnknownOutcomeIsLookedAtAndNeverRepeated(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("click")}}
	s.act = func(in activities.ActInput) (agent.Result, error) {
		if in.Call.Action == "click" {
			return agent.Result{Outcome: agent.OutcomeUnknown, Code: "CMD_OUTCOME_UNKNOWN"}, nil
		}
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "act click", "act getAomSnapshot", "critic 1.0 unknown CMD_OUTCOME_UNKNOWN", "think 2", "finish done ")
}

// asking makes the browser want a person for every click without a grant.
func asking() *script {
	s := &script{replies: []activities.ThinkResult{calls("click")}}
	s.act = func(in activities.ActInput) (agent.Result, error) {
		if in.Grant == nil {
			return agent.Result{Outcome: agent.OutcomeNeedConfirm, Digest: "d1", Ask: &agent.Subject{Role: "button", Name: "批准"}}, nil
		}
		if in.Grant.Digest != "d1" {
			return agent.Result{Outcome: agent.OutcomeFailed, Code: "MAC_GRANT_INVALID"}, nil
		}
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	return s
}

func TestConfirmation(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal bool
		answer agent.Answer
		want   []string
	}{
		{"approved by signal", true, agent.Answer{ConfirmID: "r1-c1-click0", Approved: true, By: "li"}, []string{"decide approved by li", "act click granted by li", "critic 1.0 done"}},
		{"approved by update", false, agent.Answer{Approved: true, By: "li", Digest: "d1"}, []string{"decide approved by li", "act click granted by li", "critic 1.0 done"}},
		{"rejected", true, agent.Answer{ConfirmID: "r1-c1-click0", By: "li"}, []string{"decide rejected by li", "critic 1.0 refused"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := asking()
			e := env(t, s)
			e.RegisterDelayedCallback(func() {
				if tt.signal {
					e.SignalWorkflow(workflows.ConfirmName, tt.answer)
				} else {
					e.UpdateWorkflow(workflows.ConfirmName, "u1", &callbacks{t: t}, tt.answer)
				}
			}, 7*24*time.Hour)
			e.ExecuteWorkflow(workflows.Run, input())
			if out := outcome(t, e); out.Status != agent.StatusDone {
				t.Errorf("outcome %+v", out)
			}
			want := append([]string{"begin do it", "think 1", "act click", "ask r1-c1-click0 批准"}, tt.want...)
			wantLog(t, s, append(want, "think 2", "finish done ")...)
		})
	}
}

func TestConfirmUpdateIsRejectedWithAReason(t *testing.T) {
	s := asking()
	e := env(t, s)
	for i, tt := range []struct {
		answer agent.Answer
		typ    string
	}{
		{agent.Answer{ConfirmID: "r1-c9", Approved: true}, workflows.ErrUnknownConfirm},
		{agent.Answer{Approved: true, Digest: "other"}, workflows.ErrDigestMismatch},
	} {
		e.RegisterDelayedCallback(func() {
			e.UpdateWorkflow(workflows.ConfirmName, fmt.Sprint("u", i), &callbacks{t: t, reject: tt.typ}, tt.answer)
		}, time.Duration(i+1)*time.Minute)
	}
	e.RegisterDelayedCallback(func() {
		e.UpdateWorkflow(workflows.ConfirmName, "ok", &callbacks{t: t}, agent.Answer{Approved: true})
		e.UpdateWorkflow(workflows.ConfirmName, "late", &callbacks{t: t, reject: workflows.ErrAlreadyDecided}, agent.Answer{ConfirmID: "r1-c1-click0"})
	}, time.Hour)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
}

// callbacks checks how an update ends.
type callbacks struct {
	t      *testing.T
	reject string // the expected error type; empty: accepted and successful
}

func (c *callbacks) Accept() {
	if c.reject != "" {
		c.t.Errorf("update accepted, want it rejected as %s", c.reject)
	}
}

func (c *callbacks) Reject(err error) {
	var app *temporal.ApplicationError
	if c.reject == "" || !errors.As(err, &app) || app.Type() != c.reject {
		c.t.Errorf("update rejected with %v, want %q", err, c.reject)
	}
}

func (c *callbacks) Complete(_ any, err error) {
	if err != nil {
		c.t.Errorf("update: %v", err)
	}
}

func TestUnansweredConfirmationExpires(t *testing.T) {
	s := asking()
	s.settings.ConfirmTimeoutS = 3600
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	out := outcome(t, e)
	if out.Status != agent.StatusRefused || out.Reason != agent.ReasonConfirmExpired {
		t.Errorf("outcome %+v", out)
	}
	wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide expired by ", "critic 1.0 refused", "finish refused CONFIRM_EXPIRED")
}

func TestAbort(t *testing.T) {
	t.Run("while a person is asked", func(t *testing.T) {
		s := asking()
		e := env(t, s)
		e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.AbortName, workflows.Abort{By: "li"}) }, time.Hour)
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Status != agent.StatusAborted || out.Reason != agent.ReasonAborted {
			t.Errorf("outcome %+v", out)
		}
		wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide void by ", "finish aborted ABORTED")
	})
	t.Run("before anything", func(t *testing.T) {
		s := asking()
		e := env(t, s)
		e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.AbortName, workflows.Abort{By: "li", Reason: "wrong\nmonth"}) }, 0)
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Status != agent.StatusAborted {
			t.Errorf("outcome %+v", out)
		}
		if s.finished.Why != "wrong month" {
			t.Errorf("finished %+v", s.finished)
		}
	})
}

func TestInstructionInMidRun(t *testing.T) {
	s := asking()
	e := env(t, s)
	e.RegisterDelayedCallback(func() {
		e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: "i1", Text: "also skip 张三"})
		e.SignalWorkflow(workflows.InstructName, workflows.Instruction{ID: "i1", Text: "also skip 张三"})
		e.SignalWorkflow(workflows.ConfirmName, agent.Answer{By: "li"})
	}, time.Minute)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "act click", "ask r1-c1-click0 批准", "decide rejected by li", "critic 1.0 refused", "instruct after 1: also skip 张三", "think 2", "finish done ")
}

func TestLimits(t *testing.T) {
	t.Run("steps", func(t *testing.T) {
		s := &script{settings: agent.Settings{MaxSteps: 2}, replies: []activities.ThinkResult{calls("click"), calls("click"), calls("click")}}
		e := env(t, s)
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Status != agent.StatusFailed || out.Reason != agent.ReasonMaxSteps || out.Steps != 2 {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("critic", func(t *testing.T) {
		s := &script{replies: []activities.ThinkResult{calls("click")}}
		s.verdict = func(activities.CriticInput) activities.Verdict {
			return activities.Verdict{Abort: true, Reason: agent.ReasonBreakerOpen}
		}
		e := env(t, s)
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Reason != agent.ReasonBreakerOpen {
			t.Errorf("outcome %+v", out)
		}
	})
	t.Run("waiting for a person is not the run's time", func(t *testing.T) {
		s := asking()
		var active int64
		s.verdict = func(in activities.CriticInput) activities.Verdict {
			active = in.ActiveMS
			return activities.Verdict{}
		}
		e := env(t, s)
		e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true}) }, 7*24*time.Hour)
		e.ExecuteWorkflow(workflows.Run, input())
		outcome(t, e)
		if active > 60_000 {
			t.Errorf("active %d ms after a week of waiting, want nearly none", active)
		}
	})
}

func TestModelTrouble(t *testing.T) {
	t.Run("context too long", func(t *testing.T) {
		s := &script{thinkErr: func(in activities.ThinkInput) error {
			if in.Compact < 2 {
				return temporal.NewNonRetryableApplicationError("too long", activities.ErrContextTooLong, nil)
			}
			return nil
		}}
		e := env(t, s)
		e.ExecuteWorkflow(workflows.Run, input())
		outcome(t, e)
		wantLog(t, s, "begin do it", "think 1 compact 0: error", "think 1 compact 1: error", "think 1", "finish done ")
	})
	t.Run("final", func(t *testing.T) {
		s := &script{thinkErr: func(activities.ThinkInput) error {
			return temporal.NewNonRetryableApplicationError("the key is not valid", activities.ErrModelFinal, nil)
		}}
		e := env(t, s)
		e.ExecuteWorkflow(workflows.Run, input())
		out := outcome(t, e)
		if out.Reason != agent.ReasonModelFailed || s.finished.Detail != "the key is not valid" {
			t.Errorf("outcome %+v, detail %q", out, s.finished.Detail)
		}
	})
	t.Run("neither answer nor call", func(t *testing.T) {
		s := &script{replies: []activities.ThinkResult{{}, {}, {}}}
		e := env(t, s)
		e.ExecuteWorkflow(workflows.Run, input())
		if out := outcome(t, e); out.Reason != agent.ReasonModelFailed {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestRateLimitIsWaitedOut(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("click")}}
	n := 0
	s.act = func(activities.ActInput) (agent.Result, error) {
		if n++; n == 1 {
			return agent.Result{Outcome: agent.OutcomeRateLimited, RetryAfterMS: 30_000}, nil
		}
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	wantLog(t, s, "begin do it", "think 1", "act click", "status cooling", "act click", "critic 1.0 done", "think 2", "finish done ")
}

func TestTaskFromThePipeIsAnsweredThere(t *testing.T) {
	s := asking()
	in := input()
	in.Message.Origin = agent.Origin{Kind: agent.OriginPipe, TaskID: "t1"}
	e := env(t, s)
	e.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		s.note("%s %s", info.WorkflowType.Name, info.WorkflowExecution.ID)
	})
	e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true, By: "li"}) }, time.Minute)
	e.ExecuteWorkflow(workflows.Run, in)
	outcome(t, e)
	var told []string
	for _, l := range s.log {
		if strings.HasPrefix(l, "notify") || strings.HasPrefix(l, "Tell") {
			told = append(told, l)
		}
	}
	if d := cmp.Diff(told, []string{"notify confirm_required", "Tell tell/r1"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestTellDeliversTheResult(t *testing.T) {
	s := &script{}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Tell, workflows.TellInput{Browser: "b1", Complete: pipe.TaskComplete{Type: pipe.TypeTaskComplete, RunID: "r1"}})
	if err := e.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, "notify task_complete")
}

func TestLongRunContinuesAsNew(t *testing.T) {
	s := &script{settings: agent.Settings{MaxSteps: 1000}}
	for range 400 {
		s.replies = append(s.replies, calls("click"))
	}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	var can *workflow.ContinueAsNewError
	if err := e.GetWorkflowError(); !errors.As(err, &can) {
		t.Fatalf("got %v, want continue as new", err)
	}
	if n := len(s.log); n < 450 || n > 460 {
		t.Errorf("%d entries before continuing as new", n)
	}
}

func TestDatabaseThatIsAwayEndsNoRun(t *testing.T) {
	away := 20 // more than the attempts of a model call
	s := &script{thinkErr: func(activities.ThinkInput) error {
		if away--; away >= 0 {
			return temporal.NewApplicationError("connection refused", activities.ErrRecordAway)
		}
		return nil
	}}
	e := env(t, s)
	e.ExecuteWorkflow(workflows.Run, input())
	if out := outcome(t, e); !out.Success {
		t.Errorf("outcome %+v, %+v", out, s.finished)
	}
}

func TestOfflineLimitCountsOneAbsence(t *testing.T) {
	s := asking()
	s.settings.OfflineTimeoutS = 600
	act := s.act
	n := 0
	s.act = func(in activities.ActInput) (agent.Result, error) {
		if n++; n == 2 {
			return agent.Result{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return act(in)
	}
	e := env(t, s)
	e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true}) }, 2*time.Hour)
	e.ExecuteWorkflow(workflows.Run, input())
	if out := outcome(t, e); !out.Success {
		t.Errorf("the person took two hours and the browser was away for a moment: %+v", out)
	}
}
