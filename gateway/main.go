// Command gateway serves people's panels and OpenClaw's clients: WebSocket,
// HTTP and the panel on one port. Any number may run behind any load
// balancer; all that matters is in Temporal and the database. It brings the
// database's schema up to date when it starts. Logs go to stderr.
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
	"slices"
	"syscall"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/backend"
	"sgclaw/internal/build"
	"sgclaw/internal/config"
	"sgclaw/internal/feed"
	"sgclaw/internal/gateway"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/routing"
	"sgclaw/internal/telemetry"
	"sgclaw/panel"
)

// endWithin is how long an orderly end may take. Clients are told at its
// beginning and find another gateway, or this one started again.
const endWithin = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit status: 0 after an orderly end, 1 if the gateway could
// not start or go on, 2 if it was called wrongly or misconfigured.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(stderr)
	path := flags.String("config", "", "configuration file (default: $SGCLAW_CONFIG, else sgclaw.toml)")
	show := flags.Bool("version", false, "print the version")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *show {
		fmt.Fprintln(stdout, "sgclaw gateway", build.Version())
		return 0
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "gateway: unexpected argument %q\n", flags.Arg(0))
		return 2
	}
	cfg, err := config.Load(config.Options{Path: *path, Env: env, Actions: action.Names()})
	if err == nil {
		err = errors.Join(cfg.RequireDatabase(), cfg.RequireGateway())
	}
	if err != nil {
		fmt.Fprintln(stderr, "gateway:", err)
		return 2
	}
	// Operators can look at the end of the log from afar.
	logs := gateway.NewLogs(cfg.Gateway.LogLines)
	log := slog.New(logs.Handler(cfg.Logger(stderr).Handler()))
	for _, w := range cfg.Warnings {
		log.Warn("configuration", "warning", w)
	}
	if err := serve(ctx, log, logs, cfg, env); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("gateway stopped", "err", err)
		return 1
	}
	return 0
}

// serve connects, and serves until ctx ends.
func serve(ctx context.Context, log *slog.Logger, logs *gateway.Logs, cfg *config.Config, env []string) error {
	token, err := cfg.GatewayToken()
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, log, telemetry.Config{Service: "gateway", Getenv: config.Getenv(env)})
	if err != nil {
		return err
	}
	defer tel.Close()
	db, err := backend.Store(ctx, log, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	temporal, err := backend.Temporal(ctx, log, cfg, tel)
	if err != nil {
		return err
	}
	defer temporal.Close()
	events := feed.New(log, db, cfg.Database.URL.Reveal(), feed.Options{})
	defer func() {
		if err := events.Close(); err != nil {
			log.Warn("event feed", "err", err)
		}
	}()
	if !panel.Built() {
		log.Warn("the panel is not built into this gateway: run `make panel`, then `make build`")
	}
	g, err := gateway.New(log, db, events, temporal, settings(cfg, token.Reveal(), logs, tel))
	if err != nil {
		return err
	}
	l, err := g.Listen(ctx)
	if err != nil {
		return err
	}
	log.Info("serving", "listen", l.Addr().String(), "tls", cfg.Gateway.TLSCertFile != "", "version", build.Version())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-served:
		return err
	case <-time.After(endWithin):
		return fmt.Errorf("clients or handlers did not end within %v", endWithin)
	}
}

// settings are what the gateway goes by.
func settings(cfg *config.Config, token string, logs *gateway.Logs, tel *telemetry.Telemetry) gateway.Config {
	c := cfg.Gateway
	router := routing.New(cfg.Routing())
	return gateway.Config{
		Listen: c.Listen, Token: token, TLSCertFile: c.TLSCertFile, TLSKeyFile: c.TLSKeyFile, Origins: c.Origins, Hosts: c.Hosts,
		MaxClients: c.MaxClients, MaxFrameBytes: c.MaxFrameBytes, MaxBufferedBytes: c.MaxBufferedBytes,
		VerifyDevices: c.DeviceSignatures == "verify", Panel: panel.FS(), Logs: logs, Telemetry: tel, Version: build.Version(),
		Agents: agents(cfg), Router: router, MaxTask: cfg.Critic.MaxTaskDurationSecs.Duration(),
		Model: gateway.Model{Name: cfg.LLM.Model, Provider: cfg.LLM.Provider, MaxContextTokens: cfg.LLM.Config.MaxContextTokens, Usable: cfg.RequireModel() == nil},
		SessionDefaults: &openclaw.SessionDefaults{
			DefaultAgentID: router.Default(), MainKey: cfg.Session.MainKey, MainSessionKey: router.MainKey(router.Default()), Scope: "per-sender",
		},
	}
}

// agents are those of the configuration, the default one first.
func agents(cfg *config.Config) []gateway.Agent {
	var out []gateway.Agent
	for _, p := range cfg.Profiles() {
		a := gateway.Agent{ID: p.ID, Name: p.Title(), Model: p.Model, Actions: p.Tools}
		if p.ID == cfg.DefaultAgent() {
			out = slices.Insert(out, 0, a)
		} else {
			out = append(out, a)
		}
	}
	return out
}
