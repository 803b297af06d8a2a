package rig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/llm"
	"sgclaw/internal/pgtest"
	"sgclaw/internal/pipe"
	"sgclaw/internal/rig"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

// start starts a rig for a test.
func start(t *testing.T, model rig.Model, host *rig.Host, change func(*rig.Config)) *rig.Rig {
	t.Helper()
	srv := temporaltest.Start(t)
	cfg := rig.Config{
		Client: srv.Client, Namespace: srv.Namespace, DatabaseURL: pgtest.New(t), Dir: t.TempDir(), Model: model, Host: host,
	}
	if change != nil {
		change(&cfg)
	}
	r, err := rig.Start(t.Context(), temporaltest.Logger(t, slog.LevelWarn), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func task(t *testing.T, r *rig.Rig, id string) string {
	t.Helper()
	st, err := r.Client.StartTask(t.Context(), "", agent.Message{ID: id, Text: "approve it", BrowserID: rig.BrowserID, Origin: agent.Origin{Kind: "cli", User: "li"}})
	if err != nil {
		t.Fatal(err)
	}
	return st.RunID
}

func result(t *testing.T, r *rig.Rig, id string) workflows.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := r.Client.WaitResult(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually polls until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

func open(t *testing.T, r *rig.Rig, id string) agent.Confirmation {
	t.Helper()
	var c agent.Confirmation
	eventually(t, "a confirmation of "+id, func() bool {
		st, err := r.Client.State(t.Context(), id)
		if err != nil || st.Confirm == nil {
			return false
		}
		c = *st.Confirm
		return true
	})
	return c
}

// clicks makes n clicks, each on another element, then answers.
func clicks(n int) rig.Model {
	return rig.Model{Reply: func(_ context.Context, _ llm.Request, nth int) (llm.Response, error) {
		if nth >= n {
			return rig.Answer("all done"), nil
		}
		return rig.Call(nth, "click", fmt.Sprintf(`{"selector":"[ref=e%d]"}`, nth)), nil
	}}
}

func TestRunFromTaskToResult(t *testing.T) {
	page := "- heading \"请假\"\n" + strings.Repeat("| 张三 | 2 天 |\n", 200)
	var seen []string
	model := rig.Model{Reply: func(_ context.Context, req llm.Request, nth int) (llm.Response, error) {
		seen = append(seen, req.Messages[len(req.Messages)-1].Text)
		if nth == 3 {
			return rig.Answer("all done"), nil
		}
		return rig.Call(nth, "click", fmt.Sprintf(`{"selector":"[ref=e%d]"}`, nth)), nil
	}}
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done(page), nil }}
	r := start(t, model, host, nil)
	id := task(t, r, "t-1")
	out := result(t, r, id)
	if !out.Success || out.Steps != 4 || out.Summary != "all done" {
		t.Errorf("outcome %+v", out)
	}
	if n := len(host.Commands()); n != 3 {
		t.Errorf("%d commands sent, want 3", n)
	}
	if last := seen[len(seen)-1]; strings.Count(last, "张三") != 200 {
		t.Errorf("the model saw %d rows of the long observation, want 200", strings.Count(last, "张三"))
	}
	res, err := r.Store.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != agent.StatusDone || len(res.Steps) != 4 || res.TokenUsage.TotalTokens != 440 {
		t.Errorf("result: status %s, %d steps, usage %+v", res.Status, len(res.Steps), res.TokenUsage)
	}
	keep(t, r, "run-plain", workflows.RunWorkflowID(id))
	keep(t, r, "browser-plain", activities.BrowserQueue(rig.BrowserID))
	if again := task(t, r, "t-1"); again != id {
		t.Errorf("the same id started %s", again)
	}
	if n := len(host.Commands()); n != 3 {
		t.Errorf("%d commands after the same task came twice, want 3", n)
	}
	events, err := r.Store.EventsOfRun(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, string(e.Kind))
	}
	if kinds[0] != "accepted" || kinds[len(kinds)-1] != "done" {
		t.Errorf("events %v", kinds)
	}
}

// asks answers MAC_NEED_CONFIRM until a grant with the right digest comes.
func asks() *rig.Host {
	return &rig.Host{Answer: func(_ context.Context, cmd pipe.Command) (pipe.Response, error) {
		ask := &pipe.ConfirmAsk{Subject: agent.Subject{Role: "button", Name: "批准", Domain: rig.Domain}, Image: []byte("jpeg"), Digest: "d-" + string(cmd.Params)}
		if g := cmd.Security.Grant; g == nil || g.Digest != ask.Digest {
			return pipe.Response{Error: pipe.Errorf(pipe.CodeNeedConfirm, "a person must confirm"), Data: &pipe.Data{
				Page: &agent.Page{URL: "https://" + rig.Domain + "/", Domain: rig.Domain}, Confirm: ask,
			}}, nil
		}
		return rig.Done("approved"), nil
	}}
}

func TestConfirmThenAct(t *testing.T) {
	host := asks()
	r := start(t, clicks(1), host, nil)
	id := task(t, r, "")
	q := open(t, r, id)
	if q.Ask.Name != "批准" || q.Ask.Picture == "" {
		t.Errorf("question %+v", q)
	}
	if b, err := r.Client.Observation(t.Context(), rig.BrowserID, q.Ask.Picture); err != nil || string(b.Image) != "jpeg" {
		t.Errorf("picture %q, %v", b.Image, err)
	}
	if _, _, err := r.Client.Confirm(t.Context(), id, agent.Answer{ConfirmID: q.ID, Approved: true, By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, id); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	keep(t, r, "run-confirm", workflows.RunWorkflowID(id))
	if n := len(host.Commands()); n != 2 {
		t.Errorf("%d commands, want the one that was asked about and the one with the grant", n)
	}
}

func TestAbortIsFeltAtOnce(t *testing.T) {
	thinking := make(chan struct{})
	model := rig.Model{Reply: func(ctx context.Context, _ llm.Request, _ int) (llm.Response, error) {
		close(thinking)
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}}
	r := start(t, model, &rig.Host{}, nil)
	id := task(t, r, "")
	<-thinking
	if _, err := r.Client.Abort(t.Context(), id, workflows.Abort{By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, id); out.Status != agent.StatusAborted {
		t.Errorf("outcome %+v", out)
	}
	keep(t, r, "run-abort", workflows.RunWorkflowID(id))
}

func TestRewindGoesAnotherWay(t *testing.T) {
	var told []string
	model := rig.Model{Reply: func(_ context.Context, req llm.Request, nth int) (llm.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == llm.RoleUser && nth > 0 {
			told = append(told, last.Text)
		}
		if nth >= 3 {
			return rig.Answer("done"), nil
		}
		return rig.Call(nth, "click", fmt.Sprintf(`{"selector":"[ref=e%d]"}`, nth)), nil
	}}
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, model, host, nil)
	id := task(t, r, "")
	result(t, r, id)
	if _, err := r.Client.Rewind(t.Context(), id, 2, workflows.Instruction{ID: "i1", Text: "the other one", By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, id); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	keep(t, r, "run-rewound", workflows.RunWorkflowID(id))
	if n := len(host.Commands()); n != 5 {
		t.Errorf("%d commands, want 3 before the rewind and 2 after", n)
	}
	if len(told) == 0 || !strings.Contains(told[0], "the other one") {
		t.Errorf("the model was told %q", told)
	}
	res, err := r.Store.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var nums []int
	for _, s := range res.Steps {
		nums = append(nums, s.Num)
	}
	if d := cmp.Diff(nums, []int{1, 2, 3, 4}); d != "" {
		t.Errorf("steps on record (-got +want):\n%s", d)
	}
}

func TestTaskFromThePipe(t *testing.T) {
	host := asks()
	r := start(t, clicks(1), host, nil)
	_, err := r.Client.StartTask(t.Context(), "", agent.Message{
		ID: "p-1", Text: "approve it", BrowserID: rig.BrowserID, Origin: agent.Origin{Kind: agent.OriginPipe, TaskID: "p-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := open(t, r, "p-1")
	told := func(want pipe.Type) func() bool {
		return func() bool {
			for _, m := range host.Sent() {
				b, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				var head struct{ Type pipe.Type }
				if json.Unmarshal(b, &head) == nil && head.Type == want {
					return true
				}
			}
			return false
		}
	}
	eventually(t, "confirm_required on the pipe", told(pipe.TypeConfirmRequired))
	if _, _, err := r.Client.Confirm(t.Context(), "p-1", agent.Answer{ConfirmID: q.ID, Approved: true, By: "li"}); err != nil {
		t.Fatal(err)
	}
	result(t, r, "p-1")
	eventually(t, "task_complete on the pipe", told(pipe.TypeTaskComplete))
	eventually(t, "the teller ends", func() bool {
		d, err := r.Client.Temporal().DescribeWorkflow(t.Context(), "tell/p-1", "")
		return err == nil && d.Status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	keep(t, r, "run-pipe", workflows.RunWorkflowID("p-1"))
	keep(t, r, "tell-result", "tell/p-1")
}

func TestBrowserOfflineIsWaitedFor(t *testing.T) {
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, clicks(1), host, func(c *rig.Config) { c.NoBrowser = true })
	id := task(t, r, "")
	eventually(t, "browser_offline", func() bool {
		st, err := r.Client.State(t.Context(), id)
		return err == nil && st.Status == agent.StatusBrowserOffline
	})
	if _, err := r.Client.Abort(t.Context(), id, workflows.Abort{By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, id); out.Status != agent.StatusAborted {
		t.Errorf("outcome %+v", out)
	}
	keep(t, r, "run-offline", workflows.RunWorkflowID(id))
}

func TestSessionRunsInOrder(t *testing.T) {
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, clicks(1), host, nil)
	var ids []string
	for i := range 3 {
		st, err := r.Client.StartTask(t.Context(), "desk", agent.Message{ID: fmt.Sprintf("m%d", i), Text: "go", BrowserID: rig.BrowserID})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, st.RunID)
	}
	for _, id := range ids {
		result(t, r, id)
	}
	keep(t, r, "session-three", workflows.SessionID("desk"))
	events, err := r.Store.Events(t.Context(), "desk", 0, 200)
	if err != nil {
		t.Fatal(err)
	}
	var ended []string
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
		if e.Kind == agent.EventDone {
			ended = append(ended, e.RunID)
		}
	}
	if d := cmp.Diff(ended, ids); d != "" {
		t.Errorf("order (-got +want):\n%s", d)
	}
}

func TestModelTroubleEndsWithAReason(t *testing.T) {
	model := rig.Model{Reply: func(context.Context, llm.Request, int) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Class: llm.ClassAuth, Status: 401, Message: "the key is not valid"}
	}}
	r := start(t, model, &rig.Host{}, nil)
	id := task(t, r, "")
	out := result(t, r, id)
	if out.Status != agent.StatusFailed || out.Reason != agent.ReasonModelFailed || !strings.Contains(out.Summary, "not valid") {
		t.Errorf("outcome %+v", out)
	}
}

// TestRewindLaterOfATaskFromThePipe: the time in between is not the run's,
// and the browser is asked and told again.
func TestRewindLaterOfATaskFromThePipe(t *testing.T) {
	host := asks()
	r := start(t, clicks(1), host, func(cfg *rig.Config) { cfg.Settings = agent.Settings{MaxTaskS: 2} })
	st, err := r.Client.StartTask(t.Context(), "", agent.Message{
		ID: "p-1", Text: "approve it", BrowserID: rig.BrowserID, Origin: agent.Origin{Kind: agent.OriginPipe, TaskID: "p-1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := st.RunID
	told := func() (questions, results int) {
		for _, m := range host.Sent() {
			switch m.(type) {
			case *pipe.ConfirmRequired:
				questions++
			case *pipe.TaskComplete:
				results++
			}
		}
		return questions, results
	}
	for round := 1; round <= 2; round++ {
		q := open(t, r, id)
		eventually(t, "the question at the browser", func() bool { n, _ := told(); return n == round })
		if _, _, err := r.Client.Confirm(t.Context(), id, agent.Answer{ConfirmID: q.ID, Approved: true, By: "li"}); err != nil {
			t.Fatal(err)
		}
		if out := result(t, r, id); !out.Success {
			t.Fatalf("round %d: %+v", round, out)
		}
		eventually(t, "the result at the browser", func() bool { _, n := told(); return n == round })
		if round == 2 {
			return
		}
		began := time.Now()
		eventually(t, "more time than a task may take", func() bool { return time.Since(began) > 2500*time.Millisecond })
		if _, err := r.Client.Rewind(t.Context(), id, 1, workflows.Instruction{}); err != nil {
			t.Fatal(err)
		}
	}
}

// lite shows runs nothing of their session's past, so that the model's
// replies can be counted.
func lite(cfg *rig.Config) {
	cfg.Settings.Context = agent.ContextOptions{Strategy: agent.StrategyLite}
}

// say sends a message of a person's to a session.
func say(t *testing.T, r *rig.Rig, session, id, text string, mode agent.Mode) {
	t.Helper()
	m := agent.Message{ID: id, Text: text, BrowserID: rig.BrowserID, Mode: mode, Origin: agent.Origin{Kind: "gateway", User: "li"}}
	if _, err := r.Client.StartTask(t.Context(), session, m); err != nil {
		t.Fatal(err)
	}
}

// onRecord checks how a message ended.
func onRecord(t *testing.T, r *rig.Rig, id string, status agent.Status, reason string) {
	t.Helper()
	eventually(t, "the end of "+id, func() bool {
		run, err := r.Store.Run(t.Context(), id)
		return err == nil && run.Status.Final()
	})
	run, err := r.Store.Run(t.Context(), id)
	if err != nil || run.Status != status || run.Reason != reason || run.Summary == "" {
		t.Errorf("%s on record: %s %s %q, %v; want %s %s", id, run.Status, run.Reason, run.Summary, err, status, reason)
	}
}

// TestSteer: a message to a busy session is shown to the model of the run
// under way; what that did not read is run by itself.
func TestSteer(t *testing.T) {
	host := asks()
	var told []string
	model := rig.Model{Reply: func(_ context.Context, req llm.Request, nth int) (llm.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == llm.RoleUser {
			told = append(told, last.Text)
		}
		if strings.Contains(last.Text, "approve it") {
			return rig.Call(nth, "click", `{"selector":"[ref=e1]"}`), nil
		}
		return rig.Answer("all done"), nil
	}}
	r := start(t, model, host, lite)
	say(t, r, "desk", "m1", "approve it", "")
	q := open(t, r, "m1")
	say(t, r, "desk", "m2", "and leave a note", agent.ModeSteer)
	eventually(t, "it is added to the run", func() bool {
		box, err := r.Client.Inbox(t.Context(), "desk")
		return err == nil && len(box.Steered) == 1
	})
	if _, _, err := r.Client.Confirm(t.Context(), "m1", agent.Answer{ConfirmID: q.ID, Approved: true, By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, "m1"); !out.Success || len(out.Unread) > 0 {
		t.Errorf("outcome %+v", out)
	}
	onRecord(t, r, "m2", agent.StatusDone, agent.ReasonSteered)
	say(t, r, "desk", "m3", "approve it too", "")
	open(t, r, "m3")
	say(t, r, "desk", "m4", "look at it", agent.ModeSteer)
	eventually(t, "it is added to the run", func() bool {
		box, err := r.Client.Inbox(t.Context(), "desk")
		return err == nil && len(box.Steered) == 1
	})
	if _, err := r.Client.Abort(t.Context(), "m3", workflows.Abort{By: "li"}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, "m4"); !out.Success {
		t.Errorf("outcome of what was not read %+v", out)
	}
	onRecord(t, r, "m4", agent.StatusDone, "")
	keep(t, r, "run-steered", workflows.RunWorkflowID("m1"))
	keep(t, r, "run-unread", workflows.RunWorkflowID("m3"))
	keep(t, r, "session-steered", workflows.SessionID("desk"))
	if d := cmp.Diff(len(told), 4); d != "" || !strings.Contains(told[1], "and leave a note") || !strings.Contains(told[3], "look at it") {
		t.Errorf("the model was told %q", told)
	}
}

func TestInterrupt(t *testing.T) {
	host := asks()
	r := start(t, clicks(1), host, lite)
	say(t, r, "desk", "m1", "approve it", "")
	open(t, r, "m1")
	say(t, r, "desk", "m2", "approve the other", "")
	say(t, r, "desk", "m3", "no, this one", agent.ModeInterrupt)
	if out := result(t, r, "m1"); out.Status != agent.StatusAborted {
		t.Errorf("outcome %+v", out)
	}
	onRecord(t, r, "m1", agent.StatusAborted, agent.ReasonAborted)
	for _, id := range []string{"m3", "m2"} {
		q := open(t, r, id)
		if _, _, err := r.Client.Confirm(t.Context(), id, agent.Answer{ConfirmID: q.ID, Approved: true, By: "li"}); err != nil {
			t.Fatal(err)
		}
		if out := result(t, r, id); !out.Success {
			t.Errorf("%s: outcome %+v", id, out)
		}
	}
	keep(t, r, "run-interrupted", workflows.RunWorkflowID("m1"))
	keep(t, r, "session-interrupted", workflows.SessionID("desk"))
}

// TestYesForTheRun: one answer, and each question on record with who allowed
// it.
func TestYesForTheRun(t *testing.T) {
	host := asks()
	r := start(t, clicks(3), host, nil)
	id := task(t, r, "")
	q := open(t, r, id)
	if _, _, err := r.Client.Confirm(t.Context(), id, agent.Answer{ConfirmID: q.ID, Approved: true, By: "li", Scope: agent.ScopeRun}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, r, id); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	keep(t, r, "run-scope", workflows.RunWorkflowID(id))
	if n := len(host.Commands()); n != 6 {
		t.Errorf("%d commands, want each click once to ask and once with its grant", n)
	}
	events, err := r.Store.EventsOfRun(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		switch e.Kind {
		case agent.EventConfirm:
			got = append(got, "asked")
		case agent.EventConfirmed:
			var a agent.Answer
			if err := json.Unmarshal(e.Data, &a); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(a.Approved, " by ", a.By, " for the ", a.Scope))
		}
	}
	yes := "true by li for the run"
	if d := cmp.Diff(got, []string{"asked", yes, "asked", yes, "asked", yes}); d != "" {
		t.Errorf("on record (-got +want):\n%s", d)
	}
}

func TestSessionOfOneTaskEnds(t *testing.T) {
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, clicks(1), host, nil)
	id := task(t, r, "")
	result(t, r, id)
	session := workflows.SessionID(durable.OwnSession(id))
	eventually(t, "the session ends", func() bool {
		d, err := r.Client.Temporal().DescribeWorkflow(t.Context(), session, "")
		return err == nil && d.Status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	})
	keep(t, r, "session-single", session)
}

func TestNextRunIsToldOfTheLast(t *testing.T) {
	var first []string
	model := rig.Model{Reply: func(_ context.Context, req llm.Request, _ int) (llm.Response, error) {
		var all []string
		for _, m := range req.Messages {
			all = append(all, m.Text)
		}
		first = append(first, strings.Join(all, "\n"))
		return rig.Answer("the answer is " + fmt.Sprint(41+len(first))), nil
	}}
	r := start(t, model, &rig.Host{}, nil)
	for _, id := range []string{"m1", "m2"} {
		say(t, r, "desk", id, "what is it? "+id, "")
		result(t, r, id)
	}
	keep(t, r, "run-prepared", workflows.RunWorkflowID("m2"))
	if len(first) != 2 || !strings.Contains(first[1], "what is it? m1") || !strings.Contains(first[1], "the answer is 42") {
		t.Errorf("the model was shown %q", first)
	}
}

// TestAgentsOfTheConfiguration: a session's agent stays, is asked by its own
// model, and does only what it may.
func TestAgentsOfTheConfiguration(t *testing.T) {
	asked := map[string]int{}
	named := func(name string, reply func(nth int) llm.Response) llm.Model {
		return rig.Model{Name: name, Reply: func(_ context.Context, req llm.Request, nth int) (llm.Response, error) {
			asked[name]++
			if strings.Contains(string(req.Tools[0].Schema), `"navigate"`) {
				asked[name+" offers navigate"]++
			}
			return reply(nth), nil
		}}
	}
	small := named("small", func(nth int) llm.Response {
		if nth == 0 {
			return rig.Call(nth, "click", `{"selector":"[ref=e1]"}`)
		}
		return rig.Answer("done")
	})
	large := named("large", func(int) llm.Response { return rig.Answer("done") })
	host := &rig.Host{Answer: func(context.Context, pipe.Command) (pipe.Response, error) { return rig.Done("page"), nil }}
	r := start(t, large.(rig.Model), host, func(cfg *rig.Config) {
		lite(cfg)
		cfg.Models = func(string) (llm.Model, error) { return small, nil }
		cfg.Agents = map[string]activities.Profile{
			"main": {Settings: agent.Settings{}},
			"oa":   {Settings: agent.Settings{Context: cfg.Settings.Context, Model: "small", Actions: []string{"click", "getText"}, Domains: []string{"erp.example.com"}}},
		}
	})
	send := func(id, agentID string) workflows.Outcome {
		if _, err := r.Client.StartTask(t.Context(), "desk", agent.Message{ID: id, Text: "go", Agent: agentID, BrowserID: rig.BrowserID}); err != nil {
			t.Fatal(err)
		}
		return result(t, r, id)
	}
	if out := send("m1", "oa"); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	if out := send("m2", ""); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	if out := send("m3", "main"); !out.Success {
		t.Errorf("outcome %+v", out)
	}
	out := send("m4", "sales")
	if out.Status != agent.StatusFailed || out.Reason != agent.ReasonNoAgent || !strings.Contains(out.Summary, "sales") {
		t.Errorf("outcome %+v", out)
	}
	if d := cmp.Diff(asked, map[string]int{"small": 4, "large": 1, "large offers navigate": 1}); d != "" {
		t.Errorf("model calls (-got +want):\n%s", d)
	}
	if n := len(host.Commands()); n != 0 {
		t.Errorf("%d commands sent beyond the agent's domains", n)
	}
	res, err := r.Store.Result(t.Context(), "m1")
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Steps) != 2 || !strings.Contains(fmt.Sprint(res.Steps[0]), string(pipe.CodeDomainNotAllowed)) {
		t.Errorf("steps %+v", res.Steps)
	}
	if s, err := r.Store.Session(t.Context(), "desk"); err != nil || s.Agent != "oa" {
		t.Errorf("the session's agent is %q, %v", s.Agent, err)
	}
	keep(t, r, "run-agent", workflows.RunWorkflowID("m1"))
	keep(t, r, "run-noagent", workflows.RunWorkflowID("m4"))
}
