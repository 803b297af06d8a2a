package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/durable"
	"sgclaw/internal/durable/durabletest"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

// screen is a terminal to read from while it is written to.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *screen) until(t *testing.T, text string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(s.String(), text) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q on the screen within 20 s:\n%s", text, s)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// atTerminal returns an app whose person types what is written to the pipe.
func atTerminal(t *testing.T, s *temporaltest.Server, env ...string) (*app, *screen, *io.PipeWriter) {
	t.Helper()
	in, keys := io.Pipe()
	t.Cleanup(func() { keys.Close() })
	out := &screen{}
	env = append([]string{"USER=tester", "LANG=en", "SGCLAW_TEMPORAL_ADDRESS=" + s.Address, "SGCLAW_TEMPORAL_NAMESPACE=" + s.Namespace}, env...)
	a := newApp(nil, env, in, out, out)
	a.terminal, a.asks = true, true
	t.Cleanup(a.close)
	return a, out, keys
}

func execute(t *testing.T, a *app, args ...string) chan int {
	t.Helper()
	root := a.root()
	root.SetArgs(args)
	done := make(chan int, 1)
	go func() { done <- a.exit(root.ExecuteContext(t.Context())) }()
	return done
}

func TestWatchAsksThePerson(t *testing.T) {
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	core.StartBrowser(t, "b1")
	a, out, keys := atTerminal(t, s)
	done := execute(t, a, "start", "--watch", "--id", "w1", "approve approve click")

	out.until(t, "approve? [y / n")
	if got := out.String(); !strings.Contains(got, `to be confirmed: click "批准" (button)`) || !strings.Contains(got, "张三 年假 2 天") {
		t.Errorf("the question does not show what it is about:\n%s", got)
	}
	io.WriteString(keys, "perhaps\n?\ny\n")
	out.until(t, "w1-c2-c2\napprove? [y / n")
	io.WriteString(keys, "n not this one\n")
	select {
	case code := <-done:
		if code != exitDone {
			t.Errorf("exit status %d, want 0:\n%s", code, out)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("not over:\n%s", out)
	}
	acts := core.Acts("w1")
	if len(acts) != 2 || acts[0].Grant == nil || acts[0].Grant.By != "tester" {
		t.Errorf("actions %+v, want the approved one and the last", acts)
	}
}

// What was typed before a question stood on the screen is no answer to it.
func TestWatchTakesNoAnswerAhead(t *testing.T) {
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	a, out, keys := atTerminal(t, s)
	done := execute(t, a, "start", "--watch", "--browser", "b1", "--id", "w3", "approve approve click")
	io.WriteString(keys, "y\n")
	core.StartBrowser(t, "b1")
	out.until(t, "approve? [y / n")
	io.WriteString(keys, "n\n")
	out.until(t, "w3-c2-c2\napprove? [y / n")
	io.WriteString(keys, "n\n")
	<-done
	for _, act := range core.Acts("w3") {
		if act.Grant != nil {
			t.Errorf("carried out with a yes that was typed before the question: %+v", act)
		}
	}
}

// Somebody else may answer while the person is being asked.
func TestWatchTakesAQuestionBack(t *testing.T) {
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	core.StartBrowser(t, "b1")
	a, out, keys := atTerminal(t, s)
	done := execute(t, a, "start", "--watch", "--id", "w2", "approve slow")
	out.until(t, "approve? [y / n")
	c := durable.New(temporaltest.Logger(t, 8), s.Client, s.Namespace)
	if _, _, err := c.Confirm(t.Context(), "w2", agent.Answer{ConfirmID: "w2-c1-c1", Approved: true, By: "other"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for len(core.Thinks("w2")) < 2 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	io.WriteString(keys, "n\n")
	core.Release()
	if code := <-done; code != exitDone {
		t.Errorf("exit status %d, want 0:\n%s", code, out)
	}
	if n := len(core.Acts("w2")); n != 2 {
		t.Errorf("%d actions, want 2", n)
	}
}

// Without a database the last hundred actions are all that a run tells, so
// what is new in them is found by comparing.
func TestFresh(t *testing.T) {
	line := func(i int) workflows.Line { return workflows.Line{Step: i, Action: "click", MS: int64(i)} }
	lines := func(from, to int) []workflows.Line {
		var l []workflows.Line
		for i := from; i <= to; i++ {
			l = append(l, line(i))
		}
		return l
	}
	for _, tt := range []struct {
		name            string
		prev, cur, want []workflows.Line
	}{
		{"first", nil, lines(1, 3), lines(1, 3)},
		{"nothing new", lines(1, 3), lines(1, 3), nil},
		{"more", lines(1, 3), lines(1, 5), lines(4, 5)},
		{"beginning gone", lines(1, 100), lines(3, 102), lines(101, 102)},
		{"all gone", lines(1, 100), lines(201, 300), lines(201, 300)},
		{"rewound", lines(1, 5), lines(1, 2), nil},
		{"rewound and redone", lines(1, 5), append(lines(1, 2), line(9)), []workflows.Line{line(9)}},
	} {
		if got := fresh(tt.prev, tt.cur); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTextIsHarmlessAndFits(t *testing.T) {
	if got := plain("批\u200b准\u202a\u2066\u061c\u200f\u2028x"); got != "批准\ufffd\ufffd\ufffd\ufffd\ufffdx" {
		t.Errorf("got %q", got)
	}
	if got := plain("a\x1b[31mb\r\n\u202ec"); strings.ContainsAny(got, "\x1b\r\n\u202e") {
		t.Errorf("plain left control characters: %q", got)
	}
	if got := clip("批准abc", 5); got != "批准a" {
		t.Errorf("clip = %q", got)
	}
	if got := tail("one two 批准", 5); cells(got) > 5 || !strings.HasSuffix(got, "批准") {
		t.Errorf("tail = %q", got)
	}
	if got := oneLine("a\n b  c", 4); got != "a b…" {
		t.Errorf("oneLine = %q", got)
	}
	for d, want := range map[time.Duration]string{
		5 * time.Millisecond: "5 ms", 1500 * time.Millisecond: "1.5 s", 42 * time.Second: "42 s",
		125 * time.Second: "2:05", 3*time.Hour + 62*time.Second: "3:01:02",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

// kept writes the record of a run of one step, as a worker would.
func kept(t *testing.T, url, runID string) {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m := agent.Message{ID: runID, Text: "click", BrowserID: "b1", Origin: agent.Origin{Kind: "cli", User: "tester"}}
	if _, err := db.AcceptMessage(ctx, durable.OwnSession(runID), m); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	f := record.Fence{RunID: runID, Execution: "e1"}
	if _, err := db.BeginRun(ctx, f, record.Begin{Session: durable.OwnSession(runID), Message: m, Settings: agent.Settings{MaxSteps: 50}, Browser: "b1", StartedAt: now}); err != nil {
		t.Fatal(err)
	}
	if err := db.AddInstruction(ctx, f, "i1", "李四", "the blue one"); err != nil {
		t.Fatal(err)
	}
	f.Step = 1
	call := agent.Call{ID: "c1", Action: "click", Params: json.RawMessage(`{"selector":"e7"}`)}
	if _, err := db.RecordThought(ctx, f, record.Thought{
		Text: "first the button", Calls: []agent.Call{call}, ProviderIDs: []string{"p1"}, Model: "m1", TookMS: 1200,
		Usage: agent.Usage{PromptTokens: 900, CompletionTokens: 12, TotalTokens: 912},
	}); err != nil {
		t.Fatal(err)
	}
	judge := func(_ []string, b critic.Breaker) (critic.Breaker, critic.Verdict) { return b, critic.Verdict{} }
	if _, err := db.RecordStep(ctx, f, "b1", record.Observation{Call: call, Outcome: agent.OutcomeDone, Text: "ok", TookMS: 40}, 5, judge); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Finish(ctx, f, agent.TaskResult{Status: agent.StatusDone, Success: true, Summary: "all done"}, "", now.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseMakesItRicher(t *testing.T) {
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	core.StartBrowser(t, "b1")
	url := pgtest.New(t)
	env := []string{
		"USER=tester", "LANG=en", "SGCLAW_TEMPORAL_ADDRESS=" + s.Address, "SGCLAW_TEMPORAL_NAMESPACE=" + s.Namespace, "SGCLAW_DATABASE_URL=" + url,
	}
	call := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, env, strings.NewReader(""), &out, &errs); code != want {
			t.Fatalf("starter %v: exit status %d, want %d: %s%s", args, code, want, &out, &errs)
		}
		return out.String()
	}
	call(0, "start", "--id", "k1", "--wait", "--no-db", "click")
	kept(t, url, "k1")
	kept(t, url, "old") // Temporal keeps it no longer

	for _, id := range []string{"k1", "old"} {
		var r resultLine
		if err := json.Unmarshal([]byte(call(0, "result", "--json", id)), &r); err != nil {
			t.Fatal(err)
		}
		want := []agent.Step{{
			Num: 1, Thinking: "first the button", Observation: "ok", Outcome: agent.OutcomeDone, DurationMS: 1240,
			Action: &agent.Call{ID: "c1", Action: "click", Params: json.RawMessage(`{"selector":"e7"}`)},
		}}
		if diff := cmp.Diff(r.Steps, want); diff != "" {
			t.Errorf("steps of %s (-got +want):\n%s", id, diff)
		}
		if r.Summary != "all done" || r.Models["m1"].TotalTokens != 912 {
			t.Errorf("result of %s: %+v", id, r)
		}
	}
	if got := call(0, "status", "old"); !strings.Contains(got, "all done") {
		t.Errorf("status of a run from the record:\n%s", got)
	}
	got := call(0, "watch", "k1")
	for _, want := range []string{"step 1", "m1 · 1.2 s · 912 tokens", "added by 李四: the blue one", "first the button", "✓  1 click e7 · 40 ms", "✓ done · 2 steps", "all done"} {
		if !strings.Contains(got, want) {
			t.Errorf("watch does not show %q:\n%s", want, got)
		}
	}
	if got := call(0, "list", "--json"); !strings.Contains(got, `"summary":"all done"`) {
		t.Errorf("list has nothing from the record:\n%s", got)
	}

	if got := call(0, "breaker"); !strings.Contains(got, "b1") {
		t.Errorf("breaker list:\n%s", got)
	}
	call(0, "breaker", "reset", "b1")
	call(exitNotFound, "breaker", "reset", "b9")
	if got := call(0, "migrate", "--json"); !strings.Contains(got, `"applied":true`) || strings.Contains(got, `"applied":false`) {
		t.Errorf("migrate:\n%s", got)
	}
	call(0, "migrate", "status")
	if got := call(0, "doctor", "--json"); !strings.Contains(got, `"check":"schema","result":"ok"`) {
		t.Errorf("doctor:\n%s", got)
	}
}

func TestRunOfConfirm(t *testing.T) {
	for id, want := range map[string]string{
		"r1-c1-9f": "r1", "r1-c12-c1": "r1", "order-c1-x-c2-9f": "order-c1-x", "r1": "", "r1-c1": "", "-c1-9f": "", "r1-cx-9f": "",
	} {
		if got, ok := runOfConfirm(id); got != want || ok != (want != "") {
			t.Errorf("runOfConfirm(%q) = %q, %v; want %q", id, got, ok, want)
		}
	}
}

func TestCounts(t *testing.T) {
	for lang, want := range map[string]string{"en": "0 steps, 1 step, 2 steps", "zh": "0 步, 1 步, 2 步"} {
		a := &app{lang: lang}
		if got := a.count("steps", 0) + ", " + a.count("steps", 1) + ", " + a.count("steps", 2); got != want {
			t.Errorf("%s: %q, want %q", lang, got, want)
		}
	}
}

func TestDatabaseErrorsAreToldOnce(t *testing.T) {
	err := error(databaseError{io.ErrUnexpectedEOF})
	if err.Error() != io.ErrUnexpectedEOF.Error() || !errors.Is(err, errDatabase) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}
