package main

import (
	"cmp"
	"io"
	"log/slog"
	"os"

	"sgclaw/internal/action"
	"sgclaw/internal/config"
	"sgclaw/internal/durable"
	"sgclaw/internal/locale"
)

// settings is what pipehost takes from the configuration.
type settings struct {
	log       *slog.Logger
	temporal  durable.Config
	rules     string // policy file
	dataDir   string
	browserID string // used when the host names none; may be empty
	locale    string // "zh" or "en", of the log lines for people
}

// load reads the configuration; everything it logs goes to stderr.
func load(path string, stderr io.Writer) (settings, error) {
	cfg, err := config.Load(config.Options{Path: path, Actions: action.Names()})
	if err != nil {
		return settings{}, err
	}
	if err := cfg.RequireDataDir(); err != nil {
		return settings{}, err
	}
	key, err := cfg.TemporalKey()
	if err != nil {
		return settings{}, err
	}
	log := cfg.Logger(stderr)
	for _, w := range cfg.Warnings {
		log.Warn("configuration", "warning", w)
	}
	t := cfg.Temporal
	return settings{
		log: log,
		temporal: durable.Config{
			Address: t.Address, Namespace: t.Namespace, APIKey: key.Reveal(), TLS: t.TLS,
			CAFile: t.TLSCAFile, CertFile: t.TLSCertFile, KeyFile: t.TLSKeyFile, ServerName: t.TLSServerName,
		},
		rules:     cfg.Security.RulesPath,
		dataDir:   cfg.Pipehost.DataDir,
		browserID: cfg.Browser.ID,
		locale:    cmp.Or(cfg.General.Locale, locale.Detect(os.Getenv)),
	}, nil
}
