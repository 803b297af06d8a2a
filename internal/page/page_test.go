package page

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/chrometest"
	"sgclaw/internal/pipe"
)

var chromium chrometest.Shared

func TestMain(m *testing.M) { os.Exit(chrometest.Main(m, &chromium)) }

// site serves pages given as path and HTML.
func site(t testing.TB, pages map[string]string) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		html, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, html)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// logs sends logs to the test's output when it fails.
type logs struct{ t testing.TB }

func (l logs) Write(b []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// open gives a test the browser with a blank main page.
func open(t testing.TB, opts Options) *Browser {
	t.Helper()
	return openIn(t, chromium.Process(t).Conn(), opts)
}

func openIn(t testing.TB, conn *cdp.Conn, opts Options) *Browser {
	t.Helper()
	if opts.Patience == 0 {
		opts.Patience = 1200 * time.Millisecond
	}
	log := slog.New(slog.NewTextHandler(logs{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	b, err := Open(ctx, log, conn, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil && b.Err() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// show opens HTML in the main page of a fresh browser.
func show(t testing.TB, html string) *Page {
	t.Helper()
	srv := site(t, map[string]string{"/": "<!DOCTYPE html><meta charset=utf-8><title>测试</title>" + html})
	p := open(t, Options{}).Main()
	visit(t, p, srv.URL+"/")
	return p
}

func visit(t testing.TB, p *Page, url string) *pipe.Data {
	t.Helper()
	return must(t, p, action.Navigate, action.NavigateParams{URL: url})
}

func request(t testing.TB, name string, params any) Request {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	valid, err := action.Parse(name, raw)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Action: name, Params: valid}
}

// do carries out an action.
func do(t testing.TB, p *Page, name string, params any) (*pipe.Data, *pipe.Error) {
	t.Helper()
	data, _, e := p.Do(t.Context(), request(t, name, params))
	if data == nil || data.Page == nil {
		t.Fatalf("%s: reply without a page", name)
	}
	return data, e
}

func must(t testing.TB, p *Page, name string, params any) *pipe.Data {
	t.Helper()
	data, e := do(t, p, name, params)
	if e != nil {
		t.Fatalf("%s %+v: %v", name, params, e)
	}
	return data
}

// fails carries out an action that must be refused with a code.
func fails(t testing.TB, p *Page, code pipe.Code, name string, params any) *pipe.Error {
	t.Helper()
	_, e := do(t, p, name, params)
	if e == nil {
		t.Fatalf("%s %+v succeeded, want %s", name, params, code)
	}
	if e.Code != code {
		t.Fatalf("%s %+v: %v, want %s", name, params, e, code)
	}
	return e
}

type click struct {
	Selector  string `json:"selector"`
	WaitAfter *int   `json:"wait_after,omitempty"`
}

func text(t testing.TB, p *Page, selector string) string {
	t.Helper()
	return must(t, p, action.GetText, action.GetTextParams{Selector: selector}).Text
}

// eventually polls until a text on the page is as wanted.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func snap(t testing.TB, p *Page) string {
	t.Helper()
	return must(t, p, action.GetAOMSnapshot, action.GetAOMSnapshotParams{Format: "text", MaxTokens: 20000}).Snapshot
}

// refOf finds the ref of the element that a snapshot calls so, e.g.
// `button "批准"`. With a row, the one in the line with that text.
func refOf(t testing.TB, snapshot, row, what string) string {
	t.Helper()
	for l := range strings.SplitSeq(snapshot, "\n") {
		if !strings.Contains(l, row) {
			continue
		}
		if _, after, ok := strings.Cut(l, what+" [ref="); ok {
			ref, _, _ := strings.Cut(after, "]")
			return "[ref=" + ref + "]"
		}
	}
	t.Fatalf("no %s in a line with %q of the snapshot:\n%s", what, row, snapshot)
	return ""
}

func TestBasics(t *testing.T) {
	p := show(t, `<h1>请假单</h1><form onsubmit="out.textContent='sent '+q.value;return false">
		<label>姓名 <input id=q></label><button>提交</button></form><p id=out></p>`)
	s := snap(t, p)
	t.Log(s)
	must(t, p, action.Type, action.TypeParams{Selector: refOf(t, s, "", `textbox "姓名"`), Text: "张三", ClearFirst: true})
	d := must(t, p, action.Click, click{Selector: refOf(t, s, "", `button "提交"`)})
	t.Logf("%+v", d)
	if got := text(t, p, "#out"); got != "sent 张三" {
		t.Errorf("page says %q", got)
	}
}

func delay(h http.Handler, path string, d time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			select {
			case <-time.After(d):
			case <-r.Context().Done():
			}
		}
		h.ServeHTTP(w, r)
	})
}

func mousePress(x, y float64) []cdp.MouseEvent {
	return []cdp.MouseEvent{
		{Type: "mousePressed", X: x, Y: y, Button: "left", Buttons: 1, ClickCount: 1},
		{Type: "mouseReleased", X: x, Y: y, Button: "left", ClickCount: 1},
	}
}
