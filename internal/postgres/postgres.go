// Package postgres runs a private PostgreSQL cluster from the binaries that
// the system has: it finds them, makes the cluster's files, starts the server
// bound to this process, and stops it. The embedded stack and the tests use
// it. It is not a client; package store is.
//
// PostgreSQL refuses to run as root. When this process is root, files and
// server belong to the user "postgres", whom the Debian package makes.
package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"

	"sgclaw/internal/child"
)

// superuser is the cluster's owner inside the database.
const superuser = "sgclaw"

// Config says what to run.
type Config struct {
	// DataDir holds the cluster's files; it is made if absent. When this
	// process is root and DataDir is in a place that the user "postgres"
	// cannot reach (below /root, for instance), the files are put below
	// /var/lib/sgclaw, and DataDir becomes a link to them.
	DataDir string
	// Port is where the server listens on 127.0.0.1, with a password. 0: it
	// does not.
	Port int
	// Socket is a folder for a Unix socket, which takes anybody who can reach
	// it: it should be private. It is made if absent. Empty: none. One of Port and Socket is
	// needed.
	Socket string
	// Database is made if absent; URL leads there. Empty: "postgres".
	Database string
	// LogFile gets what the server says; empty: DataDir + ".log".
	LogFile string
	// BinDir is where postgres and initdb are; empty: they are looked for.
	BinDir string
	// Volatile trades safety of the data for speed, for tests.
	Volatile bool
}

// Server is a running server.
type Server struct {
	cfg      Config
	password string
	cmd      *exec.Cmd
	done     chan struct{}
	stop     sync.Once
}

// Start makes the cluster if need be, starts its server and waits until it
// takes connections. What an earlier server left behind when it was killed is
// cleared away. The server is stopped by Stop, and where the system can do
// that (Linux), also when this process dies. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Port == 0 && cfg.Socket == "" {
		return nil, errors.New("postgres: neither port nor socket given")
	}
	if cfg.Database == "" {
		cfg.Database = "postgres"
	}
	owner, err := lookupOwner()
	if err != nil {
		return nil, err
	}
	if cfg.DataDir, err = filepath.Abs(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if cfg.LogFile == "" {
		cfg.LogFile = cfg.DataDir + ".log"
	}
	if cfg.DataDir, err = owner.place(cfg.DataDir); err != nil {
		return nil, err
	}
	if cfg.Socket != "" {
		if cfg.Socket, err = owner.place(cfg.Socket); err != nil {
			return nil, err
		}
	}
	if cfg.BinDir == "" {
		if cfg.BinDir, err = find(version(cfg.DataDir)); err != nil {
			return nil, err
		}
	}
	if err := initialise(ctx, cfg, owner); err != nil {
		return nil, err
	}
	if err := clearStale(ctx, cfg.DataDir); err != nil {
		return nil, err
	}
	password, err := os.ReadFile(filepath.Join(cfg.DataDir, passwordFile))
	if err != nil {
		return nil, fmt.Errorf("postgres: %s is not a cluster made by sgclaw: %w", cfg.DataDir, err)
	}
	s := &Server{cfg: cfg, password: strings.TrimSpace(string(password))}
	if err := s.launch(ctx, owner); err != nil {
		return nil, err
	}
	if err := s.createDatabase(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// URL is where the server's database is, with the password.
func (s *Server) URL() string { return s.url(s.cfg.Database) }

func (s *Server) url(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(superuser, s.password), Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}}
	if s.cfg.Port != 0 {
		u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.cfg.Port))
	} else {
		q.Set("host", s.cfg.Socket)
		q.Set("port", strconv.Itoa(socketPort))
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// socketPort is part of the socket's name when there is no port.
const socketPort = 5432

// PID is the server's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server and waits until it has: connections are closed and
// the data written; after ten seconds without that; after five more it is
// killed. It may be called twice.
func (s *Server) Stop() {
	s.stop.Do(func() {
		for _, try := range stopSignals {
			// An error means that it has ended already.
			_ = s.cmd.Process.Signal(try.signal)
			t := time.NewTimer(try.wait)
			select {
			case <-s.done:
				t.Stop()
				return
			case <-t.C:
			}
		}
	})
	<-s.done
}

// find returns the folder of the binaries, of the given major version if it
// is not empty.
func find(major string) (string, error) {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin", "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	} {
		// The pattern is well-formed, so there is no error.
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	best, bestVersion := "", 0
	for _, dir := range dirs {
		v := binaryVersion(dir)
		if v < minVersion || major != "" && strconv.Itoa(v) != major {
			continue
		}
		if v > bestVersion {
			best, bestVersion = dir, v
		}
	}
	switch {
	case best != "":
		return best, nil
	case major != "":
		return "", fmt.Errorf("postgres: the data needs PostgreSQL %s, which was not found; install it (Debian: apt-get install postgresql-%s)", major, major)
	}
	return "", fmt.Errorf("postgres: no PostgreSQL %d or newer was found on PATH or in its usual places; install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql)", minVersion)
}

// minVersion is the oldest PostgreSQL that will do.
const minVersion = 14

// binaryVersion is the major version of the server in dir, 0 if there is
// none that works.
func binaryVersion(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0
	}
	// postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)
	fields := strings.Fields(string(out))
	if len(fields) < 3 {
		return 0
	}
	major, _, _ := strings.Cut(fields[2], ".")
	v, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return v
}

// version is the major version that a cluster's files are for, empty if
// there is no cluster.
func version(dataDir string) string {
	b, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// passwordFile holds the superuser's password, in the data folder.
const passwordFile = "sgclaw.password"

// initialise makes the cluster's files, unless they are there. It works in a
// folder beside, so that an interruption leaves nothing half-made.
func initialise(ctx context.Context, cfg Config, o owner) error {
	if version(cfg.DataDir) != "" {
		return nil
	}
	dir := cfg.DataDir
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		return fmt.Errorf("postgres: %s is neither empty nor a cluster: remove it or choose another data folder", cfg.DataDir)
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := o.mkdir(fresh); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	password := rand.Text()
	pwfile, err := o.tempFile(filepath.Dir(fresh), password)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer os.Remove(pwfile)
	args := []string{
		"--pgdata=" + fresh, "--username=" + superuser, "--pwfile=" + pwfile,
		"--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C",
	}
	if cfg.Volatile {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(cfg.BinDir, "initdb"), args...)
	o.own(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("postgres: initdb: %w: %s", err, tail(out.Bytes()))
	}
	if err := o.writeFile(filepath.Join(fresh, passwordFile), password); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// clearStale removes the lock file of a server that was killed. The server
// does so too, unless another process has got its number since, as happens
// in containers. One that is about to end is waited for.
func clearStale(ctx context.Context, dataDir string) error {
	path := filepath.Join(dataDir, "postmaster.pid")
	for try := 0; ; try++ {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("postgres: %w", err)
		}
		if _, none := os.Stat("/proc/self/stat"); none != nil {
			return nil //nolint:nilerr // it cannot be told here; the server will try
		}
		first, _, _ := strings.Cut(string(b), "\n")
		pid := strings.TrimSpace(first)
		if !runs(pid) {
			break
		}
		if try == 20 {
			return fmt.Errorf("postgres: the server with process id %s already uses %s; stop it first", pid, dataDir)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// runs reports whether a process is a PostgreSQL server that has not ended.
func runs(pid string) bool {
	// 4711 (postgres) S 1 ...
	b, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return false
	}
	name, state, ok := strings.Cut(string(b), ") ")
	return ok && strings.Contains(name, "(postgres") && !strings.HasPrefix(state, "Z")
}

// launch starts the server and waits until it is ready. A server whose
// predecessor was killed may have to wait for the last of its processes, so
// an early end is tried again.
func (s *Server) launch(ctx context.Context, o owner) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var err error
	for range 5 {
		if err = s.spawn(o); err != nil {
			return err
		}
		if err = s.ready(ctx); err == nil {
			return nil
		}
		s.Stop()
		s.stop = sync.Once{}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
		if err := clearStale(ctx, s.cfg.DataDir); err != nil {
			return err
		}
	}
	return err
}

func (s *Server) spawn(o owner) error {
	log, err := os.OpenFile(s.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer log.Close()
	settings := []string{
		"listen_addresses=", "unix_socket_directories=" + s.cfg.Socket, "port=" + strconv.Itoa(socketPort),
		"jit=off", "max_connections=200", "log_timezone=UTC", "timezone=UTC",
	}
	if s.cfg.Port != 0 {
		settings = append(settings, "listen_addresses=127.0.0.1", "port="+strconv.Itoa(s.cfg.Port))
	}
	if s.cfg.Volatile {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=32MB", "autovacuum=off")
	}
	args := []string{"-D", s.cfg.DataDir}
	for _, v := range settings {
		args = append(args, "-c", v)
	}
	s.cmd = exec.Command(filepath.Join(s.cfg.BinDir, "postgres"), args...)
	o.own(s.cmd)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := child.Start(s.cmd); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	done := make(chan struct{})
	s.done = done
	cmd := s.cmd
	go func() {
		defer close(done)
		// How it ended is in its log.
		_ = cmd.Wait()
	}()
	return nil
}

// ready waits until the server takes connections.
func (s *Server) ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = s.ping(ctx); last == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("postgres: the server ended while it started; the end of %s: %s", s.cfg.LogFile, tailFile(s.cfg.LogFile))
		case <-ctx.Done():
			return fmt.Errorf("postgres: the server is not ready: %w; the end of %s: %s", last, s.cfg.LogFile, tailFile(s.cfg.LogFile))
		case <-tick.C:
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	db, err := sql.Open("postgres", s.url("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	// Somebody else's server may listen on the port: ours has written its
	// process id.
	b, err := os.ReadFile(filepath.Join(s.cfg.DataDir, "postmaster.pid"))
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(string(b), "\n"); strings.TrimSpace(first) != strconv.Itoa(s.PID()) {
		return errors.New("another server's lock file")
	}
	return nil
}

func (s *Server) createDatabase(ctx context.Context) error {
	db, err := sql.Open("postgres", s.url("postgres"))
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	defer db.Close()
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", s.cfg.Database).Scan(&exists); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	if exists {
		return nil
	}
	// The name of a database cannot be a parameter.
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+pq.QuoteIdentifier(s.cfg.Database)); err != nil {
		return fmt.Errorf("postgres: create database %s: %w", s.cfg.Database, err)
	}
	return nil
}

// elsewhere is the folder for the files of a cluster whose own place cannot
// be reached.
func elsewhere(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join("/var/lib/sgclaw", "postgres-"+hex.EncodeToString(sum[:6]))
}

func tailFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(b)
}

func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	const most = 2000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}
