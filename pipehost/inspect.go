package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/journal"
)

// journalCommand is for operators who want to know what a browser's agent
// did. The journal is locked while the agent runs.
func journalCommand(configPath *string, stderr io.Writer) *cobra.Command {
	var browserID string
	var asJSON bool
	open := func(cmd *cobra.Command) (*journal.Journal, error) {
		s, err := load(*configPath, stderr)
		if err != nil {
			return nil, err
		}
		id := browserID
		if id == "" {
			id = s.browserID
		}
		if id == "" {
			if id, err = journal.BrowserID(s.dataDir); err != nil {
				return nil, &faultError{err}
			}
		}
		if _, err := os.Stat(journal.Path(s.dataDir, id)); err != nil {
			return nil, &faultError{fmt.Errorf("browser %q has no journal in %s; name another with --browser", id, filepath.Clean(s.dataDir))}
		}
		j, err := journal.Open(cmd.Context(), s.log, s.dataDir, id)
		if errors.Is(err, journal.ErrLocked) {
			return nil, &faultError{fmt.Errorf("the agent of browser %q is running and has the journal; end it first: %w", id, err)}
		}
		if err != nil {
			return nil, &faultError{err}
		}
		return j, nil
	}
	cmd := &cobra.Command{Use: "journal", Short: "Look into a browser's journal while its agent is not running"}
	cmd.PersistentFlags().StringVar(&browserID, "browser", "", "browser id (default: the configured one, or the one kept in the data folder)")
	cmd.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON, one value a line")

	var run string
	list := &cobra.Command{
		Use:   "list",
		Short: "List the effects: what was sent to the browser, and what came of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withJournal(cmd, open, func(j *journal.Journal) error {
				effects, err := j.Effects(run)
				if err != nil {
					return err
				}
				return printEffects(cmd.OutOrStdout(), effects, asJSON)
			})
		},
	}
	list.Flags().StringVar(&run, "run", "", "only of this run")
	show := &cobra.Command{
		Use:   "show REF",
		Short: "Print an observation by its ref; a picture goes to stdout as it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withJournal(cmd, open, func(j *journal.Journal) error {
				body, err := j.Body(args[0])
				if err != nil {
					return err
				}
				out := cmd.OutOrStdout()
				switch {
				case asJSON:
					return json.NewEncoder(out).Encode(body)
				case len(body.Image) > 0:
					_, err = out.Write(body.Image)
				default:
					_, err = fmt.Fprintln(out, body.Text)
				}
				return err
			})
		},
	}
	prune := &cobra.Command{
		Use:   "prune",
		Short: "Drop what is older than it is kept; a running agent does so by itself every hour",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withJournal(cmd, open, (*journal.Journal).Prune)
		},
	}
	cmd.AddCommand(list, show, prune)
	return cmd
}

func withJournal(cmd *cobra.Command, open func(*cobra.Command) (*journal.Journal, error), f func(*journal.Journal) error) error {
	j, err := open(cmd)
	if err != nil {
		return err
	}
	err = errors.Join(f(j), j.Close())
	if err != nil {
		return &faultError{err}
	}
	return nil
}

func printEffects(out io.Writer, effects []journal.Effect, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		for _, e := range effects {
			if err := enc.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "BEGUN\tACTION\tSTATE\tOUTCOME\tCODE\tREF\tKEY")
	for _, e := range effects {
		outcome, code, ref := "unknown", "", ""
		if e.Result != nil {
			outcome, code, ref = string(e.Result.Outcome), e.Result.Code, e.Result.Ref
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.BegunAt.Local().Format(time.DateTime), e.Action, e.State, outcome, code, ref, e.Key)
	}
	return tw.Flush()
}
