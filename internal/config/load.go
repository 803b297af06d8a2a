package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"sgclaw/internal/spell"
)

// FileName is the name of the file that is looked for when none is named.
const FileName = "sgclaw.toml"

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Options say where the configuration is. The zero value is what a binary
// wants.
type Options struct {
	// Path is the file to read, e.g. from --config. Empty: $SGCLAW_CONFIG,
	// else FileName in the first of Dirs that has it, else no file.
	Path string
	// Env is the environment as NAME=value; nil means os.Environ.
	Env []string
	// Dirs are where FileName is looked for; nil means the binary's
	// directory, then the working directory.
	Dirs []string
	// Actions are the names that agent.human_confirm_actions may have; nil
	// leaves them unchecked.
	Actions []string
}

// Load reads the configuration. If it is wrong the error is a *[FaultsError]
// with every fault. A file that is named and missing is a fault; one that is
// only looked for may be missing.
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Dirs == nil {
		if exe, err := os.Executable(); err == nil {
			o.Dirs = append(o.Dirs, filepath.Dir(exe))
		}
		o.Dirs = append(o.Dirs, "")
	}
	env := make(map[string]string, len(o.Env))
	for _, kv := range o.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	getenv := func(name string) string { return env[name] }

	c := Default(getenv)
	c.origins = make(map[string]string)
	l := &loader{config: &c, fields: fieldsOf(&c), lists: listsOf(&c), home: env["HOME"], actions: o.Actions}
	if runtime.GOOS == "windows" {
		l.home = env["USERPROFILE"]
	}
	l.readFile(o, getenv)
	l.readEnv(env)
	l.checkTogether()
	if err := faultsError(l.faults); err != nil {
		return nil, err
	}
	return &c, nil
}

// loader fills a Config and collects faults on the way.
type loader struct {
	config  *Config
	fields  []field
	lists   []list
	lines   map[string][]int // where each element of a list begins
	home    string
	actions []string
	file    string // as messages name it
	base    string // what relative paths in the file stand for
	faults  []Fault
}

func (l *loader) fault(line int, key, format string, args ...any) {
	l.faults = append(l.faults, Fault{File: l.file, Line: line, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (l *loader) warn(format string, args ...any) {
	l.config.Warnings = append(l.config.Warnings, fmt.Sprintf(format, args...))
}

func (l *loader) readFile(o Options, getenv func(string) string) {
	path, named := o.Path, "--config"
	if path == "" {
		path, named = getenv("SGCLAW_CONFIG"), "SGCLAW_CONFIG"
	}
	if path == "" {
		for _, dir := range o.Dirs {
			p := filepath.Join(dir, FileName)
			if _, err := os.Stat(p); err == nil {
				path, named = p, ""
				break
			}
		}
	}
	if path == "" {
		return
	}
	l.file = path
	data, mode, err := readAll(path)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		msg := err.Error()
		if named != "" {
			msg += " (named by " + named + ")"
		}
		l.fault(0, "", "%s", msg)
		return
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	l.config.Path = abs
	l.base = filepath.Dir(abs)
	l.resolveDefaults()
	l.parse(data)
	if runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		for _, f := range l.fields {
			if f.secret() && f.name != "database.url" && l.config.origins[f.name] != "" {
				l.warn("%s stands in %s, which others can read (mode %04o); chmod 600 it, or use %s",
					f.name, path, mode.Perm(), f.env[0])
			}
		}
	}
}

func readAll(path string) ([]byte, fs.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(data) > maxFile {
		return nil, 0, fmt.Errorf("longer than %d bytes", maxFile)
	}
	return data, st.Mode(), nil
}

// resolveDefaults makes the default paths relative to the file's directory,
// as those that stand in it are.
func (l *loader) resolveDefaults() {
	for _, f := range l.fields {
		if f.tag.Get("form") == "path" && f.value.String() != "" {
			f.value.SetString(resolve(f.value.String(), l.base, l.home))
		}
	}
}

// readEnv applies the variables. An empty one counts as unset, because that
// is what compose files make of a variable that is not there.
func (l *loader) readEnv(env map[string]string) {
	known := []string{"SGCLAW_CONFIG", "SGCLAW_GATEWAY_URL"}
	for _, f := range l.fields {
		known = append(known, f.env...)
		used := ""
		for _, name := range f.env {
			value := env[name]
			if value == "" {
				continue
			}
			if used != "" {
				if value != env[used] {
					l.faults = append(l.faults, Fault{Env: name, Key: f.name,
						Message: fmt.Sprintf("says something else than %s; both set %s", used, f.name)})
				}
				continue
			}
			used = name
			if msg := l.setFromEnv(f, value); msg != "" {
				l.faults = append(l.faults, Fault{Env: name, Key: f.name, Message: msg})
			}
			l.config.origins[f.name] = name
		}
	}
	var unknown []string
	for name := range env {
		if strings.HasPrefix(name, "SGCLAW_") && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		// Other programs may have variables with this prefix, so that only
		// what looks like a slip is worth a word.
		if best := spell.Nearest(name, known); best != "" {
			l.warn("environment variable %s is not known; did you mean %s?", name, best)
		}
	}
}

var elementIndex = regexp.MustCompile(`\[\d+\]`)

// setFromEnv returns what is wrong with the value, or nothing.
func (l *loader) setFromEnv(f field, value string) string {
	switch f.value.Kind() {
	case reflect.String:
		return f.setString(value, "", l.home)
	case reflect.Int:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Sprintf("must be a whole number, is %q", value)
		}
		return f.setInt(n)
	case reflect.Float64:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Sprintf("must be a number, is %q", value)
		}
		return f.setFloat(x)
	case reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Sprintf("must be true or false, is %q", value)
		}
		f.value.SetBool(b)
		return ""
	}
	var list []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	f.value.Set(reflect.ValueOf(list))
	return ""
}

// checkTogether finds what is wrong with several keys at once.
func (l *loader) checkTogether() {
	c := l.config
	l.checkServers()
	l.checkAgents()
	l.checkBindings()
	l.checkSession()
	l.checkGateway()
	if b := c.CircuitBreaker; b.CooldownMaxSecs < b.CooldownBaseSecs {
		l.faultAt("circuit_breaker.cooldown_max_secs", "must not be less than cooldown_base_secs, which is %d", b.CooldownBaseSecs)
	}
	l.checkPair("temporal", c.Temporal.TLSCertFile, c.Temporal.TLSKeyFile)
	if c.LLM.Model == "" {
		l.faultAt("llm.model", "is empty")
	}
	if c.Temporal.Address == "" {
		l.faultAt("temporal.address", "is empty")
	}
	if c.Temporal.Namespace == "" {
		l.faultAt("temporal.namespace", "is empty")
	}
	l.checkActions("agent.human_confirm_actions", c.Agent.HumanConfirmActions)
	if c.origins["memory.db_path"] != "" {
		l.warn("memory.db_path has no effect: memory is kept in the database (database.url)")
	}
}

// faultAt reports a fault where the key was set. A key of a list's element
// is e.g. agents[0].id; messages name it agents.id.
func (l *loader) faultAt(key, format string, args ...any) {
	f := Fault{Key: elementIndex.ReplaceAllString(key, ""), Message: fmt.Sprintf(format, args...)}
	origin := l.config.origins[key]
	for parent := key; origin == "" && elementIndex.MatchString(parent); {
		parent, _, _ = cutLast(parent, ".")
		origin = l.config.origins[parent]
	}
	switch {
	case strings.HasPrefix(origin, "SGCLAW_"):
		f.Env = origin
	case origin != "":
		f.File = l.file
		_, line, _ := cutLast(origin, ":")
		f.Line, _ = strconv.Atoi(line)
	}
	l.faults = append(l.faults, f)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
