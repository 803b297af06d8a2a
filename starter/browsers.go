package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/critic"
	"sgclaw/internal/durable"
	"sgclaw/internal/store"
)

// browserLine is what `browsers --json` prints per browser.
type browserLine struct {
	Type string `json:"type"` // "browser"
	durable.Browser
}

func (a *app) browsersCommand() *cobra.Command {
	return &cobra.Command{
		Use: "browsers", Short: a.t("browsers"), Long: a.t("browsers_long"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.durable(cmd.Context())
			if err != nil {
				return err
			}
			list, err := c.Browsers(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				for _, b := range list {
					if err := a.emit(browserLine{"browser", b}); err != nil {
						return err
					}
				}
				return nil
			}
			return a.out(nil, func(w io.Writer) { a.printBrowsers(w, list) })
		},
	}
}

func (a *app) printBrowsers(w io.Writer, list []durable.Browser) {
	if len(list) == 0 {
		fmt.Fprintln(w, a.t("no_browsers"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", a.t("col_browser"), a.t("col_state"), a.t("col_version"), a.t("col_page"))
	for _, b := range list {
		state := a.t("offline")
		if b.Online {
			state = a.t("online")
		} else if !b.LastSeen.IsZero() {
			state = a.t("offline_since", a.moment(b.LastSeen))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", b.ID, state, b.Version, b.Page.URL)
	}
	_ = tw.Flush() // w is a buffer
}

// breakerLine is what `breaker list --json` prints per browser, and
// `breaker reset --json` for the one.
type breakerLine struct {
	Type      string     `json:"type"` // "breaker"
	Browser   string     `json:"browser"`
	Phase     string     `json:"phase"`
	Failures  int        `json:"failures"`
	Until     *time.Time `json:"until,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
	ResetBy   string     `json:"reset_by,omitempty"`
	ResetAt   *time.Time `json:"reset_at,omitempty"`
}

func (a *app) breakerCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error {
		db, err := a.database(cmd.Context())
		if err != nil {
			return err
		}
		rows, err := db.Breakers(cmd.Context())
		if err != nil {
			return databaseError{err}
		}
		if a.json {
			for _, b := range rows {
				if err := a.emit(toBreakerLine(b)); err != nil {
					return err
				}
			}
			return nil
		}
		return a.out(nil, func(w io.Writer) { a.printBreakers(w, rows) })
	}
	cmd := &cobra.Command{
		Use: "breaker", Short: a.t("breaker"), Long: a.t("breaker_long"), Args: a.subcommands("list", "reset"), RunE: list,
	}
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: a.t("breaker_list"), Args: a.exactly(), RunE: list},
		&cobra.Command{
			Use: "reset BROWSER", Short: a.t("breaker_reset"), Args: a.exactly("BROWSER"),
			RunE: func(cmd *cobra.Command, args []string) error {
				db, err := a.database(cmd.Context())
				if err != nil {
					return err
				}
				if err := db.ResetBreaker(cmd.Context(), args[0], a.who()); err != nil {
					return err
				}
				now := time.Now().UTC()
				return a.out(breakerLine{Type: "breaker", Browser: args[0], Phase: string(critic.Closed), ResetBy: a.who(), ResetAt: &now}, func(w io.Writer) {
					fmt.Fprintln(w, a.t("breaker_was_reset", args[0]))
				})
			},
		},
	)
	return cmd
}

func toBreakerLine(b store.Breaker) breakerLine {
	l := breakerLine{
		Type: "breaker", Browser: b.Browser, Phase: string(b.State.Phase), Failures: b.State.Failures, Until: some(openUntil(b.State)),
		UpdatedAt: some(b.UpdatedAt), ResetBy: b.ResetBy, ResetAt: some(b.ResetAt),
	}
	if l.Phase == "" {
		l.Phase = string(critic.Closed)
	}
	return l
}

func some(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *app) printBreakers(w io.Writer, rows []store.Breaker) {
	if len(rows) == 0 {
		fmt.Fprintln(w, a.t("no_breakers"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", a.t("col_browser"), a.t("col_state"), a.t("col_failures"), a.t("col_until"))
	for _, b := range rows {
		l := toBreakerLine(b)
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", l.Browser, a.t("phase_"+l.Phase), l.Failures, a.moment(openUntil(b.State)))
	}
	_ = tw.Flush() // w is a buffer
}

// migrationLine is what `migrate status --json` prints per migration, and
// `migrate --json` when it is done.
type migrationLine struct {
	Type      string     `json:"type"` // "migration"
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	Applied   bool       `json:"applied"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

func (a *app) migrateCommand() *cobra.Command {
	show := func(cmd *cobra.Command, db *store.Store) error {
		rows, err := db.MigrationStatus(cmd.Context())
		if err != nil {
			return databaseError{err}
		}
		for _, m := range rows {
			l := migrationLine{"migration", m.Version, m.Name, m.Applied, some(m.AppliedAt)}
			if err := a.out(l, func(w io.Writer) {
				mark, when := a.green("✓"), a.moment(m.AppliedAt)
				if !m.Applied {
					mark, when = a.yellow("·"), a.t("pending")
				}
				fmt.Fprintf(w, "%s %s  %s\n", mark, m.Name, when)
			}); err != nil {
				return err
			}
		}
		return nil
	}
	cmd := &cobra.Command{
		Use: "migrate", Short: a.t("migrate"), Long: a.t("migrate_long"), Args: a.subcommands("status"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			if err := db.Migrate(cmd.Context()); err != nil {
				return databaseError{err}
			}
			return show(cmd, db)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "status", Short: a.t("migrate_status"), Args: a.exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			return show(cmd, db)
		},
	})
	return cmd
}

// subcommands refuses what is not one of a command's subcommands.
func (a *app) subcommands(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("%s", a.t("want_subcommand", fmt.Sprint(names), args[0]))
		}
		return nil
	}
}

// openUntil is when an open breaker lets the next action try; zero if it is
// not open.
func openUntil(b critic.Breaker) time.Time {
	if b.Phase != critic.Open {
		return time.Time{}
	}
	return b.OpenedAt.Add(b.Cooldown)
}
