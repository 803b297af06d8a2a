package page

import (
	"bytes"
	"context"
	"fmt"
	"image/jpeg"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/cdp"
	"sgclaw/internal/chrome"
	"sgclaw/internal/pipe"
)

func events(d *pipe.Data, kind string) string {
	var list []string
	for _, e := range d.Events {
		if e.Kind == kind {
			list = append(list, e.Text)
		}
	}
	return strings.Join(list, "\n")
}

// elsewhere rewrites a loopback URL to another host name for the same
// server, which makes it another site.
func elsewhere(u string) string { return strings.Replace(u, "127.0.0.1", "localhost", 1) }

func TestDialogs(t *testing.T) {
	p := show(t, `<button id=a onclick="alert('你好');out.textContent='after alert'">a</button>
		<button id=c onclick="out.textContent='confirm '+confirm('删除？')">c</button>
		<button id=p onclick="out.textContent='prompt '+prompt('name')">p</button>
		<button id=u onclick="window.addEventListener('beforeunload',e=>{e.preventDefault();e.returnValue='x'})">u</button>
		<p id=out></p>`)
	for _, tt := range []struct{ button, event, out string }{
		{"#a", "alert accepted: 你好", "after alert"},
		{"#c", "confirm dismissed: 删除？", "confirm false"},
		{"#p", "prompt dismissed: name", "prompt null"},
	} {
		d := must(t, p, action.Click, click{Selector: tt.button})
		if got := events(d, "dialog"); got != tt.event {
			t.Errorf("%s: event %q, want %q", tt.button, got, tt.event)
		}
		if got := text(t, p, "#out"); got != tt.out {
			t.Errorf("%s: page says %q, want %q", tt.button, got, tt.out)
		}
	}
	must(t, p, action.Click, click{Selector: "#u"})
	must(t, p, action.Click, click{Selector: "#out"})
	d := visit(t, p, p.url()+"?2")
	if got := events(d, "dialog"); !strings.Contains(got, "beforeunload accepted") {
		t.Errorf("event %q", got)
	}
}

func TestNavigateFailures(t *testing.T) {
	srv := site(t, map[string]string{"/": "ok"})
	p := open(t, Options{}).Main()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	fails(t, p, pipe.CodeNavigationFailed, action.Navigate, action.NavigateParams{URL: closed.URL})
	for _, u := range []string{"file:///etc/passwd", "chrome://version", "data:text/html,x", "javascript:alert(1)", "view-source:http://127.0.0.1/"} {
		r := Request{Action: action.Navigate, Params: []byte(fmt.Sprintf(`{"url":%q}`, u))}
		if _, _, e := p.Do(t.Context(), r); e == nil || e.Code != pipe.CodeDomainNotAllowed {
			t.Errorf("%s: %v", u, e)
		}
	}
	if d := visit(t, p, srv.URL+"/none"); !strings.Contains(d.Text, "HTTP status 404") {
		t.Errorf("reply %q does not tell the status", d.Text)
	}
	d := visit(t, p, srv.URL+"/#part")
	if d.Page.URL != srv.URL+"/#part" || d.Page.Domain != "127.0.0.1" || d.Page.ID != "" {
		t.Errorf("page %+v", d.Page)
	}
	r := request(t, action.Navigate, action.NavigateParams{URL: srv.URL})
	r.ExpectedDomain = "localhost"
	if _, _, e := p.Do(t.Context(), r); e == nil || e.Code != pipe.CodeDomainMismatch {
		t.Errorf("got %v", e)
	}
}

// ledger counts the documents that a server is asked for.
type ledger struct {
	mu   sync.Mutex
	seen []string
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, r.URL.String())
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprint(w, "evil")
}

func (l *ledger) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.seen...)
}

func TestForbiddenDocumentsAreNeverRequested(t *testing.T) {
	evil := &ledger{}
	bad := httptest.NewServer(evil)
	t.Cleanup(bad.Close)
	badURL := elsewhere(bad.URL) + "/x"
	mux := http.NewServeMux()
	page := func(path, html string) {
		mux.HandleFunc("GET "+exact(path), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, strings.ReplaceAll("<!DOCTYPE html>"+html, "BAD", badURL))
		})
	}
	page("/", `home`)
	mux.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hop", http.StatusFound) })
	mux.HandleFunc("GET /hop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, badURL, http.StatusFound) })
	page("/prefetch", `<p id=here>here</p><link rel=prerender href="BAD"><script type=speculationrules>{"prefetch":[{"urls":["BAD"],"eagerness":"immediate"}],"prerender":[{"urls":["BAD"],"eagerness":"immediate"}]}</script>`)
	page("/script", `<p id=here>here</p><script>location="BAD"</script>`)
	page("/meta", `<p id=here>here</p><meta http-equiv=refresh content="0;url=BAD">`)
	page("/frame", `<p id=here>here</p><iframe src="BAD" width=300 height=100></iframe>`)
	page("/nested", `<p id=here>here</p><iframe srcdoc='<iframe src="BAD"></iframe>' width=300 height=100></iframe>`)
	page("/object", `<p id=here>here</p><object data="BAD" type="text/html" width=300 height=100></object><embed src="BAD" type="text/html">`)
	page("/click", `<p id=here>here</p><a id=l href="BAD">link</a>`)
	page("/form", `<p id=here>here</p><form action="BAD" method=post><button id=l>send</button></form>`)
	page("/popup", `<p id=here>here</p><button id=l onclick="window.open('BAD')">open</button>`)
	page("/blank", `<p id=here>here</p><a id=l target=_blank href="BAD">open</a>`)
	page("/opener", `<p id=here>here</p><button id=l onclick="const w=window.open('about:blank');setTimeout(()=>{w.location='BAD'},50)">open</button>`)
	good := httptest.NewServer(mux)
	t.Cleanup(good.Close)

	b := open(t, Options{Allow: func(raw string) *pipe.Error {
		if u, err := url.Parse(raw); err != nil || u.Hostname() != "127.0.0.1" {
			return pipe.Errorf(pipe.CodeDomainNotAllowed, "%s is not on the list", u.Hostname())
		}
		return nil
	}})
	p := b.Main()
	e := fails(t, p, pipe.CodeDomainNotAllowed, action.Navigate, action.NavigateParams{URL: badURL})
	if !strings.Contains(e.Message, "localhost") {
		t.Errorf("message %q", e.Message)
	}
	visit(t, p, good.URL+"/")
	e = fails(t, p, pipe.CodeDomainNotAllowed, action.Navigate, action.NavigateParams{URL: good.URL + "/redirect"})
	if !strings.Contains(e.Message, "/redirect → ") || !strings.Contains(e.Message, "/hop → ") {
		t.Errorf("message %q does not tell the chain", e.Message)
	}
	if p.url() != good.URL+"/" {
		t.Errorf("page is at %s after a refused navigation", p.url())
	}
	presses := map[string]bool{"/click": true, "/form": true, "/popup": true, "/blank": true, "/opener": true}
	for _, path := range []string{"/prefetch", "/script", "/meta", "/frame", "/nested", "/object", "/click", "/form", "/popup", "/blank", "/opener"} {
		t.Run(path[1:], func(t *testing.T) {
			p := b.Main()
			d, e := do(t, p, action.Navigate, action.NavigateParams{URL: good.URL + path})
			if e != nil && e.Code != pipe.CodeDomainNotAllowed {
				t.Fatal(e)
			}
			if presses[path] {
				d = must(t, p, action.Click, click{Selector: "#l", WaitAfter: ptr(400)})
			}
			told := events(d, "blocked")
			if told == "" && e == nil {
				d = must(t, p, action.GetText, action.GetTextParams{Selector: "body"})
				told = events(d, "blocked")
			}
			if told == "" && e == nil && path != "/prefetch" {
				t.Error("nothing tells of the refused document")
			}
			if got := text(t, b.Main(), "#here"); got != "here" {
				t.Errorf("the page is not what it was: %q", got)
			}
		})
	}
	if got := evil.list(); len(got) != 0 {
		t.Errorf("forbidden host was asked for %q", got)
	}
}

// A frame in a process of its own is no way out, neither at first nor later.
func TestFramesStayInBounds(t *testing.T) {
	evil := &ledger{}
	bad := httptest.NewServer(evil)
	t.Cleanup(bad.Close)
	pages := map[string]string{"/in": `<!DOCTYPE html><p id=x>in</p><script>onmessage=()=>{location="` + bad.URL + `/later"}</script><iframe src="` + bad.URL + `/nested"></iframe>`}
	srv := site(t, pages)
	pages["/"] = `<!DOCTYPE html><iframe id=f src="` + elsewhere(srv.URL) + `/in"></iframe><button id=b onclick="f.contentWindow.postMessage(1,'*')">go</button>`
	good := map[string]bool{strings.TrimPrefix(srv.URL, "http://"): true, strings.TrimPrefix(elsewhere(srv.URL), "http://"): true}
	p := open(t, Options{Allow: func(raw string) *pipe.Error {
		if u, err := url.Parse(raw); err != nil || !good[u.Host] {
			return pipe.Errorf(pipe.CodeDomainNotAllowed, "%s is not on the list", u.Host)
		}
		return nil
	}}).Main()
	visit(t, p, srv.URL+"/")
	if got := text(t, p, "#f >>> #x"); got != "in" {
		t.Fatalf("frame says %q", got)
	}
	told := ""
	eventually(t, "both attempts are told", func() bool {
		told += events(must(t, p, action.Click, click{Selector: "#b", WaitAfter: ptr(50)}), "blocked")
		return strings.Contains(told, "/later")
	})
	if got := evil.list(); len(got) != 0 {
		t.Errorf("forbidden host was asked for %q", got)
	}
}

func TestStrictClosesSubResources(t *testing.T) {
	path, err := chrome.Find(os.Getenv("SGCLAW_CHROME"))
	if err != nil {
		t.Fatal(err)
	}
	evil := &ledger{}
	bad := httptest.NewServer(evil)
	t.Cleanup(bad.Close)
	srv := site(t, map[string]string{"/": strings.ReplaceAll(`<!DOCTYPE html><p id=x>x</p><img src="BAD/img"><link rel=prefetch href="BAD/prefetch"><link rel=stylesheet href="BAD/css">
		<script>fetch("BAD/fetch",{mode:"no-cors"});navigator.sendBeacon("BAD/beacon");new WebSocket("BAD/ws".replace("http","ws"))</script>`, "BAD", elsewhere(bad.URL))})
	proc, err := chrome.Start(t.Context(), slog.New(slog.DiscardHandler), chrome.Options{Path: path, Headless: true, Strict: true, AllowHosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proc.Close(context.Background()) })
	p := openIn(t, proc.Conn(), Options{Strict: true}).Main()
	visit(t, p, srv.URL+"/")
	if text(t, p, "#x") != "x" {
		t.Error("the allowed page does not work")
	}
	if got := evil.list(); len(got) != 0 {
		t.Errorf("strict mode let through %q", got)
	}
}

// In somebody's own browser only pages of ours are touched.
func TestAttached(t *testing.T) {
	path, err := chrome.Find(os.Getenv("SGCLAW_CHROME"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	proc, err := chrome.Start(t.Context(), slog.New(slog.DiscardHandler), chrome.Options{Path: path, Headless: true, Profile: dir, Args: []string{"--remote-debugging-port=0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proc.Close(context.Background()) })
	var port string
	eventually(t, "the port is known", func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "DevToolsActivePort"))
		port, _, _ = strings.Cut(string(raw), "\n")
		return port != ""
	})
	conn, err := chrome.Attach(t.Context(), slog.New(slog.DiscardHandler), "http://127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	srv := site(t, map[string]string{"/": `<a id=a target=_blank href="/?2">new</a>`})
	b := openIn(t, conn, Options{Attached: true})
	p := b.Main()
	visit(t, p, srv.URL+"/")
	must(t, p, action.Click, click{Selector: "#a"})
	if b.Main() == p || !strings.HasSuffix(b.Main().url(), "/?2") {
		t.Errorf("main page is %s", b.Main().url())
	}
	var theirs cdp.TargetRef
	if err := proc.Conn().Call(t.Context(), "", "Target.createTarget", cdp.CreateTarget{URL: srv.URL + "/?theirs"}, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var targets struct {
		TargetInfos []cdp.TargetInfo `json:"targetInfos"`
	}
	if err := proc.Conn().Call(t.Context(), "", "Target.getTargets", nil, &targets); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, i := range targets.TargetInfos {
		if i.Type == "page" {
			left = append(left, i.URL)
		}
	}
	slices.Sort(left)
	if len(left) != 2 || left[0] != "about:blank" || left[1] != srv.URL+"/?theirs" {
		t.Errorf("pages left: %q", left)
	}
}

func TestAuthAndFileChooser(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(w, "no")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<input type=file id=f><p id=x>x</p>`)
	}))
	t.Cleanup(srv.Close)
	p := open(t, Options{}).Main()
	d, e := do(t, p, action.Navigate, action.NavigateParams{URL: srv.URL + "/secret"})
	if !strings.Contains(events(d, "auth"), "cancelled") {
		t.Errorf("events %+v, error %v", d.Events, e)
	}
	visit(t, p, srv.URL+"/")
	d = must(t, p, action.Click, click{Selector: "#f"})
	if events(d, "filechooser") == "" {
		t.Errorf("events %+v", d.Events)
	}
	fails(t, p, pipe.CodeNotEditable, action.Type, action.TypeParams{Selector: "#f", Text: "/etc/passwd"})
	if text(t, p, "#x") != "x" {
		t.Error("page cannot be used afterwards")
	}
}

func TestPopup(t *testing.T) {
	srv := site(t, map[string]string{
		"/":    `<a id=l target=_blank href="/new">详情</a><p id=first>first</p>`,
		"/new": `<title>new</title><h1>新页</h1><button id=close onclick="window.close()">关闭</button>`,
	})
	b := open(t, Options{})
	first := b.Main()
	visit(t, first, srv.URL+"/")
	r := request(t, action.Click, click{Selector: "#l"})
	r.SnapshotAfter = true
	d, _, e := first.Do(t.Context(), r)
	if e != nil {
		t.Fatal(e)
	}
	if got := events(d, "popup"); !strings.Contains(got, "/new") {
		t.Errorf("events %+v", d.Events)
	}
	if d.Page.URL != srv.URL+"/new" || !strings.Contains(d.Snapshot, "# 新页") {
		t.Errorf("the reply is not about the new tab: %+v\n%s", d.Page, d.Snapshot)
	}
	second := b.Main()
	if second == first {
		t.Fatal("the new tab is not the main page")
	}
	if p, ok := b.Page(first.ID()); !ok || p != first || text(t, p, "#first") != "first" {
		t.Error("the first page cannot be had by its id")
	}
	d = must(t, second, action.Click, click{Selector: "#close"})
	eventually(t, "the first page is the main one again", func() bool { return b.Main() == first })
	if d.Page.URL != srv.URL+"/" && d.Page.URL != srv.URL+"/new" {
		t.Errorf("page %+v", d.Page)
	}
	d = must(t, first, action.Click, click{Selector: "#l"})
	if e := b.Kill(t.Context(), b.Main().ID()); e != nil {
		t.Fatal(e)
	}
	if b.Main() != first {
		t.Error("closing the tab does not bring the first page back")
	}
	_ = d
	fails(t, first, pipe.CodeZombieNotFound, action.ZombieKill, action.ZombieKillParams{PageID: first.ID()})
}

func TestZombies(t *testing.T) {
	srv := site(t, map[string]string{"/": `<p id=x>main</p>`, "/z": `<title>z</title><p id=x>zombie</p>`})
	b := open(t, Options{})
	p := b.Main()
	visit(t, p, srv.URL+"/")
	var ids []string
	for range MaxZombies {
		d := must(t, p, action.ZombieSpawn, action.ZombieSpawnParams{URL: srv.URL + "/z"})
		ids = append(ids, d.PageID)
	}
	fails(t, p, pipe.CodeZombiePoolFull, action.ZombieSpawn, action.ZombieSpawnParams{URL: srv.URL + "/z"})
	z, ok := b.Page(ids[2])
	if !ok || text(t, z, "#x") != "zombie" || z.Info().ID != ids[2] {
		t.Errorf("zombie %v %+v", ok, z.Info())
	}
	if text(t, p, "#x") != "main" || b.Main() != p {
		t.Error("zombies disturb the main page")
	}
	must(t, p, action.ZombieKill, action.ZombieKillParams{PageID: ids[2]})
	fails(t, p, pipe.CodeZombieNotFound, action.ZombieKill, action.ZombieKillParams{PageID: ids[2]})
	d := must(t, p, action.ZombieSpawn, action.ZombieSpawnParams{URL: srv.URL + "/z"})
	if d.PageID == ids[2] {
		t.Error("the id of a closed page is used again")
	}
	must(t, p, action.ZombieKill, action.ZombieKillParams{PageID: ids[0]})
	must(t, p, action.ZombieKill, action.ZombieKillParams{PageID: ids[1]})
	fails(t, p, pipe.CodeNavigationFailed, action.ZombieSpawn, action.ZombieSpawnParams{URL: "http://127.0.0.1:1/"})
	if n := len(b.pages); n != 4 {
		t.Errorf("%d pages are open, want main and three zombies", n)
	}
}

func TestDownload(t *testing.T) {
	dir := t.TempDir()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file" {
			w.Header().Set("Content-Disposition", `attachment; filename="../../报表.csv"`)
			_, _ = fmt.Fprint(w, "a,b\n")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<a id=l href=/file>download</a> <a id=m href=/file download>save</a>`)
	}))
	t.Cleanup(srv.Close)
	b := open(t, Options{DownloadDir: dir})
	p := b.Main()
	visit(t, p, srv.URL+"/")
	told := events(must(t, p, action.Click, click{Selector: "#l"}), "download")
	eventually(t, "the download is told", func() bool {
		told += events(must(t, p, action.GetText, action.GetTextParams{Selector: "#l"}), "download")
		return strings.Contains(told, "downloaded ")
	})
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) != 1 || !strings.HasSuffix(files[0], "报表.csv") {
		t.Errorf("files %q", files)
	}
	if raw, _ := os.ReadFile(files[0]); string(raw) != "a,b\n" {
		t.Errorf("file holds %q", raw)
	}
	// No document is coming that is to be waited for.
	began := time.Now()
	must(t, p, action.Click, click{Selector: "#m"})
	if took := time.Since(began); took > loadMost/2 {
		t.Errorf("a click on a link that downloads took %v", took)
	}
	d := visit(t, p, srv.URL+"/file")
	if d.Page.URL != srv.URL+"/" {
		t.Errorf("page is at %s after a download", d.Page.URL)
	}
}

func TestDownloadRefused(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename=x.exe`)
		_, _ = fmt.Fprint(w, "x")
	}))
	t.Cleanup(srv.Close)
	p := open(t, Options{}).Main()
	d, e := do(t, p, action.Navigate, action.NavigateParams{URL: srv.URL})
	if e == nil && events(d, "download") == "" {
		eventually(t, "told", func() bool {
			d := must(t, p, action.GetAOMSnapshot, struct{}{})
			return events(d, "download") != ""
		})
	}
}

func TestCrash(t *testing.T) {
	srv := site(t, map[string]string{"/": `<button id=b>b</button>`})
	p := open(t, Options{}).Main()
	visit(t, p, srv.URL+"/")
	ref := refOf(t, snap(t, p), "", `button "b"`)
	go func() {
		_ = p.b.conn.Call(context.WithoutCancel(t.Context()), p.session, "Page.crash", nil, nil)
	}()
	eventually(t, "the crash is noticed", func() bool {
		return p.now().crashed
	})
	e := fails(t, p, pipe.CodePageCrashed, action.Click, click{Selector: ref})
	if !strings.Contains(e.Message, "navigate") {
		t.Errorf("message %q does not say what to do", e.Message)
	}
	visit(t, p, srv.URL+"/")
	fails(t, p, pipe.CodeRefStale, action.Click, click{Selector: ref})
	must(t, p, action.Click, click{Selector: "#b"})
}

func TestHungScript(t *testing.T) {
	srv := site(t, map[string]string{"/": `<button id=b onclick="for(;;);">b</button><button id=c onclick="setTimeout(()=>{for(;;);},0)">c</button><p id=x>x</p>`})
	p := open(t, Options{}).Main()
	visit(t, p, srv.URL+"/")
	start := time.Now()
	d := must(t, p, action.Click, click{Selector: "#b"})
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
	if events(d, "crash") == "" {
		t.Errorf("nothing tells of the script: %+v", d.Events)
	}
	must(t, p, action.Click, click{Selector: "#c", WaitAfter: ptr(50)})
	visit(t, p, srv.URL+"/?again")
	if got := text(t, p, "#x"); got != "x" {
		t.Errorf("page says %q", got)
	}
}

func TestScreenshots(t *testing.T) {
	noise := `<canvas id=c width=1200 height=780></canvas><script>const x=c.getContext('2d'),d=x.createImageData(1200,780);for(let i=0;i<d.data.length;i++)d.data[i]=i%4==3?255:Math.random()*256;x.putImageData(d,0,0)</script>`
	tests := []struct {
		name, html string
		full       bool
	}{
		{"plain", `<h1>plain</h1>`, false},
		{"noise", noise, false},
		{"noise full", noise + `<div style="height:3000px"></div>` + strings.ReplaceAll(noise, "id=c", "id=e"), true},
		{"very long", `<div style="height:60000px;background:linear-gradient(red,blue)"></div>`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := show(t, `<body style="margin:0">`+tt.html)
			d := must(t, p, action.PageScreenshot, action.PageScreenshotParams{FullPage: tt.full})
			if len(d.Image) == 0 || len(d.Image) > maxImage {
				t.Errorf("%d bytes", len(d.Image))
			}
			c, err := jpeg.DecodeConfig(bytes.NewReader(d.Image))
			if err != nil {
				t.Fatal(err)
			}
			if abs(c.Width-d.Width) > 1 || abs(c.Height-d.Height) > 1 || c.Height > maxSide+1 {
				t.Errorf("picture is %dx%d, told %dx%d scale %v", c.Width, c.Height, d.Width, d.Height, d.Scale)
			}
			if tt.name == "very long" && !d.Truncated {
				t.Error("not told to be truncated")
			}
		})
	}
}

func exact(path string) string {
	if path == "/" {
		return "/{$}"
	}
	return path
}

func abs(n int) int { return max(n, -n) }

func TestStorage(t *testing.T) {
	p := show(t, `<script>localStorage.setItem('own','1')</script>`)
	must(t, p, action.StorageSet, action.StorageSetParams{Key: "sgclaw.a", Value: "值"})
	d := must(t, p, action.StorageGet, action.StorageGetParams{Key: "sgclaw.a"})
	if d.Text != "值" || d.Found == nil || !*d.Found {
		t.Errorf("got %q %v", d.Text, d.Found)
	}
	d = must(t, p, action.StorageGet, action.StorageGetParams{Key: "sgclaw.b"})
	if d.Text != "" || d.Found == nil || *d.Found {
		t.Errorf("absent key: %q %v", d.Text, d.Found)
	}
	for _, raw := range []string{`{"key":"own"}`, `{"key":"sgclaw"}`} {
		if _, _, e := p.Do(t.Context(), Request{Action: action.StorageGet, Params: []byte(raw)}); e == nil || e.Code != pipe.CodeStorageKey {
			t.Errorf("%s: %v", raw, e)
		}
	}
	if e := p.b.ClearStorage(t.Context(), "127.0.0.1"); e != nil {
		t.Fatal(e)
	}
	d = must(t, p, action.StorageGet, action.StorageGetParams{Key: "sgclaw.a"})
	if *d.Found {
		t.Error("storage was not cleared")
	}
}

func TestLogin(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.Method == http.MethodPost {
			if r.FormValue("u") == "张三" && r.FormValue("p") == "秘密" {
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: "1"})
				http.Redirect(w, r, "/home", http.StatusSeeOther)
				return
			}
		}
		_, _ = fmt.Fprint(w, `<meta charset=utf-8><form method=post>搜索 <input type=search><br>用户名 <input name=u><br>密码 <input type=password name=p><br><button type=button>注册</button><button>登 录</button></form>`)
	})
	mux.HandleFunc("/home", func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Cookie("sid")
		_, _ = fmt.Fprintf(w, "<p id=x>%v</p>", err == nil)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	b := open(t, Options{})
	p := b.Main()
	visit(t, p, srv.URL+"/login")
	l := Login{Domain: "127.0.0.1", User: "张三", Password: "wrong"}
	if _, e := p.FillLogin(t.Context(), l); e == nil || e.Code != pipe.CodeSessionLoginFail {
		t.Errorf("wrong password: %v", e)
	}
	l.Password = "秘密"
	if _, e := p.FillLogin(t.Context(), Login{Domain: "localhost", User: "u", Password: "p"}); e == nil || e.Code != pipe.CodeDomainMismatch {
		t.Errorf("wrong domain: %v", e)
	}
	d, e := p.FillLogin(t.Context(), l)
	if e != nil {
		t.Fatal(e)
	}
	if d.Page.URL != srv.URL+"/home" || text(t, p, "#x") != "true" {
		t.Errorf("page %+v", d.Page)
	}
	if n, e := b.ClearCookies(t.Context(), "127.0.0.1"); e != nil || n != 1 {
		t.Errorf("cleared %d cookies, %v", n, e)
	}
	visit(t, p, srv.URL+"/home")
	if got := text(t, p, "#x"); got != "false" {
		t.Errorf("still logged in: %s", got)
	}
}

func TestWaitAndScroll(t *testing.T) {
	p := show(t, `<script>setTimeout(()=>{document.body.insertAdjacentHTML('beforeend','<b id=late>x</b>')},400)</script><p id=hidden hidden>h</p><div id=far style="margin-top:3000px">far</div><div id=box style="height:100px;overflow:auto"><div style="height:1000px">in</div></div>`)
	must(t, p, action.WaitForSelector, action.WaitForSelectorParams{Selector: "#late", TimeoutMS: 3000})
	start := time.Now()
	e := fails(t, p, pipe.CodeSelectorTimeout, action.WaitForSelector, action.WaitForSelectorParams{Selector: "#hidden", TimeoutMS: 300})
	if took := time.Since(start); took > 2*time.Second || !strings.Contains(e.Message, "visible") {
		t.Errorf("took %v: %v", took, e)
	}
	fails(t, p, pipe.CodeInvalidSelector, action.WaitForSelector, action.WaitForSelectorParams{Selector: "a[", TimeoutMS: 30000})
	fails(t, p, pipe.CodeInvalidSelector, action.Click, click{Selector: "//button"})
	fails(t, p, pipe.CodeInvalidSelector, action.Click, click{Selector: "button:has-text('x')"})
	d := must(t, p, action.ScrollTo, map[string]any{"selector": "#far"})
	if !strings.Contains(d.Text, "scrolled to") || strings.Contains(d.Text, "to 0, 0") {
		t.Errorf("reply %q", d.Text)
	}
	d = must(t, p, action.ScrollTo, map[string]any{"selector": "#box", "y": 300})
	if !strings.Contains(d.Text, "0, 300") {
		t.Errorf("reply %q", d.Text)
	}
	d = must(t, p, action.ScrollTo, map[string]any{"y": 0})
	if !strings.Contains(d.Text, "to 0, 0") {
		t.Errorf("reply %q", d.Text)
	}
}

func TestNearCandidates(t *testing.T) {
	p := show(t, `<button id=submit-btn>提交</button><a href=#>帮助</a>`)
	e := fails(t, p, pipe.CodeSelectorNotFound, action.Click, click{Selector: "#submit"})
	if !strings.Contains(e.Message, `button "提交" [ref=`) {
		t.Errorf("message %q", e.Message)
	}
}

func TestLongTextIsCut(t *testing.T) {
	p := show(t, `<div id=a></div><script>a.textContent='<汉字>&'.repeat(40000)</script>`)
	d := must(t, p, action.GetText, action.GetTextParams{Selector: "#a"})
	if !d.Truncated || d.Rest == "" || !strings.Contains(d.Text, "more characters]") {
		t.Errorf("truncated %v, rest %q", d.Truncated, d.Rest)
	}
	d = must(t, p, action.GetHTML, action.GetHTMLParams{Selector: "body", Outer: true})
	if !d.Truncated || len(d.HTML) > pipe.MaxLine {
		t.Errorf("%d bytes of HTML", len(d.HTML))
	}
}

func TestLastTabClosed(t *testing.T) {
	p := show(t, `x`)
	if err := p.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a main page again", func() bool { m := p.b.Main(); return m != nil && m != p })
	srv := site(t, map[string]string{"/": "<p id=x>x</p>"})
	m := p.b.Main()
	visit(t, m, srv.URL+"/")
	if text(t, m, "#x") != "x" {
		t.Error("the fresh page cannot be used")
	}
}
