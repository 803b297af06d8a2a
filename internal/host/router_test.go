package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

const testRules = `{
  "version": "1.0",
  "domains": {"allowed": ["oa.example.com", "erp.example.com"]},
  "pipe_actions": {
    "allowed": ["click", "type", "navigate", "getText", "select", "storageSet", "storageGet", "zombieSpawn", "zombieKill", "waitForSelector", "getAomSnapshot"],
    "blocked": ["eval", "getHtml"],
    "need_confirm": ["sessionLogin", "sessionLogout", "clearStorage"]
  },
  "confirm_when": [
    {"id": "decisions", "actions": ["click", "type"], "role": ["button"], "name": "批准|删除"},
    {"id": "exits", "actions": ["navigate"], "link": "/logout"}
  ]
}`

func parse(t *testing.T, text string) *policy.Rules {
	t.Helper()
	r, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func rules(t *testing.T, text string) func() *policy.Rules {
	r := parse(t, text)
	return func() *policy.Rules { return r }
}

// fakePages is a browser without one. Its main page is at oa.example.com.
type fakePages struct {
	mu      sync.Mutex
	pages   map[string]agent.Page
	target  page.Target
	data    pipe.Data
	nodes   []pipe.AOMNode
	done    []string // what was carried out: "<page> <action>"
	block   map[string]chan struct{}
	entered chan string // gets the page id when Do begins, if set
	login   func(page.Login) *pipe.Error
}

func newFakePages() *fakePages {
	return &fakePages{
		pages: map[string]agent.Page{
			"":   {URL: "https://oa.example.com/list", Domain: "oa.example.com", Title: "OA"},
			"z1": {ID: "z1", URL: "https://erp.example.com/", Domain: "erp.example.com"},
		},
		target: page.Target{Role: "button", Name: "查看", Context: "张三 2 天", URL: "https://oa.example.com/list", Domain: "oa.example.com"},
	}
}

func (f *fakePages) Ready(context.Context) *pipe.Error { return nil }
func (f *fakePages) Notices() []pipe.PageEvent         { return nil }

func (f *fakePages) Info(id string) (agent.Page, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.pages[id]
	return p, ok
}

func (f *fakePages) log(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, what)
}

func (f *fakePages) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *fakePages) setName(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target.Name = name
}

func (f *fakePages) Do(ctx context.Context, id string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	if f.entered != nil {
		f.entered <- id
	}
	if c := f.block[id]; c != nil {
		select {
		case <-c:
		case <-ctx.Done():
			return nil, nil, pipe.Errorf(pipe.CodeTimeout, "given up")
		}
	}
	f.mu.Lock()
	target, data := f.target, f.data
	f.mu.Unlock()
	if r.Inspect != nil {
		if fault := r.Inspect(ctx, target); fault != nil {
			return nil, nil, fault
		}
	}
	f.log(strings.TrimSpace(id + " " + r.Action))
	if r.Action == action.Navigate {
		var p action.NavigateParams
		_ = json.Unmarshal(r.Params, &p)
		f.mu.Lock()
		f.pages[id] = agent.Page{ID: id, URL: p.URL, Domain: page.Domain(p.URL)}
		f.mu.Unlock()
	}
	return &data, f.nodes, nil
}

func (f *fakePages) Spawn(_ context.Context, url string) (agent.Page, *pipe.Error) {
	f.log("spawn " + url)
	return agent.Page{ID: "z2", URL: url}, nil
}

func (f *fakePages) Kill(_ context.Context, id string) *pipe.Error {
	f.log("kill " + id)
	return nil
}

func (f *fakePages) FillLogin(_ context.Context, _ string, l page.Login) (*pipe.Data, *pipe.Error) {
	f.log("fill")
	return nil, f.login(l)
}

func (f *fakePages) ClearCookies(_ context.Context, domain string) (int, *pipe.Error) {
	f.log("cookies " + domain)
	return 2, nil
}

func (f *fakePages) ClearStorage(_ context.Context, domain string) *pipe.Error {
	f.log("storage " + domain)
	return nil
}

// talk is a conversation with a Router, seen from the agent.
type talk struct {
	t    *testing.T
	key  pipe.Key
	seq  uint64
	conv Conversation
	out  chan any
}

func open(t *testing.T, r *Router) *talk {
	t.Helper()
	seed, err := pipe.ParseSeed(pipe.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	key, err := pipe.DeriveKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{t: t, key: key, out: make(chan any, 100)}
	k.conv = r.Open(key, func(line []byte) error {
		m, fault := pipe.Decode(line)
		if fault != nil {
			t.Errorf("sent %.200s: %v", line, fault)
		}
		k.out <- m
		return nil
	})
	t.Cleanup(k.conv.Close)
	return k
}

func (k *talk) command(name, params, domain string) *pipe.Command {
	k.seq++
	return &pipe.Command{Seq: k.seq, Action: name, Params: json.RawMessage(params), Security: pipe.Security{ExpectedDomain: domain}}
}

func (k *talk) send(c *pipe.Command) {
	k.t.Helper()
	if err := pipe.Sign(c, k.key); err != nil {
		k.t.Fatal(err)
	}
	line, err := pipe.Encode(c)
	if err != nil {
		k.t.Fatal(err)
	}
	k.conv.Command(line)
}

func (k *talk) next() any {
	k.t.Helper()
	select {
	case m := <-k.out:
		return m
	case <-time.After(20 * time.Second):
		k.t.Fatal("no message")
		return nil
	}
}

func (k *talk) response() *pipe.Response {
	k.t.Helper()
	m := k.next()
	r, ok := m.(*pipe.Response)
	if !ok {
		k.t.Fatalf("got %T, want a response", m)
	}
	return r
}

func (k *talk) do(c *pipe.Command) *pipe.Response {
	k.t.Helper()
	k.send(c)
	return k.response()
}

func code(r *pipe.Response) pipe.Code {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func TestMAC(t *testing.T) {
	const oa, erp = "oa.example.com", "erp.example.com"
	for _, c := range []struct {
		name, action, params, domain, page string
		want                               pipe.Code
	}{
		{name: "allowed", action: "getText", params: `{"selector":"h1"}`, domain: oa},
		{name: "blocked goes before all", action: "eval", params: `{}`, domain: "evil.example", want: pipe.CodeActionBlocked},
		{name: "not permitted", action: "pageScreenshot", params: `{}`, domain: oa, want: pipe.CodeActionNotAllowed},
		{name: "unknown", action: "fly", params: `{}`, domain: oa, want: pipe.CodeActionNotAllowed},
		{name: "parameters", action: "click", params: `{}`, domain: oa, want: pipe.CodeInvalidParams},
		{name: "domain not allowed", action: "getText", params: `{"selector":"h1"}`, domain: "evil.example", want: pipe.CodeDomainNotAllowed},
		{name: "no domain", action: "getText", params: `{"selector":"h1"}`, domain: "", want: pipe.CodeDomainNotAllowed},
		{name: "mismatch", action: "getText", params: `{"selector":"h1"}`, domain: erp, want: pipe.CodeDomainMismatch},
		{name: "other spelling", action: "getText", params: `{"selector":"h1"}`, domain: "OA.example.com."},
		{name: "navigate counts its target", action: "navigate", params: `{"url":"https://erp.example.com/x"}`, domain: erp},
		{name: "navigate as the page", action: "navigate", params: `{"url":"https://erp.example.com/x"}`, domain: oa, want: pipe.CodeDomainMismatch},
		{name: "navigate elsewhere", action: "navigate", params: `{"url":"https://evil.example/"}`, domain: "evil.example", want: pipe.CodeDomainNotAllowed},
		{name: "navigate by lying", action: "navigate", params: `{"url":"https://evil.example/"}`, domain: oa, want: pipe.CodeDomainMismatch},
		{name: "navigate to a file", action: "navigate", params: `{"url":"file:///etc/passwd"}`, domain: oa, want: pipe.CodeInvalidParams},
		{name: "storage prefix", action: "storageGet", params: `{"key":"token"}`, domain: oa, want: pipe.CodeInvalidParams},
		{name: "storage", action: "storageSet", params: `{"key":"sgclaw.a","value":"b"}`, domain: oa},
		{name: "background page", action: "getText", params: `{"selector":"h1"}`, domain: erp, page: "z1"},
		{name: "background page, main's domain", action: "getText", params: `{"selector":"h1"}`, domain: oa, page: "z1", want: pipe.CodeDomainMismatch},
		{name: "no such page", action: "getText", params: `{"selector":"h1"}`, domain: erp, page: "z9", want: pipe.CodeZombieNotFound},
		{name: "kill by its domain", action: "zombieKill", params: `{"page_id":"z1"}`, domain: erp},
		{name: "kill by the main page's", action: "zombieKill", params: `{"page_id":"z1"}`, domain: oa},
		{name: "kill nothing", action: "zombieKill", params: `{"page_id":"z9"}`, domain: oa, want: pipe.CodeZombieNotFound},
		{name: "log-in needs a person", action: "sessionLogin", params: `{"domain":"oa.example.com"}`, domain: oa, want: pipe.CodeNeedConfirm},
		{name: "log-in elsewhere", action: "sessionLogin", params: `{"domain":"evil.example"}`, domain: oa, want: pipe.CodeDomainNotAllowed},
		{name: "navigation that a rule watches", action: "navigate", params: `{"url":"https://oa.example.com/logout"}`, domain: oa, want: pipe.CodeNeedConfirm},
	} {
		t.Run(c.name, func(t *testing.T) {
			pages := newFakePages()
			k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{Mode: ModeAnswer}))
			cmd := k.command(c.action, c.params, c.domain)
			cmd.PageID = c.page
			r := k.do(cmd)
			if got := code(r); got != c.want {
				t.Errorf("got %q (%v), want %q", got, r.Error, c.want)
			}
			if r.Data == nil || r.Data.Page == nil {
				t.Error("no data.page")
			}
			if did := pages.did(); (len(did) > 0) != (c.want == "") {
				t.Errorf("did %v", did)
			}
		})
	}
}

func TestSignatureAndOrder(t *testing.T) {
	pages := newFakePages()
	k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{}))
	text := func(seq uint64) *pipe.Command {
		c := k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com")
		c.Seq = seq
		return c
	}
	forged := text(1)
	if err := pipe.Sign(forged, k.key); err != nil {
		t.Fatal(err)
	}
	forged.Params = json.RawMessage(`{"selector":"h2"}`)
	line, err := pipe.Encode(forged)
	if err != nil {
		t.Fatal(err)
	}
	k.conv.Command(line)
	if got := code(k.response()); got != pipe.CodeHMACInvalid {
		t.Errorf("forged: %q", got)
	}
	for _, c := range []struct {
		seq  uint64
		want pipe.Code
	}{{1, ""}, {1, pipe.CodeSeqDuplicate}, {3, pipe.CodeSeqOutOfOrder}, {2, ""}} {
		r := k.do(text(c.seq))
		if code(r) != c.want || r.Seq != c.seq {
			t.Errorf("seq %d: %d %q, want %q", c.seq, r.Seq, code(r), c.want)
		}
	}
	k.conv.Command([]byte(`{"type":"command","seq":7,"action":"click"}`))
	if r := k.response(); code(r) != pipe.CodeInvalidMessage || r.Seq != 7 {
		t.Errorf("shapeless: seq %d %v", r.Seq, r.Error)
	}
}

func clickOn(k *talk, g *agent.Grant) *pipe.Command {
	c := k.command(action.Click, `{"selector":"[ref=e4]"}`, "oa.example.com")
	c.Security.Grant = g
	return c
}

func TestGrants(t *testing.T) {
	pages := newFakePages()
	pages.target.Name = "批准"
	pages.target.Picture = func(context.Context) ([]byte, error) { return []byte{0xff, 0xd8}, nil }
	k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{Mode: ModeAnswer}))

	r := k.do(clickOn(k, nil))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm == nil {
		t.Fatalf("got %v", r.Error)
	}
	ask := r.Data.Confirm
	want := agent.Subject{
		Role: "button", Name: "批准", Context: "张三 2 天", URL: "https://oa.example.com/list",
		Domain: "oa.example.com", Rule: "decisions",
	}
	if diff := cmp.Diff(ask.Subject, want); diff != "" {
		t.Error(diff)
	}
	if ask.Digest != agent.Digest("click", []byte(`{"selector":"[ref=e4]"}`), "", want) {
		t.Error("digest is not that of the command and the subject")
	}
	if len(ask.Image) == 0 {
		t.Error("no picture")
	}

	pages.setName("删除")
	first := &agent.Grant{ID: "g1", By: "w", At: time.Now(), Digest: ask.Digest}
	r = k.do(clickOn(k, first))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm.Name != "删除" {
		t.Errorf("another element: %v", r.Error)
	}
	pages.setName("批准")
	if r = k.do(clickOn(k, first)); code(r) != "" {
		t.Errorf("grant: %v", r.Error)
	}
	if r = k.do(clickOn(k, first)); code(r) != pipe.CodeGrantInvalid {
		t.Errorf("grant again: %v", r.Error)
	}
	other := clickOn(k, &agent.Grant{ID: "g2", Digest: ask.Digest})
	other.Params = json.RawMessage(`{"selector":"[ref=e5]"}`)
	if r = k.do(other); code(r) != pipe.CodeNeedConfirm {
		t.Errorf("other parameters: %v", r.Error)
	}
	if diff := cmp.Diff(pages.did(), []string{"click"}); diff != "" {
		t.Error(diff)
	}

	// By name only: the subject is the domain, as the agent's side sees it.
	out := k.command(action.SessionLogout, `{"domain":"oa.example.com"}`, "oa.example.com")
	out.Security.Grant = &agent.Grant{ID: "g3", Digest: agent.Digest(action.SessionLogout,
		[]byte(`{"domain":"oa.example.com"}`), "", agent.Subject{Domain: "oa.example.com"})}
	if r = k.do(out); code(r) != "" {
		t.Errorf("by name: %v", r.Error)
	}
}

func TestSubmitByEnterNamesTheButton(t *testing.T) {
	pages := newFakePages()
	pages.target = page.Target{Role: "textbox", Name: "意见", FormSubmit: true, SubmitName: "批准", URL: "https://oa.example.com/7"}
	k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{Mode: ModeAnswer}))
	r := k.do(k.command(action.Type, `{"selector":"#c","text":"ok\n"}`, "oa.example.com"))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm.Name != "批准" || r.Data.Confirm.Role != "button" {
		t.Errorf("got %v %+v", r.Error, r.Data.Confirm)
	}
}

// person is a Prompter whose answers a test gives.
type person struct {
	asked   chan Question
	answers chan bool
}

func (p *person) Ask(ctx context.Context, q Question) (bool, error) {
	p.asked <- q
	select {
	case yes := <-p.answers:
		return yes, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func holding(t *testing.T) (*fakePages, *person, *talk) {
	pages := newFakePages()
	pages.target.Name = "批准"
	p := &person{asked: make(chan Question, 4), answers: make(chan bool, 4)}
	return pages, p, open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{Mode: ModeHold, Prompter: p}))
}

func TestHeldCommand(t *testing.T) {
	t.Run("allowed", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		pending, ok := k.next().(*pipe.ConfirmPending)
		if !ok || pending.Seq != 1 || pending.Ask.Name != "批准" {
			t.Fatalf("got %+v", pending)
		}
		if q := <-p.asked; q.Action != "click" || q.Prompt.EN == "" {
			t.Errorf("asked %+v", q)
		}
		p.answers <- true
		if r := k.response(); code(r) != "" {
			t.Error(r.Error)
		}
		if diff := cmp.Diff(pages.did(), []string{"click"}); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("refused", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		k.next()
		p.answers <- false
		if r := k.response(); code(r) != pipe.CodeConfirmRejected {
			t.Error(r.Error)
		}
		if did := pages.did(); len(did) > 0 {
			t.Errorf("did %v", did)
		}
	})
	t.Run("another element by then", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		k.next()
		<-p.asked
		pages.setName("删除")
		p.answers <- true
		if m, ok := k.next().(*pipe.ConfirmPending); !ok || m.Ask.Name != "删除" {
			t.Fatalf("got %+v", m)
		}
		p.answers <- false
		if r := k.response(); code(r) != pipe.CodeConfirmRejected {
			t.Error(r.Error)
		}
		if did := pages.did(); len(did) > 0 {
			t.Errorf("did %v", did)
		}
	})
	t.Run("shutdown", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		k.next()
		<-p.asked
		k.conv.Wind()
		if r := k.response(); code(r) != pipe.CodeNeedConfirm {
			t.Error(r.Error)
		}
		p.answers <- true
		k.conv.Close()
		if did := pages.did(); len(did) > 0 {
			t.Errorf("did %v", did)
		}
	})
	t.Run("end of the agent", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		k.next()
		<-p.asked
		k.conv.Close()
		p.answers <- true
		if did := pages.did(); len(did) > 0 || len(k.out) > 0 {
			t.Errorf("did %v, sent %d messages", did, len(k.out))
		}
	})
}

func TestPagesInOrderAndSideBySide(t *testing.T) {
	pages := newFakePages()
	gate := make(chan struct{})
	pages.block = map[string]chan struct{}{"": gate}
	pages.entered = make(chan string, 4)
	k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{}))
	for range 2 {
		k.send(k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com"))
	}
	other := k.command(action.GetText, `{"selector":"h1"}`, "erp.example.com")
	other.PageID = "z1"
	if r := k.do(other); r.Seq != 3 || code(r) != "" {
		t.Errorf("background page waited: seq %d %v", r.Seq, r.Error)
	}
	got := []string{<-pages.entered, <-pages.entered}
	slices.Sort(got)
	if diff := cmp.Diff(got, []string{"", "z1"}); diff != "" {
		t.Errorf("entered: %s", diff)
	}
	select {
	case id := <-pages.entered:
		t.Errorf("second command on %q began before the first was done", id)
	default:
	}
	close(gate)
	for want := uint64(1); want <= 2; want++ {
		r := k.response()
		if r.Seq != want || r.Timing == nil {
			t.Errorf("seq %d, want %d", r.Seq, want)
		}
	}
}

func TestWaitAfterLeavesTimeToAnswer(t *testing.T) {
	for _, c := range []struct{ given, want, note string }{
		{`{"selector":"a"}`, `{"selector":"a"}`, ""},
		{`{"selector":"a","wait_after":0}`, `{"selector":"a","wait_after":0}`, ""},
		{`{"selector":"a","wait_after":20000}`, `{"selector":"a","wait_after":20000}`, ""},
		{`{"selector":"a","wait_after":30000}`, `{"selector":"a","wait_after":20000}`, "(waited 20000 ms of 30000)"},
	} {
		got, note := boundWait(json.RawMessage(c.given))
		if string(got) != c.want || note != c.note {
			t.Errorf("%s: %s %q", c.given, got, note)
		}
	}
}

func TestCloseCancelsAndWaits(t *testing.T) {
	pages := newFakePages()
	pages.block = map[string]chan struct{}{"": make(chan struct{})}
	pages.entered = make(chan string, 4)
	k := open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{}))
	for range 3 {
		k.send(k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com"))
	}
	<-pages.entered
	k.conv.Close()
	k.conv.Close()
	if n := len(pages.entered); n != 0 {
		t.Errorf("%d commands began after the end", n)
	}
	k.send(k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com"))
	if did := pages.did(); len(did) > 0 {
		t.Errorf("did %v", did)
	}
}

// TestCancel: what nobody waits for any more is given up, unless it is an
// effect under way.
func TestCancel(t *testing.T) {
	busy := func(t *testing.T) (*fakePages, chan struct{}, *talk) {
		pages := newFakePages()
		gate := make(chan struct{})
		pages.block = map[string]chan struct{}{"": gate}
		pages.entered = make(chan string, 4)
		return pages, gate, open(t, NewRouter(quiet(t), pages, rules(t, testRules), RouterConfig{}))
	}
	text := `{"selector":"h1"}`
	t.Run("a read under way", func(t *testing.T) {
		pages, _, k := busy(t)
		k.send(k.command(action.GetText, text, "oa.example.com"))
		<-pages.entered
		k.conv.Cancel(1)
		k.conv.Cancel(1)
		if r := k.response(); r.Seq != 1 || code(r) != pipe.CodeCancelled {
			t.Errorf("got %d %v", r.Seq, r.Error)
		}
	})
	t.Run("one that waits for its page", func(t *testing.T) {
		pages, gate, k := busy(t)
		for range 3 {
			k.send(k.command(action.GetText, text, "oa.example.com"))
		}
		<-pages.entered
		k.conv.Cancel(2)
		if r := k.response(); r.Seq != 2 || code(r) != pipe.CodeCancelled {
			t.Errorf("got %d %v", r.Seq, r.Error)
		}
		if n := len(pages.entered); n != 0 {
			t.Error("the next one did not wait for the first")
		}
		close(gate)
		for _, want := range []uint64{1, 3} {
			if r := k.response(); r.Seq != want || code(r) != "" {
				t.Errorf("got %d %v, want %d", r.Seq, r.Error, want)
			}
		}
	})
	t.Run("an effect that has not begun to act", func(t *testing.T) {
		pages, gate, k := busy(t)
		k.send(k.command(action.Click, `{"selector":"#a"}`, "oa.example.com"))
		<-pages.entered
		k.conv.Cancel(1)
		close(gate) // the element is found only now
		if r := k.response(); code(r) != pipe.CodeCancelled {
			t.Error(r.Error)
		}
		if did := pages.did(); len(did) > 0 {
			t.Errorf("did %v", did)
		}
	})
	t.Run("one that was answered, and one that never was", func(t *testing.T) {
		_, gate, k := busy(t)
		close(gate)
		if r := k.do(k.command(action.GetText, text, "oa.example.com")); code(r) != "" {
			t.Error(r.Error)
		}
		k.conv.Cancel(1)
		k.conv.Cancel(99)
		if r := k.do(k.command(action.GetText, text, "oa.example.com")); code(r) != "" {
			t.Error(r.Error)
		}
	})
	t.Run("one that is held", func(t *testing.T) {
		pages, p, k := holding(t)
		k.send(clickOn(k, nil))
		k.next()
		<-p.asked
		k.conv.Cancel(1)
		if r := k.response(); code(r) != pipe.CodeCancelled {
			t.Error(r.Error)
		}
		p.answers <- true
		k.conv.Close()
		if did := pages.did(); len(did) > 0 {
			t.Errorf("did %v", did)
		}
	})
}

// keys is a Credentials with one entry.
type keys struct{ l Login }

func (k keys) Login(domain string) (Login, error) {
	if domain != "oa.example.com" {
		return Login{}, ErrNoCredentials
	}
	return k.l, nil
}

func TestSessionLogin(t *testing.T) {
	const secret = "correct horse"
	login := Login{URL: "https://oa.example.com/login", Username: "zhangsan", Password: secret}
	text := strings.Replace(testRules, `"allowed": ["click"`, `"allowed": ["click", "sessionLogin"`, 1)
	text = strings.Replace(text, `"need_confirm": ["sessionLogin", `, `"need_confirm": [`, 1)
	run := func(t *testing.T, domain string, l Login, fill func(*fakePages) *pipe.Error) (*pipe.Response, *fakePages, *talk) {
		pages := newFakePages()
		pages.login = func(got page.Login) *pipe.Error {
			if got.Password != secret || got.User != "zhangsan" || got.Domain != "oa.example.com" {
				t.Errorf("filled in %+v", got)
			}
			return fill(pages)
		}
		k := open(t, NewRouter(quiet(t), pages, rules(t, text), RouterConfig{Credentials: keys{l}}))
		return k.do(k.command(action.SessionLogin, fmt.Sprintf(`{"domain":%q}`, domain), "oa.example.com")), pages, k
	}
	home := func(f *fakePages) *pipe.Error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.pages[""] = agent.Page{URL: "https://oa.example.com/home", Domain: "oa.example.com"}
		return nil
	}
	t.Run("works and expires", func(t *testing.T) {
		r, _, k := run(t, "oa.example.com", login, home)
		if code(r) != "" {
			t.Fatal(r.Error)
		}
		raw, err := pipe.Encode(r)
		if err != nil || bytes.Contains(raw, []byte(secret)) {
			t.Errorf("response: %v %s", err, raw)
		}
		if r := k.do(k.command(action.Navigate, `{"url":"https://oa.example.com/login"}`, "oa.example.com")); code(r) != "" {
			t.Errorf("log-in page on purpose: %v", r.Error)
		}
	})
	t.Run("still at the form", func(t *testing.T) {
		r, _, _ := run(t, "oa.example.com", login, func(*fakePages) *pipe.Error { return nil })
		if code(r) != pipe.CodeSessionLoginFail {
			t.Error(r.Error)
		}
	})
	t.Run("wrong place", func(t *testing.T) {
		l := login
		l.SuccessURL = "https://oa.example.com/desk"
		r, _, _ := run(t, "oa.example.com", l, home)
		if code(r) != pipe.CodeSessionLoginFail {
			t.Error(r.Error)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		r, pages, _ := run(t, "erp.example.com", login, home)
		if code(r) != pipe.CodeNoCredentials || len(pages.did()) > 0 {
			t.Error(r.Error, pages.did())
		}
	})
	t.Run("log-in page that is not allowed", func(t *testing.T) {
		l := login
		l.URL = "https://sso.example.org/"
		r, pages, _ := run(t, "oa.example.com", l, home)
		if code(r) != pipe.CodeDomainNotAllowed || len(pages.did()) > 0 {
			t.Error(r.Error, pages.did())
		}
	})
}

func TestReloadedRulesHold(t *testing.T) {
	now := parse(t, testRules)
	k := open(t, NewRouter(quiet(t), newFakePages(), func() *policy.Rules { return now }, RouterConfig{}))
	if got := k.do(k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com")); code(got) != "" {
		t.Fatal(got.Error)
	}
	now = parse(t, `{"version":"1.0","domains":{"allowed":["oa.example.com"]},"pipe_actions":{"allowed":["click"]}}`)
	if got := k.do(k.command(action.GetText, `{"selector":"h1"}`, "oa.example.com")); code(got) != pipe.CodeActionNotAllowed {
		t.Error(got.Error)
	}
	if fault := AllowURL(now, "https://erp.example.com/"); fault == nil || fault.Code != pipe.CodeDomainNotAllowed {
		t.Errorf("document: %v", fault)
	}
}

func TestNoResponseIsTooLong(t *testing.T) {
	long := strings.Repeat(`"<字>\`, 400_000)
	noise := image.NewRGBA(image.Rect(0, 0, 900, 900))
	for y := range 900 {
		for x := range 900 {
			noise.Set(x, y, color.RGBA{uint8(rand.Uint32()), uint8(rand.Uint32()), uint8(rand.Uint32()), 255})
		}
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, noise); err != nil {
		t.Fatal(err)
	}
	tree := []pipe.AOMNode{{Role: "text", Name: long}}
	for _, c := range []struct {
		name string
		res  pipe.Response
		kept func(pipe.Response) bool
	}{
		{"html", pipe.Response{Success: true, Data: &pipe.Data{HTML: long}}, func(r pipe.Response) bool { return len(r.Data.HTML) > 100_000 }},
		{"text", pipe.Response{Success: true, Data: &pipe.Data{Text: long}}, func(r pipe.Response) bool { return len(r.Data.Text) > 100_000 }},
		{"snapshot", pipe.Response{Success: true, Data: &pipe.Data{Snapshot: long}}, func(r pipe.Response) bool { return len(r.Data.Snapshot) > 100_000 }},
		{"tree", pipe.Response{Success: true, Data: &pipe.Data{Text: "kept"}, AOMSnapshot: tree}, func(r pipe.Response) bool { return r.AOMSnapshot == nil && r.Data.Text == "kept" }},
		{"picture", pipe.Response{Success: true, Data: &pipe.Data{Image: picture.Bytes(), MIME: "image/png"}}, func(r pipe.Response) bool {
			return r.Data.MIME == "image/jpeg" && r.Data.Scale == 0.5 && len(r.Data.Image) > 1000
		}},
		{"not a picture", pipe.Response{Success: true, Data: &pipe.Data{Image: make([]byte, 1<<20)}}, func(r pipe.Response) bool { return r.Data.Image == nil }},
		{"events", pipe.Response{Success: true, Data: &pipe.Data{Events: []pipe.PageEvent{{Text: long}}, PageID: "z1"}}, func(r pipe.Response) bool { return r.Data.PageID == "z1" }},
		{"error", pipe.Response{Error: &pipe.Error{Code: pipe.CodeInternal, Message: long}}, func(r pipe.Response) bool { return r.Error.Code == pipe.CodeInternal }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.res.Type, c.res.Seq = pipe.TypeResponse, 5
			line, err := fit(&c.res)
			if err != nil || len(line) > pipe.MaxLine {
				t.Fatalf("%d bytes, %v", len(line), err)
			}
			m, fault := pipe.Decode(line)
			if fault != nil {
				t.Fatal(fault)
			}
			got := *m.(*pipe.Response)
			if got.Seq != 5 || !c.kept(got) {
				t.Errorf("got %.300s", line)
			}
			if c.name != "error" && (!got.Data.Truncated || got.Data.Rest == "" && c.name != "events") {
				t.Errorf("nothing says that it was cut: %.300s", line)
			}
		})
	}
}
