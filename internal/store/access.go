package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"sgclaw/internal/access"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// InsertToken keeps a new token.
func (s *Store) InsertToken(ctx context.Context, t access.Token) error {
	err := s.q.InsertToken(ctx, sqldb.InsertTokenParams{
		ID: t.ID, Name: t.Name, Role: string(t.Role), Hash: t.Hash, CreatedBy: clean(t.CreatedBy),
		CreatedAt: t.CreatedAt, ExpiresAt: nullTime(t.ExpiresAt),
	})
	if err != nil {
		return fmt.Errorf("token %s: %w", t.ID, permanent(err))
	}
	return nil
}

// Tokens lists all tokens, the oldest first, those too that were revoked or
// have expired.
func (s *Store) Tokens(ctx context.Context) ([]access.Token, error) {
	rows, err := s.q.ListTokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	out := make([]access.Token, 0, len(rows))
	for _, r := range rows {
		out = append(out, toToken(r))
	}
	return out, nil
}

// TokenByHash finds a token by access.Hash of its secret; none is
// record.ErrNotFound.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (access.Token, error) {
	row, err := s.q.TokenByHash(ctx, hash)
	if err != nil {
		return access.Token{}, fmt.Errorf("token: %w", notFound(err))
	}
	return toToken(row), nil
}

// RevokeToken takes a token back; one that was revoked stays as it was. No
// such token is record.ErrNotFound.
func (s *Store) RevokeToken(ctx context.Context, id, by string) error {
	n, err := s.q.RevokeToken(ctx, sqldb.RevokeTokenParams{ID: id, RevokedBy: clean(by)})
	if err == nil && n == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", id, permanent(err))
	}
	return nil
}

// TouchToken notes that a token was used, to the minute.
func (s *Store) TouchToken(ctx context.Context, id string) error {
	if err := s.q.TouchToken(ctx, id); err != nil {
		return fmt.Errorf("token %s: %w", id, err)
	}
	return nil
}

func toToken(r sqldb.Token) access.Token {
	return access.Token{
		ID: r.ID, Name: r.Name, Role: access.Role(r.Role), Hash: r.Hash, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
		ExpiresAt: utc(r.ExpiresAt), RevokedAt: utc(r.RevokedAt), RevokedBy: r.RevokedBy, UsedAt: utc(r.UsedAt),
	}
}

// Where something was done.
const (
	ViaGateway = "gateway"
	ViaStarter = "starter"
)

// AuditEntry is one line of who did what.
type AuditEntry struct {
	ID   int64     // grows; given by the store
	At   time.Time // given by the store
	Who  string
	Role access.Role // empty if it was not asked for
	Via  string      // ViaGateway or ViaStarter
	// Verb is what was asked for, e.g. "confirm"; it is written before it is
	// done, so it may have failed.
	Verb    string
	Session string
	RunID   string
	Detail  json.RawMessage // an object; empty is {}
}

// Audit writes down who does what. Nothing is ever deleted from it.
func (s *Store) Audit(ctx context.Context, e AuditEntry) error {
	detail := json.RawMessage("{}")
	if len(e.Detail) > 0 {
		var err error
		if detail, err = encode(e.Detail); err != nil {
			return fmt.Errorf("audit: %w: %w", ErrInvalid, err)
		}
	}
	err := s.q.InsertAudit(ctx, sqldb.InsertAuditParams{
		Who: clean(e.Who), Role: clean(string(e.Role)), Via: clean(e.Via), Verb: clean(e.Verb), Session: clean(e.Session), RunID: clean(e.RunID), Detail: detail,
	})
	if err != nil {
		return fmt.Errorf("audit: %w", permanent(err))
	}
	return nil
}

// AuditFilter chooses lines of the audit; empty fields choose all.
type AuditFilter struct {
	RunID   string
	Session string
	Who     string
	Before  int64 // an AuditEntry.ID: only earlier ones, for the next page
	Limit   int   // at most 1000; 0 means 50
}

// AuditLog lists who did what, the latest first.
func (s *Store) AuditLog(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	rows, err := s.q.ListAudit(ctx, sqldb.ListAuditParams{
		RunID: nullString(f.RunID), Session: nullString(f.Session), Who: nullString(f.Who),
		Before: sql.NullInt64{Int64: f.Before, Valid: f.Before > 0}, MaxRows: limit(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", permanent(err))
	}
	out := make([]AuditEntry, 0, len(rows))
	for _, r := range rows {
		out = append(out, AuditEntry{
			ID: r.ID, At: r.At.UTC(), Who: r.Who, Role: access.Role(r.Role), Via: r.Via, Verb: r.Verb,
			Session: r.Session, RunID: r.RunID, Detail: r.Detail,
		})
	}
	return out, nil
}

// Presence is a connection to a gateway, or the gateway itself.
type Presence struct {
	Instance string
	Conn     string          // unique at its instance; empty is the gateway itself
	Body     json.RawMessage // what others are shown of it
	Since    time.Time       // given by the store
	SeenAt   time.Time       // given by the store
}

// Beat says who is connected to a gateway just now; who is not named is gone.
// It also forgets gateways that have not said so for an hour.
func (s *Store) Beat(ctx context.Context, instance string, conns []Presence) error {
	type row struct {
		Conn string          `json:"conn"`
		Body json.RawMessage `json:"body"`
	}
	rows, names := make([]row, len(conns)), make([]string, len(conns))
	for i, c := range conns {
		names[i] = clean(c.Conn)
		rows[i] = row{names[i], c.Body}
		if len(c.Body) == 0 {
			rows[i].Body = json.RawMessage("{}")
		}
	}
	err := s.update(ctx, func(t *tx) error {
		body, err := encode(rows)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		if err := t.Beat(ctx, sqldb.BeatParams{Instance: instance, Conns: body}); err != nil {
			return err
		}
		if err := t.Gone(ctx, sqldb.GoneParams{Instance: instance, Conns: names}); err != nil {
			return err
		}
		return t.ForgetPresence(ctx)
	})
	if err != nil {
		return fmt.Errorf("presence at %s: %w", instance, err)
	}
	return nil
}

// Leave says that a gateway ends, and its connections with it.
func (s *Store) Leave(ctx context.Context, instance string) error {
	if err := s.q.Gone(ctx, sqldb.GoneParams{Instance: instance, Conns: []string{}}); err != nil {
		return fmt.Errorf("presence at %s: %w", instance, err)
	}
	return nil
}

// Presence lists who is connected to any gateway: those that were named by a
// Beat within the time fresh, in the order in which they came.
func (s *Store) Presence(ctx context.Context, fresh time.Duration) ([]Presence, error) {
	rows, err := s.q.ListPresence(ctx, fresh.Seconds())
	if err != nil {
		return nil, fmt.Errorf("presence: %w", err)
	}
	out := make([]Presence, 0, len(rows))
	for _, r := range rows {
		out = append(out, Presence{Instance: r.Instance, Conn: r.Conn, Body: r.Body, Since: r.Since.UTC(), SeenAt: r.SeenAt.UTC()})
	}
	return out, nil
}
