package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"time"

	"golang.org/x/term"

	"sgclaw/internal/agent"
	"sgclaw/internal/config"
	"sgclaw/internal/durable"
	"sgclaw/internal/store"
)

// app is what all commands share: flags, streams, and what they connect to
// when they first need it.
type app struct {
	// Persistent flags.
	configPath string
	json       bool
	lang       string
	noDB       bool

	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	// terminal is true when a person reads stdout; asks when one can also
	// be asked on stdin.
	terminal, asks bool
	colour         bool
	width          int

	cfg *config.Config
	dc  *durable.Client
	db  *store.Store
	// lines is what the person types; nil until somebody wants to know.
	lines chan string
	// shown is true when the result's summary stands on the screen already.
	shown bool
	// code is the exit status of a command that went well and still has
	// something to say by it, such as a run that failed.
	code int
}

func newApp(args, env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{env: env, stdin: stdin, stdout: stdout, stderr: stderr, width: 100}
	a.terminal = isTerminal(stdout)
	a.asks = a.terminal && isTerminal(stdin) && isTerminal(stderr)
	a.colour = a.terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
	if f, ok := stdout.(*os.File); ok && a.terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			a.width = w
		}
	}
	a.lang = languageOf(args, a.getenv)
	return a
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) getenv(name string) string { return config.Getenv(a.env)(name) }

func (a *app) close() {
	if a.dc != nil {
		a.dc.Close()
	}
	if a.db != nil {
		_ = a.db.Close() // nothing was left to be written
	}
}

// load reads the configuration.
func (a *app) load() (*config.Config, error) {
	if a.cfg != nil {
		return a.cfg, nil
	}
	cfg, err := config.Load(config.Options{Path: a.configPath, Env: a.env})
	if err != nil {
		return nil, err
	}
	a.cfg = cfg
	return cfg, nil
}

// log is for engineers; at the configured level info it stays silent, since
// the command's own output tells people what goes on.
func (a *app) log() *slog.Logger {
	level := slog.LevelWarn
	if a.cfg != nil && a.cfg.Level() < slog.LevelInfo {
		level = a.cfg.Level()
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// durable connects to Temporal.
func (a *app) durable(ctx context.Context) (*durable.Client, error) {
	if a.dc != nil {
		return a.dc, nil
	}
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	key, err := cfg.TemporalKey()
	if err != nil {
		return nil, usage("temporal.api_key_file: %v", err)
	}
	t := cfg.Temporal
	dc, err := durable.Dial(ctx, a.log(), durable.Config{
		Address: t.Address, Namespace: t.Namespace, APIKey: key.Reveal(),
		TLS: t.TLS, CAFile: t.TLSCAFile, CertFile: t.TLSCertFile, KeyFile: t.TLSKeyFile, ServerName: t.TLSServerName,
	})
	if err != nil {
		return nil, err
	}
	a.dc = dc
	return dc, nil
}

// errDatabase marks a database that is needed and cannot be used.
var errDatabase = errors.New("database")

// databaseError is errDatabase in the words of what went wrong.
type databaseError struct{ error }

func (e databaseError) Is(target error) bool { return target == errDatabase }
func (e databaseError) Unwrap() error        { return e.error }

// databaseTimeout bounds how long a command that can do without the database
// waits for it.
const databaseTimeout = 3 * time.Second

// database connects to the database, for commands that need it.
func (a *app) database(ctx context.Context) (*store.Store, error) {
	if a.db != nil {
		return a.db, nil
	}
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	if err := cfg.RequireDatabase(); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, cfg.Database.URL.Reveal(), store.Options{MaxConns: 4, Log: a.log()})
	if err != nil {
		return nil, databaseError{err}
	}
	a.db = db
	return db, nil
}

// maybeDatabase connects to the database if one is configured, and returns
// nil if there is none or it cannot be reached: it makes answers richer, and
// is needed for none of them.
func (a *app) maybeDatabase(ctx context.Context) *store.Store {
	if a.noDB {
		return nil
	}
	cfg, err := a.load()
	if err != nil || cfg.Origin("database.url") == "default" || cfg.Database.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	db, err := a.database(ctx)
	if err == nil {
		// A database that was never migrated is as good as none.
		_, err = db.Runs(ctx, store.Filter{Limit: 1})
	}
	if err != nil {
		a.note("no_database", err)
		a.noDB = true
		return nil
	}
	return db
}

// note tells people something on the side, on stderr.
func (a *app) note(key string, args ...any) {
	fmt.Fprintln(a.stderr, a.t(key, args...))
}

// emit writes one line of JSON.
func (a *app) emit(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(b, '\n'))
	return err
}

// out writes v as JSON with --json, else lets people write what people read.
func (a *app) out(v any, people func(w io.Writer)) error {
	if a.json {
		return a.emit(v)
	}
	w := bufio.NewWriter(a.stdout)
	people(w)
	return w.Flush()
}

// who is the person, as far as the system knows, for the record of who
// confirmed what.
func (a *app) who() string {
	for _, name := range []string{"SGCLAW_USER", "USER", "USERNAME"} {
		if v := a.getenv(name); v != "" {
			return v
		}
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}

// origin says who asks.
func (a *app) origin() agent.Origin {
	return agent.Origin{Kind: "cli", User: a.who(), Locale: a.lang}
}
