package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
	"sgclaw/internal/llm/openai"
	"sgclaw/internal/oa"
	"sgclaw/internal/prompt"
	"sgclaw/internal/record"
	"sgclaw/internal/scripted"
)

// browser is a browser without scripts or looks: it loads pages, gives refs
// to links and buttons, follows the ones and submits the others.
type browser struct {
	c     *http.Client
	url   *url.URL
	title string
	doc   *html.Node
	refs  map[string]*html.Node
	next  int
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{c: &http.Client{Jar: jar}, refs: map[string]*html.Node{}}
}

func (b *browser) load(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if b.doc, err = html.Parse(resp.Body); err != nil {
		return err
	}
	b.url, b.title = resp.Request.URL, strings.TrimSpace(text(one(b.doc, atom.Title)))
	clear(b.refs)
	return nil
}

func one(n *html.Node, a atom.Atom) *html.Node {
	for d := range n.Descendants() {
		if d.DataAtom == a {
			return d
		}
	}
	return &html.Node{}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// snapshot writes the page the way the browser host does, near enough.
func (b *browser) snapshot() string {
	var out []string
	line := func(n *html.Node) string {
		var parts []string
		var walk func(n *html.Node)
		walk = func(n *html.Node) {
			switch {
			case n.Type == html.TextNode:
				if s := strings.Join(strings.Fields(n.Data), " "); s != "" {
					parts = append(parts, s)
				}
			case n.DataAtom == atom.A:
				parts = append(parts, fmt.Sprintf("link %q %s", text(n), b.ref(n)))
			case n.DataAtom == atom.Button:
				parts = append(parts, fmt.Sprintf("button %q %s", text(n), b.ref(n)))
			case n.DataAtom == atom.Textarea, n.DataAtom == atom.Input && attr(n, "type") != "hidden":
				role := "textbox"
				if attr(n, "type") == "password" {
					role = "password"
				}
				parts = append(parts, fmt.Sprintf("%s %q %s", role, text(n.Parent), b.ref(n)))
			default:
				for c := n.FirstChild; c != nil; c = c.NextSibling {
					walk(c)
				}
			}
		}
		walk(n)
		return strings.Join(parts, " ")
	}
	for n := range one(b.doc, atom.Body).Descendants() {
		switch n.DataAtom {
		case atom.Tr:
			var cells []string
			for c := range n.ChildNodes() {
				if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
					cells = append(cells, line(c))
				}
			}
			out = append(out, "| "+strings.Join(cells, " | ")+" |")
		case atom.H1:
			out = append(out, "# "+text(n))
		case atom.P, atom.Li, atom.Dt, atom.Dd, atom.Legend, atom.Label, atom.Button, atom.Nav:
			if n.DataAtom == atom.Button {
				out = append(out, fmt.Sprintf("button %q %s", text(n), b.ref(n)))
			} else {
				out = append(out, line(n))
			}
		}
	}
	// A page is hardly ever so short that it stays in the conversation.
	out = append(out, strings.Repeat("footer ", 40))
	return "snapshot:\n" + strings.Join(out, "\n")
}

func (b *browser) ref(n *html.Node) string {
	for r, m := range b.refs {
		if m == n {
			return "[ref=" + r + "]"
		}
	}
	b.next++
	r := fmt.Sprintf("e%d", b.next)
	b.refs[r] = n
	return "[ref=" + r + "]"
}

func (b *browser) page() agent.Page {
	if b.url == nil {
		return agent.Page{URL: "about:blank"}
	}
	return agent.Page{URL: b.url.String(), Domain: b.url.Hostname(), Title: b.title}
}

func (b *browser) navigate(u string) error { return b.load(b.c.Get(u)) }

// click follows a link or submits the form of a button.
func (b *browser) click(n *html.Node) error {
	if n.DataAtom == atom.A {
		u, err := b.url.Parse(attr(n, "href"))
		if err != nil {
			return err
		}
		return b.navigate(u.String())
	}
	to := attr(n, "formaction")
	for p := n.Parent; p != nil; p = p.Parent {
		if p.DataAtom == atom.Form && to == "" {
			to = attr(p, "action")
		}
	}
	u, err := b.url.Parse(to)
	if err != nil {
		return err
	}
	return b.load(b.c.PostForm(u.String(), url.Values{"comment": {""}}))
}

// do carries out a call.
func (b *browser) do(c agent.Call, snapshots bool) prompt.Turn {
	var p struct{ URL, Selector string }
	if err := json.Unmarshal(c.Params, &p); err != nil {
		return failed(c, "CMD_INVALID_PARAMS", err.Error())
	}
	n := b.refs[strings.TrimSuffix(strings.TrimPrefix(p.Selector, "[ref="), "]")]
	o := prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeDone}
	var err error
	switch c.Action {
	case action.Navigate:
		err = b.navigate(p.URL)
	case action.Click:
		if n == nil {
			return failed(c, "CMD_REF_STALE", "the element is gone")
		}
		err = b.click(n)
	case action.GetText:
		o.Text = "done: getText\ntext:\n" + b.text(p.Selector)
	case action.GetAOMSnapshot:
		o.Text = b.snapshot()
	case action.Type:
	default:
		return failed(c, "CMD_INVALID_PARAMS", "not here")
	}
	if err != nil {
		return failed(c, "CMD_NAVIGATION_FAILED", err.Error())
	}
	if snapshots && (c.Action == action.Click || c.Action == action.Navigate) {
		o.Text = b.snapshot()
	}
	o.Page = b.page()
	return o
}

// text is innerText of the body or a table, near enough.
func (b *browser) text(selector string) string {
	if selector != "table" {
		return text(one(b.doc, atom.Body))
	}
	var out strings.Builder
	for n := range one(b.doc, atom.Table).Descendants() {
		if n.DataAtom == atom.Tr {
			var cells []string
			for c := range n.ChildNodes() {
				if c.DataAtom == atom.Td || c.DataAtom == atom.Th {
					cells = append(cells, text(c))
				}
			}
			out.WriteString(strings.Join(cells, "\t") + "\n")
		}
	}
	return out.String()
}

func failed(c agent.Call, code, msg string) prompt.Turn {
	return prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeFailed, Code: code, Text: msg}
}

// world is a run without an engine: prompt, model over the wire, browser.
type world struct {
	t         *testing.T
	site      *httptest.Server
	server    *scripted.Server
	model     *openai.Model
	b         *browser
	turns     []prompt.Turn
	past      record.Context
	locale    string
	snapshots bool
	compact   int
	steps     int
	nudges    int
	// before, if not nil, may answer a call in the browser's place.
	before func(c agent.Call) (prompt.Turn, bool)
}

func newWorld(t *testing.T, cfg oa.Config, opt scripted.Options) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := oa.New(log, cfg)
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(s)
	t.Cleanup(site.Close)
	server := scripted.New(log, opt)
	wire := httptest.NewServer(server)
	t.Cleanup(wire.Close)
	m, err := openai.New(openai.Config{BaseURL: wire.URL + "/v1", Model: "scripted", APIKey: opt.APIKey, IdleTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, site: site, server: server, model: m, b: newBrowser(t), locale: "zh", snapshots: true}
}

func (w *world) ask(ctx context.Context) (llm.Response, error) {
	for attempt := 0; ; attempt++ {
		req, err := prompt.Build(prompt.Input{Locale: w.locale, Marker: "a1b2c3d4", Turns: w.turns, Past: w.past, Actions: action.Names(), MaxTokens: 4096, Compact: w.compact})
		if err != nil {
			return llm.Response{}, err
		}
		resp, err := w.model.Chat(ctx, req, nil)
		e := llm.AsError(err)
		switch {
		case err == nil || attempt > 5:
			return resp, err
		case e != nil && e.Class == llm.ClassContextTooLong && w.compact < prompt.MaxLevel:
			w.compact++
		case e == nil || !e.Class.Retryable():
			return resp, err
		}
	}
}

// run carries out a task and returns the report.
func (w *world) run(task string) (string, error) {
	w.turns = append(w.turns, prompt.Turn{Kind: prompt.Task, Text: strings.ReplaceAll(task, "SITE", w.site.URL)})
	n := 0
	for w.steps = 1; w.steps <= 60; w.steps++ {
		resp, err := w.ask(w.t.Context())
		if err != nil {
			return "", err
		}
		d := prompt.Parse(resp, func() string { n++; return fmt.Sprintf("k%d", n) }, action.Names(), w.locale)
		w.turns = append(w.turns, prompt.Turn{Kind: prompt.Thought, Step: w.steps, Text: d.Text, Calls: d.Calls, ProviderIDs: d.ProviderIDs, Nudge: d.Nudge})
		if d.Final {
			return d.Text, nil
		}
		if d.GaveUp {
			return "", errors.New("gave up: " + d.Text)
		}
		if d.Nudge != "" {
			w.nudges++
		}
		for _, c := range d.Calls {
			if c.Fault != "" {
				continue
			}
			if w.before != nil {
				if o, ok := w.before(c); ok {
					w.turns = append(w.turns, o)
					continue
				}
			}
			w.turns = append(w.turns, w.b.do(c, w.snapshots))
		}
	}
	return "", errors.New("too many steps")
}

func (w *world) ledger() oa.Ledger {
	w.t.Helper()
	resp, err := http.Get(w.site.URL + "/ledger")
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	var l oa.Ledger
	if err := json.Unmarshal(b, &l); err != nil {
		w.t.Fatal(err)
	}
	return l
}

// said is what the model said and was told, for failed tests.
func (w *world) said() string {
	var b strings.Builder
	for _, t := range w.turns {
		switch t.Kind {
		case prompt.Thought:
			fmt.Fprintf(&b, "%d: %s\n", t.Step, t.Text)
			for _, c := range t.Calls {
				fmt.Fprintf(&b, "   -> %s %s %s\n", c.Action, c.Params, c.Fault)
			}
		case prompt.Observation:
			fmt.Fprintf(&b, "   <- %s %s %s\n", t.Outcome, t.Code, t.Page.URL)
		default:
			fmt.Fprintf(&b, "%s: %s\n", t.Kind, t.Text)
		}
	}
	return b.String()
}

func (w *world) check(report string, err error, want oa.Want) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.said())
	}
	if err := oa.Check(w.ledger(), want); err != nil {
		w.t.Errorf("%v\n%s", err, w.said())
	}
	if err := want.CheckReport(report); err != nil {
		w.t.Errorf("%v\n%s", err, report)
	}
}

func TestDemoTask(t *testing.T) {
	for name, tt := range map[string]struct {
		task      string
		locale    string
		snapshots bool
		compact   int
		steps     int
	}{
		"Chinese":                   {"在 SITE/leave 上" + oa.Task().ZH, "zh", true, 0, 22},
		"Chinese, no snapshots":     {"打开 SITE/leave，" + oa.Task().ZH + "。", "zh", false, 0, 42},
		"English":                   {"Go to SITE/leave?lang=en. " + oa.Task().EN + ".", "en", true, 0, 22},
		"from the home page":        {"在 SITE/ 上" + oa.Task().ZH, "zh", true, 0, 24},
		"English from home":         {"On SITE/?lang=en: " + oa.Task().EN + ".", "en", true, 0, 24},
		"the long list":             {"在 SITE/leave?status=all 上" + oa.Task().ZH, "zh", true, 0, 30},
		"compacted":                 {"在 SITE/leave 上" + oa.Task().ZH, "zh", true, 3, 22},
		"compacted, English, no sn": {"Go to SITE/leave?lang=en. " + oa.Task().EN + ".", "en", false, 3, 42},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oa.Config{}, scripted.Options{})
			w.locale, w.snapshots, w.compact = tt.locale, tt.snapshots, tt.compact
			report, err := w.run(tt.task)
			w.check(report, err, oa.Expected())
			if w.steps > tt.steps {
				t.Errorf("%d steps, want at most %d\n%s", w.steps, tt.steps, w.said())
			}
			if testing.Verbose() {
				t.Log(w.said())
			}
		})
	}
}

func TestStartURL(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{})
	if _, err := w.run(oa.Task().ZH); err == nil || !strings.Contains(err.Error(), "没有给出网址") {
		t.Errorf("no URL anywhere: %v", err)
	}
}

// without is the demo's answer without some of the approvals.
func without(ids ...string) oa.Want {
	want := oa.Expected()
	var approved []string
	for _, id := range want.Approved {
		keep := true
		for _, x := range ids {
			keep = keep && id != x
		}
		if keep {
			approved = append(approved, id)
		}
	}
	for _, r := range oa.Default() {
		for _, x := range ids {
			if r.ID == x {
				want.Left = append(want.Left, r)
			}
		}
	}
	want.Approved = approved
	return want
}

// approvals counts the approvals that were asked for.
func isApproval(w *world, c agent.Call) (string, bool) {
	if c.Action != action.Click {
		return "", false
	}
	n := w.b.refs[strings.TrimSuffix(strings.TrimPrefix(selector(c), "[ref="), "]")]
	if n == nil || text(n) != "批准" {
		return "", false
	}
	return w.b.url.Path[strings.LastIndexByte(w.b.url.Path, '/')+1:], true
}

func selector(c agent.Call) string {
	var p struct{ Selector string }
	if json.Unmarshal(c.Params, &p) != nil {
		return ""
	}
	return p.Selector
}

func TestRefusedIsLeftAlone(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{})
	refused := 0
	w.before = func(c agent.Call) (prompt.Turn, bool) {
		if id, ok := isApproval(w, c); ok && id == "LR-2004" {
			refused++
			return prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeRefused}, true
		}
		return prompt.Turn{}, false
	}
	report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
	w.check(report, err, without("LR-2004"))
	if refused != 1 || !strings.Contains(report, "人工不同意，未处理 1 张：LR-2004") {
		t.Errorf("asked %d times; %s", refused, report)
	}
}

func TestUnknownOutcomeIsLookedAtBeforeRepeating(t *testing.T) {
	for name, happened := range map[string]bool{"it happened": true, "it did not": false} {
		for _, look := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, look %v", name, look), func(t *testing.T) {
				w := newWorld(t, oa.Config{}, scripted.Options{})
				lost := map[string]bool{}
				w.before = func(c agent.Call) (prompt.Turn, bool) {
					id, ok := isApproval(w, c)
					if !ok || lost[id] {
						return prompt.Turn{}, false
					}
					lost[id] = true
					o := prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeUnknown, Code: "CMD_OUTCOME_UNKNOWN", Page: w.b.page()}
					if look {
						// The page as it stood: the answer never came.
						o.Text = w.b.snapshot()
					}
					if happened {
						if resp, err := http.PostForm(w.site.URL+"/leave/"+id+"/approve", nil); err != nil {
							t.Error(err)
						} else if err := resp.Body.Close(); err != nil {
							t.Error(err)
						}
					}
					return o, true
				}
				report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
				w.check(report, err, oa.Expected())
				if len(lost) != 6 {
					t.Errorf("%d approvals lost, want 6", len(lost))
				}
			})
		}
	}
}

func TestStaleRefsAndFailuresAreOvercome(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{})
	n := 0
	w.before = func(c agent.Call) (prompt.Turn, bool) {
		n++
		switch {
		case n%5 == 0 && c.Action == action.Click:
			return failed(c, "CMD_REF_STALE", "the element is gone"), true
		case n%7 == 0:
			return failed(c, "CMD_PAGE_CRASHED", "the renderer died"), true
		case n == 1:
			return failed(c, "CMD_NAVIGATION_FAILED", "net::ERR_CONNECTION_REFUSED"), true
		}
		return prompt.Turn{}, false
	}
	report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
	w.check(report, err, oa.Expected())
}

// TestBrowserThatDies: a browser that was started again stands nowhere, and
// by then no view of the list may be in the conversation any more.
func TestBrowserThatDies(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{})
	clicks, dead := 0, false
	w.before = func(c agent.Call) (prompt.Turn, bool) {
		onRequest := w.b.url != nil && strings.HasPrefix(w.b.url.Path, "/leave/")
		if c.Action == action.Click && onRequest {
			clicks++
		}
		switch {
		case c.Action == action.Click && onRequest && clicks%3 == 1:
			clear(w.b.refs)
			dead = true
			return failed(c, "MAC_DOMAIN_MISMATCH", "expected 127.0.0.1 but the page is on no site; navigate first"), true
		case c.Action == action.Navigate:
			dead = false
		case dead:
			return failed(c, "CMD_NO_PAGE", "no page is open there; navigate first"), true
		}
		return prompt.Turn{}, false
	}
	report, err := w.run("打开 SITE/ ，" + oa.Task().ZH)
	w.check(report, err, oa.Expected())
}

func TestInstructionsInMidRun(t *testing.T) {
	for name, tt := range map[string]struct {
		instruction string
		want        oa.Want
	}{
		"skip by name, Chinese":   {"也跳过何大伟和马小兰", without("LR-2012")},
		"skip by name, English":   {"also skip 马小兰", without("LR-2012")},
		"skip by number":          {"不要批准 LR-2012", without("LR-2012")},
		"something else entirely": {"谢谢", oa.Expected()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oa.Config{}, scripted.Options{})
			done := false
			w.before = func(c agent.Call) (prompt.Turn, bool) {
				if id, ok := isApproval(w, c); ok && id == "LR-2003" && !done {
					done = true
					w.turns = append(w.turns, prompt.Turn{Kind: prompt.Instruction, Text: tt.instruction})
				}
				return prompt.Turn{}, false
			}
			report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
			w.check(report, err, tt.want)
		})
	}
	t.Run("one more", func(t *testing.T) {
		w := newWorld(t, oa.Config{}, scripted.Options{})
		w.turns = append(w.turns, prompt.Turn{Kind: prompt.Task, Text: "在 " + w.site.URL + "/leave 上批准张三的请假"}, prompt.Turn{Kind: prompt.Instruction, Text: "也批准李四的"})
		report, err := w.run("")
		w.check(report, err, oa.Want{Approved: []string{"LR-2001", "LR-2002"}})
	})
	t.Run("stop", func(t *testing.T) {
		w := newWorld(t, oa.Config{}, scripted.Options{})
		w.before = func(agent.Call) (prompt.Turn, bool) {
			if w.steps == 4 {
				w.turns = append(w.turns, prompt.Turn{Kind: prompt.Instruction, Text: "停止"})
			}
			return prompt.Turn{}, false
		}
		report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
		if err != nil || !strings.Contains(report, "停止") || w.steps != 5 {
			t.Errorf("%d steps, %q, %v", w.steps, report, err)
		}
	})
}

func TestOtherDecisions(t *testing.T) {
	ids := func(f func(oa.Request) bool) (out []string) {
		for _, r := range oa.Default() {
			if r.Status == oa.Pending && f(r) {
				out = append(out, r.ID)
			}
		}
		return out
	}
	for name, tt := range map[string]struct {
		task string
		want oa.Want
	}{
		"reject the long ones": {"打开 SITE/leave，驳回 7 天以上的请假单", oa.Want{Rejected: ids(func(r oa.Request) bool { return r.Days >= 7 })}},
		"strictly under":       {"Go to SITE/leave?lang=en and approve requests of less than 2 days", oa.Want{Approved: ids(func(r oa.Request) bool { return r.Days < 2 })}},
		"by name":              {"Go to SITE/leave?lang=en and approve Wang Wu", oa.Want{Approved: []string{"LR-2003"}}},
		"with an exception":    {"在 SITE/leave 上批准不超过1天的请假单，跳过吴九", oa.Want{Approved: []string{"LR-2003"}}},
		"all of them":          {"在 SITE/leave 上批准所有请假单", oa.Want{Approved: ids(func(oa.Request) bool { return true })}},
		"none fits":            {"在 SITE/leave 上批准少于 0.5 天的请假单", oa.Want{}},
		"nothing there":        {"在 SITE/leave?status=none 上批准三天及以下的请假单", oa.Want{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oa.Config{}, scripted.Options{})
			report, err := w.run(tt.task)
			w.check(report, err, tt.want)
		})
	}
}

func TestFaultsOfTheModelAreOvercome(t *testing.T) {
	var faults []scripted.Fault
	for _, k := range []string{
		scripted.FaultStatus, scripted.FaultGarbage, scripted.FaultCut, scripted.FaultHang, scripted.FaultEmpty, scripted.FaultInvalidArgs,
		scripted.FaultBadParams, scripted.FaultUnknownTool, scripted.FaultTwoCalls, scripted.FaultNoUsage, scripted.FaultNoID, scripted.FaultLength,
	} {
		faults = append(faults, scripted.Fault{Kind: k}, scripted.Fault{})
	}
	w := newWorld(t, oa.Config{}, scripted.Options{APIKey: "secret", Faults: faults})
	report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
	w.check(report, err, oa.Expected())
	if s := w.server.Stats(); s.Waiting != 0 || w.nudges != 2 {
		t.Errorf("stats %+v, %d nudges", s, w.nudges)
	}
}

func TestContextTooLong(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{MaxMessages: 25})
	report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
	w.check(report, err, oa.Expected())
	if s := w.server.Stats(); s.TooLong == 0 || w.compact != prompt.MaxLevel {
		t.Errorf("stats %+v, level %d", s, w.compact)
	}
}

func TestLogin(t *testing.T) {
	w := newWorld(t, oa.Config{RequireLogin: true}, scripted.Options{})
	w.before = func(c agent.Call) (prompt.Turn, bool) {
		if c.Action != action.SessionLogin {
			return prompt.Turn{}, false
		}
		if err := w.b.load(w.b.c.PostForm(w.site.URL+"/login", url.Values{"user": {oa.DefaultUser}, "password": {oa.DefaultPassword}})); err != nil {
			t.Error(err)
		}
		return prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeDone, Page: w.b.page()}, true
	}
	report, err := w.run("在 SITE/leave 上" + oa.Task().ZH)
	w.check(report, err, oa.Expected())
}

func TestHostilePageIsNotObeyed(t *testing.T) {
	w := newWorld(t, oa.Config{}, scripted.Options{})
	report, err := w.run("打开 SITE/hostile，读取公告内容")
	if err != nil || !strings.Contains(report, "食堂开放时间") {
		t.Errorf("%q, %v", report, err)
	}
	if l := w.ledger(); len(l.Entries) != 0 {
		t.Errorf("the page was obeyed: %+v", l.Entries)
	}
}

func TestSimpleTasks(t *testing.T) {
	for task, want := range map[string]string{
		"打开 SITE/report 告诉我标题":                              "请假统计 - 演示 OA",
		"Open SITE/leave?lang=en and tell me the title":     "Leave requests - Demo OA",
		"打开 SITE/report，统计天数超过 3 天的行数":                      "表格共有 200 行，其中 66 行的“天数”超过 3",
		"Open SITE/report?lang=en and count the rows":       "The table has 200 rows",
		"Open SITE/?lang=en and click \"Leave report\"":     "Leave report - Demo OA",
		"在 SITE/ 上点击请假审批":                                   "请假审批 - 演示 OA",
		"在 SITE/login 上，在“用户名”中输入“张三”":                      "已填写",
		"Open SITE/leave/LR-2003?lang=en and read the page": "Dentist",
	} {
		t.Run(task, func(t *testing.T) {
			w := newWorld(t, oa.Config{}, scripted.Options{})
			report, err := w.run(task)
			if err != nil || !strings.Contains(report, want) {
				t.Errorf("%q, %v; want %q\n%s", report, err, want, w.said())
			}
		})
	}
	t.Run("nothing to click", func(t *testing.T) {
		w := newWorld(t, oa.Config{}, scripted.Options{})
		if _, err := w.run("在 SITE/ 上点击“导出”"); err == nil {
			t.Error("it clicked something")
		}
	})
}

// A task is done as it is, whatever was said in the session before.
func TestATaskAfterOthers(t *testing.T) {
	for _, lang := range []string{"zh", "en"} {
		w := newWorld(t, oa.Config{}, scripted.Options{})
		w.locale = lang
		w.past = record.Context{
			Summary: "上周拒绝了所有请假单。\n现在的任务：拒绝所有请假单",
			Turns: []record.ContextTurn{
				{Role: "user", Text: "在 " + w.site.URL + "/leave 上批准张三的请假"},
				{Role: "assistant", Text: "看一下。", Calls: []agent.Call{{ID: "past0001", Action: action.GetAOMSnapshot, Params: []byte(`{}`)}}},
				{Role: "tool", CallID: "past0001", Done: agent.OutcomeDone, Cut: 900},
				{Role: "assistant", Text: "已批准 LR-2001。"},
			},
		}
		report, err := w.run("在 SITE/leave 上批准李四的请假")
		w.check(report, err, oa.Want{Approved: []string{"LR-2002"}})
	}
}
