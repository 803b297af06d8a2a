package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"sgclaw/internal/agent"
	"sgclaw/internal/host"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// screen is an io.Writer that gives a test the lines as they come.
type screen chan string

func (s screen) Write(p []byte) (int, error) {
	s <- strings.TrimSuffix(string(p), "\n")
	return len(p), nil
}

func delicate() host.Question {
	return host.Question{
		Action: "click",
		Prompt: policy.Prompt{ZH: "批准？", EN: "Approve?"},
		Ask: pipe.ConfirmAsk{Subject: agent.Subject{
			Role: "button", Name: "批准\x1b[2J", Context: "张三 2 天", Domain: "oa.example.com",
		}},
	}
}

func TestQuestionsAtTheTerminal(t *testing.T) {
	for _, c := range []struct {
		typed    string
		yes, err bool
	}{
		{"yes q1\n", true, false},
		{"maybe\ny\n", true, false},
		{"yes q9\nno q1\n", false, false},
		{"n\n", false, false},
		{"", false, true},
	} {
		out := make(screen, 20)
		con := newConsole(out, "en", func() {})
		in, typing := io.Pipe()
		go con.read(t.Context(), in)
		type answer struct {
			yes bool
			err error
		}
		got := make(chan answer, 1)
		go func() {
			yes, err := con.Ask(t.Context(), delicate())
			got <- answer{yes, err}
		}()
		if line := <-out; line != "Approve?" {
			t.Errorf("prompt %q", line)
		}
		if line := <-out; !strings.Contains(line, "批准") || strings.Contains(line, "\x1b") {
			t.Errorf("question %q", line)
		}
		if _, err := io.WriteString(typing, c.typed); err != nil {
			t.Fatal(err)
		}
		_ = typing.Close()
		if a := <-got; a.yes != c.yes || (a.err != nil) != c.err {
			t.Errorf("typed %q: %v, %v", c.typed, a.yes, a.err)
		}
	}
}

func TestQuestionThatIsNotWantedAnyMore(t *testing.T) {
	out := make(screen, 20)
	con := newConsole(out, "zh", func() {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := con.Ask(ctx, delicate())
		done <- err
	}()
	if line := <-out; line != "批准？" {
		t.Errorf("prompt %q", line)
	}
	<-out
	cancel()
	if err := <-done; err == nil {
		t.Error("answered")
	}
	con.line(ctx, "yes q1")
	<-out
	if line := <-out; line != "没有这个问题" {
		t.Errorf("late answer: %q", line)
	}
}

func TestNobodyAtTheTerminal(t *testing.T) {
	con := newConsole(io.Discard, "en", func() {})
	con.read(t.Context(), strings.NewReader(""))
	if _, err := con.Ask(t.Context(), delicate()); err == nil {
		t.Error("answered")
	}
}

func TestConsoleShowsWhatTheAgentSays(t *testing.T) {
	var mu sync.Mutex
	var b strings.Builder
	con := newConsole(writer(func(p []byte) { mu.Lock(); b.Write(p); mu.Unlock() }), "en", func() {})
	con.talk = true
	for _, m := range []struct {
		t    pipe.Type
		line string
	}{
		{pipe.TypeLog, `{"type":"log","time":"2026-01-02T03:04:05Z","level":"info","message":"正在分析指令"}`},
		{pipe.TypeState, `{"type":"state","state":"offline","detail":"server is away"}`},
		{pipe.TypeTaskComplete, `{"type":"task_complete","task_id":"t1","run_id":"t1","success":true,"status":"done","summary":"好"}`},
		{pipe.TypeConfirmRequired, `{"type":"confirm_required","task_id":"t1","action_id":"a","action":"click","domain":"oa.example.com","ask":{"role":"button","name":"批准","domain":"oa.example.com"}}`},
	} {
		con.OnMessage(m.t, json.RawMessage(m.line))
	}
	con.OnStateChanged(host.StateCrashed)
	con.OnCrash(7, "goroutine 1\npanic: gone\n")
	for _, want := range []string{"正在分析指令", "tasks are kept (server is away)", "task t1 done: 好", "q1: allow click button “批准”", "agent crashed", "status 7: panic: gone"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not shown in:\n%s", want, b.String())
		}
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
