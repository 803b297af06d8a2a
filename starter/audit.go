package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/access"
	"sgclaw/internal/agent"
	"sgclaw/internal/store"
)

// auditLine is what `audit --json` prints for each entry.
type auditLine struct {
	Type    string          `json:"type"` // "audit"
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`
	Role    access.Role     `json:"role,omitempty"`
	Via     string          `json:"via"`
	Verb    string          `json:"verb"`
	Session string          `json:"session,omitempty"`
	RunID   string          `json:"run_id,omitempty"`
	Detail  json.RawMessage `json:"detail"`
}

func (a *app) auditCommand() *cobra.Command {
	var f store.AuditFilter
	cmd := &cobra.Command{
		Use: "audit", Short: a.t("audit"), Long: a.t("audit_long"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 || f.Limit > 1000 {
				return usage("%s", a.t("want_limit"))
			}
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			entries, err := db.AuditLog(cmd.Context(), f)
			if err != nil {
				return databaseError{err}
			}
			if a.json {
				for _, e := range entries {
					if err := a.emit(auditLine{"audit", e.ID, e.At, e.Who, e.Role, e.Via, e.Verb, e.Session, e.RunID, e.Detail}); err != nil {
						return err
					}
				}
				return nil
			}
			return a.out(nil, func(w io.Writer) { a.printAudit(w, entries) })
		},
	}
	cmd.Flags().StringVar(&f.RunID, "run", "", a.t("flag_audit_run"))
	cmd.Flags().StringVar(&f.Session, "session", "", a.t("flag_audit_session"))
	cmd.Flags().StringVar(&f.Who, "who", "", a.t("flag_audit_who"))
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 20, a.t("flag_audit_limit"))
	return cmd
}

func (a *app) printAudit(w io.Writer, entries []store.AuditEntry) {
	if len(entries) == 0 {
		fmt.Fprintln(w, a.t("no_audit"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.t("col_time_at"), a.t("col_who"), a.t("col_via"), a.t("col_verb"), a.t("col_about"), a.t("col_detail"))
	for _, e := range entries {
		who, about, detail := e.Who, e.RunID, string(e.Detail)
		if e.Role != "" {
			who += " (" + string(e.Role) + ")"
		}
		if about == "" {
			about = e.Session
		}
		if detail == "{}" {
			detail = ""
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.moment(e.At), oneLine(who, 40), oneLine(e.Via, 20), oneLine(e.Verb, 40), oneLine(about, 60), oneLine(detail, 80))
	}
	_ = tw.Flush() // w is a buffer
}

// deedDetail is what the audit keeps of what somebody asks of a run.
type deedDetail struct {
	ConfirmID   string `json:"confirm_id,omitempty"`
	Note        string `json:"note,omitempty"`
	By          string `json:"by,omitempty"` // if somebody else is named than who asks
	Reason      string `json:"reason,omitempty"`
	ToStep      int    `json:"to_step,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	Browser     string `json:"browser,omitempty"`
}

// record writes down, in the audit, what is about to be asked of a run. It is
// done all the same if that fails: whoever must stop a run must not be kept
// from it by a database that is away.
func (a *app) record(ctx context.Context, verb, runID string, d deedDetail) {
	without := a.noDB
	db := a.maybeDatabase(ctx)
	if db == nil {
		if a.noDB && !without {
			a.warn("not_audited")
		}
		return
	}
	detail, err := json.Marshal(d)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
		defer cancel()
		err = db.Audit(ctx, store.AuditEntry{Who: a.who(), Via: store.ViaStarter, Verb: verb, RunID: runID, Detail: detail})
	}
	if err != nil {
		a.warn("not_audited_why", err)
	}
}

// recordAnswer is record for the answer to a question.
func (a *app) recordAnswer(ctx context.Context, runID string, answer agent.Answer) {
	d, verb := deedDetail{ConfirmID: answer.ConfirmID, Note: answer.Note}, "reject"
	if answer.Approved {
		verb = "confirm"
	}
	if answer.By != a.who() {
		d.By = answer.By
	}
	a.record(ctx, verb, runID, d)
}

func (a *app) warn(key string, args ...any) {
	fmt.Fprintln(a.stderr, a.yellow(a.t("warning"))+" "+a.t(key, args...))
}
