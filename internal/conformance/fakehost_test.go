package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/child"
	"sgclaw/internal/pipe"
)

// hostFake is a small browser host without a browser: it knows just enough
// of HTML for the player's site. It keeps the rules but for one fault.
type hostFake struct {
	fault string
	rules rulesFile
	w     *pipe.Writer
	key   pipe.Key
	guard pipe.SeqGuard
	main  *pageFake
	pages map[string]*pageFake
	loads int
	used  map[string]bool
}

type pageFake struct {
	id, url, domain, title, body string
	field                        string
	store                        map[string]string
}

func fakeHost(fault string, args []string) int {
	flags := flag.NewFlagSet("host", flag.ContinueOnError)
	agentPath := flags.String("agent", "", "")
	rulesPath := flags.String("rules", "", "")
	if flags.Parse(args) != nil {
		return 2
	}
	f := &hostFake{fault: fault, main: &pageFake{store: map[string]string{}}, pages: map[string]*pageFake{}, used: map[string]bool{}}
	raw, err := os.ReadFile(*rulesPath)
	if err == nil {
		err = json.Unmarshal(raw, &f.rules)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		if err := f.session(ctx, *agentPath); err != nil {
			fmt.Fprintln(os.Stderr, err)
			if f.fault != "restarts" {
				return 1
			}
		}
	}
	return 0
}

// session starts an agent and serves it until it ends or ctx does.
func (f *hostFake) session(ctx context.Context, path string) error {
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(cmd); err != nil {
		return err
	}
	exited := make(chan struct{})
	wait := sync.OnceFunc(func() { _ = cmd.Wait(); close(exited) })
	kill := func() { _ = cmd.Process.Kill(); wait() }
	r := pipe.NewReader(stdout)
	f.w = pipe.NewWriter(stdin)
	if err := f.handshake(ctx, r); err != nil {
		kill()
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		f.serve(r)
	}()
	select {
	case <-served:
		wait()
		return fmt.Errorf("agent crashed: %v", cmd.ProcessState)
	case <-ctx.Done():
	}
	if f.w.Write(&pipe.Shutdown{Type: pipe.TypeShutdown}) != nil {
		kill()
		return nil
	}
	go func() { <-served; wait() }()
	for _, end := range []func() error{func() error { return child.Interrupt(cmd.Process) }, cmd.Process.Kill} {
		select {
		case <-exited:
			return nil
		case <-time.After(pipe.StopGrace):
			if f.fault == "kills-at-once" {
				end = cmd.Process.Kill
			}
			_ = end()
		}
	}
	<-exited
	return nil
}

func (f *hostFake) handshake(ctx context.Context, r *pipe.Reader) error {
	init := pipe.Init{
		Type: pipe.TypeInit, Version: pipe.Version, HMACSeed: pipe.NewSeed(),
		Capabilities: []string{pipe.CapPageID, pipe.CapHoldConfirm},
	}
	switch f.fault {
	case "fixed-seed":
		init.HMACSeed = strings.Repeat("ab", 20)
	case "any-ack", "no-limit":
		var err error
		if f.key, err = keyOf(init.HMACSeed); err != nil {
			return err
		}
		if err := f.w.Write(&init); err != nil {
			return err
		}
		_, err = r.Next()
		return err
	}
	h, err := pipe.HostHandshake(ctx, r, f.w, init)
	f.key = h.Key
	return err
}

func (f *hostFake) serve(r *pipe.Reader) {
	for {
		line, err := r.Next()
		var bad *pipe.Error
		if errors.As(err, &bad) {
			f.tell(bad)
			continue
		}
		if err != nil {
			return
		}
		t, seq := pipe.Peek(line)
		m, bad := pipe.Decode(line)
		switch {
		case t == pipe.TypeError:
		case bad != nil && t == pipe.TypeCommand && seq > 0:
			f.fail(seq, bad)
		case bad != nil:
			f.tell(bad)
		case !t.FromAgent() || t == pipe.TypeInitAck:
			f.tell(pipe.Errorf(pipe.CodeUnknownType, "not from an agent"))
		case t == pipe.TypeCommand:
			f.command(m.(*pipe.Command), line)
		}
	}
}

func (f *hostFake) tell(e *pipe.Error) {
	_ = f.w.Write(&pipe.ErrorMessage{Type: pipe.TypeError, Code: e.Code, Message: e.Message})
}

func (f *hostFake) fail(seq uint64, e *pipe.Error) {
	_ = f.w.Write(&pipe.Response{Seq: seq, Type: pipe.TypeResponse, Error: e, Data: f.data(f.main)})
}

func (f *hostFake) data(p *pageFake) *pipe.Data {
	return &pipe.Data{Page: &agent.Page{ID: p.id, URL: p.url, Domain: p.domain, Title: p.title}}
}

func (f *hostFake) command(c *pipe.Command, line []byte) {
	if f.fault == "signs-what-it-knows" {
		line, _ = pipe.Encode(c)
	}
	if bad := pipe.Verify(line, f.key); bad != nil {
		f.fail(c.Seq, bad)
		return
	}
	if bad := f.guard.Accept(c.Seq); bad != nil && f.fault != "no-guard" {
		f.fail(c.Seq, bad)
		return
	}
	p := f.main
	if c.PageID != "" {
		p = f.pages[c.PageID]
	}
	if p == nil {
		f.fail(c.Seq, pipe.Errorf(pipe.CodeZombieNotFound, "no page %s", c.PageID))
		return
	}
	d := f.data(p)
	if bad := f.allow(c, p, d); bad != nil {
		if bad.Code != "" {
			_ = f.w.Write(&pipe.Response{Seq: c.Seq, Type: pipe.TypeResponse, Error: bad, Data: d})
		}
		return
	}
	tree, bad := f.carryOut(c, p, d)
	d.Page = f.data(p).Page
	_ = f.w.Write(&pipe.Response{Seq: c.Seq, Type: pipe.TypeResponse, Success: bad == nil, Error: bad, Data: d, AOMSnapshot: tree})
}

// allow is the policy. A code "" means that the command is held.
func (f *hostFake) allow(c *pipe.Command, p *pageFake, d *pipe.Data) *pipe.Error {
	a := f.rules.PipeActions
	if slices.Contains(a.Blocked, c.Action) {
		return pipe.Errorf(pipe.CodeActionBlocked, "blocked")
	}
	if !slices.Contains(a.Allowed, c.Action) && !slices.Contains(a.NeedConfirm, c.Action) {
		return pipe.Errorf(pipe.CodeActionNotAllowed, "not allowed")
	}
	params, err := action.Parse(c.Action, c.Params)
	if err != nil {
		return pipe.Errorf(pipe.CodeInvalidParams, "%v", err)
	}
	domain := p.domain
	if target, _ := action.Target(c.Action, params); target != "" {
		domain = target
	}
	if !slices.Contains(f.rules.Domains.Allowed, c.Security.ExpectedDomain) {
		return pipe.Errorf(pipe.CodeDomainNotAllowed, "not allowed")
	}
	if c.Security.ExpectedDomain != domain {
		return pipe.Errorf(pipe.CodeDomainMismatch, "mismatch")
	}
	s := agent.Subject{Domain: domain, Rule: "need_confirm"}
	if dialog := c.Action == action.Click && strings.Contains(string(params), `"#ask"`) && f.fault != "says-ok"; dialog {
		s = agent.Subject{Domain: domain, Role: "button", Name: "Ask", Context: "confirm(): “" + siteQuestion + "”", Rule: "native_dialog"}
	} else if !slices.Contains(a.NeedConfirm, c.Action) {
		return nil
	}
	ask := &pipe.ConfirmAsk{Subject: s, Digest: agent.Digest(c.Action, params, c.PageID, s)}
	if g := c.Security.Grant; g != nil {
		if f.used[g.ID] {
			return pipe.Errorf(pipe.CodeGrantInvalid, "used")
		}
		if g.Digest == ask.Digest || f.fault == "any-grant" {
			f.used[g.ID] = f.fault != "grant-twice"
			return nil
		}
	}
	if f.fault == "holds" {
		_ = f.w.Write(&pipe.ConfirmPending{Type: pipe.TypeConfirmPending, Seq: c.Seq, Ask: *ask})
		return &pipe.Error{}
	}
	d.Confirm = ask
	return pipe.Errorf(pipe.CodeNeedConfirm, "ask somebody")
}

func (f *hostFake) carryOut(c *pipe.Command, p *pageFake, d *pipe.Data) ([]pipe.AOMNode, *pipe.Error) {
	params, _ := action.Parse(c.Action, c.Params)
	var all struct {
		URL, Selector, Text, Key, Value, Format string
		Outer                                   bool
		PageID                                  string `json:"page_id"`
	}
	if err := json.Unmarshal(params, &all); err != nil {
		return nil, pipe.Errorf(pipe.CodeInternal, "%v", err)
	}
	switch c.Action {
	case action.Navigate:
		return nil, f.load(p, all.URL)
	case action.ZombieSpawn:
		f.loads++
		d.PageID = fmt.Sprintf("z%d", f.loads)
		f.pages[d.PageID] = &pageFake{id: d.PageID}
		return nil, f.load(f.pages[d.PageID], all.URL)
	case action.ZombieKill:
		delete(f.pages, all.PageID)
	case action.GetText, action.GetHTML, action.Click, action.Type, action.WaitForSelector:
		return nil, f.element(c.Action, p, d, all.Selector, all.Text, all.Outer)
	case action.GetAOMSnapshot:
		d.Snapshot = fmt.Sprintf("heading %q\nbutton \"Go ahead\" [ref=e%d]\n", "Conformance 一致性", f.loads)
		d.Truncated = len(p.body) > 10000
		if all.Format == action.FormatTree {
			return []pipe.AOMNode{{Role: "form", Children: []pipe.AOMNode{{Role: "button", Name: "Go ahead", Bounds: [4]int{0, 0, 9, 9}}}}}, nil
		}
	case action.StorageSet:
		p.store[all.Key] = all.Value
	case action.StorageGet:
		v, ok := p.store[all.Key]
		d.Text, d.Found = v, &ok
	case action.PageScreenshot:
		d.Image, d.MIME, d.Width, d.Height = []byte{1}, "image/png", 1, 1
	}
	return nil, nil
}

func (f *hostFake) load(p *pageFake, url string) *pipe.Error {
	client := http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !slices.Contains(f.rules.Domains.Allowed, r.URL.Hostname()) && f.fault != "follows" {
			return http.ErrAbortHandler
		}
		return nil
	}}
	resp, err := client.Get(url)
	if errors.Is(err, http.ErrAbortHandler) {
		return pipe.Errorf(pipe.CodeDomainNotAllowed, "redirect")
	}
	if err != nil {
		return pipe.Errorf(pipe.CodeNavigationFailed, "%v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return pipe.Errorf(pipe.CodeNavigationFailed, "%v", err)
	}
	f.loads++
	p.url, p.domain, p.body = resp.Request.URL.String(), resp.Request.URL.Hostname(), string(raw)
	if m := regexp.MustCompile("<title>(.*?)</title>").FindStringSubmatch(p.body); m != nil {
		p.title = m[1]
	}
	if f.fault == "follows" && p.domain != siteHost {
		return pipe.Errorf(pipe.CodeDomainNotAllowed, "too late")
	}
	return nil
}

func (f *hostFake) element(name string, p *pageFake, d *pipe.Data, selector, text string, outer bool) *pipe.Error {
	if strings.HasPrefix(selector, "[ref=") {
		if selector != fmt.Sprintf("[ref=e%d]", f.loads) && f.fault != "no-stale" {
			return pipe.Errorf(pipe.CodeRefStale, "stale")
		}
		selector = "#go"
	}
	if strings.HasPrefix(selector, "#[") {
		return pipe.Errorf(pipe.CodeInvalidSelector, "no selector")
	}
	id := strings.TrimPrefix(selector, "#")
	m := regexp.MustCompile(`<(\w+) id="` + id + `"[^>]*>`).FindStringSubmatchIndex(p.body)
	if m == nil {
		if name == action.WaitForSelector {
			return pipe.Errorf(pipe.CodeSelectorTimeout, "none")
		}
		return pipe.Errorf(pipe.CodeSelectorNotFound, "none")
	}
	closing := "</" + p.body[m[2]:m[3]] + ">"
	inner, _, _ := strings.Cut(p.body[m[1]:], closing)
	switch {
	case name == action.Click && id == "go":
		p.body = strings.Replace(p.body, "waiting", "clicked", 1)
	case name == action.Click && id == "ask":
		p.body = strings.Replace(p.body, ">waiting<", ">answered 1<", 1)
	case name == action.Type:
		p.field = text
	case name == action.GetText && id == "name":
		d.Text = p.field
	case name == action.GetText:
		d.Text = inner
	case name == action.GetHTML && outer:
		d.HTML = p.body[m[0]:m[1]] + inner + closing
	case name == action.GetHTML:
		d.HTML = inner
	}
	const most = 100_000
	if len(d.Text)+len(d.HTML) > most {
		d.Text, d.HTML = d.Text[:min(most, len(d.Text))], d.HTML[:min(most, len(d.HTML))]
		d.Text, d.HTML = strings.ToValidUTF8(d.Text, ""), strings.ToValidUTF8(d.HTML, "")
		d.Truncated = f.fault != "no-mark"
	}
	return nil
}
