package workflows_test

import (
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

// TestWhatWasDoneIsOnRecordHoweverTheRunEnds: an effect that the run ends in
// the middle of is in the transcript.
func TestWhatWasDoneIsOnRecordHoweverTheRunEnds(t *testing.T) {
	aborted := workflows.Abort{By: "li"}
	broken := temporal.NewNonRetryableApplicationError("the journal cannot be written", "Journal", nil)
	died := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	for _, tt := range []struct {
		name   string
		action string
		act    error // what the action ends with; nil: the run is aborted meanwhile
		want   []string
	}{
		{"aborted in the middle of an effect", "click", nil, []string{"act click", "critic 1.0 unknown CMD_OUTCOME_UNKNOWN", "finish aborted ABORTED"}},
		{"aborted in the middle of a read", "getText", nil, []string{"act getText", "finish aborted ABORTED"}},
		{"an effect that cannot be carried out", "click", broken, []string{"act click", "critic 1.0 unknown CMD_OUTCOME_UNKNOWN", "finish failed INTERNAL_UNKNOWN"}},
		{"a browser that died at an effect and stays away", "click", died, []string{"act click", "critic 1.0 unknown CMD_OUTCOME_UNKNOWN", "finish failed BROWSER_GONE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{replies: []activities.ThinkResult{calls(tt.action)}}
			s.settings.OfflineTimeoutS = 1
			e := env(t, s)
			tries := 0
			s.act = func(activities.ActInput) (agent.Result, error) {
				if tries++; tries > 1 {
					s.log = s.log[:len(s.log)-1] // a retry
				}
				if tt.act == nil {
					e.SignalWorkflow(workflows.AbortName, aborted)
				}
				return agent.Result{Outcome: agent.OutcomeDone}, tt.act
			}
			e.ExecuteWorkflow(workflows.Run, input())
			outcome(t, e)
			var got []string
			for _, l := range s.log {
				if l != "status browser_offline" {
					got = append(got, l)
				}
			}
			s.log = got
			wantLog(t, s, append([]string{"begin do it", "think 1"}, tt.want...)...)
		})
	}
	t.Run("aborted while it is recorded", func(t *testing.T) {
		s := &script{replies: []activities.ThinkResult{calls("click")}}
		e := env(t, s)
		var last []bool
		s.verdict = func(in activities.CriticInput) activities.Verdict {
			last = append(last, in.Last)
			if !in.Last {
				e.SignalWorkflow(workflows.AbortName, aborted)
			}
			return activities.Verdict{}
		}
		e.ExecuteWorkflow(workflows.Run, input())
		outcome(t, e)
		wantLog(t, s, "begin do it", "think 1", "act click", "critic 1.0 done", "critic 1.0 done", "finish aborted ABORTED")
		if len(last) != 2 || last[0] || !last[1] {
			t.Errorf("last %v, want the second record to be the last", last)
		}
	})
}
