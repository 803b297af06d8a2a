// Package pgtest gives each test a fresh, migrated PostgreSQL database.
//
// With SGCLAW_TEST_DATABASE_URL set it uses that server, on which the user
// must be allowed to create databases. Else the test binary starts a private
// server when the first test asks for one; it ends, and its files go, when
// the binary does, however that comes.
package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/pressly/goose/v3"

	"sgclaw/internal/postgres"
	"sgclaw/migrations"
)

// Env names the server to use instead of a private one.
const Env = "SGCLAW_TEST_DATABASE_URL"

// New returns the URL of a new database with all migrations, which is
// dropped when the test ends. It fails the test if there is no server.
func New(t testing.TB) string {
	t.Helper()
	return create(t, true)
}

// Empty is New without migrations.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, false)
}

func create(t testing.TB, migrated bool) string {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name := "sgclaw_test_" + strings.ToLower(rand.Text()[:12])
	// Names of databases cannot be parameters.
	from := ""
	if migrated {
		from = " TEMPLATE " + pq.QuoteIdentifier(s.template)
	}
	if err := s.exec("CREATE DATABASE " + pq.QuoteIdentifier(name) + from); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE IF EXISTS " + pq.QuoteIdentifier(name) + " WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s.database(name)
}

// A host is the server that tests share.
type host struct {
	url      *url.URL
	admin    *sql.DB
	template string
	// guard's input stays open until this process ends.
	guard *exec.Cmd
}

// server starts or finds the server, once for the test binary.
var server = sync.OnceValues(func() (*host, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	h := &host{}
	var err error
	at := os.Getenv(Env)
	if at == "" {
		if at, err = h.private(ctx); err != nil {
			return nil, err
		}
	}
	if h.url, err = url.Parse(at); err != nil {
		return nil, fmt.Errorf("%s: %w", Env, err)
	}
	if h.admin, err = sql.Open("postgres", at); err != nil {
		return nil, err
	}
	h.admin.SetMaxIdleConns(1)
	return h, h.prepare(ctx)
})

// prepare makes the database that others are copied from, unless it is
// there: its name tells which migrations it has.
func (h *host) prepare(ctx context.Context) error {
	sum := sha256.New()
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := fs.ReadFile(migrations.FS, f)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", f, len(b), b)
	}
	h.template = "sgclaw_template_" + hex.EncodeToString(sum.Sum(nil)[:8])

	// Other test binaries may be at it, if the server is not ours alone.
	conn, err := h.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	const lock = 7_031_702
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", lock); err != nil {
		return err
	}
	defer conn.ExecContext(ctx, "SELECT pg_advisory_unlock($1)", lock)
	var done bool
	err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", h.template).Scan(&done)
	if err != nil || done {
		return err
	}
	making := h.template + "_new"
	for _, q := range []string{
		"DROP DATABASE IF EXISTS " + pq.QuoteIdentifier(making),
		"CREATE DATABASE " + pq.QuoteIdentifier(making),
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	if err := migrate(ctx, h.database(making)); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "ALTER DATABASE "+pq.QuoteIdentifier(making)+" RENAME TO "+pq.QuoteIdentifier(h.template))
	return err
}

func migrate(ctx context.Context, at string) error {
	db, err := sql.Open("postgres", at)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

func (h *host) database(name string) string {
	u := *h.url
	u.Path = "/" + name
	return u.String()
}

func (h *host) exec(query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := h.admin.ExecContext(ctx, query)
	return err
}

// private starts a server for this test binary and somebody who clears up
// after it.
func (h *host) private(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "sgclaw-pgtest-")
	if err != nil {
		return "", err
	}
	// The server may be another user's.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	s, err := postgres.Start(ctx, postgres.Config{
		DataDir: filepath.Join(dir, "data"), Socket: filepath.Join(dir, "s"), LogFile: filepath.Join(dir, "log"), Volatile: true,
	})
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	if h.guard, err = guard(s.PID(), dir); err != nil {
		s.Stop()
		os.RemoveAll(dir)
		return "", err
	}
	return s.URL(), nil
}

// guardScript waits for the end of its input, which comes when the process
// that holds the other end is gone, then ends the server and removes its
// files.
const guardScript = `cat >/dev/null; kill -QUIT "$1" 2>/dev/null
i=0; while kill -0 "$1" 2>/dev/null && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
kill -KILL "$1" 2>/dev/null; rm -rf "$2"`

// guard starts a process that outlives this one to clear up after it.
func guard(pid int, dir string) (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", strconv.Itoa(pid), dir)
	cmd.Dir = "/"
	detach(cmd)
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}
