package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sgclaw/internal/conformance"
)

func conformanceCommand() *cobra.Command {
	var as string
	var only []string
	cmd := &cobra.Command{
		Use:   "conformance --as browser|agent -- COMMAND [ARGUMENT…]",
		Short: "Play the other side against a program and say rule by rule whether it keeps the protocol",
		Long: `Plays the browser against an agent (--as browser), or the agent against a
browser host (--as agent), and prints one line per rule. The exit status is 0
if no rule failed, else 1.

A browser host starts its agent itself: {agent} in its arguments becomes the
path of a stand-in, {rules} that of a policy file to use, and both are in its
environment as SGCLAW_PIPEHOST and SGCLAW_RULES_PATH.`,
		Example: `  pipehost conformance --as browser -- pipehost
  pipehost conformance --as agent -- browserhost --pipehost {agent} --rules {rules}`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := conformance.Config{Command: args, Log: cmd.OutOrStdout(), Only: only}
			var report conformance.Report
			var err error
			switch as {
			case "browser":
				report, err = conformance.PlayBrowser(cmd.Context(), cfg)
			case "agent":
				report, err = conformance.PlayAgent(cmd.Context(), cfg)
			default:
				return fmt.Errorf("--as must be browser or agent, not %q", as)
			}
			if err != nil {
				return &faultError{err}
			}
			if code := report.ExitCode(); code != 0 {
				return exit(code)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the side to play: browser or agent")
	cmd.Flags().StringSliceVar(&only, "only", nil, "play only these rules, by id or name")
	return cmd
}
