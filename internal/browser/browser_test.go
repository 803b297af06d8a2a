package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

// fakeHost is the browser's end of a pipe in memory.
type fakeHost struct {
	t      testing.TB
	r      *pipe.Reader
	w      *pipe.Writer
	key    pipe.Key
	guard  pipe.SeqGuard
	closer io.Closer // of the host's write end
	read   io.Closer // of the host's read end
}

// connect joins a running client to a host. Everything has ended when the
// test has.
func connect(t testing.TB, capabilities ...string) (*Client, *fakeHost) {
	t.Helper()
	fromHost, toAgent := io.Pipe()
	fromAgent, toHost := io.Pipe()
	key, err := pipe.DeriveKey([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	c := New(slog.New(slog.DiscardHandler), pipe.NewReader(fromHost), pipe.NewWriter(toHost), pipe.Handshake{
		Key: key, Init: pipe.Init{Capabilities: capabilities, Page: &agent.Page{URL: "http://oa.example.com/", Domain: "oa.example.com"}},
	})
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run() })
	h := &fakeHost{t: t, r: pipe.NewReader(fromAgent), w: pipe.NewWriter(toAgent), key: key, closer: toAgent, read: fromAgent}
	t.Cleanup(func() {
		_ = toAgent.Close()
		_ = fromAgent.Close()
		wg.Wait()
	})
	return c, h
}

// next returns the agent's next message; a command is checked as a host
// checks it.
func (h *fakeHost) next() any {
	h.t.Helper()
	line, err := h.r.Next()
	if err != nil {
		h.t.Error(err)
		return nil
	}
	m, bad := pipe.Decode(line)
	if bad != nil {
		h.t.Error(bad)
		return nil
	}
	if cmd, ok := m.(*pipe.Command); ok {
		if bad := pipe.Verify(line, h.key); bad != nil {
			h.t.Error(bad)
		}
		if bad := h.guard.Accept(cmd.Seq); bad != nil {
			h.t.Error(bad)
		}
	}
	return m
}

func (h *fakeHost) command() *pipe.Command {
	h.t.Helper()
	cmd, ok := h.next().(*pipe.Command)
	if !ok {
		h.t.Error("the agent's message is no command")
		return &pipe.Command{}
	}
	return cmd
}

func (h *fakeHost) say(message any) {
	h.t.Helper()
	if err := h.w.Write(message); err != nil {
		h.t.Error(err)
	}
}

func (h *fakeHost) line(line string) {
	h.t.Helper()
	if err := h.w.WriteLine([]byte(line)); err != nil {
		h.t.Error(err)
	}
}

func (h *fakeHost) answer(seq uint64, data pipe.Data) {
	h.t.Helper()
	h.say(&pipe.Response{Seq: seq, Type: pipe.TypeResponse, Success: true, Data: &data})
}

func (h *fakeHost) wantError(seq uint64, code pipe.Code) {
	h.t.Helper()
	m, ok := h.next().(*pipe.ErrorMessage)
	if !ok || m.Seq != seq || m.Code != code {
		h.t.Errorf("the agent says %+v, want error %s for %d", m, code, seq)
	}
}

func click() pipe.Command {
	return pipe.Command{Action: "click", Params: json.RawMessage(`{"selector":"#a"}`),
		Security: pipe.Security{ExpectedDomain: "oa.example.com"}}
}

func on(page string) pipe.Command {
	cmd := click()
	cmd.PageID = page
	return cmd
}

type reply struct {
	resp pipe.Response
	held time.Duration
	err  error
}

func do(ctx context.Context, c *Client, cmd pipe.Command, late func(pipe.Response)) <-chan reply {
	out := make(chan reply, 1)
	go func() {
		resp, held, err := c.Do(ctx, cmd, late)
		out <- reply{resp, held, err}
	}()
	return out
}

func TestDo(t *testing.T) {
	c, h := connect(t)
	for want := uint64(1); want <= 3; want++ {
		got := do(t.Context(), c, click(), nil)
		cmd := h.command()
		if cmd.Seq != want || cmd.Action != "click" || cmd.Security.ExpectedDomain != "oa.example.com" {
			t.Errorf("command %+v", cmd)
		}
		h.answer(cmd.Seq, pipe.Data{Text: fmt.Sprint(want)})
		if r := <-got; r.err != nil || !r.resp.Success || r.resp.Data.Text != fmt.Sprint(want) || r.held != 0 {
			t.Errorf("reply %+v", r)
		}
	}
}

func TestPagesAreRemembered(t *testing.T) {
	c, h := connect(t)
	if p, ok := c.Page(""); !ok || p.Domain != "oa.example.com" {
		t.Errorf("page of init: %+v, %v", p, ok)
	}
	step := func(cmd pipe.Command, resp pipe.Response) {
		t.Helper()
		got := do(t.Context(), c, cmd, nil)
		resp.Type, resp.Seq = pipe.TypeResponse, h.command().Seq
		h.say(&resp)
		if r := <-got; r.err != nil {
			t.Fatal(r.err)
		}
	}
	main := agent.Page{URL: "http://erp.example.com/", Domain: "erp.example.com", Title: "ERP"}
	// An error says where the page stands, too.
	step(click(), pipe.Response{Error: &pipe.Error{Code: pipe.CodeSelectorNotFound}, Data: &pipe.Data{Page: &main}})
	zombie := agent.Page{URL: "http://hr.example.com/", Domain: "hr.example.com"}
	step(pipe.Command{Action: "zombieSpawn", Params: json.RawMessage(`{"url":"http://hr.example.com/"}`)},
		pipe.Response{Success: true, Data: &pipe.Data{PageID: "z1", Page: &zombie}})
	if p, _ := c.Page(""); p != main {
		t.Errorf("main page %+v", p)
	}
	if p, ok := c.Page("z1"); !ok || p != zombie {
		t.Errorf("zombie %+v, %v", p, ok)
	}
	step(on("z1"), pipe.Response{Error: &pipe.Error{Code: pipe.CodeZombieNotFound}})
	if _, ok := c.Page("z1"); ok {
		t.Error("the zombie is gone and still remembered")
	}
}

func TestOneCommandAPage(t *testing.T) {
	c, h := connect(t)
	first := do(t.Context(), c, click(), nil)
	one := h.command()
	second := do(t.Context(), c, click(), nil)
	// Another page does not wait; the second command for the main page does,
	// or it would come first.
	other := do(t.Context(), c, on("z1"), nil)
	z := h.command()
	if z.PageID != "z1" {
		t.Errorf("the next command is %+v", z)
	}
	h.answer(z.Seq, pipe.Data{})
	<-other
	h.answer(one.Seq, pipe.Data{})
	<-first
	h.answer(h.command().Seq, pipe.Data{})
	if r := <-second; r.err != nil {
		t.Error(r.err)
	}
}

func TestWaitingForThePageIsNotSending(t *testing.T) {
	c, h := connect(t)
	first := do(t.Context(), c, click(), nil)
	one := h.command()
	ctx, cancel := context.WithCancel(t.Context())
	second := do(ctx, c, click(), nil)
	cancel()
	if r := <-second; !errors.Is(r.err, pipe.ErrNotSent) || !errors.Is(r.err, context.Canceled) {
		t.Errorf("cancelled while waiting: %v", r.err)
	}
	c.Drain()
	if r := <-do(t.Context(), c, click(), nil); !errors.Is(r.err, pipe.ErrNotSent) {
		t.Errorf("draining: %v", r.err)
	}
	h.answer(one.Seq, pipe.Data{})
	if r := <-first; r.err != nil {
		t.Errorf("command in hand while draining: %v", r.err)
	}
}

func TestCancelledCommandAnswersLate(t *testing.T) {
	c, h := connect(t)
	late := make(chan pipe.Response, 1)
	ctx, cancel := context.WithCancel(t.Context())
	got := do(ctx, c, click(), func(r pipe.Response) { late <- r })
	cmd := h.command()
	cancel()
	if r := <-got; !errors.Is(r.err, context.Canceled) || errors.Is(r.err, pipe.ErrNotSent) {
		t.Errorf("cancelled: %v", r.err)
	}
	// The host is still at it, so the page is taken.
	next := do(t.Context(), c, click(), nil)
	h.answer(cmd.Seq, pipe.Data{Text: "after all"})
	if r := <-late; r.Data.Text != "after all" {
		t.Errorf("late response %+v", r)
	}
	h.answer(h.command().Seq, pipe.Data{})
	if r := <-next; r.err != nil {
		t.Error(r.err)
	}
	// It was answered; a second response is one too many.
	h.answer(cmd.Seq, pipe.Data{})
	h.wantError(cmd.Seq, pipe.CodeUnknownSeq)
}

func TestCancelledCommandIsTakenBack(t *testing.T) {
	c, h := connect(t, pipe.CapCancel)
	late := make(chan pipe.Response, 1)
	ctx, cancel := context.WithCancel(t.Context())
	got := do(ctx, c, click(), func(r pipe.Response) { late <- r })
	cmd := h.command()
	cancel()
	if r := <-got; !errors.Is(r.err, context.Canceled) {
		t.Errorf("cancelled: %v", r.err)
	}
	if m, ok := h.next().(*pipe.Cancel); !ok || m.Seq != cmd.Seq {
		t.Errorf("the agent says %+v, want cancel of %d", m, cmd.Seq)
	}
	next := do(t.Context(), c, click(), nil)
	h.say(&pipe.Response{Seq: cmd.Seq, Type: pipe.TypeResponse, Error: pipe.Errorf(pipe.CodeCancelled, "taken back")})
	if r := <-late; r.Error == nil || r.Error.Code != pipe.CodeCancelled {
		t.Errorf("late response %+v", r)
	}
	// The page is free.
	h.answer(h.command().Seq, pipe.Data{})
	if r := <-next; r.err != nil {
		t.Error(r.err)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := connect(t)
		late := make(chan pipe.Response, 1)
		began := time.Now()
		got := do(t.Context(), c, click(), func(r pipe.Response) { late <- r })
		cmd := h.command()
		r := <-got
		var e *pipe.Error
		if !errors.As(r.err, &e) || e.Code != pipe.CodeTimeout {
			t.Errorf("overdue: %v", r.err)
		}
		if took := time.Since(began); took != pipe.CommandTimeout {
			t.Errorf("overdue after %v", took)
		}
		h.answer(cmd.Seq, pipe.Data{Text: "too late"})
		if r := <-late; r.Data.Text != "too late" {
			t.Errorf("late response %+v", r)
		}
	})
}

func TestHeldCommandHasNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := connect(t)
		got := do(t.Context(), c, click(), nil)
		cmd := h.command()
		time.Sleep(20 * time.Second)
		pending := &pipe.ConfirmPending{Type: pipe.TypeConfirmPending, Seq: cmd.Seq, Ask: pipe.ConfirmAsk{Digest: "d"}}
		h.say(pending)
		h.say(pending) // once more makes no difference
		time.Sleep(3 * time.Hour)
		h.answer(cmd.Seq, pipe.Data{Text: "approved"})
		if r := <-got; r.err != nil || r.resp.Data.Text != "approved" || r.held != 3*time.Hour {
			t.Errorf("held command: %+v", r)
		}
		h.say(&pipe.ConfirmPending{Type: pipe.TypeConfirmPending, Seq: 99, Ask: pipe.ConfirmAsk{Digest: "d"}})
		h.wantError(99, pipe.CodeUnknownSeq)
	})
}

func TestPipeCloses(t *testing.T) {
	c, h := connect(t)
	sent := do(t.Context(), c, click(), func(pipe.Response) { t.Error("late response without a pipe") })
	h.command()
	waiting := do(t.Context(), c, click(), nil)
	_ = h.closer.Close()
	if r := <-sent; !errors.Is(r.err, pipe.ErrNoAnswer) || errors.Is(r.err, pipe.ErrNotSent) {
		t.Errorf("sent command: %v", r.err)
	}
	if r := <-waiting; !errors.Is(r.err, pipe.ErrNotSent) {
		t.Errorf("waiting command: %v", r.err)
	}
	<-c.Done()
	if r := <-do(t.Context(), c, click(), nil); !errors.Is(r.err, pipe.ErrNotSent) {
		t.Errorf("new command: %v", r.err)
	}
	if err := c.Send(t.Context(), &pipe.State{Type: pipe.TypeState}); err == nil {
		t.Error("message sent into a closed pipe")
	}
}

func TestHostThatDoesNotReadBlocksNobody(t *testing.T) {
	c, h := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	// The first is being written, for the pipe has no buffer; the second
	// waits behind it in the queue.
	first := do(ctx, c, click(), nil)
	second := do(ctx, c, on("z1"), nil)
	for range 500 {
		c.Offer(&pipe.Log{Type: pipe.TypeLog, Level: "info", Message: "m"})
	}
	cancel()
	for _, r := range []reply{<-first, <-second} {
		if !errors.Is(r.err, context.Canceled) {
			t.Errorf("cancelled behind a host that does not read: %v", r.err)
		}
	}
	_ = h.read.Close()
	<-c.Done()
}

func TestUnusableLines(t *testing.T) {
	c, h := connect(t)
	for _, l := range []struct {
		line string
		seq  uint64
		code pipe.Code
	}{
		{`{"type":`, 0, pipe.CodeInvalidJSON},
		{`{"type":"dance"}`, 0, pipe.CodeUnknownType},
		{`{"type":"init","version":"1.0","hmac_seed":"000102030405060708090a0b0c0d0e0f"}`, 0, pipe.CodeUnknownType},
		{`{"type":"submit_task"}`, 0, pipe.CodeInvalidMessage},
		{`{"type":"response","seq":7,"success":true}`, 7, pipe.CodeUnknownSeq},
	} {
		h.line(l.line)
		h.wantError(l.seq, l.code)
	}
	// Errors are not answered.
	h.line(`{"type":"error","code":"PIPE_INVALID_JSON","message":"x"}`)
	h.line(`{"type":"error"}`)
	// A response that cannot be read ends its command.
	got := do(t.Context(), c, click(), nil)
	cmd := h.command()
	h.line(fmt.Sprintf(`{"type":"response","seq":%d,"success":false}`, cmd.Seq))
	h.wantError(cmd.Seq, pipe.CodeInvalidMessage)
	var e *pipe.Error
	if r := <-got; !errors.As(r.err, &e) || e.Code != pipe.CodeInvalidMessage {
		t.Errorf("unreadable response: %v", r.err)
	}
	// An error about a command is its response.
	got = do(t.Context(), c, click(), nil)
	h.say(&pipe.ErrorMessage{Type: pipe.TypeError, Seq: h.command().Seq, Code: pipe.CodeHMACInvalid, Message: "no"})
	if r := <-got; r.err != nil || r.resp.Success || r.resp.Error.Code != pipe.CodeHMACInvalid {
		t.Errorf("error about a command: %+v", r)
	}
}

func TestInbox(t *testing.T) {
	c, h := connect(t)
	h.say(&pipe.SubmitTask{Type: pipe.TypeSubmitTask, TaskID: "t1", Instruction: "做"})
	h.say(&pipe.Confirm{Type: pipe.TypeConfirm, ActionID: "a", Approved: true})
	h.say(&pipe.AbortTask{Type: pipe.TypeAbortTask, TaskID: "t1"})
	var got []any
	for range 3 {
		got = append(got, (<-c.Inbox()).Message)
	}
	want := []any{
		&pipe.SubmitTask{Type: pipe.TypeSubmitTask, TaskID: "t1", Instruction: "做"},
		&pipe.Confirm{Type: pipe.TypeConfirm, ActionID: "a", Approved: true},
		&pipe.AbortTask{Type: pipe.TypeAbortTask, TaskID: "t1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inbox (-want +got):\n%s", diff)
	}
	h.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	h.say(&pipe.Shutdown{Type: pipe.TypeShutdown})
	<-c.Shutdown()
	// Responses are still read.
	sent := make(chan error, 1)
	go func() { sent <- c.Send(t.Context(), &pipe.State{Type: pipe.TypeState, State: "stopped"}) }()
	if m, ok := h.next().(*pipe.State); !ok || m.State != "stopped" {
		t.Errorf("sent %+v", m)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestCommandTooLongIsNotSent(t *testing.T) {
	c, h := connect(t)
	long := click()
	params, err := json.Marshal(map[string]string{"selector": string(make([]byte, pipe.MaxLine))})
	if err != nil {
		t.Fatal(err)
	}
	long.Params = params
	r := <-do(t.Context(), c, long, nil)
	var e *pipe.Error
	if !errors.Is(r.err, pipe.ErrNotSent) || !errors.As(r.err, &e) || e.Code != pipe.CodeMessageTooLarge {
		t.Errorf("command of more than a line: %v", r.err)
	}
	// It took no seq.
	got := do(t.Context(), c, click(), nil)
	h.answer(h.command().Seq, pipe.Data{})
	if r := <-got; r.err != nil {
		t.Error(r.err)
	}
}
