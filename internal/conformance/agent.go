package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/action"
	"sgclaw/internal/child"
	"sgclaw/internal/pipe"
)

// commandPatience is how long a command may take.
const commandPatience = pipe.CommandTimeout + 5*time.Second

// PlayAgent plays the agent against a browser host. The binary it runs in
// must call AgentProxyMain. The error is about the playing itself; what the
// host does wrong is in the report.
func PlayAgent(ctx context.Context, cfg Config) (Report, error) {
	exe, err := os.Executable()
	if err != nil {
		return Report{}, err
	}
	dir, err := os.MkdirTemp("", "sgclaw-conformance-")
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// One copy at most: the rules' stand-ins are links to it.
	base := filepath.Join(dir, "base"+filepath.Ext(exe))
	if err := os.Link(exe, base); err != nil {
		if err := copyFile(exe, base); err != nil {
			return Report{}, err
		}
	}
	s, err := openSite()
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	rules := filepath.Join(dir, "rules.json")
	if err := writeRules(rules); err != nil {
		return Report{}, err
	}
	if cfg.StartTimeout <= 0 {
		cfg.StartTimeout = 30 * time.Second
	}
	return play(ctx, cfg, agentRules(), func(_ Rule, stderr *tail) *agentPlayer {
		return &agentPlayer{cfg: cfg, stderr: stderr, dir: dir, exe: base, rules: rules, site: s}
	})
}

// AgentRules lists what PlayAgent plays.
func AgentRules() []Rule { return list(agentRules()) }

// agentPlayer starts browser hosts for one rule.
type agentPlayer struct {
	cfg             Config
	stderr          *tail
	dir, exe, rules string
	site            *site
}

// hostRun is one browser host and the agent that it has started.
type hostRun struct {
	*process
	lobby *lobby
	*standIn
	site *site
	init pipe.Init
	key  pipe.Key
	seq  uint64
}

// start starts a host and waits for its agent to start.
func (p *agentPlayer) start(ctx context.Context) (*hostRun, error) {
	dir, err := os.MkdirTemp(p.dir, "host-")
	if err != nil {
		return nil, err
	}
	lobby, err := openLobby(p.exe, dir)
	if err != nil {
		return nil, err
	}
	argv := make([]string, len(p.cfg.Command))
	for i, arg := range p.cfg.Command {
		argv[i] = strings.NewReplacer("{agent}", lobby.path, "{rules}", p.rules).Replace(arg)
	}
	proc, err := launch(ctx, argv, environ(p.cfg, "SGCLAW_PIPEHOST="+lobby.path, "SGCLAW_RULES_PATH="+p.rules), p.stderr)
	if err != nil {
		lobby.close()
		return nil, err
	}
	h := &hostRun{process: proc, lobby: lobby, site: p.site}
	go h.discard()
	select {
	case h.standIn = <-lobby.agents:
		return h, nil
	case <-proc.exited:
		h.close()
		return nil, fmt.Errorf("the host ended with status %d before it started its agent", proc.code)
	case <-time.After(p.cfg.StartTimeout):
		h.close()
		return nil, fmt.Errorf("the host did not start its agent within %v", p.cfg.StartTimeout)
	case <-ctx.Done():
		h.close()
		return nil, ctx.Err()
	}
}

// discard reads what the host itself prints, which is its own business.
func (h *hostRun) discard() {
	buf := make([]byte, 4096)
	for {
		if _, err := h.stdout.Read(buf); err != nil {
			return
		}
	}
}

// close ends the host, in order if it will.
func (h *hostRun) close() {
	if h.standIn != nil {
		h.release(0)
	}
	_ = h.ask()
	select {
	case <-h.exited:
	case <-time.After(patience):
	}
	h.end()
	if h.standIn != nil {
		h.stop()
	}
	h.lobby.close()
}

// ask asks the host to end.
func (h *hostRun) ask() error {
	err := h.stdin.Close()
	if runtime.GOOS != "windows" {
		err = errors.Join(err, child.Interrupt(h.cmd.Process))
	}
	return err
}

// meet starts a host and takes its init.
func (p *agentPlayer) meet(ctx context.Context) (*hostRun, error) {
	h, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	got, err := h.await(ctx, pipe.HandshakeTimeout, func(any) bool { return true })
	if err != nil {
		h.close()
		return nil, fmt.Errorf("init: %w", err)
	}
	init, ok := got.message.(*pipe.Init)
	if !ok {
		h.close()
		return nil, fmt.Errorf("the first message is not init but %.120s", got.raw)
	}
	h.init = *init
	if h.key, err = keyOf(init.HMACSeed); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// greet starts a host and brings it past the handshake.
func (p *agentPlayer) greet(ctx context.Context) (*hostRun, error) {
	h, err := p.meet(ctx)
	if err != nil {
		return nil, err
	}
	ack := pipe.InitAck{Type: pipe.TypeInitAck, Version: pipe.Version, AgentID: uuid.NewString(), SupportedActions: action.Names(), BrowserID: h.init.BrowserID}
	if err := h.w.Write(&ack); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// command makes the next command, signed.
func (h *hostRun) command(name, params, domain string) (*pipe.Command, error) {
	h.seq++
	c := &pipe.Command{Seq: h.seq, Action: name, Params: json.RawMessage(params), Security: pipe.Security{ExpectedDomain: domain}}
	return c, pipe.Sign(c, h.key)
}

// do sends a command and waits for its response.
func (h *hostRun) do(ctx context.Context, name, params, domain string) (*pipe.Response, error) {
	c, err := h.command(name, params, domain)
	if err != nil {
		return nil, err
	}
	return h.exchange(ctx, c)
}

func (h *hostRun) exchange(ctx context.Context, c *pipe.Command) (*pipe.Response, error) {
	if err := h.w.Write(c); err != nil {
		return nil, err
	}
	return h.response(ctx, c.Seq, commandPatience)
}

func (h *hostRun) response(ctx context.Context, seq uint64, within time.Duration) (*pipe.Response, error) {
	r, err := awaitType(ctx, h.wire, within, func(r *pipe.Response) bool { return r.Seq == seq })
	if err != nil {
		return nil, fmt.Errorf("response to seq %d: %w", seq, err)
	}
	return r, nil
}

// succeed is do, for a command that must succeed.
func (h *hostRun) succeed(ctx context.Context, name, params string) (*pipe.Response, error) {
	r, err := h.do(ctx, name, params, siteHost)
	if err != nil {
		return nil, err
	}
	if !r.Success {
		return nil, fmt.Errorf("%s: %w", name, r.Error)
	}
	if r.Data == nil {
		return nil, fmt.Errorf("%s: response without data", name)
	}
	return r, nil
}

// open brings the page to a path of the site.
func (h *hostRun) open(ctx context.Context, path string) (*pipe.Response, error) {
	return h.succeed(ctx, action.Navigate, fmt.Sprintf(`{"url":%q}`, h.site.url+path))
}

// fails checks that a response carries one of the codes.
func fails(r *pipe.Response, codes ...pipe.Code) error {
	if r.Success {
		return fmt.Errorf("succeeded instead of %s", codes[0])
	}
	for _, c := range codes {
		if r.Error.Code == c {
			return nil
		}
	}
	return fmt.Errorf("%s (%s) instead of %s", r.Error.Code, r.Error.Message, codes[0])
}

// alive sends a command with a wrong signature, which every host answers at
// once and which changes nothing.
func (h *hostRun) alive(ctx context.Context) error {
	c := &pipe.Command{
		Seq: h.seq + 1, Type: pipe.TypeCommand, Action: action.GetText, Params: json.RawMessage(`{"selector":"body"}`),
		Security: pipe.Security{ExpectedDomain: siteHost, HMAC: strings.Repeat("00", 32)},
	}
	if err := h.w.Write(c); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	r, err := h.response(ctx, c.Seq, patience)
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	return fails(r, pipe.CodeHMACInvalid)
}
