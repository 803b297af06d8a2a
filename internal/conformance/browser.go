package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/child"
	"sgclaw/internal/pipe"
)

// PlayBrowser plays the browser against an agent. The error is about the
// playing itself; what the agent does wrong is in the report.
func PlayBrowser(ctx context.Context, cfg Config) (Report, error) {
	return play(ctx, cfg, browserRules(), func(r Rule, stderr *tail) *browserPlayer {
		return &browserPlayer{cfg: cfg, rule: r.ID, stderr: stderr}
	})
}

// BrowserRules lists what PlayBrowser plays.
func BrowserRules() []Rule { return list(browserRules()) }

func list[P any](rules []rule[P]) []Rule {
	out := make([]Rule, len(rules))
	for i, r := range rules {
		out[i] = r.Rule
	}
	return out
}

// browserPlayer starts agents for one rule.
type browserPlayer struct {
	cfg    Config
	rule   string
	stderr *tail
}

// agentRun is one agent process.
type agentRun struct {
	*process
	*wire
}

func (p *browserPlayer) start(ctx context.Context) (*agentRun, error) {
	proc, err := launch(ctx, p.cfg.Command, environ(p.cfg), p.stderr)
	if err != nil {
		return nil, err
	}
	return &agentRun{proc, newWire(proc.stdout, proc.stdin, pipe.Type.FromAgent)}, nil
}

func (a *agentRun) close() {
	a.stop()
	a.end()
}

// greet starts an agent and brings it past the handshake.
func (p *browserPlayer) greet(ctx context.Context) (*agentRun, *pipe.InitAck, pipe.Key, error) {
	a, err := p.start(ctx)
	if err != nil {
		return nil, nil, pipe.Key{}, err
	}
	ack, key, err := a.handshake(ctx, p.hello())
	if err != nil {
		a.close()
		return nil, nil, pipe.Key{}, err
	}
	return a, ack, key, nil
}

// handshake sends init; the next message must be init_ack.
func (a *agentRun) handshake(ctx context.Context, init pipe.Init) (*pipe.InitAck, pipe.Key, error) {
	key, err := keyOf(init.HMACSeed)
	if err == nil {
		err = a.w.Write(&init)
	}
	if err != nil {
		return nil, pipe.Key{}, err
	}
	got, err := a.await(ctx, pipe.HandshakeTimeout, func(any) bool { return true })
	if err != nil {
		return nil, pipe.Key{}, fmt.Errorf("init_ack: %w", err)
	}
	ack, ok := got.message.(*pipe.InitAck)
	if !ok {
		return nil, pipe.Key{}, fmt.Errorf("the first message is not init_ack but %.120s", got.raw)
	}
	return ack, key, nil
}

// hello is a good init. The browser id is the same each time the rule is
// played, so that an agent that keeps something per browser does not keep
// ever more.
func (p *browserPlayer) hello() pipe.Init {
	return pipe.Init{
		Type: pipe.TypeInit, Version: pipe.Version, HMACSeed: pipe.NewSeed(),
		Capabilities: []string{pipe.CapPageID, "conformance"},
		BrowserID:    "conformance-" + p.rule,
	}
}

func keyOf(seed string) (pipe.Key, error) {
	b, err := pipe.ParseSeed(seed)
	if err != nil {
		return pipe.Key{}, err
	}
	return pipe.DeriveKey(b)
}

// alive asks something that every agent answers at once.
func (a *agentRun) alive(ctx context.Context) error {
	const seq = 900001
	if err := a.send(fmt.Sprintf(`{"type":"response","seq":%d,"success":true}`, seq)); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if err := a.expectError(ctx, seq, pipe.CodeUnknownSeq); err != nil {
		return fmt.Errorf("afterwards, to a response nobody waits for: %w", err)
	}
	return nil
}

// leaves waits for exit status 0 within the 2 s of the protocol. The player
// allows one more for a busy machine.
func (a *agentRun) leaves(ctx context.Context) error {
	code, err := a.exit(ctx, pipe.StopGrace+time.Second)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("exit status %d, not 0", code)
	}
	return a.drain(ctx)
}

// dies waits for an exit status other than 0.
func (a *agentRun) dies(ctx context.Context) error {
	code, err := a.exit(ctx, patience)
	if err != nil {
		return err
	}
	if code == 0 {
		return errors.New("exit status 0 although the handshake came to nothing")
	}
	return a.drain(ctx)
}

func browserRules() []rule[*browserPlayer] {
	return []rule[*browserPlayer]{
		{Rule{"B01", "init-ack", "init_ack comes first: version, UUID v4, known actions"}, initAck},
		{Rule{"B02", "agent-id-fresh", "agent_id is new for each process"}, agentIDFresh},
		{Rule{"B03", "silent-before-init", "nothing is written before init"}, silentBeforeInit},
		{Rule{"B04", "no-init", "no init within 5 s: error PIPE_NO_INIT, exit status not 0"}, noInit},
		{Rule{"B05", "version-mismatch", "another version: error PIPE_VERSION_MISMATCH, exit status not 0"},
			refused(`{"type":"init","version":"9.9","hmac_seed":"000102030405060708090a0b0c0d0e0f"}`, pipe.CodeVersionMismatch)},
		{Rule{"B06", "short-seed", "a seed of less than 32 digits: error PIPE_INVALID_SEED, exit status not 0"},
			refused(`{"type":"init","version":"1.0","hmac_seed":"00010203"}`, pipe.CodeInvalidSeed)},
		{Rule{"B07", "long-seed", "a seed of more than 64 digits: error PIPE_INVALID_SEED, exit status not 0"},
			refused(`{"type":"init","version":"1.0","hmac_seed":"`+strings.Repeat("0f", 33)+`"}`, pipe.CodeInvalidSeed)},
		{Rule{"B08", "non-hex-seed", "a seed that is not hex: error PIPE_INVALID_SEED, exit status not 0"},
			refused(`{"type":"init","version":"1.0","hmac_seed":"`+strings.Repeat("zz", 16)+`"}`, pipe.CodeInvalidSeed)},
		{Rule{"B09", "init-incomplete", "an init without a seed: error PIPE_INVALID_MESSAGE, exit status not 0"},
			refused(`{"type":"init","version":"1.0"}`, pipe.CodeInvalidMessage)},
		{Rule{"B10", "not-init-first", "another message before init: error PIPE_UNKNOWN_TYPE, init still taken"}, notInitFirst},
		{Rule{"B11", "second-init", "a second init: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			answered(`{"type":"init","version":"1.0","hmac_seed":"000102030405060708090a0b0c0d0e0f"}`, 0, pipe.CodeUnknownType)},
		{Rule{"B12", "invalid-json", "a line that is no JSON: error PIPE_INVALID_JSON, conversation goes on"},
			answered(`{"type":"confirm",`, 0, pipe.CodeInvalidJSON)},
		{Rule{"B13", "duplicate-name", "a name twice in one object: error PIPE_INVALID_JSON, conversation goes on"},
			answered(`{"type":"abort_task","task_id":"a","task_id":"b"}`, 0, pipe.CodeInvalidJSON)},
		{Rule{"B14", "invalid-utf8", "a line that is no UTF-8: error PIPE_INVALID_JSON, conversation goes on"},
			answered("{\"type\":\"abort_task\",\"task_id\":\"\xff\xfe\"}", 0, pipe.CodeInvalidJSON)},
		{Rule{"B15", "line-too-long", "a line over 1 MiB: error PIPE_MESSAGE_TOO_LARGE once, conversation goes on"}, lineTooLong},
		{Rule{"B16", "line-just-fits", "a line of exactly 1 MiB is read"}, lineFits},
		{Rule{"B17", "blank-lines", "blank lines and CR LF are tolerated"}, blankLines},
		{Rule{"B18", "unknown-type", "an unknown type: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			answered(`{"type":"dance"}`, 0, pipe.CodeUnknownType)},
		{Rule{"B19", "wrong-way", "a command from the browser: error PIPE_UNKNOWN_TYPE, conversation goes on"},
			answered(`{"type":"command","seq":5,"action":"click","params":{"selector":"a"},"security":{"expected_domain":"a","hmac":"`+strings.Repeat("00", 32)+`"}}`, 5, pipe.CodeUnknownType)},
		{Rule{"B20", "invalid-message", "a message without a required member: error PIPE_INVALID_MESSAGE, conversation goes on"},
			answered(`{"type":"submit_task","task_id":"t1"}`, 0, pipe.CodeInvalidMessage)},
		{Rule{"B21", "unknown-seq", "a response nobody waits for: error PIPE_UNKNOWN_SEQ"},
			answered(`{"type":"response","seq":77,"success":true,"data":{"text":"x"}}`, 77, pipe.CodeUnknownSeq)},
		{Rule{"B22", "pending-unknown-seq", "a confirm_pending for no command: error PIPE_UNKNOWN_SEQ"},
			answered(`{"type":"confirm_pending","seq":78,"ask":{"role":"button","name":"批准","digest":"`+strings.Repeat("ab", 32)+`"}}`, 78, pipe.CodeUnknownSeq)},
		{Rule{"B23", "error-not-answered", "an error is not answered by an error"}, errorNotAnswered},
		{Rule{"B24", "unknown-members", "members it does not know are ignored"}, unknownMembers},
		{Rule{"B25", "submit-task", "submit_task: task_accepted, or state offline while the server is away"}, submitTask},
		{Rule{"B26", "commands", "commands count from 1, are signed, and fit the schema; a second response: PIPE_UNKNOWN_SEQ"}, commands},
		{Rule{"B27", "abort-unknown", "abort_task for an unknown id: error or state offline, no end"},
			tolerated(`{"type":"abort_task","task_id":"conformance-unknown","reason":"test"}`)},
		{Rule{"B28", "confirm-unknown", "confirm for an unknown id: error or state offline, no end"},
			tolerated(`{"type":"confirm","action_id":"conformance-unknown","approved":true,"by":"test"}`)},
		{Rule{"B29", "shutdown", "shutdown: exit status 0 within 2 s"}, leave(func(a *agentRun) error { return a.send(`{"type":"shutdown"}`) })},
		{Rule{"B30", "eof", "end of its stdin: exit status 0 within 2 s"}, leave(func(a *agentRun) error { return a.stdin.Close() })},
		{Rule{"B31", "eof-in-line", "end of its stdin in the middle of a line: the same, the rest is no message"}, leave(func(a *agentRun) error {
			_, err := a.raw.Write([]byte(`{"type":"submit_task","task_id":"conformance-half","instruction":"x"}`))
			return errors.Join(err, a.stdin.Close())
		})},
		{Rule{"B32", "sigterm", "SIGTERM: exit status 0 within 2 s"}, sigterm},
		{Rule{"B33", "stdout-clean", "after all kinds of noise, still nothing but messages on stdout"}, stdoutClean},
	}
}

func initAck(ctx context.Context, p *browserPlayer) error {
	a, ack, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if ack.Version != pipe.Version {
		return fmt.Errorf("version %q, not %q", ack.Version, pipe.Version)
	}
	if len(ack.SupportedActions) == 0 {
		return errors.New("supported_actions is empty")
	}
	for _, name := range ack.SupportedActions {
		if _, ok := action.Lookup(name); !ok {
			return fmt.Errorf("supported_actions has %q, which is no action", name)
		}
	}
	return a.silence(ctx, func(m any) bool { _, ok := m.(*pipe.InitAck); return ok })
}

func agentIDFresh(ctx context.Context, p *browserPlayer) error {
	ids := map[string]bool{}
	for range 2 {
		a, ack, _, err := p.greet(ctx)
		if err != nil {
			return err
		}
		a.close()
		if ids[ack.AgentID] {
			return fmt.Errorf("agent_id %s twice", ack.AgentID)
		}
		ids[ack.AgentID] = true
	}
	return nil
}

func silentBeforeInit(ctx context.Context, p *browserPlayer) error {
	a, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.silence(ctx, func(any) bool { return true }); err != nil {
		return err
	}
	// However slow the agent was to speak, what it said before init comes
	// before its init_ack.
	_, _, err = a.handshake(ctx, p.hello())
	return err
}

func noInit(ctx context.Context, p *browserPlayer) error {
	a, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	begin := time.Now()
	if _, err := awaitType(ctx, a.wire, pipe.HandshakeTimeout+patience, func(m *pipe.ErrorMessage) bool {
		return m.Code == pipe.CodeNoInit
	}); err != nil {
		return fmt.Errorf("error %s: %w", pipe.CodeNoInit, err)
	}
	if took := time.Since(begin); took < pipe.HandshakeTimeout-time.Second {
		return fmt.Errorf("gave up after %v already", took.Round(time.Millisecond))
	}
	return a.dies(ctx)
}

// refused plays an init that cannot be taken.
func refused(init string, code pipe.Code) func(context.Context, *browserPlayer) error {
	return func(ctx context.Context, p *browserPlayer) error {
		a, err := p.start(ctx)
		if err != nil {
			return err
		}
		defer a.close()
		if err := a.send(init); err != nil {
			return err
		}
		got, err := a.await(ctx, patience, func(any) bool { return true })
		if err != nil {
			return fmt.Errorf("error %s: %w", code, err)
		}
		if m, ok := got.message.(*pipe.ErrorMessage); !ok || m.Code != code {
			return fmt.Errorf("answered %.120s instead of error %s", got.raw, code)
		}
		return a.dies(ctx)
	}
}

func notInitFirst(ctx context.Context, p *browserPlayer) error {
	a, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.send(`{"type":"abort_task","task_id":"early"}`); err != nil {
		return err
	}
	if err := a.expectError(ctx, 0, pipe.CodeUnknownType); err != nil {
		return err
	}
	init := p.hello()
	if err := a.w.Write(&init); err != nil {
		return err
	}
	if _, err := awaitType[pipe.InitAck](ctx, a.wire, patience, nil); err != nil {
		return fmt.Errorf("init_ack: %w", err)
	}
	return a.alive(ctx)
}

// answered plays a line that is answered by an error, after which the
// conversation goes on.
func answered(line string, seq uint64, code pipe.Code) func(context.Context, *browserPlayer) error {
	return func(ctx context.Context, p *browserPlayer) error {
		a, _, _, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer a.close()
		if err := a.send(line); err != nil {
			return err
		}
		if err := a.expectError(ctx, seq, code); err != nil {
			return err
		}
		return a.alive(ctx)
	}
}

func lineTooLong(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.send(padded(3 * pipe.MaxLine)); err != nil {
		return err
	}
	if err := a.expectError(ctx, 0, pipe.CodeMessageTooLarge); err != nil {
		return err
	}
	if err := a.silence(ctx, isError); err != nil {
		return fmt.Errorf("a second answer: %w", err)
	}
	if err := a.send(padded(pipe.MaxLine + 1)); err != nil {
		return err
	}
	if err := a.expectError(ctx, 0, pipe.CodeMessageTooLarge); err != nil {
		return fmt.Errorf("one byte too many: %w", err)
	}
	return a.alive(ctx)
}

// padded is a response of n bytes that nobody waits for.
func padded(n int) string {
	const head, foot = `{"type":"response","seq":79,"success":true,"data":{"text":"`, `"}}`
	return head + strings.Repeat("x", n-len(head)-len(foot)) + foot
}

func lineFits(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.send(padded(pipe.MaxLine)); err != nil {
		return err
	}
	return a.expectError(ctx, 79, pipe.CodeUnknownSeq)
}

func blankLines(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.send("\n\r\n" + `{"type":"response","seq":80,"success":true}` + "\r"); err != nil {
		return err
	}
	got, err := a.await(ctx, patience, isError)
	if err != nil {
		return err
	}
	if m := got.message.(*pipe.ErrorMessage); m.Code != pipe.CodeUnknownSeq || m.Seq != 80 {
		return fmt.Errorf("answered %.120s", got.raw)
	}
	return nil
}

func isError(m any) bool { _, ok := m.(*pipe.ErrorMessage); return ok }

func errorNotAnswered(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	for _, line := range []string{
		`{"type":"error","code":"PIPE_INVALID_JSON","message":"test"}`,
		`{"type":"error","seq":81,"code":"PIPE_HMAC_INVALID","message":"test"}`,
		`{"type":"error"}`,
	} {
		if err := a.send(line); err != nil {
			return err
		}
	}
	if err := a.silence(ctx, isError); err != nil {
		return err
	}
	return a.alive(ctx)
}

func unknownMembers(ctx context.Context, p *browserPlayer) error {
	a, err := p.start(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.send(`{"type":"init","version":"1.0","hmac_seed":"` + pipe.NewSeed() + `","browser_id":"conformance-` + p.rule + `","future":{"a":[1,null]},"capabilities":["telepathy"]}`); err != nil {
		return err
	}
	if _, err := awaitType[pipe.InitAck](ctx, a.wire, patience, nil); err != nil {
		return fmt.Errorf("init_ack: %w", err)
	}
	if err := a.send(`{"type":"response","seq":82,"success":true,"future":true,"data":{"future":1},"error":null}`); err != nil {
		return err
	}
	return a.expectError(ctx, 82, pipe.CodeUnknownSeq)
}

const probeTask = `{"type":"submit_task","task_id":"%s","instruction":"Conformance test: answer that all is well. Do nothing else. 一致性测试：请直接回答一切正常。","locale":"zh"}`

func submitTask(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	id := "conformance-" + pipe.NewSeed()[:16]
	if err := a.send(fmt.Sprintf(probeTask, id)); err != nil {
		return err
	}
	if _, err := a.await(ctx, 2*patience, func(m any) bool {
		switch m := m.(type) {
		case *pipe.TaskAccepted:
			return m.TaskID == id
		case *pipe.State:
			return m.State == pipe.StateOffline
		}
		return false
	}); err != nil {
		return fmt.Errorf("neither task_accepted nor state offline: %w", err)
	}
	if err := a.send(`{"type":"abort_task","task_id":"` + id + `","reason":"conformance test is over"}`); err != nil {
		return err
	}
	return a.alive(ctx)
}

func commands(ctx context.Context, p *browserPlayer) error {
	a, _, key, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	id := "conformance-" + pipe.NewSeed()[:16]
	if err := a.send(fmt.Sprintf(probeTask, id)); err != nil {
		return err
	}
	seen := 0
	for seen < 3 {
		got, err := a.await(ctx, patience, func(m any) bool {
			switch m.(type) {
			case *pipe.Command, *pipe.TaskComplete:
				return true
			}
			return false
		})
		if errors.Is(err, errTimeout) {
			break
		}
		if err != nil {
			return err
		}
		cmd, ok := got.message.(*pipe.Command)
		if !ok {
			break
		}
		seen++
		if err := a.checkCommand(ctx, got.raw, cmd, key, uint64(seen)); err != nil {
			return err
		}
	}
	if err := a.send(`{"type":"abort_task","task_id":"` + id + `","reason":"conformance test is over"}`); err != nil {
		return err
	}
	if seen == 0 {
		return notApplicableError("the agent sent no command (no server, or the task needs none)")
	}
	return a.alive(ctx)
}

// checkCommand holds a command against the rules and answers it, twice.
func (a *agentRun) checkCommand(ctx context.Context, raw []byte, cmd *pipe.Command, key pipe.Key, seq uint64) error {
	if bad := pipe.Verify(raw, key); bad != nil {
		return bad
	}
	if cmd.Seq != seq {
		return fmt.Errorf("seq %d, not %d", cmd.Seq, seq)
	}
	if _, err := action.Parse(cmd.Action, cmd.Params); err != nil {
		return err
	}
	if cmd.Security.ExpectedDomain == "" {
		return errors.New("security.expected_domain is empty")
	}
	answer := fmt.Sprintf(`{"type":"response","seq":%d,"success":false,"error":{"code":"MAC_DOMAIN_NOT_ALLOWED","message":"conformance test"}}`, seq)
	if err := a.send(answer); err != nil {
		return err
	}
	if err := a.send(answer); err != nil {
		return err
	}
	return a.expectError(ctx, seq, pipe.CodeUnknownSeq)
}

// tolerated plays a message about something unknown.
func tolerated(line string) func(context.Context, *browserPlayer) error {
	return func(ctx context.Context, p *browserPlayer) error {
		a, _, _, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer a.close()
		if err := a.send(line); err != nil {
			return err
		}
		if _, err := a.await(ctx, 2*patience, func(m any) bool {
			s, ok := m.(*pipe.State)
			return isError(m) || ok && s.State == pipe.StateOffline
		}); err != nil {
			return fmt.Errorf("neither error nor state offline: %w", err)
		}
		return a.alive(ctx)
	}
}

// leave plays an end.
func leave(say func(*agentRun) error) func(context.Context, *browserPlayer) error {
	return func(ctx context.Context, p *browserPlayer) error {
		a, _, _, err := p.greet(ctx)
		if err != nil {
			return err
		}
		defer a.close()
		if err := say(a); err != nil {
			return err
		}
		return a.leaves(ctx)
	}
}

func sigterm(ctx context.Context, p *browserPlayer) error {
	if runtime.GOOS == "windows" {
		return notApplicableError("there is no SIGTERM on Windows")
	}
	return leave(func(a *agentRun) error { return child.Interrupt(a.cmd.Process) })(ctx, p)
}

func stdoutClean(ctx context.Context, p *browserPlayer) error {
	a, _, _, err := p.greet(ctx)
	if err != nil {
		return err
	}
	defer a.close()
	var noise sync.WaitGroup
	var sendErr error
	noise.Go(func() {
		for _, line := range []string{
			`nonsense`, `[]`, `null`, `{}`, `{"type":null}`, `{"type":"dance","seq":1}`, "\x00", "\xff",
			`{"type":"response"}`, `{"type":"submit_task"}`, `{"type":"confirm","action_id":5,"approved":"yes"}`,
			strings.Repeat("[", 5000), `{"type":"abort_task","task_id":"` + strings.Repeat("x", 200) + `"}`,
			padded(2 * pipe.MaxLine),
		} {
			if sendErr = a.send(line); sendErr != nil {
				return
			}
		}
	})
	noise.Wait()
	if sendErr != nil {
		return sendErr
	}
	if err := a.alive(ctx); err != nil {
		return err
	}
	if err := a.send(`{"type":"shutdown"}`); err != nil {
		return err
	}
	return a.leaves(ctx)
}
