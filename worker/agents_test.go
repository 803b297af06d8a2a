package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/config"
	"sgclaw/internal/llm/openai"
)

// load reads a configuration from a folder of its own.
func load(t *testing.T, files map[string]string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(config.Options{Path: filepath.Join(dir, "sgclaw.toml")})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const oaRules = `{"version": "1.0", "domains": {"allowed": ["oa.example.com", "*.corp.example.com"]},
	"pipe_actions": {"allowed": ["click", "navigate", "getText"], "blocked": ["type"], "need_confirm": ["sessionLogin"]}}`

func TestProfiles(t *testing.T) {
	cfg := load(t, map[string]string{
		"sgclaw.toml": `
[agent]
human_confirm_actions = ["click"]

[[agents]]
id = "main"

[[agents]]
id = "oa"
default = true
model = "small"
tools = ["click", "getText", "sessionLogin", "type"]
rules_path = "oa.json"
system_prompt_template = "oa.tmpl"
browser = "oa-1"
mode = "steer"
context.strategy = "lite"
`,
		"oa.json": oaRules, "oa.tmpl": "You look after leave requests with {{.Tool}}.",
	})
	got, err := profiles(slog.New(slog.DiscardHandler), cfg, nil, "en")
	if err != nil {
		t.Fatal(err)
	}
	main := cfg.Settings()
	main.Agent, main.Locale = "main", "en"
	oa := main
	oa.Agent, oa.Model, oa.Context = "oa", "small", agent.ContextOptions{Strategy: agent.StrategyLite}
	oa.Actions, oa.Domains = []string{"click", "getText", "sessionLogin"}, []string{"*.corp.example.com", "oa.example.com"}
	oa.ConfirmActions = []string{"click", "sessionLogin"}
	if d := cmp.Diff(got["main"].Settings, main); d != "" {
		t.Errorf("main (-got +want):\n%s", d)
	}
	if d := cmp.Diff(got["oa"].Settings, oa); d != "" {
		t.Errorf("oa (-got +want):\n%s", d)
	}
	if p := got["oa"]; len(got) != 2 || p.Template == nil || p.Browser != "oa-1" || p.Mode != agent.ModeSteer || got["main"].Template != nil {
		t.Errorf("profiles %+v", got)
	}
}

// TestRulesThatLeaveNothing: an empty list would be no limit.
func TestRulesThatLeaveNothing(t *testing.T) {
	for _, tt := range []struct{ rules, tool, want string }{
		{oaRules, "select", "no action"},
		{strings.Replace(oaRules, `["oa.example.com", "*.corp.example.com"]`, "[]", 1), "click", "no domain"},
		{`{"version": "1.0"`, "click", "oa.json"},
	} {
		cfg := load(t, map[string]string{"oa.json": tt.rules, "sgclaw.toml": `
[[agents]]
id = "oa"
tools = ["` + tt.tool + `"]
rules_path = "oa.json"
`})
		if _, err := profiles(slog.New(slog.DiscardHandler), cfg, nil, "en"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

func TestModelsByName(t *testing.T) {
	all := newModels(openai.Config{APIKey: "k", Model: "large", MaxContextTokens: 1234})
	for _, name := range []string{"large", "small"} {
		m, err := all.named(name)
		if err != nil || m.Info().Model != name {
			t.Fatalf("%s: %v", name, err)
		}
		if own := m.Info().MaxContextTokens == 1234; own != (name == "large") {
			t.Errorf("%s has a window of %d tokens", name, m.Info().MaxContextTokens)
		}
		if again, _ := all.named(name); again != m {
			t.Errorf("%s is made anew", name)
		}
	}
}
