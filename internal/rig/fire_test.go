package rig_test

import (
	"context"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/pipe"
	"sgclaw/internal/rig"
	"sgclaw/workflows"
)

func TestScheduleGivesItsSessionATask(t *testing.T) {
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, clicks(1), host, nil)
	id, err := r.Client.CreateSchedule(t.Context(), durable.Schedule{
		Session: "s-1", Message: agent.Message{Text: "look", BrowserID: rig.BrowserID, Origin: agent.Origin{Kind: "schedule", User: "li"}},
		Timing: durable.Timing{Every: time.Hour, Anchor: time.Now().Add(30 * time.Minute)}, Skip: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.Client.TriggerSchedule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, f.RunID); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	run, err := r.Store.Run(t.Context(), f.RunID)
	if err != nil || run.Session != "s-1" || run.Origin.Kind != "schedule" || run.Origin.User != "li" {
		t.Errorf("run %+v, %v", run, err)
	}
	keep(t, r, "fire-plain", workflows.FireWorkflowID(id)+"-"+f.Due.Format(time.RFC3339))
}
