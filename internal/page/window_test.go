package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
)

// windowLog is what a Window's document has asked for.
type windowLog struct {
	ready  chan Document
	calls  chan string
	closed chan struct{}
}

// openWindow opens a window that answers each call with its own parameters.
func openWindow(t *testing.T, b *Browser, url string) (*Window, *windowLog) {
	t.Helper()
	l := &windowLog{ready: make(chan Document, 8), calls: make(chan string, 100), closed: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w, err := b.OpenWindow(ctx, WindowOptions{
		URL:   url,
		Ready: func(d Document) { l.ready <- d },
		Call: func(d Document, id int64, name string, params json.RawMessage) {
			l.calls <- name + " " + string(params)
			go func() { _ = d.Answer(t.Context(), id, map[string]any{"success": true, "got": params}) }()
		},
		Closed: func() { close(l.closed) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, l
}

// inWindow evaluates an expression in the window's document.
func inWindow(t *testing.T, w *Window, expression string) string {
	t.Helper()
	return evaluate(t, w.b, w.session, expression)
}

func evaluate(t *testing.T, b *Browser, session, expression string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var res cdp.EvaluateResult
	err := b.conn.Call(ctx, session, "Runtime.evaluate", struct {
		cdp.Evaluate
		UserGesture bool `json:"userGesture"`
	}{cdp.Evaluate{Expression: expression, ReturnByValue: true, AwaitPromise: true}, true}, &res)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExceptionDetails != nil {
		t.Fatalf("%s: %+v", expression, res.ExceptionDetails)
	}
	var text string
	if json.Unmarshal(res.Result.Value, &text) != nil {
		text = string(res.Result.Value)
	}
	return text
}

func next[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

const panelPage = `<!DOCTYPE html><title>panel</title><p id=out></p><script>
window.told = [];
window.sgClawEvents = {
  onLogEntry(e) { told.push(e.message); out.textContent = told.join(' ') },
  onStateChanged(s) { throw new Error(s) },
};
</script>`

func TestWindow(t *testing.T) {
	srv := site(t, map[string]string{"/p/": panelPage})
	b := open(t, Options{})
	main := b.Main()
	w, l := openWindow(t, b, srv.URL+"/p/")
	d := next(t, l.ready)
	got := inWindow(t, w, `new Promise(done => window.sgFunctionsUI('sgclaw_submit_task', {instruction: '导出'}, r => done(JSON.stringify(r))))`)
	if want := `{"got":{"instruction":"导出"},"success":true}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
	if diff := cmp.Diff(next(t, l.calls), `sgclaw_submit_task {"instruction":"导出"}`); diff != "" {
		t.Error(diff)
	}
	for _, e := range []struct{ handler, message string }{{"onLogEntry", "一"}, {"onStateChanged", "x"}, {"onNothing", "x"}, {"onLogEntry", "二"}} {
		if err := d.Tell(t.Context(), e.handler, map[string]string{"message": e.message}); err != nil {
			t.Fatal(err)
		}
	}
	if got := inWindow(t, w, "document.querySelector('#out').textContent"); got != "一 二" {
		t.Errorf("told %q", got)
	}
	// What the agent works on is another page, and stays it.
	if b.Main() != main || len(b.pages) != 1 {
		t.Error("the window is a page of the agent's")
	}
	// A document that is gone takes nothing, its successor says that it is
	// there.
	inWindow(t, w, "void setTimeout(() => location.reload(), 0)")
	again := next(t, l.ready)
	if err := d.Tell(t.Context(), "onLogEntry", map[string]string{"message": "三"}); err == nil {
		t.Error("a document that is gone was told something")
	}
	if err := again.Tell(t.Context(), "onLogEntry", map[string]string{"message": "四"}); err != nil {
		t.Error(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, l.closed)
}

// TestNobodyElseHasFunctions: neither the pages that the agent works on, nor
// a frame in the window, nor what the window shows instead of its own page.
func TestNobodyElseHasFunctions(t *testing.T) {
	const probe = `<script>
	  window.found = [typeof sgFunctionsUI, typeof sgClawEvents, Object.getOwnPropertyNames(window).filter(n => /^sg/.test(n)).length].join(' ');
	  try { window.sgFunctionsUI('sgclaw_submit_task', {instruction: 'steal'}) } catch {}
	  if (parent !== window) parent.postMessage(window.found, '*');
	</script>`
	const nothing = "undefined undefined 0"
	elsewhere := site(t, map[string]string{"/p/": "<!DOCTYPE html><title>elsewhere</title>" + probe})
	srv := site(t, map[string]string{
		"/p/": `<!DOCTYPE html><title>panel</title><script>
		  window.frames_ = []; addEventListener('message', e => frames_.push(e.data)); window.sgClawEvents = {};
		</script><iframe src="/p/frame"></iframe><iframe src="` + elsewhere.URL + `/p/"></iframe><iframe src="about:blank"></iframe>`,
		"/p/frame": "<!DOCTYPE html>" + probe,
		"/p":       "<!DOCTYPE html><title>beside</title>" + probe,
		"/other":   "<!DOCTYPE html><title>other</title>" + probe,
	})
	b := open(t, Options{})
	w, l := openWindow(t, b, srv.URL+"/p/")
	next(t, l.ready)
	eventually(t, "both frames have looked", func() bool { return inWindow(t, w, "frames_.length") == "2" })
	if got := inWindow(t, w, "frames_.join()"); got != nothing+","+nothing {
		t.Errorf("frames find %s", got)
	}
	if got := inWindow(t, w, "typeof frames[2].sgFunctionsUI"); got != "undefined" {
		t.Errorf("an empty frame has %s", got)
	}
	// The page that the agent works on, at the panel's own address.
	must(t, b.Main(), action.Navigate, action.NavigateParams{URL: srv.URL + "/p/frame"})
	p := b.Main()
	if got := evaluate(t, b, p.session, "found"); got != nothing {
		t.Errorf("the agent's page finds %s", got)
	}
	for _, url := range []string{elsewhere.URL + "/p/", srv.URL + "/other", srv.URL + "/p", "data:text/html,<title>data</title>" + probe} {
		inWindow(t, w, "void setTimeout(() => { location.href = "+quoteJS(url)+" }, 0)")
		if strings.HasPrefix(url, "data:") {
			continue // a page may not go there by itself
		}
		eventually(t, url, func() bool { return inWindow(t, w, "location.href + document.readyState") == url+"complete" })
		if got := inWindow(t, w, "found"); got != nothing {
			t.Errorf("%s finds %s", url, got)
		}
		// Even one that knew the binding's name would not be served.
		w.onCall(cdp.BindingCalled{Name: w.binding, Payload: `{"id":1,"name":"sgclaw_submit_task","params":{}}`, ExecutionContextID: 1})
	}
	select {
	case c := <-l.calls:
		t.Errorf("served %s", c)
	default:
	}
}

func TestWindowLimits(t *testing.T) {
	srv := site(t, map[string]string{"/": panelPage})
	b := open(t, Options{})
	w, l := openWindow(t, b, srv.URL)
	next(t, l.ready)
	ask := func(params string) string {
		return inWindow(t, w, `new Promise(done => window.sgFunctionsUI('f', `+params+`, r => done(r.success + ' ' + r.code)))`)
	}
	for params, want := range map[string]string{
		"{x: 'y'.repeat(300000)}":                       "false TOO_LONG",
		"(() => { const a = {}; a.a = a; return a })()": "false INVALID_PARAMS",
		"() => 1":   "false TOO_LONG",
		"undefined": "true undefined",
	} {
		if got := ask(params); got != want {
			t.Errorf("%s: %s, want %s", params, got, want)
		}
	}
	if got := next(t, l.calls); got != "f {}" {
		t.Errorf("call %s", got)
	}
	got := inWindow(t, w, `Promise.all([...Array(200)].map(() => new Promise(done => sgFunctionsUI('f', {}, r => done(r.success))))).then(a => a.filter(Boolean).length)`)
	if got != "64" {
		t.Errorf("%s of 200 calls at once are served, want 64", got)
	}
}

// TestWhatAWindowOpensIsTheirs: a tab that the person opens from the window
// is none of the agent's.
func TestWhatAWindowOpensIsTheirs(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(panelPage))
	}))
	t.Cleanup(srv.Close)
	b := open(t, Options{})
	main := b.Main()
	w, l := openWindow(t, b, srv.URL+"/")
	next(t, l.ready)
	inWindow(t, w, "void (window.child = window.open('/opened'))")
	eventually(t, "the opened page", func() bool { return inWindow(t, w, "child.document.title") == "panel" })
	if got := inWindow(t, w, "typeof child.sgFunctionsUI"); got != "undefined" {
		t.Errorf("what the window opened has functions: %s", got)
	}
	if b.Main() != main || len(b.pages) != 1 {
		t.Error("what the window opened is a page of the agent's")
	}
}

func TestWindowAddresses(t *testing.T) {
	for _, c := range []struct{ url, origin, folder string }{
		{"http://127.0.0.1:80", "http://127.0.0.1", "/"},
		{"https://Panel.Example.com:443/app/index.html?x=/y/#/z/", "https://panel.example.com", "/app/"},
		{"http://[::1]:8080/a/b", "http://[::1]:8080", "/a/"},
		{"http://[::1]/a%2Fb/", "http://[::1]", "/a%2Fb/"},
		{"file:///etc/passwd", "", ""},
		{"https://user@panel.example.com/", "", ""},
	} {
		origin, folder, err := place(c.url)
		if origin != c.origin || folder != c.folder || (err != nil) != (c.origin == "") {
			t.Errorf("%s: %q %q %v", c.url, origin, folder, err)
		}
	}
}
