package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// runLine is a run as `status` and `list` print it with --json.
type runLine struct {
	Type string `json:"type"` // "run"
	durable.Run
	Success bool   `json:"success"`
	Reason  string `json:"reason,omitempty"`
	Summary string `json:"summary,omitempty"`
	Step    int    `json:"step,omitempty"`
	// Confirm is the open question.
	Confirm *agent.Confirmation `json:"confirm,omitempty"`
	Page    agent.Page          `json:"page,omitzero"`
	Usage   *agent.Usage        `json:"usage,omitempty"`
	// Live is false when no worker answered, so that Status may be old.
	Live bool `json:"live"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status RUN", Short: a.t("status"), Args: a.exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			l, err := a.status(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.out(l, func(w io.Writer) { a.printStatus(w, l) })
		},
	}
}

// status puts together what the server and the run say.
func (a *app) status(ctx context.Context, c *durable.Client, runID string) (runLine, error) {
	r, err := c.Describe(ctx, runID)
	if errors.Is(err, durable.ErrNotFound) {
		if k, kerr := a.recorded(ctx, runID); kerr == nil {
			return fromRecord(k), nil
		}
	}
	if err != nil {
		return runLine{}, err
	}
	l := runLine{Type: "run", Run: r, Success: r.Status == agent.StatusDone, Live: true}
	if r.Status == agent.StatusQueued || r.Execution == "" {
		return l, nil
	}
	st, err := c.State(ctx, runID)
	switch {
	case err == nil:
		l.merge(st)
	case errors.Is(err, durable.ErrNoWorker):
		l.Live = false
	default:
		return l, err
	}
	if !r.EndedAt.IsZero() {
		out, err := c.WaitResult(ctx, runID)
		if err != nil {
			return l, err
		}
		l.Status, l.Success, l.Reason, l.Summary, l.Step, l.Confirm = out.Status, out.Success, out.Reason, out.Summary, out.Steps, nil
		l.Usage = &out.Usage
	}
	return l, nil
}

// recorded returns a run that Temporal keeps no longer, or never began, from
// the database.
func (a *app) recorded(ctx context.Context, runID string) (record.Run, error) {
	db := a.maybeDatabase(ctx)
	if db == nil {
		return record.Run{}, record.ErrNotFound
	}
	return db.Run(ctx, runID)
}

func fromRecord(k record.Run) runLine {
	return runLine{
		Type: "run", Live: true, Success: k.Status == agent.StatusDone, Reason: k.Reason, Summary: k.Summary, Step: k.Steps, Usage: &k.Usage,
		Run: durable.Run{
			RunID: k.ID, Session: k.Session, Browser: k.Browser, User: k.Origin.User, Status: k.Status, Task: k.Task,
			StartedAt: k.StartedAt, EndedAt: k.EndedAt,
		},
	}
}

// merge takes over what the run itself knows better.
func (l *runLine) merge(st workflows.State) {
	if st.Status != "" {
		l.Status = st.Status
	}
	if st.Task != "" {
		l.Task = st.Task
	}
	if st.Browser != "" {
		l.Browser = st.Browser
	}
	l.Session, l.Step, l.Confirm, l.Page, l.Usage = st.Session, st.Step, st.Confirm, st.Page, &st.Usage
}

func (a *app) printStatus(w io.Writer, l runLine) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(key, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", a.t(key), value)
		}
	}
	row("col_run", l.RunID)
	row("col_task", l.Task)
	row("col_status", a.statusWord(l.Status))
	row("col_reason", a.reason(l.Reason))
	row("col_summary", l.Summary)
	row("col_session", l.Session)
	row("col_browser", l.Browser)
	if l.Step > 0 {
		row("col_step", fmt.Sprint(l.Step))
	}
	row("col_page", l.Page.URL)
	if l.Usage != nil && l.Usage.TotalTokens > 0 {
		row("col_tokens", fmt.Sprintf("%d (%d + %d)", l.Usage.TotalTokens, l.Usage.PromptTokens, l.Usage.CompletionTokens))
	}
	row("col_started", a.moment(l.StartedAt))
	row("col_ended", a.moment(l.EndedAt))
	_ = tw.Flush() // w is a buffer
	if l.Confirm != nil {
		fmt.Fprintln(w)
		a.printQuestion(w, *l.Confirm)
		fmt.Fprintln(w, a.dim(a.t("answer_hint", l.RunID, l.RunID)))
	}
	if !l.Live {
		fmt.Fprintln(w, a.yellow(a.t("not_live")))
	}
}

func (a *app) listCommand() *cobra.Command {
	var f durable.Filter
	var status string
	cmd := &cobra.Command{
		Use: "list", Short: a.t("list"), Long: a.t("list_long"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 || f.Limit > 1000 {
				return usage("%s", a.t("want_limit"))
			}
			f.Status = agent.Status(status)
			if status != "" && !knownStatus(f.Status) {
				return usage("%s", a.t("unknown_status", status))
			}
			lines, err := a.list(cmd.Context(), f)
			if err != nil {
				return err
			}
			if a.json {
				for _, l := range lines {
					if err := a.emit(l); err != nil {
						return err
					}
				}
				return nil
			}
			return a.out(nil, func(w io.Writer) { a.printList(w, lines) })
		},
	}
	cmd.Flags().StringVar(&status, "status", "", a.t("flag_status"))
	cmd.Flags().BoolVar(&f.Active, "active", false, a.t("flag_active"))
	cmd.Flags().StringVar(&f.Browser, "browser", "", a.t("flag_list_browser"))
	cmd.Flags().StringVar(&f.Session, "session", "", a.t("flag_list_session"))
	cmd.Flags().StringVar(&f.User, "user", "", a.t("flag_list_user"))
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 20, a.t("flag_limit"))
	return cmd
}

func statuses() []agent.Status {
	return []agent.Status{
		agent.StatusQueued, agent.StatusThinking, agent.StatusActing, agent.StatusWaitingConfirm, agent.StatusBrowserOffline,
		agent.StatusCooling, agent.StatusDone, agent.StatusFailed, agent.StatusRefused, agent.StatusAborted,
	}
}

func knownStatus(s agent.Status) bool {
	for _, k := range statuses() {
		if s == k {
			return true
		}
	}
	return false
}

// list reads Temporal, which knows what is so now, and adds from the
// database, if there is one, what only that keeps.
func (a *app) list(ctx context.Context, f durable.Filter) ([]runLine, error) {
	c, err := a.durable(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := c.List(ctx, f)
	if err != nil {
		return nil, err
	}
	kept := map[string]record.Run{}
	if len(runs) > 0 {
		if db := a.maybeDatabase(ctx); db != nil {
			rows, err := db.Runs(ctx, store.Filter{Session: f.Session, Browser: f.Browser, Limit: 1000})
			if err != nil {
				a.note("no_database", err)
			}
			for _, r := range rows {
				kept[r.ID] = r
			}
		}
	}
	lines := make([]runLine, 0, len(runs))
	for _, r := range runs {
		l := runLine{Type: "run", Run: r, Success: r.Status == agent.StatusDone, Live: true}
		if k, ok := kept[r.RunID]; ok {
			l.Task, l.Step, l.Usage = k.Task, k.Steps, &k.Usage
			if r.Status.Final() {
				l.Reason, l.Summary = k.Reason, k.Summary
			}
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func (a *app) printList(w io.Writer, lines []runLine) {
	if len(lines) == 0 {
		fmt.Fprintln(w, a.t("no_runs"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.t("col_run"), a.t("col_status"), a.t("col_browser"), a.t("col_started"), a.t("col_time"), a.t("col_task"))
	for _, l := range lines {
		took := ""
		switch {
		case !l.EndedAt.IsZero():
			took = short(l.EndedAt.Sub(l.StartedAt))
		case !l.StartedAt.IsZero():
			took = short(time.Since(l.StartedAt))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", l.RunID, a.statusWord(l.Status), l.Browser, a.moment(l.StartedAt), took, oneLine(l.Task, 50))
	}
	_ = tw.Flush() // w is a buffer
}

// resultLine is the result of a run: the last line of `start --wait --json`,
// `start --watch --json` and `watch --json`, and what `result --json`
// prints. Steps and models are there when the database is.
type resultLine struct {
	Type string `json:"type"` // "result"
	agent.TaskResult
	StepCount int `json:"step_count"`
}

func (a *app) resultCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "result RUN", Short: a.t("result"), Long: a.t("result_long"), Args: a.exactly("RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			if wait {
				return a.waitRun(cmd.Context(), c, args[0])
			}
			r, err := c.Describe(cmd.Context(), args[0])
			if errors.Is(err, durable.ErrNotFound) {
				if k, kerr := a.recorded(cmd.Context(), args[0]); kerr == nil && k.Status.Final() {
					return a.finished(cmd.Context(), workflows.Outcome{
						RunID: k.ID, Status: k.Status, Success: k.Status == agent.StatusDone, Reason: k.Reason, Summary: k.Summary, Steps: k.Steps, Usage: k.Usage,
					})
				}
			}
			if err != nil {
				return err
			}
			if r.EndedAt.IsZero() && r.Execution != "" || r.Status == agent.StatusQueued {
				return fmt.Errorf("%w: %s", errNotOver, r.RunID)
			}
			return a.waitRun(cmd.Context(), c, args[0])
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, a.t("flag_wait"))
	return cmd
}

// finished tells how a run ended, and sets the exit status by it.
func (a *app) finished(ctx context.Context, out workflows.Outcome) error {
	a.code = exitOf(out.Status)
	l := resultLine{Type: "result", StepCount: out.Steps, TaskResult: agent.TaskResult{
		RunID: out.RunID, Status: out.Status, Success: out.Success, Reason: out.Reason, Summary: out.Summary,
		Steps: []agent.Step{}, TokenUsage: out.Usage,
	}}
	if c := a.dc; c != nil {
		if r, err := c.Describe(ctx, out.RunID); err == nil && !r.EndedAt.IsZero() {
			l.DurationMS = r.EndedAt.Sub(r.StartedAt).Milliseconds()
		}
	}
	if db := a.maybeDatabase(ctx); db != nil {
		full, err := db.Result(ctx, out.RunID)
		switch {
		case err == nil && full.Status == out.Status:
			l.TaskResult = full
		case err != nil && !errors.Is(err, record.ErrNotFound):
			a.note("no_database", err)
		}
	}
	return a.out(l, func(w io.Writer) { a.printResult(w, l) })
}

func (a *app) printResult(w io.Writer, l resultLine) {
	mark := a.green("✓")
	if !l.Success {
		mark = a.red("✗")
	}
	fmt.Fprintf(w, "%s %s", mark, a.bold(a.statusWord(l.Status)))
	if l.Reason != "" {
		fmt.Fprintf(w, " · %s", a.reason(l.Reason))
	}
	fmt.Fprintf(w, " · %s", a.count("steps", l.StepCount))
	if l.DurationMS > 0 {
		fmt.Fprintf(w, " · %s", short(time.Duration(l.DurationMS)*time.Millisecond))
	}
	if l.TokenUsage.TotalTokens > 0 {
		fmt.Fprintf(w, " · %s", a.count("tokens", l.TokenUsage.TotalTokens))
	}
	fmt.Fprintln(w)
	if l.Summary != "" && l.Summary != a.reason(l.Reason) && !a.shown {
		fmt.Fprintln(w)
		fmt.Fprintln(w, l.Summary)
	}
}
