package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/cdp"
	"sgclaw/internal/child"
	"sgclaw/internal/chrome"
	"sgclaw/internal/conformance"
	"sgclaw/internal/host"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// TestMain lets the test binary stand in for an agent where the conformance
// player wants one.
func TestMain(m *testing.M) {
	if code, ok := conformance.AgentProxyMain(); ok {
		os.Exit(code)
	}
	if os.Getenv(quietAgent) != "" {
		os.Exit(playQuietAgent())
	}
	var err error
	if buildDir, err = os.MkdirTemp("", "browserhost-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// buildDir is where the program is built, once for all tests; TestMain sets
// it.
var buildDir string

// quietAgent, in the environment, makes the test binary an agent that shakes
// hands, asks about each task, and ends it with the answer.
const quietAgent = "SGCLAW_TEST_QUIET_AGENT"

func playQuietAgent() int {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return 1
	}
	fmt.Println(`{"type":"init_ack","version":"1.0","agent_id":"8f14e45f-ceea-467f-a9b1-3b5c1d2e4f60"}`)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		m, _ := pipe.Decode(line)
		switch m := m.(type) {
		case *pipe.Shutdown:
			return 0
		case *pipe.SubmitTask:
			fmt.Printf(`{"type":"task_accepted","task_id":%q,"run_id":"r1"}`+"\n", m.TaskID)
			fmt.Printf(`{"type":"log","task_id":%q,"time":"2026-01-02T03:04:05Z","level":"info","message":%q}`+"\n", m.TaskID, "正在分析指令: "+m.Instruction)
			fmt.Printf(`{"type":"confirm_required","task_id":%q,"action_id":"a1","action":"click","domain":"127.0.0.1","ask":{"role":"button","name":"批准"}}`+"\n", m.TaskID)
		case *pipe.Confirm:
			fmt.Printf(`{"type":"task_complete","task_id":"t","run_id":"r1","success":%v,"status":"done","summary":%q}`+"\n", m.Approved, m.ActionID+" "+m.Note)
		}
	}
}

// realBrowser skips the test where there is no Chromium to run.
func realBrowser(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	if _, err := chrome.Find(os.Getenv("SGCLAW_CHROME")); err != nil {
		t.Fatal(err)
	}
}

var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "browserhost")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func built(t *testing.T) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConformance(t *testing.T) {
	realBrowser(t)
	var log bytes.Buffer
	report, err := conformance.PlayAgent(t.Context(), conformance.Config{
		Command:  []string{built(t), "run", "--headless", "--temp-profile", "--pipehost", "{agent}", "--rules", "{rules}"},
		Log:      &log,
		Parallel: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("\n%s", log.String())
	}
}

// office is a small web site that counts what is done to it.
type office struct {
	*httptest.Server
	host  string
	posts atomic.Int32
}

func openOffice(t *testing.T) *office {
	o := &office{}
	page := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!DOCTYPE html><title>OA</title>%s", body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("user"); err != nil || c.Value != "zhangsan" {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		page(w, `<h1>待审批</h1><table><tr><td>张三</td><td>2 天</td>
<td><form method="post" action="/approve"><button id="ok">批准</button></form></td></tr></table><a id="view" href="/detail">查看</a>`)
	})
	mux.HandleFunc("GET /detail", func(w http.ResponseWriter, _ *http.Request) { page(w, `<h1>详情</h1>`) })
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		page(w, `<form method="post"><label>用户 <input name="user"></label><label>密码 <input type="password" name="password"></label><button>登录</button></form>`)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "s3cr3t" {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "user", Value: r.FormValue("user"), Path: "/"})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /approve", func(w http.ResponseWriter, _ *http.Request) {
		o.posts.Add(1)
		page(w, `<h1>已批准</h1>`)
	})
	o.Server = httptest.NewServer(mux)
	o.host = "127.0.0.1"
	t.Cleanup(o.Close)
	return o
}

const officeRules = `{
  "version": "1.0",
  "domains": {"allowed": ["127.0.0.1"]},
  "pipe_actions": {"allowed": ["click", "type", "navigate", "getText", "getHtml", "waitForSelector", "pageScreenshot", "getAomSnapshot", "zombieSpawn", "zombieKill", "sessionLogin", "sessionLogout"]},
  "confirm_when": [{"id": "decisions", "actions": ["click"], "role": ["button"], "name": "批准|驳回"}]
}`

// desk is an agent's seat at a real browser: what it sends is checked and
// carried out as in the program.
type desk struct {
	t       *testing.T
	engine  func() host.Engine // the one of the moment
	browser *host.Browser
	key     pipe.Key
	conv    host.Conversation
	seq     uint64
	out     chan any
}

func sit(t *testing.T, s *settings, cfg host.RouterConfig) *desk {
	t.Helper()
	realBrowser(t)
	rules, err := policy.Parse([]byte(officeRules))
	if err != nil {
		t.Fatal(err)
	}
	get := func() *policy.Rules { return rules }
	s.headless = true
	d := &desk{t: t, out: make(chan any, 16)}
	var now atomic.Pointer[host.Engine]
	d.engine = func() host.Engine { return *now.Load() }
	ctx, cancel := context.WithTimeout(t.Context(), launchTimeout)
	defer cancel()
	d.browser, err = host.OpenBrowser(ctx, s.log, func(ctx context.Context, before int) (host.Engine, error) {
		e, err := s.launch(ctx, before, get, nil)
		if err == nil {
			now.Store(&e)
		}
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		d.browser.Close(ctx)
	})
	seed, err := pipe.ParseSeed(pipe.NewSeed())
	if err == nil {
		d.key, err = pipe.DeriveKey(seed)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.conv = host.NewRouter(s.log, d.browser, get, cfg).Open(d.key, func(line []byte) error {
		m, fault := pipe.Decode(line)
		if fault != nil {
			t.Errorf("sent %.200s: %v", line, fault)
		}
		d.out <- m
		return nil
	})
	t.Cleanup(d.conv.Close)
	return d
}

func (d *desk) send(c *pipe.Command) {
	d.t.Helper()
	d.seq++
	c.Seq = d.seq
	if c.Security.ExpectedDomain == "" {
		c.Security.ExpectedDomain = "127.0.0.1"
	}
	if err := pipe.Sign(c, d.key); err != nil {
		d.t.Fatal(err)
	}
	line, err := pipe.Encode(c)
	if err != nil {
		d.t.Fatal(err)
	}
	d.conv.Command(line)
}

func (d *desk) next() any {
	d.t.Helper()
	select {
	case m := <-d.out:
		return m
	case <-time.After(40 * time.Second):
		d.t.Fatal("no message")
		return nil
	}
}

// do sends a command and checks the code of its response; "" is success.
func (d *desk) do(name, params string, want pipe.Code, g ...*agent.Grant) *pipe.Response {
	d.t.Helper()
	c := &pipe.Command{Action: name, Params: json.RawMessage(params)}
	for _, one := range g {
		c.Security.Grant = one
	}
	d.send(c)
	r, ok := d.next().(*pipe.Response)
	if !ok {
		d.t.Fatal("not a response")
	}
	var got pipe.Code
	if r.Error != nil {
		got = r.Error.Code
	}
	if got != want {
		d.t.Fatalf("%s %s: %v, want code %q", name, params, r.Error, want)
	}
	return r
}

func plain(t *testing.T) *settings {
	return &settings{log: slog.New(slog.NewTextHandler(writer(func(p []byte) {
		if t.Context().Err() == nil {
			t.Log(strings.TrimSpace(string(p)))
		}
	}), nil))}
}

func signedIn(t *testing.T, d *desk, o *office) {
	t.Helper()
	d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/login"), "")
	d.do(action.Type, `{"selector":"[name=user]","text":"zhangsan"}`, "")
	d.do(action.Type, `{"selector":"[name=password]","text":"s3cr3t\n"}`, "")
	d.do(action.WaitForSelector, `{"selector":"#ok"}`, "")
}

func TestApprovalIsConfirmed(t *testing.T) {
	o := openOffice(t)
	d := sit(t, plain(t), host.RouterConfig{Mode: host.ModeAnswer})
	signedIn(t, d, o)
	r := d.do(action.Click, `{"selector":"#ok"}`, pipe.CodeNeedConfirm)
	ask := r.Data.Confirm
	if ask == nil || ask.Role != "button" || ask.Name != "批准" || !strings.Contains(ask.Context, "张三") || ask.Rule != "decisions" {
		t.Fatalf("asked %+v", ask)
	}
	if len(ask.Image) == 0 {
		t.Error("no picture of the button")
	}
	if n := o.posts.Load(); n != 0 {
		t.Fatalf("%d approvals before anybody agreed", n)
	}
	grant := &agent.Grant{ID: "g1", By: "w", At: time.Now(), Digest: ask.Digest}
	if r = d.do(action.Click, `{"selector":"#ok"}`, "", grant); !strings.HasSuffix(r.Data.Page.URL, "/approve") {
		t.Errorf("page %+v", r.Data.Page)
	}
	if n := o.posts.Load(); n != 1 {
		t.Errorf("%d approvals, want 1", n)
	}
	d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/"), "")
	d.do(action.Click, `{"selector":"#ok"}`, pipe.CodeGrantInvalid, grant)
	if n := o.posts.Load(); n != 1 {
		t.Errorf("%d approvals, want 1", n)
	}
}

// clerk answers as a test tells.
type clerk struct{ answers chan bool }

func (c clerk) Ask(ctx context.Context, _ host.Question) (bool, error) {
	select {
	case yes := <-c.answers:
		return yes, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func TestApprovalIsHeld(t *testing.T) {
	o := openOffice(t)
	who := clerk{make(chan bool)}
	d := sit(t, plain(t), host.RouterConfig{Mode: host.ModeHold, Prompter: who})
	signedIn(t, d, o)
	for _, c := range []struct {
		yes   bool
		want  pipe.Code
		posts int32
	}{{false, pipe.CodeConfirmRejected, 0}, {true, "", 1}} {
		d.send(&pipe.Command{Action: action.Click, Params: json.RawMessage(`{"selector":"#ok"}`)})
		if m, ok := d.next().(*pipe.ConfirmPending); !ok || m.Ask.Name != "批准" {
			t.Fatalf("got %+v", m)
		}
		who.answers <- c.yes
		r, ok := d.next().(*pipe.Response)
		if !ok || r.Success != c.yes || !c.yes && r.Error.Code != c.want {
			t.Fatalf("got %+v", r)
		}
		if n := o.posts.Load(); n != c.posts {
			t.Errorf("%d approvals, want %d", n, c.posts)
		}
	}
	// The agent goes while somebody is asked: nothing happens any more.
	d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/"), "")
	d.send(&pipe.Command{Action: action.Click, Params: json.RawMessage(`{"selector":"#ok"}`)})
	d.next()
	d.conv.Close()
	if n := o.posts.Load(); n != 1 {
		t.Errorf("%d approvals, want 1", n)
	}
}

func TestSessionLoginAndLogout(t *testing.T) {
	o := openOffice(t)
	file := filepath.Join(t.TempDir(), "logins.json")
	write := func(password string) {
		text := fmt.Sprintf(`{"127.0.0.1":{"login_url":%q,"username":"zhangsan","password":%q}}`, o.URL+"/login", password)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := sit(t, plain(t), host.RouterConfig{Credentials: host.CredentialFile(file)})
	write("wrong")
	d.do(action.SessionLogin, `{"domain":"127.0.0.1"}`, pipe.CodeSessionLoginFail)
	write("s3cr3t")
	r := d.do(action.SessionLogin, `{"domain":"127.0.0.1"}`, "")
	if raw, err := json.Marshal(r); err != nil || bytes.Contains(raw, []byte("s3cr3t")) {
		t.Errorf("response %s, %v", raw, err)
	}
	if r = d.do(action.GetText, `{"selector":"h1"}`, ""); r.Data.Text != "待审批" {
		t.Errorf("page says %q", r.Data.Text)
	}
	d.do(action.SessionLogout, `{"domain":"127.0.0.1"}`, "")
	r = d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/"), "")
	if !strings.HasSuffix(r.Data.Page.URL, "/login") {
		t.Errorf("after logging out at %s", r.Data.Page.URL)
	}
	// A session that ends by itself is told as such.
	d.do(action.SessionLogin, `{"domain":"127.0.0.1"}`, "")
	if _, fault := d.browser.ClearCookies(t.Context(), "127.0.0.1"); fault != nil {
		t.Fatal(fault)
	}
	d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/"), pipe.CodeSessionExpired)
}

func TestBrowserThatDiesComesBack(t *testing.T) {
	o := openOffice(t)
	d := sit(t, plain(t), host.RouterConfig{})
	signedIn(t, d, o)
	spawned := d.do(action.ZombieSpawn, fmt.Sprintf(`{"url":%q}`, o.URL+"/detail"), "")
	if spawned.Data.PageID == "" {
		t.Fatal("no page id")
	}
	again := &pipe.Command{Action: action.Navigate, Params: json.RawMessage(fmt.Sprintf(`{"url":%q}`, o.URL+"/detail?again")), PageID: spawned.Data.PageID}
	d.send(again)
	if r, ok := d.next().(*pipe.Response); !ok || !r.Success {
		t.Fatalf("navigation in a background page: %+v", r.Error)
	}
	ref := regexp.MustCompile(`\[ref=e[0-9]+\]`)
	seen := d.do(action.GetAOMSnapshot, `{}`, "")
	old := ref.FindString(seen.Data.Snapshot)
	first := d.engine()
	ctx, cancel := context.WithTimeout(t.Context(), closeTimeout)
	defer cancel()
	if err := first.Close(ctx); err != nil {
		t.Fatal(err)
	}
	<-first.Done()
	r := d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/detail"), "")
	if !slices.ContainsFunc(r.Data.Events, func(e pipe.PageEvent) bool { return e.Kind == "crash" }) {
		t.Errorf("nothing said about it: %+v", r.Data.Events)
	}
	d.do(action.Click, fmt.Sprintf(`{"selector":%q}`, old), pipe.CodeRefStale)
	d.do(action.GetAOMSnapshot, `{}`, "")
	d.do(action.Click, fmt.Sprintf(`{"selector":%q}`, old), pipe.CodeRefStale)
	c := &pipe.Command{Action: action.GetText, Params: json.RawMessage(`{"selector":"h1"}`), PageID: spawned.Data.PageID}
	d.send(c)
	if r, ok := d.next().(*pipe.Response); !ok || r.Success || r.Error.Code != pipe.CodeZombieNotFound {
		t.Errorf("lost page answers %+v", r)
	}
}

func TestAttachedBrowserIsLeftAlone(t *testing.T) {
	realBrowser(t)
	o := openOffice(t)
	path, err := chrome.Find(os.Getenv("SGCLAW_CHROME"))
	if err != nil {
		t.Fatal(err)
	}
	profile := t.TempDir()
	args := []string{"--headless", "--remote-debugging-port=0", "--user-data-dir=" + profile, "--no-first-run", "about:blank"}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox")
	}
	theirs := exec.Command(path, args...)
	if err := child.Start(theirs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = theirs.Process.Kill()
		_ = theirs.Wait()
	})
	s := plain(t)
	s.attach = "ws://" + devtools(t, profile)
	d := sit(t, s, host.RouterConfig{})
	if r := d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, o.URL+"/detail"), ""); r.Data.Page.Title != "OA" {
		t.Errorf("page %+v", r.Data.Page)
	}
	d.browser.Close(t.Context())
	again, err := cdp.Dial(t.Context(), s.attach)
	if err != nil {
		t.Fatalf("the browser did not outlive its guest: %v", err)
	}
	_ = again.Close()
}

// devtools waits for the address of a browser that opened a port.
func devtools(t *testing.T, profile string) string {
	t.Helper()
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		raw, err := os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
		if port, path, ok := strings.Cut(strings.TrimSpace(string(raw)), "\n"); err == nil && ok {
			return "127.0.0.1:" + port + path
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal("no DevTools port")
		}
	}
}

// program is browserhost as a process.
type program struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	stderr *bytes.Buffer
	done   chan error
}

func start(t *testing.T, args ...string) (*program, string) {
	t.Helper()
	realBrowser(t)
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.json")
	if err := os.WriteFile(rules, []byte(officeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(dir, "profile")
	p := &program{lines: make(chan string, 100), stderr: new(bytes.Buffer), done: make(chan error, 1)}
	p.cmd = exec.Command(built(t), append([]string{
		"run", "--headless", "--profile", profile, "--rules", rules, "--pipehost", self,
	}, args...)...)
	p.cmd.Env = append(os.Environ(), quietAgent+"=1")
	p.cmd.Stderr = p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.lines <- lines.Text()
		}
		close(p.lines)
		p.done <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
	})
	return p, profile
}

// says waits for a line on stdout.
func (p *program) says(t *testing.T, want string) {
	t.Helper()
	limit := time.After(60 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("ended before it said %q:\n%s", want, p.stderr.String())
			}
			if strings.Contains(line, want) {
				return
			}
		case <-limit:
			t.Fatalf("never said %q", want)
		}
	}
}

func (p *program) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(15 * time.Second):
		t.Fatal("does not end")
		return nil
	}
}

// alone waits until no process has the profile in its command line.
func alone(t *testing.T, profile string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	deadline := time.After(5 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		var left []string
		found, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte("--user-data-dir="+profile)) {
				left = append(left, f)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("browser processes left: %v", left)
		}
	}
}

func TestEveryEndEndsTheBrowser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	for _, c := range []struct {
		name string
		end  func(*program) error
		ok   bool
		args []string
	}{
		{"SIGTERM", func(p *program) error { return child.Interrupt(p.cmd.Process) }, true, nil},
		{"SIGKILL", func(p *program) error { return p.cmd.Process.Kill() }, false, nil},
		{"stdin", func(p *program) error { return p.stdin.Close() }, true, []string{"--exit-with-stdin"}},
		{"quit", func(p *program) error { _, err := io.WriteString(p.stdin, "quit\n"); return err }, true, []string{"--console"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, profile := start(t, c.args...)
			p.says(t, "agent running")
			if err := c.end(p); err != nil {
				t.Fatal(err)
			}
			err := p.ends(t)
			var exit *exec.ExitError
			if c.ok && err != nil || !c.ok && !errors.As(err, &exit) {
				t.Errorf("ended with %v\n%s", err, p.stderr.String())
			}
			alone(t, profile)
		})
	}
}
