// Package chrome finds, starts, watches and ends a Chromium that is driven
// over --remote-debugging-pipe: no port is opened that another process of the
// machine could use. It knows nothing about pages.
//
// # No process left behind
//
// Chromium runs in a process group (Windows: a job object) of its own and is
// ended with it. However the host ends, SIGKILL included, the browser goes
// too: the pipe reaches its end, at which Chromium quits, Linux sends it
// SIGKILL by itself (Pdeathsig), and Windows closes the job. A profile that
// nobody could remove any more is swept by the next Start.
package chrome

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/cdp"
)

// ErrNotFound means that there is no Chrome or Chromium to start.
var ErrNotFound = errors.New("no Chrome or Chromium found; install one or set SGCLAW_CHROME to its path")

// Options shape a browser. The zero value starts a visible window with a
// profile of its own that is removed afterwards.
type Options struct {
	// Path is the executable; empty looks for one with Find.
	Path string
	// Profile is the user data directory to use and keep; empty makes one
	// that is removed at the end. A directory in use is an error.
	Profile string
	// Headless shows no window.
	Headless bool
	// Width and Height are the window's size; 0 means 1280 and 800.
	Width, Height int
	// Strict closes the ways around Fetch interception: host names that are
	// not in AllowHosts do not resolve, and WebRTC cannot leave by UDP.
	Strict bool
	// AllowHosts are host names, or "*.example.com", for Strict.
	AllowHosts []string
	// Args are further command line flags.
	Args []string
}

// Process is a running browser.
type Process struct {
	log  *slog.Logger
	conn *cdp.Conn
	cmd  *exec.Cmd
	job  job

	profile string   // to remove at the end, or empty
	lock    *os.File // held as long as the browser runs
	stderr  *tail

	done chan struct{}
	once sync.Once
	err  error // set before done is closed
}

// Find looks for an executable: $SGCLAW_CHROME as given by env, the usual
// names in PATH, the usual places. Package config reads the environment; env
// is its value of SGCLAW_CHROME or empty.
func Find(env string) (string, error) {
	if env != "" {
		if _, err := exec.LookPath(env); err != nil {
			return "", fmt.Errorf("browser %s: %w", env, err)
		}
		return env, nil
	}
	for _, name := range names() {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNotFound
}

// names are executables in order of preference, in PATH or absolute.
func names() []string {
	switch runtime.GOOS {
	case "darwin":
		return []string{
			"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium",
			"/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
			"chromium",
		}
	case "windows":
		var list []string
		for _, base := range []string{os.Getenv("ProgramFiles"), os.Getenv("ProgramFiles(x86)"), os.Getenv("LocalAppData")} {
			if base == "" {
				continue
			}
			list = append(list,
				filepath.Join(base, `Google\Chrome\Application\chrome.exe`),
				filepath.Join(base, `Chromium\Application\chrome.exe`),
				filepath.Join(base, `Microsoft\Edge\Application\msedge.exe`))
		}
		return append(list, "chrome.exe", "msedge.exe")
	default:
		return []string{
			"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge",
			"/usr/bin/chromium", "/usr/lib/chromium/chromium", "/snap/bin/chromium", "/opt/google/chrome/chrome",
		}
	}
}

// Start starts a browser and connects to it. ctx bounds the start only. The
// caller closes the Process.
func Start(ctx context.Context, log *slog.Logger, opts Options) (*Process, error) {
	path := opts.Path
	if path == "" {
		var err error
		if path, err = Find(""); err != nil {
			return nil, err
		}
	}
	p := &Process{log: log, done: make(chan struct{}), stderr: &tail{}}
	if err := p.openProfile(opts); err != nil {
		return nil, err
	}
	dir := opts.Profile
	if dir == "" {
		dir = filepath.Join(p.profile, "data")
	}
	if err := setPreferences(dir); err != nil {
		p.release()
		return nil, err
	}
	p.cmd = exec.Command(path, flags(opts, dir)...) //nolint:noctx // ended by Close, in order
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second
	ends, err := debugPipe(p.cmd)
	if err != nil {
		p.release()
		return nil, fmt.Errorf("devtools pipe: %w", err)
	}
	if err := p.run(); err != nil {
		ends.closeAll()
		p.release()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	ends.closeChild()
	p.conn = cdp.New(log, cdp.Pipe(ends))

	var version struct {
		Product string `json:"product"`
	}
	if err := p.conn.Call(ctx, "", "Browser.getVersion", nil, &version); err != nil {
		_ = p.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("start %s: %w%s", path, err, p.stderr.quote())
	}
	log.Info("browser started", "product", version.Product, "pid", p.cmd.Process.Pid)
	return p, nil
}

// run starts the process and watches it. The starting thread is kept for as
// long as the browser runs, because Linux ties Pdeathsig to it.
func (p *Process) run() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		prepare(p.cmd)
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		var err error
		if p.job, err = contain(p.cmd.Process); err != nil {
			p.log.Warn("browser process not contained", "err", err)
		}
		started <- nil
		err = p.cmd.Wait()
		p.job.kill(p.cmd.Process.Pid) // what it left behind
		p.release()
		if err != nil {
			p.err = fmt.Errorf("browser ended: %w%s", err, p.stderr.quote())
		} else {
			p.err = errors.New("browser ended")
		}
		close(p.done)
	}()
	return <-started
}

// Conn is the browser's DevTools connection. It ends with the browser.
func (p *Process) Conn() *cdp.Conn { return p.conn }

// PID is the browser process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the browser process has ended and its temporary profile
// is removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why the browser ended; nil while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// closeGrace is how long a browser may take to end by itself.
const closeGrace = 2 * time.Second

// Close ends the browser: politely, after closeGrace or when ctx ends by
// killing its group. It returns when no process is left. Closing again waits.
func (p *Process) Close(ctx context.Context) error {
	p.once.Do(func() {
		polite, cancel := context.WithTimeout(ctx, closeGrace)
		defer cancel()
		if p.conn != nil {
			if err := p.conn.Call(polite, "", "Browser.close", nil, nil); err == nil {
				select {
				case <-p.done:
				case <-polite.Done():
				}
			}
		}
		select {
		case <-p.done:
		default:
			p.job.kill(p.cmd.Process.Pid)
		}
		if p.conn != nil {
			_ = p.conn.Close()
		}
	})
	select {
	case <-p.done:
		return nil
	case <-time.After(closeGrace):
		return fmt.Errorf("browser process %d does not end", p.cmd.Process.Pid)
	}
}

// flags is the command line.
func flags(o Options, dir string) []string {
	width, height := o.Width, o.Height
	if width == 0 {
		width = 1280
	}
	if height == 0 {
		height = 800
	}
	off := []string{
		"Translate", "OptimizationHints", "MediaRouter", "DialMediaRouteProvider", "AutofillServerCommunication",
		"CertificateTransparencyComponentUpdater", "InterestFeedContentSuggestions", "HttpsUpgrades",
		"HttpsFirstBalancedModeAutoEnable", "BackForwardCache", "Prerender2", "SpareRendererForSitePerProcess",
		"PaintHolding", "ImprovedCookieControls", "GlobalMediaControls", "AvoidUnnecessaryBeforeUnloadCheckSync",
	}
	list := []string{
		"--remote-debugging-pipe",
		"--user-data-dir=" + dir,
		"--window-size=" + strconv.Itoa(width) + "," + strconv.Itoa(height),
		"--no-first-run",
		"--no-default-browser-check",
		"--no-service-autorun",
		"--disable-background-networking",
		"--disable-component-update",
		"--disable-component-extensions-with-background-pages",
		"--disable-default-apps",
		"--disable-sync",
		"--disable-client-side-phishing-detection",
		"--disable-domain-reliability",
		"--disable-field-trial-config",
		"--disable-breakpad",
		"--disable-crash-reporter",
		"--disable-quic",
		"--disable-search-engine-choice-screen",
		"--disable-hang-monitor",
		"--disable-prompt-on-repost",
		"--disable-backgrounding-occluded-windows",
		"--disable-renderer-backgrounding",
		"--disable-background-timer-throttling",
		"--disable-ipc-flooding-protection",
		"--disable-infobars",
		"--metrics-recording-only",
		"--no-pings",
		"--mute-audio",
		"--password-store=basic",
		"--use-mock-keychain",
		"--deny-permission-prompts",
		"--force-color-profile=srgb",
		"--enable-blink-features=ComputedAccessibilityInfo",
		"--disable-features=" + strings.Join(off, ","),
	}
	if o.Headless {
		list = append(list, "--headless", "--disable-gpu", "--hide-scrollbars")
	}
	if runtime.GOOS == "linux" {
		list = append(list, "--disable-dev-shm-usage")
	}
	if rootUser() {
		list = append(list, "--no-sandbox")
	}
	if o.Strict {
		rules := []string{"MAP * ~NOTFOUND"}
		for _, h := range o.AllowHosts {
			rules = append(rules, "EXCLUDE "+h)
		}
		list = append(list, "--host-resolver-rules="+strings.Join(rules, " , "),
			"--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy")
	}
	list = append(list, o.Args...)
	return append(list, "about:blank")
}

// tail keeps the end of what the browser writes to stderr.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	const most = 2048
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - most; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

func (t *tail) quote() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.buf), []byte("\n"))
	if n := len(lines) - 3; n > 0 {
		lines = lines[n:]
	}
	if s := string(bytes.Join(lines, []byte("; "))); s != "" {
		return ": " + s
	}
	return ""
}
