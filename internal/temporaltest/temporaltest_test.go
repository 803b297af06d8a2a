package temporaltest

import (
	"fmt"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func TestStartGivesEachTestItsOwnNamespace(t *testing.T) {
	seen := map[string]bool{}
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := Start(t)
			if seen[s.Namespace] {
				t.Fatalf("namespace %s given twice", s.Namespace)
			}
			seen[s.Namespace] = true
			w := worker.New(s.Client, "q", worker.Options{})
			w.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "done", nil }, workflow.RegisterOptions{Name: "hello"})
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			run, err := s.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "same", TaskQueue: "q"}, "hello")
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if err := run.Get(t.Context(), &got); err != nil || got != "done" {
				t.Fatalf("Get = %q, %v", got, err)
			}
		})
	}
}
