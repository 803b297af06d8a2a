package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sgclaw/internal/durable"
	"sgclaw/workflows"
)

// sentLine is what `abort`, `instruct` and `move` print with --json.
type sentLine struct {
	Type  string `json:"type"` // "sent"
	What  string `json:"what"` // "abort", "instruct" or "move"
	RunID string `json:"run_id"`
	durable.Receipt
}

func (a *app) sent(what, runID string, r durable.Receipt) error {
	return a.out(sentLine{"sent", what, runID, r}, func(w io.Writer) {
		if r.Queued {
			fmt.Fprintln(w, a.t("dropped", runID))
			return
		}
		fmt.Fprintln(w, a.t("sent_"+what, runID))
		a.signalled(w, r)
	})
}

func (a *app) abortCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "abort RUN", Short: a.t("abort"), Long: a.t("abort_long"), Args: a.exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			a.record(cmd.Context(), "abort", args[0], deedDetail{Reason: reason})
			r, err := c.Abort(cmd.Context(), args[0], workflows.Abort{By: a.who(), Reason: reason})
			if err != nil {
				return err
			}
			return a.sent("abort", args[0], r)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", a.t("flag_reason"))
	return cmd
}

func (a *app) instructCommand() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use: "instruct RUN [TEXT]", Short: a.t("instruct"), Long: a.t("instruct_long"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s", a.t("want_args", "RUN [TEXT]", 0))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.text(args[1:], "want_instruction")
			if err != nil {
				return err
			}
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			r, err := c.Instruct(cmd.Context(), args[0], workflows.Instruction{ID: id, Text: text, By: a.who()})
			if err != nil {
				return err
			}
			return a.sent("instruct", args[0], r)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", a.t("flag_instruction_id"))
	return cmd
}

func (a *app) moveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "move RUN BROWSER", Short: a.t("move"), Long: a.t("move_long"), Args: a.exactly("RUN", "BROWSER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			a.record(cmd.Context(), "move", args[0], deedDetail{Browser: args[1]})
			r, err := c.Move(cmd.Context(), args[0], workflows.Move{BrowserID: args[1], By: a.who()})
			if err != nil {
				return err
			}
			return a.sent("move", args[0], r)
		},
	}
}

// rewoundLine is what `rewind` prints with --json.
type rewoundLine struct {
	Type string `json:"type"` // "rewound"
	durable.Rewound
}

func (a *app) rewindCommand() *cobra.Command {
	var step int
	var text string
	cmd := &cobra.Command{
		Use: "rewind RUN --to-step N", Short: a.t("rewind"), Long: a.t("rewind_long"), Args: a.exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if step < 1 {
				return usage("%s", a.t("want_step"))
			}
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			a.record(cmd.Context(), "rewind", args[0], deedDetail{ToStep: step, Instruction: text})
			r, err := c.Rewind(cmd.Context(), args[0], step, workflows.Instruction{Text: text, By: a.who()})
			if err != nil {
				return err
			}
			return a.out(rewoundLine{"rewound", r}, func(w io.Writer) {
				fmt.Fprintln(w, a.t("rewound", r.RunID, r.Step))
				fmt.Fprintln(w, a.dim(a.t("rewound_hint", r.RunID)))
			})
		},
	}
	cmd.Flags().IntVar(&step, "to-step", 0, a.t("flag_to_step"))
	cmd.Flags().StringVar(&text, "instruction", "", a.t("flag_instruction"))
	return cmd
}
