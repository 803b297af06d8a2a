package devserver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
)

func TestFindSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", "")
	t.Chdir(t.TempDir())
	if _, err := Find(""); !errors.Is(err, ErrNoCLI) {
		t.Errorf("Find = %v, want ErrNoCLI", err)
	}
	if _, err := Find(filepath.Join(t.TempDir(), "temporal")); err == nil || errors.Is(err, ErrNoCLI) {
		t.Errorf("Find of a missing file = %v, want an error about that file", err)
	}
}

func TestFindInProject(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin", "temporal")
	sub := filepath.Join(root, "internal", "x")
	for _, dir := range []string{filepath.Dir(bin), sub} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{filepath.Join(root, "go.mod"): 0o644, bin: 0o755} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "")
	t.Chdir(sub)
	got, err := Find("")
	if err != nil || got != bin {
		t.Errorf("Find = %q, %v; want %q", got, err, bin)
	}
}

func TestServerKeepsItsStateOverARestart(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{
		Path: os.Getenv(Env), DBFile: filepath.Join(dir, "data", "temporal.db"), LogFile: filepath.Join(dir, "log", "temporal.log"),
		UIPort: -1, Namespaces: []string{"own"}, Keywords: []string{"SgState"}, Retention: 72 * time.Hour,
	}
	for round := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := Start(ctx, slog.New(slog.DiscardHandler), cfg)
		cancel()
		if err != nil {
			t.Fatalf("start %d: %v", round, err)
		}
		if s.UI() == "" || s.PID() == 0 {
			t.Errorf("start %d: UI %q, pid %d", round, s.UI(), s.PID())
		}
		use(t, s.Address(), round)
		s.Stop()
		s.Stop()
		select {
		case <-s.Done():
		default:
			t.Error("Stop returned before the server had ended")
		}
	}
}

func use(t *testing.T, address string, round int) {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: address, Namespace: "own", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	attrs, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := attrs.GetCustomAttributes()["SgState"]; !ok {
		t.Errorf("start %d: search attributes are %v", round, attrs.GetCustomAttributes())
	}
	_, err = c.DescribeWorkflow(t.Context(), "kept", "")
	if known := err == nil; known != (round == 1) {
		t.Errorf("start %d: describe = %v", round, err)
	}
	if round == 0 {
		if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "q"}, "Nothing"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStartTellsWhereTheLogIs(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "temporal")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "temporal.log")
	_, err := Start(t.Context(), slog.New(slog.DiscardHandler), Config{Path: broken, LogFile: log})
	if !errors.Is(err, errExited) {
		t.Fatalf("Start = %v, want errExited", err)
	}
	if b, err := os.ReadFile(log); err != nil || len(b) == 0 {
		t.Errorf("log = %q, %v", b, err)
	}
}
