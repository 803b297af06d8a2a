package durable_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/durable/durabletest"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

func TestKeywordsAreTheWorkflows(t *testing.T) {
	want := []string{workflows.AttrState, workflows.AttrUser, workflows.AttrBrowser, workflows.AttrSession}
	if diff := cmp.Diff(temporaltest.Keywords(), want); diff != "" {
		t.Errorf("temporaltest.Keywords (-got +want):\n%s", diff)
	}
}

func dial(t *testing.T, s *temporaltest.Server) *durable.Client {
	t.Helper()
	c, err := durable.Dial(t.Context(), temporaltest.Logger(t, slog.LevelWarn), durable.Config{Address: s.Address, Namespace: s.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func setup(t *testing.T) (*durable.Client, *durabletest.Core) {
	t.Helper()
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	core.StartWorker(t)
	core.StartBrowser(t, "b1")
	return dial(t, s), core
}

func start(t *testing.T, c *durable.Client, session, text string) string {
	t.Helper()
	s, err := c.StartTask(t.Context(), session, agent.Message{Text: text, BrowserID: "b1"})
	if err != nil {
		t.Fatal(err)
	}
	return s.RunID
}

// until polls cond, because the core works in its own time.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal("test ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func asked(t *testing.T, c *durable.Client, runID string) agent.Confirmation {
	t.Helper()
	var q agent.Confirmation
	until(t, "confirmation of "+runID, func() bool {
		st, err := c.State(t.Context(), runID)
		if err != nil || st.Confirm == nil {
			return false
		}
		q = *st.Confirm
		return true
	})
	return q
}

func result(t *testing.T, c *durable.Client, runID string) workflows.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := c.WaitResult(ctx, runID)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTaskFromStartToEnd(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "", "click approve click")
	q := asked(t, c, runID)
	if q.Ask.Name != "批准" || q.Digest != "d1" {
		t.Errorf("asked %+v", q)
	}
	reply, receipt, err := c.Confirm(t.Context(), runID, agent.Answer{ConfirmID: q.ID, Approved: true, By: "tester"})
	if err != nil || receipt.Signalled || !reply.Approved || reply.ConfirmID != q.ID {
		t.Fatalf("Confirm = %+v, %+v, %v", reply, receipt, err)
	}
	out := result(t, c, runID)
	want := workflows.Outcome{RunID: runID, Status: agent.StatusDone, Success: true, Summary: out.Summary, Steps: 4, Usage: agent.Usage{PromptTokens: 40, CompletionTokens: 8, TotalTokens: 48}}
	if diff := cmp.Diff(out, want); diff != "" {
		t.Errorf("outcome (-got +want):\n%s", diff)
	}
	if n := len(core.Acts(runID)); n != 3 {
		t.Errorf("%d actions, want 3", n)
	}
	r, err := c.Describe(t.Context(), runID)
	if err != nil || r.Status != agent.StatusDone || r.Session != durable.OwnSession(runID) || r.Browser != "b1" || r.Task == "" || r.EndedAt.IsZero() {
		t.Errorf("Describe = %+v, %v", r, err)
	}
	lines, err := c.Transcript(t.Context(), runID)
	if err != nil || len(lines) != 3 {
		t.Errorf("Transcript = %v, %v", lines, err)
	}
	for name, err := range map[string]error{
		"confirm":  second(c.Confirm(t.Context(), runID, agent.Answer{ConfirmID: "other", Approved: true})),
		"abort":    first(c.Abort(t.Context(), runID, workflows.Abort{})),
		"instruct": first(c.Instruct(t.Context(), runID, workflows.Instruction{Text: "more"})),
	} {
		if !errors.Is(err, durable.ErrRunOver) {
			t.Errorf("%s of a run that is over = %v, want ErrRunOver", name, err)
		}
	}
}

func first(_ durable.Receipt, err error) error { return err }

func second(_ workflows.ConfirmReply, _ durable.Receipt, err error) error { return err }

func TestStartIsOnceByID(t *testing.T) {
	c, core := setup(t)
	m := agent.Message{ID: "order-7", Text: "click", BrowserID: "b1"}
	if s, err := c.StartTask(t.Context(), "", m); err != nil || s.Known || s.RunID != "order-7" {
		t.Fatalf("StartTask = %+v, %v", s, err)
	}
	// At once, so that the run need not exist yet.
	if s, err := c.StartTask(t.Context(), "", m); err != nil || !s.Known || s.RunID != "order-7" {
		t.Fatalf("StartTask again = %+v, %v", s, err)
	}
	result(t, c, "order-7")
	if s, err := c.StartTask(t.Context(), "", m); err != nil || !s.Known {
		t.Fatalf("StartTask of a known id = %+v, %v", s, err)
	}
	if s, err := c.StartTask(t.Context(), "other", m); err != nil || !s.Known || s.Session != durable.OwnSession("order-7") {
		t.Fatalf("StartTask of a known id in another session = %+v, %v", s, err)
	}
	if n := len(core.Acts("order-7")); n != 1 {
		t.Errorf("%d actions, want 1", n)
	}
}

func TestRefusalsAreTyped(t *testing.T) {
	c, _ := setup(t)
	ctx := t.Context()
	runID := start(t, c, "", "approve approve")
	q := asked(t, c, runID)
	confirm := func(a agent.Answer) error { return second(c.Confirm(ctx, runID, a)) }
	for _, tt := range []struct {
		name string
		got  error
		want error
	}{
		{"other confirmation", confirm(agent.Answer{ConfirmID: "x", Approved: true}), durable.ErrUnknownConfirm},
		{"other digest", confirm(agent.Answer{ConfirmID: q.ID, Approved: true, Digest: "d2"}), durable.ErrDigestMismatch},
		{"the open one", confirm(agent.Answer{Approved: false, By: "tester"}), nil},
		{"no such run", second(c.Confirm(ctx, "nobody", agent.Answer{Approved: true})), durable.ErrNotFound},
		{"abort of no such run", first(c.Abort(ctx, "nobody", workflows.Abort{})), durable.ErrNotFound},
		{"result of no such run", func() error { _, err := c.WaitResult(ctx, "nobody"); return err }(), durable.ErrNotFound},
		{"empty instruction", first(c.Instruct(ctx, runID, workflows.Instruction{})), durable.ErrInvalid},
		{"move to nowhere", first(c.Move(ctx, runID, workflows.Move{})), durable.ErrInvalid},
		{"no such session", func() error { _, err := c.SessionRun(ctx, "nobody"); return err }(), durable.ErrNotFound},
	} {
		if !errors.Is(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	q2 := asked(t, c, runID)
	until(t, "second confirmation", func() bool { q2 = asked(t, c, runID); return q2.ID != q.ID })
	if err := confirm(agent.Answer{ConfirmID: q.ID, Approved: true, By: "other"}); !errors.Is(err, durable.ErrAlreadyDecided) {
		t.Errorf("answer to a decided confirmation: %v, want ErrAlreadyDecided", err)
	}
	if _, err := c.Abort(ctx, runID, workflows.Abort{By: "tester"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, c, runID); out.Status != agent.StatusAborted || out.Reason != agent.ReasonAborted {
		t.Errorf("outcome %+v, want aborted", out)
	}
}

func TestSessionRunsInOrderAndDropsQueued(t *testing.T) {
	c, core := setup(t)
	ctx := t.Context()
	one := start(t, c, "desk", "slow")
	until(t, "first run thinks", func() bool { return len(core.Thinks(one)) == 1 })
	two := start(t, c, "desk", "click")
	three := start(t, c, "desk", "click click")
	until(t, "two in the queue", func() bool { box, err := c.Inbox(ctx, "desk"); return err == nil && len(box.Queued) == 2 })

	r, err := c.Describe(ctx, two)
	if err != nil || r.Status != agent.StatusQueued || r.Session != "desk" {
		t.Errorf("Describe of a queued run = %+v, %v", r, err)
	}
	if _, err := c.State(ctx, two); !errors.Is(err, durable.ErrQueued) {
		t.Errorf("State of a queued run = %v, want ErrQueued", err)
	}
	if got, err := c.SessionRun(ctx, "desk"); err != nil || got != one {
		t.Errorf("SessionRun = %s, %v; want %s", got, err, one)
	}
	var runs []durable.Run
	until(t, "all listed", func() bool {
		runs, err = c.List(ctx, durable.Filter{Session: "desk"})
		return err != nil || len(runs) == 3
	})
	if err != nil {
		t.Fatal(err)
	}
	if runs[0].RunID != two || runs[1].RunID != three || runs[2].RunID != one {
		t.Errorf("List = %+v", runs)
	}

	waited := make(chan workflows.Outcome, 1)
	go func() { waited <- result(t, c, two) }()
	receipt, err := c.Abort(ctx, two, workflows.Abort{By: "tester"})
	if err != nil || !receipt.Queued {
		t.Fatalf("Abort of a queued run = %+v, %v", receipt, err)
	}
	if out := <-waited; out.Status != agent.StatusAborted {
		t.Errorf("outcome of the dropped run %+v", out)
	}
	core.Release()
	if out := result(t, c, three); out.Status != agent.StatusDone {
		t.Errorf("outcome of the third run %+v", out)
	}
	if calls := core.Thinks(two); len(calls) > 0 {
		t.Errorf("the dropped run thought: %v", calls)
	}
}

func TestListAndBrowsers(t *testing.T) {
	c, core := setup(t)
	ctx := t.Context()
	done := start(t, c, "", "click")
	result(t, c, done)
	failed := start(t, c, "", "giveup")
	result(t, c, failed)
	waiting := start(t, c, "", "approve")
	asked(t, c, waiting)
	for _, tt := range []struct {
		filter durable.Filter
		want   []string
	}{
		{durable.Filter{}, []string{waiting, failed, done}},
		{durable.Filter{Status: agent.StatusWaitingConfirm}, []string{waiting}},
		{durable.Filter{Status: agent.StatusFailed}, []string{failed}},
		{durable.Filter{Active: true}, []string{waiting}},
		{durable.Filter{Browser: "b1", Limit: 1}, []string{waiting}},
		{durable.Filter{Browser: "b2"}, nil},
		{durable.Filter{Session: durable.OwnSession(done)}, []string{done}},
	} {
		var ids []string
		var err error
		ok := func() bool {
			var runs []durable.Run
			runs, err = c.List(ctx, tt.filter)
			ids = nil
			for _, r := range runs {
				ids = append(ids, r.RunID)
			}
			return err != nil || slices.Equal(ids, tt.want)
		}
		until(t, "list", ok)
		if err != nil {
			t.Errorf("List(%+v): %v", tt.filter, err)
		}
	}
	if _, err := c.List(ctx, durable.Filter{Browser: "x' OR 'a'='a"}); !errors.Is(err, durable.ErrInvalid) {
		t.Errorf("List with a quote = %v, want ErrInvalid", err)
	}

	stop := core.StartBrowser(t, "b2")
	online := func(id string) bool {
		list, err := c.Browsers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(b durable.Browser) bool { return b.ID == id })
		return i >= 0 && list[i].Online && list[i].AgentID == "agent-1" && list[i].Page.Domain == "oa.example"
	}
	until(t, "both browsers online", func() bool { return online("b1") && online("b2") })
	stop()
	if online("b2") {
		t.Error("b2 is online after its end")
	}
	if !online("b1") {
		t.Error("b1 is not online")
	}
	workers, err := c.Workers(ctx)
	if err != nil || len(workers) != 1 {
		t.Errorf("Workers = %v, %v", workers, err)
	}
}

func TestWithoutWorker(t *testing.T) {
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	c := dial(t, s)
	ctx := t.Context()
	stop := core.StartWorker(t)
	core.StartBrowser(t, "b1")
	runID := start(t, c, "", "approve click")
	q := asked(t, c, runID)
	stop()

	if _, err := c.State(ctx, runID); !errors.Is(err, durable.ErrNoWorker) {
		t.Errorf("State = %v, want ErrNoWorker", err)
	}
	if err := second(c.Confirm(ctx, runID, agent.Answer{Approved: true})); !errors.Is(err, durable.ErrNoWorker) {
		t.Errorf("Confirm of whatever is open = %v, want ErrNoWorker", err)
	}
	reply, receipt, err := c.Confirm(ctx, runID, agent.Answer{ConfirmID: q.ID, Approved: true, By: "tester"})
	if err != nil || !receipt.Signalled || reply.ConfirmID != q.ID {
		t.Fatalf("Confirm = %+v, %+v, %v", reply, receipt, err)
	}
	queued := start(t, c, "", "click")
	if r, err := c.Describe(ctx, queued); err != nil || r.Status != agent.StatusQueued {
		t.Errorf("Describe of a run that nobody began = %+v, %v", r, err)
	}
	core.StartWorker(t)
	if out := result(t, c, runID); out.Status != agent.StatusDone {
		t.Errorf("outcome %+v", out)
	}
	if out := result(t, c, queued); out.Status != agent.StatusDone {
		t.Errorf("outcome %+v", out)
	}
}

func TestInstructReachesTheModel(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "", "approve click")
	asked(t, c, runID)
	if _, err := c.Instruct(t.Context(), runID, workflows.Instruction{ID: "i1", Text: "also skip 张三", By: "tester"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Instruct(t.Context(), runID, workflows.Instruction{ID: "i1", Text: "also skip 张三", By: "tester"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Instruct(t.Context(), runID, workflows.Instruction{ID: "i1", Text: "and skip 李四", By: "tester"}); !errors.Is(err, durable.ErrInvalid) {
		t.Errorf("another text with the same id: %v, want ErrInvalid", err)
	}
	if err := second(c.Confirm(t.Context(), runID, agent.Answer{Approved: false})); err != nil {
		t.Fatal(err)
	}
	result(t, c, runID)
	if diff := cmp.Diff(core.Instructions(runID), []durabletest.Instruction{{Text: "also skip 张三", Thinks: 1}}); diff != "" {
		t.Errorf("instructions (-got +want):\n%s", diff)
	}
}

func TestDialErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	began := time.Now()
	_, err = durable.Dial(t.Context(), slog.New(slog.DiscardHandler), durable.Config{Address: address, Namespace: "x"})
	if !errors.Is(err, durable.ErrUnreachable) {
		t.Errorf("Dial = %v, want ErrUnreachable", err)
	}
	if took := time.Since(began); took > 7*time.Second {
		t.Errorf("Dial took %v", took)
	}
	s := temporaltest.Start(t)
	c, err := durable.Dial(t.Context(), slog.New(slog.DiscardHandler), durable.Config{Address: s.Address, Namespace: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.CheckNamespace(t.Context()); !errors.Is(err, durable.ErrNoNamespace) {
		t.Errorf("CheckNamespace = %v, want ErrNoNamespace", err)
	}
	if _, err := c.StartTask(t.Context(), "", agent.Message{Text: "click"}); !errors.Is(err, durable.ErrNoNamespace) {
		t.Errorf("StartTask = %v, want ErrNoNamespace", err)
	}
	_, err = durable.Dial(t.Context(), slog.New(slog.DiscardHandler), durable.Config{Address: s.Address, Namespace: "x", CAFile: "/nonexistent"})
	if err == nil {
		t.Error("Dial with a missing CA file succeeded")
	}
}
