package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"sgclaw/migrations"
)

// Migration is one migration and whether the database has it.
type Migration struct {
	Version   int64
	Name      string
	Applied   bool
	AppliedAt time.Time
}

// Migrate brings the schema up to date. Any number of processes may do so at
// once: one works, under an advisory lock of the session, and the others
// wait for it, for up to five minutes.
func (s *Store) Migrate(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// MigrationStatus lists all known migrations in order.
func (s *Store) MigrationStatus(ctx context.Context) ([]Migration, error) {
	p, err := s.provider()
	if err != nil {
		return nil, err
	}
	list, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	out := make([]Migration, 0, len(list))
	for _, m := range list {
		out = append(out, Migration{
			Version: m.Source.Version, Name: m.Source.Path,
			Applied: m.State == goose.StateApplied, AppliedAt: m.AppliedAt.UTC(),
		})
	}
	return out, nil
}

// rollback undoes all migrations.
func (s *Store) rollback(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return err
	}
	if _, err := p.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("migrate down: %w", err)
	}
	return nil
}

func (s *Store) provider() (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, s.db, migrations.FS,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true), goose.WithSlog(s.log))
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return p, nil
}
