package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"sgclaw/internal/action"
	"sgclaw/internal/config"
	"sgclaw/internal/host"
	"sgclaw/internal/locale"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
	"sgclaw/panel"
)

// flags are the command line. What is not given there comes from
// sgclaw.toml.
type flags struct {
	config        string
	chrome        string
	chromeArgs    []string
	attach        string
	headless      bool
	profile       string
	tempProfile   bool
	pipehost      string
	rules         string
	credentials   string
	confirm       string
	browserID     string
	url           string
	strict        bool
	restartAgent  bool
	downloadDir   string
	console       bool
	exitWithStdin bool
	panel         string
}

func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.config, "config", "", "configuration file (default: $SGCLAW_CONFIG, or sgclaw.toml beside this program)")
	fs.StringVar(&f.chrome, "chrome", "", "browser to start (default: the first that is found)")
	fs.StringArrayVar(&f.chromeArgs, "chrome-arg", nil, "further command line flag for the browser; may be repeated")
	fs.StringVar(&f.attach, "attach", "", "attach to a running browser instead: its DevTools websocket, ws://127.0.0.1:9222/devtools/browser/...")
	fs.BoolVar(&f.headless, "headless", false, "show no window")
	fs.StringVar(&f.profile, "profile", "", "profile directory to use and keep (default: in the data directory)")
	fs.BoolVar(&f.tempProfile, "temp-profile", false, "use a fresh profile and remove it at the end")
	fs.StringVar(&f.pipehost, "pipehost", "", "agent to run (default: pipehost beside this program, else from PATH)")
	fs.StringVar(&f.rules, "rules", "", "rules file")
	fs.StringVar(&f.credentials, "credentials", "", "file with log-ins for sessionLogin, mode 0600 (default: the system keyring only)")
	fs.StringVar(&f.confirm, "confirm", "", `what to do with a command that needs a person: "answer" lets the agent ask, "hold" asks here`)
	fs.StringVar(&f.browserID, "browser-id", "", "name of this browser, the same at every start")
	fs.StringVar(&f.url, "url", "", "page to open at the start")
	fs.BoolVar(&f.strict, "strict", false, "resolve no host names that the rules do not allow; also closes WebRTC and service workers")
	fs.BoolVar(&f.restartAgent, "restart-agent", false, "start the agent again when it ends, for unattended use")
	fs.StringVar(&f.downloadDir, "download-dir", "", "where downloads go (default: they are refused)")
	fs.BoolVar(&f.console, "console", false, "talk to the agent from this terminal; type help there")
	fs.StringVar(&f.panel, "panel", "", "open the side panel in the browser; --panel=URL opens another one than the built-in")
	fs.Lookup("panel").NoOptDefVal = builtInPanel
	fs.BoolVar(&f.exitWithStdin, "exit-with-stdin", false, "end when stdin ends")
}

// settings is what the program works with, all checked.
type settings struct {
	log         *slog.Logger
	lang        string // "zh" or "en"
	chrome      string
	chromeArgs  []string
	attach      string
	headless    bool
	profile     string // empty: a fresh one
	agent       string
	agentArgs   []string
	agentEnv    []string
	rulesPath   string
	rules       *policy.Rules
	credentials host.Credentials
	mode        host.Mode
	browserID   string
	url         string
	strict      bool
	restart     bool
	downloadDir string
	console     bool
	exitOnEOF   bool
	panel       string // builtInPanel, a URL, or empty
	panelURL    string // where it is, once that is known
}

// builtInPanel stands for the panel that is built into this program.
const builtInPanel = "built-in"

// load joins flags and configuration; given tells which flags were set. All
// faults are reported at once.
func load(f flags, given func(string) bool, agentArgs []string, stderr io.Writer) (*settings, error) {
	cfg, err := config.Load(config.Options{Path: f.config})
	if err != nil {
		return nil, err
	}
	b := &cfg.Browserhost
	pick := func(flag string, value string, into *string) {
		if given(flag) {
			*into = value
		}
	}
	pick("chrome", f.chrome, &b.Chrome)
	pick("profile", f.profile, &b.Profile)
	pick("pipehost", f.pipehost, &b.Pipehost)
	pick("rules", f.rules, &b.Rules)
	pick("credentials", f.credentials, &b.Credentials)
	pick("confirm", f.confirm, &b.Confirm)
	pick("url", f.url, &b.StartURL)
	pick("browser-id", f.browserID, &cfg.Browser.ID)
	pick("panel", f.panel, &b.Panel)
	for flag, into := range map[string]*bool{"headless": &b.Headless, "strict": &b.Strict, "restart-agent": &b.RestartAgent} {
		if given(flag) {
			*into = map[string]bool{"headless": f.headless, "strict": f.strict, "restart-agent": f.restartAgent}[flag]
		}
	}
	s := &settings{
		log: cfg.Logger(stderr), lang: cmp.Or(cfg.General.Locale, locale.Detect(os.Getenv)),
		chrome: b.Chrome, chromeArgs: f.chromeArgs, attach: f.attach, headless: b.Headless,
		rulesPath: cfg.RulesPath(), mode: host.Mode(b.Confirm), browserID: cfg.Browser.ID, url: b.StartURL,
		strict: b.Strict, restart: b.RestartAgent, downloadDir: f.downloadDir,
		panel: b.Panel, console: f.console, exitOnEOF: f.exitWithStdin, agentArgs: agentArgs,
	}
	for _, w := range cfg.Warnings {
		s.log.Warn("configuration", "warning", w)
	}
	var faults []error
	note := func(err error) {
		if err != nil {
			faults = append(faults, err)
		}
	}
	if err := cfg.RequireRules(s.rulesPath); err != nil {
		note(err)
	} else {
		s.rules, err = policy.Load(s.rulesPath)
		note(err)
	}
	if s.mode != host.ModeAnswer && s.mode != host.ModeHold {
		note(fmt.Errorf("--confirm must be answer or hold, is %q", b.Confirm))
	}
	if s.browserID != "" && !pipe.ValidID(s.browserID) {
		note(errors.New("--browser-id must be 1 to 128 of A-Z a-z 0-9 . _ : -"))
	}
	if s.panel == builtInPanel && !panel.Built() {
		note(errors.New("--panel: the panel was not built into this program; run `make panel build`"))
	} else if s.panel != "" && s.panel != builtInPanel {
		if _, err := action.URLHost(s.panel); err != nil {
			note(fmt.Errorf("--panel: %w", err))
		}
	}
	if s.panel != "" && s.restart {
		note(errors.New("--restart-agent is for machines that nobody watches: leave it out with --panel, where a person starts and stops the agent"))
	}
	s.agent, err = findAgent(b.Pipehost)
	note(err)
	note(s.placeProfile(cfg, f))
	note(s.placeCredentials(b.Credentials))
	if s.downloadDir != "" {
		note(os.MkdirAll(s.downloadDir, 0o700))
	}
	if s.agentEnv, err = agentEnv(cfg, s.rulesPath); err != nil {
		note(err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *settings) placeProfile(cfg *config.Config, f flags) error {
	switch {
	case f.attach != "" && (f.profile != "" || f.tempProfile || f.chrome != ""):
		return errors.New("--attach takes the browser as it is: leave out --profile, --temp-profile and --chrome")
	case f.tempProfile && f.profile != "":
		return errors.New("--profile and --temp-profile exclude each other")
	case f.attach != "", f.tempProfile:
		return nil
	case cfg.Browserhost.Profile != "":
		s.profile = cfg.Browserhost.Profile
		return nil
	}
	if err := cfg.RequireDataDir(); err != nil {
		return err
	}
	s.profile = filepath.Join(cfg.Pipehost.DataDir, "profile")
	return nil
}

func (s *settings) placeCredentials(path string) error {
	s.credentials = host.Keyring{}
	if path == "" {
		return nil
	}
	file := host.CredentialFile(path)
	if err := file.Check(); err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	s.credentials = host.FirstOf{file, host.Keyring{}}
	return nil
}

// findAgent returns the path of the agent to run.
func findAgent(path string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("agent: %w", err)
		}
		return filepath.Abs(found)
	}
	name := "pipehost"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), name)
		if st, err := os.Stat(beside); err == nil && !st.IsDir() {
			return beside, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("agent: there is no pipehost beside this program and none in PATH; name one with --pipehost")
	}
	return filepath.Abs(found)
}

// agentEnv is this program's environment, with the same configuration and
// rules for the agent however they were named here.
func agentEnv(cfg *config.Config, rulesPath string) ([]string, error) {
	rules, err := filepath.Abs(rulesPath)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "SGCLAW_CONFIG", "SGCLAW_RULES_PATH", "SGCLAW_SECURITY_RULES_PATH":
		default:
			env = append(env, kv)
		}
	}
	env = append(env, "SGCLAW_RULES_PATH="+rules)
	if cfg.Path != "" {
		env = append(env, "SGCLAW_CONFIG="+cfg.Path)
	}
	return env, nil
}
