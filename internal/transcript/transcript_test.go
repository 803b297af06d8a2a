package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 123e6, time.UTC)

// sample has an item of every shape.
func sample() Session {
	call := agent.Call{ID: "k1", Action: "click", Params: json.RawMessage(`{"selector":"a < b & c"}`), PageID: "p2"}
	bad := agent.Call{ID: "k2", Action: "fly", Params: json.RawMessage(`{}`), Fault: "there is no such action"}
	return Session{
		Key: "agent:main:main", Agent: "main", Label: "周一", At: t0, Skipped: map[string]int{},
		Items: []Item{
			{ID: "run-1", Role: "user", Text: "批准 <三天> 以内的\n请假单", By: "li", At: t0, EntryData: record.EntryData{RunID: "run-1"}},
			{ID: "run-1/1", Role: "assistant", Text: "看一下。", At: t0, EntryData: record.EntryData{
				RunID: "run-1", Calls: []agent.Call{call, bad}, Model: "gpt-4o", Usage: agent.Usage{PromptTokens: 10, CompletionTokens: 2, TotalTokens: 12},
			}},
			{ID: "confirm/run-1-c1-k1", Role: "note", Text: "asked", At: t0, EntryData: record.EntryData{
				Kind: KindConfirmation, RunID: "run-1", Body: json.RawMessage(`{"question":{"id":"run-1-c1-k1","step":1,"action":"click","ask":{},"digest":"d","since":"2026-03-02T08:00:00Z"},"decision":"approved"}`),
			}},
			{ID: "k1", Role: "tool", Text: "", At: t0, EntryData: record.EntryData{RunID: "run-1", Call: &call, Outcome: agent.OutcomeUnknown, Code: "CMD_OUTCOME_UNKNOWN"}},
			{ID: "k2", Role: "tool", Text: "no", At: t0, EntryData: record.EntryData{RunID: "run-1", Call: &bad, Outcome: agent.OutcomeFailed}},
			{ID: "run-1/end", Role: "note", Text: "the task was aborted", At: t0, EntryData: record.EntryData{RunID: "run-1", Code: agent.ReasonAborted}},
			{ID: "summary/run-1", Role: "note", Text: "it was about leave", At: t0, EntryData: record.EntryData{Kind: KindSummary}},
			{ID: "r", Role: "note", Text: "new", EntryData: record.EntryData{Kind: KindReset}},
			{ID: "b", Role: "note", Text: "left", EntryData: record.EntryData{Kind: KindBranch}},
			{ID: "n", Role: "note", Text: "hm", EntryData: record.EntryData{Kind: "plugin.note"}},
			{ID: "e1", Role: "assistant", Label: "cron", Text: "reminder", By: "ops", At: t0},
		},
	}
}

func text(t *testing.T, s Session) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	want := sample()
	got, err := Read(strings.NewReader(text(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transcript (-written +read):\n%s", diff)
	}
}

// The lines are OpenClaw's: whoever reads its archives finds every message.
func TestShape(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(text(t, sample())), "\n")
	for n, want := range map[int]string{
		0: `{"type":"session","version":4,"id":"agent:main:main","timestamp":"2026-03-02T08:00:00.123Z","cwd":"","sgclaw":{"agent":"main","label":"周一"}}`,
		2: `{"type":"message","id":"run-1/1","parentId":"run-1","timestamp":"2026-03-02T08:00:00.123Z","message":{"role":"assistant","content":[{"type":"text","text":"看一下。"},{"type":"toolCall","id":"k1","name":"click","arguments":{"selector":"a < b & c"},"pageId":"p2"},{"type":"toolCall","id":"k2","name":"fly","arguments":{},"fault":"there is no such action"}],"model":"gpt-4o","usage":{"input":10,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":12},"stopReason":"toolUse","timestamp":1772438400123,"__openclaw":{"runId":"run-1"}},"sgclaw":{"runId":"run-1"}}`,
		5: `{"type":"message","id":"k2","parentId":"k1","timestamp":"2026-03-02T08:00:00.123Z","message":{"role":"toolResult","content":[{"type":"text","text":"no"}],"toolCallId":"k2","toolName":"fly","isError":true,"timestamp":1772438400123,"__openclaw":{"runId":"run-1"}},"sgclaw":{"runId":"run-1","outcome":"failed","call":{"id":"k2","action":"fly","params":{},"fault":"there is no such action"}}}`,
		7: `{"type":"compaction","id":"summary/run-1","parentId":"run-1/end","timestamp":"2026-03-02T08:00:00.123Z","summary":"it was about leave"}`,
	} {
		if diff := cmp.Diff(want, lines[n]); diff != "" {
			t.Errorf("line %d (-want +got):\n%s", n+1, diff)
		}
	}
}

func TestAnArchiveOfOpenClaw(t *testing.T) {
	f, err := os.Open("testdata/openclaw.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range s.Items {
		line := i.Role + ": " + i.Text
		for _, c := range i.Calls {
			line += fmt.Sprintf(" [%s %s]", c.Action, c.Params)
		}
		if i.Call != nil {
			line += fmt.Sprintf(" (%s, %s)", i.Call.ID, i.Outcome)
		}
		got = append(got, line)
	}
	want := []string{
		"user: list the files",
		`assistant: I look. [exec {"command":"ls"}]`,
		"tool: a.txt (call_1|fc_1, done)",
		"assistant: There is a.txt.",
		"note: The person asked for files.",
		"user: what is in the picture\n[image]",
		"note: heartbeat",
		"assistant: A cat.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	skipped := map[string]int{"other branch": 2, "custom model-snapshot": 1, "model_change": 1, "message of bashExecution": 1}
	if diff := cmp.Diff(skipped, s.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestFaults(t *testing.T) {
	const first = `{"type":"session","version":4,"id":"s"}` + "\n"
	user := func(id string) string {
		return `{"type":"message","id":"` + id + `","message":{"role":"user","content":"x"}}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "line 1: the file is empty"},
		{"no session", user("a"), `line 1: the first line is of type "message" and must be of type "session"`},
		{"later version", `{"type":"session","version":5,"id":"s"}`, "line 1: version 5, at most 4 can be read"},
		{"two sessions", first + first, "line 2: a second session"},
		{"no JSON", first + "{\"type\":\n", "line 2: not JSON at byte 8: unexpected end of JSON input"},
		{"no object", first + "[1]\n", "line 2: a array where an object must be"},
		{"empty line", first + "\n" + user("a"), "line 2: empty"},
		{"not UTF-8", first + "{\"type\":\"\xff\"}", "line 2: not UTF-8"},
		{"no type", first + `{"id":"a"}`, "line 2: no type"},
		{"twice", first + user("a") + "\n" + user("a"), `line 3: id "a" is that of line 2`},
		{"no id", first + `{"type":"message","message":{"role":"user","content":"x"}}`, "line 2: id: is missing"},
		{"long id", first + user(strings.Repeat("x", 513)), "line 2: id: has 513 bytes, at most 512 are allowed"},
		{"control", first + user(`a\u0007`), "line 2: id: has control characters"},
		{"orphan", first + `{"type":"message","id":"a","parentId":"z","message":{"role":"user","content":"x"}}`, `line 2: parentId "z" is no line before this one`},
		{"no role", first + `{"type":"message","id":"a","message":{"content":"x"}}`, "line 2: no role"},
		{"content", first + `{"type":"message","id":"a","message":{"role":"user","content":7}}`, "line 2: content is neither a string nor a list of pieces"},
		{"call", first + `{"type":"message","id":"a","message":{"role":"assistant","content":[{"type":"toolCall","id":"k","name":"click","arguments":"{}"}]}}`, "line 2: piece 0 of content is no call: it needs an id, a name and arguments that are an object"},
		{"result", first + `{"type":"message","id":"a","message":{"role":"toolResult","content":"x"}}`, "line 2: toolCallId is missing or longer than 512 bytes"},
		{"time", first + `{"type":"message","id":"a","timestamp":"yesterday","message":{"role":"user","content":"x"}}`, `line 2: timestamp "yesterday" is not a time as in RFC 3339`},
		{"millis", first + `{"type":"message","id":"a","message":{"role":"user","content":"x","timestamp":1e300}}`, "line 2: timestamp of the message is no time in milliseconds"},
		{"outcome", first + `{"type":"message","id":"a","message":{"role":"user","content":"x"},"sgclaw":{"outcome":"great"}}`, `line 2: outcome "great"`},
		{"confirmation", first + `{"type":"custom","id":"a","customType":"sgclaw.confirmation","data":7}`, "line 2: data is no confirmation"},
		{"long text", first + `{"type":"message","id":"a","message":{"role":"user","content":"` + strings.Repeat("x", MaxText+1) + `"}}`, "line 2: text of 262145 bytes, at most 262144 are allowed"},
		{"long line", first + strings.Repeat("x", MaxLine+1), "line 2: longer than 1048576 bytes"},
		{"two faults", first + user("") + "\n" + user("b") + "\n" + `{"id":"c"}`, "line 2: id: is missing\nline 4: no type"},
		{"many", first + strings.Repeat("x\n", 25), "and 5 more"},
		{"lines", first + strings.Repeat(`{"type":"x"}`+"\n", MaxLines), "line 50001: more than 50000 lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Read(strings.NewReader(c.text))
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v, %d items", err, len(s.Items))
			}
			if got := err.Error(); got != c.want && (c.name != "many" || !strings.HasSuffix(got, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAFileIsBounded(t *testing.T) {
	line := `{"type":"x","pad":"` + strings.Repeat("x", 4000) + "\"}\n"
	first := "{\"type\":\"session\"}\n"
	_, err := Read(io.MultiReader(strings.NewReader(first), strings.NewReader(strings.Repeat(line, MaxFile/len(line)+1))))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "67108864 bytes") {
		t.Errorf("%v", err)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	s := Session{Key: "k", Items: []Item{{ID: "a", Role: "user", Text: strings.Repeat("\x01汉", MaxText)}}}
	got, err := Read(strings.NewReader(text(t, s)))
	if err != nil || !strings.Contains(got.Items[0].Text, "more bytes]") {
		t.Errorf("%v", err)
	}
}

// What can be read can be written, and reads the same then.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	if archive, err := os.ReadFile("testdata/openclaw.jsonl"); err == nil {
		f.Add(archive)
	}
	f.Add([]byte(`{"type":"session"}` + "\n" + `{"type":"message","id":"a","message":{"role":"assistant","content":[]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Read(bytes.NewReader(in))
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		for _, i := range s.Items {
			if len(i.Text) > MaxText/2 {
				return // is cut when written
			}
		}
		again, err := Read(strings.NewReader(text(t, s)))
		if err != nil {
			t.Fatalf("cannot be read again: %v", err)
		}
		if diff := cmp.Diff(s.Items, again.Items); diff != "" {
			t.Fatalf("items (-first +second):\n%s", diff)
		}
	})
}
