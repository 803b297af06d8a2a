// Command browserhost is the browser's side of the pipe for any Chrome or
// Chromium: it starts or attaches to one, starts the agent (pipehost, or any
// other that speaks docs/pipe.md), checks every command of the agent against
// the rules file and carries it out.
//
// What goes where: logs, and what the agent writes to its stderr, go to
// stderr. stdout gets one line for each change of the agent's state, and with
// --console, or where a person is asked at this terminal, what concerns that
// person. stdin is read only with --console, --confirm hold and
// --exit-with-stdin.
//
// Signals: SIGINT and SIGTERM end the agent, then the browser; a second one
// ends at once. SIGHUP reads the rules file again; one that is faulty is
// reported and changes nothing.
//
// Exit status: 0 after an orderly end, 1 if the browser could not be started
// or was lost for good, 2 for wrong usage or configuration.
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

	"sgclaw/internal/build"
)

// Exit statuses.
const (
	exitOK    = 0
	exitFault = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Whoever asks twice does not want to wait.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// usageError is a fault of whoever called.
type usageError struct{ error }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var f flags
	runE := func(cmd *cobra.Command, agentArgs []string) error {
		s, err := load(f, cmd.Flags().Changed, agentArgs, stderr)
		if err != nil {
			return usageError{err}
		}
		return serve(cmd.Context(), s, stdin, stdout, stderr)
	}
	root := &cobra.Command{
		Use:           "browserhost",
		Short:         "Let an agent work in a Chrome or Chromium, within the rules",
		Args:          afterDash,
		RunE:          runE,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	start := &cobra.Command{
		Use:   "run [flags] [-- ARGUMENT...]",
		Short: "Start or attach to a browser and serve an agent (the default); arguments after -- are the agent's",
		Args:  afterDash,
		RunE:  runE,
		Example: `  browserhost run --rules rules.json --url https://oa.example.com/
  browserhost run --headless --console --confirm hold`,
	}
	for _, c := range []*cobra.Command{root, start} {
		f.register(c.Flags())
	}
	root.AddCommand(start, &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "browserhost", build.Version()) },
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "browserhost:", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "browserhost:", err)
	return exitFault
}

// afterDash takes arguments for the agent, which stand after "--", and no
// others: a mistyped command must not start a browser.
func afterDash(cmd *cobra.Command, args []string) error {
	n := cmd.ArgsLenAtDash()
	if n < 0 {
		n = len(args)
	}
	if n > 0 {
		return usageError{fmt.Errorf("there is no command %q; arguments for the agent stand after --", args[0])}
	}
	return nil
}
