package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestFaultsAreToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.json")
	logins := filepath.Join(dir, "logins.json")
	if err := os.WriteFile(rules, []byte(`{"version":"1.0","domains":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(logins, []byte(`{}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	code := run(t.Context(), []string{
		"run", "--rules", rules, "--credentials", logins, "--confirm", "perhaps", "--browser-id", "a b",
		"--pipehost", filepath.Join(dir, "none"), "--attach", "ws://127.0.0.1:1/", "--temp-profile",
		"--panel=file:///etc/passwd", "--restart-agent",
	}, strings.NewReader(""), &out, &errs)
	if code != exitUsage {
		t.Errorf("exit %d, want %d", code, exitUsage)
	}
	want := []string{"pipe_actions", "--confirm must be", "--browser-id must be", "agent: ", "--attach takes the browser", "--panel: only http", "leave it out with --panel"}
	if runtime.GOOS != "windows" {
		want = append(want, "chmod 0600")
	}
	for _, w := range want {
		if !strings.Contains(errs.String(), w) {
			t.Errorf("%q is not told in:\n%s", w, errs.String())
		}
	}
	if out.Len() > 0 {
		t.Errorf("stdout: %s", out.String())
	}
	if code := run(t.Context(), []string{"--no-such-flag"}, strings.NewReader(""), io.Discard, io.Discard); code != exitUsage {
		t.Errorf("unknown flag: exit %d", code)
	}
}

func TestAgentGetsTheSameRules(t *testing.T) {
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.json")
	if err := os.WriteFile(rules, []byte(`{"version":"1.0","domains":{"allowed":["oa.example.com"]},"pipe_actions":{"allowed":["click"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SGCLAW_RULES_PATH", filepath.Join(dir, "other.json"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := flags{rules: rules, pipehost: self, tempProfile: true}
	s, err := load(f, func(name string) bool { return name == "rules" || name == "pipehost" || name == "temp-profile" }, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(s.agentEnv, "SGCLAW_RULES_PATH="+rules) || slices.Contains(s.agentEnv, "SGCLAW_RULES_PATH="+filepath.Join(dir, "other.json")) {
		t.Errorf("environment %v", slices.DeleteFunc(s.agentEnv, func(kv string) bool { return !strings.HasPrefix(kv, "SGCLAW") }))
	}
	if s.profile != "" {
		t.Errorf("profile %q, want a fresh one", s.profile)
	}
}
