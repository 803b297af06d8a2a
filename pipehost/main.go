// Command pipehost is the agent's end of a browser: a browser host starts it
// as a child and speaks the pipe protocol with it on stdin and stdout
// (docs/pipe.md), and on the other side it is a Temporal worker for this one
// browser. It needs no database.
//
// What goes where: stdout is the wire and carries nothing but protocol
// messages. Everything for people and logs goes to stderr, and os.Stdout is
// replaced before anything else runs, so that a stray print of some library
// cannot get between two messages. Only the subcommands for people
// (conformance, journal, version) print to stdout.
//
// Exit status: 0 after shutdown, end of stdin, SIGTERM or SIGINT, within two
// seconds; 1 for a fault, or a conformance rule that failed; 2 for wrong
// usage or configuration; 3 when the handshake came to nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/worker"

	"sgclaw/internal/build"
	"sgclaw/internal/conformance"
)

// Exit statuses.
const (
	exitOK        = 0
	exitFault     = 1
	exitUsage     = 2
	exitHandshake = 3
)

func main() {
	// Under a conformance test's name this is a stand-in for an agent, which
	// needs the real stdout.
	if code, ok := conformance.AgentProxyMain(); ok {
		os.Exit(code)
	}
	// A browser and its history are small; without this cache a query after a
	// restart never waits for the process that had it before.
	worker.SetStickyWorkflowCacheSize(0)
	// A host that dies takes the other ends of stdout and stderr with it;
	// that must fail a write, not kill this process, which has a journal to
	// close.
	signal.Ignore(syscall.SIGPIPE)
	wire := os.Stdout
	os.Stdout = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, wire, os.Stderr)
	stop()
	os.Exit(code)
}

// exit is an error that only says how to end.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var configPath string
	root := &cobra.Command{
		Use:           "pipehost",
		Short:         "The agent's end of a browser; started by a browser host, speaks on stdin and stdout",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := load(configPath, stderr)
			if err != nil {
				return err
			}
			if code := serve(cmd.Context(), s, stdin, stdout); code != exitOK {
				return exit(code)
			}
			return nil
		},
	}
	root.PersistentFlags().StringVar(&configPath, "config", "", "configuration file (default: $SGCLAW_CONFIG, or sgclaw.toml beside this program)")
	root.AddCommand(conformanceCommand(), journalCommand(&configPath, stderr), versionCommand())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(stderr, "pipehost:", err)
	var fault *faultError
	if errors.As(err, &fault) {
		return exitFault
	}
	return exitUsage
}

// faultError marks errors that are neither usage nor configuration.
type faultError struct{ error }

func (e *faultError) Unwrap() error { return e.error }

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "pipehost", build.Version())
		},
	}
}
