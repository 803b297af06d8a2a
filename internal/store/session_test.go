package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

// say lets a session take a message and, unless steps is negative, a run of
// that many steps carry it out.
func say(t testing.TB, s *Store, session, id, text string, steps int) script {
	t.Helper()
	r := script{t, s, id, "x-" + id}
	m := agent.Message{ID: id, Text: text, BrowserID: "b1", Origin: agent.Origin{User: "张三"}}
	_, err := s.AcceptMessage(t.Context(), session, m)
	r.must(err)
	if steps < 0 {
		return r
	}
	_, err = s.BeginRun(t.Context(), r.fence(0), record.Begin{Session: session, Message: m, Settings: agent.Settings{Agent: "main"}, Browser: "b1", StartedAt: time.Now()})
	r.must(err)
	for step := 1; step <= steps; step++ {
		r.think(step, 1)
		r.observe(step, 0)
	}
	r.think(steps+1, 0)
	r.finish(steps + 1)
	return r
}

func session(t *testing.T, s *Store, key string) record.Session {
	t.Helper()
	out, err := s.Session(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sessionKeys(t *testing.T, s *Store, f SessionFilter) string {
	t.Helper()
	list, total, err := s.Sessions(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, one := range list {
		keys = append(keys, one.Key)
	}
	if f.Limit == 0 && f.Before == "" && total != len(list) {
		t.Errorf("%+v: %d of %d", f, len(list), total)
	}
	return strings.Join(keys, " ")
}

// parts is a session's past in short.
func parts(t *testing.T, s *Store, key, before string) string {
	t.Helper()
	past, err := s.Past(t.Context(), key, before)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if past.Summary != nil {
		out = append(out, "("+past.Summary.Text+")")
	}
	for _, p := range past.Parts {
		out = append(out, p.ID)
	}
	return strings.Join(out, " ")
}

// sessionEvents are the events of a session that are not about a run.
func sessionEvents(t *testing.T, s *Store, key string) []string {
	t.Helper()
	events, err := s.Events(t.Context(), key, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		var d struct{ What, By, Role, Text string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case agent.EventSession:
			out = append(out, d.What+" by "+d.By)
		case agent.EventEntry:
			out = append(out, e.RunID+" "+d.Role+": "+d.Text)
		}
	}
	return out
}

func TestSession(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	if _, err := s.Session(ctx, "a"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown session: %v", err)
	}
	say(t, s, "a", "r1", "first", 1)
	say(t, s, "a", "r2", "second", 0)
	running := say(t, s, "a", "r3", "third", -1)
	_, err := s.BeginRun(ctx, running.fence(0), record.Begin{Session: "a", Message: agent.Message{ID: "r3", Text: "third"}, StartedAt: time.Now()})
	running.must(err)
	say(t, s, "a", "r4", "fourth", -1)
	got := session(t, s, "a")
	want := record.Session{
		Key: "a", LastSeq: 13, Runs: 4, Active: "r3", Queued: 1, Usage: agent.Usage{PromptTokens: 30, CompletionTokens: 3, TotalTokens: 33}, LastTask: "fourth",
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(record.Session{}, "CreatedAt", "UpdatedAt")); d != "" {
		t.Errorf("session (-want +got):\n%s", d)
	}
	if !got.Since.IsZero() || !got.UpdatedAt.After(got.CreatedAt) {
		t.Errorf("session is %+v", got)
	}
	// The messages that are queued wait for each other.
	running.finish(0)
	if got := session(t, s, "a"); got.Active != "r4" || got.Queued != 0 {
		t.Errorf("active is %q, %d wait", got.Active, got.Queued)
	}
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	set := func(label string, mode agent.Mode) func(*record.SessionSettings) error {
		return func(v *record.SessionSettings) error { v.Label, v.Mode = label, mode; return nil }
	}
	if _, err := s.PatchSession(ctx, "a", "li", set("x", "")); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("patch of none: %v", err)
	}
	if err := s.SetSessionAgent(ctx, "a", "main"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("agent of none: %v", err)
	}
	for _, agent := range []string{"", "main", "other", ""} {
		if err := s.EnsureSession(ctx, "a", agent); err != nil {
			t.Fatal(err)
		}
	}
	if got := session(t, s, "a").Agent; got != "main" {
		t.Errorf("agent is %q", got)
	}
	if err := s.SetSessionAgent(ctx, "a", "other"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := s.PatchSession(ctx, "a", "李四", set("请假", agent.ModeSteer))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "settings", got.Settings, record.SessionSettings{Label: "请假", Mode: agent.ModeSteer})
		if got.Agent != "other" {
			t.Errorf("agent is %q", got.Agent)
		}
	}
	mine := errors.New("mine")
	for what, c := range map[string]struct {
		change func(*record.SessionSettings) error
		want   error
	}{
		"a mode that does not exist": {set("", "at once"), ErrInvalid},
		"a long label":               {set(strings.Repeat("长", 67), ""), ErrInvalid},
		"its own error":              {func(*record.SessionSettings) error { return mine }, mine},
	} {
		if _, err := s.PatchSession(ctx, "a", "li", c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	equal(t, "settings", session(t, s, "a").Settings, record.SessionSettings{Label: "请假", Mode: agent.ModeSteer})
	equal(t, "events", sessionEvents(t, s, "a"), []string{"patched by 李四"})
}

func TestListsOfSessions(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	for i := range 4 {
		say(t, s, fmt.Sprint("agent:main:s", i), fmt.Sprint("r", i), "task", -1)
	}
	if err := s.SetSessionAgent(ctx, "agent:main:s1", "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PatchSession(ctx, "agent:main:s0", "li", func(v *record.SessionSettings) error { v.Label = "Leave 100%_请假"; return nil }); err != nil {
		t.Fatal(err)
	}
	lately := session(t, s, "agent:main:s3").UpdatedAt
	if err := s.DeleteSession(ctx, "agent:main:s2", "li"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f    SessionFilter
		want string
	}{
		{SessionFilter{}, "0 3 1"},
		{SessionFilter{Deleted: true}, "2 0 3 1"},
		{SessionFilter{Limit: 2}, "0 3"},
		{SessionFilter{Limit: 2, Offset: 1}, "3 1"},
		{SessionFilter{Before: "agent:main:s0"}, "3 1"},
		{SessionFilter{Agent: "main"}, "1"},
		{SessionFilter{ActiveSince: lately}, "0 3"},
		{SessionFilter{Search: "S3"}, "3"},
		{SessionFilter{Search: "请假"}, "0"},
		{SessionFilter{Search: "leave 100%"}, "0"},
		{SessionFilter{Search: "e%1"}, ""},
		{SessionFilter{Search: `\`}, ""},
	} {
		want := ""
		if c.want != "" {
			want = "agent:main:s" + strings.ReplaceAll(c.want, " ", " agent:main:s")
		}
		if got := sessionKeys(t, s, c.f); got != want {
			t.Errorf("%+v: %s, want %s", c.f, got, want)
		}
	}
	if _, total, err := s.Sessions(ctx, SessionFilter{Limit: 1}); err != nil || total != 3 {
		t.Errorf("total is %d, %v", total, err)
	}
}

// What happens within a run does not move its session in lists: that would
// cost every event the update of an index.
func TestWhatMovesASession(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	r := say(t, s, "a", "r1", "task", -1)
	for _, c := range []struct {
		what  string
		do    func()
		moves bool
	}{
		{"a message", func() { say(t, s, "a", "r2", "task", -1) }, true},
		{"the same again", func() { say(t, s, "a", "r2", "task", -1) }, false},
		{"a thought", func() { r.think(1, 1) }, false},
		{"a step", func() { r.observe(1, 0) }, false},
		{"an end", func() { r.finish(1) }, true},
		{"an entry", func() {
			_, err := s.AddEntry(ctx, "a", record.Entry{ID: "e", Role: "note", Text: "x"})
			r.must(err)
		}, true},
		{"a reset", func() { _, err := s.ResetSession(ctx, "a", "li"); r.must(err) }, true},
	} {
		before := session(t, s, "a").UpdatedAt
		c.do()
		if moved := session(t, s, "a").UpdatedAt.After(before); moved != c.moves {
			t.Errorf("%s moves the session: %v, want %v", c.what, moved, c.moves)
		}
	}
}

func TestResetAndDelete(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	if _, err := s.ResetSession(ctx, "a", "li"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("reset of none: %v", err)
	}
	say(t, s, "a", "r1", "old", 1)
	waiting := say(t, s, "a", "r2", "asked before the reset", -1)
	if _, err := s.AddEntry(ctx, "a", record.Entry{ID: "e1", Role: "note", Text: "old"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PatchSession(ctx, "a", "li", func(v *record.SessionSettings) error { v.Label = "L"; return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := s.ResetSession(ctx, "a", "李四")
	if err != nil || got.Runs != 0 || got.Usage.TotalTokens != 0 || got.LastTask != "" || got.Settings.Label != "L" || got.Active != "r2" || got.Since.IsZero() {
		t.Errorf("after the reset: %+v, %v", got, err)
	}
	waiting.finish(0)
	if got := parts(t, s, "a", ""); got != "" {
		t.Errorf("past after the reset: %s", got)
	}
	late := say(t, s, "a", "r3", "new", 0)
	if got := parts(t, s, "a", ""); got != "r3" {
		t.Errorf("past is %s", got)
	}
	if err := s.DeleteSession(ctx, "a", "王五"); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSession(ctx, "a", "王五"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := s.Session(ctx, "a"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("deleted session: %v", err)
	}
	// What its runs do still does not bring it back, nor does a message that
	// it took before; a new one does.
	say(t, s, "a", "r3", "new", -1)
	again := late.as("x2")
	again.think(1, 0)
	again.finish(1)
	if got := sessionKeys(t, s, SessionFilter{}); got != "" {
		t.Errorf("sessions are %s", got)
	}
	say(t, s, "a", "r4", "back", -1)
	got = session(t, s, "a")
	if got.Runs != 1 || got.Settings != (record.SessionSettings{}) || !got.DeletedAt.IsZero() {
		t.Errorf("after a new message: %+v", got)
	}
	if got := parts(t, s, "a", ""); got != "" {
		t.Errorf("past is %s", got)
	}
	equal(t, "events", sessionEvents(t, s, "a"), []string{"e1 note: old", "patched by li", "reset by 李四", "deleted by 王五"})
}

func TestPast(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	if got := parts(t, s, "a", ""); got != "" {
		t.Errorf("past of no session: %s", got)
	}
	if _, err := s.Past(ctx, "a", "none"); err != nil {
		t.Errorf("past of no session: %v", err)
	}
	entry := func(id string) {
		t.Helper()
		// An imported entry keeps its own time, and its place.
		fresh, err := s.AddEntry(ctx, "a", record.Entry{ID: id, Role: "assistant", Text: "text of " + id, At: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)})
		if err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}
	r1 := say(t, s, "a", "r1", "one", 1)
	entry("e1")
	// r2 waits while r3, which came later, goes first.
	r2 := say(t, s, "a", "r2", "two", -1)
	say(t, s, "a", "r3", "three", 0)
	steered := say(t, s, "a", "r4", "and this", -1)
	_, err := s.Finish(ctx, steered.fence(0), agent.TaskResult{Status: agent.StatusDone, Success: true, Reason: agent.ReasonSteered}, "", time.Now())
	r1.must(err)
	say(t, s, "other", "o", "of another session", 0)
	if got := parts(t, s, "a", ""); got != "r1 e1 r3" {
		t.Errorf("past is %s", got)
	}
	if got := parts(t, s, "a", "r2"); got != "r1 e1 r3" {
		t.Errorf("past of r2, which has not begun: %s", got)
	}
	past, err := s.Past(ctx, "a", "")
	r1.must(err)
	first := past.Parts[0]
	turns, err := s.Turns(ctx, "r1")
	r1.must(err)
	equal(t, "turns", first.Turns, turns)
	run, err := s.Run(ctx, "r1")
	r1.must(err)
	equal(t, "run", *first.Run, run)
	if e := past.Parts[1].Entry; e.Text != "text of e1" || e.At.Year() != 2020 || !past.Parts[1].At.After(first.At) {
		t.Errorf("entry is %+v at %v", e, past.Parts[1].At)
	}

	// A summary covers what ended before; r2 ends after it.
	sum := record.Summary{Text: "S1", UpTo: past.Parts[1].At, UpToID: "e1", Model: "m", Usage: usage(7)}
	for range 2 {
		r1.must(s.SaveSummary(ctx, "a", sum))
	}
	if got := parts(t, s, "a", "r2"); got != "(S1) r3" {
		t.Errorf("past is %s", got)
	}
	last := past.Parts[2]
	r1.must(s.SaveSummary(ctx, "a", record.Summary{Text: "S2", UpTo: last.At, UpToID: last.ID}))
	_, err = s.BeginRun(ctx, r2.fence(0), record.Begin{Session: "a", Message: agent.Message{ID: "r2", Text: "two"}, StartedAt: time.Now()})
	r1.must(err)
	if got := parts(t, s, "a", "r2"); got != "(S2)" {
		t.Errorf("past of r2, under way: %s", got)
	}
	r2.finish(0)
	entry("e2")
	if got := parts(t, s, "a", ""); got != "(S2) r2 e2" {
		t.Errorf("past is %s", got)
	}
	if got := parts(t, s, "a", "r2"); got != "(S2)" {
		t.Errorf("past of r2, over: %s", got)
	}
	// Taken back, a run is no past; when it ends anew it is the latest.
	x := r1.as("again")
	x.think(2, 0)
	if got := parts(t, s, "a", ""); got != "(S2) r2 e2" {
		t.Errorf("past is %s", got)
	}
	x.finish(2)
	if got := parts(t, s, "a", ""); got != "(S2) r2 e2 r1" {
		t.Errorf("past is %s", got)
	}
	past, err = s.Past(ctx, "a", "")
	r1.must(err)
	for _, turn := range past.Parts[2].Turns {
		if turn.Thought != nil && turn.Step == 2 && turn.Thought.Text != "thought 2 of again" {
			t.Errorf("the past has what was set aside: %q", turn.Thought.Text)
		}
	}
	equal(t, "events", sessionEvents(t, s, "a"), []string{"e1 assistant: text of e1", "compacted by ", "compacted by ", "e2 assistant: text of e2"})
	if err := s.SaveSummary(ctx, "none", sum); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("summary of no session: %v", err)
	}
	if err := s.SaveSummary(ctx, "a", record.Summary{Text: "x"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("summary of nothing: %v", err)
	}
	if _, err := s.Past(ctx, "a", "none"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("past of no run: %v", err)
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	r := script{t, s, "r", "x1"}
	r.begin()
	got, err := s.Context(ctx, "r")
	r.must(err)
	equal(t, "context", got, record.Context{})
	c := record.Context{Summary: "S \x00", Turns: []record.ContextTurn{
		{Role: "user", Text: "你好", At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
		{Role: "assistant", Calls: []agent.Call{{ID: "k", Action: "click", Params: json.RawMessage(`{"a":1}`)}}},
		{Role: "tool", CallID: "k", Done: agent.OutcomeDone, Text: "ok"},
	}}
	got, err = s.SaveContext(ctx, r.fence(0), c)
	r.must(err)
	equal(t, "context", got, c)
	again := r.as("x2")
	got, err = s.SaveContext(ctx, again.fence(0), record.Context{Summary: "other"})
	r.must(err)
	equal(t, "context", got, c)
	if _, err := s.SaveContext(ctx, r.fence(0), c); !errors.Is(err, record.ErrSuperseded) {
		t.Errorf("context of a straggler: %v", err)
	}
	if _, err := s.SaveContext(ctx, record.Fence{RunID: "none", Execution: "x"}, c); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("context of no run: %v", err)
	}
	got, err = s.Context(ctx, "r")
	r.must(err)
	equal(t, "context", got, c)
}

func TestEntriesAreAddedOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	e := record.Entry{ID: "e", Role: "tool", Label: "import", Text: "saw \x00it", By: "li", Data: json.RawMessage(`{"call_id":"k"}`)}
	for i, want := range []bool{true, false} {
		if fresh, err := s.AddEntry(ctx, "a", e); err != nil || fresh != want {
			t.Errorf("add %d: %v, %v", i, fresh, err)
		}
	}
	past, err := s.Past(ctx, "a", "")
	if err != nil || len(past.Parts) != 1 {
		t.Fatalf("past is %+v, %v", past, err)
	}
	want := e
	want.Text = "saw it"
	got := *past.Parts[0].Entry
	if got.At.IsZero() {
		t.Error("entry without a time")
	}
	got.At = time.Time{}
	equal(t, "entry", got, want)
	for what, c := range map[string]struct {
		session string
		change  func(*record.Entry)
		want    error
	}{
		"another text":       {"a", func(e *record.Entry) { e.Text = "other" }, record.ErrConflict},
		"another role":       {"a", func(e *record.Entry) { e.Role = "user" }, record.ErrConflict},
		"no id":              {"a", func(e *record.Entry) { e.ID = "" }, ErrInvalid},
		"no session":         {"", func(*record.Entry) {}, ErrInvalid},
		"an unknown role":    {"b", func(e *record.Entry) { e.Role = "system" }, ErrInvalid},
		"too long a text":    {"b", func(e *record.Entry) { e.Text = strings.Repeat("x", MaxEntry+1) }, ErrInvalid},
		"data that is wrong": {"b", func(e *record.Entry) { e.Data = json.RawMessage(`{`) }, ErrInvalid},
		"a long label":       {"b", func(e *record.Entry) { e.Label = strings.Repeat("x", MaxLabel+1) }, ErrInvalid},
	} {
		bad := e
		c.change(&bad)
		if _, err := s.AddEntry(ctx, c.session, bad); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// recipe is a transaction of docs/operations.md, by what it has in it.
func recipe(t *testing.T, with string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(b)
	for {
		_, after, ok := strings.Cut(rest, "    BEGIN;\n")
		if !ok {
			t.Fatalf("docs/operations.md has no recipe with %q", with)
		}
		body, left, _ := strings.Cut(after, "    COMMIT;")
		if strings.Contains(body, with) {
			return "BEGIN;" + body + "COMMIT;"
		}
		rest = left
	}
}

// The recipes of the manual do what they say and leave other sessions alone.
func TestRecipes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	count := func(table string) int {
		t.Helper()
		var n int
		if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tables := []string{"sessions", "runs", "messages", "steps", "confirmations", "events", "entries", "summaries", "contexts"}
	fill := func(key string) {
		r := say(t, s, key, key+"1", "task", -1)
		r.think(1, 1)
		r.ask(key+"c", 1)
		_, err := s.SaveContext(ctx, r.fence(1), record.Context{Summary: "x"})
		r.must(err)
		r.observe(1, 0)
		r.finish(1)
		_, err = s.AddEntry(ctx, key, record.Entry{ID: "e", Role: "note", Text: "x"})
		r.must(err)
		r.must(s.SaveSummary(ctx, key, record.Summary{Text: "x", UpTo: time.Now(), UpToID: "e"}))
	}
	fill("a")
	before := map[string]int{}
	for _, table := range tables {
		before[table] = count(table)
		if before[table] == 0 {
			t.Errorf("%s is empty", table)
		}
	}
	fill("it's")
	q := strings.ReplaceAll(recipe(t, "DELETE FROM sessions"), ":'key'", "'it''s'")
	if _, err := s.db.ExecContext(ctx, q); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if got := count(table); got != before[table] {
			t.Errorf("%s has %d rows, want the %d of the other session", table, got, before[table])
		}
	}

	fill("new")
	q = strings.ReplaceAll(recipe(t, "e.kind IN"), "now()", "'infinity'::timestamptz")
	if _, err := s.db.ExecContext(ctx, recipe(t, "e.kind IN")); err != nil {
		t.Fatal(err)
	}
	if got := count("events"); got != 2*before["events"] {
		t.Errorf("%d events are left of sessions that are not old", got)
	}
	if _, err := s.db.ExecContext(ctx, q); err != nil {
		t.Fatal(err)
	}
	if got := count("events"); got != 0 {
		t.Errorf("%d events are left", got)
	}
	seq := session(t, s, "a").LastSeq
	if _, err := s.AddEntry(ctx, "a", record.Entry{ID: "e2", Role: "note", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if events, err := s.Events(ctx, "a", 0, 0); err != nil || len(events) != 1 || events[0].Seq != seq+1 {
		t.Errorf("events are %+v, %v; want one numbered %d", events, err, seq+1)
	}
}
