package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/spell"
)

// startedLine is what `start --json` prints first.
type startedLine struct {
	Type string `json:"type"` // "started"
	durable.Started
	Browser string `json:"browser"`
}

type startFlags struct {
	session, browser, id string
	wait, watch          bool
	settings             agent.Settings
}

func (a *app) startCommand() *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:     "start [TASK]",
		Short:   a.t("start"),
		Long:    a.t("start_long"),
		Example: a.t("start_example"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.wait && f.watch {
				return usage("%s", a.t("wait_or_watch"))
			}
			task, err := a.text(args, "want_task")
			if err != nil {
				return err
			}
			for _, name := range []string{"max-steps", "confirm-timeout", "offline-timeout", "max-time"} {
				if n, err := cmd.Flags().GetInt(name); err == nil && cmd.Flags().Changed(name) && n < 1 {
					return usage("%s", a.t("want_positive", "--"+name))
				}
			}
			for _, name := range f.settings.ConfirmActions {
				if known := action.Names(); !slices.Contains(known, name) {
					return usage("%s", a.t("unknown_action", name, cmp.Or(spell.Nearest(name, known), strings.Join(known, " "))))
				}
			}
			return a.start(cmd.Context(), task, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.session, "session", "", a.t("flag_session"))
	fl.StringVar(&f.browser, "browser", "", a.t("flag_browser"))
	fl.StringVar(&f.id, "id", "", a.t("flag_id"))
	fl.BoolVar(&f.wait, "wait", false, a.t("flag_wait"))
	fl.BoolVar(&f.watch, "watch", false, a.t("flag_watch"))
	fl.IntVar(&f.settings.MaxSteps, "max-steps", 0, a.t("flag_max_steps"))
	fl.IntVar(&f.settings.MaxTaskS, "max-time", 0, a.t("flag_max_time"))
	fl.IntVar(&f.settings.ConfirmTimeoutS, "confirm-timeout", 0, a.t("flag_confirm_timeout"))
	fl.IntVar(&f.settings.OfflineTimeoutS, "offline-timeout", 0, a.t("flag_offline_timeout"))
	fl.StringSliceVar(&f.settings.ConfirmActions, "confirm-action", nil, a.t("flag_confirm_action"))
	return cmd
}

// text takes a text for the agent from the arguments, or from stdin when
// there are none or it is "-"; missing is the key of what is said when it is
// empty.
func (a *app) text(args []string, missing string) (string, error) {
	if len(args) > 1 || len(args) == 1 && args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	if isTerminal(a.stdin) {
		if len(args) == 0 {
			return "", usage("%s", a.t(missing))
		}
		a.note("reading_task")
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, agent.MaxInstruction+1))
	if err != nil {
		return "", fmt.Errorf("read the task from stdin: %w", err)
	}
	task := strings.TrimSpace(string(b))
	switch {
	case task == "":
		return "", usage("%s", a.t(missing))
	case len(b) > agent.MaxInstruction:
		return "", usage("%s", a.t("long_task", agent.MaxInstruction))
	case !utf8.ValidString(task):
		return "", usage("%s", a.t("bad_utf8"))
	}
	return task, nil
}

func (a *app) start(ctx context.Context, task string, f startFlags) error {
	c, err := a.durable(ctx)
	if err != nil {
		return err
	}
	browser, err := a.browser(ctx, c, f.browser)
	if err != nil {
		return err
	}
	f.settings.Locale = a.lang
	started, err := c.StartTask(ctx, f.session, agent.Message{
		ID: f.id, Text: task, BrowserID: browser, Origin: a.origin(), Settings: f.settings,
	})
	if err != nil {
		return err
	}
	if err := a.out(startedLine{"started", started, browser}, func(w io.Writer) {
		switch {
		case started.Known:
			fmt.Fprintln(w, a.t("known", started.RunID))
		case f.watch || f.wait:
			fmt.Fprintln(w, a.t("started", started.RunID, browser))
		default:
			fmt.Fprintln(w, a.t("started", started.RunID, browser))
			fmt.Fprintln(w, a.dim(a.t("started_hint", started.RunID)))
		}
	}); err != nil {
		return err
	}
	switch {
	case f.watch:
		return a.watchRun(ctx, c, started.RunID)
	case f.wait:
		return a.waitRun(ctx, c, started.RunID)
	}
	return nil
}

// browser chooses the browser of a task: the one that is named, the
// configured one, else the only one that is online.
func (a *app) browser(ctx context.Context, c *durable.Client, named string) (string, error) {
	if named == "" {
		named = a.cfg.Browser.ID
	}
	if named != "" {
		return named, nil
	}
	all, err := c.Browsers(ctx)
	if err != nil {
		return "", err
	}
	var online, offline []string
	for _, b := range all {
		if b.Online {
			online = append(online, b.ID)
		} else {
			offline = append(offline, b.ID)
		}
	}
	switch {
	case len(online) == 1:
		return online[0], nil
	case len(online) > 1:
		return "", fmt.Errorf("%w: %s", errManyBrowsers, strings.Join(online, ", "))
	case len(offline) > 0:
		return "", fmt.Errorf("%w; offline: %s", errNoBrowser, strings.Join(offline, ", "))
	}
	return "", fmt.Errorf("%w, and none ever was", errNoBrowser)
}

// waitRun waits for the end of a run, silently, and tells the result.
func (a *app) waitRun(ctx context.Context, c *durable.Client, runID string) error {
	out, err := c.WaitResult(ctx, runID)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			a.detached(runID)
		}
		return err
	}
	return a.finished(ctx, out)
}

// detached says how to come back to a run that goes on.
func (a *app) detached(runID string) {
	if !a.json {
		fmt.Fprintln(a.stderr)
		a.note("detached", runID, runID)
	}
}
