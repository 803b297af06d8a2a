package conformance

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The hosts that the policy knows: the site's own, one that is allowed but
// where nothing is, and one that is not allowed although the site would
// answer there.
const (
	siteHost      = "127.0.0.1"
	otherHost     = "other.invalid"
	forbiddenHost = "localhost"
)

// site is the player's little web site. It remembers which hosts it was
// asked for.
type site struct {
	url, forbidden string
	server         *http.Server

	mu    sync.Mutex
	asked []string
}

// siteQuestion is what the site asks by confirm().
const siteQuestion = "Really? 确定吗？"

// bigRows make more text than fits into a line, tallRows more page than fits
// on a screen.
const bigRows, tallRows = 15_000, 400

func openSite() (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	s := &site{url: fmt.Sprintf("http://%s:%d/", siteHost, port), forbidden: fmt.Sprintf("http://%s:%d/", forbiddenHost, port)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		page(w, "Conformance", `<h1>Conformance 一致性</h1><p id="text">The quick brown fox. 敏捷的棕色狐狸。</p>
<form onsubmit="return false"><label>Name <input id="name" name="name"></label>
<button id="go" type="button" onclick="document.getElementById('out').textContent='clicked'">Go ahead</button></form><p id="out">waiting</p>`)
	})
	mux.HandleFunc("GET /dialog", func(w http.ResponseWriter, _ *http.Request) {
		page(w, "Dialog", `<button id="ask" type="button" onclick="if(confirm('`+siteQuestion+`'))document.getElementById('out').textContent='answered '+(++n)">Ask</button>
<p id="out">waiting</p><script>var n=0</script>`)
	})
	for path, rows := range map[string]int{"/big": bigRows, "/tall": tallRows} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			var b strings.Builder
			for i := range rows {
				fmt.Fprintf(&b, "<p>Row %d of very many, which say nothing but are many. 第 %d 行，这一页很长，行数很多，内容没有意义。</p>\n", i, i)
			}
			page(w, "Long", `<div id="big">`+b.String()+`</div>`)
		})
	}
	mux.HandleFunc("GET /away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.forbidden+"landed", http.StatusFound)
	})
	s.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Host+r.URL.Path)
		s.mu.Unlock()
		mux.ServeHTTP(w, r)
	})}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

func page(w http.ResponseWriter, title, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!DOCTYPE html><title>"+html.EscapeString(title)+"</title>\n"+body)
}

// forbiddenAsked reports whether a path was asked for under the name that is
// not allowed.
func (s *site) forbiddenAsked(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.asked, func(asked string) bool {
		return strings.HasPrefix(asked, forbiddenHost) && strings.HasSuffix(asked, "/"+path)
	})
}

func (s *site) close() { _ = s.server.Close() }

// rulesFile is a policy in the format of seed 001 §2.5.
type rulesFile struct {
	Version string `json:"version"`
	Domains struct {
		Allowed []string `json:"allowed"`
	} `json:"domains"`
	PipeActions struct {
		Allowed     []string `json:"allowed"`
		Blocked     []string `json:"blocked"`
		NeedConfirm []string `json:"need_confirm"`
	} `json:"pipe_actions"`
	Storage struct {
		KeyPrefix string `json:"key_prefix"`
	} `json:"storage"`
	RateLimits struct {
		Default rateLimit `json:"default"`
	} `json:"rate_limits"`
}

type rateLimit struct {
	MaxPerSecond    int `json:"max_per_second"`
	CooldownSeconds int `json:"cooldown_seconds"`
}

func writeRules(path string) error {
	var r rulesFile
	r.Version = "1.0"
	r.Domains.Allowed = []string{siteHost, otherHost}
	r.PipeActions.Allowed = []string{
		"click", "type", "navigate", "getText", "getHtml", "waitForSelector", "pageScreenshot", "select",
		"scrollTo", "getAomSnapshot", "storageSet", "storageGet", "zombieSpawn", "zombieKill",
	}
	r.PipeActions.Blocked = []string{"eval", "executeJsInPage", "registerJsFunction", "setRequestInterceptor", "exportCookies"}
	r.PipeActions.NeedConfirm = []string{"sessionLogin", "sessionLogout", "clearStorage"}
	r.Storage.KeyPrefix = "sgclaw."
	r.RateLimits.Default = rateLimit{MaxPerSecond: 50, CooldownSeconds: 1}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}
