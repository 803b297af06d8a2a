package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/host"
	"sgclaw/internal/pipe"
)

// fakeAgent notes what the panel has done with it.
type fakeAgent struct {
	mu    sync.Mutex
	did   []string
	fault error
}

func (a *fakeAgent) note(format string, args ...any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault != nil {
		return a.fault
	}
	a.did = append(a.did, fmt.Sprintf(format, args...))
	return nil
}

func (a *fakeAgent) Start(context.Context) error { return a.note("start") }
func (a *fakeAgent) Stop()                       { _ = a.note("stop") }
func (a *fakeAgent) SubmitTask(t pipe.SubmitTask) error {
	return a.note("task %s %s", t.Instruction, t.Locale)
}
func (a *fakeAgent) Confirm(c pipe.Confirm) error {
	return a.note("confirm %s %v %s%s", c.ActionID, c.Approved, c.Note, c.Scope)
}

// fakeDocument gives a test what the page is told and answered.
type fakeDocument struct {
	told    chan string
	answers chan panelResponse
	fault   error
}

func newDocument() *fakeDocument {
	return &fakeDocument{told: make(chan string, 1000), answers: make(chan panelResponse, 1000)}
}

func (d *fakeDocument) Tell(_ context.Context, handler string, arg any) error {
	if d.fault != nil {
		return d.fault
	}
	b, err := json.Marshal(arg)
	d.told <- handler + string(b)
	return err
}

func (d *fakeDocument) Answer(_ context.Context, _ int64, response any) error {
	d.answers <- response.(panelResponse)
	return nil
}

// hears waits until the page is told something that contains each text, in
// this order, and returns the last.
func (d *fakeDocument) hears(t *testing.T, want ...string) (last string) {
	t.Helper()
	for _, w := range want {
		for last = ""; last == "" || !strings.Contains(last, w); {
			select {
			case last = <-d.told:
			case <-time.After(10 * time.Second):
				t.Fatalf("the page was never told %q", w)
			}
		}
	}
	return last
}

func sitAtPanel(t *testing.T) (*sidePanel, *fakeAgent) {
	t.Helper()
	p, a := newPanel(plain(t).log, "en"), &fakeAgent{}
	p.agent = a
	close(p.attached)
	go p.run(t.Context())
	return p, a
}

func (p *sidePanel) do(t *testing.T, name, params string) panelResponse {
	t.Helper()
	d := newDocument()
	p.call(t.Context(), d, 1, name, json.RawMessage(params))
	select {
	case r := <-d.answers:
		return r
	case <-time.After(10 * time.Second):
		t.Fatalf("%s %s is not answered", name, params)
		return panelResponse{}
	}
}

func required(id, task string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"confirm_required","task_id":%q,"action_id":%q,"action":"click","domain":"oa.example.com",`+
		`"ask":{"role":"button","name":"批准","context":"张三 2 天","domain":"oa.example.com"},"image":"/9j/"}`, task, id))
}

func logged(task, message string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"log","task_id":%q,"time":"2026-01-02T03:04:05Z","level":"info","message":%q}`, task, message))
}

func TestPanelFunctions(t *testing.T) {
	p, a := sitAtPanel(t)
	p.OnMessage(pipe.TypeConfirmRequired, required("a1", "t1"))
	p.OnMessage(pipe.TypeConfirmRequired, required("a3", "t3"))
	long := strings.Repeat("x", agent.MaxInstruction+1)
	for _, c := range []struct {
		name, params, code string
	}{
		{"sgclaw_start", `{}`, ""},
		{"sgclaw_submit_task", `{"instruction":"导出本月合规报表"}`, ""},
		{"sgclaw_submit_task", `{"instruction":" "}`, panelInvalidParams},
		{"sgclaw_submit_task", `{"instruction":"` + long + `"}`, panelTooLong},
		{"sgclaw_submit_task", `{"instruction":"x","session":"another"}`, panelInvalidParams},
		{"sgclaw_submit_task", `{"instruction":7}`, panelInvalidParams},
		{"sgclaw_submit_task", `[]`, panelInvalidParams},
		{"sgclaw_submit_task", `null`, panelInvalidParams},
		{"sgclaw_submit_task", ``, panelInvalidParams},
		{"sgclaw_submit_task", `{"instruction":"x"} {}`, panelInvalidParams},
		{"sgclaw_confirm", `{"action_id":"a1"}`, panelInvalidParams},
		{"sgclaw_confirm", `{"action_id":"a1","approved":null}`, panelInvalidParams},
		{"sgclaw_confirm", `{"action_id":"a1","approved":"yes"}`, panelInvalidParams},
		{"sgclaw_confirm", `{"action_id":"a2","approved":true}`, panelUnknownConfirm},
		{"sgclaw_confirm", `{"action_id":"a1","approved":false,"note":"` + long + `"}`, panelTooLong},
		{"sgclaw_confirm", `{"action_id":"a1","approved":true,"scope":"always"}`, panelInvalidParams},
		{"sgclaw_confirm", `{"action_id":"a3","approved":true,"scope":"run"}`, ""},
		{"sgclaw_confirm", `{"action_id":"a1","approved":false,"note":"不是这张"}`, ""},
		{"sgclaw_confirm", `{"action_id":"a1","approved":true}`, panelUnknownConfirm},
		{"sgclaw_stop", `{}`, ""},
		{"sgclaw_stop", `{"force":true}`, panelInvalidParams},
		{"sgclaw_eval", `{}`, panelUnknownFunction},
	} {
		r := p.do(t, c.name, c.params)
		if r.Code != c.code || r.Success != (c.code == "") || (r.Error != "") != (c.code != "") {
			t.Errorf("%s %.80s: %+v, want %q", c.name, c.params, r, c.code)
		}
	}
	want := []string{"start", "task 导出本月合规报表 en", "confirm a3 true run", "confirm a1 false 不是这张", "stop"}
	if diff := cmp.Diff(a.did, want); diff != "" {
		t.Error(diff)
	}
}

func TestPanelWithoutAnAgent(t *testing.T) {
	p, a := sitAtPanel(t)
	a.fault = host.ErrNotRunning
	p.OnMessage(pipe.TypeConfirmRequired, required("a1", "t1"))
	if r := p.do(t, "sgclaw_submit_task", `{"instruction":"x"}`); r.Code != panelNotRunning {
		t.Errorf("task: %+v", r)
	}
	if r := p.do(t, "sgclaw_confirm", `{"action_id":"a1","approved":true}`); r.Code != panelNotRunning {
		t.Errorf("answer: %+v", r)
	}
	// What could not be sent is still to be answered.
	a.fault = nil
	if r := p.do(t, "sgclaw_confirm", `{"action_id":"a1","approved":true}`); !r.Success {
		t.Errorf("answer: %+v", r)
	}
	a.fault = host.ErrAlreadyRunning
	if r := p.do(t, "sgclaw_start", `{}`); r.Code != panelAlreadyRunning {
		t.Errorf("start: %+v", r)
	}
	a.fault = errors.New("no such file")
	if r := p.do(t, "sgclaw_start", `{}`); r.Code != panelStartFailed || !strings.Contains(r.Error, "no such file") {
		t.Errorf("start: %+v", r)
	}
}

func TestPanelEvents(t *testing.T) {
	p, _ := sitAtPanel(t)
	d := newDocument()
	p.ready(d)
	d.hears(t, `onStateChanged"stopped"`)
	p.OnStateChanged(host.StateStarting)
	d.hears(t, `onStateChanged"starting"`)
	p.OnStateChanged(host.StateRunning)
	d.hears(t, `onStateChanged"running"`)
	p.OnMessage(pipe.TypeState, json.RawMessage(`{"type":"state","state":"offline","detail":"refused"}`))
	d.hears(t, `onLogEntry{"time":"`, `onStateChanged"starting"`)
	p.OnMessage(pipe.TypeState, json.RawMessage(`{"type":"state","state":"running"}`))
	d.hears(t, `onStateChanged"running"`)

	p.OnMessage(pipe.TypeLog, logged("t1", "正在分析指令..."))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local().Format(time.TimeOnly)
	if got, want := d.hears(t, "onLogEntry"), `onLogEntry{"time":"`+at+`","message":"正在分析指令...","level":"info","task_id":"t1"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.OnMessage(pipe.TypeConfirmRequired, required("a1", "t1"))
	want := `onConfirmRequired{"id":"a1","type":"click","domain":"oa.example.com","task_id":"t1","role":"button","name":"批准","context":"张三 2 天","picture":"data:image/jpeg;base64,/9j/"}`
	if got := d.hears(t, "onConfirmRequired"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Somebody has answered elsewhere: the task goes on.
	p.OnMessage(pipe.TypeLog, logged("t1", "点击“批准”"))
	d.hears(t, `onConfirmClosed{"id":"a1"}`, "onLogEntry")
	if r := p.do(t, "sgclaw_confirm", `{"action_id":"a1","approved":true}`); r.Code != panelUnknownConfirm {
		t.Errorf("answer to what is settled: %+v", r)
	}
	p.OnMessage(pipe.TypeTaskComplete, json.RawMessage(`{"type":"task_complete","task_id":"t1","run_id":"t1","success":true,"status":"done","summary":"已成功导出3份报表"}`))
	want = `onTaskCompleted{"success":true,"summary":"已成功导出3份报表","status":"done","task_id":"t1","run_id":"t1"}`
	if got := d.hears(t, "onTaskCompleted"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.OnMessage(pipe.TypeConfirmRequired, required("a2", "t2"))
	p.OnStateChanged(host.StateCrashed)
	p.OnCrash(7, "goroutine 1\npanic: gone\n")
	d.hears(t, `onConfirmClosed{"id":"a2"}`, `onStateChanged"error"`, `status 7: panic: gone`)
}

// TestPanelThatIsLoaded: what happens while no page is there waits for it, in
// order and bounded; a page that is loaded again gets it anew.
func TestPanelThatIsLoaded(t *testing.T) {
	p, _ := sitAtPanel(t)
	p.OnStateChanged(host.StateStarting)
	p.OnStateChanged(host.StateRunning)
	p.OnMessage(pipe.TypeConfirmRequired, required("a1", "t1"))
	p.OnMessage(pipe.TypeConfirmRequired, required("a2", "t2"))
	if r := p.do(t, "sgclaw_confirm", `{"action_id":"a2","approved":true}`); !r.Success {
		t.Fatal(r)
	}
	for i := range 3 * maxPanelPast {
		p.OnMessage(pipe.TypeLog, logged("t9", fmt.Sprintf("line %d.", i)))
	}
	if n := len(p.events); n > maxPanelPast {
		t.Errorf("%d events are kept", n)
	}
	gone := newDocument()
	gone.fault = errors.New("no such document")
	p.ready(gone)
	for range 2 {
		d := newDocument()
		p.ready(d)
		var all []string
		for len(all) == 0 || !strings.Contains(all[len(all)-1], fmt.Sprintf("line %d.", 3*maxPanelPast-1)) {
			all = append(all, d.hears(t, "on"))
		}
		if all[0] != `onStateChanged"running"` || !strings.HasPrefix(all[1], `onConfirmRequired{"id":"a1"`) {
			t.Errorf("begins with %s, %s", all[0], all[1])
		}
		if n := len(all); n > maxPanelPast || n < maxPanelPast/2 {
			t.Errorf("%d events", n)
		}
		if strings.Contains(strings.Join(all, "\n"), `onConfirmRequired{"id":"a2"`) {
			t.Error("a question that was answered is asked again")
		}
	}
}

func TestPanelAsksForTheHost(t *testing.T) {
	p, _ := sitAtPanel(t)
	d := newDocument()
	p.ready(d)
	type answer struct {
		yes bool
		err error
	}
	ask := func(ctx context.Context) <-chan answer {
		got := make(chan answer, 1)
		go func() {
			yes, err := prompters{nobody{}, p}.Ask(ctx, delicate())
			got <- answer{yes, err}
		}()
		return got
	}
	asked := func() string {
		var c panelConfirm
		text := strings.TrimPrefix(d.hears(t, onConfirm), onConfirm)
		if err := json.Unmarshal([]byte(text), &c); err != nil || c.Prompt.ZH != "批准？" || c.Domain != "oa.example.com" || c.Type != "click" {
			t.Errorf("asked %s, %v", text, err)
		}
		return c.ID
	}
	for _, yes := range []bool{true, false} {
		got := ask(t.Context())
		if r := p.do(t, "sgclaw_confirm", fmt.Sprintf(`{"action_id":%q,"approved":%v}`, asked(), yes)); !r.Success {
			t.Fatal(r)
		}
		if a := <-got; a.err != nil || a.yes != yes {
			t.Errorf("answered %v: %+v", yes, a)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := ask(ctx)
	id := asked()
	cancel()
	if a := <-got; a.err == nil {
		t.Errorf("withdrawn: %+v", a)
	}
	d.hears(t, `onConfirmClosed{"id":"`+id)
	// The person closes the panel: nobody has answered.
	got = ask(t.Context())
	asked()
	p.closed()
	if a := <-got; a.err == nil || a.yes {
		t.Errorf("closed: %+v", a)
	}
	// The next question brings it back.
	reopened := make(chan struct{})
	p.reopen = func() { p.ready(d); close(reopened) }
	got = ask(t.Context())
	<-reopened
	if r := p.do(t, "sgclaw_confirm", fmt.Sprintf(`{"action_id":%q,"approved":true}`, asked())); !r.Success {
		t.Fatal(r)
	}
	if a := <-got; !a.yes {
		t.Errorf("after it came back: %+v", a)
	}
}

// nobody is a Prompter who cannot answer.
type nobody struct{}

func (nobody) Ask(context.Context, host.Question) (bool, error) {
	return false, errors.New("nobody is there")
}

func TestPanelThatFloods(t *testing.T) {
	p, a := sitAtPanel(t)
	d := newDocument()
	for range 10 * maxPanelMinute {
		p.call(t.Context(), d, 1, "sgclaw_submit_task", json.RawMessage(`{"instruction":"x"}`))
	}
	refused := 0
	for range 2 * maxPanelMinute {
		if r := <-d.answers; r.Code == panelTooMany {
			refused++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.did) > maxPanelMinute || len(a.did)+refused != 2*maxPanelMinute {
		t.Errorf("%d tasks, %d refused", len(a.did), refused)
	}
	for i := range 3 * maxPanelAsks {
		p.OnMessage(pipe.TypeConfirmRequired, required(fmt.Sprint("a", i), "t1"))
	}
	if len(p.open) != maxPanelAsks {
		t.Errorf("%d questions are open", len(p.open))
	}
}

func FuzzPanelCall(f *testing.F) {
	f.Add("sgclaw_submit_task", `{"instruction":"导出"}`)
	f.Add("sgclaw_confirm", `{"action_id":"a1","approved":true,"note":"n"}`)
	f.Add("sgclaw_confirm", `{"ACTION_ID":"a1","approved":true}`)
	f.Add("sgclaw_start", `{}`)
	f.Add("", `null`)
	f.Fuzz(func(t *testing.T, name, params string) {
		p, a := newPanel(plain(t).log, "zh"), &fakeAgent{}
		p.agent = a
		p.OnMessage(pipe.TypeConfirmRequired, required("a1", "t1"))
		r := p.carryOut(t.Context(), name, json.RawMessage(params))
		if r.Success == (r.Code != "") || r.Success == (r.Error != "") {
			t.Errorf("%+v", r)
		}
		if r.Success != (len(a.did) == 1) || len(a.did) > 1 {
			t.Errorf("%+v and did %q", r, a.did)
		}
		if r.Success && !json.Valid([]byte(params)) {
			t.Errorf("did %q for %q", a.did, params)
		}
	})
}

func TestPanelIsServedToNobodyElse(t *testing.T) {
	url, l, err := servePanel(plain(t).log, fstest.MapFS{"index.html": {Data: []byte("<!DOCTYPE html>panel")}, "assets/a.js": {Data: []byte("1")}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	base := "http://" + l.Addr().String()
	for _, c := range []struct {
		url, host string
		want      int
	}{
		{url, "", 200},
		{url + "assets/a.js", "", 200},
		{url + "../", "", 404},
		{url, "panel.attacker.example", 421},
		{base + "/", "", 404},
		{base + "/index.html", "", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s %s: %d, want %d", c.url, c.host, res.StatusCode, c.want)
		}
		if c.want == 200 && !strings.Contains(res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", c.url, res.Header)
		}
	}
}
