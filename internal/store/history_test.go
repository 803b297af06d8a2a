package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

func short(items []HistoryItem) string {
	var out []string
	for _, i := range items {
		text := i.Text
		if i.Role == "tool" {
			text = string(i.Outcome) + " " + i.Call.Action
		}
		out = append(out, i.Role+": "+text)
	}
	return strings.Join(out, " | ")
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	history := func(f HistoryFilter) ([]HistoryItem, int) {
		t.Helper()
		items, total, err := s.History(ctx, "a", f)
		if err != nil {
			t.Fatal(err)
		}
		return items, total
	}
	if items, total := history(HistoryFilter{}); len(items) != 0 || total != 0 {
		t.Errorf("history of no session: %v, %d", items, total)
	}
	say(t, s, "a", "r0", "before the reset", 2)
	_, err := s.ResetSession(ctx, "a", "li")
	r := script{t, s, "r1", "x1"}
	r.must(err)
	m := agent.Message{ID: "r1", Text: "one", Origin: agent.Origin{User: "张三"}}
	_, err = s.BeginRun(ctx, r.fence(0), record.Begin{Session: "a", Message: m, StartedAt: time.Now()})
	r.must(err)
	r.must(s.AddInstruction(ctx, r.fence(0), "i1", "李四", "be quick"))
	th := r.think(1, 2)
	r.observe(1, 0)
	r.observe(1, 1)
	r.must(s.AddInstruction(ctx, r.fence(1), "i2", "李四", "skip one"))
	// While r1 is at work, a message waits, one becomes an instruction, and
	// something is noted.
	say(t, s, "a", "r2", "two", -1)
	steered := say(t, s, "a", "i2", "skip one", -1)
	_, err = s.Finish(ctx, steered.fence(0), agent.TaskResult{Status: agent.StatusDone, Success: true, Reason: agent.ReasonSteered}, "", time.Now())
	r.must(err)
	_, err = s.AddEntry(ctx, "a", record.Entry{ID: "e1", Role: "assistant", Label: "bot", By: "cron", Text: "noted", Data: json.RawMessage(`{"model":"gpt","calls":[{"id":"k","action":"click"}],"usage":{"prompt_tokens":3}}`)})
	r.must(err)
	_, err = s.Finish(ctx, r.fence(2), agent.TaskResult{Status: agent.StatusFailed, Reason: agent.ReasonMaxSteps, Summary: "too long"}, "", time.Now())
	r.must(err)

	all, total := history(HistoryFilter{})
	want := "user: one | user: be quick | assistant: thought 1 of x1 | tool: done click | tool: done click | user: skip one | note: too long | assistant: noted | user: two"
	if got := short(all); got != want || total != 9 {
		t.Errorf("history of %d is\n%s, want\n%s", total, got, want)
	}
	equal(t, "ids", ids(all), []string{"r1", "i1", "r1/1", th.Calls[0].ID, th.Calls[1].ID, "i2", "r1/end", "e1", "r2"})
	for _, i := range all {
		if i.At.IsZero() || (i.RunID == "") != (i.ID == "e1") {
			t.Errorf("item is %+v", i)
		}
	}
	equal(t, "a reply", all[2].Calls, th.Calls)
	if all[0].By != "张三" || all[1].By != "李四" || all[2].Model != "m" || all[2].Usage != usage(10) || all[6].Code != agent.ReasonMaxSteps {
		t.Errorf("history is %+v", all)
	}
	if e := all[7]; e.Label != "bot" || e.By != "cron" || e.Model != "gpt" || e.Usage.PromptTokens != 3 || len(e.Calls) != 1 {
		t.Errorf("entry is %+v", e)
	}
	// Every page is a piece of the whole.
	for offset := range 10 {
		for n := 1; n <= 10; n++ {
			page, total := history(HistoryFilter{Limit: n, Offset: offset})
			last := 9 - offset
			equal(t, fmt.Sprintf("page of %d after %d", n, offset), page, all[max(0, last-n):last])
			if total != 9 {
				t.Errorf("total is %d", total)
			}
		}
	}
	if page, total := history(HistoryFilter{RunID: "r1", Limit: 2}); short(page) != "user: skip one | note: too long" || total != 7 {
		t.Errorf("history of the run: %s of %d", short(page), total)
	}
	if page, total := history(HistoryFilter{Offset: 100}); len(page) != 0 || total != 9 {
		t.Errorf("page before the beginning: %v of %d", page, total)
	}

	// What was set aside is not shown.
	again := r.as("x2")
	again.think(1, 0)
	page, _ := history(HistoryFilter{RunID: "r1"})
	if got := short(page); got != "user: one | user: be quick | assistant: thought 1 of x2" {
		t.Errorf("after a rewind: %s", got)
	}
}

func ids(items []HistoryItem) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.ID)
	}
	return out
}

func TestSearchRuns(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	for i, m := range []agent.Message{
		{Text: "批准三天以内的请假单", Origin: agent.Origin{User: "张三"}},
		{Text: "Report on 100% of LEAVE_days", Origin: agent.Origin{User: "li"}},
		{Text: "other", BrowserID: "b2"},
	} {
		m.ID = fmt.Sprint("r", i)
		if _, err := s.AcceptMessage(ctx, fmt.Sprint("s", i%2), m); err != nil {
			t.Fatal(err)
		}
	}
	r := script{t, s, "r2", "x"}
	_, err := s.Finish(ctx, r.fence(0), agent.TaskResult{Status: agent.StatusDone, Success: true, Summary: "已批准 C:\\leave"}, "", time.Now())
	r.must(err)
	for _, c := range []struct {
		f    RunSearch
		want string
	}{
		{RunSearch{}, "r2 r1 r0"},
		{RunSearch{Text: "批准"}, "r2 r0"},
		{RunSearch{Text: "请假"}, "r0"},
		{RunSearch{Text: "leave"}, "r2 r1"},
		{RunSearch{Text: "100%"}, "r1"},
		{RunSearch{Text: "1%0"}, ""},
		{RunSearch{Text: "leave_"}, "r1"},
		{RunSearch{Text: `:\`}, "r2"},
		{RunSearch{Text: "批准", Session: "s0", Limit: 1}, "r2"},
		{RunSearch{Text: "批准", Before: "r2"}, "r0"},
		{RunSearch{User: "li"}, "r1"},
		{RunSearch{User: "l"}, ""},
		{RunSearch{Browser: "b2"}, "r2"},
		{RunSearch{Status: agent.StatusQueued}, "r1 r0"},
		{RunSearch{Status: agent.StatusDone, Text: "other"}, "r2"},
		{RunSearch{Text: "\x00\xff"}, ""},
	} {
		runs, err := s.SearchRuns(ctx, c.f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
}

func TestStepImage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	r := script{t, s, "r", "x1"}
	r.begin()
	r.think(1, 2)
	r.observe(1, 0)
	_, err := s.RecordStep(ctx, r.fence(1), "b1", record.Observation{Index: 1, Outcome: agent.OutcomeDone, Image: []byte{1, 2}, MIME: "image/png"}, 0, nil)
	r.must(err)
	image, mime, err := s.StepImage(ctx, "r", 1, 1)
	if err != nil || string(image) != "\x01\x02" || mime != "image/png" {
		t.Errorf("picture is %v, %s, %v", image, mime, err)
	}
	for _, at := range []struct {
		run         string
		step, index int
	}{{"r", 1, 0}, {"r", 1, 2}, {"r", 2, 0}, {"none", 1, 1}} {
		if _, _, err := s.StepImage(ctx, at.run, at.step, at.index); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("picture of %v: %v", at, err)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	day := func(hour int) time.Time { return time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC) }
	carryOut := func(id, agentID string, ends time.Time, res agent.TaskResult, models ...string) {
		t.Helper()
		r := script{t, s, id, "x-" + id}
		m := agent.Message{ID: id, Text: "task", BrowserID: "b1"}
		_, err := s.BeginRun(ctx, r.fence(0), record.Begin{
			Session: "a", Message: m, Settings: agent.Settings{Agent: agentID}, Browser: "b1", StartedAt: ends.Add(-time.Minute),
		})
		r.must(err)
		for i, model := range models {
			_, err := s.RecordThought(ctx, r.fence(i+1), record.Thought{Model: model, Usage: usage(10), Final: true})
			r.must(err)
		}
		_, err = s.Finish(ctx, r.fence(len(models)), res, "", ends)
		r.must(err)
	}
	done := agent.TaskResult{Status: agent.StatusDone, Success: true}
	carryOut("r1", "main", day(1), done, "gpt", "gpt")
	carryOut("r2", "main", day(2), agent.TaskResult{Status: agent.StatusFailed, Reason: agent.ReasonMaxSteps}, "gpt")
	carryOut("r3", "main", day(3), agent.TaskResult{Status: agent.StatusAborted, Reason: agent.ReasonAborted})
	carryOut("r4", "other", day(17), done, "qwen", "gpt", "qwen") // the next day in Shanghai
	carryOut("r5", "main", day(4), agent.TaskResult{Status: agent.StatusDone, Success: true, Reason: agent.ReasonSteered})
	carryOut("r6", "main", day(24), done, "gpt") // not asked for
	say(t, s, "a", "r7", "under way", -1)
	if err := s.SaveSummary(ctx, "a", record.Summary{Text: "S", UpTo: day(1), UpToID: "r1", Model: "small", Usage: usage(5)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(ctx, "UPDATE summaries SET at = $1", day(5)); err != nil {
		t.Fatal(err)
	}
	minute := time.Minute.Milliseconds()
	want := []UsageRow{
		{Day: "2026-11-21", Model: "small", Usage: usage(5)},
		{Day: "2026-11-21", Agent: "main", Browser: "b1", Runs: 1, Aborted: 1, DurationMS: minute},
		{Day: "2026-11-21", Agent: "main", Model: "gpt", Browser: "b1", Runs: 2, Succeeded: 1, Failed: 1, Usage: agent.Usage{PromptTokens: 30, CompletionTokens: 3, TotalTokens: 33}, DurationMS: 2 * minute, Steps: 3},
		{Day: "2026-11-22", Agent: "other", Model: "gpt", Browser: "b1", Usage: usage(10)},
		{Day: "2026-11-22", Agent: "other", Model: "qwen", Browser: "b1", Runs: 1, Succeeded: 1, Usage: agent.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22}, DurationMS: minute, Steps: 3},
	}
	got, err := s.Usage(ctx, day(0), day(24), "Asia/Shanghai")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "usage", got, want)
	got, err = s.Usage(ctx, day(0), day(24), "")
	if err != nil || len(got) != len(want) || got[len(got)-1].Day != "2026-11-21" {
		t.Errorf("usage in UTC: %+v, %v", got, err)
	}
	if _, err := s.Usage(ctx, day(0), day(24), "Asia/Nowhere"); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown time zone: %v", err)
	}
	if got, err := s.Usage(ctx, day(4), day(5), ""); err != nil || len(got) != 0 {
		t.Errorf("usage of nothing: %+v, %v", got, err)
	}
}
