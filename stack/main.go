// Command stack runs all of sgclaw on one machine: for a first look (stack
// demo), for daily use and development (stack up), for measurements (stack
// bench). The demo site and the scripted model server can be run alone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sgclaw/internal/build"
	"sgclaw/internal/config"
	"sgclaw/internal/locale"
	"sgclaw/internal/oa"
	"sgclaw/internal/scripted"
	"sgclaw/internal/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args, env []string, stdin *os.File, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use: "stack", Short: "sgclaw on one machine", Version: build.Version(), SilenceUsage: true, SilenceErrors: true,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(upCommand(env, stdout, stderr), demoCommand(env, stdin, stdout, stderr), siteCommand(stderr), modelCommand(stderr))
	if err := root.ExecuteContext(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			fmt.Fprintln(stderr, "stack: stopped")
			return 130
		}
		fmt.Fprintln(stderr, "stack:", err)
		return 1
	}
	return 0
}

// settings fills what demo and up have in common.
func settings(cmd *cobra.Command, env []string, out io.Writer, cfg *stack.Config) {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cfg.Env, cfg.Out = env, out
	cmd.Flags().StringVar(&cfg.Bin, "bin", filepath.Dir(self), "where the binaries are")
	cmd.Flags().StringVar(&cfg.Rules, "rules", "", "rules file (default: one made for the demo site)")
	cmd.Flags().BoolVar(&cfg.Headless, "headless", !display(env), "run the browser without a window")
}

// display reports whether a window can be shown.
func display(env []string) bool {
	if os.PathSeparator == '\\' {
		return true
	}
	getenv := config.Getenv(env)
	return getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "" || getenv("__CFBundleIdentifier") != ""
}

func logger(stderr io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// gatewayPort is where OpenClaw's clients look for a gateway.
const gatewayPort = 18789

func upCommand(env []string, stdout, stderr io.Writer) *cobra.Command {
	cfg := stack.Config{TemporalPort: 7233, UIPort: 8233, PostgresPort: 15432, GatewayPort: gatewayPort, SitePort: 8088}
	cmd := &cobra.Command{
		Use: "up", Short: "start everything and keep it running until Ctrl-C", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := stack.Start(cmd.Context(), logger(stderr), cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.WriteEnv(filepath.Join(cfg.Dir, "env.sh")); err != nil {
				return err
			}
			fmt.Fprint(stdout, s.Where())
			<-cmd.Context().Done()
			fmt.Fprintln(stdout, "\nstopping ...")
			return nil
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", filepath.Join(".data", "up"), "where data and logs are kept")
	settings(cmd, env, stdout, &cfg)
	return cmd
}

func demoCommand(env []string, stdin *os.File, stdout, stderr io.Writer) *cobra.Command {
	// The demo shows a beginning, so what an earlier one left goes.
	cfg := stack.Config{UIPort: 8233, GatewayPort: gatewayPort, Fresh: true}
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "run the main job on the demo site, from nothing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := stack.Start(cmd.Context(), logger(stderr), cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			person := term.IsTerminal(int(stdin.Fd()))
			if err := s.Demo(cmd.Context(), stack.Terminal{In: stdin, Out: stdout, Err: stderr, Person: person, Lang: locale.Detect(config.Getenv(env))}); err != nil {
				return err
			}
			if keep {
				fmt.Fprintf(stdout, "\nuntil Ctrl-C the panel stays at %s\nand the Temporal UI at %s\n", s.PanelURL(), s.UI())
				<-cmd.Context().Done()
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&cfg.Dir, "dir", filepath.Join(".data", "demo"), "where data and logs are kept; emptied first")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep everything running afterwards, to look around")
	settings(cmd, env, stdout, &cfg)
	return cmd
}

func siteCommand(stderr io.Writer) *cobra.Command {
	var listen, ledger string
	var login bool
	cmd := &cobra.Command{
		Use: "site", Short: "serve the demo site alone", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := oa.New(logger(stderr), oa.Config{LedgerFile: ledger, RequireLogin: login})
			if err != nil {
				return err
			}
			defer site.Close()
			return serve(cmd.Context(), listen, site, stderr)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8088", "address to listen on")
	cmd.Flags().StringVar(&ledger, "ledger", "", "file that keeps the ledger (default: memory)")
	cmd.Flags().BoolVar(&login, "require-login", false, "send visitors to the log-in page first")
	return cmd
}

func modelCommand(stderr io.Writer) *cobra.Command {
	var listen string
	var opts scripted.Options
	cmd := &cobra.Command{
		Use: "model", Short: "serve the scripted model alone", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), listen, scripted.New(logger(stderr), opts), stderr)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8089", "address to listen on")
	cmd.Flags().StringVar(&opts.StartURL, "start-url", "", "where tasks that name no URL begin")
	cmd.Flags().DurationVar(&opts.FirstToken, "first-token", 0, "how long a reply takes to begin")
	cmd.Flags().DurationVar(&opts.PerToken, "per-token", 0, "how long between the pieces of a reply")
	return cmd
}

// serve serves h until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler, stderr io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "listening on http://%s\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
