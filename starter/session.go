package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// sessionLine is a session as `session list`, `show`, `set` and `reset` print
// it with --json.
type sessionLine struct {
	Type      string      `json:"type"` // "session"
	Key       string      `json:"key"`
	Agent     string      `json:"agent,omitempty"`
	Label     string      `json:"label,omitempty"`
	Mode      agent.Mode  `json:"mode,omitempty"`
	Model     string      `json:"model,omitempty"`
	Browser   string      `json:"browser,omitempty"`
	Runs      int         `json:"runs"`
	Active    string      `json:"active,omitempty"` // the run under way
	Queued    int         `json:"queued,omitempty"`
	Usage     agent.Usage `json:"usage"`
	LastTask  string      `json:"last_task,omitempty"`
	LastText  string      `json:"last_text,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
	UpdatedAt time.Time   `json:"updated_at"`
	ResetAt   *time.Time  `json:"reset_at,omitempty"`
}

func toSessionLine(s record.Session) sessionLine {
	l := sessionLine{
		Type: "session", Key: s.Key, Agent: s.Agent, Label: s.Settings.Label, Mode: s.Settings.Mode, Model: s.Settings.Model,
		Browser: s.Settings.Browser, Runs: s.Runs, Active: s.Active, Queued: s.Queued, Usage: s.Usage, LastTask: s.LastTask,
		LastText: s.LastText, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if s.Since.Year() > 1 {
		l.ResetAt = &s.Since
	}
	return l
}

// itemLine is a message of a session as `session show` prints it with
// --json.
type itemLine struct {
	Type    string        `json:"type"` // "item"
	ID      string        `json:"id"`
	RunID   string        `json:"run_id,omitempty"`
	Role    string        `json:"role"`
	Text    string        `json:"text,omitempty"`
	Calls   []agent.Call  `json:"calls,omitempty"`
	Call    *agent.Call   `json:"call,omitempty"`
	Outcome agent.Outcome `json:"outcome,omitempty"`
	Code    string        `json:"code,omitempty"`
	By      string        `json:"by,omitempty"`
	Label   string        `json:"label,omitempty"`
	At      time.Time     `json:"at"`
}

func (a *app) sessionCommand() *cobra.Command {
	list := a.sessionListCommand()
	cmd := &cobra.Command{
		Use: "session", Short: a.t("session"), Long: a.t("session_long"),
		Args: a.subcommands("list", "show", "export", "import", "set", "reset", "delete"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list.SetContext(cmd.Context())
			return list.RunE(list, args)
		},
	}
	cmd.AddCommand(
		list, a.sessionShowCommand(), a.sessionExportCommand(), a.sessionImportCommand(), a.sessionSetCommand(),
		a.sessionEndCommand("reset"), a.sessionEndCommand("delete"),
	)
	return cmd
}

func (a *app) sessionListCommand() *cobra.Command {
	var f store.SessionFilter
	cmd := &cobra.Command{
		Use: "list", Short: a.t("session_list"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Limit < 1 || f.Limit > 1000 {
				return usage("%s", a.t("want_limit"))
			}
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			sessions, _, err := db.Sessions(cmd.Context(), f)
			if err != nil {
				return databaseError{err}
			}
			if a.json {
				for _, s := range sessions {
					if err := a.emit(toSessionLine(s)); err != nil {
						return err
					}
				}
				return nil
			}
			return a.out(nil, func(w io.Writer) { a.printSessions(w, sessions) })
		},
	}
	cmd.Flags().StringVar(&f.Agent, "agent", "", a.t("flag_session_agent"))
	cmd.Flags().StringVar(&f.Search, "search", "", a.t("flag_session_search"))
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", 20, a.t("flag_session_limit"))
	return cmd
}

func (a *app) printSessions(w io.Writer, sessions []record.Session) {
	if len(sessions) == 0 {
		fmt.Fprintln(w, a.t("no_sessions"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.t("col_session"), a.t("col_agent"), a.t("col_label"), a.t("col_runs"), a.t("col_used"), a.t("col_last_task"))
	for _, s := range sessions {
		runs := fmt.Sprint(s.Runs)
		if s.Active != "" {
			runs += " " + a.t("session_active", s.Queued)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Key, s.Agent, oneLine(s.Settings.Label, 30), runs, a.moment(s.UpdatedAt), oneLine(s.LastTask, 50))
	}
	_ = tw.Flush() // w is a buffer
}

func (a *app) sessionShowCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "show KEY", Short: a.t("session_show"), Args: a.exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usage("%s", a.t("want_limit"))
			}
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			s, err := db.Session(cmd.Context(), args[0])
			if err != nil {
				return away(err)
			}
			items, total, err := db.History(cmd.Context(), args[0], store.HistoryFilter{Limit: limit})
			if err != nil {
				return away(err)
			}
			if a.json {
				return a.emitSession(s, items)
			}
			return a.out(nil, func(w io.Writer) { a.printSession(w, s, items, total) })
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, a.t("flag_session_items"))
	return cmd
}

// away marks an error that the database itself makes.
func away(err error) error {
	if errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrInvalid) {
		return err
	}
	return databaseError{err}
}

func (a *app) emitSession(s record.Session, items []store.HistoryItem) error {
	if err := a.emit(toSessionLine(s)); err != nil {
		return err
	}
	for _, i := range items {
		if err := a.emit(itemLine{"item", i.ID, i.RunID, i.Role, i.Text, i.Calls, i.Call, i.Outcome, i.Code, i.By, i.Label, i.At}); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printSession(w io.Writer, s record.Session, items []store.HistoryItem, total int) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(key, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", a.t(key), value)
		}
	}
	row("col_session", s.Key)
	row("col_label", oneLine(s.Settings.Label, 200))
	row("col_agent", s.Agent)
	row("col_mode", string(s.Settings.Mode))
	row("col_model", s.Settings.Model)
	row("col_browser", s.Settings.Browser)
	row("col_runs", fmt.Sprint(s.Runs))
	row("col_active", s.Active)
	if s.Queued > 0 {
		row("col_queued", fmt.Sprint(s.Queued))
	}
	if s.Usage.TotalTokens > 0 {
		row("col_tokens", fmt.Sprint(s.Usage.TotalTokens))
	}
	row("col_used", a.moment(s.UpdatedAt))
	if s.Since.Year() > 1 {
		row("col_reset", a.moment(s.Since))
	}
	_ = tw.Flush() // w is a buffer
	if n := total - len(items); n > 0 {
		fmt.Fprintln(w, "\n"+a.dim(a.t("session_more", n)))
	}
	for _, i := range items {
		who := a.t("role_" + i.Role)
		if i.By != "" {
			who += " " + i.By
		}
		fmt.Fprintf(w, "\n%s %s\n", a.bold(oneLine(who, 60)), a.dim(a.moment(i.At)))
		if i.Call != nil {
			text := a.deed(i.Call.Action)
			if i.Outcome != "" {
				text += ": " + a.outcomeWord(i.Outcome)
			}
			fmt.Fprintln(w, oneLine(text, 200))
		}
		if text := strings.TrimSpace(i.Text); text != "" {
			if i.Role == "tool" {
				text = oneLine(text, 200)
			}
			fmt.Fprintln(w, plain(text))
		}
		for _, c := range i.Calls {
			fmt.Fprintln(w, a.dim("-> "+oneLine(c.Action+" "+string(c.Params), 200)))
		}
	}
}

// sessionDetail is what the audit keeps of a change of a session.
type sessionDetail struct {
	Mode  *agent.Mode `json:"mode,omitempty"`
	Model *string     `json:"model,omitempty"`
	Agent *string     `json:"agent,omitempty"`
	Label *string     `json:"label,omitempty"`
	Items int         `json:"items,omitempty"`
}

// auditSession writes down what is about to be done with a session. Without
// that it is not done.
func (a *app) auditSession(ctx context.Context, db *store.Store, verb, key string, d sessionDetail) error {
	detail, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := db.Audit(ctx, store.AuditEntry{Who: a.who(), Via: store.ViaStarter, Verb: verb, Session: key, Detail: detail}); err != nil {
		return databaseError{err}
	}
	return nil
}

func (a *app) sessionSetCommand() *cobra.Command {
	var mode, model, id, label string
	cmd := &cobra.Command{
		Use: "set KEY", Short: a.t("session_set"), Long: a.t("session_set_long"), Args: a.exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var d sessionDetail
			if cmd.Flags().Changed("mode") {
				m := agent.Mode(mode)
				if !m.Valid() {
					return usage("%s", a.t("want_mode", mode))
				}
				d.Mode = &m
			}
			for name, to := range map[string]struct {
				value *string
				field **string
			}{"model": {&model, &d.Model}, "agent": {&id, &d.Agent}, "label": {&label, &d.Label}} {
				if cmd.Flags().Changed(name) {
					*to.field = to.value
				}
			}
			if d == (sessionDetail{}) {
				return usage("%s", a.t("want_setting"))
			}
			return a.setSession(cmd.Context(), args[0], d)
		},
	}
	cmd.Flags().StringVar(&mode, "mode", "", a.t("flag_session_mode"))
	cmd.Flags().StringVar(&model, "model", "", a.t("flag_session_model"))
	cmd.Flags().StringVar(&id, "agent", "", a.t("flag_session_set_agent"))
	cmd.Flags().StringVar(&label, "label", "", a.t("flag_session_label"))
	return cmd
}

func (a *app) setSession(ctx context.Context, key string, d sessionDetail) error {
	if d.Agent != nil && *d.Agent != "" {
		if err := a.knownAgent(*d.Agent); err != nil {
			return err
		}
	}
	db, err := a.database(ctx)
	if err != nil {
		return err
	}
	if _, err := db.Session(ctx, key); err != nil {
		return away(err)
	}
	if err := a.auditSession(ctx, db, "session.set", key, d); err != nil {
		return err
	}
	s, err := db.PatchSession(ctx, key, a.who(), func(set *record.SessionSettings) error {
		if d.Mode != nil {
			set.Mode = *d.Mode
		}
		if d.Model != nil {
			set.Model = *d.Model
		}
		if d.Label != nil {
			set.Label = *d.Label
		}
		return nil
	})
	if err != nil {
		return away(err)
	}
	if d.Agent != nil {
		if err := db.SetSessionAgent(ctx, key, *d.Agent); err != nil {
			return away(err)
		}
		s.Agent = *d.Agent
	}
	return a.out(toSessionLine(s), func(w io.Writer) { a.printSession(w, s, nil, 0) })
}

// knownAgent refuses an agent that is not configured here, if any are: no
// worker would answer.
func (a *app) knownAgent(id string) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if _, ok := cfg.Profile(id); ok {
		return nil
	}
	var names []string
	for _, p := range cfg.Profiles() {
		names = append(names, p.ID)
	}
	slices.Sort(names)
	return usage("%s", a.t("want_agent", id, strings.Join(names, " ")))
}

// sessionEndCommand is `reset` and `delete`.
func (a *app) sessionEndCommand(what string) *cobra.Command {
	return &cobra.Command{
		Use: what + " KEY", Short: a.t("session_" + what), Long: a.t("session_" + what + "_long"), Args: a.exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			s, err := db.Session(cmd.Context(), args[0])
			if err != nil {
				return away(err)
			}
			if err := a.auditSession(cmd.Context(), db, "session."+what, args[0], sessionDetail{}); err != nil {
				return err
			}
			done := "session_was_" + what
			if what == "reset" {
				s, err = db.ResetSession(cmd.Context(), args[0], a.who())
			} else {
				err = db.DeleteSession(cmd.Context(), args[0], a.who())
			}
			if err != nil {
				return away(err)
			}
			return a.out(toSessionLine(s), func(w io.Writer) { fmt.Fprintln(w, a.t(done, args[0])) })
		},
	}
}
