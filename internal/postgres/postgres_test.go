package postgres

import (
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shared returns a temporary folder that other users can enter.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sgclaw-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func exec1(t *testing.T, url, query string) {
	t.Helper()
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestKilledServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	cfg := Config{DataDir: filepath.Join(dir, "data"), Port: freePort(t), Database: "sgclaw"}
	s := start(t, cfg)
	exec1(t, s.URL(), "CREATE TABLE kept (n int)")

	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "already uses") {
		t.Errorf("second server on the same data: %v", err)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a killed server did not end")
	}
	// Another process has the dead server's number now: this one.
	lock := filepath.Join(cfg.DataDir, "postmaster.pid")
	b, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if err := os.WriteFile(lock, []byte("1\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, cfg)
	if again.URL() != s.URL() {
		t.Errorf("url is %s, was %s", again.URL(), s.URL())
	}
	exec1(t, again.URL(), "INSERT INTO kept VALUES (1)")
	again.Stop()
	again.Stop()
	if _, err := os.Stat(lock); err == nil {
		t.Error("an orderly stop left the lock file")
	}
}

func TestPasswordIsNeeded(t *testing.T) {
	t.Parallel()
	s := start(t, Config{DataDir: filepath.Join(shared(t), "data"), Port: freePort(t), Volatile: true})
	db, err := sql.Open("postgres", strings.Replace(s.URL(), s.password, "wrong", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a wrong password is taken")
	}
}

func TestUnreachableFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's folders can be out of the server's reach")
	}
	t.Parallel()
	dir := shared(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	t.Cleanup(func() { os.RemoveAll(elsewhere(data)) })
	s := start(t, Config{DataDir: data, Port: freePort(t), Volatile: true})
	exec1(t, s.URL(), "SELECT 1")
	if to, err := os.Readlink(data); err != nil || to != elsewhere(data) {
		t.Errorf("data folder leads to %q, %v", to, err)
	}
}

func TestForeignFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{DataDir: dir, Port: 1}); err == nil || !strings.Contains(err.Error(), "neither empty nor a cluster") {
		t.Errorf("got %v", err)
	}
}

func TestMissingVersionIsNamed(t *testing.T) {
	t.Parallel()
	if _, err := find("9"); err == nil || !strings.Contains(err.Error(), "apt-get install postgresql-9") {
		t.Errorf("got %v", err)
	}
}
