package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/journal"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

const rules = `{
  "version": "1.0",
  "domains": {"allowed": ["oa.example.com", "erp.example.com", "finance.example.com"]},
  "pipe_actions": {
    "allowed": ["click", "type", "navigate", "getText", "getAomSnapshot", "pageScreenshot", "storageSet", "storageGet", "zombieSpawn"],
    "blocked": ["select"],
    "need_confirm": ["sessionLogin"]
  },
  "storage": {"key_prefix": "sgclaw."},
  "rate_limits": {
    "default": {"max_per_second": 1000, "cooldown_seconds": 1},
    "overrides": {"finance.example.com": {"max_per_second": 1, "cooldown_seconds": 60}}
  }
}`

// scripted is a browser that answers from a function.
type scripted struct {
	mu     sync.Mutex
	answer func(ctx context.Context, cmd pipe.Command, late func(pipe.Response)) (pipe.Response, time.Duration, error)
	sent   []pipe.Command
	told   []any
	offers []any
	pages  map[string]agent.Page
	broken error // of Send
}

func (h *scripted) Do(ctx context.Context, cmd pipe.Command, late func(pipe.Response)) (pipe.Response, time.Duration, error) {
	h.mu.Lock()
	h.sent = append(h.sent, cmd)
	answer := h.answer
	h.mu.Unlock()
	return answer(ctx, cmd, late)
}

func (h *scripted) Send(_ context.Context, message any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		return h.broken
	}
	h.told = append(h.told, message)
	return nil
}

func (h *scripted) Offer(message any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offers = append(h.offers, message)
}

func (h *scripted) Page(id string) (agent.Page, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.pages[id]
	return p, ok
}

func (h *scripted) commands() []pipe.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]pipe.Command(nil), h.sent...)
}

// say makes the browser answer everything alike.
func (h *scripted) say(resp pipe.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = func(context.Context, pipe.Command, func(pipe.Response)) (pipe.Response, time.Duration, error) {
		return resp, 0, nil
	}
}

func (h *scripted) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = func(context.Context, pipe.Command, func(pipe.Response)) (pipe.Response, time.Duration, error) {
		return pipe.Response{}, 0, err
	}
}

var oaPage = agent.Page{URL: "http://oa.example.com/leave", Domain: "oa.example.com", Title: "请假"}

func done(text string) pipe.Response {
	return pipe.Response{Success: true, Data: &pipe.Data{Text: text, Page: &oaPage}, Timing: &pipe.Timing{ExecMS: 7}}
}

func refused(code pipe.Code, data *pipe.Data) pipe.Response {
	return pipe.Response{Error: &pipe.Error{Code: code, Message: "no"}, Data: data}
}

// bench is a Browser with a real journal and policy before a scripted host.
type bench struct {
	t       testing.TB
	host    *scripted
	journal *journal.Journal
	acts    *activities.Browser
	ctx     context.Context // of the activities
	env     func() *testsuite.TestActivityEnvironment
}

func newBench(t testing.TB, cfg activities.BrowserConfig) *bench {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), log, t.TempDir(), "b1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	r, err := policy.Parse([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, host: &scripted{pages: map[string]agent.Page{"": oaPage}}, journal: j, ctx: t.Context()}
	b.host.say(done("clicked"))
	b.acts = activities.NewBrowser(log, b.host, j, policy.New(r, nil), cfg)
	b.env = func() *testsuite.TestActivityEnvironment {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.SetWorkerOptions(worker.Options{BackgroundActivityContext: b.ctx})
		env.RegisterActivityWithOptions(b.acts.Act, activity.RegisterOptions{Name: activities.ActName})
		env.RegisterActivityWithOptions(b.acts.Notify, activity.RegisterOptions{Name: activities.NotifyName})
		return env
	}
	return b
}

func (b *bench) act(in activities.ActInput) (agent.Result, error) {
	b.t.Helper()
	v, err := b.env().ExecuteActivity(activities.ActName, in)
	if err != nil {
		return agent.Result{}, err
	}
	var res agent.Result
	if err := v.Get(&res); err != nil {
		b.t.Fatal(err)
	}
	return res, nil
}

func (b *bench) mustAct(in activities.ActInput) agent.Result {
	b.t.Helper()
	res, err := b.act(in)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

func (b *bench) wantSent(n int) {
	b.t.Helper()
	if got := len(b.host.commands()); got != n {
		b.t.Errorf("%d commands were sent, want %d", got, n)
	}
}

func call(action, params string) activities.ActInput {
	return activities.ActInput{RunID: "run", Step: 1, Call: agent.Call{ID: "c1", Action: action, Params: json.RawMessage(params)}}
}

func click() activities.ActInput { return call("click", `{"selector":"ref=e1"}`) }

func TestEffectHappensOnce(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	first := b.mustAct(click())
	want := agent.Result{Outcome: agent.OutcomeDone, Page: oaPage, ExecMS: 7,
		Text: "done: click: clicked\npage: http://oa.example.com/leave \"请假\""}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, b.mustAct(click())); diff != "" {
		t.Errorf("second attempt (-first +second):\n%s", diff)
	}
	b.wantSent(1)
	next := click()
	next.Step = 2
	b.mustAct(next)
	b.wantSent(2)
}

func TestReadsAreRepeated(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	for range 2 {
		b.mustAct(call("getText", `{"selector":"h1"}`))
	}
	b.wantSent(2)
}

func TestLongObservationStaysInTheJournal(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{SnapshotAfter: true})
	long := strings.Repeat("- button \"批准\" [ref=e1]\n", 100)
	resp := done("clicked")
	resp.Data.Snapshot = long
	b.host.say(resp)
	in := click()
	in.Snapshot = true
	res := b.mustAct(in)
	if len(res.Text) > agent.MaxInline || res.Ref == "" || !strings.HasPrefix(res.Text, "done: click: clicked") {
		t.Errorf("result %+v", res)
	}
	body, err := b.journal.Body(res.Ref)
	if err != nil || !strings.Contains(body.Text, strings.TrimSpace(long)) {
		t.Errorf("body of %d bytes, err %v", len(body.Text), err)
	}
	if diff := cmp.Diff(res, b.mustAct(in)); diff != "" {
		t.Errorf("second attempt (-first +second):\n%s", diff)
	}
	if cmd := b.host.commands()[0]; !cmd.SnapshotAfter {
		t.Error("the host was not asked for a snapshot")
	}

	b.host.say(pipe.Response{Success: true, Data: &pipe.Data{Image: []byte{1, 2}, MIME: "image/jpeg", Width: 800, Height: 600}})
	res = b.mustAct(call("pageScreenshot", `{}`))
	body, err = b.journal.Body(res.Ref)
	if err != nil || string(body.Image) != "\x01\x02" || body.MIME != "image/jpeg" {
		t.Errorf("picture %+v, err %v", body, err)
	}
}

func TestSnapshotFromAHostThatDoesNotAppendIt(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	b.host.answer = func(_ context.Context, cmd pipe.Command, _ func(pipe.Response)) (pipe.Response, time.Duration, error) {
		if cmd.Action == "getAomSnapshot" {
			return pipe.Response{Success: true, Data: &pipe.Data{Snapshot: "- heading \"假单\""}}, 0, nil
		}
		return done("clicked"), 0, nil
	}
	in := click()
	in.Snapshot = true
	if res := b.mustAct(in); !strings.Contains(res.Text, "假单") {
		t.Errorf("result %+v", res)
	}
	b.wantSent(2)
}

func TestBegunEffectIsUnknown(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	if _, fresh, err := b.journal.Begin(agent.Effect{RunID: "run", Step: 1, CallID: "c1", Action: "click"}); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	res := b.mustAct(click())
	if res.Outcome != agent.OutcomeUnknown || res.Code != string(pipe.CodeOutcomeUnknown) || res.Page != oaPage {
		t.Errorf("result %+v", res)
	}
	b.wantSent(0)
}

func TestUnsentEffectIsTriedAgain(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	b.host.fail(fmt.Errorf("%w: %w", pipe.ErrNotSent, errors.New("agent is stopping")))
	if _, err := b.act(click()); err == nil {
		t.Fatal("an unsent command is no error")
	}
	b.host.say(done("clicked"))
	if res := b.mustAct(click()); res.Outcome != agent.OutcomeDone {
		t.Errorf("second attempt %+v", res)
	}
}

func TestUnansweredEffectIsNotTriedAgain(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{LateWait: 50 * time.Millisecond})
	b.host.fail(pipe.ErrNoAnswer)
	if _, err := b.act(click()); err == nil {
		t.Fatal("a closed pipe is no error")
	}
	if res := b.mustAct(click()); res.Outcome != agent.OutcomeUnknown {
		t.Errorf("second attempt %+v", res)
	}
	b.wantSent(1)
}

func TestOverdueEffect(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{LateWait: 10 * time.Second})
	late := make(chan func(pipe.Response), 1)
	b.host.answer = func(_ context.Context, _ pipe.Command, f func(pipe.Response)) (pipe.Response, time.Duration, error) {
		late <- f
		return pipe.Response{}, 0, pipe.Errorf(pipe.CodeTimeout, "no response within 30s")
	}
	res := b.mustAct(click())
	if res.Outcome != agent.OutcomeUnknown || res.Code != string(pipe.CodeTimeout) {
		t.Errorf("overdue effect %+v", res)
	}
	// Another attempt waits for the response that may still come.
	second := make(chan agent.Result, 1)
	go func() { second <- b.mustAct(click()) }()
	(<-late)(done("clicked after all"))
	if res := <-second; res.Outcome != agent.OutcomeDone || !strings.Contains(res.Text, "after all") {
		t.Errorf("second attempt %+v", res)
	}
	b.wantSent(1)
}

func TestOverdueReadHasFailed(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	b.host.fail(pipe.Errorf(pipe.CodeTimeout, "no response within 30s"))
	if res := b.mustAct(call("getText", `{"selector":"h1"}`)); res.Outcome != agent.OutcomeFailed || res.Code != string(pipe.CodeTimeout) {
		t.Errorf("overdue read %+v", res)
	}
}

func TestCancelled(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	late := make(chan func(pipe.Response), 1)
	b.host.answer = func(ctx context.Context, _ pipe.Command, f func(pipe.Response)) (pipe.Response, time.Duration, error) {
		late <- f
		cancel()
		<-ctx.Done()
		return pipe.Response{}, 0, ctx.Err()
	}
	if _, err := b.act(click()); err == nil {
		t.Fatal("a cancelled action is no error")
	}
	(<-late)(done("clicked after all"))
	b.ctx = t.Context()
	if res := b.mustAct(click()); res.Outcome != agent.OutcomeDone {
		t.Errorf("after the late response: %+v", res)
	}
	b.wantSent(1)
}

// TestTakenBack: an effect that the host gave up undone may be sent again.
func TestTakenBack(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	late := make(chan func(pipe.Response), 1)
	b.host.answer = func(ctx context.Context, _ pipe.Command, f func(pipe.Response)) (pipe.Response, time.Duration, error) {
		late <- f
		cancel()
		<-ctx.Done()
		return pipe.Response{}, 0, ctx.Err()
	}
	if _, err := b.act(click()); err == nil {
		t.Fatal("a cancelled action is no error")
	}
	(<-late)(pipe.Response{Error: pipe.Errorf(pipe.CodeCancelled, "taken back; nothing was done")})
	b.ctx = t.Context()
	b.host.answer = func(context.Context, pipe.Command, func(pipe.Response)) (pipe.Response, time.Duration, error) {
		return done("clicked"), 0, nil
	}
	if res := b.mustAct(click()); res.Outcome != agent.OutcomeDone {
		t.Errorf("after it was taken back: %+v", res)
	}
	b.wantSent(2)
}

func TestPolicyDenies(t *testing.T) {
	onto := func(domain string, in activities.ActInput) activities.ActInput {
		in.Domain = domain
		return in
	}
	for _, c := range []struct {
		name string
		in   activities.ActInput
		code pipe.Code
	}{
		{"unknown", call("dance", `{}`), pipe.CodeActionNotAllowed},
		{"parameters", call("click", `{"selektor":"a"}`), pipe.CodeInvalidParams},
		{"blocked", call("select", `{"selector":"a","value":"b"}`), pipe.CodeActionBlocked},
		{"not permitted", call("zombieKill", `{"page_id":"z"}`), pipe.CodeActionNotAllowed},
		{"domain", onto("evil.example.com", click()), pipe.CodeDomainNotAllowed},
		{"target", call("navigate", `{"url":"https://evil.example.com/"}`), pipe.CodeDomainNotAllowed},
		{"scheme", call("navigate", `{"url":"file:///etc/passwd"}`), pipe.CodeInvalidParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, activities.BrowserConfig{})
			res := b.mustAct(c.in)
			if res.Outcome != agent.OutcomeFailed || res.Code != string(c.code) || !strings.Contains(res.Text, string(c.code)) {
				t.Errorf("result %+v, want %s", res, c.code)
			}
			b.wantSent(0)
		})
	}
}

// TestLimitsOfTheAgent: what the run's agent may do is bounded besides the
// browser's rules, and nothing beyond it is sent.
func TestLimitsOfTheAgent(t *testing.T) {
	limited := func(in activities.ActInput, actions []string, domains ...string) activities.ActInput {
		in.Actions, in.Domains = actions, domains
		return in
	}
	into := func(domain string, in activities.ActInput) activities.ActInput {
		in.Domain = domain
		return in
	}
	background := click()
	background.Call.PageID = "z1"
	for _, c := range []struct {
		name string
		in   activities.ActInput
		code pipe.Code // empty: it is carried out
	}{
		{"an action that it may", limited(click(), []string{"click"}), ""},
		{"another action", limited(click(), []string{"getText", "none"}), pipe.CodeActionNotAllowed},
		{"a domain that it may", limited(click(), nil, "oa.example.com"), ""},
		{"a domain by a wildcard", limited(click(), nil, "*.example.com"), ""},
		{"another domain", limited(click(), nil, "erp.example.com"), pipe.CodeDomainNotAllowed},
		{"where the run believes to be", limited(into("erp.example.com", click()), nil, "oa.example.com"), pipe.CodeDomainNotAllowed},
		{"a background page", limited(background, nil, "oa.example.com"), pipe.CodeDomainNotAllowed},
		{"a target", limited(call("navigate", `{"url":"https://erp.example.com/"}`), nil, "erp.example.com"), ""},
		{"another target", limited(call("navigate", `{"url":"https://erp.example.com/"}`), nil, "oa.example.com"), pipe.CodeDomainNotAllowed},
		{"another target in the background", limited(call("zombieSpawn", `{"url":"https://erp.example.com/"}`), nil, "oa.example.com"), pipe.CodeDomainNotAllowed},
		{"a site to log in to", limited(call("sessionLogin", `{"domain":"erp.example.com"}`), nil, "oa.example.com"), pipe.CodeDomainNotAllowed},
		{"domains that are none", limited(click(), nil, "https://oa.example.com/"), pipe.CodeDomainNotAllowed},
		{"a domain that the browser's rules have not", limited(into("evil.example.com", click()), nil, "evil.example.com"), pipe.CodeDomainNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, activities.BrowserConfig{})
			b.host.pages["z1"] = agent.Page{ID: "z1", Domain: "finance.example.com"}
			res := b.mustAct(c.in)
			if c.code == "" {
				if res.Outcome != agent.OutcomeDone {
					t.Errorf("result %+v", res)
				}
				return
			}
			if res.Outcome != agent.OutcomeFailed || res.Code != string(c.code) || !strings.Contains(res.Text, string(c.code)) {
				t.Errorf("result %+v, want %s", res, c.code)
			}
			b.wantSent(0)
		})
	}
}

// TestPageBeyondTheAgentsDomainsIsNotShown: a click can lead anywhere that
// the browser's rules allow.
func TestPageBeyondTheAgentsDomainsIsNotShown(t *testing.T) {
	for _, after := range []bool{true, false} {
		b := newBench(t, activities.BrowserConfig{SnapshotAfter: after})
		resp := done("clicked")
		resp.Data.Page = &agent.Page{URL: "https://finance.example.com/", Domain: "finance.example.com"}
		if after {
			resp.Data.Snapshot = "- text \"balance: 7\""
		}
		b.host.say(resp)
		in := click()
		in.Snapshot, in.Domains = true, []string{"oa.example.com"}
		res := b.mustAct(in)
		text := res.Text
		if res.Ref != "" {
			body, err := b.journal.Body(res.Ref)
			if err != nil {
				t.Fatal(err)
			}
			text = body.Text
		}
		if res.Outcome != agent.OutcomeDone || strings.Contains(text, "balance") || !strings.Contains(text, "not permitted to this agent") {
			t.Errorf("result %+v, %s", res, text)
		}
		b.wantSent(1)
	}
}

func TestDomain(t *testing.T) {
	believed := click()
	believed.Domain = "ERP.example.com."
	background := click()
	background.Call.PageID = "z1"
	lost := click()
	lost.Call.PageID = "z2"
	for _, c := range []struct {
		name, want string
		in         activities.ActInput
	}{
		{"of the target", "erp.example.com", call("navigate", `{"url":"https://erp.example.com:8443/x"}`)},
		{"as the run believes", "erp.example.com", believed},
		{"of the main page", "oa.example.com", click()},
		{"of a background page", "finance.example.com", background},
	} {
		b := newBench(t, activities.BrowserConfig{})
		b.host.pages["z1"] = agent.Page{ID: "z1", Domain: "finance.example.com"}
		if res := b.mustAct(c.in); res.Outcome != agent.OutcomeDone {
			t.Errorf("%s: %+v", c.name, res)
		}
		if cmd := b.host.commands()[0]; cmd.Security.ExpectedDomain != c.want {
			t.Errorf("domain %s: %q, want %q", c.name, cmd.Security.ExpectedDomain, c.want)
		}
	}
	b := newBench(t, activities.BrowserConfig{})
	if res := b.mustAct(lost); res.Code != string(pipe.CodeNoPage) {
		t.Errorf("no page: %+v", res)
	}
	b.wantSent(0)
}

func TestRateLimit(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	in := click()
	in.Domain = "finance.example.com"
	b.mustAct(in)
	next := in
	next.Step = 2
	res := b.mustAct(next)
	if res.Outcome != agent.OutcomeRateLimited || res.RetryAfterMS < 59_000 || res.RetryAfterMS > 60_000 {
		t.Errorf("too fast: %+v", res)
	}
	b.wantSent(1)

	// The host's own limit leaves no trace either: the same effect may be
	// tried again.
	other := click()
	other.Step = 3
	b.host.say(refused(pipe.CodeRateLimit, &pipe.Data{RetryAfterMS: 1500}))
	if res := b.mustAct(other); res.Outcome != agent.OutcomeRateLimited || res.RetryAfterMS != 1500 {
		t.Errorf("too fast for the host: %+v", res)
	}
	b.host.say(done("clicked"))
	if res := b.mustAct(other); res.Outcome != agent.OutcomeDone {
		t.Errorf("after the pause: %+v", res)
	}
}

func TestConfirmByTheRun(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	in := click()
	in.Confirm = true
	asked := b.mustAct(in)
	if asked.Outcome != agent.OutcomeNeedConfirm || asked.Ask == nil || asked.Ask.Domain != "oa.example.com" || asked.Digest == "" {
		t.Fatalf("without a grant: %+v", asked)
	}
	b.wantSent(0)
	in.Grant = &agent.Grant{ID: "g1", By: "张三", Digest: asked.Digest}
	if res := b.mustAct(in); res.Outcome != agent.OutcomeDone {
		t.Errorf("with the grant: %+v", res)
	}
	if g := b.host.commands()[0].Security.Grant; g == nil || g.ID != "g1" {
		t.Errorf("the host got the grant %+v", g)
	}
	// Once only, and for this call only.
	b.mustAct(in)
	b.wantSent(1)
	other := in
	other.Call.ID, other.Confirm = "c2", false
	if res := b.mustAct(other); res.Code != string(pipe.CodeGrantInvalid) {
		t.Errorf("the grant for another call: %+v", res)
	}
	changed := in
	changed.Step, changed.Call.Params = 2, json.RawMessage(`{"selector":"ref=e2"}`)
	changed.Grant = &agent.Grant{ID: "g2", By: "张三", Digest: asked.Digest}
	if res := b.mustAct(changed); res.Outcome != agent.OutcomeNeedConfirm || res.Digest == asked.Digest {
		t.Errorf("a grant for other parameters: %+v", res)
	}
	b.wantSent(1)
}

func TestConfirmByThePolicy(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	in := call("sessionLogin", `{"domain":"oa.example.com"}`)
	asked := b.mustAct(in)
	if asked.Outcome != agent.OutcomeNeedConfirm || asked.Ask.Rule != "need_confirm" {
		t.Fatalf("without a grant: %+v", asked)
	}
	in.Grant = &agent.Grant{ID: "g1", By: "张三", Digest: asked.Digest}
	if res := b.mustAct(in); res.Outcome != agent.OutcomeDone {
		t.Errorf("with the grant: %+v", res)
	}
}

func TestConfirmByTheHost(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	ask := &pipe.ConfirmAsk{
		Subject: agent.Subject{Role: "button", Name: "批准", Context: "张三 2 天", Domain: "oa.example.com", Prompt: agent.Prompt{ZH: "确定吗？"}},
		Image:   []byte{9}, Digest: "live",
	}
	b.host.say(refused(pipe.CodeNeedConfirm, &pipe.Data{Page: &oaPage, Confirm: ask}))
	for _, in := range []activities.ActInput{click(), call("navigate", `{"url":"http://oa.example.com/approve"}`)} {
		in.Call.ID = in.Call.Action
		res := b.mustAct(in)
		want := ask.Subject
		if res.Outcome != agent.OutcomeNeedConfirm || res.Digest != "live" {
			t.Fatalf("%s: %+v", in.Call.Action, res)
		}
		if diff := cmp.Diff(want, *res.Ask, cmpopts.IgnoreFields(agent.Subject{}, "Picture")); diff != "" {
			t.Errorf("subject (-want +got):\n%s", diff)
		}
		if body, err := b.journal.Body(res.Ask.Picture); err != nil || string(body.Image) != "\x09" {
			t.Errorf("picture %+v, err %v", body, err)
		}
		in.Grant = &agent.Grant{ID: "g-" + in.Call.Action, By: "张三", Digest: "live"}
		if res := b.mustAct(in); res.Code == string(pipe.CodeGrantInvalid) {
			t.Errorf("the grant that the host asked for: %+v", res)
		}
		in.Grant = &agent.Grant{ID: "g2-" + in.Call.Action, By: "张三", Digest: "other"}
		if res := b.mustAct(in); res.Code != string(pipe.CodeGrantInvalid) {
			t.Errorf("a grant that nobody asked for: %+v", res)
		}
	}
	b.wantSent(4)
}

// A host may ask twice about one call: about the press, and about the dialog
// that the press brings up. Each grant is for its question, and what is done
// at last is done once.
func TestHostAsksTwice(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	in := click()
	for i, digest := range []string{"press", "dialog"} {
		b.host.say(refused(pipe.CodeNeedConfirm, &pipe.Data{Confirm: &pipe.ConfirmAsk{Digest: digest}}))
		res := b.mustAct(in)
		if res.Outcome != agent.OutcomeNeedConfirm || res.Digest != digest {
			t.Fatalf("question %d: %+v", i, res)
		}
		in.Grant = &agent.Grant{ID: "g-" + digest, By: "张三", Digest: res.Digest}
	}
	b.host.say(done("clicked"))
	for range 2 {
		if res := b.mustAct(in); res.Outcome != agent.OutcomeDone {
			t.Errorf("got %+v", res)
		}
	}
	b.wantSent(3)
}

func TestHostAnswers(t *testing.T) {
	for _, c := range []struct {
		code    pipe.Code
		effect  agent.Outcome
		reading agent.Outcome
	}{
		{pipe.CodeSelectorNotFound, agent.OutcomeFailed, agent.OutcomeFailed},
		{pipe.CodeDomainMismatch, agent.OutcomeFailed, agent.OutcomeFailed},
		{pipe.CodeConfirmRejected, agent.OutcomeRefused, agent.OutcomeRefused},
		{pipe.CodePageCrashed, agent.OutcomeUnknown, agent.OutcomeFailed},
		{pipe.CodeOutcomeUnknown, agent.OutcomeUnknown, agent.OutcomeFailed},
	} {
		b := newBench(t, activities.BrowserConfig{})
		b.host.say(refused(c.code, nil))
		if res := b.mustAct(click()); res.Outcome != c.effect || res.Code != string(c.code) {
			t.Errorf("effect, %s: %+v", c.code, res)
		}
		if res := b.mustAct(call("getText", `{"selector":"a"}`)); res.Outcome != c.reading || res.Code != string(c.code) {
			t.Errorf("read, %s: %+v", c.code, res)
		}
	}
}

func TestHeldTimeIsReported(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	b.host.answer = func(context.Context, pipe.Command, func(pipe.Response)) (pipe.Response, time.Duration, error) {
		return done("clicked"), 90 * time.Second, nil
	}
	if res := b.mustAct(click()); res.HeldMS != 90_000 {
		t.Errorf("held %d ms", res.HeldMS)
	}
}

func TestExecutionLog(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{Locale: "zh"})
	in := call("type", `{"selector":"#pw","text":"秘密"}`)
	in.TaskID = "t1"
	b.host.say(refused(pipe.CodeNotEditable, nil))
	b.mustAct(in)
	in.Call.ID = "c2"
	b.host.say(refused(pipe.CodeConfirmRejected, nil))
	b.mustAct(in)
	var got []string
	for _, m := range b.host.offers {
		if l, ok := m.(*pipe.Log); ok {
			got = append(got, l.TaskID+" "+l.Level+" "+l.Message)
		}
	}
	want := []string{"t1 info 填写 #pw", "t1 warn failed: type: CMD_NOT_EDITABLE: no", "t1 info 填写 #pw", "t1 warn 用户拒绝了此操作: 填写 #pw"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func (b *bench) notify(in activities.NotifyInput) error {
	_, err := b.env().ExecuteActivity(activities.NotifyName, in)
	return err
}

func encode(t testing.TB, message any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestNotify(t *testing.T) {
	b := newBench(t, activities.BrowserConfig{})
	complete := activities.NotifyInput{Key: "k1", Message: encode(t, pipe.TaskComplete{
		Type: pipe.TypeTaskComplete, TaskID: "t1", RunID: "t1", Success: true, Status: "done", Summary: "批准了 3 张",
	})}
	b.host.broken = errors.New("closed")
	if err := b.notify(complete); err == nil {
		t.Error("a message that was not written is no error")
	}
	b.host.broken = nil
	for range 2 {
		if err := b.notify(complete); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.host.told) != 1 {
		t.Fatalf("told %v", b.host.told)
	}
	if m, ok := b.host.told[0].(*pipe.TaskComplete); !ok || m.Summary != "批准了 3 张" {
		t.Errorf("told %+v", b.host.told[0])
	}

	ref := "0197a000-0000-7000-8000-000000000001"
	if err := b.journal.Keep(map[string]agent.Body{ref: {Image: []byte{5}}}); err != nil {
		t.Fatal(err)
	}
	question := encode(t, pipe.ConfirmRequired{Type: pipe.TypeConfirmRequired, TaskID: "t1", ActionID: "t1-c1", Action: "click", Domain: "oa.example.com"})
	for i, ref := range []string{ref, "0197a000-0000-7000-8000-00000000ffff"} {
		if err := b.notify(activities.NotifyInput{Key: fmt.Sprint("q", i), Message: question, PictureRef: ref}); err != nil {
			t.Fatal(err)
		}
	}
	if m := b.host.told[1].(*pipe.ConfirmRequired); string(m.Image) != "\x05" {
		t.Errorf("picture %v", m.Image)
	}
	if run, err := b.journal.Asker("t1-c1"); run != "t1" || err != nil {
		t.Errorf("asker %q, %v", run, err)
	}

	for _, bad := range []string{`{"type":"dance"}`, `{"type":"shutdown"}`, `{"type":"command","seq":1,"action":"click","params":{},"security":{"expected_domain":"a","hmac":"b"}}`} {
		err := b.notify(activities.NotifyInput{Key: "bad", Message: json.RawMessage(bad)})
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || !app.NonRetryable() {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
