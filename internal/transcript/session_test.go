package transcript_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
	"sgclaw/internal/transcript"
)

const key = "agent:main:main"

func open(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), pgtest.New(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// talk records a session: two runs with an action and a question to a person,
// a summary of the first, and an entry.
func talk(t *testing.T, db *store.Store) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		id := fmt.Sprintf("run-%d", n+1)
		f := func(step int) record.Fence { return record.Fence{RunID: id, Execution: "x", Step: step} }
		_, err := db.BeginRun(t.Context(), f(0), record.Begin{
			Session: key, Message: agent.Message{ID: id, Text: "批准请假单 " + id, Origin: agent.Origin{User: "li"}}, Browser: "b1",
			Settings: agent.Settings{Locale: "zh"}, StartedAt: time.Now(),
		})
		must(err)
		c := agent.Call{ID: fmt.Sprint("call", n), Action: action.Click, Params: []byte(`{"selector":"[ref=e1]"}`)}
		_, err = db.RecordThought(t.Context(), f(1), record.Thought{Text: "批准。", Calls: []agent.Call{c}, ProviderIDs: []string{""}, Model: "gpt-4o", Usage: agent.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}})
		must(err)
		q := agent.Confirmation{ID: id + "-c1-" + c.ID, Step: 1, Action: c.Action, Params: c.Params, Ask: agent.Subject{Role: "button", Name: "批准"}, Digest: "d", Since: time.Now()}
		must(db.Ask(t.Context(), f(1), q))
		must(db.Decide(t.Context(), f(1), "approved", agent.Answer{ConfirmID: q.ID, Approved: true, By: "wang", Note: "好"}, time.Now()))
		_, err = db.RecordStep(t.Context(), f(1), "b1", record.Observation{Call: c, Outcome: agent.OutcomeDone, Text: "clicked", Image: []byte{1, 2, 3}, MIME: "image/png"}, 5,
			func(_ []string, b critic.Breaker) (critic.Breaker, critic.Verdict) { return b, critic.Verdict{} })
		must(err)
		_, err = db.RecordThought(t.Context(), f(2), record.Thought{Text: "完成。", Final: true})
		must(err)
		status, reason := agent.StatusDone, ""
		if n == 1 {
			status, reason = agent.StatusAborted, agent.ReasonAborted
		}
		_, err = db.Finish(t.Context(), f(2), agent.TaskResult{RunID: id, Status: status, Success: n == 0, Reason: reason, Summary: "完成。"}, "", time.Now())
		must(err)
		if n == 0 {
			past, err := db.Past(t.Context(), key, "")
			must(err)
			last := past.Parts[len(past.Parts)-1]
			must(db.SaveSummary(t.Context(), key, record.Summary{Text: "批准了一张。", UpTo: last.At, UpToID: last.ID, At: time.Now()}))
		}
	}
	_, err := db.AddEntry(t.Context(), key, record.Entry{ID: "inject-1", Role: "assistant", Label: "cron", Text: "提醒", By: "ops"})
	must(err)
	_, err = db.PatchSession(t.Context(), key, "ops", func(s *record.SessionSettings) error { s.Label = "周一"; return nil })
	must(err)
}

func export(t *testing.T, db *store.Store, key string) transcript.Session {
	t.Helper()
	s, err := transcript.Export(t.Context(), db, key)
	if err != nil {
		t.Fatal(err)
	}
	// Through the file, as people do.
	var b bytes.Buffer
	if err := transcript.Write(&b, s); err != nil {
		t.Fatal(err)
	}
	read, err := transcript.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestExport(t *testing.T) {
	db := open(t)
	talk(t, db)
	s := export(t, db, key)
	var got []string
	for _, i := range s.Items {
		got = append(got, i.Role+" "+i.Kind+" "+i.Text)
	}
	want := []string{
		"user  批准请假单 run-1", "assistant  批准。", `note sgclaw.confirmation asked about click button "批准": approved by wang: 好`, "tool  clicked", "assistant  完成。",
		"note compaction 批准了一张。",
		"user  批准请假单 run-2", "assistant  批准。", `note sgclaw.confirmation asked about click button "批准": approved by wang: 好`, "tool  clicked", "assistant  完成。", "note  完成。",
		"assistant  提醒",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if s.Key != key || s.Label != "周一" {
		t.Errorf("session %q, label %q", s.Key, s.Label)
	}
	if _, err := transcript.Export(t.Context(), db, "nobody's"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestMoveASession(t *testing.T) {
	from, to := open(t), open(t)
	talk(t, from)
	s := export(t, from, key)
	res, err := transcript.Import(t.Context(), to, s, key, "ops")
	if err != nil || res.Added != len(s.Items) || res.Known != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	moved := export(t, to, key)
	if diff := cmp.Diff(s, moved, cmpopts.IgnoreFields(transcript.Session{}, "At")); diff != "" {
		t.Errorf("transcript (-from +to):\n%s", diff)
	}
	// Twice changes nothing, neither there nor where it came from.
	for name, db := range map[string]*store.Store{"there": to, "where it came from": from} {
		seq, err := db.LastSeq(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transcript.Import(t.Context(), db, s, key, "ops")
		if err != nil || res.Added != 0 || res.Known != len(s.Items) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if again, err := db.LastSeq(t.Context(), key); err != nil || again != seq {
			t.Errorf("%s: event %d after %d, %v", name, again, seq, err)
		}
	}
	// What was moved is shown to runs there, calls with their answers.
	past, err := to.Past(t.Context(), key, "")
	if err != nil || len(past.Parts) != len(s.Items) {
		t.Errorf("%d parts, %v", len(past.Parts), err)
	}
}

func TestAnImportThatBrokeOffIsRepeated(t *testing.T) {
	from, to := open(t), open(t)
	talk(t, from)
	s := export(t, from, key)
	part := s
	part.Items = s.Items[:5]
	if _, err := transcript.Import(t.Context(), to, part, key, "ops"); err != nil {
		t.Fatal(err)
	}
	res, err := transcript.Import(t.Context(), to, s, key, "ops")
	if err != nil || res.Known != 5 || res.Added != len(s.Items)-5 {
		t.Fatalf("%+v, %v", res, err)
	}
	if diff := cmp.Diff(s.Items, export(t, to, key).Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	db := open(t)
	talk(t, db)
	s := export(t, db, key)
	other := s
	other.Items = []transcript.Item{{ID: "z", Role: "user", Text: "else"}}
	changed := s
	changed.Items = slices.Clone(s.Items)
	changed.Items[0].Text = "批准所有请假单"
	for _, c := range []struct {
		name string
		s    transcript.Session
	}{{"another session", other}, {"less than there is", transcript.Session{Items: s.Items[:3]}}, {"other words", changed}} {
		before := export(t, db, key)
		if _, err := transcript.Import(t.Context(), db, c.s, key, "ops"); !errors.Is(err, transcript.ErrOther) {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(before.Items, export(t, db, key).Items); diff != "" {
			t.Errorf("%s changed it (-before +after):\n%s", c.name, diff)
		}
	}
	if res, err := transcript.Import(t.Context(), db, s, "agent:main:copy", "ops"); err != nil || res.Added != len(s.Items) {
		t.Errorf("into another key: %+v, %v", res, err)
	}
	if _, err := db.ResetSession(t.Context(), "agent:main:copy", "ops"); err != nil {
		t.Fatal(err)
	}
	if _, err := transcript.Import(t.Context(), db, s, "agent:main:copy", "ops"); !errors.Is(err, transcript.ErrReset) {
		t.Errorf("after a reset: %v", err)
	}
	if _, err := transcript.Import(t.Context(), db, s, strings.Repeat("k", 600), "ops"); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("long key: %v", err)
	}
}
