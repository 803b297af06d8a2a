package chrome

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain plays a host that starts a browser and says so, when a test runs
// it again as one.
func TestMain(m *testing.M) {
	if os.Getenv("CHROME_TEST_HOST") != "" {
		p, err := Start(context.Background(), slog.New(slog.DiscardHandler), Options{Headless: true, Path: os.Getenv("SGCLAW_CHROME")})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("pid", p.PID(), p.profile)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0) // without Close
	}
	os.Exit(m.Run())
}

func start(t *testing.T, o Options) *Process {
	t.Helper()
	path, err := Find(os.Getenv("SGCLAW_CHROME"))
	if err != nil {
		t.Fatal(err)
	}
	o.Path, o.Headless = path, true
	p, err := Start(t.Context(), slog.New(slog.DiscardHandler), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

// group counts the live processes of a process group.
func group(t *testing.T, pgid int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("no /proc")
	}
	n := 0
	for _, name := range stats {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		f := strings.Fields(rest) // state ppid pgrp
		if len(f) > 2 && f[0] != "Z" && f[2] == strconv.Itoa(pgid) {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	p := start(t, Options{})
	if n := group(t, p.PID()); n < 2 {
		t.Fatalf("browser has %d processes, want several", n)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "all processes gone", func() bool { return group(t, p.PID()) == 0 })
	if _, err := os.Stat(p.profile); !os.IsNotExist(err) {
		t.Errorf("profile is still there: %v", err)
	}
	select {
	case <-p.Conn().Done():
	case <-time.After(5 * time.Second):
		t.Error("connection still open")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestKilledBrowserIsNoticed(t *testing.T) {
	p := start(t, Options{})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("Done not closed")
	}
	if p.Err() == nil {
		t.Error("Err is nil after the browser died")
	}
	if err := p.Conn().Call(t.Context(), "", "Browser.getVersion", nil, nil); err == nil {
		t.Error("call to a dead browser succeeded")
	}
	eventually(t, 5*time.Second, "all processes gone", func() bool { return group(t, p.PID()) == 0 })
}

func TestProfileInUse(t *testing.T) {
	dir := t.TempDir()
	p := start(t, Options{Profile: dir})
	_, err := Start(t.Context(), slog.New(slog.DiscardHandler), Options{Headless: true, Path: p.cmd.Path, Profile: dir})
	if err == nil {
		t.Fatal("second browser on the same profile started")
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("given profile was removed: %v", err)
	}
}

func TestHostDies(t *testing.T) {
	if _, err := Find(os.Getenv("SGCLAW_CHROME")); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"killed", "exits"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "CHROME_TEST_HOST=1")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			var pid int
			var profile string
			if _, err := fmt.Sscanf(line, "pid %d %s", &pid, &profile); err != nil {
				t.Fatalf("helper said %q", line)
			}
			if group(t, pid) == 0 {
				t.Fatal("no browser to begin with")
			}
			if how == "killed" {
				err = cmd.Process.Kill()
			} else {
				err = in.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			eventually(t, 5*time.Second, "no browser process left", func() bool { return group(t, pid) == 0 })
			if err := Sweep(slog.New(slog.DiscardHandler), filepath.Dir(profile)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(profile); !os.IsNotExist(err) {
				t.Errorf("stale profile was not swept: %v", err)
			}
		})
	}
}

func TestSweepKeepsLiveProfiles(t *testing.T) {
	root := t.TempDir()
	live, dead := filepath.Join(root, profilePrefix+"live"), filepath.Join(root, profilePrefix+"dead")
	for _, dir := range []string{live, dead} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dead, pidFile), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := lockFile(filepath.Join(live, pidFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := Sweep(slog.New(slog.DiscardHandler), root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(live); err != nil {
		t.Errorf("live profile was swept: %v", err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("dead profile was kept: %v", err)
	}
}

func TestFindNamed(t *testing.T) {
	if _, err := Find("/no/such/browser"); err == nil {
		t.Error("a browser that does not exist was found")
	}
}

func TestPreferencesAreMerged(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "Default", "Preferences")
	read := func() string {
		t.Helper()
		if err := setPreferences(dir); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if got := read(); got != `{"net":{"network_prediction_options":2}}` {
		t.Errorf("fresh: %s", got)
	}
	if err := os.WriteFile(name, []byte(`{"a":{"b":[1]},"net":{"c":"d","network_prediction_options":0}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != `{"a":{"b":[1]},"net":{"c":"d","network_prediction_options":2}}` {
		t.Errorf("merged: %s", got)
	}
	if err := os.WriteFile(name, []byte(`not JSON`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := setPreferences(dir); err == nil {
		t.Error("preferences that cannot be read were overwritten")
	}
}
