package history

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
	"sgclaw/internal/prompt"
	"sgclaw/internal/record"
	"sgclaw/internal/tokens"
)

const marker = "a1b2c3d4e5f60718"

var (
	count = tokens.For("gpt-4o").Count
	size  = prompt.Size(count, marker, "en")
	t0    = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
)

func options(messages, limit int) Options {
	return Options{Limits: Limits{messages, limit}, Locale: "en", Size: size}
}

func call(id, name, params string) agent.Call {
	return agent.Call{ID: id, Action: name, Params: json.RawMessage(params)}
}

func step(n int, text string, o record.Observation) []record.Turn {
	return []record.Turn{
		{Kind: record.TurnThought, Step: n, Thought: &record.Thought{Text: text, Calls: []agent.Call{o.Call}}},
		{Kind: record.TurnObservation, Step: n, Observation: &o},
	}
}

func run(id, task, answer string, steps ...[]record.Turn) record.Part {
	turns := append([]record.Turn{{Kind: record.TurnTask, Text: task}}, slices.Concat(steps...)...)
	if answer != "" {
		turns = append(turns, record.Turn{Kind: record.TurnThought, Thought: &record.Thought{Text: answer, Final: true}})
	}
	return record.Part{ID: id, At: t0, Run: &record.Run{ID: id, Status: agent.StatusDone, Summary: answer, Task: task, CreatedAt: t0}, Turns: turns}
}

func entry(id, role, text string, d record.EntryData) record.Part {
	e := &record.Entry{ID: id, Role: role, Text: text, At: t0}
	if b, err := json.Marshal(d); err == nil && string(b) != "{}" {
		e.Data = b
	}
	return record.Part{ID: id, At: t0, Entry: e}
}

func TestARunOfThePast(t *testing.T) {
	view := strings.Repeat("| LR-2001 | Zhang | 2 days |\n", 40)
	past := record.Past{Parts: []record.Part{run("r1", "approve the short ones", "Approved LR-2001.",
		step(1, "I look.", record.Observation{Call: call("c1", action.GetAOMSnapshot, `{}`), Outcome: agent.OutcomeDone, Text: view, Page: agent.Page{URL: "http://oa/leave", Title: "Leave"}}),
		step(2, "", record.Observation{Call: call("c2", action.GetText, `{"selector":"h1"}`), Outcome: agent.OutcomeDone, Text: "Leave requests"}),
		step(3, "Approve.", record.Observation{Call: call("c3", action.Click, `{"selector":"[ref=e9]"}`), Outcome: agent.OutcomeFailed, Code: "CMD_REF_STALE", Text: "gone"}),
	)}}
	c := Choose(past, options(50, 8000))
	want := []record.ContextTurn{
		{Role: "user", Text: "approve the short ones", At: t0},
		{Role: "assistant", Text: "I look.", Calls: []agent.Call{call("past0001", action.GetAOMSnapshot, `{}`)}},
		{Role: "tool", CallID: "past0001", Done: agent.OutcomeDone, Text: "url: http://oa/leave\ntitle: Leave", Cut: len(view)},
		{Role: "assistant", Calls: []agent.Call{call("past0002", action.GetText, `{"selector":"h1"}`)}},
		{Role: "tool", CallID: "past0002", Done: agent.OutcomeDone, Text: "Leave requests"},
		{Role: "assistant", Text: "Approve.", Calls: []agent.Call{call("past0003", action.Click, `{"selector":"[ref=e9]"}`)}},
		{Role: "tool", CallID: "past0003", Done: agent.OutcomeFailed, Code: "CMD_REF_STALE", Text: "gone"},
		{Role: "assistant", Text: "Approved LR-2001."},
	}
	if diff := cmp.Diff(want, c.Context.Turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if len(c.Older) != 0 || c.Shortened || c.Tokens != size(c.Context) {
		t.Errorf("older %d, shortened %v, %d tokens", len(c.Older), c.Shortened, c.Tokens)
	}
}

func TestEndings(t *testing.T) {
	r := run("r1", "do it", "")
	for _, c := range []struct {
		status          agent.Status
		reason, summary string
		want            string
	}{
		{agent.StatusDone, "", "", ""},
		{agent.StatusDone, "", "All done.", "This task ended: done\nAll done."},
		{agent.StatusAborted, agent.ReasonAborted, "the task was aborted", "This task ended: the task was aborted"},
		{agent.StatusFailed, agent.ReasonGaveUp, "no such page", "This task ended: the agent could not do the task\nno such page"},
	} {
		r.Run.Status, r.Run.Reason, r.Run.Summary = c.status, c.reason, c.summary
		turns := Choose(record.Past{Parts: []record.Part{r}}, options(50, 8000)).Context.Turns
		got := ""
		if len(turns) > 1 {
			got = turns[1].Text
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.status, c.reason, got, c.want)
		}
	}
}

func TestImportedCallsStayWithTheirAnswers(t *testing.T) {
	a, b := call("call_1|fc", action.Click, `{"selector":"#a"}`), call("call_2", action.GetText, `{"selector":"#b"}`)
	foreign := call("call_3", "exec", `{"command":"ls"}`)
	past := record.Past{Parts: []record.Part{
		entry("1", "tool", "stray", record.EntryData{Call: &a}),
		entry("2", "assistant", "two things", record.EntryData{Calls: []agent.Call{a, b, foreign}}),
		entry("3", "tool", "first", record.EntryData{Call: &a}),
		entry("4", "tool", "nobody asked", record.EntryData{Call: &foreign}),
		entry("5", "tool", "second", record.EntryData{Call: &b, Outcome: agent.OutcomeFailed}),
		entry("6", "user", "thanks", record.EntryData{}),
		entry("7", "assistant", "", record.EntryData{Calls: []agent.Call{a}}),
		entry("8", "note", "", record.EntryData{Kind: "custom"}),
	}}
	want := []record.ContextTurn{
		{Role: "note", Text: "stray", At: t0},
		{Role: "assistant", Text: "two things\n(called exec)", Calls: []agent.Call{call("past0001", a.Action, string(a.Params)), call("past0002", b.Action, string(b.Params))}, At: t0},
		{Role: "tool", CallID: "past0001", Done: agent.OutcomeDone, Text: "first", At: t0},
		{Role: "tool", CallID: "past0002", Done: agent.OutcomeFailed, Text: "second", At: t0},
		{Role: "note", Text: "nobody asked", At: t0},
		{Role: "user", Text: "thanks", At: t0},
		{Role: "assistant", Text: "(called click)", At: t0},
	}
	if diff := cmp.Diff(want, Choose(past, options(50, 8000)).Context.Turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

func TestTheNewestIsShortenedAndSaysSo(t *testing.T) {
	var steps [][]record.Turn
	for i := range 40 {
		steps = append(steps, step(i+1, fmt.Sprintf("step %d", i+1), record.Observation{Call: call(fmt.Sprint("c", i), action.Click, `{"selector":"#x"}`), Outcome: agent.OutcomeDone, Text: "clicked"}))
	}
	past := record.Past{Parts: []record.Part{run("old", "first", "done"), run("long", "the long one", "finished all", steps...)}}
	c := Choose(past, options(20, 8000))
	turns := c.Context.Turns
	if !c.Shortened || len(turns) > 20 || len(turns) < 19 || turns[0].Text != "the long one" || turns[len(turns)-1].Text != "finished all" {
		t.Fatalf("%d turns, shortened %v: %+v", len(turns), c.Shortened, turns)
	}
	if want := fmt.Sprintf("(%d earlier messages of this task are left out)", 82-len(turns)+1); turns[1].Text != want {
		t.Errorf("note %q, want %q", turns[1].Text, want)
	}
	if len(c.Older) != 1 || c.Older[0].ID != "old" {
		t.Errorf("older %+v", c.Older)
	}
}

func TestTightLeavesRoom(t *testing.T) {
	var past record.Past
	for i := range 40 {
		past.Parts = append(past.Parts, run(fmt.Sprint("r", i), fmt.Sprint("task ", i), "ok"))
	}
	o := options(50, 8000)
	c := Choose(past, o)
	o.Tight, o.Reserve = true, 1000
	tight := Choose(past, o)
	if len(c.Context.Turns) != 50 || len(c.Older) != 15 || len(tight.Context.Turns) != 24 || len(tight.Older) != 28 {
		t.Errorf("%d turns and %d older, tight %d and %d", len(c.Context.Turns), len(c.Older), len(tight.Context.Turns), len(tight.Older))
	}
	for _, c := range []Choice{c, tight} {
		if got, want := c.Context.Turns[len(c.Context.Turns)-2].Text, "task 39"; got != want {
			t.Errorf("the newest is %q", got)
		}
	}
}

// someText is text of a random length, Chinese or English.
func someText(r *rand.Rand, most int) string {
	words := []string{"批准", "请假单", "审批 ", "the ", "leave request ", "LR-2001 ", "\n", "<<<page ", "🙂", "　"}
	var b strings.Builder
	for n := r.IntN(most + 1); b.Len() < n; {
		b.WriteString(words[r.IntN(len(words))])
	}
	return b.String()
}

// somePast is a random past: runs that ended in all ways, replies whose
// calls have no answer, answers without a reply, imported entries.
func somePast(r *rand.Rand) record.Past {
	var p record.Past
	if r.IntN(3) == 0 {
		p.Summary = &record.Summary{Text: someText(r, 3000)}
	}
	names := []string{action.Click, action.GetText, action.GetAOMSnapshot, action.Type, "exec"}
	id := 0
	newCall := func() agent.Call {
		id++
		params, _ := json.Marshal(map[string]string{"selector": someText(r, 400)})
		return agent.Call{ID: fmt.Sprint("c", id%7), Action: names[r.IntN(len(names))], Params: params}
	}
	for i := range r.IntN(12) {
		name := fmt.Sprint("p", i)
		if r.IntN(2) == 0 {
			c := newCall()
			role := []string{"user", "assistant", "tool", "note", "tool"}[r.IntN(5)]
			d := record.EntryData{}
			switch role {
			case "assistant":
				d.Calls = []agent.Call{c, newCall()}[:r.IntN(3)]
			case "tool":
				d.Call = &c
			}
			p.Parts = append(p.Parts, entry(name, role, someText(r, 500), d))
			continue
		}
		var steps [][]record.Turn
		for n := range r.IntN(20) {
			c, other := newCall(), newCall()
			c.ID, other.ID = fmt.Sprintf("%s-%d", name, n), fmt.Sprintf("%s-%d-b", name, n)
			s := step(n, someText(r, 300), record.Observation{Call: c, Outcome: agent.OutcomeDone, Text: someText(r, 5000), Page: agent.Page{URL: "http://oa/x"}})
			switch r.IntN(5) {
			case 0:
				s = s[:1]
			case 1:
				s = s[1:]
			case 2:
				s[0].Thought.Calls = append(s[0].Thought.Calls, other)
			}
			steps = append(steps, s)
		}
		pt := run(name, someText(r, 600), someText(r, 900), steps...)
		pt.Run.Status = []agent.Status{agent.StatusDone, agent.StatusFailed, agent.StatusAborted}[r.IntN(3)]
		p.Parts = append(p.Parts, pt)
	}
	return p
}

// check holds what must be true of every choice.
func check(t *testing.T, past record.Past, o Options) {
	t.Helper()
	c := Choose(past, o)
	turns := c.Context.Turns
	if n := len(turns); n > o.Limits.Messages {
		t.Errorf("%d messages, at most %d are allowed", n, o.Limits.Messages)
	}
	// What the model is really sent, counted by the real tokenizer.
	req, err := prompt.Build(prompt.Input{Locale: "en", Marker: marker, Past: c.Context, Turns: []prompt.Turn{{Kind: prompt.Task, Text: "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, m := range req.Messages {
		sent += count(m.Text)
		for _, tc := range m.Calls {
			sent += count(tc.Arguments)
		}
	}
	const introduction = 60 // "Earlier in this conversation ...", "The task now: go"
	if c.Tokens > o.Limits.Tokens || sent > o.Limits.Tokens+introduction {
		t.Errorf("%d tokens, %d sent, at most %d are allowed", c.Tokens, sent, o.Limits.Tokens)
	}
	// No call without its answer, no answer without its call.
	for i := 0; i < len(turns); i++ {
		if turns[i].Role == "tool" {
			t.Fatalf("turn %d answers nothing", i)
		}
		for _, call := range turns[i].Calls {
			i++
			if i >= len(turns) || turns[i].Role != "tool" || turns[i].CallID != call.ID {
				t.Fatalf("call %s is not answered after its reply", call.ID)
			}
		}
	}
	for i, m := range req.Messages {
		if len(m.Calls) > 0 && (i+len(m.Calls) >= len(req.Messages) || req.Messages[i+len(m.Calls)].Role != llm.RoleTool) {
			t.Fatalf("message %d is sent without its answers", i)
		}
	}
	// Nothing is lost, and the order is kept: what is older comes first, and
	// what is kept reads as the newest parts do.
	var all []record.ContextTurn
	kept := past.Parts[len(c.Older):]
	for end := len(kept); end > 0; {
		start := unit(kept, end)
		all = slices.Concat(render(kept[start:end], o.Locale, shown), all)
		end = start
	}
	for i, p := range c.Older {
		if p.ID != past.Parts[i].ID {
			t.Fatalf("older part %d is %s, want %s", i, p.ID, past.Parts[i].ID)
		}
	}
	number(all)
	if !c.Shortened {
		if diff := cmp.Diff(all, turns); diff != "" && len(all)+len(turns) > 0 {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	} else if len(turns) == 0 {
		t.Error("shortened to nothing")
	} else if last := turns[len(turns)-1]; last.Cut == 0 && !slices.ContainsFunc(turns, func(t record.ContextTurn) bool { return strings.Contains(t.Text, "left out") || t.Cut > 0 }) {
		t.Errorf("shortened without saying so: %+v", turns)
	}
	// Newest first: the next older unit would not have fitted.
	if n := len(c.Older); n > 0 && !c.Shortened && !o.Tight && len(kept) > 0 {
		start := unit(past.Parts, n)
		next := render(past.Parts[start:n], o.Locale, shown)
		if len(turns)+len(next) <= o.Limits.Messages && c.Tokens+size(record.Context{Turns: next}) <= o.Limits.Tokens-o.Reserve {
			t.Errorf("%s would have fitted", past.Parts[n-1].ID)
		}
	}
	if _, err := json.Marshal(c.Context); err != nil {
		t.Errorf("the context cannot be kept: %v", err)
	}
}

func FuzzChoose(f *testing.F) {
	for i := range 40 {
		f.Add(uint64(i), uint16(i*7), uint16(i*211), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, messages, limit uint16, tight bool) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := options(int(messages)%80, int(limit)%9000)
		o.Tight = tight
		check(t, somePast(r), o)
	})
}

func TestText(t *testing.T) {
	past := []record.Part{
		run("r1", "read it", "It says 42.", step(1, "I read.", record.Observation{Call: call("c1", action.GetText, `{"selector":"#n"}`), Outcome: agent.OutcomeDone, Text: strings.Repeat("number 42 ", 200)})),
		entry("e1", "tool", "stray", record.EntryData{}),
		entry("e2", "user", "谢谢", record.EntryData{}),
	}
	all := Text(past, "en", 1<<20)
	for _, want := range []string{"user: read it", "assistant: I read.", "call: getText {\"selector\":\"#n\"}", "result: done: number 42 number 42", "assistant: It says 42.", "note: stray", "user: 谢谢"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in:\n%s", want, all)
		}
	}
	for _, limit := range []int{1800, 400, 100, 10} {
		if s := Text(past, "en", limit); len(s) > limit+len("…") || limit > 100 && !strings.Contains(s, "It says 42.") {
			t.Errorf("limit %d: %d bytes:\n%s", limit, len(s), s)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	var past record.Past
	for i := range 100 {
		past.Parts = append(past.Parts, run(fmt.Sprint("r", i), "批准三天及以下的请假单", "已批准 LR-2001。",
			step(1, "看一下。", record.Observation{Call: call("c1", action.GetAOMSnapshot, `{}`), Outcome: agent.OutcomeDone, Text: strings.Repeat("| LR-2001 | 张三 | 2 天 |\n", 300)})))
	}
	for b.Loop() {
		Choose(past, options(50, 8000))
	}
}
