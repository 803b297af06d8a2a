// Package stack runs all of sgclaw on one machine: a private PostgreSQL, a
// Temporal development server with its UI, the worker, the gateway with the
// panel, a browser host with a Chromium and its pipehost, the demo site and,
// where no model is configured, the scripted model server. It starts them in order, keeps them running, and
// ends them together. It is for newcomers, development and tests; on servers
// the same binaries run under docker-compose.yml or an init system.
package stack

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"sgclaw/internal/devserver"
	"sgclaw/internal/oa"
	"sgclaw/internal/postgres"
	"sgclaw/workflows"
)

// Names of the units, in the order in which they start.
const (
	Postgres    = "postgres"
	Temporal    = "temporal"
	Model       = "model"
	Worker      = "worker"
	Gateway     = "gateway"
	BrowserHost = "browserhost"
)

// scriptedKey is the key for the scripted model server. A shell that read the
// env.sh of an earlier start has it too, and means that server and no other.
const scriptedKey = "scripted"

// site is what the demo site's port is held for.
const site = "site"

// BrowserID is the embedded browser's.
const BrowserID = "local"

// Config says what to run and where.
type Config struct {
	// Dir keeps all data and logs; it is made if missing. One stack at a time
	// can use it.
	Dir string
	// Fresh empties Dir first.
	Fresh bool
	// Bin is where the binaries are.
	Bin string
	// TemporalPort, UIPort, PostgresPort, GatewayPort and SitePort are taken
	// if they are free, else other ones are; 0 takes any.
	TemporalPort, UIPort, PostgresPort, GatewayPort, SitePort int
	// Headless runs the browser without a window.
	Headless bool
	// Env is the environment that the processes get, with SGCLAW_* in it.
	Env []string
	// Rules is a rules file; empty makes one for the demo site.
	Rules string
	// NoBrowser leaves the browser host out, for benchmarks of the core.
	NoBrowser bool
	// Temporal and Database, given together, are the address and the URL of
	// servers that run elsewhere. Then neither of them is started here, and
	// no worker and no gateway.
	Temporal, Database string
	// ModelArgs are further arguments of the scripted model server.
	ModelArgs []string
	// SiteDelay is how long the demo site takes to answer a decision.
	SiteDelay time.Duration
	// Out gets a line for each long step, for people.
	Out io.Writer
}

// Stack is a running stack.
type Stack struct {
	cfg   Config
	log   *slog.Logger
	units []*unit
	site  *oa.Site
	http  *http.Server
	lock  *os.File
	// held keeps ports from others until the server starts that they are for.
	held map[string][]net.Listener

	temporal, ui, database, siteURL, modelURL, gatewayURL string
	// token is the gateway's; it stays the same for as long as the folder is
	// there.
	token    string
	scripted bool
}

// Start starts everything and returns when it is ready. ctx bounds the start
// only. The caller must call Close.
func Start(ctx context.Context, log *slog.Logger, cfg Config) (_ *Stack, err error) {
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	s := &Stack{cfg: cfg, log: log, temporal: cfg.Temporal, database: cfg.Database}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.lock, err = lockDir(cfg.Dir); err != nil {
		return nil, err
	}
	if cfg.Fresh {
		if err := empty(cfg.Dir); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "log"), 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := s.ports(); err != nil {
		return nil, err
	}
	if cfg.Temporal == "" {
		if s.token, err = token(filepath.Join(cfg.Dir, "gateway.token")); err != nil {
			return nil, fmt.Errorf("the gateway's token: %w", err)
		}
		s.gatewayURL = fmt.Sprintf("http://127.0.0.1:%d", s.cfg.GatewayPort)
	}
	if err := s.serveSite(); err != nil {
		return nil, err
	}
	if s.cfg.Rules == "" {
		if s.cfg.Rules, err = s.writeRules(); err != nil {
			return nil, err
		}
	}
	steps := []struct {
		name, told string
		start      func(context.Context) (service, error)
	}{
		{Postgres, "PostgreSQL", s.startPostgres},
		{Temporal, "Temporal", s.startTemporal},
		{Model, "the scripted model server (no SGCLAW_LLM_API_KEY is set)", s.startModel},
		{Worker, "the worker", s.startWorker},
		{Gateway, "the gateway", s.startGateway},
		{BrowserHost, "the browser host with Chromium", s.startBrowser},
	}
	key := s.lookup("SGCLAW_LLM_API_KEY")
	s.scripted = key == "" || key == scriptedKey
	for _, st := range steps {
		server := st.name == Postgres || st.name == Temporal || st.name == Worker || st.name == Gateway
		if server && cfg.Temporal != "" || st.name == Model && !s.scripted || st.name == BrowserHost && cfg.NoBrowser {
			continue
		}
		began := time.Now()
		fmt.Fprintf(cfg.Out, "starting %s ...", st.told)
		// Only for the first start: units are started again on goroutines of
		// their own.
		s.release(st.name)
		u := &unit{name: st.name, start: st.start, log: log}
		if err := u.run(ctx); err != nil {
			fmt.Fprintln(cfg.Out)
			return nil, err
		}
		s.units = append(s.units, u)
		fmt.Fprintf(cfg.Out, " ready (%.1f s)\n", time.Since(began).Seconds())
	}
	return s, nil
}

// Close ends everything, in the opposite order.
func (s *Stack) Close() {
	for i := len(s.units) - 1; i >= 0; i-- {
		s.units[i].close()
	}
	if s.http != nil {
		_ = s.http.Close()
	}
	if s.site != nil {
		if err := s.site.Close(); err != nil {
			s.log.Warn("site", "err", err)
		}
	}
	for name := range s.held {
		s.release(name)
	}
	if s.lock != nil {
		_ = s.lock.Close()
	}
}

// Temporal is the address of the Temporal server.
func (s *Stack) Temporal() string { return s.temporal }

// UI is the URL of the Temporal UI.
func (s *Stack) UI() string { return s.ui }

// Database is the URL of the database.
func (s *Stack) Database() string { return s.database }

// SiteURL is the URL of the demo site, without a slash at the end.
func (s *Stack) SiteURL() string { return s.siteURL }

// GatewayURL is the URL of the gateway, without a slash at the end; empty if
// none is started here. Its WebSocket is at the same place.
func (s *Stack) GatewayURL() string { return s.gatewayURL }

// GatewayToken is the gateway's, an operator's.
func (s *Stack) GatewayToken() string { return s.token }

// PanelURL is the address that opens the panel and logs in. It has the token
// in its fragment, which browsers send to nobody.
func (s *Stack) PanelURL() string { return s.gatewayURL + "/#token=" + s.token }

// Scripted reports whether the scripted model server stands in for a model.
func (s *Stack) Scripted() bool { return s.scripted }

// ModelURL is the base URL of the scripted model server.
func (s *Stack) ModelURL() string { return s.modelURL }

// Ledger is what the demo site has seen.
func (s *Stack) Ledger() oa.Ledger { return s.site.Ledger() }

// PID is the process id of a unit, and how often it was started.
func (s *Stack) PID(name string) (pid, starts int, ok bool) {
	for _, u := range s.units {
		if u.name == name {
			svc, n := u.get()
			return svc.PID(), n, true
		}
	}
	return 0, 0, false
}

// Env is the environment in which starter, worker and pipehost reach this
// stack. It lacks the gateway's token, which none of them needs.
func (s *Stack) Env() []string {
	env := map[string]string{
		"SGCLAW_TEMPORAL_ADDRESS":   s.temporal,
		"SGCLAW_TEMPORAL_NAMESPACE": "default",
		"SGCLAW_DATABASE_URL":       s.database,
		"SGCLAW_RULES_PATH":         s.cfg.Rules,
		"SGCLAW_BROWSER_ID":         BrowserID,
		"SGCLAW_PIPEHOST_DATA_DIR":  filepath.Join(s.cfg.Dir, "pipehost"),
	}
	if s.scripted {
		env["SGCLAW_LLM_PROVIDER"] = "openai"
		env["SGCLAW_LLM_API_KEY"] = scriptedKey
		env["SGCLAW_LLM_BASE_URL"] = s.modelURL
		env["SGCLAW_LLM_MODEL"] = "scripted"
	}
	var out []string
	for _, kv := range s.cfg.Env {
		name, _, _ := strings.Cut(kv, "=")
		if _, ours := env[name]; !ours && !strings.HasPrefix(name, "SGCLAW_GATEWAY_") {
			out = append(out, kv)
		}
	}
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

func (s *Stack) lookup(name string) string {
	for _, kv := range s.cfg.Env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// ports fixes the ports, so that a unit that is started again is found where
// it was, and holds them, so that two stacks that start at once take
// different ones.
func (s *Stack) ports() error {
	s.held = map[string][]net.Listener{}
	for _, p := range []struct {
		unit string
		port *int
	}{
		{Temporal, &s.cfg.TemporalPort}, {Temporal, &s.cfg.UIPort}, {Postgres, &s.cfg.PostgresPort}, {Gateway, &s.cfg.GatewayPort}, {site, &s.cfg.SitePort},
	} {
		l, err := listen(*p.port)
		if err != nil {
			return fmt.Errorf("find a free port: %w", err)
		}
		*p.port = l.Addr().(*net.TCPAddr).Port
		s.held[p.unit] = append(s.held[p.unit], l)
	}
	return nil
}

// release lets go of a unit's ports, right before it takes them.
func (s *Stack) release(unit string) {
	for _, l := range s.held[unit] {
		_ = l.Close()
	}
	delete(s.held, unit)
}

// Ports that systems do not give to outgoing connections by themselves.
const (
	firstPort = 20000
	lastPort  = 29999
)

// listen listens on want if it is free, else on any port. It is one that no
// outgoing connection gets: while a server is away, the attempts of its own
// clients to reach it might take another.
func listen(want int) (net.Listener, error) {
	if want == 0 {
		want = firstPort + rand.IntN(lastPort-firstPort+1)
	}
	for range 100 {
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(want))); err == nil {
			return l, nil
		}
		want = firstPort + rand.IntN(lastPort-firstPort+1)
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// freePort returns a port that is free now.
func freePort() (int, error) {
	l, err := listen(0)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// empty removes what is in dir, except the lock.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) logFile(name string) string { return filepath.Join(s.cfg.Dir, "log", name+".log") }

func (s *Stack) binary(name string) (string, error) {
	path := filepath.Join(s.cfg.Bin, name)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built: run `make build`", path)
	}
	return path, nil
}

func (s *Stack) serveSite() error {
	demo, err := oa.New(s.log, oa.Config{LedgerFile: filepath.Join(s.cfg.Dir, "ledger.jsonl"), Delay: s.cfg.SiteDelay})
	if err != nil {
		return fmt.Errorf("demo site: %w", err)
	}
	s.site = demo
	l := s.held[site][0]
	delete(s.held, site)
	s.siteURL = "http://" + l.Addr().String()
	s.http = &http.Server{Handler: demo, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("demo site", "err", err)
		}
	}()
	return nil
}

// writeRules makes a policy for the demo site: it may be read and worked on,
// and whoever approves, rejects, submits or deletes there is asked about.
func (s *Stack) writeRules() (string, error) {
	rules := struct {
		Version string `json:"version"`
		Domains any    `json:"domains"`
		Actions any    `json:"pipe_actions"`
		Storage any    `json:"storage"`
		Rate    any    `json:"rate_limits"`
		When    []any  `json:"confirm_when"`
	}{
		Version: "1.0",
		Domains: map[string][]string{"allowed": {"127.0.0.1"}},
		Actions: map[string][]string{
			"allowed": {"click", "type", "navigate", "getText", "getHtml", "waitForSelector", "pageScreenshot", "select", "scrollTo",
				"getAomSnapshot", "storageSet", "storageGet", "zombieSpawn", "zombieKill"},
			"blocked":      {"eval", "executeJsInPage", "registerJsFunction", "setRequestInterceptor", "exportCookies"},
			"need_confirm": {"sessionLogin", "sessionLogout", "clearStorage"},
		},
		Storage: map[string]string{"key_prefix": "sgclaw."},
		Rate:    map[string]any{"default": map[string]int{"max_per_second": 20, "cooldown_seconds": 5}},
		When: []any{map[string]any{
			"id": "decisions", "actions": []string{"click"}, "role": []string{"button"},
			"name": "批准|通过|驳回|提交|支付|删除|Approve|Reject|Submit|Pay|Delete",
		}},
	}
	b, err := json.MarshalIndent(rules, "", "  ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.cfg.Dir, "rules.json")
	return path, os.WriteFile(path, append(b, '\n'), 0o644)
}

func (s *Stack) startPostgres(ctx context.Context) (service, error) {
	p, err := postgres.Start(ctx, postgres.Config{
		DataDir: filepath.Join(s.cfg.Dir, "postgres"), Port: s.cfg.PostgresPort, LogFile: s.logFile(Postgres), Database: "sgclaw",
	})
	if err != nil {
		return nil, err
	}
	if s.database == "" {
		s.database = p.URL()
	}
	return p, nil
}

func (s *Stack) startTemporal(ctx context.Context) (service, error) {
	t, err := devserver.Start(ctx, s.log, devserver.Config{
		Path: s.lookup(devserver.Env), DBFile: filepath.Join(s.cfg.Dir, "temporal.db"), Port: s.cfg.TemporalPort, UIPort: s.cfg.UIPort,
		LogFile: s.logFile(Temporal), Retention: 30 * 24 * time.Hour,
		Keywords: []string{workflows.AttrState, workflows.AttrUser, workflows.AttrBrowser, workflows.AttrSession},
	})
	if err != nil {
		return nil, err
	}
	// It is always the same, and others read it while a server is started
	// again.
	if s.temporal == "" {
		s.temporal, s.ui = t.Address(), t.UI()
	}
	return t, nil
}

// startModel starts the scripted model server as a process of its own.
func (s *Stack) startModel(ctx context.Context) (service, error) {
	bin, err := s.binary("stack")
	if err != nil {
		return nil, err
	}
	if s.modelURL == "" {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s.modelURL = fmt.Sprintf("http://127.0.0.1:%d/v1", port)
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(s.modelURL, "http://"), "/v1")
	p, err := spawn(bin, append([]string{"model", "--listen", addr, "--start-url", s.siteURL}, s.cfg.ModelArgs...), s.cfg.Env, s.logFile(Model))
	if err != nil {
		return nil, err
	}
	return p, s.await(ctx, p, Model, func(ctx context.Context) error { return get(ctx, s.modelURL+"/models") })
}

func (s *Stack) startWorker(ctx context.Context) (service, error) {
	bin, err := s.binary("worker")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err := spawn(bin, nil, append(s.Env(), "SGCLAW_WORKER_METRICS_ADDR="+addr), s.logFile(Worker))
	if err != nil {
		return nil, err
	}
	return p, s.await(ctx, p, Worker, func(ctx context.Context) error { return get(ctx, "http://"+addr+"/readyz") })
}

func (s *Stack) startGateway(ctx context.Context) (service, error) {
	bin, err := s.binary("gateway")
	if err != nil {
		return nil, err
	}
	env := append(s.Env(), "SGCLAW_GATEWAY_LISTEN="+strings.TrimPrefix(s.gatewayURL, "http://"), "SGCLAW_GATEWAY_TOKEN="+s.token)
	p, err := spawn(bin, nil, env, s.logFile(Gateway))
	if err != nil {
		return nil, err
	}
	return p, s.await(ctx, p, Gateway, func(ctx context.Context) error { return get(ctx, s.gatewayURL+"/readyz") })
}

// token returns the token that a file keeps, for its owner's eyes only, and
// makes both if there is none.
func token(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(bytes.TrimSpace(b)) > 0 {
		return string(bytes.TrimSpace(b)), os.Chmod(path, 0o600)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	t := crand.Text()
	return t, os.WriteFile(path, []byte(t+"\n"), 0o600)
}

func (s *Stack) startBrowser(ctx context.Context) (service, error) {
	bin, err := s.binary("browserhost")
	if err != nil {
		return nil, err
	}
	pipehost, err := s.binary("pipehost")
	if err != nil {
		return nil, err
	}
	args := []string{"run", "--browser-id", BrowserID, "--profile", filepath.Join(s.cfg.Dir, "profile"), "--pipehost", pipehost,
		"--rules", s.cfg.Rules, "--restart-agent", "--download-dir", filepath.Join(s.cfg.Dir, "downloads")}
	if s.cfg.Headless {
		args = append(args, "--headless")
	}
	p, err := spawn(bin, args, s.Env(), s.logFile(BrowserHost))
	if err != nil {
		return nil, err
	}
	return p, s.await(ctx, p, BrowserHost, s.browserOnline)
}

// await polls until ready says so; a process that ends before that has its
// log shown.
func (s *Stack) await(ctx context.Context, p *process, name string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = ready(ctx); last == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended while it started; the end of %s:\n%s", name, s.logFile(name), tail(s.logFile(name), 2000))
		case <-ctx.Done():
			p.Stop()
			return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", name, last, s.logFile(name), tail(s.logFile(name), 2000))
		case <-tick.C:
		}
	}
}

// get succeeds if the URL answers 200.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}

// Where tells people what is where and what to do next.
func (s *Stack) Where() string {
	model := "the model that SGCLAW_LLM_* names"
	if s.scripted {
		model = "the scripted model server, because SGCLAW_LLM_API_KEY is not set: it knows a few kinds of tasks only"
	}
	return fmt.Sprintf(`
sgclaw runs.
  panel         %s
  Temporal UI   %s
  demo site     %s
  model         %s
  policy        %s
  data, logs    %s

In another terminal:
  source %s
  starter start --watch %q
  starter --help
Ctrl-C here stops everything; the next start goes on where this one ended.
`, s.PanelURL(), s.ui, s.siteURL, model, s.cfg.Rules, s.cfg.Dir, filepath.Join(s.cfg.Dir, "env.sh"), DemoTask("zh", s.siteURL))
}

// WriteEnv writes a file that a shell sources to reach this stack.
func (s *Stack) WriteEnv(path string) error {
	var b strings.Builder
	b.WriteString("# Made by `stack up`: reach the embedded stack from this shell.\n")
	env := s.Env()
	if s.gatewayURL != "" {
		env = append(env, "SGCLAW_GATEWAY_URL="+s.gatewayURL, "SGCLAW_GATEWAY_TOKEN="+s.token)
	}
	slices.Sort(env)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "SGCLAW_") {
			fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
		}
	}
	fmt.Fprintf(&b, "export PATH='%s':\"$PATH\"\n", s.cfg.Bin)
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
