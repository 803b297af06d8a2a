package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/conformance"
	"sgclaw/internal/pipe"
)

// mainEnv makes the test binary pipehost itself.
const mainEnv = "SGCLAW_TEST_PIPEHOST"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

const rules = `{
  "version": "1.0",
  "domains": {"allowed": ["oa.example.com"]},
  "pipe_actions": {"allowed": ["click", "navigate", "getText", "getAomSnapshot", "zombieSpawn"], "blocked": [], "need_confirm": []},
  "storage": {"key_prefix": "sgclaw."},
  "rate_limits": {"default": {"max_per_second": 100, "cooldown_seconds": 1}}
}`

// nowhere is an address at which no server listens.
const nowhere = "127.0.0.1:1"

// place is what pipehosts of one browser share.
type place struct {
	t      testing.TB
	dir    string
	server string
	ns     string
}

func newPlace(t testing.TB, server, namespace string) *place {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.json"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return &place{t: t, dir: dir, server: server, ns: namespace}
}

func (p *place) env() []string {
	return []string{
		mainEnv + "=1",
		"SGCLAW_CONFIG=",
		"SGCLAW_TEMPORAL_ADDRESS=" + p.server,
		"SGCLAW_TEMPORAL_NAMESPACE=" + p.ns,
		"SGCLAW_RULES_PATH=" + filepath.Join(p.dir, "rules.json"),
		"SGCLAW_PIPEHOST_DATA_DIR=" + p.dir,
		"SGCLAW_LOCALE=zh",
	}
}

// host is the browser's side of a running pipehost.
type host struct {
	t        testing.TB
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	w        *pipe.Writer
	ack      pipe.InitAck
	messages chan any
	exited   chan struct{}
	mu       sync.Mutex
	errs     strings.Builder
}

func (h *host) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs.Write(p)
}

func (h *host) stderr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs.String()
}

// start starts a pipehost and shakes hands with it.
func (p *place) start(browserID string) *host {
	p.t.Helper()
	h := &host{t: p.t, messages: make(chan any, 1000), exited: make(chan struct{})}
	h.cmd = exec.CommandContext(context.Background(), os.Args[0])
	h.cmd.Env = append(os.Environ(), p.env()...)
	h.cmd.Stderr = h
	var err error
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		h.kill()
		if p.t.Failed() {
			p.t.Logf("stderr of pipehost %d:\n%s", h.cmd.Process.Pid, h.stderr())
		}
	})
	r := pipe.NewReader(out)
	h.w = pipe.NewWriter(h.stdin)
	shake, err := pipe.HostHandshake(p.t.Context(), r, h.w, pipe.Init{
		BrowserID: browserID, Capabilities: []string{pipe.CapSnapshotAfter, pipe.CapPageID},
		Page: &agent.Page{URL: "http://oa.example.com/", Domain: "oa.example.com"},
	})
	if err != nil {
		p.t.Fatalf("handshake: %v\n%s", err, h.stderr())
	}
	h.ack = shake.Ack
	var guard pipe.SeqGuard
	go func() {
		defer close(h.exited)
		defer close(h.messages)
		for {
			line, err := r.Next()
			if err != nil {
				_ = h.cmd.Wait()
				return
			}
			m, bad := pipe.Decode(line)
			if bad == nil {
				if c, ok := m.(*pipe.Command); ok {
					if bad = pipe.Verify(line, shake.Key); bad == nil {
						bad = guard.Accept(c.Seq)
					}
				}
			}
			if bad != nil {
				m = fmt.Errorf("unusable line %s: %w", line, bad)
			}
			h.messages <- m
		}
	}()
	return h
}

func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	<-h.exited
}

func (h *host) say(message any) {
	h.t.Helper()
	if err := h.w.Write(message); err != nil {
		h.t.Fatalf("write to pipehost: %v\n%s", err, h.stderr())
	}
}

// await returns the next message of type T for which want, if not nil, says
// yes, and passes over others.
func await[T any](h *host, want func(*T) bool) *T {
	h.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case m, ok := <-h.messages:
			if err, bad := m.(error); bad {
				h.t.Fatal(err)
			}
			if !ok {
				h.t.Fatalf("pipehost ended while a %T was awaited\n%s", *new(T), h.stderr())
			}
			if m, ok := m.(*T); ok && (want == nil || want(m)) {
				return m
			}
		case <-limit:
			h.t.Fatalf("no %T\n%s", *new(T), h.stderr())
		}
	}
}

func (h *host) awaitState(state string) *pipe.State {
	h.t.Helper()
	return await(h, func(s *pipe.State) bool { return s.State == state })
}

// leaves waits for exit status 0 within the protocol's grace.
func (h *host) leaves(began time.Time) {
	h.t.Helper()
	select {
	case <-h.exited:
	case <-time.After(10 * time.Second):
		h.t.Fatalf("pipehost does not end\n%s", h.stderr())
	}
	if code := h.cmd.ProcessState.ExitCode(); code != 0 {
		h.t.Errorf("exit status %d\n%s", code, h.stderr())
	}
	if took := time.Since(began); took > pipe.StopGrace+500*time.Millisecond {
		h.t.Errorf("pipehost took %v to end", took)
	}
}

func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("plays for half a minute")
	}
	p := newPlace(t, nowhere, "default")
	var out strings.Builder
	report, err := conformance.PlayBrowser(t.Context(), conformance.Config{Command: []string{os.Args[0]}, Env: p.env(), Log: &out})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status == conformance.Fail {
			t.Errorf("%s %s: %s\n%s", r.ID, r.Name, r.Reason, r.Stderr)
		}
	}
	t.Log(out.String())
}

func TestBrowserIDIsKept(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	one := p.start("")
	id := one.ack.BrowserID
	if id == "" {
		t.Fatal("init_ack has no browser id")
	}
	one.kill()
	if two := p.start(""); two.ack.BrowserID != id || two.ack.AgentID == one.ack.AgentID {
		t.Errorf("first %+v, second %+v", one.ack, two.ack)
	}
}

func TestSecondPipehostOfABrowser(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	p.start("b1").awaitState(pipe.StateOffline)
	second := p.start("b1")
	e := await[pipe.ErrorMessage](second, nil)
	if !strings.Contains(e.Message, "another pipehost") {
		t.Errorf("told %+v", e)
	}
	<-second.exited
	if code := second.cmd.ProcessState.ExitCode(); code != exitFault {
		t.Errorf("exit status %d", code)
	}
}

// TestRestartOverlaps starts the second pipehost while the first is still
// there, as a browser that restarts does.
func TestRestartOverlaps(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	first := p.start("b1")
	first.awaitState(pipe.StateOffline)
	second := p.start("b1")
	began := time.Now()
	first.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	first.leaves(began)
	second.awaitState(pipe.StateOffline)
}

func TestConfigurationFaults(t *testing.T) {
	for name, c := range map[string]struct {
		args, env []string
		file      string
		want      string
	}{
		"flag":   {args: []string{"--nonsense"}, want: "unknown flag"},
		"file":   {args: []string{"--config", "missing.toml"}, want: "missing.toml"},
		"rules":  {file: `{"version":"1.0"`, want: "rules.json"},
		"server": {env: []string{"SGCLAW_TEMPORAL_ADDRESS=not an address"}, want: "host:port"},
		"sides":  {args: []string{"conformance", "--as", "nobody", "--", "x"}, want: "--as must be"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, nowhere, "default")
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(p.dir, "rules.json"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
			cmd.Env = append(append(os.Environ(), p.env()...), c.env...)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != exitUsage {
				t.Errorf("exit status %d", code)
			}
			if !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
				t.Errorf("stderr %q, stdout %q", errs.String(), out.String())
			}
		})
	}
}

// operator runs a subcommand for people.
func (p *place) operator(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), p.env()...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestHostDies closes all that the host had, as its death does.
func TestHostDies(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), p.env()...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipe.HostHandshake(t.Context(), pipe.NewReader(stdout), pipe.NewWriter(stdin), pipe.Init{}); err != nil {
		t.Fatal(err)
	}
	_ = stdout.Close()
	// This makes it write.
	if _, err := io.WriteString(stdin, strings.Repeat("nonsense\n", 100)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("pipehost ended with %v", err)
	}
}

func TestOutboxOutlivesTheProcess(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	h := p.start("b1")
	h.awaitState(pipe.StateOffline)
	h.say(&pipe.SubmitTask{Type: pipe.TypeSubmitTask, TaskID: "t1", Instruction: "批准三天以内的假单"})
	await(h, func(s *pipe.State) bool { return s.State == pipe.StateOffline && s.TaskID == "t1" })
	began := time.Now()
	h.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	h.awaitState(pipe.StateStopped)
	h.leaves(began)
}

func TestJournalCommands(t *testing.T) {
	p := newPlace(t, nowhere, "default")
	if _, errs, code := p.operator("journal", "list", "--browser", "b1"); code != exitFault || !strings.Contains(errs, "has no journal") {
		t.Errorf("no journal: status %d, %q", code, errs)
	}
	h := p.start("b1")
	h.awaitState(pipe.StateOffline)
	if _, errs, code := p.operator("journal", "list", "--browser", "b1"); code != exitFault || !strings.Contains(errs, "is running") {
		t.Errorf("locked journal: status %d, %q", code, errs)
	}
	h.kill()
	for _, args := range [][]string{{"journal", "list", "--browser", "b1"}, {"journal", "prune", "--browser", "b1"}} {
		if _, errs, code := p.operator(args...); code != exitOK {
			t.Errorf("%v: status %d, %q", args, code, errs)
		}
	}
	if _, _, code := p.operator("journal", "show", "nonsense", "--browser", "b1"); code != exitFault {
		t.Errorf("show nonsense: status %d", code)
	}
	if out, _, code := p.operator("version"); code != exitOK || !strings.HasPrefix(out, "pipehost ") {
		t.Errorf("version: status %d, %q", code, out)
	}
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
