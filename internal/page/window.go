package page

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
)

//go:embed js/window.js
var windowScript string

// Limits of what a Window's document may ask for.
const (
	maxCallBytes = 512 << 10        // of one call, as it comes over DevTools
	tellTimeout  = 10 * time.Second // for a document to take one event
)

// Window is a tab that belongs to the person and not to the agent: no request
// finds it, and what it opens is left alone. Its document gets the functions
// of seed 001 §4.1, window.sgFunctionsUI and the calls of
// window.sgClawEvents, as SuperRPA gives them to its side panel.
//
// Only the top document of this one tab gets them, and only if its address
// begins with WindowOptions.URL up to the last slash. That is checked twice:
// in the document, and for each call by what the browser says about where it
// comes from.
type Window struct {
	b       *Browser
	opts    WindowOptions
	base    string // of the addresses whose documents get functions
	origin  string
	binding string
	target  string
	session string

	attached chan cdp.AttachedToTarget // capacity 1
	gone     chan struct{}             // closed when the tab is

	mu       sync.Mutex
	contexts map[int64]bool // of the main frame's own scripts, at origin
	url      string         // of the main frame's document
}

// WindowOptions say what a Window shows and who serves it.
type WindowOptions struct {
	// URL is the document, http or https.
	URL string
	// Call is told of a call of sgFunctionsUI, which is to be answered with
	// Document.Answer. It must return at once. name has at most 100
	// characters; params is JSON, at most 512 KiB of it.
	Call func(d Document, id int64, name string, params json.RawMessage)
	// Ready is told that a document takes events. It must return at once.
	Ready func(d Document)
	// Closed is told that the tab is gone; nothing comes after it.
	Closed func()
}

// Document is one document that a Window has shown. Its methods fail when the
// document is no longer there.
type Document struct {
	w       *Window
	context int64
}

// OpenWindow opens a tab, in a window of its own, for the person.
func (b *Browser) OpenWindow(ctx context.Context, opts WindowOptions) (*Window, error) {
	origin, folder, err := place(opts.URL)
	if err != nil {
		return nil, fmt.Errorf("open window: %w", err)
	}
	w := &Window{
		b: b, opts: opts, origin: origin, base: origin + folder, binding: "sg" + rand.Text(),
		attached: make(chan cdp.AttachedToTarget, 1), gone: make(chan struct{}), contexts: map[int64]bool{},
	}
	if err := w.create(ctx); err != nil {
		return nil, fmt.Errorf("open window: %w", err)
	}
	if err := w.setUp(ctx); err != nil {
		_ = w.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("open window: %w", err)
	}
	go w.watch()
	return w, nil
}

// place splits a page's address into its origin, as browsers write it, and
// the folder that it is in, with a slash at both ends.
func place(rawURL string) (origin, folder string, _ error) {
	host, err := action.URLHost(rawURL)
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", "", err
	}
	port := u.Port()
	if u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		port = ""
	}
	if port != "" {
		host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	folder = u.EscapedPath()
	return u.Scheme + "://" + host, "/" + strings.TrimPrefix(folder[:strings.LastIndex(folder, "/")+1], "/"), nil
}

// create makes a target that Browser.adopt leaves to the Window.
func (w *Window) create(ctx context.Context) error {
	b := w.b
	b.mu.Lock()
	b.creating++
	b.mu.Unlock()
	var res cdp.TargetRef
	err := b.conn.Call(ctx, "", "Target.createTarget", cdp.CreateTarget{URL: "about:blank", NewWindow: true}, &res)
	b.mu.Lock()
	b.creating--
	if err == nil {
		w.target = res.TargetID
		b.windows[w.target] = w
		if a, ok := b.orphans[w.target]; ok {
			delete(b.orphans, w.target)
			w.attached <- a
		}
	}
	strays := b.takeStrays()
	b.mu.Unlock()
	for _, a := range strays {
		go b.adopt(context.WithoutCancel(ctx), a)
	}
	if err != nil {
		return err
	}
	select {
	case a := <-w.attached:
		w.session = a.SessionID
		return nil
	case <-b.conn.Done():
		return b.conn.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setUp puts the functions in place before any document is there, then opens
// the first one.
func (w *Window) setUp(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	w.b.conn.Handle(w.session, func(e cdp.Event) { w.onEvent(life, e) })
	script := fmt.Sprintf("{const BINDING = %q, BASE = %s;\n%s}", w.binding, quoteJS(w.base), windowScript)
	var calls []cdp.Pending
	for _, c := range []command{
		{method: "Page.enable"},
		{method: "Runtime.enable"},
		{method: "Runtime.addBinding", params: cdp.AddBinding{Name: w.binding}},
		{method: "Page.addScriptToEvaluateOnNewDocument", params: cdp.NewDocumentScript{Source: script}},
		{method: "Runtime.runIfWaitingForDebugger"},
	} {
		call, err := w.b.conn.Go(ctx, w.session, c.method, c.params)
		if err != nil {
			return err
		}
		calls = append(calls, call)
	}
	for _, c := range calls {
		if err := c.Wait(ctx, nil); err != nil {
			return err
		}
	}
	var shown cdp.NavigateResult
	if err := w.b.conn.Call(ctx, w.session, "Page.navigate", cdp.Navigate{URL: w.opts.URL}, &shown); err != nil {
		return err
	}
	if shown.ErrorText != "" {
		// The person sees it too, and can load it again.
		w.b.log.Warn("the window's page cannot be loaded", "url", clip(w.opts.URL, 200), "err", shown.ErrorText)
	}
	return nil
}

// quoteJS writes a string as a literal of JavaScript.
func quoteJS(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // no string fails
	}
	return string(b)
}

// watch waits for the end of the tab or of the browser.
func (w *Window) watch() {
	select {
	case <-w.gone:
	case <-w.b.conn.Done():
	}
	if w.opts.Closed != nil {
		w.opts.Closed()
	}
}

// Close closes the tab.
func (w *Window) Close(ctx context.Context) error {
	err := w.b.conn.Call(ctx, "", "Target.closeTarget", cdp.TargetRef{TargetID: w.target}, nil)
	if errors.Is(err, cdp.ErrClosed) {
		return nil
	}
	return err
}

func (w *Window) onEvent(ctx context.Context, e cdp.Event) {
	switch e.Method {
	case "Page.frameNavigated":
		var f cdp.FrameNavigated
		if e.Decode(&f) == nil && f.Frame.ParentID == "" {
			w.mu.Lock()
			w.url = f.Frame.URL
			if f.Frame.UnreachableURL != "" {
				w.url = ""
			}
			w.mu.Unlock()
		}
	case "Runtime.executionContextCreated":
		var c cdp.ContextCreated
		if e.Decode(&c) != nil {
			return
		}
		if x := c.Context; x.AuxData.IsDefault && x.AuxData.FrameID == w.target && x.Origin == w.origin {
			w.mu.Lock()
			w.contexts[x.ID] = true
			w.mu.Unlock()
		}
	case "Runtime.executionContextDestroyed":
		var c cdp.ContextDestroyed
		if e.Decode(&c) == nil {
			w.mu.Lock()
			delete(w.contexts, c.ExecutionContextID)
			w.mu.Unlock()
		}
	case "Runtime.executionContextsCleared":
		w.mu.Lock()
		clear(w.contexts)
		w.mu.Unlock()
	case "Page.javascriptDialogOpening":
		var d cdp.DialogOpening
		if e.Decode(&d) == nil {
			_ = w.b.conn.Post(ctx, w.session, "Page.handleJavaScriptDialog", cdp.HandleDialog{Accept: d.Type == "beforeunload"})
		}
	case "Runtime.bindingCalled":
		var c cdp.BindingCalled
		if e.Decode(&c) == nil && c.Name == w.binding {
			w.onCall(c)
		}
	}
}

// windowCall is what the script in the document sends.
type windowCall struct {
	Ready  bool            `json:"ready"`
	ID     int64           `json:"id"`
	Name   string          `json:"name"`
	Params json.RawMessage `json:"params"`
}

// onCall takes a call if it comes from where functions were given to. The
// name of the binding is a secret that other documents cannot know; that they
// do is no reason to serve them.
func (w *Window) onCall(c cdp.BindingCalled) {
	w.mu.Lock()
	ok := w.contexts[c.ExecutionContextID] && strings.HasPrefix(w.url, w.base)
	from := w.url
	w.mu.Unlock()
	if !ok {
		w.b.log.Warn("call from a document that has no functions", "url", clip(from, 200))
		return
	}
	if len(c.Payload) > maxCallBytes {
		w.b.log.Warn("call of a window is too large", "bytes", len(c.Payload))
		return
	}
	var call windowCall
	if err := json.Unmarshal([]byte(c.Payload), &call); err != nil {
		w.b.log.Warn("call of a window cannot be read", "err", err)
		return
	}
	d := Document{w, c.ExecutionContextID}
	if call.Ready {
		w.opts.Ready(d)
		return
	}
	w.opts.Call(d, call.ID, clip(call.Name, 400), call.Params)
}

// Tell calls window.sgClawEvents[handler](arg) and returns when the handler
// has. A document that has no such handler, or whose handler throws, is told
// in vain. arg must marshal to JSON.
func (d Document) Tell(ctx context.Context, handler string, arg any) error {
	const tell = `function (handler, arg) {
  const events = window.sgClawEvents;
  if (events && typeof events[handler] === 'function') events[handler](arg);
}`
	return d.call(ctx, tell, handler, arg)
}

// Answer calls back the caller of sgFunctionsUI.
func (d Document) Answer(ctx context.Context, id int64, response any) error {
	const settle = `function (name, id, response) { window[name](id, response); }`
	return d.call(ctx, settle, d.w.binding, id, response)
}

func (d Document) call(ctx context.Context, function string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	c := cdp.CallFunctionOn{FunctionDeclaration: function, ExecutionContextID: d.context, ReturnByValue: true}
	for _, a := range args {
		c.Arguments = append(c.Arguments, cdp.CallArgument{Value: a})
	}
	var res cdp.EvaluateResult
	if err := d.w.b.conn.Call(ctx, d.w.session, "Runtime.callFunctionOn", c, &res); err != nil {
		return err
	}
	if x := res.ExceptionDetails; x != nil {
		d.w.b.log.Debug("a handler of the window threw", "err", x.Text)
	}
	return nil
}
