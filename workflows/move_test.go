package workflows_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// TestMove: the journal that keeps an effect from happening twice is one
// browser's, and so is the page that the model has seen.
func TestMove(t *testing.T) {
	never := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	retried := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil))
	died := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	for _, tt := range []struct {
		name   string
		action string
		away   error // of the browser that the run is moved from
		want   []string
	}{
		{"before an effect began", "click", never, []string{"b1 click", "b2 getAomSnapshot", "critic b2 failed CMD_REF_STALE"}},
		{"after an effect may have begun", "click", died, []string{"b1 click", "b2 getAomSnapshot", "critic b2 unknown CMD_OUTCOME_UNKNOWN"}},
		{"after an attempt may have begun", "click", retried, []string{"b1 click", "b2 getAomSnapshot", "critic b2 unknown CMD_OUTCOME_UNKNOWN"}},
		{"before a page was opened", "navigate", died, []string{"b1 navigate", "b2 navigate", "critic b2 done"}},
		{"before a page was read", "getText", died, []string{"b1 getText", "b2 getText", "critic b2 done"}},
		{"before a background page was opened", "zombieSpawn", never, []string{"b1 zombieSpawn", "b2 zombieSpawn", "critic b2 done"}},
		{"after a background page may have been opened", "zombieSpawn", died, []string{"b1 zombieSpawn", "b2 getAomSnapshot", "critic b2 unknown CMD_OUTCOME_UNKNOWN"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			s := &script{replies: []activities.ThinkResult{calls("navigate"), calls(tt.action)}}
			e := env(t, s)
			s.act = func(in activities.ActInput) (agent.Result, error) {
				if in.Step == 1 {
					return agent.Result{Outcome: agent.OutcomeDone}, nil
				}
				did := strings.TrimPrefix(s.queue, "browser/") + " " + in.Call.Action
				if !slices.Contains(got, did) {
					got = append(got, did)
				}
				if s.queue == "browser/b1" {
					e.SignalWorkflow(workflows.MoveName, workflows.Move{BrowserID: "b2"})
					return agent.Result{}, tt.away
				}
				return agent.Result{Outcome: agent.OutcomeDone}, nil
			}
			s.verdict = func(in activities.CriticInput) activities.Verdict {
				if in.Step == 2 {
					got = append(got, strings.TrimSpace("critic "+in.Browser+" "+string(in.Result.Outcome)+" "+in.Result.Code))
				}
				return activities.Verdict{}
			}
			e.ExecuteWorkflow(workflows.Run, input())
			outcome(t, e)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMoveIsAnsweredByTheBrowserThatActed(t *testing.T) {
	var got []string
	s := &script{replies: []activities.ThinkResult{calls("navigate", "click"), calls("click")}}
	e := env(t, s)
	s.act = func(in activities.ActInput) (agent.Result, error) {
		if in.Step == 1 && in.Call.Action == "navigate" {
			e.SignalWorkflow(workflows.MoveName, workflows.Move{BrowserID: "b2"})
		}
		return agent.Result{Outcome: agent.OutcomeDone, Ref: "r"}, nil
	}
	s.verdict = func(in activities.CriticInput) activities.Verdict {
		got = append(got, strings.TrimSpace(in.Browser+" "+string(in.Result.Outcome)+" "+in.Result.Code))
		return activities.Verdict{}
	}
	e.ExecuteWorkflow(workflows.Run, input())
	outcome(t, e)
	if want := []string{"b1 done", "b2 failed CMD_REF_STALE", "b2 done"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTaskOfABrowserIsAnsweredThereAfterAMove(t *testing.T) {
	s := &script{replies: []activities.ThinkResult{calls("navigate")}}
	in := input()
	in.Message.Origin = agent.Origin{Kind: agent.OriginPipe, TaskID: "t1"}
	e := env(t, s)
	s.act = func(activities.ActInput) (agent.Result, error) {
		e.SignalWorkflow(workflows.MoveName, workflows.Move{BrowserID: "b2"})
		return agent.Result{Outcome: agent.OutcomeDone}, nil
	}
	var told []string
	e.SetOnChildWorkflowStartedListener(func(_ *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in workflows.TellInput
		if err := args.Get(&in); err != nil {
			t.Error(err)
		}
		told = append(told, in.Browser)
	})
	e.ExecuteWorkflow(workflows.Run, in)
	outcome(t, e)
	if !slices.Equal(told, []string{"b1"}) {
		t.Errorf("told %q, want the browser that the task came from", told)
	}
}

// TestNotificationsAreNamedByWhatTheyTell: a browser is told nothing twice under one key,
// so what a run asks after a rewind needs another.
func TestNotificationsAreNamedByWhatTheyTell(t *testing.T) {
	s := asking()
	in := input()
	in.Message.Origin = agent.Origin{Kind: agent.OriginPipe, TaskID: "t1"}
	var keys []string
	s.notified = func(in activities.NotifyInput) {
		var m struct {
			ActionID string `json:"action_id"`
		}
		if json.Unmarshal(in.Message, &m) == nil && m.ActionID != "" {
			keys = append(keys, in.Key+" "+m.ActionID)
		}
	}
	e := env(t, s)
	e.RegisterDelayedCallback(func() { e.SignalWorkflow(workflows.ConfirmName, agent.Answer{Approved: true}) }, time.Minute)
	e.ExecuteWorkflow(workflows.Run, in)
	outcome(t, e)
	if !slices.Equal(keys, []string{"r1-c1-click0 r1-c1-click0"}) {
		t.Errorf("keys and questions %q", keys)
	}
}
