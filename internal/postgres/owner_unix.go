//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The ways to end a server, one after the other: fast, immediate, kill.
var stopSignals = []struct {
	signal os.Signal
	wait   time.Duration
}{
	{syscall.SIGINT, 10 * time.Second},
	{syscall.SIGQUIT, 5 * time.Second},
	{syscall.SIGKILL, 5 * time.Second},
}

// owner is the system user whom cluster and server belong to; nil means the
// user of this process.
type owner struct{ cred *syscall.Credential }

func lookupOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return owner{}, errors.New(`postgres: PostgreSQL does not run as root, and there is no user "postgres" to run it as; run this as another user, or install PostgreSQL's package, which makes one (Debian: apt-get install postgresql)`)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return owner{}, fmt.Errorf("postgres: user id of postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return owner{}, fmt.Errorf("postgres: group id of postgres: %w", err)
	}
	return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// own makes cmd run as the owner, without this process's PostgreSQL
// variables.
func (o owner) own(cmd *exec.Cmd) {
	if o.cred != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.cred}
	}
	// The current folder may be one that the owner cannot enter.
	cmd.Dir = "/"
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C")
}

// mkdir makes a private folder of the owner's, and its parents.
func (o owner) mkdir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return o.chown(path)
}

func (o owner) chown(path string) error {
	if o.cred == nil {
		return nil
	}
	return os.Chown(path, int(o.cred.Uid), int(o.cred.Gid))
}

func (o owner) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return o.chown(path)
}

func (o owner) tempFile(dir, text string) (string, error) {
	f, err := os.CreateTemp(dir, "sgclaw-*")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(f.Close(), o.writeFile(f.Name(), text))
}

// place makes sure that dir exists and that the owner can reach it. It
// returns where dir really is.
func (o owner) place(dir string) (string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("postgres: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("postgres: %w", err)
	}
	// A link that leads nowhere may be left from before.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("postgres: %w", err)
	}
	if o.reaches(filepath.Dir(dir)) {
		if err := o.mkdir(dir); err != nil {
			return "", fmt.Errorf("postgres: %w", err)
		}
		return filepath.EvalSymlinks(dir)
	}
	far := elsewhere(dir)
	if err := o.mkdir(far); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("postgres: user postgres cannot reach %s, and another place cannot be made: %w", dir, err)
	}
	if err := os.Symlink(far, dir); err != nil {
		return "", fmt.Errorf("postgres: %w", err)
	}
	return far, nil
}

// reaches reports whether the owner may enter dir and all folders above it.
func (o owner) reaches(dir string) bool {
	if o.cred == nil {
		return true
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(real)
		if err != nil {
			return false
		}
		bit := fs.FileMode(0o001)
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			switch {
			case st.Uid == o.cred.Uid:
				bit = 0o100
			case st.Gid == o.cred.Gid:
				bit = 0o010
			}
		}
		if info.Mode()&bit == 0 {
			return false
		}
		if real == filepath.Dir(real) {
			return true
		}
		real = filepath.Dir(real)
	}
}
