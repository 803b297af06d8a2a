//go:build linux

package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/oa"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// Variables that shape TestChaos.
const (
	envRounds = "SGCLAW_CHAOS_ROUNDS" // how many; default 2
	envSeed   = "SGCLAW_CHAOS_SEED"   // of the first round, the next ones count on; default from the clock
	envBin    = "SGCLAW_BIN"          // where the binaries are; default ../../bin
)

// endWithin is how long after the last kill a run may take to end.
const endWithin = 3 * time.Minute

// TestChaos kills processes of the stack with SIGKILL, at random moments of
// the demo's task, and then looks whether everything that README promises
// holds: the run ends, nothing was approved twice, whatever reached the site
// is in the transcript as done or as unknown, and the stack goes on working.
//
// A failed round keeps its folder, with the logs of all processes.
func TestChaos(t *testing.T) {
	bin := builtBinaries(t)
	rounds, seed := number(t, envRounds, 2), number(t, envSeed, int(time.Now().Unix()%1_000_000))
	t.Logf("%s=%d %s=%d", envSeed, seed, envRounds, rounds)
	for i := range rounds {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) { chaos(t, bin, seed+i) })
	}
}

func number(t *testing.T, env string, def int) int {
	t.Helper()
	v := os.Getenv(env)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// builtBinaries is the folder with the product's binaries.
func builtBinaries(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(envBin)
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"worker", "gateway", "pipehost", "browserhost", "starter", "stack"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("this test runs the product's own binaries: run `make build`, or set %s to where they are (%v)", envBin, err)
		}
	}
	return dir
}

// up starts a stack in a folder of its own that is removed if the test went
// well, and afterwards makes sure that no process of it is left.
func up(t *testing.T, cfg Config) *Stack {
	t.Helper()
	dir, err := os.MkdirTemp("", "sgclaw-stack-")
	if err != nil {
		t.Fatal(err)
	}
	// PostgreSQL's user must get through when the tests run as root.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	logs, err := os.Create(filepath.Join(dir, "supervisor.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = logs.Close()
		if t.Failed() {
			t.Logf("data and logs are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	cfg.Dir, cfg.Headless = dir, true
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SGCLAW_") || strings.HasPrefix(kv, "SGCLAW_TEMPORAL=") || strings.HasPrefix(kv, "SGCLAW_CHROME=") {
			cfg.Env = append(cfg.Env, kv)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Start(ctx, slog.New(slog.NewTextHandler(logs, nil)), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		var left []string
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(50 * time.Millisecond) {
			if left = processesOf(dir, s.SiteURL()); len(left) == 0 {
				return
			}
		}
		t.Errorf("processes are left:\n%s", strings.Join(left, "\n"))
	})
	return s
}

// poll calls f until it is content. It fails the test when that takes too
// long.
func poll[T any](t *testing.T, limit time.Duration, what string, f func() (T, error)) T {
	t.Helper()
	var last error
	for began := time.Now(); time.Since(began) < limit; time.Sleep(20 * time.Millisecond) {
		v, err := f()
		if err == nil {
			return v
		}
		last = err
	}
	t.Fatalf("%s: not within %s: %v", what, limit, last)
	panic("unreachable")
}

func runID(t *testing.T) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// round is one round of chaos.
type round struct {
	t     *testing.T
	s     *Stack
	rng   *rand.Rand
	run   string
	began time.Time
	over  chan struct{} // closed when the run has ended
	kills []string
	dead  map[int]bool
}

func chaos(t *testing.T, bin string, seed int) {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	latency := time.Duration(100+rng.IntN(200)) * time.Millisecond
	r := &round{t: t, rng: rng, run: runID(t), over: make(chan struct{}), dead: map[int]bool{}}
	r.s = up(t, Config{Bin: bin, ModelArgs: []string{"--first-token", latency.String()}, SiteDelay: 200 * time.Millisecond})
	c, err := r.s.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.began = time.Now()
	starter := r.start(ctx)
	poll(t, 30*time.Second, "the run begins", func() (durable.Run, error) { return c.Describe(ctx, r.run) })
	approved := make(chan error, 1)
	go func() { approved <- r.s.Approve(ctx, r.run) }()
	ended := make(chan workflows.Outcome, 1)
	go func() {
		defer close(r.over)
		// Only a server that is away makes this fail; it comes back.
		for ctx.Err() == nil {
			if out, err := c.WaitResult(ctx, r.run); err == nil {
				ended <- out
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	r.kill()
	select {
	case <-r.over:
	case <-time.After(endWithin):
		t.Errorf("the run has not ended %s after the last kill; kills: %s", endWithin, strings.Join(r.kills, " "))
		return
	}
	out := <-ended
	took := time.Since(r.began)
	if err := <-approved; err != nil {
		t.Errorf("answering questions: %v", err)
	}
	select {
	case code := <-starter:
		if want := map[agent.Status]int{agent.StatusDone: 0, agent.StatusRefused: 3, agent.StatusAborted: 4, agent.StatusFailed: 1}[out.Status]; code != want {
			t.Errorf("starter ended with status %d, want %d for a run that is %s", code, want, out.Status)
		}
	case <-time.After(30 * time.Second):
		t.Error("starter still watches 30 s after the run's end")
	}
	unknown := r.audit(out)
	r.goesOn(c)
	t.Logf("seed %d: kills %s; %s %s, %d steps, %d approved, %d unknown, %.1f s", seed,
		strings.Join(r.kills, " "), out.Status, out.Reason, out.Steps, len(r.s.Ledger().Entries), unknown, took.Seconds())
}

// start hands in the demo's task with starter, which watches it, as the demo
// does. The channel gets starter's exit status.
func (r *round) start(ctx context.Context) <-chan int {
	cmd := exec.CommandContext(ctx, filepath.Join(r.s.cfg.Bin, "starter"), "start", "--id", r.run, "--browser", BrowserID, "--watch", DemoTask("zh", r.s.SiteURL()))
	cmd.Env = append(r.s.Env(), "SGCLAW_LOCALE=zh")
	cmd.WaitDelay = time.Second
	out, err := os.Create(filepath.Join(r.s.cfg.Dir, "log", "starter.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	code := make(chan int, 1)
	go func() {
		_ = cmd.Wait() // the exit status tells
		code <- cmd.ProcessState.ExitCode()
	}()
	return code
}

// Victims besides the units of the stack.
const (
	pipehost   = "pipehost"
	chromium   = "chromium"
	everything = "everything" // as when the power fails
)

func victims() []string {
	return []string{Worker, Gateway, BrowserHost, Postgres, Temporal, Model, pipehost, chromium}
}

// kill kills three to six times, unless the run ends before. Half of the
// moments are aimed: when the site has just got a decision and has not
// answered yet.
func (r *round) kill() {
	whom := append(victims(), everything)
	for range 3 + r.rng.IntN(4) {
		aimed, pause := r.rng.IntN(2) == 0, time.Duration(r.rng.IntN(2500))*time.Millisecond
		victim := whom[r.rng.IntN(len(whom))]
		if aimed {
			pause /= 10
			r.nextDecision(10 * time.Second)
		}
		select {
		case <-r.over:
			return
		case <-time.After(pause):
		}
		note := fmt.Sprintf("%s@%.1fs", victim, time.Since(r.began).Seconds())
		if victim != everything {
			r.kills = append(r.kills, note+r.killOne(victim, 10*time.Second))
			continue
		}
		for _, v := range victims() {
			r.killOne(v, 0)
		}
		r.kills = append(r.kills, note)
	}
}

// killOne kills a victim, waiting for one that is just being started. It
// tells what was special.
func (r *round) killOne(victim string, wait time.Duration) string {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		pid := r.s.find(victim)
		if pid != 0 && !r.dead[pid] {
			r.dead[pid] = true
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return "(" + err.Error() + ")"
			}
			return ""
		}
		if time.Since(began) >= wait {
			return "(absent)"
		}
	}
}

// nextDecision waits until the site gets one, or the run ends, or limit.
func (r *round) nextDecision(limit time.Duration) {
	n := len(r.s.Ledger().Entries)
	for began := time.Now(); time.Since(began) < limit && len(r.s.Ledger().Entries) == n; {
		select {
		case <-r.over:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// audit holds the site's ledger against the record of the run, and returns
// how many outcomes are unknown.
func (r *round) audit(out workflows.Outcome) int {
	t, l := r.t, r.s.Ledger()
	if err := oa.CheckOnce(l); err != nil {
		t.Errorf("the site got a decision twice: %v", err)
	}
	if out.Status == agent.StatusDone {
		if err := oa.Check(l, oa.Expected()); err != nil {
			t.Errorf("the run says it is done, and the site's records are not as they should be: %v", err)
		}
	}
	db := poll(t, time.Minute, "the database", func() (*store.Store, error) {
		return store.Open(t.Context(), r.s.Database(), store.Options{})
	})
	defer db.Close()
	res, err := db.Result(t.Context(), r.run)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != out.Status || res.Reason != out.Reason {
		t.Errorf("the record says %s %q, the run says %s %q", res.Status, res.Reason, out.Status, out.Reason)
	}
	questions, err := db.Confirmations(t.Context(), store.ConfirmationFilter{RunID: r.run, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[int]agent.Outcome{} // of a step's last call; the scripted model makes one
	unknown := 0
	for _, s := range res.Steps {
		if out.Status != agent.StatusDone && s.Action != nil {
			t.Logf("step %d: %s %s: %.200s", s.Num, s.Action.Action, s.Action.Params, s.Observation)
		}
		outcomes[s.Num] = s.Outcome
		if s.Outcome == agent.OutcomeUnknown {
			unknown++
		}
		if s.Action != nil && s.Outcome == "" {
			t.Errorf("step %d: nothing is on record about what came of %s", s.Num, s.Action.Action)
		}
	}
	// What was agreed to, by request, and what came of it.
	agreed := map[string][]agent.Outcome{}
	for _, q := range questions {
		u, err := url.Parse(q.Question.Ask.URL)
		if err != nil {
			t.Error(err)
			continue
		}
		switch q.Decision {
		case "approved":
			id := path.Base(u.Path)
			agreed[id] = append(agreed[id], outcomes[q.Question.Step])
		case "open":
			t.Errorf("the question about %s is still open", u.Path)
		}
	}
	inLedger := map[string]bool{}
	for _, e := range l.Entries {
		inLedger[e.ID] = true
		if e.Action != oa.ActionApprove {
			t.Errorf("the site got %s %s, which nobody asked for", e.Method, e.Path)
		}
		if o := agreed[e.ID]; !slices.Contains(o, agent.OutcomeDone) && !slices.Contains(o, agent.OutcomeUnknown) {
			t.Errorf("%s was approved at the site; the transcript has outcomes %v of what a person agreed to, want done or unknown", e.ID, o)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(agreed)) {
		if slices.Contains(agreed[id], agent.OutcomeDone) && !inLedger[id] {
			t.Errorf("the transcript says that %s was approved; the site does not know of it", id)
		}
	}
	return unknown
}

// goesOn makes sure that the stack does another task, and that its gateway
// serves again.
func (r *round) goesOn(c *durable.Client) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	id := runID(r.t)
	var err error
	for ctx.Err() == nil {
		// The server may be on its way back.
		if _, err = c.StartTask(ctx, "", agent.Message{ID: id, Text: "打开 " + r.s.SiteURL() + "/report ，告诉我标题", BrowserID: BrowserID}); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	var out workflows.Outcome
	for err == nil || ctx.Err() == nil {
		if out, err = c.WaitResult(ctx, id); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil || out.Status != agent.StatusDone {
		r.t.Errorf("another task after the chaos: %s %s %s %v", out.Status, out.Reason, out.Summary, err)
	}
	poll(r.t, time.Minute, "the gateway", func() (bool, error) { return true, get(ctx, r.s.GatewayURL()+"/readyz") })
}

// find returns the process id of a victim, also of one that is only just
// starting; 0 if there is none.
func (s *Stack) find(victim string) int {
	self, name, mark := os.Getpid(), victim, s.cfg.Dir
	switch victim {
	case Model:
		name, mark = "stack", s.SiteURL()
	case chromium:
		for _, p := range processes() {
			if args := p.args(); slices.Contains(args, "--user-data-dir="+filepath.Join(s.cfg.Dir, "profile")) &&
				!slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--type=") }) {
				return p.pid
			}
		}
		return 0
	case pipehost:
		self = s.find(BrowserHost)
		if self == 0 {
			return 0
		}
	}
	for _, p := range processes() {
		if p.parent == self && p.name == name && p.state != "Z" && p.belongs(mark) {
			return p.pid
		}
	}
	return 0
}

// proc is a line of /proc.
type proc struct {
	pid, parent int
	name, state string
}

func processes() []proc {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []proc
	for _, dir := range dirs {
		// 4711 (name) S 1 ...
		b, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		var p proc
		open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
		if open < 0 || shut < open {
			continue
		}
		rest := strings.Fields(string(b[shut+1:]))
		if len(rest) < 2 {
			continue
		}
		var errs [2]error
		p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(b[:open])))
		p.parent, errs[1] = strconv.Atoi(rest[1])
		if errors.Join(errs[:]...) != nil {
			continue
		}
		p.name, p.state = string(b[open+1:shut]), rest[0]
		out = append(out, p)
	}
	return out
}

func (p proc) file(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), name))
	if err != nil {
		return ""
	}
	return string(b)
}

func (p proc) args() []string { return strings.Split(p.file("cmdline"), "\x00") }

// belongs reports whether a process is of a stack: a mark, as its folder or
// its site's URL, is in its command line, its environment or its current
// folder.
func (p proc) belongs(mark string) bool {
	if strings.Contains(p.file("cmdline"), mark) || strings.Contains(p.file("environ"), mark) {
		return true
	}
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.pid), "cwd"))
	return err == nil && strings.HasPrefix(cwd, mark)
}

// processesOf tells of the processes that have one of the marks, this one
// excepted.
func processesOf(marks ...string) []string {
	var out []string
	for _, p := range processes() {
		if p.pid != os.Getpid() && p.state != "Z" && slices.ContainsFunc(marks, p.belongs) {
			out = append(out, fmt.Sprintf("%d %s %s %s", p.pid, p.name, p.state, strings.Join(p.args(), " ")))
		}
	}
	return out
}
