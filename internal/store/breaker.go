package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/critic"
	"sgclaw/internal/record"
	"sgclaw/internal/store/sqldb"
)

// Breaker is the circuit breaker of a browser.
type Breaker struct {
	Browser   string
	State     critic.Breaker
	UpdatedAt time.Time
	// ResetBy and ResetAt tell of the last reset by hand.
	ResetBy string
	ResetAt time.Time
}

// Breaker returns a browser's circuit breaker; a browser without one has the
// zero state.
func (s *Store) Breaker(ctx context.Context, browser string) (critic.Breaker, error) {
	var b critic.Breaker
	row, err := s.q.GetBreaker(ctx, browser)
	if errors.Is(err, sql.ErrNoRows) {
		return b, nil
	}
	if err == nil {
		err = decode(row.State, &b)
	}
	if err != nil {
		return b, fmt.Errorf("breaker of browser %s: %w", browser, err)
	}
	return b, nil
}

// SetBreaker changes a browser's circuit breaker; nobody else does meanwhile.
// change must be quick.
func (s *Store) SetBreaker(ctx context.Context, browser string, change func(critic.Breaker) critic.Breaker) error {
	err := s.update(ctx, func(t *tx) error { return t.changeBreaker(ctx, browser, change) })
	if err != nil {
		return fmt.Errorf("breaker of browser %s: %w", browser, err)
	}
	return nil
}

func (t *tx) changeBreaker(ctx context.Context, browser string, change func(critic.Breaker) critic.Breaker) error {
	browser = clean(browser)
	if err := t.EnsureBreaker(ctx, browser); err != nil {
		return err
	}
	state, err := t.LockBreaker(ctx, browser)
	if err != nil {
		return err
	}
	var b critic.Breaker
	if err := decode(state, &b); err != nil {
		return err
	}
	next, err := encode(change(b))
	if err != nil {
		return err
	}
	return t.SetBreaker(ctx, sqldb.SetBreakerParams{Browser: browser, State: next})
}

// Breakers lists the breakers of all browsers that ever acted, by browser.
func (s *Store) Breakers(ctx context.Context) ([]Breaker, error) {
	rows, err := s.q.ListBreakers(ctx)
	if err != nil {
		return nil, fmt.Errorf("breakers: %w", err)
	}
	out := make([]Breaker, 0, len(rows))
	for _, r := range rows {
		b := Breaker{Browser: r.Browser, UpdatedAt: r.UpdatedAt.UTC(), ResetBy: r.ResetBy, ResetAt: utc(r.ResetAt)}
		if err := decode(r.State, &b.State); err != nil {
			return nil, fmt.Errorf("breaker of browser %s: %w", r.Browser, err)
		}
		out = append(out, b)
	}
	return out, nil
}

// ResetBreaker closes a browser's breaker by hand (seed 001 §2.6, reset). A
// browser without one is record.ErrNotFound.
func (s *Store) ResetBreaker(ctx context.Context, browser, by string) error {
	n, err := s.q.ResetBreaker(ctx, sqldb.ResetBreakerParams{Browser: browser, ResetBy: clean(by)})
	if err == nil && n == 0 {
		err = record.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("reset breaker of browser %s: %w", browser, err)
	}
	return nil
}
