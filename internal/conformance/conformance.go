// Package conformance plays one side of the pipe against the program that is
// the other, and says rule by rule whether it keeps docs/pipe.md. PlayBrowser
// plays the browser against any agent, PlayAgent the agent against any
// browser host.
//
// Every rule starts the program anew, so that no rule depends on another.
// In all of them each line that the program writes must be a protocol
// message that its side may send.
//
// # How the agent gets into a browser host
//
// A browser host starts its agent itself. PlayAgent therefore makes a
// stand-in: a link to (or copy of) the running executable, with a file of the
// same name and the suffix ".conformance" beside it. The path replaces
// {agent} in the host's arguments, and is in its environment as
// SGCLAW_PIPEHOST. When the host starts the stand-in, AgentProxyMain, called
// first thing in main, finds the file and joins stdin and stdout to the
// player over loopback TCP. No argument and no environment variable has to
// get through the host.
//
// {rules} in the host's arguments becomes the path of a policy file (seed 001
// §2.5) that allows the player's own little site on 127.0.0.1, also in the
// environment as SGCLAW_RULES_PATH. The host is asked to end by closing its
// stdin and, where the system has it, SIGTERM.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config says what to play against.
type Config struct {
	// Command is the program and its arguments.
	Command []string
	// Env is added to this process's environment for the program.
	Env []string
	// Log gets one line per rule and a summary; nil for none.
	Log io.Writer
	// Only are the ids or names of the rules to play; empty for all.
	Only []string
	// Parallel is how many rules are played at once; 0 for 4.
	Parallel int
	// StartTimeout is how long a browser host may take until it starts its
	// agent; 0 for 30 s.
	StartTimeout time.Duration
}

// Status is what came of a rule.
type Status string

// What can come of a rule.
const (
	Pass          Status = "pass"
	Fail          Status = "FAIL"
	NotApplicable Status = "n/a"
)

// Result is what came of one rule.
type Result struct {
	ID, Name string
	Status   Status
	Reason   string // unless Pass
	Took     time.Duration
	Stderr   string // the end of what the program wrote there, if Fail
}

// Report is what came of all rules, in their order.
type Report struct {
	Results []Result
}

// OK reports whether no rule failed.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(r Result) bool { return r.Status == Fail })
}

// ExitCode is 0 if no rule failed, else 1.
func (r Report) ExitCode() int {
	if r.OK() {
		return 0
	}
	return 1
}

// Rule names a rule and says what it demands.
type Rule struct {
	ID, Name, Demands string
}

type rule[P any] struct {
	Rule
	play func(ctx context.Context, p P) error
}

// notApplicableError is why a rule does not apply here.
type notApplicableError string

func (e notApplicableError) Error() string { return string(e) }

// ruleTimeout bounds one rule. The longest waits 5 s for a handshake that
// does not come, on a machine that may be busy.
const ruleTimeout = 90 * time.Second

// play plays the chosen rules and logs their results in order.
func play[P any](ctx context.Context, cfg Config, rules []rule[P], player func(r Rule, stderr *tail) P) (Report, error) {
	if len(cfg.Command) == 0 {
		return Report{}, errors.New("no command to play against")
	}
	chosen, err := choose(cfg.Only, rules)
	if err != nil {
		return Report{}, err
	}
	parallel := cfg.Parallel
	if parallel <= 0 {
		parallel = 4
	}
	results := make([]chan Result, len(chosen))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for i, r := range chosen {
		results[i] = make(chan Result, 1)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] <- one(ctx, r, player)
		})
	}
	var report Report
	for _, c := range results {
		result := <-c
		report.Results = append(report.Results, result)
		logResult(cfg.Log, result)
	}
	wg.Wait()
	if cfg.Log != nil {
		count := map[Status]int{}
		for _, r := range report.Results {
			count[r.Status]++
		}
		_, _ = fmt.Fprintf(cfg.Log, "%d passed, %d failed, %d not applicable\n", count[Pass], count[Fail], count[NotApplicable])
	}
	return report, ctx.Err()
}

func choose[P any](only []string, rules []rule[P]) ([]rule[P], error) {
	if len(only) == 0 {
		return rules, nil
	}
	var chosen []rule[P]
	for _, r := range rules {
		if slices.Contains(only, r.ID) || slices.Contains(only, r.Name) {
			chosen = append(chosen, r)
		}
	}
	for _, name := range only {
		if !slices.ContainsFunc(rules, func(r rule[P]) bool { return r.ID == name || r.Name == name }) {
			return nil, fmt.Errorf("there is no rule %q", name)
		}
	}
	return chosen, nil
}

func one[P any](ctx context.Context, r rule[P], player func(Rule, *tail) P) Result {
	ctx, cancel := context.WithTimeout(ctx, ruleTimeout)
	defer cancel()
	var stderr tail
	begin := time.Now()
	err := r.play(ctx, player(r.Rule, &stderr))
	result := Result{ID: r.ID, Name: r.Name, Status: Pass, Took: time.Since(begin)}
	var na notApplicableError
	switch {
	case errors.As(err, &na):
		result.Status, result.Reason = NotApplicable, na.Error()
	case err != nil:
		result.Status, result.Reason, result.Stderr = Fail, err.Error(), stderr.String()
	}
	return result
}

func logResult(w io.Writer, r Result) {
	if w == nil {
		return
	}
	line := fmt.Sprintf("%-5s %s %s", r.Status, r.ID, r.Name)
	if r.Reason != "" {
		line += ": " + strings.ReplaceAll(r.Reason, "\n", " ")
	}
	_, _ = fmt.Fprintln(w, line)
	for l := range strings.Lines(r.Stderr) {
		_, _ = fmt.Fprintln(w, "      | "+strings.TrimRight(l, "\r\n"))
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailSize {
		t.b = slices.Clone(t.b[len(t.b)-tailSize:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.b, []byte("?")))
}

func environ(cfg Config, more ...string) []string {
	return slices.Concat(os.Environ(), cfg.Env, more)
}
