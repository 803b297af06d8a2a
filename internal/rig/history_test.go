package rig_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"sgclaw/internal/rig"
)

// record makes the tests write the histories of their workflows to
// workflows/testdata, under names that do not exist there yet.
var record = flag.String("record", "", "write histories to workflows/testdata with this `suffix`")

// keep records the history of a workflow when asked to.
func keep(t *testing.T, r *rig.Rig, name, workflowID string) {
	t.Helper()
	if *record == "" {
		return
	}
	h := &history.History{}
	it := r.Client.Temporal().GetWorkflowHistory(t.Context(), workflowID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	b, err := protojson.MarshalOptions{Multiline: true}.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "workflows", "testdata", name+"."+*record+".json")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatalf("histories are added, never replaced: %v", err)
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
