package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sgclaw/internal/access"
	"sgclaw/internal/store"
)

// tokenLine is what `token create --json` and `token revoke --json` print,
// and `token list --json` for each.
type tokenLine struct {
	Type      string      `json:"type"` // "token"
	ID        string      `json:"id"`
	Name      string      `json:"name,omitempty"`
	Role      access.Role `json:"role,omitempty"`
	CreatedBy string      `json:"created_by,omitempty"`
	CreatedAt *time.Time  `json:"created_at,omitempty"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"`
	RevokedAt *time.Time  `json:"revoked_at,omitempty"`
	RevokedBy string      `json:"revoked_by,omitempty"`
	UsedAt    *time.Time  `json:"used_at,omitempty"`
	// Secret is there when the token is made, and never again.
	Secret string `json:"secret,omitempty"`
}

func toTokenLine(t access.Token) tokenLine {
	return tokenLine{
		Type: "token", ID: t.ID, Name: t.Name, Role: t.Role, CreatedBy: t.CreatedBy, CreatedAt: some(t.CreatedAt),
		ExpiresAt: some(t.ExpiresAt), RevokedAt: some(t.RevokedAt), RevokedBy: t.RevokedBy, UsedAt: some(t.UsedAt),
	}
}

// tokenDetail is what the audit keeps of a token that is made or revoked.
type tokenDetail struct {
	ID        string      `json:"id"`
	Name      string      `json:"name,omitempty"`
	Role      access.Role `json:"role,omitempty"`
	ExpiresAt *time.Time  `json:"expires_at,omitempty"`
}

func (a *app) tokenCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error {
		db, err := a.database(cmd.Context())
		if err != nil {
			return err
		}
		tokens, err := db.Tokens(cmd.Context())
		if err != nil {
			return databaseError{err}
		}
		if a.json {
			for _, t := range tokens {
				if err := a.emit(toTokenLine(t)); err != nil {
					return err
				}
			}
			return nil
		}
		return a.out(nil, func(w io.Writer) { a.printTokens(w, tokens) })
	}
	cmd := &cobra.Command{
		Use: "token", Short: a.t("token"), Long: a.t("token_long"), Args: a.subcommands("create", "list", "revoke"), RunE: list,
	}
	cmd.AddCommand(
		a.tokenCreateCommand(),
		&cobra.Command{Use: "list", Short: a.t("token_list"), Args: a.exactly(), RunE: list},
		&cobra.Command{
			Use: "revoke ID", Short: a.t("token_revoke"), Args: a.exactly("ID"),
			RunE: func(cmd *cobra.Command, args []string) error { return a.revokeToken(cmd, args[0]) },
		},
	)
	return cmd
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var role, ttl string
	cmd := &cobra.Command{
		Use: "create NAME --role ROLE", Short: a.t("token_create"), Long: a.t("token_create_long"), Args: a.exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !access.Role(role).Valid() {
				return usage("%s", a.t("want_role", roleNames()))
			}
			life, err := lifetime(ttl)
			if err != nil {
				return usage("%s", a.t("want_ttl", ttl))
			}
			secret, token, err := access.New(args[0], access.Role(role), life)
			if errors.Is(err, access.ErrInvalid) {
				return usage("%v", err)
			}
			if err != nil {
				return err
			}
			return a.createToken(cmd, secret, token)
		},
	}
	cmd.Flags().StringVar(&role, "role", "", a.t("flag_role", roleNames()))
	cmd.Flags().StringVar(&ttl, "ttl", "", a.t("flag_ttl"))
	return cmd
}

func roleNames() string {
	var names []string
	for _, r := range access.Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, " ")
}

// lifetime reads "90d" and what Go takes for a duration, e.g. "12h"; empty is
// for ever.
func lifetime(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16) // at most 65535 days
		d = time.Duration(n) * 24 * time.Hour
	} else {
		d, err = time.ParseDuration(s)
	}
	if err == nil && d <= 0 {
		err = strconv.ErrRange
	}
	return d, err
}

func (a *app) createToken(cmd *cobra.Command, secret string, token access.Token) error {
	db, err := a.database(cmd.Context())
	if err != nil {
		return err
	}
	token.CreatedBy = a.who()
	if err := a.auditToken(cmd, db, "token.create", tokenDetail{token.ID, token.Name, token.Role, some(token.ExpiresAt)}); err != nil {
		return err
	}
	if err := db.InsertToken(cmd.Context(), token); err != nil {
		return databaseError{err}
	}
	line := toTokenLine(token)
	line.Secret = secret
	// Only the secret goes to stdout, so that a script can keep it.
	if !a.json {
		a.note("token_created", token.ID, token.Name, token.Role)
	}
	return a.out(line, func(w io.Writer) { fmt.Fprintln(w, secret) })
}

func (a *app) revokeToken(cmd *cobra.Command, id string) error {
	db, err := a.database(cmd.Context())
	if err != nil {
		return err
	}
	if err := a.auditToken(cmd, db, "token.revoke", tokenDetail{ID: id}); err != nil {
		return err
	}
	if err := db.RevokeToken(cmd.Context(), id, a.who()); err != nil {
		return err
	}
	now := time.Now().UTC()
	return a.out(tokenLine{Type: "token", ID: id, RevokedAt: &now, RevokedBy: a.who()}, func(w io.Writer) {
		fmt.Fprintln(w, a.t("token_revoked", id))
	})
}

// auditToken writes down what is about to be done with a token. Without that
// it is not done.
func (a *app) auditToken(cmd *cobra.Command, db *store.Store, verb string, d tokenDetail) error {
	detail, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := db.Audit(cmd.Context(), store.AuditEntry{Who: a.who(), Via: store.ViaStarter, Verb: verb, Detail: detail}); err != nil {
		return databaseError{err}
	}
	return nil
}

func (a *app) printTokens(w io.Writer, tokens []access.Token) {
	if len(tokens) == 0 {
		fmt.Fprintln(w, a.t("no_tokens"))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", a.t("col_id"), a.t("col_name"), a.t("col_role"), a.t("col_state"), a.t("col_used"), a.t("col_created_by"))
	for _, t := range tokens {
		state := a.t("token_good")
		switch {
		case !t.RevokedAt.IsZero():
			state = a.t("token_was_revoked", t.RevokedBy)
		case !t.ExpiresAt.IsZero() && !time.Now().Before(t.ExpiresAt):
			state = a.t("token_expired")
		case !t.ExpiresAt.IsZero():
			state = a.t("token_good_until", a.moment(t.ExpiresAt))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.Name, t.Role, state, a.moment(t.UsedAt), t.CreatedBy)
	}
	_ = tw.Flush() // w is a buffer
}
