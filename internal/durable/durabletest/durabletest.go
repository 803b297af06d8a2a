// Package durabletest runs the real workflows over activities that a test
// scripts, so that clients of package durable meet a durable core without
// model, database and browser.
package durabletest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

// Core is a durable core whose model is a script: the task's text is a list
// of words, one step each:
//
//	click    an action that succeeds
//	approve  an action that a person must confirm
//	slow     a model call that lasts until it is cancelled or Release is called
//	giveup   the model gives up
//
// After the last word the task is done.
type Core struct {
	server  *temporaltest.Server
	release chan struct{}
	free    sync.Once

	mu           sync.Mutex
	tasks        map[string]string
	thinks       []activities.ThinkInput
	instructions map[string][]Instruction
	acts         []activities.ActInput
	ends         chan []byte // gets the token of the next end that is recorded
}

// Instruction is an instruction as it was recorded, and how many model calls
// the run had made by then.
type Instruction struct {
	Text   string
	Thinks int
}

// New returns a core without a worker.
func New(t testing.TB, s *temporaltest.Server) *Core {
	c := &Core{server: s, release: make(chan struct{}), tasks: map[string]string{}, instructions: map[string][]Instruction{}}
	t.Cleanup(c.Release)
	return c
}

// Release lets all slow model calls go on.
func (c *Core) Release() { c.free.Do(func() { close(c.release) }) }

// HoldEnd keeps the next end of a run from being recorded: that activity's
// token is sent, and whoever gets it completes it.
func (c *Core) HoldEnd() <-chan []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = make(chan []byte, 1)
	return c.ends
}

// StartWorker runs a worker until the returned function or the end of the
// test.
func (c *Core) StartWorker(t testing.TB) (stop func()) {
	t.Helper()
	w := worker.New(c.client(t), workflows.AgentQueue, durable.WorkerOptions())
	w.RegisterWorkflowWithOptions(workflows.Session, workflow.RegisterOptions{Name: workflows.SessionType})
	w.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: workflows.RunType})
	w.RegisterWorkflowWithOptions(workflows.Fire, workflow.RegisterOptions{Name: workflows.FireType})
	activities.NewFire(durable.New(temporaltest.Logger(t, slog.LevelError), c.client(t), c.server.Namespace)).Register(w)
	for name, fn := range map[string]any{
		activities.AcceptName: c.accept, activities.BeginName: c.begin, activities.ThinkName: c.think,
		activities.CriticName: func(context.Context, activities.CriticInput) (activities.Verdict, error) {
			return activities.Verdict{}, nil
		},
		activities.PrepareName:  func(context.Context) (activities.PrepareResult, error) { return activities.PrepareResult{}, nil },
		activities.StatusName:   func(context.Context, activities.StatusInput) error { return nil },
		activities.AskName:      func(context.Context, activities.AskInput) error { return nil },
		activities.DecideName:   func(context.Context, activities.DecideInput) error { return nil },
		activities.InstructName: c.instruct, activities.FinishName: c.finish,
	} {
		w.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	return run(t, w)
}

// StartBrowser serves a browser until the returned function or the end of
// the test.
func (c *Core) StartBrowser(t testing.TB, id string) (stop func()) {
	t.Helper()
	tc := c.client(t)
	queue := activities.BrowserQueue(id)
	w := worker.New(tc, queue, worker.Options{MaxConcurrentActivityExecutionSize: 1})
	w.RegisterActivityWithOptions(c.act, activity.RegisterOptions{Name: activities.ActName})
	b := &workflows.Browser{Shelf: shelf{id}}
	w.RegisterWorkflowWithOptions(b.Run, workflow.RegisterOptions{Name: activities.BrowserWorkflow})
	stop = run(t, w)
	if _, err := tc.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: queue, TaskQueue: queue}, activities.BrowserWorkflow); err != nil {
		t.Fatal(err)
	}
	c.awaitOnline(t, tc, id)
	return stop
}

// awaitOnline waits until whoever asks for browsers is told of this one.
func (c *Core) awaitOnline(t testing.TB, tc client.Client, id string) {
	t.Helper()
	core := durable.New(temporaltest.Logger(t, slog.LevelError), tc, c.server.Namespace)
	online := func(b durable.Browser) bool { return b.ID == id && b.Online }
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		browsers, err := core.Browsers(t.Context())
		if err == nil && slices.ContainsFunc(browsers, online) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("browser %s is not online after 30 s: %+v, %v", id, browsers, err)
		}
	}
}

// A worker gets a connection of its own: each writes to the log of its test.
func (c *Core) client(t testing.TB) client.Client {
	t.Helper()
	opts, err := durable.Options(temporaltest.Logger(t, slog.LevelError), durable.Config{Address: c.server.Address, Namespace: c.server.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	tc, err := client.DialContext(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tc.Close)
	return tc
}

func run(t testing.TB, w worker.Worker) (stop func()) {
	t.Helper()
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() { once.Do(w.Stop) }
	t.Cleanup(stop)
	return stop
}

type shelf struct{ id string }

// Body finds nothing.
func (s shelf) Body(ref string) (agent.Body, error) {
	return agent.Body{}, fmt.Errorf("no observation %s", ref)
}

// Presence describes the browser.
func (s shelf) Presence() activities.Presence {
	return activities.Presence{BrowserID: s.id, AgentID: "agent-1", Version: "test", Page: agent.Page{URL: "https://oa.example/", Domain: "oa.example"}}
}

// Thinks returns the model calls of a run, in order.
func (c *Core) Thinks(runID string) []activities.ThinkInput {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []activities.ThinkInput
	for _, in := range c.thinks {
		if in.RunID == runID {
			calls = append(calls, in)
		}
	}
	return calls
}

// Instructions returns what was recorded of a run's instructions.
func (c *Core) Instructions(runID string) []Instruction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Instruction(nil), c.instructions[runID]...)
}

// Acts returns the actions that were carried out for a run.
func (c *Core) Acts(runID string) []activities.ActInput {
	c.mu.Lock()
	defer c.mu.Unlock()
	var acts []activities.ActInput
	for _, in := range c.acts {
		if in.RunID == runID {
			acts = append(acts, in)
		}
	}
	return acts
}

func (c *Core) accept(_ context.Context, in activities.AcceptInput) (activities.AcceptResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tasks[in.Message.ID] = in.Message.Text
	return activities.AcceptResult{Mode: in.Message.Mode}, nil
}

func (c *Core) begin(_ context.Context, in activities.BeginInput) (activities.BeginResult, error) {
	s := in.Message.Settings
	if s.MaxSteps == 0 {
		s.MaxSteps = 50
	}
	browser := in.Message.BrowserID
	if browser == "" {
		browser = "b1"
	}
	return activities.BeginResult{Settings: s, Browser: browser}, nil
}

func (c *Core) think(ctx context.Context, in activities.ThinkInput) (activities.ThinkResult, error) {
	in.RunID = activities.RunID(ctx, in.RunID)
	c.mu.Lock()
	c.thinks = append(c.thinks, in)
	words := strings.Fields(c.tasks[in.RunID])
	n := len(c.thinks)
	c.mu.Unlock()
	out := activities.ThinkResult{Tokens: activities.Tokens{10, 2}}
	if in.Step > len(words) {
		out.Final, out.Summary = true, "done: "+strings.Join(words, " ")
		return out, nil
	}
	word := words[in.Step-1]
	switch word {
	case "giveup":
		out.Final, out.GaveUp, out.Summary = true, true, "cannot"
		return out, nil
	case "slow":
		select {
		case <-c.release:
		case <-ctx.Done():
			return out, ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return out, context.Canceled
		}
	}
	out.Calls = []agent.Call{{ID: fmt.Sprintf("c%d", n), Action: "click", Params: json.RawMessage(`{"selector":"` + word + `"}`)}}
	return out, nil
}

func (c *Core) act(ctx context.Context, in activities.ActInput) (agent.Result, error) {
	in.RunID = activities.RunID(ctx, in.RunID)
	page := agent.Page{URL: "https://oa.example/leave", Domain: "oa.example", Title: "Leave"}
	if strings.Contains(string(in.Call.Params), "approve") && in.Grant == nil {
		return agent.Result{
			Outcome: agent.OutcomeNeedConfirm, Code: "MAC_NEED_CONFIRM", Page: page, Digest: "d1",
			Ask: &agent.Subject{Role: "button", Name: "批准", Context: "张三 年假 2 天", URL: page.URL, Domain: page.Domain, Rule: "approvals"},
		}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acts = append(c.acts, in)
	return agent.Result{Outcome: agent.OutcomeDone, Text: "ok", Page: page, ExecMS: 5}, nil
}

func (c *Core) instruct(_ context.Context, in activities.InstructInput) error {
	thinks := len(c.Thinks(in.RunID))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instructions[in.RunID] = append(c.instructions[in.RunID], Instruction{Text: in.Text, Thinks: thinks})
	return nil
}

func (c *Core) finish(ctx context.Context, in activities.FinishInput) (activities.FinishResult, error) {
	summary := in.Summary
	if summary == "" {
		summary = strings.TrimSpace(string(in.Status) + " " + in.Reason)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends != nil {
		c.ends <- activity.GetInfo(ctx).TaskToken
		c.ends = nil
		return activities.FinishResult{}, activity.ErrResultPending
	}
	return activities.FinishResult{Summary: summary}, nil
}

// Signal sends a run a signal, as any Temporal client could.
func (c *Core) Signal(t testing.TB, runID, name string, payload any) error {
	return c.server.Client.SignalWorkflow(t.Context(), workflows.RunWorkflowID(runID), "", name, payload)
}
