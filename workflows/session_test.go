package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// sessionEnv makes an environment in which a session's runs take an hour.
// What happens is added to the log.
func sessionEnv(t *testing.T, done *[]string, finish func(ctx context.Context) error) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := suite.NewTestWorkflowEnvironment()
	e.RegisterWorkflow(workflows.Session)
	e.RegisterWorkflowWithOptions(func(ctx workflow.Context, in workflows.RunInput) (workflows.Outcome, error) {
		*done = append(*done, "run "+in.Message.ID)
		return workflows.Outcome{}, workflow.Sleep(ctx, time.Hour)
	}, workflow.RegisterOptions{Name: workflows.RunType})
	e.RegisterActivityWithOptions(func(_ context.Context, in activities.AcceptInput) (activities.AcceptResult, error) {
		*done = append(*done, "accept "+in.Message.ID)
		return activities.AcceptResult{}, nil
	}, activity.RegisterOptions{Name: activities.AcceptName})
	e.RegisterActivityWithOptions(func(ctx context.Context, in activities.FinishInput) (activities.FinishResult, error) {
		if finish != nil {
			if err := finish(ctx); err != nil {
				return activities.FinishResult{}, err
			}
		}
		*done = append(*done, "finish "+in.RunID)
		return activities.FinishResult{}, nil
	}, activity.RegisterOptions{Name: activities.FinishName})
	return e
}

func TestSessionLeavesMessagesThatCannotBeUsed(t *testing.T) {
	var got []string
	e := sessionEnv(t, &got, nil)
	e.RegisterDelayedCallback(func() {
		e.SignalWorkflow(workflows.MessageSignal, "hello")
		for _, m := range []agent.Message{
			{ID: "a/b", Text: "x"}, {ID: "a\x00b", Text: "x"}, {ID: strings.Repeat("x", 600), Text: "x"}, {ID: "empty"},
			{ID: "long", Text: strings.Repeat("x", agent.MaxInstruction+1)}, {ID: "far", Text: "x", BrowserID: strings.Repeat("b", 2000)},
			{ID: "good", Text: "x", Origin: agent.Origin{User: strings.Repeat("long name ", 500)}}, {ID: "good", Text: "x"},
		} {
			e.SignalWorkflow(workflows.MessageSignal, m)
		}
	}, 0)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	if err := e.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, []string{"accept good", "run good"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestSessionDoesNotEndBeforeADroppedMessageIsRecorded(t *testing.T) {
	var got []string
	var token []byte
	e := sessionEnv(t, &got, func(ctx context.Context) error {
		token = activity.GetInfo(ctx).TaskToken
		return activity.ErrResultPending
	})
	e.RegisterDelayedCallback(func() {
		for _, id := range []string{"one", "two"} {
			e.SignalWorkflow(workflows.MessageSignal, agent.Message{ID: id, Text: "x"})
		}
	}, 0)
	e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.AbortName, workflows.Abort{RunID: "two"}) }, time.Minute)
	e.RegisterDelayedCallback(func() {
		got = append(got, "finish two")
		if err := e.CompleteActivity(token, activities.FinishResult{}, nil); err != nil {
			t.Error(err)
		}
	}, 2*time.Hour)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	if err := e.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got, []string{"accept one", "accept two", "run one", "finish two"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestSessionContinuesAsNewOnlyWithWhatAServerTakes(t *testing.T) {
	var got []string
	e := sessionEnv(t, &got, nil)
	e.SetContinueAsNewSuggested(true)
	e.RegisterDelayedCallback(func() {
		for i := range 20 {
			e.SignalWorkflow(workflows.MessageSignal, agent.Message{ID: fmt.Sprint(i), Text: strings.Repeat("<", agent.MaxInstruction)})
		}
	}, 0)
	e.ExecuteWorkflow(workflows.Session, workflows.SessionInput{Key: "s"})
	var can *workflow.ContinueAsNewError
	if err := e.GetWorkflowError(); !errors.As(err, &can) {
		t.Fatalf("got %v, want continue as new", err)
	}
	if n := can.Input.Size(); n > 2_000_000 {
		t.Errorf("the next execution gets %d bytes", n)
	}
}
