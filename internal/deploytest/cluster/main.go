// Command cluster runs a command beside Temporal on PostgreSQL, set up as
// docker-compose.yml has them and running as plain processes:
//
//	cluster --root ../.. --bin ../../bin --tools ../../bin -- go test -bench . ...
//
// The command finds them by SGCLAW_TEMPORAL_ADDRESS and SGCLAW_DATABASE_URL,
// benchmarks by SGCLAW_BENCH_TEMPORAL, SGCLAW_BENCH_DATABASE_URL and
// SGCLAW_BENCH_PIDS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"sgclaw/internal/deploytest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run returns the command's exit status, or 1.
func run(ctx context.Context, args []string) int {
	var cfg deploytest.Config
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&cfg.Root, "root", "../..", "the project's folder")
	flags.StringVar(&cfg.Bin, "bin", "../../bin", "where sgclaw's binaries are")
	flags.StringVar(&cfg.Tools, "tools", "../../bin", "where Temporal's binaries are")
	flags.StringVar(&cfg.Dir, "dir", "", "where data and logs are kept (default: a folder that is removed at the end)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "cluster: no command given")
		return 2
	}
	if cfg.Dir == "" {
		dir, err := os.MkdirTemp("", "sgclaw-cluster")
		if err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			return 1
		}
		defer os.RemoveAll(dir)
		// PostgreSQL's user has to get through.
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
			return 1
		}
		cfg.Dir = dir
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	c, err := deploytest.Start(ctx, log, cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	defer c.Close()
	cmd := exec.CommandContext(ctx, flags.Arg(0), flags.Args()[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"SGCLAW_BENCH_TEMPORAL="+c.Temporal(), "SGCLAW_BENCH_DATABASE_URL="+c.Database(), "SGCLAW_BENCH_PIDS="+c.PIDs(),
		"SGCLAW_TEMPORAL_ADDRESS="+c.Temporal(), "SGCLAW_DATABASE_URL="+c.Database())
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return 0
}
