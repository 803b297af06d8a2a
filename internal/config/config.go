// Package config reads sgclaw's configuration: compiled-in defaults, then
// sgclaw.toml, then SGCLAW_* environment variables, the later winning (seed
// 001 §7). It is read once, in main; everything else takes values.
//
// [Load] checks everything and reports all faults at once, each with its
// file and line or its variable. What only some binaries need (a model, a
// database) is checked by the Require methods, so that a machine with a
// browser needs no API key.
//
// docs/configuration.md lists every key; a test holds it to this package.
package config

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"sgclaw/internal/agent"
)

// Config is the whole configuration. The sections and keys are those of seed
// 001 §7.1, and further ones for what the seed lacks.
type Config struct {
	General        General        `toml:"general"`
	LLM            LLM            `toml:"llm"`
	Agent          Agent          `toml:"agent"`
	Critic         Critic         `toml:"critic"`
	CircuitBreaker CircuitBreaker `toml:"circuit_breaker"`
	Memory         Memory         `toml:"memory"`
	Security       Security       `toml:"security"`
	Skills         Skills         `toml:"skills"`
	MCP            MCP            `toml:"mcp"`
	Temporal       Temporal       `toml:"temporal"`
	Database       Database       `toml:"database"`
	Browser        Browser        `toml:"browser"`
	Pipehost       Pipehost       `toml:"pipehost"`
	Browserhost    Browserhost    `toml:"browserhost"`
	Worker         Worker         `toml:"worker"`
	Agents         []AgentProfile `toml:"agents"`
	Bindings       []Binding      `toml:"bindings"`
	Session        Session        `toml:"session"`
	Gateway        Gateway        `toml:"gateway"`

	// Path is the file that was read; empty if there was none.
	Path string `toml:"-"`
	// Warnings are things that are not wrong and not good either, for main
	// to log.
	Warnings []string `toml:"-"`

	origins map[string]string
}

// General is [general].
type General struct {
	LogLevel  string `toml:"log_level" oneof:"trace|debug|info|warn|error" env:"SGCLAW_LOG_LEVEL"`
	LogFormat string `toml:"log_format" oneof:"text|json"`
	// Locale is "zh", "en", or empty: what the system says.
	Locale string `toml:"locale" oneof:"|zh|en" env:"SGCLAW_LOCALE"`
}

// LLM is [llm].
type LLM struct {
	Provider string `toml:"provider" oneof:"openai|claude|ollama"`
	Model    string `toml:"model"`
	// APIKey wins over APIKeyFile. Use Config.ModelKey.
	APIKey     Secret    `toml:"api_key"`
	APIKeyFile string    `toml:"api_key_file" form:"path"`
	BaseURL    string    `toml:"base_url" form:"http"`
	Config     LLMConfig `toml:"config"`
}

// LLMConfig is [llm.config].
type LLMConfig struct {
	MaxTokens   int     `toml:"max_tokens" range:"1,1000000"`
	Temperature float64 `toml:"temperature" range:"0,2"`
	// MaxContextTokens is the model's window; 0: what is known of the model.
	MaxContextTokens int `toml:"max_context_tokens" range:"0,100000000"`
	// IdleTimeoutSecs is how long the service may be silent in a call.
	IdleTimeoutSecs Seconds `toml:"idle_timeout_secs" range:"1,170"`
}

// Agent is [agent].
type Agent struct {
	MaxSteps          int `toml:"max_steps" range:"1,1000" env:"SGCLAW_MAX_STEPS"`
	MaxThinkingTokens int `toml:"max_thinking_tokens" range:"1,1000000"`
	// SystemPromptTemplate is a file; empty means the built-in prompt.
	SystemPromptTemplate string   `toml:"system_prompt_template" form:"path"`
	HumanConfirmActions  []string `toml:"human_confirm_actions"`
	ConfirmTimeoutSecs   Seconds  `toml:"confirm_timeout_secs" range:"0,31536000"` // 0 waits for ever
	OfflineTimeoutSecs   Seconds  `toml:"offline_timeout_secs" range:"0,31536000"` // 0 waits for ever
	// Observe is what the model sees after an effect: "snapshot" or "none".
	Observe string `toml:"observe" oneof:"snapshot|none"`
}

// Critic is [critic].
type Critic struct {
	ConsecutiveFailureThreshold int     `toml:"consecutive_failure_threshold" range:"1,1000"`
	SameActionRepeatLimit       int     `toml:"same_action_repeat_limit" range:"2,1000"`
	MaxTaskDurationSecs         Seconds `toml:"max_task_duration_secs" range:"1,31536000"`
}

// CircuitBreaker is [circuit_breaker].
type CircuitBreaker struct {
	FailureThreshold int     `toml:"failure_threshold" range:"1,1000"`
	CooldownBaseSecs Seconds `toml:"cooldown_base_secs" range:"1,86400"`
	CooldownMaxSecs  Seconds `toml:"cooldown_max_secs" range:"1,86400"`
	ResetOnSuccess   bool    `toml:"reset_on_success"`
}

// Memory is [memory].
type Memory struct {
	ShortTermMaxMessages int `toml:"short_term_max_messages" range:"1,100000"`
	ShortTermMaxTokens   int `toml:"short_term_max_tokens" range:"100,10000000"`
	// DBPath is the seed's SQLite file. It is read and has no effect: memory
	// lives in PostgreSQL.
	DBPath string `toml:"db_path" form:"path"`
}

// Security is [security].
type Security struct {
	RulesPath          string `toml:"rules_path" form:"path" env:"SGCLAW_RULES_PATH"`
	SkillPublicKeyPath string `toml:"skill_public_key_path" form:"path"`
}

// Skills is [skills].
type Skills struct {
	SkillsDir string `toml:"skills_dir" form:"path"`
}

// MCP is [mcp].
type MCP struct {
	Servers []MCPServer `toml:"servers"`
}

// MCPServer is one of [[mcp.servers]].
type MCPServer struct {
	Name    string            `toml:"name"`
	Command string            `toml:"command"`
	Args    []string          `toml:"args"`
	Env     map[string]Secret `toml:"env"`
}

// Temporal is [temporal].
type Temporal struct {
	Address   string `toml:"address" form:"hostport"`
	Namespace string `toml:"namespace" form:"name"`
	// TLS is implied by any of the other tls_ keys and by an API key.
	TLS           bool   `toml:"tls"`
	TLSCAFile     string `toml:"tls_ca_file" form:"path"`
	TLSCertFile   string `toml:"tls_cert_file" form:"path"`
	TLSKeyFile    string `toml:"tls_key_file" form:"path"`
	TLSServerName string `toml:"tls_server_name"`
	// APIKey wins over APIKeyFile. Use Config.TemporalKey.
	APIKey     Secret `toml:"api_key"`
	APIKeyFile string `toml:"api_key_file" form:"path"`
}

// Database is [database].
type Database struct {
	// URL may hold a password.
	URL      Secret `toml:"url" form:"postgres"`
	MaxConns int    `toml:"max_conns" range:"1,1000"`
}

// Browser is [browser].
type Browser struct {
	// ID is the browser that a task is for unless it says otherwise, and the
	// id under which a browser host presents its profile. Empty: the one
	// that was made and kept.
	ID string `toml:"id" form:"name"`
}

// Pipehost is [pipehost].
type Pipehost struct {
	// DataDir holds what pipehost and browserhost must not forget: journal,
	// browser id, profile.
	DataDir string `toml:"data_dir" form:"path"`
}

// Browserhost is [browserhost].
type Browserhost struct {
	Chrome      string `toml:"chrome" form:"command" env:"SGCLAW_CHROME"` // empty: found
	Headless    bool   `toml:"headless"`
	Profile     string `toml:"profile" form:"path"`     // empty: in the data directory
	Pipehost    string `toml:"pipehost" form:"command"` // empty: beside the binary, else from PATH
	Rules       string `toml:"rules" form:"path"`       // empty: security.rules_path
	Credentials string `toml:"credentials" form:"path"` // empty: the system's keyring
	// Confirm is "answer" (MAC_NEED_CONFIRM at once, the run asks) or "hold"
	// (the host asks by itself and holds the command).
	Confirm      string `toml:"confirm" oneof:"answer|hold"`
	StartURL     string `toml:"start_url" form:"start"`
	Strict       bool   `toml:"strict"`
	RestartAgent bool   `toml:"restart_agent"`
	// Panel is the side panel to open in the browser: "built-in", or the URL
	// of another one; empty opens none.
	Panel string `toml:"panel" form:"panel"`
}

// Worker is [worker].
type Worker struct {
	MetricsAddr string `toml:"metrics_addr" form:"hostport"` // empty: no metrics
}

// AgentProfile is one of [[agents]]: who carries a session's tasks out, with
// what. An empty value leaves it to the sections that hold for all.
type AgentProfile struct {
	ID      string `toml:"id" form:"agent"`
	Default bool   `toml:"default"`
	// Name is what people read; empty is the id.
	Name  string `toml:"name"`
	Model string `toml:"model"`
	// Tools are the only actions that the agent may use; empty are all.
	Tools []string `toml:"tools"`
	// RulesPath is a rules file that holds besides the browser's own.
	RulesPath            string       `toml:"rules_path" form:"path"`
	SystemPromptTemplate string       `toml:"system_prompt_template" form:"path"`
	Browser              string       `toml:"browser" form:"name"`
	Mode                 agent.Mode   `toml:"mode" oneof:"|queue|steer|interrupt"`
	Context              AgentContext `toml:"context"`
}

// AgentContext is [agents.context]. Every key but Strategy is for
// strategy = "custom", where a false or empty one means just that.
type AgentContext struct {
	Strategy       agent.Strategy `toml:"strategy" oneof:"|full|lite|custom"`
	IncludeHistory bool           `toml:"include_history"`
	IncludeRuntime bool           `toml:"include_runtime"`
	IncludeTools   []string       `toml:"include_tools"`
	ExcludeTools   []string       `toml:"exclude_tools"`
}

// Options returns the same as the record of a run has it.
func (c AgentContext) Options() agent.ContextOptions {
	return agent.ContextOptions{Strategy: c.Strategy, IncludeHistory: c.IncludeHistory, IncludeRuntime: c.IncludeRuntime,
		IncludeTools: c.IncludeTools, ExcludeTools: c.ExcludeTools}
}

// Binding is one of [[bindings]]: all that it names must be so of a message,
// and the message is for Agent then.
type Binding struct {
	Agent   string `toml:"agent" form:"agent"`
	Channel string `toml:"channel" form:"name"`
	// Account is the channel's account that the message came to. Empty is
	// the account "default", "*" any.
	Account string `toml:"account"`
	// Peer is where the message came from: a person, a group, a channel.
	Peer BindingPeer `toml:"peer"`
	// ParentPeer is what Peer is a part of, e.g. the group of a thread.
	ParentPeer BindingPeer `toml:"parent_peer"`
	Guild      string      `toml:"guild"`
	Team       string      `toml:"team"`
}

// BindingPeer is the other end of a conversation; the zero value is none.
type BindingPeer struct {
	Kind string `toml:"kind" oneof:"|direct|group|channel"`
	ID   string `toml:"id"`
}

// Session is [session].
type Session struct {
	// DMScope says which direct messages share a session (seed 003).
	DMScope string `toml:"dm_scope" oneof:"main|per-peer|per-channel-peer|per-account-channel-peer"`
	// Mode holds for messages, sessions and agents that name none.
	Mode agent.Mode `toml:"mode" oneof:"queue|steer|interrupt"`
	// MainKey is the last part of the key of an agent's main session.
	MainKey string `toml:"main_key" form:"agent"`
	// IdentityLinks are a person's ids on several channels, by the name that
	// stands for the person: "channel:id", or an id alone for any channel.
	IdentityLinks map[string][]string `toml:"identity_links"`
}

// Gateway is [gateway].
type Gateway struct {
	Listen string `toml:"listen" form:"listen"`
	// Token is the operator's; it wins over TokenFile. Use
	// Config.GatewayToken.
	Token     Secret `toml:"token"`
	TokenFile string `toml:"token_file" form:"path"`
	// TLSCertFile and TLSKeyFile turn TLS on.
	TLSCertFile string `toml:"tls_cert_file" form:"path"`
	TLSKeyFile  string `toml:"tls_key_file" form:"path"`
	// Origins are web pages that may connect besides the gateway's own, and
	// Hosts the names under which it is reached besides those of this
	// machine.
	Origins []string `toml:"origins"`
	Hosts   []string `toml:"hosts"`
	// MaxClients bounds the connections, MaxFrameBytes a frame that a client
	// sends, MaxBufferedBytes what waits for a client that reads slowly.
	MaxClients       int `toml:"max_clients" range:"1,1000000"`
	MaxFrameBytes    int `toml:"max_frame_bytes" range:"65536,104857600"`
	MaxBufferedBytes int `toml:"max_buffered_bytes" range:"1048576,1073741824"`
	// DeviceSignatures is "off" or "verify": whether what OpenClaw's devices
	// sign is checked.
	DeviceSignatures string `toml:"device_signatures" oneof:"off|verify"`
	// LogLines is how many of its own log lines the gateway keeps to show.
	LogLines int `toml:"log_lines" range:"0,100000"`
}

// Seconds is a span of time in whole seconds, as the file has it.
type Seconds int

// Duration returns the span as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Default returns the compiled-in configuration. getenv finds the user's
// directories.
func Default(getenv func(string) string) Config {
	return Config{
		General: General{LogLevel: "info", LogFormat: "text"},
		LLM: LLM{
			Provider: "openai",
			Model:    "gpt-4o",
			Config:   LLMConfig{MaxTokens: 4096, Temperature: 0.1, IdleTimeoutSecs: 120},
		},
		Agent:          Agent{MaxSteps: 50, MaxThinkingTokens: 4096, Observe: "snapshot"},
		Critic:         Critic{ConsecutiveFailureThreshold: 10, SameActionRepeatLimit: 5, MaxTaskDurationSecs: 600},
		CircuitBreaker: CircuitBreaker{FailureThreshold: 10, CooldownBaseSecs: 1, CooldownMaxSecs: 30, ResetOnSuccess: true},
		Memory:         Memory{ShortTermMaxMessages: 50, ShortTermMaxTokens: 8000},
		Security:       Security{RulesPath: "rules.json", SkillPublicKeyPath: "keys/skill_verify.pub"},
		Skills:         Skills{SkillsDir: "sgclaw-skills"},
		Temporal:       Temporal{Address: "127.0.0.1:7233", Namespace: "default"},
		Database:       Database{URL: "postgres://sgclaw@127.0.0.1:5432/sgclaw?sslmode=disable", MaxConns: 20},
		Pipehost:       Pipehost{DataDir: dataDir(runtime.GOOS, getenv)},
		Browserhost:    Browserhost{Confirm: "answer", StartURL: "about:blank"},
		Session:        Session{DMScope: "per-channel-peer", Mode: agent.ModeQueue, MainKey: "main"},
		Gateway: Gateway{Listen: "127.0.0.1:18789", MaxClients: 5000, MaxFrameBytes: 4 << 20, MaxBufferedBytes: 16 << 20,
			DeviceSignatures: "off", LogLines: 1000},
	}
}

// dataDir is where a system keeps the data of a user's program; empty if it
// does not say.
func dataDir(goos string, getenv func(string) string) string {
	switch goos {
	case "windows":
		if d := getenv("LOCALAPPDATA"); d != "" {
			return filepath.Join(d, "sgclaw")
		}
	case "darwin":
		if d := getenv("HOME"); d != "" {
			return filepath.Join(d, "Library", "Application Support", "sgclaw")
		}
	default:
		if d := getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
			return filepath.Join(d, "sgclaw")
		}
		if d := getenv("HOME"); d != "" {
			return filepath.Join(d, ".local", "share", "sgclaw")
		}
	}
	return ""
}

// Settings are the bounds of a run as configured. Locale is empty unless the
// configuration names one.
func (c *Config) Settings() agent.Settings {
	return agent.Settings{
		MaxSteps:          c.Agent.MaxSteps,
		MaxThinkingTokens: c.Agent.MaxThinkingTokens,
		ConfirmActions:    c.Agent.HumanConfirmActions,
		ConfirmTimeoutS:   int(c.Agent.ConfirmTimeoutSecs),
		OfflineTimeoutS:   int(c.Agent.OfflineTimeoutSecs),
		FailureThreshold:  c.Critic.ConsecutiveFailureThreshold,
		RepeatLimit:       c.Critic.SameActionRepeatLimit,
		MaxTaskS:          int(c.Critic.MaxTaskDurationSecs),
		Locale:            c.General.Locale,
	}
}

// RulesPath is the rules file that the browser host uses.
func (c *Config) RulesPath() string {
	if c.Browserhost.Rules != "" {
		return c.Browserhost.Rules
	}
	return c.Security.RulesPath
}

// LevelTrace is below slog's debug level.
const LevelTrace = slog.LevelDebug - 4

// Level is general.log_level for slog.
func (c *Config) Level() slog.Level {
	switch c.General.LogLevel {
	case "trace":
		return LevelTrace
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Logger returns a logger of the configured level and format that writes to
// w, which is never stdout where stdout is the pipe's.
func (c *Config) Logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{
		Level: c.Level(),
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.LevelKey && a.Value.Any() == LevelTrace {
				a.Value = slog.StringValue("TRACE")
			}
			return a
		},
	}
	if c.General.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// Origin says where the value of a key (e.g. "agent.max_steps") came from:
// "sgclaw.toml:12", "SGCLAW_MAX_STEPS" or "default".
func (c *Config) Origin(key string) string {
	if o := c.origins[key]; o != "" {
		return o
	}
	return "default"
}

// ModelKey returns the model's API key, from llm.api_key or the file that
// llm.api_key_file names; empty if neither is set.
func (c *Config) ModelKey() (Secret, error) {
	return keyOrFile(c.LLM.APIKey, c.LLM.APIKeyFile)
}

// TemporalKey returns Temporal's API key in the same way.
func (c *Config) TemporalKey() (Secret, error) {
	return keyOrFile(c.Temporal.APIKey, c.Temporal.APIKeyFile)
}

// GatewayToken returns the gateway's own token in the same way. There may be
// others, in the database.
func (c *Config) GatewayToken() (Secret, error) {
	return keyOrFile(c.Gateway.Token, c.Gateway.TokenFile)
}

func keyOrFile(key Secret, file string) (Secret, error) {
	if key != "" || file == "" {
		return key, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	return Secret(strings.TrimSpace(string(data))), nil
}
