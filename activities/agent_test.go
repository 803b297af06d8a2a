package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

// faulty is a record whose every use in these tests fails with err.
type faulty struct {
	activities.Record
	err error
}

func (f faulty) AcceptMessage(context.Context, string, agent.Message) (bool, error) {
	return false, f.err
}

func (f faulty) Session(context.Context, string) (record.Session, error) {
	return record.Session{}, nil
}

func (f faulty) SetStatus(context.Context, record.Fence, string, agent.Status, string, string) error {
	return f.err
}

func (f faulty) Decide(context.Context, record.Fence, string, agent.Answer, time.Time) error {
	return f.err
}

func (f faulty) AddInstruction(context.Context, record.Fence, string, string, string) error {
	return f.err
}

func (f faulty) Thought(context.Context, record.Fence) (*record.Thought, error) { return nil, f.err }

func (f faulty) Run(context.Context, string) (record.Run, error) { return record.Run{}, f.err }

// agentEnv makes an environment for the agent's activities.
func agentEnv(r activities.Record) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	e := suite.NewTestActivityEnvironment()
	a := activities.NewAgent(slog.New(slog.DiscardHandler), r, nil, nil, nil, activities.AgentConfig{})
	for name, fn := range map[string]any{
		activities.AcceptName: a.Accept, activities.StatusName: a.Status, activities.DecideName: a.Decide,
		activities.InstructName: a.Instruct, activities.ThinkName: a.Think, activities.FinishName: a.Finish, activities.CriticName: a.Critic,
	} {
		e.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	return e
}

// TestPermanentFaultsAreNotRetried: activities that write are retried for as
// long as it takes, so what can never succeed must say so.
func TestPermanentFaultsAreNotRetried(t *testing.T) {
	inputs := map[string]any{
		activities.AcceptName: activities.AcceptInput{}, activities.StatusName: activities.StatusInput{},
		activities.DecideName: activities.DecideInput{}, activities.InstructName: activities.InstructInput{},
		activities.ThinkName: activities.ThinkInput{}, activities.FinishName: activities.FinishInput{}, activities.CriticName: activities.CriticInput{},
	}
	for _, tt := range []struct {
		err  error
		typ  string
		stop bool
	}{
		{record.ErrNotFound, activities.ErrNotFound, true},
		{record.ErrInvalid, activities.ErrInvalid, true},
		{record.ErrConflict, activities.ErrConflict, true},
		{record.ErrSuperseded, activities.ErrSuperseded, true},
		{errors.New("connection refused"), activities.ErrRecordAway, false},
	} {
		for name, in := range inputs {
			_, err := agentEnv(faulty{err: fmt.Errorf("some deed: %w", tt.err)}).ExecuteActivity(name, in)
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.Type() != tt.typ || app.NonRetryable() != tt.stop {
				t.Errorf("%s after %v: got %v, want type %s, not to be retried: %v", name, tt.err, err, tt.typ, tt.stop)
			}
		}
	}
}

// replied is a record that has a reply for every step.
type replied struct {
	activities.Record
	thought record.Thought
}

func (r replied) Thought(context.Context, record.Fence) (*record.Thought, error) {
	return &r.thought, nil
}

func TestFaultyCallsStayOutOfTheHistory(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	e := agentEnv(replied{thought: record.Thought{Calls: []agent.Call{
		{ID: "a", Action: "click", Params: json.RawMessage(`{"selector":"e1"}`)},
		{ID: "b", Action: long, Params: json.RawMessage(`"` + long + `"`), Fault: "no tool " + long},
	}}})
	v, err := e.ExecuteActivity(activities.ThinkName, activities.ThinkInput{RunID: "r", Step: 1})
	if err != nil {
		t.Fatal(err)
	}
	var res activities.ThinkResult
	if err := v.Get(&res); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 1000 || len(res.Calls) != 2 || string(res.Calls[0].Params) != `{"selector":"e1"}` || res.Calls[1].Fault == "" {
		t.Errorf("%d bytes: %.300s", len(b), b)
	}
}
