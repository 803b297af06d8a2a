package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sgclaw/internal/record"
	"sgclaw/internal/transcript"
)

// exportedLine is what `session export -o FILE --json` prints.
type exportedLine struct {
	Type    string `json:"type"` // "exported"
	Session string `json:"session"`
	File    string `json:"file"`
	Items   int    `json:"items"`
}

// importedLine is what `session import --json` prints.
type importedLine struct {
	Type    string         `json:"type"` // "imported"
	Session string         `json:"session"`
	Added   int            `json:"added"`
	Known   int            `json:"known"`
	Skipped map[string]int `json:"skipped,omitempty"` // lines by type
}

func (a *app) sessionExportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "export KEY", Short: a.t("session_export"), Long: a.t("session_export_long"), Args: a.exactly("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			db, err := a.database(cmd.Context())
			if err != nil {
				return err
			}
			s, err := transcript.Export(cmd.Context(), db, args[0])
			if err != nil {
				return away(err)
			}
			if file == "" || file == "-" {
				return transcript.Write(a.stdout, s)
			}
			if err := writeFile(file, func(w io.Writer) error { return transcript.Write(w, s) }); err != nil {
				return err
			}
			return a.out(exportedLine{"exported", args[0], file, len(s.Items)}, func(w io.Writer) {
				fmt.Fprintln(w, a.t("session_exported", len(s.Items), file))
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", a.t("flag_session_output"))
	return cmd
}

// writeFile writes a file that only its owner can read, whole or not at all.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (a *app) sessionImportCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "import FILE", Short: a.t("session_import"), Long: a.t("session_import_long"), Args: a.exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage("%v", err)
				}
				defer f.Close()
				in = f
			}
			s, err := transcript.Read(in)
			if err != nil {
				return err
			}
			if key == "" {
				key = s.Key
			}
			if key == "" {
				return usage("%s", a.t("want_session"))
			}
			return a.importSession(cmd, s, key)
		},
	}
	cmd.Flags().StringVar(&key, "session", "", a.t("flag_session_into"))
	return cmd
}

func (a *app) importSession(cmd *cobra.Command, s transcript.Session, key string) error {
	db, err := a.database(cmd.Context())
	if err != nil {
		return err
	}
	if err := a.auditSession(cmd.Context(), db, "session.import", key, sessionDetail{Items: len(s.Items)}); err != nil {
		return err
	}
	res, err := transcript.Import(cmd.Context(), db, s, key, a.who())
	switch {
	case errors.Is(err, transcript.ErrOther), errors.Is(err, transcript.ErrReset), errors.Is(err, record.ErrInvalid):
		return err
	case err != nil:
		return away(err)
	}
	return a.out(importedLine{"imported", key, res.Added, res.Known, s.Skipped}, func(w io.Writer) {
		fmt.Fprintln(w, a.t("session_imported", res.Added, key, res.Known))
		skipped := 0
		for _, n := range s.Skipped {
			skipped += n
		}
		if skipped > 0 {
			fmt.Fprintln(w, a.dim(a.t("session_skipped", skipped)))
		}
	})
}
