// Package rig puts the durable core together in one process, on a real
// Temporal server and a real database, with a model and a browser host of
// the caller's. Integration tests, recorded histories and benchmarks run on
// it. It is no product code.
package rig

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/durable"
	"sgclaw/internal/journal"
	"sgclaw/internal/llm"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// BrowserID is the rig's browser.
const BrowserID = "rig"

// Domain is the one that the rig's policy allows.
const Domain = "oa.example.com"

// Config says what to run on.
type Config struct {
	Client      client.Client
	Namespace   string
	DatabaseURL string
	Dir         string // for the journal
	Model       llm.Model
	Host        activities.Host
	Settings    agent.Settings // zero fields get the seed's defaults
	NoBrowser   bool           // nobody serves the browser's queue
	// Agents are configured agents, of which "main" is the default; zero
	// fields of their settings are filled like Settings.
	Agents map[string]activities.Profile
	Models func(name string) (llm.Model, error) // for agents with a model of their own
}

// Rig is a running core.
type Rig struct {
	Client  *durable.Client
	Store   *store.Store
	Meter   *Meter
	agent   worker.Worker
	browser worker.Worker
	journal *journal.Journal
}

// Start starts a rig. The caller must call Close.
func Start(ctx context.Context, log *slog.Logger, cfg Config) (_ *Rig, err error) {
	r := &Rig{Client: durable.New(log, cfg.Client, cfg.Namespace), Meter: &Meter{}}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.Store, err = store.Open(ctx, cfg.DatabaseURL, store.Options{Log: log}); err != nil {
		return nil, err
	}
	if err := r.Store.Migrate(ctx); err != nil {
		return nil, err
	}
	if err := r.startAgent(log, cfg); err != nil {
		return nil, err
	}
	if cfg.NoBrowser {
		return r, nil
	}
	return r, r.startBrowser(ctx, log, cfg)
}

func (r *Rig) startAgent(log *slog.Logger, cfg Config) error {
	settings := cfg.Settings
	defaults(&settings)
	agents := map[string]activities.Profile{}
	for id, p := range cfg.Agents {
		defaults(&p.Settings)
		agents[id] = p
	}
	first := ""
	if len(agents) > 0 {
		first = "main"
	}
	acts := activities.NewAgent(log, r.Store, cfg.Model, r.Client, r.Meter, activities.AgentConfig{
		Settings: settings, Snapshot: true, Browser: BrowserID, MaxTokens: 4096, Temperature: 0.1, Actions: action.Names(),
		Critic: critic.Default(), Agents: agents, Default: first, Models: cfg.Models,
	})
	r.agent = worker.New(cfg.Client, workflows.AgentQueue, durable.WorkerOptions())
	r.agent.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: workflows.SessionType})
	r.agent.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: workflows.RunType})
	r.agent.RegisterWorkflow(workflows.Tell)
	r.agent.RegisterWorkflowWithOptions(workflows.Fire, workflow.RegisterOptions{Name: workflows.FireType})
	activities.NewFire(r.Client).Register(r.agent)
	acts.Register(r.agent)
	return r.agent.Start()
}

func defaults(s *agent.Settings) {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&s.MaxSteps, 50)
	set(&s.MaxThinkingTokens, 4096)
	set(&s.FailureThreshold, 10)
	set(&s.RepeatLimit, 5)
	set(&s.MaxTaskS, 600)
	if s.Locale == "" {
		s.Locale = "en"
	}
}

func (r *Rig) startBrowser(ctx context.Context, log *slog.Logger, cfg Config) (err error) {
	if r.journal, err = journal.Open(ctx, log, cfg.Dir, BrowserID); err != nil {
		return err
	}
	rules, err := policy.Parse(fmt.Appendf(nil, `{"version": "1.0", "domains": {"allowed": [%q]},
		"pipe_actions": {"allowed": ["click", "type", "navigate", "getText", "getAomSnapshot"], "blocked": [], "need_confirm": []},
		"storage": {"key_prefix": "sgclaw."}, "rate_limits": {"default": {"max_per_second": 1000, "cooldown_seconds": 1}}}`, Domain))
	if err != nil {
		return err
	}
	acts := activities.NewBrowser(log, cfg.Host, r.journal, policy.New(rules, time.Now), activities.BrowserConfig{SnapshotAfter: true, Locale: "en"})
	r.browser = worker.New(cfg.Client, activities.BrowserQueue(BrowserID), BrowserOptions())
	r.browser.RegisterActivityWithOptions(acts.Act, activity.RegisterOptions{Name: activities.ActName})
	r.browser.RegisterActivityWithOptions(acts.Notify, activity.RegisterOptions{Name: activities.NotifyName})
	r.browser.RegisterWorkflowWithOptions((&workflows.Browser{Shelf: shelf{r.journal}}).Run, workflow.RegisterOptions{Name: activities.BrowserWorkflow})
	if err := r.browser.Start(); err != nil {
		return err
	}
	_, err = cfg.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: activities.BrowserQueue(BrowserID), TaskQueue: activities.BrowserQueue(BrowserID),
	}, activities.BrowserWorkflow)
	return err
}

// BrowserOptions are the options of the worker on the browser's queue, as
// pipehost has them.
func BrowserOptions() worker.Options {
	return worker.Options{
		BuildID:                          "sgclaw", //nolint:staticcheck // its successor turns versioning on
		MaxConcurrentActivityTaskPollers: 2, MaxConcurrentWorkflowTaskPollers: 2,
		MaxHeartbeatThrottleInterval: 200 * time.Millisecond, DefaultHeartbeatThrottleInterval: 200 * time.Millisecond,
		StickyScheduleToStartTimeout: time.Second,
	}
}

// Close ends the rig; the server and the database stay.
func (r *Rig) Close() {
	if r.browser != nil {
		r.browser.Stop()
	}
	if r.agent != nil {
		r.agent.Stop()
	}
	if r.journal != nil {
		_ = r.journal.Close()
	}
	if r.Store != nil {
		_ = r.Store.Close()
	}
}

type shelf struct{ j *journal.Journal }

func (s shelf) Body(ref string) (agent.Body, error) { return s.j.Body(ref) }

func (s shelf) Presence() activities.Presence { return activities.Presence{BrowserID: BrowserID} }

// Meter counts nothing but the actions by outcome.
type Meter struct {
	mu      sync.Mutex
	actions map[agent.Outcome]int
}

// Action counts an action.
func (m *Meter) Action(_ context.Context, _ string, o agent.Outcome, _ string, _ time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.actions == nil {
		m.actions = map[agent.Outcome]int{}
	}
	m.actions[o]++
}

// Actions returns how many actions had the outcome.
func (m *Meter) Actions(o agent.Outcome) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.actions[o]
}

// Reply does nothing.
func (m *Meter) Reply(context.Context, string, agent.Usage, time.Duration) {}

// Ended does nothing.
func (m *Meter) Ended(context.Context, agent.Status, string) {}

// Decided does nothing.
func (m *Meter) Decided(context.Context, string) {}

// Model is a model whose replies a function writes.
type Model struct {
	Name string // "rig" if empty
	// Reply gets the request and the number of replies that it shows, those
	// of the session's past included.
	Reply func(ctx context.Context, req llm.Request, nth int) (llm.Response, error)
}

// Chat answers with Reply.
func (m Model) Chat(ctx context.Context, req llm.Request, onDelta func(string)) (llm.Response, error) {
	nth := 0
	for _, msg := range req.Messages {
		if msg.Role == llm.RoleAssistant {
			nth++
		}
	}
	resp, err := m.Reply(ctx, req, nth)
	if err == nil && onDelta != nil && resp.Text != "" {
		onDelta(resp.Text)
	}
	return resp, err
}

// Info describes the model.
func (m Model) Info() llm.Info {
	name := cmp.Or(m.Name, "rig")
	return llm.Info{Name: name, Model: name, MaxContextTokens: 1 << 20, SupportsTools: true, SupportsStreaming: true}
}

// Call is a reply with one browser action.
func Call(nth int, name, params string) llm.Response {
	return llm.Response{
		Text:   fmt.Sprintf("step %d", nth+1),
		Calls:  []llm.ToolCall{{ID: fmt.Sprintf("call_%d", nth), Name: "browser_action", Arguments: fmt.Sprintf(`{"action":%q,"params":%s}`, name, params)}},
		Usage:  agent.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110},
		Finish: llm.FinishToolCalls, Model: "rig",
	}
}

// Answer is a final reply.
func Answer(text string) llm.Response {
	return llm.Response{Text: text, Usage: agent.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110}, Finish: llm.FinishStop, Model: "rig"}
}

// Host is a browser host whose answers a function gives. It keeps what it
// was asked to do.
type Host struct {
	// Answer gives the response to a command.
	Answer func(ctx context.Context, cmd pipe.Command) (pipe.Response, error)
	// Forgets makes it count its commands only, for measuring memory.
	Forgets bool

	mu    sync.Mutex
	count int
	cmds  []pipe.Command
	sent  []any
}

// Do answers a command.
func (h *Host) Do(ctx context.Context, cmd pipe.Command, _ func(pipe.Response)) (pipe.Response, time.Duration, error) {
	h.mu.Lock()
	h.count++
	if !h.Forgets {
		h.cmds = append(h.cmds, cmd)
	}
	h.mu.Unlock()
	resp, err := h.Answer(ctx, cmd)
	resp.Type = pipe.TypeResponse
	return resp, 0, err
}

// Send keeps the message.
func (h *Host) Send(_ context.Context, message any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, message)
	return nil
}

// Offer drops the message.
func (h *Host) Offer(any) {}

// Page says that every page is on the rig's domain.
func (h *Host) Page(id string) (agent.Page, bool) {
	return agent.Page{ID: id, URL: "https://" + Domain + "/", Domain: Domain}, true
}

// Commands returns what the host was asked to do.
func (h *Host) Commands() []pipe.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]pipe.Command(nil), h.cmds...)
}

// Count returns how many commands the host got.
func (h *Host) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// Sent returns the other messages that the host got.
func (h *Host) Sent() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]any(nil), h.sent...)
}

// Done is a successful response with a snapshot.
func Done(snapshot string) pipe.Response {
	return pipe.Response{Success: true, Data: &pipe.Data{
		Page: &agent.Page{URL: "https://" + Domain + "/", Domain: Domain, Title: "OA"}, Text: "done", Snapshot: snapshot,
	}}
}
