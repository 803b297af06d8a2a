package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/cdp"
)

// seedPanel is a panel that knows nothing but seed 001 §4.1.
const seedPanel = `<!DOCTYPE html><meta charset="utf-8"><title>panel</title><pre id="out"></pre><script>
const say = (...what) => { out.textContent += what.join(' ') + '\n' };
window.sgClawEvents = {
  onStateChanged(state) { say('state', state) },
  onLogEntry(entry) { say('log', entry.level, entry.message) },
  onConfirmRequired(action) {
    say('confirm', action.id, action.type, action.domain);
    window.sgFunctionsUI('sgclaw_confirm', {action_id: action.id, approved: true, note: '可以'}, (r) => say('confirmed', r.success, r.code));
  },
  onTaskCompleted(result) { say('completed', result.success, result.summary) },
};
</script>`

// tab is the panel's page as another client of the browser's debugging
// interface sees it.
type tab struct {
	t       *testing.T
	conn    *cdp.Conn
	session string
}

func tabAt(t *testing.T, profile, url string) *tab {
	t.Helper()
	transport, err := cdp.Dial(t.Context(), "ws://"+devtools(t, profile))
	if err != nil {
		t.Fatal(err)
	}
	conn := cdp.New(plain(t).log, transport)
	t.Cleanup(func() { _ = conn.Close() })
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(30 * time.Millisecond)
	defer again.Stop()
	for {
		var all struct {
			TargetInfos []cdp.TargetInfo `json:"targetInfos"`
		}
		if err := conn.Call(t.Context(), "", "Target.getTargets", nil, &all); err != nil {
			t.Fatal(err)
		}
		for _, target := range all.TargetInfos {
			if target.URL != url {
				continue
			}
			var attached cdp.SessionRef
			err := conn.Call(t.Context(), "", "Target.attachToTarget", struct {
				cdp.TargetRef
				Flatten bool `json:"flatten"`
			}{cdp.TargetRef{TargetID: target.TargetID}, true}, &attached)
			if err != nil {
				t.Fatal(err)
			}
			return &tab{t, conn, attached.SessionID}
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("no tab shows %s: %+v", url, all.TargetInfos)
		}
	}
}

func (p *tab) run(expression string) string {
	p.t.Helper()
	var res cdp.EvaluateResult
	if err := p.conn.Call(p.t.Context(), p.session, "Runtime.evaluate", cdp.Evaluate{Expression: expression, ReturnByValue: true, AwaitPromise: true}, &res); err != nil {
		p.t.Fatal(err)
	}
	var text string
	_ = json.Unmarshal(res.Result.Value, &text)
	return text
}

// shows waits until the page shows all texts, in this order.
func (p *tab) shows(want ...string) {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(30 * time.Millisecond)
	defer again.Stop()
	for {
		shown := p.run("out.textContent")
		rest, ok := shown, true
		for _, w := range want {
			if _, rest, ok = strings.Cut(rest, w); !ok {
				break
			}
		}
		if ok {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			p.t.Fatalf("never shown: %q in\n%s", want, shown)
		}
	}
}

func (p *tab) call(name, params string) string {
	p.t.Helper()
	return p.run(fmt.Sprintf(`new Promise(done => window.sgFunctionsUI(%q, %s, r => done(r.success + ' ' + r.code)))`, name, params))
}

// TestPanelToAgentAndBack is the whole way: panel, sgFunctionsUI, host, pipe,
// agent, and back.
func TestPanelToAgentAndBack(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(seedPanel))
	}))
	t.Cleanup(srv.Close)
	p, profile := start(t, "--panel="+srv.URL+"/panel/", "--url", srv.URL+"/work", "--chrome-arg", "--remote-debugging-port=0", "--console")
	p.says(t, "the panel is open")
	p.says(t, "agent running")
	panel := tabAt(t, profile, srv.URL+"/panel/")
	panel.shows("state running\n")
	if got := panel.call("sgclaw_start", "{}"); got != "false ALREADY_RUNNING" {
		t.Errorf("start: %s", got)
	}
	if got := panel.call("sgclaw_submit_task", "{instruction: '导出报表'}"); got != "true undefined" {
		t.Errorf("task: %s", got)
	}
	panel.shows("log info 正在分析指令: 导出报表\n", "confirm a1 click 127.0.0.1\n", "completed true a1 可以\n")
	panel.shows("confirmed true")
	if got := panel.call("sgclaw_stop", "{}"); got != "true undefined" {
		t.Errorf("stop: %s", got)
	}
	panel.shows("state running\n", "state stopped\n")
	if got := panel.call("sgclaw_submit_task", "{instruction: 'x'}"); got != "false NOT_RUNNING" {
		t.Errorf("task without an agent: %s", got)
	}
	if got := panel.call("sgclaw_start", "{}"); got != "true undefined" {
		t.Errorf("start: %s", got)
	}
	panel.shows("state stopped\n", "state running\n")
	// The page that the agent works on is of the same origin, and even of the
	// same program.
	if got := tabAt(t, profile, srv.URL+"/work").run("typeof window.sgFunctionsUI"); got != "undefined" {
		t.Errorf("the agent's page has sgFunctionsUI: %s", got)
	}
	// The panel is loaded again and knows what has been.
	panel.run("void setTimeout(() => location.reload())")
	panel.shows("state running\n")
	panel.shows("log info 正在分析指令: 导出报表\n", "completed true a1 可以\n")
	// It is closed and asked for again.
	if err := panel.conn.Call(t.Context(), panel.session, "Page.close", nil, nil); err != nil {
		t.Fatal(err)
	}
	p.says(t, "the panel was closed")
	if _, err := p.stdin.Write([]byte("panel\n")); err != nil {
		t.Fatal(err)
	}
	p.says(t, "the panel is open")
	tabAt(t, profile, srv.URL+"/panel/").shows("state running\n")
}
