package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/cdp"
	"sgclaw/internal/chrome"
	"sgclaw/internal/host"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
	"sgclaw/panel"
)

// launchTimeout bounds the start of a browser, on a machine that may be
// busy.
const launchTimeout = 60 * time.Second

// closeTimeout bounds its end.
const closeTimeout = 4 * time.Second

// serve runs browser and agent until ctx ends, the console quits, or the
// browser is lost for good.
func serve(ctx context.Context, s *settings, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()

	var rules atomic.Pointer[policy.Rules]
	rules.Store(s.rules)
	console := newConsole(stdout, s.lang, quit)
	side, window, err := s.openPanel(ctx, console)
	if err != nil {
		return err
	}
	launch := func(ctx context.Context, before int) (host.Engine, error) {
		return s.launch(ctx, before, rules.Load, window)
	}
	starting, cancel := context.WithTimeout(ctx, launchTimeout)
	browser, err := host.OpenBrowser(starting, s.log, launch)
	cancel()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		browser.Close(ctx)
	}()

	asked := prompters{console}
	if side != nil {
		asked = append(asked, side)
	}
	router := host.NewRouter(s.log, browser, rules.Load, host.RouterConfig{
		Mode: s.mode, Prompter: asked, Credentials: s.credentials,
	})
	process := host.NewProcess(s.log, router, host.AgentConfig{
		Path: s.agent, Args: s.agentArgs, Env: s.agentEnv, Stderr: stderr,
		BrowserID: s.browserID, Capabilities: capabilities(s.mode),
		Page: func() *agent.Page {
			if p, ok := browser.Info(""); ok {
				return &p
			}
			return nil
		},
	})
	console.attach(process, s.console)
	if side != nil {
		side.attach(process)
		go side.run(ctx)
	}
	if s.console || s.mode == host.ModeHold || s.exitOnEOF {
		go func() {
			console.read(ctx, stdin)
			if s.exitOnEOF {
				quit()
			}
		}()
	}
	go reload(ctx, s.log, s.rulesPath, &rules)

	agentDone := make(chan struct{})
	go func() {
		defer close(agentDone)
		if s.restart {
			process.Keep(ctx)
			return
		}
		// What goes wrong reaches the observers, and the browser stays: it is
		// the person's. Only a console can start the agent again.
		if err := process.Start(ctx); err != nil {
			s.log.Error("agent not started", "err", err)
		}
	}()
	select {
	case <-ctx.Done():
	case <-browser.Lost():
		err = errors.New("the browser was lost for good")
		quit()
	}
	<-agentDone
	process.Stop()
	return err
}

func capabilities(mode host.Mode) []string {
	list := []string{pipe.CapSnapshotAfter, pipe.CapPageID, pipe.CapCancel}
	if mode == host.ModeHold {
		list = append(list, pipe.CapHoldConfirm)
	}
	return list
}

// sameHost reports whether two addresses have one host and port.
func sameHost(a, b string) bool {
	u, err := url.Parse(a)
	v, bad := url.Parse(b)
	return err == nil && bad == nil && u.Host == v.Host
}

// numbersPerBrowser keeps the refs and page ids of one browser apart from
// those of the next.
const numbersPerBrowser = 100_000

// launch starts or attaches to a browser and opens its pages. before is how
// many were launched before; rules are those in force whenever a document is
// about to be requested.
func (s *settings) launch(ctx context.Context, before int, rules func() *policy.Rules, opened func(context.Context, *page.Browser)) (host.Engine, error) {
	conn, end, err := s.connect(ctx, rules)
	if err != nil {
		return nil, err
	}
	b, err := page.Open(ctx, s.log, conn, page.Options{
		Allow: func(rawURL string) *pipe.Error {
			if s.panel == builtInPanel && sameHost(rawURL, s.panelURL) {
				return pipe.Errorf(pipe.CodeDomainNotAllowed, "the panel is the person's and not for the agent")
			}
			return host.AllowURL(rules(), rawURL)
		},
		Strict:      s.strict,
		DownloadDir: s.downloadDir,
		Attached:    s.attach != "",
		NumberAfter: before * numbersPerBrowser,
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("open pages: %w", err), end(ctx))
	}
	e := host.Drive(b, end)
	s.openStart(ctx, e)
	if opened != nil {
		opened(ctx, b)
	}
	return e, nil
}

// openPanel makes the panel, if one is wanted, and what opens its page in each
// browser that is started. The page is served until ctx ends.
func (s *settings) openPanel(ctx context.Context, c *console) (*sidePanel, func(context.Context, *page.Browser), error) {
	if s.panel == "" {
		return nil, nil, nil
	}
	s.panelURL = s.panel
	if s.panel == builtInPanel {
		served, l, err := servePanel(s.log, panel.FS())
		if err != nil {
			return nil, nil, err
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		s.panelURL = served
	}
	p := newPanel(s.log, s.lang)
	w := &panelWindow{log: s.log, url: s.panelURL, panel: p, told: c.say}
	p.reopen = func() { w.again(ctx) }
	c.panel = p.show
	return p, func(starting context.Context, b *page.Browser) {
		if err := w.openIn(starting, ctx, b); err != nil {
			s.log.Error("panel not opened", "err", err)
		}
	}, nil
}

// connect returns a DevTools connection and what ends the browser behind it.
func (s *settings) connect(ctx context.Context, rules func() *policy.Rules) (*cdp.Conn, func(context.Context) error, error) {
	if s.attach != "" {
		t, err := cdp.Dial(ctx, s.attach)
		if err != nil {
			return nil, nil, fmt.Errorf("attach: %w", err)
		}
		conn := cdp.New(s.log, t)
		return conn, func(context.Context) error { return conn.Close() }, nil
	}
	p, err := chrome.Start(ctx, s.log, chrome.Options{
		Path: s.chrome, Profile: s.profile, Headless: s.headless, Args: s.chromeArgs,
		Strict: s.strict, AllowHosts: s.resolvable(rules()),
	})
	if err != nil {
		if !s.headless && runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return nil, nil, fmt.Errorf("there is no display for a window here; use --headless (browserhost.headless), or set DISPLAY: %w", err)
		}
		return nil, nil, err
	}
	return p.Conn(), p.Close, nil
}

// resolvable are the host names that strict mode resolves.
func (s *settings) resolvable(rules *policy.Rules) []string {
	list := rules.Domains()
	if host, err := action.URLHost(s.panelURL); err == nil {
		list = append(slices.Clone(list), host)
	}
	return list
}

// openStart opens the start page. A browser without it is still a browser.
func (s *settings) openStart(ctx context.Context, e host.Engine) {
	if s.url == "" || s.url == "about:blank" {
		return
	}
	params, err := json.Marshal(action.NavigateParams{URL: s.url})
	if err == nil {
		params, err = action.Parse(action.Navigate, params)
	}
	if err == nil {
		if _, _, fault := e.Do(ctx, "", page.Request{Action: action.Navigate, Params: params}); fault != nil {
			err = fault
		}
	}
	if err != nil {
		s.log.Warn("start page not opened", "err", err)
	}
}

// reload puts the rules file in force again on SIGHUP, until ctx ends.
func reload(ctx context.Context, log *slog.Logger, path string, into *atomic.Pointer[policy.Rules]) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		rules, err := policy.Load(path)
		if err != nil {
			log.Error("rules not reloaded; the old ones hold", "err", err)
			continue
		}
		into.Store(rules)
		log.Info("rules reloaded", "path", path)
	}
}
