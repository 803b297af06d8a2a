package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sgclaw/internal/agent"
	"sgclaw/internal/routing"
)

// load reads a file with the given contents and nothing from the real
// environment. The file's name in messages is sgclaw.toml.
func load(t testing.TB, contents string, env ...string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Env: append([]string{"HOME=" + dir}, env...), Dirs: []string{dir}, Actions: []string{"click", "type"}})
	var faults *FaultsError
	if errors.As(err, &faults) {
		for i := range faults.Faults {
			f := &faults.Faults[i]
			f.File = strings.TrimPrefix(f.File, dir+string(filepath.Separator))
		}
	}
	return c, err
}

// show writes a field's value as TOML; secrets are masked.
func show(f field) string {
	switch f.value.Kind() {
	case reflect.String:
		return strconv.Quote(fmt.Sprint(f.value.Interface()))
	case reflect.Slice:
		return fmt.Sprintf("%q", f.value.Interface())
	case reflect.Map:
		return "{}"
	default:
		return fmt.Sprint(f.value.Interface())
	}
}

// keys are all keys with their defaults.
func keys() []field {
	c := Default(func(string) string { return "" })
	return fieldsOf(&c)
}

// elementKeys are the keys of the elements of lists.
func elementKeys() []field {
	c := Default(func(string) string { return "" })
	var out []field
	for _, l := range listsOf(&c) {
		out = append(out, l.fields()...)
	}
	return out
}

// The defaults that seed 001 gives, in its words.
func TestSeedDefaults(t *testing.T) {
	c, err := Load(Options{Env: []string{}, Dirs: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"general.log_level":                    `"info"`,
		"llm.config.max_tokens":                "4096",
		"llm.config.temperature":               "0.1",
		"agent.max_steps":                      "50",
		"agent.max_thinking_tokens":            "4096",
		"critic.consecutive_failure_threshold": "10",
		"critic.same_action_repeat_limit":      "5",
		"critic.max_task_duration_secs":        "600",
		"circuit_breaker.failure_threshold":    "10",
		"circuit_breaker.cooldown_base_secs":   "1",
		"circuit_breaker.cooldown_max_secs":    "30",
		"circuit_breaker.reset_on_success":     "true",
		"memory.short_term_max_messages":       "50",
		"memory.short_term_max_tokens":         "8000",
		"security.rules_path":                  `"rules.json"`,
		"security.skill_public_key_path":       `"keys/skill_verify.pub"`,
		"skills.skills_dir":                    `"sgclaw-skills"`,
	}
	for _, f := range fieldsOf(c) {
		if w, ok := want[f.name]; ok && show(f) != w {
			t.Errorf("%s = %s, seed says %s", f.name, show(f), w)
		}
		delete(want, f.name)
	}
	for name := range want {
		t.Errorf("no key %s", name)
	}
	if c.Path != "" || len(c.Warnings) > 0 {
		t.Errorf("path %q, warnings %q", c.Path, c.Warnings)
	}
}

// The seed's own file (001 §7.1) loads as it stands.
func TestSeedFile(t *testing.T) {
	data, err := os.ReadFile("testdata/seed.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(t, string(data))
	if err != nil {
		t.Fatal(err)
	}
	if c.LLM.Provider != "claude" || c.LLM.Model != "claude-sonnet-4-20250514" {
		t.Errorf("llm: %+v", c.LLM)
	}
	want := []MCPServer{{Name: "filesystem", Command: "npx", Args: []string{"-y", "@anthropic/mcp-server-filesystem", "/tmp"}}}
	if diff := cmp.Diff(want, c.MCP.Servers); diff != "" {
		t.Error(diff)
	}
	if got, want := c.Security.RulesPath, filepath.Join(filepath.Dir(c.Path), "rules.json"); got != want {
		t.Errorf("rules path %q, want %q", got, want)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "memory.db_path has no effect") {
		t.Errorf("warnings: %q", c.Warnings)
	}
	if err := c.RequireModel(); err == nil || !strings.Contains(err.Error(), "not available in this version") || !strings.Contains(err.Error(), "sgclaw.toml:8") {
		t.Errorf("RequireModel: %v", err)
	}
}

func TestLoadFaults(t *testing.T) {
	tests := []struct {
		name string
		file string
		env  []string
		want []string
	}{
		{name: "all at once",
			file: "[general]\nlog_level = \"loud\"\n\n[agent]\nmax_step = 3\nmax_steps = \"many\"\nmax_thinking_tokens = 0\n[lllm]\nx = 1\ny = 2\n",
			env:  []string{"SGCLAW_LLM_CONFIG_TEMPERATURE=hot", "SGCLAW_MAX_STEPS=0"},
			want: []string{
				`sgclaw.toml:2: general.log_level: must be one of trace, debug, info, warn, error, is "loud"`,
				`sgclaw.toml:5: agent.max_step: unknown key; did you mean "max_steps"?`,
				`sgclaw.toml:6: agent.max_steps: must be a whole number, is a string`,
				`sgclaw.toml:7: agent.max_thinking_tokens: must be from 1 to 1000000, is 0`,
				`sgclaw.toml:8: lllm: unknown section; did you mean "llm"?`,
				`SGCLAW_LLM_CONFIG_TEMPERATURE: must be a number, is "hot"`,
				`SGCLAW_MAX_STEPS: must be from 1 to 1000, is 0`,
			}},
		{name: "not TOML", file: "[llm]\nmodel = \n", want: []string{"sgclaw.toml:2: not TOML: "}},
		{name: "twice", file: "[llm]\nmodel = \"a\"\nmodel = \"b\"\n", want: []string{"sgclaw.toml:3: not TOML: "}},
		{name: "types",
			file: "llm = {model = 1, config = {temperature = \"x\", max_tokens = 1.5}}\nbrowser.id = [\"x\"]\n[agent]\nhuman_confirm_actions = \"click\"\n[circuit_breaker]\nreset_on_success = 1\nfailure_threshold = 1979-05-27\n[browserhost]\nheadless = \"yes\"\n",
			want: []string{
				`sgclaw.toml:1: llm.model: must be a string, is 1`,
				`sgclaw.toml:1: llm.config.temperature: must be a number, is a string`,
				`sgclaw.toml:1: llm.config.max_tokens: must be a whole number, is 1.5`,
				`sgclaw.toml:2: browser.id: must be a string, is a list`,
				`sgclaw.toml:4: agent.human_confirm_actions: must be a list of strings, is a string`,
				`sgclaw.toml:6: circuit_breaker.reset_on_success: must be true or false, is 1`,
				`sgclaw.toml:7: circuit_breaker.failure_threshold: must be a whole number, is a date or time`,
				`sgclaw.toml:9: browserhost.headless: must be true or false, is a string`,
			}},
		{name: "sections and keys mixed up",
			file: "agent = 1\nmax_steps = 3\nfoo.bar = 1\n[llm.model]\n[[agent]]\n[[llm]]\n",
			want: []string{"not TOML: "}},
		{name: "key in the wrong place",
			file: "max_steps = 3\n[mcp]\nserver = 1\n[temporal]\nurl = \"x\"\n[general]\nagent = 1\n[[skills]]\nx = 1\n",
			want: []string{
				`sgclaw.toml:1: max_steps: unknown key; did you mean agent.max_steps?`,
				`sgclaw.toml:3: mcp.server: unknown key`,
				`sgclaw.toml:5: temporal.url: unknown key; did you mean database.url?`,
				`sgclaw.toml:7: general.agent: unknown key`,
				`sgclaw.toml:8: skills: is not a list of tables`,
			}},
		{name: "forms",
			file: "[temporal]\naddress = \"localhost\"\nnamespace = \"a b\"\ntls_cert_file = \"x.pem\"\n[llm]\nbase_url = \"localhost:11434\"\n[database]\nurl = \"mysql://u:hunter2@h/d\"\n[browserhost]\nstart_url = \"file:///etc/passwd\"\n[circuit_breaker]\ncooldown_base_secs = 60\n[agent]\nhuman_confirm_actions = [\"clik\"]\n",
			want: []string{
				`sgclaw.toml:2: temporal.address: must be host:port, is "localhost"`,
				`sgclaw.toml:3: temporal.namespace: must be 1 to 128 letters`,
				`sgclaw.toml:4: temporal.tls_cert_file: needs tls_key_file too`,
				`sgclaw.toml:6: llm.base_url: must be an http or https URL`,
				`sgclaw.toml:8: database.url: must be a URL like postgres://`,
				`sgclaw.toml:10: browserhost.start_url: must be an http or https URL`,
				`circuit_breaker.cooldown_max_secs: must not be less than cooldown_base_secs, which is 60`,
				`sgclaw.toml:14: agent.human_confirm_actions: unknown action "clik"; did you mean "click"?`,
			}},
		{name: "empty", file: "[llm]\nmodel = \"\"\n[temporal]\naddress = \"\"\nnamespace = \"\"\n", want: []string{
			"sgclaw.toml:2: llm.model: is empty", "sgclaw.toml:4: temporal.address: is empty", "sgclaw.toml:5: temporal.namespace: is empty"}},
		{name: "mcp",
			file: "[[mcp.servers]]\nname = \"a\"\ncommand = \"x\"\n[mcp.servers.env]\nTOKEN = 1\n[[mcp.servers]]\nname = \"a\"\nargs = [1]\ncmd = \"\"\n",
			want: []string{
				`sgclaw.toml:5: mcp.servers.env.TOKEN: must be a string, is 1`,
				`sgclaw.toml:6: mcp.servers: name "a" is taken by the server on line 1`,
				`sgclaw.toml:6: mcp.servers: needs a command`,
				`sgclaw.toml:8: mcp.servers.args: must be a list of strings`,
				`sgclaw.toml:9: mcp.servers.cmd: unknown key`,
			}},
		{name: "agents",
			file: "[[agents]]\nid = \"a\"\ndefault = true\ntools = [\"clik\"]\n[agents.context]\ninclude_history = true\nstrategy = \"some\"\n" +
				"[[agents]]\nid = \"a\"\ndefault = true\nmode = \"stear\"\nmodell = \"x\"\n[[agents]]\nid = \"Sales Bot\"\n[[agents]]\nname = 1\ncontext.strategy = \"lite\"\n[agents.contxt]\n",
			want: []string{
				`sgclaw.toml:4: agents.tools: unknown action "clik"; did you mean "click"?`,
				`sgclaw.toml:6: agents.context.include_history: has an effect with strategy = "custom" only`,
				`sgclaw.toml:7: agents.context.strategy: must be one of full, lite, custom, is "some"`,
				`sgclaw.toml:9: agents.id: "a" is taken by the agent on line 1`,
				`sgclaw.toml:10: agents.default: the agent on line 1 is the default already`,
				`sgclaw.toml:11: agents.mode: must be one of queue, steer, interrupt, is "stear"`,
				`sgclaw.toml:12: agents.modell: unknown key; did you mean "model"?`,
				`sgclaw.toml:14: agents.id: must be 1 to 64 lower-case letters, digits, dashes and underscores, is "Sales Bot"`,
				`sgclaw.toml:15: agents: needs an id`,
				`sgclaw.toml:16: agents.name: must be a string, is 1`,
				`sgclaw.toml:18: agents.contxt: unknown section; did you mean "agents.context"?`,
			}},
		{name: "agents elsewhere", file: "[agents.context]\nstrategy = \"lite\"\n[gateway]\nagents = 1\n", want: []string{
			"sgclaw.toml:1: agents.context: must follow a [[agents]]", "sgclaw.toml:4: gateway.agents: unknown key"}},
		{name: "agents as a table", file: "[agents]\nid = \"a\"\n", want: []string{"sgclaw.toml:1: agents: is a list of tables; write [[agents]]"}},
		{name: "bindings",
			file: "[[agents]]\nid = \"sales\"\n[[bindings]]\nagent = \"sale\"\nchannel = \"wecom\"\n[[bindings]]\nagent = \"sales\"\npeer = {kind = \"group\"}\n" +
				"[[bindings]]\nchannel = \"wecom\"\npeer = {kind = \"crowd\", id = \"1\"}\n[bindings.parent_peer]\nid = \"7\"\n",
			want: []string{
				`sgclaw.toml:4: bindings.agent: no agent "sale" in [[agents]]; did you mean "sales"?`,
				`sgclaw.toml:6: bindings: needs a channel`,
				`sgclaw.toml:8: bindings.peer: needs both kind and id`,
				`sgclaw.toml:9: bindings: needs an agent`,
				`sgclaw.toml:11: bindings.peer.kind: must be one of direct, group, channel, is "crowd"`,
				`sgclaw.toml:9: bindings.parent_peer: needs both kind and id`,
			}},
		{name: "a binding without agents", file: "[[bindings]]\nagent = \"sales\"\nchannel = \"wecom\"\n", want: []string{`no agent "sales" in [[agents]]`}},
		{name: "session",
			file: "[session]\ndm_scope = \"per-user\"\nmain_key = \"\"\n[session.identity_links]\nzhang = [\"wecom:1\", \":x\"]\nZhang = [\"a\"]\nli = [\"WeCom:1\", \"@bob:example.org\"]\nwang = 1\n",
			want: []string{
				`sgclaw.toml:2: session.dm_scope: must be one of main, per-peer, per-channel-peer, per-account-channel-peer, is "per-user"`,
				`sgclaw.toml:3: session.main_key: is empty`,
				`sgclaw.toml:5: session.identity_links.zhang: ":x" must be "channel:id", or an id alone`,
				`sgclaw.toml:5: session.identity_links.zhang: "wecom:1" is linked to "li" already`,
				`sgclaw.toml:5: session.identity_links.zhang: is the same name as "Zhang"`,
				`sgclaw.toml:7: session.identity_links.li: "@bob:example.org" must be "channel:id", or an id alone`,
				`sgclaw.toml:8: session.identity_links.wang: must be a list of strings, is 1`,
			}},
		{name: "gateway",
			file: "[gateway]\nlisten = \"18789\"\ntls_cert_file = \"c.pem\"\norigins = [\"https://a.example\", \"a.example\"]\nhosts = [\"a.example\", \"https://a.example\"]\nmax_frame_bytes = 33554432\nmax_clients = 0\ntoken = 5\n",
			env:  []string{"SGCLAW_GATEWAY_DEVICE_SIGNATURES=on"},
			want: []string{
				`sgclaw.toml:2: gateway.listen: must be host:port to listen at, e.g. 127.0.0.1:18789, is "18789"`,
				`sgclaw.toml:3: gateway.tls_cert_file: needs tls_key_file too`,
				`sgclaw.toml:4: gateway.origins: must be origins like https://office.example.com or chrome-extension://id, has "a.example"`,
				`sgclaw.toml:5: gateway.hosts: must be names of hosts without scheme and port, has "https://a.example"`,
				`gateway.max_buffered_bytes: must not be less than max_frame_bytes, which is 33554432`,
				`sgclaw.toml:7: gateway.max_clients: must be from 1 to 1000000, is 0`,
				`sgclaw.toml:8: gateway.token: must be a string, is 5`,
				`SGCLAW_GATEWAY_DEVICE_SIGNATURES: must be one of off, verify, is "on"`,
			}},
		{name: "two variables for one key", env: []string{"SGCLAW_MAX_STEPS=3", "SGCLAW_AGENT_MAX_STEPS=4"},
			want: []string{"SGCLAW_MAX_STEPS: says something else than SGCLAW_AGENT_MAX_STEPS; both set agent.max_steps"}},
		{name: "variables", env: []string{"SGCLAW_BROWSERHOST_HEADLESS=maybe", "SGCLAW_LLM_PROVIDER=gemini", "SGCLAW_DATABASE_URL=nonsense hunter2", "SGCLAW_AGENT_HUMAN_CONFIRM_ACTIONS=click, tpye"},
			want: []string{
				`SGCLAW_AGENT_HUMAN_CONFIRM_ACTIONS: unknown action "tpye"; did you mean "type"?`,
				`SGCLAW_BROWSERHOST_HEADLESS: must be true or false, is "maybe"`,
				`SGCLAW_DATABASE_URL: must be a URL like postgres://`,
				`SGCLAW_LLM_PROVIDER: must be one of openai, claude, ollama, is "gemini"`,
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.file, tt.env...)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(tt.want) {
				t.Fatalf("got\n%s\nwant\n%s", err, strings.Join(tt.want, "\n"))
			}
			for _, w := range tt.want {
				if !containsPart(got, w) {
					t.Errorf("no fault %q in\n%s", w, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("the error shows a secret")
			}
		})
	}
}

func containsPart(lines []string, part string) bool {
	for _, l := range lines {
		if strings.Contains(l, part) {
			return true
		}
	}
	return false
}

func TestPrecedence(t *testing.T) {
	c, err := load(t, "[agent]\nmax_steps = 7\nmax_thinking_tokens = 70\n[llm]\nmodel = \"from-file\"\n",
		"SGCLAW_MAX_STEPS=9", "SGCLAW_LLM_API_KEY=sk-1", "SGCLAW_LLM_MODEL=", "SGCLAW_AGENT_HUMAN_CONFIRM_ACTIONS=click, type")
	if err != nil {
		t.Fatal(err)
	}
	want := agent.Settings{MaxSteps: 9, MaxThinkingTokens: 70, ConfirmActions: []string{"click", "type"},
		FailureThreshold: 10, RepeatLimit: 5, MaxTaskS: 600}
	if diff := cmp.Diff(want, c.Settings()); diff != "" {
		t.Error(diff)
	}
	if c.LLM.Model != "from-file" {
		t.Errorf("an empty variable counts: model %q", c.LLM.Model)
	}
	if c.LLM.APIKey.Reveal() != "sk-1" {
		t.Error("SGCLAW_LLM_API_KEY is not read")
	}
	origins := map[string]string{
		"agent.max_steps":           "SGCLAW_MAX_STEPS",
		"agent.max_thinking_tokens": c.Path + ":3",
		"llm.provider":              "default",
	}
	for key, want := range origins {
		if got := c.Origin(key); got != want {
			t.Errorf("origin of %s: %s, want %s", key, got, want)
		}
	}
}

// The variables of seed 001 §7.2.
func TestSeedVariables(t *testing.T) {
	c, err := load(t, "", "SGCLAW_LOG_LEVEL=debug", "SGCLAW_LLM_PROVIDER=ollama", "SGCLAW_LLM_MODEL=qwen2.5:32b", "SGCLAW_LLM_API_KEY=sk-x",
		"SGCLAW_LLM_BASE_URL=http://localhost:11434", "SGCLAW_MAX_STEPS=100", "SGCLAW_RULES_PATH=/etc/sgclaw/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.General.LogLevel, c.LLM.Provider, c.LLM.Model, c.LLM.APIKey.Reveal(), c.LLM.BaseURL, strconv.Itoa(c.Agent.MaxSteps), c.Security.RulesPath}
	want := []string{"debug", "ollama", "qwen2.5:32b", "sk-x", "http://localhost:11434", "100", "/etc/sgclaw/rules.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgents(t *testing.T) {
	c, err := load(t, `
agents = [{id = "front-desk", name = "Front desk", rules_path = "desk.json", context = {strategy = "lite"}}]
[session]
dm_scope = "per-peer"
identity_links.zhang = ["wecom:zhangsan", "telegram:1"]
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Agents) != 1 || c.Agents[0].Title() != "Front desk" || c.Agents[0].Context.Strategy != agent.StrategyLite || len(c.Session.IdentityLinks["zhang"]) != 2 {
		t.Errorf("the short form: %+v, %v", c.Agents, c.Session.IdentityLinks)
	}
	c, err = load(t, `
[[agents]]
id = "front-desk"
name = "Front desk"
tools = ["click"]
rules_path = "desk.json"
context = {strategy = "lite"}
[[agents]]
id = "sales"
default = true
model = "big"
[agents.context]
strategy = "custom"
include_history = true
exclude_tools = ["type"]
[[bindings]]
agent = "front-desk"
channel = "wecom"
account = "*"
peer = {kind = "group", id = "g:1"}
[[bindings]]
agent = "sales"
channel = "slack"
team = "T1"
[bindings.parent_peer]
kind = "channel"
id = "C1"
[session.identity_links]
zhang = ["wecom:zhangsan", "telegram:1"]
"li.si" = ["li"]
`)
	if err != nil {
		t.Fatal(err)
	}
	agents := []AgentProfile{
		{ID: "front-desk", Name: "Front desk", Tools: []string{"click"}, RulesPath: filepath.Join(filepath.Dir(c.Path), "desk.json"), Context: AgentContext{Strategy: agent.StrategyLite}},
		{ID: "sales", Default: true, Model: "big", Context: AgentContext{Strategy: agent.StrategyCustom, IncludeHistory: true, ExcludeTools: []string{"type"}}},
	}
	if diff := cmp.Diff(agents, c.Profiles()); diff != "" {
		t.Error(diff)
	}
	bindings := []Binding{
		{Agent: "front-desk", Channel: "wecom", Account: "*", Peer: BindingPeer{Kind: "group", ID: "g:1"}},
		{Agent: "sales", Channel: "slack", Team: "T1", ParentPeer: BindingPeer{Kind: "channel", ID: "C1"}},
	}
	if diff := cmp.Diff(bindings, c.Bindings); diff != "" {
		t.Error(diff)
	}
	links := map[string][]string{"zhang": {"wecom:zhangsan", "telegram:1"}, "li.si": {"li"}}
	if diff := cmp.Diff(links, c.Session.IdentityLinks); diff != "" {
		t.Error(diff)
	}
	if c.DefaultAgent() != "sales" {
		t.Errorf("default agent %q", c.DefaultAgent())
	}
	if p, ok := c.Profile("front-desk"); !ok || p.Title() != "Front desk" {
		t.Errorf("front-desk: %+v, %v", p, ok)
	}
	if p, ok := c.Profile("ghost"); ok {
		t.Errorf("ghost: %+v", p)
	}
	wantRouting := routing.Config{
		Agents: []string{"front-desk", "sales"}, Default: "sales", Scope: routing.ScopePerChannelPeer, MainKey: "main", Links: links,
		Bindings: []routing.Binding{
			{Agent: "front-desk", Channel: "wecom", Account: "*", Peer: routing.Peer{Kind: "group", ID: "g:1"}},
			{Agent: "sales", Channel: "slack", Team: "T1", Parent: routing.Peer{Kind: "channel", ID: "C1"}},
		},
	}
	if diff := cmp.Diff(wantRouting, c.Routing()); diff != "" {
		t.Error(diff)
	}
	s := c.SettingsFor(agents[1])
	if s.Agent != "sales" || s.Model != "big" || s.MaxSteps != 50 || s.Context.Strategy != agent.StrategyCustom || !s.Context.IncludeHistory {
		t.Errorf("settings: %+v", s)
	}
}

func TestDefaultAgent(t *testing.T) {
	tests := []struct{ file, want string }{
		{"", "main"},
		{"[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\n", "a"},
		{"[[agents]]\nid = \"a\"\n[[agents]]\nid = \"b\"\ndefault = true\n", "b"},
	}
	for _, tt := range tests {
		c, err := load(t, tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.DefaultAgent(); got != tt.want {
			t.Errorf("default agent of %q: %q, want %q", tt.file, got, tt.want)
		}
	}
}

func TestWhichFile(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write := func(path, model string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte("llm.model = \""+model+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(filepath.Join(b, FileName), "beside")
	named := write(filepath.Join(a, "named.toml"), "named")
	flag := write(filepath.Join(a, "flag.toml"), "flag")
	tests := []struct {
		name string
		o    Options
		want string
		err  string
	}{
		{"none", Options{Env: []string{}, Dirs: []string{a}}, "gpt-4o", ""},
		{"second directory", Options{Env: []string{}, Dirs: []string{a, b}}, "beside", ""},
		{"variable", Options{Env: []string{"SGCLAW_CONFIG=" + named}, Dirs: []string{b}}, "named", ""},
		{"flag", Options{Path: flag, Env: []string{"SGCLAW_CONFIG=" + named}, Dirs: []string{b}}, "flag", ""},
		{"named and missing", Options{Env: []string{"SGCLAW_CONFIG=" + a + "/no.toml"}, Dirs: []string{b}}, "", "(named by SGCLAW_CONFIG)"},
		{"flag and missing", Options{Path: a + "/no.toml", Env: []string{}}, "", "(named by --config)"},
		{"a directory", Options{Path: a, Env: []string{}}, "", a},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(tt.o)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.LLM.Model != tt.want {
				t.Errorf("model %q, want %q", c.LLM.Model, tt.want)
			}
		})
	}
}

func TestPaths(t *testing.T) {
	c, err := load(t, "[security]\nrules_path = \"my/rules.json\"\n[skills]\nskills_dir = \"/abs/skills\"\n[browserhost]\nchrome = \"chromium\"\npipehost = \"./bin/pipehost\"\ncredentials = \"~/creds.toml\"\n",
		"SGCLAW_LLM_API_KEY_FILE=key.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(c.Path)
	got := []string{c.Security.RulesPath, c.Skills.SkillsDir, c.Browserhost.Chrome, c.Browserhost.Pipehost, c.Browserhost.Credentials, c.LLM.APIKeyFile, c.Security.SkillPublicKeyPath}
	want := []string{filepath.Join(dir, "my/rules.json"), "/abs/skills", "chromium", filepath.Join(dir, "bin/pipehost"), filepath.Join(dir, "creds.toml"), "key.txt", filepath.Join(dir, "keys/skill_verify.pub")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDataDir(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == name {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	tests := []struct {
		goos string
		env  func(string) string
		want string
	}{
		{"linux", env("HOME", "/home/u"), "/home/u/.local/share/sgclaw"},
		{"linux", env("HOME", "/home/u", "XDG_DATA_HOME", "/data"), "/data/sgclaw"},
		{"linux", env("HOME", "/home/u", "XDG_DATA_HOME", "relative"), "/home/u/.local/share/sgclaw"},
		{"linux", env(), ""},
		{"darwin", env("HOME", "/Users/u"), "/Users/u/Library/Application Support/sgclaw"},
		{"windows", env("LOCALAPPDATA", "/l"), "/l/sgclaw"},
	}
	for _, tt := range tests {
		if got := filepath.ToSlash(dataDir(tt.goos, tt.env)); got != tt.want {
			t.Errorf("dataDir(%s) = %q, want %q", tt.goos, got, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte("llm.api_key = \"sk-secret\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Path: path, Env: []string{"SGCLAW_LLM_APIKEY=x", "SGCLAW_SOMETHING_ELSE_ALTOGETHER=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 2 || !containsPart(c.Warnings, "chmod 600") || !containsPart(c.Warnings, "did you mean SGCLAW_LLM_API_KEY?") {
		t.Errorf("warnings: %q", c.Warnings)
	}
}

func TestRequire(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("sk-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model, gateway := (*Config).RequireModel, (*Config).RequireGateway
	tests := []struct {
		name    string
		env     []string
		require func(*Config) error
		want    string // part of the error; empty: none
	}{
		{"no key", nil, model, "set SGCLAW_LLM_API_KEY"},
		{"key", []string{"SGCLAW_LLM_API_KEY=x"}, model, ""},
		{"key file", []string{"SGCLAW_LLM_API_KEY_FILE=" + key}, model, ""},
		{"key file missing", []string{"SGCLAW_LLM_API_KEY_FILE=" + key + "x"}, model, "llm.api_key_file: open"},
		{"own service", []string{"SGCLAW_LLM_BASE_URL=http://127.0.0.1:1/v1"}, model, ""},
		{"ollama", []string{"SGCLAW_LLM_PROVIDER=ollama", "SGCLAW_LLM_API_KEY=x"}, model, `provider "ollama" is not available in this version`},
		{"database", nil, (*Config).RequireDatabase, ""},
		{"no rules", nil, func(c *Config) error { return c.RequireRules(c.Security.RulesPath) }, "without rules nothing is allowed"},
		{"rules", []string{"SGCLAW_RULES_PATH=" + key}, func(c *Config) error { return c.RequireRules(c.RulesPath()) }, ""},
		{"gateway", nil, gateway, ""},
		{"gateway at localhost", []string{"SGCLAW_GATEWAY_LISTEN=localhost:1"}, gateway, ""},
		{"gateway at [::1]", []string{"SGCLAW_GATEWAY_LISTEN=[::1]:1"}, gateway, ""},
		{"gateway for all without a token of its own", []string{"SGCLAW_GATEWAY_LISTEN=:18789"}, gateway, ""},
		{"gateway for others with a short token", []string{"SGCLAW_GATEWAY_LISTEN=:1", "SGCLAW_GATEWAY_TOKEN_FILE=" + key}, gateway, "too short"},
		{"gateway for others with a token", []string{"SGCLAW_GATEWAY_LISTEN=:1", "SGCLAW_GATEWAY_TOKEN=0123456789abcdef"}, gateway, ""},
		{"gateway's token file missing", []string{"SGCLAW_GATEWAY_TOKEN_FILE=" + key + "x"}, gateway, "gateway.token_file: open"},
		{"gateway's certificate missing", []string{"SGCLAW_GATEWAY_TLS_CERT_FILE=" + key + "x", "SGCLAW_GATEWAY_TLS_KEY_FILE=" + key}, gateway, "gateway.tls_cert_file: open"},
		{"no data directory", []string{"HOME=", "LOCALAPPDATA="}, (*Config).RequireDataDir, "SGCLAW_PIPEHOST_DATA_DIR"},
		{"data directory", []string{"SGCLAW_PIPEHOST_DATA_DIR=" + filepath.Join(dir, "a", "b")}, (*Config).RequireDataDir, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := load(t, "", tt.env...)
			if err != nil {
				t.Fatal(err)
			}
			err = tt.require(c)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	c, err := load(t, "", "SGCLAW_LLM_API_KEY_FILE="+key)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := c.ModelKey(); err != nil || k.Reveal() != "sk-file" {
		t.Errorf("key from file: %q, %v", k.Reveal(), err)
	}
}

func TestSecretIsNotShown(t *testing.T) {
	c, err := load(t, "[mcp]\nservers = [{name = \"a\", command = \"b\", env = {T = \"hunter2\"}}]\n", "SGCLAW_LLM_API_KEY=hunter2", "SGCLAW_GATEWAY_TOKEN=hunter2", "SGCLAW_DATABASE_URL=postgres://u:hunter2@h/d")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+"\n", *c)
		fmt.Fprintf(&out, verb+"\n", c.LLM.APIKey)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("config", "config", *c, "key", c.LLM.APIKey)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("config", "config", c, "key", c.LLM.APIKey)
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q is shown", leak)
		}
	}
	if Secret("").String() != "" {
		t.Error("no secret shows as one")
	}
}

func TestLogger(t *testing.T) {
	c, err := load(t, "", "SGCLAW_LOG_LEVEL=trace", "SGCLAW_GENERAL_LOG_FORMAT=json")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c.Logger(&out).Log(t.Context(), LevelTrace, "hello")
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Level != "TRACE" || line.Msg != "hello" {
		t.Errorf("%s (%v)", out.String(), err)
	}
	out.Reset()
	c.General.LogLevel, c.General.LogFormat = "warn", "text"
	c.Logger(&out).Info("quiet")
	if out.Len() > 0 {
		t.Errorf("info at level warn: %s", out.String())
	}
}

// The struct tags are read without checks at run time, so they are checked
// here: each number has a range, its default lies in it, and no two keys
// share a variable.
func TestTags(t *testing.T) {
	c := Default(os.Getenv)
	env := make(map[string]string)
	for _, f := range append(fieldsOf(&c), elementKeys()...) {
		if k := f.value.Kind(); k == reflect.Int || k == reflect.Float64 {
			least, most, ok := strings.Cut(f.tag.Get("range"), ",")
			_, err1 := strconv.ParseFloat(least, 64)
			_, err2 := strconv.ParseFloat(most, 64)
			if !ok || err1 != nil || err2 != nil {
				t.Errorf("%s: range %q", f.name, f.tag.Get("range"))
			}
		}
		var fault string
		switch f.value.Kind() {
		case reflect.Int:
			fault = f.setInt(f.value.Int())
		case reflect.Float64:
			fault = f.setFloat(f.value.Float())
		case reflect.String:
			fault = f.setString(f.value.String(), "", "")
		case reflect.Bool, reflect.Slice, reflect.Map:
		default:
			t.Errorf("%s: no support for %s", f.name, f.value.Type())
		}
		if fault != "" {
			t.Errorf("default of %s: %s", f.name, fault)
		}
		for _, name := range f.env {
			if other, taken := env[name]; taken {
				t.Errorf("%s is %s and %s", name, other, f.name)
			}
			env[name] = f.name
		}
	}
}

// The sample file is the defaults, written out.
func TestExampleFile(t *testing.T) {
	data, err := os.ReadFile("../../sgclaw.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(t, string(data))
	if err != nil {
		t.Fatal(err)
	}
	want := Default(func(name string) string {
		if name == "HOME" {
			return filepath.Dir(c.Path)
		}
		return ""
	})
	l := loader{fields: fieldsOf(&want), base: filepath.Dir(c.Path)}
	l.resolveDefaults()
	if diff := cmp.Diff(&want, c, cmpopts.IgnoreFields(Config{}, "Path", "Warnings"), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
	// What is commented in it loads too.
	uncommented := regexp.MustCompile(`(?m)^# (\[|[a-z_]+ = )`).ReplaceAllString(string(data), "$1")
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(uncommented), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(Options{Path: path, Env: []string{}}); err != nil {
		t.Error(err)
	} else if len(c.Agents) != 1 || len(c.Bindings) != 1 {
		t.Errorf("agents: %+v", c.Agents)
	}
	// With its commented keys it names every key.
	for _, k := range append(keys(), elementKeys()...) {
		_, key, _ := cutLast(k.name, ".")
		if rest, ok := strings.CutPrefix(k.name, "bindings."); ok && rest != key {
			key, _, _ = strings.Cut(rest, ".") // the inline tables peer and parent_peer
		}
		if !strings.Contains(string(data), "\n"+key+" = ") && !strings.Contains(string(data), "\n# "+key+" = ") {
			t.Errorf("sgclaw.example.toml does not show %s", k.name)
		}
	}
}

// docs/configuration.md has a row for every key with its default and
// variables.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys() {
		section, key, _ := cutLast(k.name, ".")
		_, rest, ok := strings.Cut(string(data), "\n## ["+section+"]")
		if !ok {
			t.Errorf("no section [%s]", section)
			continue
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		row := ""
		for line := range strings.Lines(rest) {
			if strings.HasPrefix(line, "| `"+key+"` |") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("no row for %s", k.name)
			continue
		}
		for _, env := range k.env {
			if !strings.Contains(row, "`"+env+"`") {
				t.Errorf("row of %s does not name %s", k.name, env)
			}
		}
		if k.name == "database.url" || k.name == "pipehost.data_dir" { // masked, and different everywhere
			continue
		}
		if !strings.Contains(row, "| `"+show(k)+"` |") {
			t.Errorf("row of %s does not give its default `%s`", k.name, show(k))
		}
	}
}

// The keys of lists' elements have rows too, without variables.
func TestElementsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	must := map[string]bool{"agents.id": true, "bindings.agent": true, "bindings.channel": true}
	for _, k := range elementKeys() {
		if strings.HasPrefix(k.name, "mcp.") {
			continue
		}
		section, key, _ := strings.Cut(k.name, ".")
		_, rest, _ := strings.Cut(string(data), "\n## [["+section+"]]")
		rest, _, _ = strings.Cut(rest, "\n## ")
		row := "\n| `" + key + "` | `" + show(k) + "` |"
		if must[k.name] {
			row = "\n| `" + key + "` | none |"
		}
		if !strings.Contains(rest, row) {
			t.Errorf("no row %q", strings.TrimSpace(row))
		}
	}
}

// FuzzLoad looks for panics, and for configurations that load and are out of
// bounds.
func FuzzLoad(f *testing.F) {
	seed, err := os.ReadFile("testdata/seed.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, "SGCLAW_MAX_STEPS=1")
	f.Add([]byte("llm = {model = 'x', config = {temperature = 1}}\n[[mcp.servers]]\nenv.A = ''\n"), "SGCLAW_LLM_CONFIG_TEMPERATURE=NaN")
	f.Add([]byte("mcp.servers = [{}, {env = {\"a.b\" = 1}}]\nagent.human_confirm_actions = [ # x\n'a', ]\n"), "SGCLAW_BROWSER_ID=é")
	f.Fuzz(func(t *testing.T, data []byte, env string) {
		c := Default(func(string) string { return "" })
		c.origins = make(map[string]string)
		l := &loader{config: &c, fields: fieldsOf(&c), lists: listsOf(&c), file: FileName, base: "/base"}
		l.parse(data)
		if name, value, ok := strings.Cut(env, "="); ok {
			l.readEnv(map[string]string{name: value})
		}
		l.checkTogether()
		if err := faultsError(l.faults); err != nil {
			if err.Error() == "" {
				t.Fatal("empty error")
			}
			return
		}
		for _, f := range fieldsOf(&c) {
			switch f.value.Kind() {
			case reflect.Int:
				if fault := f.setInt(f.value.Int()); fault != "" {
					t.Fatalf("%s: %s", f.name, fault)
				}
			case reflect.Float64:
				if fault := f.setFloat(f.value.Float()); fault != "" {
					t.Fatalf("%s: %s", f.name, fault)
				}
			}
		}
	})
}
