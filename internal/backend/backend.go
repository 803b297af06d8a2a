// Package backend opens what the server side's processes share, the database
// and Temporal, as configured. It waits for what is away, so that processes
// can be started in any order.
package backend

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"

	"sgclaw/internal/config"
	"sgclaw/internal/durable"
	"sgclaw/internal/store"
	"sgclaw/internal/telemetry"
)

// Waits between attempts.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = 5 * time.Second
)

// Store opens the database, waiting for it while it is away, and brings its
// schema up to date. The caller closes it.
func Store(ctx context.Context, log *slog.Logger, cfg *config.Config) (*store.Store, error) {
	for wait := retryFirst; ; wait = min(wait*2, retryMost) {
		db, err := store.Open(ctx, cfg.Database.URL.Reveal(), store.Options{MaxConns: cfg.Database.MaxConns, Log: log})
		if err == nil {
			if err = db.Migrate(ctx); err == nil {
				return db, nil
			}
			db.Close()
		}
		if !store.Unavailable(err) {
			return nil, err
		}
		log.Warn("database is away", "err", err)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// Temporal connects to Temporal, waiting for it while it is away. The caller
// closes the client.
func Temporal(ctx context.Context, log *slog.Logger, cfg *config.Config, tel *telemetry.Telemetry) (*durable.Client, error) {
	key, err := cfg.TemporalKey()
	if err != nil {
		return nil, err
	}
	opts, err := durable.Options(log, durable.Config{
		Address: cfg.Temporal.Address, Namespace: cfg.Temporal.Namespace, APIKey: key.Reveal(), TLS: cfg.Temporal.TLS,
		CAFile: cfg.Temporal.TLSCAFile, CertFile: cfg.Temporal.TLSCertFile, KeyFile: cfg.Temporal.TLSKeyFile, ServerName: cfg.Temporal.TLSServerName,
	})
	if err != nil {
		return nil, err
	}
	opts.MetricsHandler = tel.MetricsHandler()
	if opts.Interceptors, err = tel.Interceptors(); err != nil {
		return nil, err
	}
	for wait := retryFirst; ; wait = min(wait*2, retryMost) {
		c, err := client.DialContext(ctx, opts)
		if err == nil {
			return durable.New(log, c, cfg.Temporal.Namespace), nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		log.Warn("temporal is away", "address", cfg.Temporal.Address, "err", err)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
