package stack

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestOneStackPerFolder(t *testing.T) {
	dir := t.TempDir()
	first, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil {
		t.Fatal("a second stack was let in")
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); !os.IsNotExist(err) {
		t.Errorf("emptying left a file: %v", err)
	}
	if _, err := lockDir(dir); err == nil {
		t.Error("emptying gave the lock away")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("the folder stays locked: %v", err)
	}
	_ = again.Close()
}

func TestTokenIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.token")
	first, err := token(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) < 16 {
		t.Errorf("token %q is too short for a gateway that others can reach", first)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := token(path)
	if err != nil || again != first {
		t.Errorf("second start: %q, %v; want %q", again, err, first)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v", st.Mode())
	}
	other, err := token(filepath.Join(t.TempDir(), "gateway.token"))
	if err != nil || other == first {
		t.Errorf("two folders share a token: %v", err)
	}
}

// Two stacks that start at once take different ports, although neither
// listens on its own for as long as PostgreSQL needs to start.
func TestPortsAreHeld(t *testing.T) {
	want, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	first, second := &Stack{cfg: Config{UIPort: want}}, &Stack{cfg: Config{UIPort: want}}
	for _, s := range []*Stack{first, second} {
		if err := s.ports(); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	if first.cfg.UIPort != want || second.cfg.UIPort == want {
		t.Errorf("ports %d and %d, wanted %d for the first only", first.cfg.UIPort, second.cfg.UIPort, want)
	}
	first.release(Temporal)
	if l, err := listen(want); err != nil {
		t.Error(err)
	} else {
		if got := l.Addr().(*net.TCPAddr).Port; got != want {
			t.Errorf("a released port is still taken")
		}
		_ = l.Close()
	}
}
