package workflows_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/workflows"
)

type noShelf struct{}

func (noShelf) Body(string) (agent.Body, error) { return agent.Body{}, nil }
func (noShelf) Presence() activities.Presence   { return activities.Presence{} }

// TestRecordedHistoriesReplay: a change that breaks one of these would break
// runs that are under way somewhere.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		kind, rest, _ := strings.Cut(filepath.Base(file), "-")
		seen[kind+filepath.Ext(strings.TrimSuffix(rest, ".json"))] = true
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := worker.NewWorkflowReplayer()
			if kind == "browser" {
				// A pipehost's, which hosts no other.
				r.RegisterWorkflowWithOptions((&workflows.Browser{Shelf: noShelf{}}).Run, workflow.RegisterOptions{Name: activities.BrowserWorkflow})
			} else {
				r.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: workflows.SessionType})
				r.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: workflows.RunType})
				r.RegisterWorkflow(workflows.Tell)
				r.RegisterWorkflowWithOptions(workflows.Fire, workflow.RegisterOptions{Name: workflows.FireType})
			}
			if err := r.ReplayWorkflowHistoryFromJSONFile(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), file); err != nil {
				t.Error(err)
			}
		})
	}
	if !seen["fire.v3"] {
		t.Error("no recorded history fire.v3")
	}
	for _, version := range []string{".v1", ".v2"} {
		for _, kind := range []string{"run", "session", "tell", "browser"} {
			if !seen[kind+version] {
				t.Errorf("no recorded history %s of a %s", version, kind)
			}
		}
	}
}
