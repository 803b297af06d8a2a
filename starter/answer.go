package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/cobra"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
)

// decidedLine is what `confirm` and `reject` print with --json.
type decidedLine struct {
	Type      string `json:"type"` // "decided"
	RunID     string `json:"run_id"`
	ConfirmID string `json:"confirm_id"`
	Approved  bool   `json:"approved"`
	durable.Receipt
}

func (a *app) confirmCommand() *cobra.Command { return a.answerCommand("confirm", true) }

func (a *app) rejectCommand() *cobra.Command { return a.answerCommand("reject", false) }

func (a *app) answerCommand(name string, approved bool) *cobra.Command {
	answer := agent.Answer{Approved: approved}
	cmd := &cobra.Command{
		Use: name + " RUN|CONFIRM", Short: a.t(name), Long: a.t(name + "_long"), Args: a.exactly("RUN|CONFIRM"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			if answer.By == "" {
				answer.By = a.who()
			}
			return a.answer(cmd.Context(), c, args[0], answer)
		},
	}
	cmd.Flags().StringVar(&answer.ConfirmID, "id", "", a.t("flag_confirm_id"))
	cmd.Flags().StringVar(&answer.Digest, "digest", "", a.t("flag_digest"))
	cmd.Flags().StringVar(&answer.Note, "note", "", a.t("flag_note"))
	cmd.Flags().StringVar(&answer.By, "by", "", a.t("flag_by"))
	return cmd
}

func (a *app) answer(ctx context.Context, c *durable.Client, target string, answer agent.Answer) error {
	runID := target
	// A confirmation's id begins with its run's.
	if run, ok := runOfConfirm(target); ok && answer.ConfirmID == "" {
		if _, err := c.Describe(ctx, target); errors.Is(err, durable.ErrNotFound) {
			runID, answer.ConfirmID = run, target
		}
	}
	a.recordAnswer(ctx, runID, answer)
	reply, receipt, err := c.Confirm(ctx, runID, answer)
	if err != nil {
		return err
	}
	return a.out(decidedLine{"decided", runID, reply.ConfirmID, reply.Approved, receipt}, func(w io.Writer) {
		key := "rejected"
		if reply.Approved {
			key = "confirmed"
		}
		fmt.Fprintln(w, a.t(key, reply.ConfirmID))
		a.signalled(w, receipt)
	})
}

// confirmID is "RUN-cN-CALL".
var confirmID = regexp.MustCompile(`^(.+?)-c[0-9]+-[A-Za-z0-9._]+$`)

// runOfConfirm finds the run in a confirmation's id.
func runOfConfirm(id string) (runID string, ok bool) {
	m := confirmID.FindStringSubmatch(id)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func (a *app) signalled(w io.Writer, r durable.Receipt) {
	if r.Signalled {
		fmt.Fprintln(w, a.yellow(a.t("signalled")))
	}
}
