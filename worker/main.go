// Command worker hosts sgclaw's workflows and the activities that need the
// model and the database. Any number of workers may run; a task goes on with
// whichever is there. It brings the database's schema up to date when it
// starts. Logs go to stderr.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/action"
	"sgclaw/internal/backend"
	"sgclaw/internal/build"
	"sgclaw/internal/config"
	"sgclaw/internal/critic"
	"sgclaw/internal/durable"
	"sgclaw/internal/history"
	"sgclaw/internal/llm"
	"sgclaw/internal/llm/openai"
	"sgclaw/internal/locale"
	"sgclaw/internal/prompt"
	"sgclaw/internal/store"
	"sgclaw/internal/telemetry"
	"sgclaw/workflows"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit status: 0 after an orderly end, 1 if the worker could
// not start or go on, 2 if it was called wrongly or misconfigured.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "configuration file (default: $SGCLAW_CONFIG, else sgclaw.toml)")
	show := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *show {
		fmt.Fprintln(stdout, "sgclaw worker", build.Version())
		return 0
	}
	cfg, err := config.Load(config.Options{Path: *path, Env: env, Actions: action.Names()})
	if err == nil {
		err = cfg.RequireDatabase()
	}
	if err != nil {
		fmt.Fprintln(stderr, "worker:", err)
		return 2
	}
	log := cfg.Logger(stderr)
	for _, w := range cfg.Warnings {
		log.Warn("configuration", "warning", w)
	}
	if err := serve(ctx, log, cfg, env); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("worker stopped", "err", err)
		return 1
	}
	return 0
}

// serve connects, works until ctx ends, and drains.
func serve(ctx context.Context, log *slog.Logger, cfg *config.Config, env []string) error {
	getenv := config.Getenv(env)
	db, err := backend.Store(ctx, log, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	var working atomic.Bool
	tel, err := telemetry.Start(ctx, log, telemetry.Config{
		Service: "worker", Addr: cfg.Worker.MetricsAddr, Getenv: getenv,
		Ready: func(ctx context.Context) error {
			if !working.Load() {
				return errors.New("not connected to Temporal yet")
			}
			return db.Ping(ctx)
		},
	})
	if err != nil {
		return err
	}
	defer tel.Close()
	temporal, err := backend.Temporal(ctx, log, cfg, tel)
	if err != nil {
		return err
	}
	defer temporal.Close()
	if err := temporal.EnsureSearchAttributes(ctx); err != nil {
		// Without them tasks run and lists are poorer; an operator who may
		// add them can do so at any time.
		log.Warn("search attributes", "err", err)
	}
	agentActs, err := newAgent(log, cfg, getenv, db, temporal, tel)
	if err != nil {
		return err
	}
	worker.SetStickyWorkflowCacheSize(durable.StickyCacheSize)
	opts := durable.WorkerOptions()
	fatal := make(chan error, 1)
	opts.OnFatalError = func(err error) { fatal <- err }
	w := worker.New(temporal.Temporal(), workflows.AgentQueue, opts)
	w.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: workflows.SessionType})
	w.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: workflows.RunType})
	w.RegisterWorkflow(workflows.Tell)
	w.RegisterWorkflowWithOptions(workflows.Fire, workflow.RegisterOptions{Name: workflows.FireType})
	activities.NewFire(temporal).Register(w)
	agentActs.Register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	working.Store(true)
	log.Info("working", "queue", workflows.AgentQueue, "temporal", cfg.Temporal.Address, "version", build.Version())
	select {
	case <-ctx.Done():
		w.Stop()
		return nil
	case err := <-fatal:
		return fmt.Errorf("worker: %w", err)
	}
}

// newAgent joins the activities with what they need.
func newAgent(log *slog.Logger, cfg *config.Config, getenv func(string) string, db *store.Store, temporal *durable.Client, tel *telemetry.Telemetry) (*activities.Agent, error) {
	model, named, err := newModel(log, cfg)
	if err != nil {
		return nil, err
	}
	var template *prompt.Template
	if p := cfg.Agent.SystemPromptTemplate; p != "" {
		if template, err = prompt.Load(p); err != nil {
			return nil, err
		}
	}
	settings := cfg.Settings()
	if settings.Locale == "" {
		settings.Locale = locale.Detect(getenv)
	}
	agents, err := profiles(log, cfg, template, settings.Locale)
	if err != nil {
		return nil, err
	}
	return activities.NewAgent(log, db, model, temporal, tel, activities.AgentConfig{
		Settings: settings, Snapshot: cfg.Agent.Observe == "snapshot", Browser: cfg.Browser.ID, Template: template,
		Agents: agents, Default: cfg.DefaultAgent(), Mode: cfg.Session.Mode, Models: named,
		MaxTokens: cfg.LLM.Config.MaxTokens, Temperature: cfg.LLM.Config.Temperature, Actions: action.Names(),
		History: history.Limits{Messages: cfg.Memory.ShortTermMaxMessages, Tokens: cfg.Memory.ShortTermMaxTokens},
		Critic: critic.Config{Breaker: critic.BreakerConfig{
			FailureThreshold: cfg.CircuitBreaker.FailureThreshold, CooldownBase: cfg.CircuitBreaker.CooldownBaseSecs.Duration(),
			CooldownMax: cfg.CircuitBreaker.CooldownMaxSecs.Duration(), ResetOnSuccess: cfg.CircuitBreaker.ResetOnSuccess,
		}},
	}), nil
}

// newModel returns the configured model, and what gives others of the same
// service by name; or nil with a warning: a worker without one still takes
// tasks and says why they fail.
func newModel(log *slog.Logger, cfg *config.Config) (llm.Model, func(string) (llm.Model, error), error) {
	if err := cfg.RequireModel(); err != nil {
		log.Warn("no model", "err", err)
		return nil, nil, nil
	}
	key, err := cfg.ModelKey()
	if err != nil {
		return nil, nil, err
	}
	all := newModels(openai.Config{
		APIKey: key.Reveal(), BaseURL: cfg.LLM.BaseURL, Model: cfg.LLM.Model,
		IdleTimeout: cfg.LLM.Config.IdleTimeoutSecs.Duration(), MaxContextTokens: cfg.LLM.Config.MaxContextTokens,
	})
	model, err := all.named(cfg.LLM.Model)
	return model, all.named, err
}
