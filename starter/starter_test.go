package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sgclaw/internal/durable/durabletest"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/temporaltest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"starter": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		},
	})
}

// environment gives a script an environment in which nothing is configured.
func environment(e *testscript.Env) error {
	e.Setenv("LANG", "en_US.UTF-8")
	e.Setenv("USER", "tester")
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("SGCLAW_TEMPORAL_ADDRESS", "127.0.0.1:1")
	return nil
}

// commands are what scripts can do besides testscript's own.
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits":      exits,
		"interrupts": interrupts,
		"jsonlines":  jsonlines,
		"until":      until,
		"revoke":     revoke,
	}
}

// exits CODE COMMAND... checks an exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		var ok bool
		if got, ok = status(err); !ok {
			ts.Fatalf("%v", err)
		}
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// interrupts TEXT COMMAND... sends an interrupt to a command once its stdout
// has the text, and waits for its end.
func interrupts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupts TEXT COMMAND...")
	}
	var out, errs screen
	cmd := exec.Command(found(ts, args[1]), args[2:]...)
	for _, name := range []string{"PATH", "HOME", "USER", "LANG", "SGCLAW_TEMPORAL_ADDRESS", "SGCLAW_TEMPORAL_NAMESPACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Stdout, cmd.Stderr = &out, &errs
	ts.Check(cmd.Start())
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(out.String(), args[0]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			ts.Fatalf("no %q within 20 s:\n%s%s", args[0], out.String(), errs.String())
		}
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // how it ends is told by what it wrote
	_, err := io.WriteString(ts.Stdout(), out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), errs.String())
	ts.Check(err)
}

// found is where the script finds a program.
func found(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if at := filepath.Join(dir, name); exec.Command(at).Err == nil {
			return at
		}
	}
	ts.Fatalf("no program %s", name)
	return ""
}

func status(err error) (int, bool) {
	s, ok := err.(interface{ ExitCode() int })
	if !ok {
		return 0, false
	}
	return s.ExitCode(), true
}

// jsonlines TYPE... checks that stdout is one JSON object per line, of these
// types in this order; "TYPE*" stands for any number of them.
func jsonlines(ts *testscript.TestScript, neg bool, args []string) {
	var types []string
	for _, line := range strings.Split(strings.TrimSuffix(ts.ReadFile("stdout"), "\n"), "\n") {
		if line == "" {
			continue
		}
		var v struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("not JSON: %q", line)
		}
		types = append(types, v.Type)
	}
	i := 0
	for _, want := range args {
		if many, ok := strings.CutSuffix(want, "*"); ok {
			for i < len(types) && types[i] == many {
				i++
			}
			continue
		}
		if i == len(types) || types[i] != want {
			ts.Fatalf("types are %v, want %v", types, args)
		}
		i++
	}
	if i < len(types) {
		ts.Fatalf("types are %v, want %v", types, args)
	}
}

// revoke FILE revokes the first of the tokens that `token list --json` printed
// to a file.
func revoke(ts *testscript.TestScript, neg bool, args []string) {
	line, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	var token tokenLine
	ts.Check(json.Unmarshal([]byte(line), &token))
	ts.Check(ts.Exec("starter", "token", "revoke", "--json", token.ID))
}

// until PATTERN COMMAND... repeats a command until its stdout has the text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); strings.Contains(out, args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q within 20 s: %v", args[0], err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestOffline(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "offline"), Setup: environment, Cmds: commands()})
}

func TestLive(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "live"), Cmds: commands(),
		Setup: func(e *testscript.Env) error { return live(t, e) },
	})
}

// live gives a script a Temporal server with a worker and a browser.
func live(t *testing.T, e *testscript.Env) error {
	if err := environment(e); err != nil {
		return err
	}
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	core.StartBrowser(t, "b1")
	e.Setenv("SGCLAW_TEMPORAL_ADDRESS", s.Address)
	e.Setenv("SGCLAW_TEMPORAL_NAMESPACE", s.Namespace)
	return nil
}

func TestDatabase(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "database"), Cmds: commands(),
		Setup: func(e *testscript.Env) error {
			e.Setenv("SGCLAW_DATABASE_URL", pgtest.New(t))
			return live(t, e)
		},
	})
}
