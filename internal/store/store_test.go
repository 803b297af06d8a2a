package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/record"
)

func dial(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return dial(t, pgtest.New(t))
}

// A script writes a run in the name of one execution.
type script struct {
	t    testing.TB
	s    *Store
	run  string
	exec string
}

func (r script) fence(step int) record.Fence {
	return record.Fence{RunID: r.run, Execution: r.exec, Step: step}
}

func (r script) as(exec string) script { r.exec = exec; return r }

func (r script) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r script) begin() record.Run {
	r.t.Helper()
	run, err := r.s.BeginRun(r.t.Context(), r.fence(0), record.Begin{
		Session: "s/" + r.run, Message: agent.Message{ID: r.run, Text: "approve short leave", BrowserID: "b1", Origin: agent.Origin{User: "张三"}},
		Settings: agent.Settings{MaxSteps: 50}, Browser: "b1", StartedAt: time.Now(),
	})
	r.must(err)
	return run
}

func usage(n int) agent.Usage {
	return agent.Usage{PromptTokens: n, CompletionTokens: 1, TotalTokens: n + 1}
}

// think records a reply with n calls; none is a final one.
func (r script) think(step, n int) record.Thought {
	r.t.Helper()
	old, err := r.s.Thought(r.t.Context(), r.fence(step))
	r.must(err)
	if old != nil {
		r.t.Fatalf("step %d has a reply already: %q", step, old.Text)
	}
	th := record.Thought{Text: fmt.Sprintf("thought %d of %s", step, r.exec), Usage: usage(10), Model: "m", Final: n == 0, TookMS: 100}
	for i := range n {
		th.Calls = append(th.Calls, agent.Call{Action: "click", Params: json.RawMessage(fmt.Sprintf(`{"selector":"e%d"}`, i))})
		th.ProviderIDs = append(th.ProviderIDs, fmt.Sprintf("call_%d_%d", step, i))
	}
	out, err := r.s.RecordThought(r.t.Context(), r.fence(step), th)
	r.must(err)
	return out
}

func (r script) observe(step, idx int) critic.Verdict {
	r.t.Helper()
	v, err := r.s.RecordStep(r.t.Context(), r.fence(step), "b1", record.Observation{
		Index: idx, Outcome: agent.OutcomeDone, Text: fmt.Sprintf("saw %d.%d of %s", step, idx, r.exec), TookMS: 7,
		Signature: fmt.Sprintf("click:%d.%d", step, idx), Page: agent.Page{URL: "http://oa.test/"},
	}, 5, func(recent []string, b critic.Breaker) (critic.Breaker, critic.Verdict) {
		b.Failures++
		return b, critic.Verdict{Warning: strings.Join(recent, " ")}
	})
	r.must(err)
	return v
}

func (r script) ask(id string, step int) {
	r.t.Helper()
	r.must(r.s.Ask(r.t.Context(), r.fence(step), agent.Confirmation{ID: id, Step: step, Action: "click", Digest: "d", Since: time.Now(), Ask: agent.Subject{Name: "批准"}}))
}

func (r script) decide(id string, step int, decision string) error {
	return r.s.Decide(r.t.Context(), r.fence(step), decision, agent.Answer{ConfirmID: id, By: "李四"}, time.Now())
}

func (r script) finish(step int) agent.TaskResult {
	r.t.Helper()
	res, err := r.s.Finish(r.t.Context(), r.fence(step), agent.TaskResult{Status: agent.StatusDone, Success: true}, "", time.Now())
	r.must(err)
	return res
}

// said is the run's conversation in short.
func (r script) said() []string {
	r.t.Helper()
	turns, err := r.s.Conversation(r.t.Context(), record.Fence{RunID: r.run})
	r.must(err)
	var out []string
	for _, turn := range turns {
		switch {
		case turn.Thought != nil:
			out = append(out, turn.Thought.Text)
		case turn.Observation != nil:
			out = append(out, turn.Observation.Text)
		default:
			out = append(out, string(turn.Kind)+" "+turn.Text)
		}
	}
	return out
}

// told is the run's events in short; it fails the test if their numbers
// have gaps.
func (r script) told() []string {
	r.t.Helper()
	events, err := r.s.EventsOfRun(r.t.Context(), r.run, 0, 1000)
	r.must(err)
	var out []string
	for i, e := range events {
		if e.Seq != int64(i+1) {
			r.t.Errorf("event %d has number %d", i, e.Seq)
		}
		s := string(e.Kind)
		if e.Kind == agent.EventState {
			var d agent.StateEvent
			r.must(json.Unmarshal(e.Data, &d))
			s = strings.TrimSpace(s + " " + string(d.Status) + " " + d.Detail)
			if d.Rewound != nil && d.Detail != fmt.Sprintf("rewound to step %d", *d.Rewound) {
				r.t.Errorf("event %d says %q and step %d", i, d.Detail, *d.Rewound)
			}
			if d.Rewound == nil && strings.HasPrefix(d.Detail, "rewound") {
				r.t.Errorf("event %d does not say which step it was rewound to", i)
			}
		}
		out = append(out, s)
	}
	return out
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestRunFromStartToEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "run-1", "x1"}
	ctx := t.Context()

	m := agent.Message{ID: "run-1", Text: "approve short leave", BrowserID: "b1", Origin: agent.Origin{User: "张三"}}
	for i, want := range []bool{true, false} {
		fresh, err := s.AcceptMessage(ctx, "s/run-1", m)
		if err != nil || fresh != want {
			t.Fatalf("accept %d: fresh %v, %v", i, fresh, err)
		}
	}
	if run, err := s.Run(ctx, "run-1"); err != nil || run.Status != agent.StatusQueued {
		t.Fatalf("run is %+v, %v", run, err)
	}
	run := r.begin()
	if again := r.begin(); again.Marker != run.Marker || len(run.Marker) != 16 {
		t.Errorf("marker %q, then %q", run.Marker, again.Marker)
	}
	for range 2 {
		r.must(s.AddInstruction(ctx, r.fence(0), "i1", "李四", "be quick"))
	}
	status := func(want agent.Status, steps int) {
		t.Helper()
		if run, err := s.Run(ctx, "run-1"); err != nil || run.Status != want || run.Steps != steps {
			t.Errorf("run is %s after %d steps, %v; want %s after %d", run.Status, run.Steps, err, want, steps)
		}
	}
	status(agent.StatusThinking, 0)
	th := r.think(1, 2)
	status(agent.StatusActing, 1)
	if th.Calls[0].ID == "" || th.Calls[0].ID == th.Calls[1].ID {
		t.Errorf("ids of calls: %+v", th.Calls)
	}
	again, err := s.RecordThought(ctx, r.fence(1), record.Thought{Text: "other", Usage: usage(1000), Model: "m"})
	r.must(err)
	equal(t, "thought recorded twice", again, th)
	reply, err := s.Reply(ctx, "run-1", 1)
	r.must(err)
	equal(t, "reply", reply, th)

	equal(t, "verdict", r.observe(1, 0), critic.Verdict{Warning: "click:1.0"})
	status(agent.StatusActing, 1)
	for range 2 {
		r.ask("c1", 1)
	}
	status(agent.StatusWaitingConfirm, 1)
	r.must(r.decide("c1", 1, "approved"))
	status(agent.StatusActing, 1)
	r.must(r.decide("c1", 1, "approved"))
	if err := r.decide("c1", 1, "rejected"); !errors.Is(err, record.ErrConflict) {
		t.Errorf("other decision: %v", err)
	}
	r.observe(1, 1)
	status(agent.StatusThinking, 1)
	equal(t, "verdict of then", r.observe(1, 0), critic.Verdict{Warning: "click:1.0"})
	for range 2 {
		r.must(s.SetStatus(ctx, r.fence(1), "off", agent.StatusBrowserOffline, "b1", ""))
		r.must(s.AddInstruction(ctx, r.fence(1), "i2", "李四", "skip 王五"))
	}
	status(agent.StatusBrowserOffline, 1)
	r.think(2, 0)
	status(agent.StatusThinking, 2)
	res := r.finish(2)
	status(agent.StatusDone, 2)
	equal(t, "result again", r.finish(2), res)

	if res.Summary != "thought 2 of x1" || !res.Success || res.Status != agent.StatusDone || res.RunID != "run-1" {
		t.Errorf("result is %+v", res)
	}
	equal(t, "usage", res.TokenUsage, agent.Usage{PromptTokens: 20, CompletionTokens: 2, TotalTokens: 22})
	equal(t, "usage per model", res.Models, map[string]agent.Usage{"m": res.TokenUsage})
	equal(t, "steps", res.Steps, []agent.Step{
		{Num: 1, Thinking: "thought 1 of x1", Action: &th.Calls[0], Observation: "saw 1.0 of x1", Outcome: agent.OutcomeDone, DurationMS: 107},
		{Num: 1, Action: &th.Calls[1], Observation: "saw 1.1 of x1", Outcome: agent.OutcomeDone, DurationMS: 7},
		{Num: 2, Thinking: "thought 2 of x1", DurationMS: 100},
	})
	equal(t, "conversation", r.said(), []string{
		"task approve short leave", "instruction be quick",
		"thought 1 of x1", "saw 1.0 of x1", "saw 1.1 of x1", "instruction skip 王五",
		"thought 2 of x1",
	})
	equal(t, "events", r.told(), []string{
		"accepted", "state thinking", "instructed", "thought", "step", "confirm_required", "confirmed", "step", "state browser_offline b1", "instructed",
		"thought", "done",
	})
	b, err := s.Breaker(ctx, "b1")
	r.must(err)
	if b.Failures != 2 {
		t.Errorf("breaker was changed %d times, want 2", b.Failures)
	}
}

func TestIDsAreNotReused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	if _, err := s.AcceptMessage(ctx, "a", agent.Message{ID: "1", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		session, text string
		want          error
	}{{"a", "y", record.ErrConflict}, {"b", "x", record.ErrConflict}, {"", "x", ErrInvalid}, {"a\n", "x", ErrInvalid}, {strings.Repeat("k", 513), "x", ErrInvalid}, {"a", strings.Repeat("x", 1+32<<10), ErrInvalid}} {
		if _, err := s.AcceptMessage(ctx, c.session, agent.Message{ID: "1", Text: c.text}); !errors.Is(err, c.want) {
			t.Errorf("accept in %.10q of %.10q: %v, want %v", c.session, c.text, err, c.want)
		}
	}
	one, two := script{t, s, "r1", "x"}, script{t, s, "r2", "y"}
	one.begin()
	two.begin()
	one.think(1, 1)
	one.ask("c", 1)
	if err := s.Ask(ctx, two.fence(1), agent.Confirmation{ID: "c", Step: 1}); !errors.Is(err, record.ErrConflict) {
		t.Errorf("question of another run: %v", err)
	}
	if err := two.decide("c", 1, "approved"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("decision on another run's question: %v", err)
	}
	one.must(s.AddInstruction(ctx, one.fence(1), "i", "", "a"))
	if err := s.AddInstruction(ctx, one.fence(1), "i", "", "b"); !errors.Is(err, record.ErrConflict) {
		t.Errorf("other instruction: %v", err)
	}
	if _, err := s.Run(ctx, "none"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
	if _, err := s.Thought(ctx, record.Fence{RunID: "none", Execution: "x", Step: 1}); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("thought of unknown run: %v", err)
	}
}

func TestRewindToAStep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	ctx := t.Context()
	r.begin()
	r.think(1, 1)
	r.observe(1, 0)
	r.must(s.AddInstruction(ctx, r.fence(1), "i1", "", "after 1"))
	r.think(2, 2)
	r.observe(2, 0)
	r.ask("c1", 2)
	r.must(r.decide("c1", 2, "approved"))
	r.observe(2, 1)
	r.must(s.AddInstruction(ctx, r.fence(2), "i2", "", "after 2"))
	r.think(3, 1)
	r.ask("c2", 3)
	marker := r.begin().Marker

	n := r.as("x2")
	n.think(2, 1)
	equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "instruction after 1", "thought 2 of x2"})
	// The retired execution must not write any more.
	for name, err := range map[string]error{
		"status":      s.SetStatus(ctx, r.fence(3), "k", agent.StatusCooling, "", ""),
		"decide":      r.decide("c2", 3, "approved"),
		"instruction": s.AddInstruction(ctx, r.fence(3), "i3", "", "late"),
		"ask":         s.Ask(ctx, r.fence(3), agent.Confirmation{ID: "c3", Step: 3}),
	} {
		if !errors.Is(err, record.ErrSuperseded) {
			t.Errorf("%s of the retired execution: %v", name, err)
		}
	}
	if _, err := s.RecordThought(ctx, r.fence(4), record.Thought{}); !errors.Is(err, record.ErrSuperseded) {
		t.Errorf("thought of the retired execution: %v", err)
	}
	if _, err := s.Finish(ctx, r.fence(4), agent.TaskResult{Status: agent.StatusDone}, "", time.Now()); !errors.Is(err, record.ErrSuperseded) {
		t.Errorf("end by the retired execution: %v", err)
	}
	// Ids of the branch set aside may come again.
	n.ask("c1", 2)
	n.must(n.decide("c1", 2, "rejected"))
	n.observe(2, 0)
	n.must(s.AddInstruction(ctx, n.fence(2), "i2", "", "after 2, again"))
	n.think(3, 0)
	res := n.finish(3)
	if res.TokenUsage.TotalTokens != 55 {
		t.Errorf("usage is %d, want that of all five replies", res.TokenUsage.TotalTokens)
	}
	equal(t, "conversation", n.said(), []string{
		"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "instruction after 1",
		"thought 2 of x2", "saw 2.0 of x2", "instruction after 2, again", "thought 3 of x2",
	})
	equal(t, "events", n.told(), []string{
		"accepted", "state thinking", "thought", "step", "instructed", "thought", "step", "confirm_required", "confirmed", "step", "instructed",
		"thought", "confirm_required",
		"state waiting_confirm rewound to step 2", "thought", "confirm_required", "confirmed", "step", "instructed", "thought", "done",
	})
	audit, err := s.Confirmations(ctx, ConfirmationFilter{RunID: "r", Rewound: true})
	n.must(err)
	var got []string
	for _, c := range audit {
		got = append(got, fmt.Sprint(c.Question.ID, " ", c.Decision, " ", c.Rewound))
	}
	equal(t, "audit", got, []string{"c1 approved true", "c2 void true", "c1 rejected false"})

	// A run that has ended goes on when it is rewound, to its beginning too.
	z := n.as("x3")
	if again := z.begin().Marker; again != marker {
		t.Errorf("marker is %s, was %s", again, marker)
	}
	run, err := s.Run(ctx, "r")
	z.must(err)
	if run.Status != agent.StatusThinking || !run.EndedAt.IsZero() || run.Summary != "" || run.Steps != 0 {
		t.Errorf("run is %+v", run)
	}
	equal(t, "conversation", z.said(), []string{"task approve short leave"})
	z.think(1, 0)
	z.finish(1)
	if got := z.told(); got[len(got)-1] != "done" {
		t.Errorf("last event is %s", got[len(got)-1])
	}
}

// A reset may lead to any point of a run, not only to before a model call.
func TestRewindIntoAStep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	old := func(t *testing.T, id string) script {
		r := script{t, s, id, "x1"}
		r.begin()
		r.think(1, 2)
		r.observe(1, 0)
		r.ask(id+"c", 1)
		r.must(r.decide(id+"c", 1, "rejected"))
		r.observe(1, 1)
		r.think(2, 0)
		r.finish(2)
		return r
	}
	t.Run("after the first call", func(t *testing.T) {
		n := old(t, "a").as("x2")
		n.observe(1, 1)
		equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "saw 1.1 of x2"})
		n.think(2, 0)
		n.finish(2)
	})
	t.Run("while a person was asked", func(t *testing.T) {
		n := old(t, "b").as("x2")
		n.must(n.decide("bc", 1, "approved"))
		n.must(n.decide("bc", 1, "approved"))
		equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "saw 1.1 of x1"})
		n.observe(1, 1)
		n.think(2, 0)
		n.finish(2)
		equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "saw 1.1 of x2", "thought 2 of x2"})
		open, err := s.Confirmations(ctx, ConfirmationFilter{RunID: "b"})
		n.must(err)
		if len(open) != 1 || open[0].Decision != "approved" {
			t.Errorf("confirmations: %+v", open)
		}
	})
	t.Run("before the question", func(t *testing.T) {
		n := old(t, "c").as("x2")
		n.ask("cc", 1)
		open, err := s.Confirmations(ctx, ConfirmationFilter{Open: true})
		n.must(err)
		if len(open) != 1 || open[0].RunID != "c" {
			t.Errorf("open confirmations: %+v", open)
		}
		n.finish(1)
	})
	t.Run("a state first", func(t *testing.T) {
		n := old(t, "d").as("x2")
		n.must(s.SetStatus(ctx, n.fence(1), "k", agent.StatusCooling, "", ""))
		n.think(1, 0)
		equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x2"})
	})
	t.Run("only the end", func(t *testing.T) {
		n := old(t, "e").as("x2")
		n.finish(2)
		equal(t, "conversation", n.said(), []string{"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "saw 1.1 of x1", "thought 2 of x1"})
	})
}

func TestContinueAsNewSetsNothingAside(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	ctx := t.Context()
	r.begin()
	r.think(1, 1)
	r.observe(1, 0)
	r.must(s.AddInstruction(ctx, r.fence(1), "i", "", "more"))
	n := r.as("x2")
	n.think(2, 1)
	n.observe(2, 0)
	equal(t, "conversation", n.said(), []string{
		"task approve short leave", "thought 1 of x1", "saw 1.0 of x1", "instruction more", "thought 2 of x2", "saw 2.0 of x2",
	})
	equal(t, "events", n.told(), []string{"accepted", "state thinking", "thought", "step", "instructed", "thought", "step"})
	if _, err := s.Thought(ctx, r.fence(2)); !errors.Is(err, record.ErrSuperseded) {
		t.Errorf("first execution: %v", err)
	}
}

func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	r.begin()
	r.think(1, 1)
	r.ask("c", 1)
	r.finish(1)
	if _, err := s.RecordThought(t.Context(), r.fence(2), record.Thought{Text: "late"}); !errors.Is(err, record.ErrSuperseded) {
		t.Errorf("late thought: %v", err)
	}
	open, err := s.Confirmations(t.Context(), ConfirmationFilter{RunID: "r"})
	r.must(err)
	if len(open) != 1 || open[0].Decision != "void" {
		t.Errorf("confirmations after the end: %+v", open)
	}
}

// Page text may hold what PostgreSQL does not take, and nothing of it may be
// interpreted on the way.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	ctx := t.Context()
	r.begin()
	params := json.RawMessage("{\"b\":1e400,\"a\":\"\\u0000\\ud800\",\"a\":\"\xff\"}")
	th, err := s.RecordThought(ctx, r.fence(1), record.Thought{
		Text: "nul \x00 broken \xff 中文", Model: "m\x00", Calls: []agent.Call{{ID: "k", Action: "click", Params: params}}, ProviderIDs: []string{"p\x00,\"{}"},
	})
	r.must(err)
	if want := "nul  broken \uFFFD 中文"; th.Text != want {
		t.Errorf("text is %q, want %q", th.Text, want)
	}
	if got, want := string(th.Calls[0].Params), `{"b":1e400,"a":"\u0000\ud800","a":"`+"\uFFFD"+`"}`; got != want {
		t.Errorf("params are %s, want %s", got, want)
	}
	equal(t, "provider's ids", th.ProviderIDs, []string{`p,"{}`})
	text := strings.Repeat("批准\x00'\\\"); DROP TABLE runs; --\xf0\x28", 1000)
	_, err = s.RecordStep(ctx, r.fence(1), "b\x00", record.Observation{Outcome: agent.OutcomeFailed, Text: text, Image: []byte{0, 1, 255}, MIME: "image/png"}, 5,
		func(_ []string, b critic.Breaker) (critic.Breaker, critic.Verdict) { return b, critic.Verdict{} })
	r.must(err)
	turns, err := s.Conversation(ctx, r.fence(1))
	r.must(err)
	o := turns[len(turns)-1].Observation
	if o.Text != clean(text) || !cmp.Equal(o.Image, []byte{0, 1, 255}) || o.Call.ID != "k" {
		t.Errorf("observation is %.80q, %v, %+v", o.Text, o.Image, o.Call)
	}
	r.must(s.SetStatus(ctx, r.fence(1), "k", agent.StatusCooling, "\x00\xff", ""))
	r.finish(1)
}

func TestOnlyTheNewestPicturesAreLoaded(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	r.begin()
	for step := 1; step <= 5; step++ {
		r.think(step, 1)
		_, err := s.RecordStep(t.Context(), r.fence(step), "b1", record.Observation{Outcome: agent.OutcomeDone, Image: []byte{byte(step)}, MIME: "image/png"}, 0, nil)
		r.must(err)
	}
	turns, err := s.Conversation(t.Context(), r.fence(5))
	r.must(err)
	var got []int
	for _, turn := range turns {
		if o := turn.Observation; o != nil {
			if o.MIME != "image/png" {
				t.Errorf("step %d has type %q", turn.Step, o.MIME)
			}
			got = append(got, len(o.Image))
		}
	}
	equal(t, "pictures", got, []int{0, 0, 1, 1, 1})
}

// Many runs of one session and one browser write at once: numbers have no
// gaps, nothing is written twice, nobody waits for ever.
func TestParallelWriters(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	const runs, steps, copies = 8, 6, 2
	var wg sync.WaitGroup
	for n := range runs {
		r := script{t, s, fmt.Sprintf("r%d", n), "x"}
		m := agent.Message{ID: r.run, Text: "task", BrowserID: "b"}
		// Each is written by several at once, as when an activity is retried
		// while its first attempt is still under way.
		for range copies {
			wg.Go(func() {
				ctx := t.Context()
				check := func(err error) {
					if err != nil && !errors.Is(err, record.ErrSuperseded) {
						t.Error(err)
					}
				}
				_, err := s.AcceptMessage(ctx, "one", m)
				check(err)
				_, err = s.BeginRun(ctx, r.fence(0), record.Begin{Session: "one", Message: m, Browser: "b", StartedAt: time.Now()})
				check(err)
				for step := 1; step <= steps; step++ {
					_, err := s.Thought(ctx, r.fence(step))
					check(err)
					_, err = s.RecordThought(ctx, r.fence(step), record.Thought{Usage: usage(1), Model: "m", Calls: []agent.Call{{Action: "click"}}})
					check(err)
					_, err = s.RecordStep(ctx, r.fence(step), "b", record.Observation{Outcome: agent.OutcomeDone, Signature: "s"}, 5,
						func(_ []string, b critic.Breaker) (critic.Breaker, critic.Verdict) {
							b.Failures++
							return b, critic.Verdict{}
						})
					check(err)
				}
				_, err = s.Finish(ctx, r.fence(steps), agent.TaskResult{Status: agent.StatusDone}, "", time.Now())
				check(err)
			})
		}
	}
	wg.Wait()
	events, err := s.Events(t.Context(), "one", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if want := runs * (3 + 2*steps); len(events) != want {
		t.Errorf("%d events, want %d", len(events), want)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
	}
	b, err := s.Breaker(t.Context(), "b")
	if err != nil || b.Failures != runs*steps {
		t.Errorf("breaker was changed %d times, want %d; %v", b.Failures, runs*steps, err)
	}
	res, err := s.Result(t.Context(), "r0")
	if err != nil || res.TokenUsage.TotalTokens != 2*steps {
		t.Errorf("usage is %+v, %v", res.TokenUsage, err)
	}
}

func TestListsOfRuns(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	for i := range 5 {
		if _, err := s.AcceptMessage(ctx, fmt.Sprint("s", i%2), agent.Message{ID: fmt.Sprint("r", i), Text: "x", BrowserID: fmt.Sprint("b", i%3)}); err != nil {
			t.Fatal(err)
		}
	}
	script{t, s, "r4", "x"}.must(s.SetStatus(ctx, record.Fence{RunID: "r4", Execution: "x"}, "k", agent.StatusCooling, "", ""))
	for _, c := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "r4 r3 r2 r1 r0"},
		{Filter{Limit: 2}, "r4 r3"},
		{Filter{Limit: 2, Before: "r3"}, "r2 r1"},
		{Filter{Session: "s1"}, "r3 r1"},
		{Filter{Browser: "b0"}, "r3 r0"},
		{Filter{Status: agent.StatusQueued, Session: "s0"}, "r2 r0"},
		{Filter{Session: "none"}, ""},
	} {
		runs, err := s.Runs(ctx, c.f)
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

func TestBreakers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	if err := s.ResetBreaker(ctx, "b", "王五"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("reset of none: %v", err)
	}
	if err := s.SetBreaker(ctx, "b", func(b critic.Breaker) critic.Breaker { b.Phase, b.Failures = critic.Open, 10; return b }); err != nil {
		t.Fatal(err)
	}
	list, err := s.Breakers(ctx)
	if err != nil || len(list) != 1 || list[0].State.Phase != critic.Open {
		t.Fatalf("breakers: %+v, %v", list, err)
	}
	if err := s.ResetBreaker(ctx, "b", "王五"); err != nil {
		t.Fatal(err)
	}
	list, err = s.Breakers(ctx)
	if err != nil || list[0].State != (critic.Breaker{}) || list[0].ResetBy != "王五" || list[0].ResetAt.IsZero() {
		t.Errorf("after the reset: %+v, %v", list, err)
	}
}

func TestWhatCanNeverBeStoredIsInvalid(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	r := script{t, s, "r", "x1"}
	r.begin()
	var noise strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&noise, "%x", i*7919%65521)
	}
	_, nul := s.Run(ctx, "a\x00b")
	_, long := s.AcceptMessage(ctx, "s", agent.Message{ID: "m", Text: strings.Repeat("x", agent.MaxInstruction+1)})
	for what, err := range map[string]error{
		"a NUL byte in an id":                 nul,
		"a text that is too long":             long,
		"a browser's id that no index takes":  s.SetBreaker(ctx, noise.String(), func(b critic.Breaker) critic.Breaker { return b }),
		"an instruction's id with a newline":  s.AddInstruction(ctx, r.fence(0), "a\nb", "li", "text"),
		"a decision that does not exist":      r.decide("c", 0, "perhaps"),
		"a status that ends a run, by itself": s.SetStatus(ctx, r.fence(0), "k", agent.StatusDone, "", ""),
	} {
		if !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%s: got %v, want %v", what, err, record.ErrInvalid)
		}
	}
}

func TestJudgeSeesAsManyActionsAsItAskedFor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := script{t, s, "r", "x1"}
	r.begin()
	for i := range 40 {
		_, err := s.RecordStep(t.Context(), r.fence(i+1), "b1", record.Observation{
			Call: agent.Call{ID: "k", Action: "click"}, Outcome: agent.OutcomeDone, Signature: "click",
		}, 36, func(recent []string, b critic.Breaker) (critic.Breaker, critic.Verdict) {
			if want := min(i+1, 36); len(recent) != want {
				t.Errorf("action %d: %d signatures, want %d", i+1, len(recent), want)
			}
			return b, critic.Verdict{}
		})
		r.must(err)
	}
}
