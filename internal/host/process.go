package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/child"
	"sgclaw/internal/pipe"
)

// Errors of Process.
var (
	ErrNotRunning     = errors.New("the agent is not running")
	ErrAlreadyRunning = errors.New("the agent is already running")
	ErrStopped        = errors.New("the agent was stopped before it was ready")
)

// Commands carries out the commands of one agent process after another.
// Router is the real one.
type Commands interface {
	// Open begins a conversation. send writes one line to the agent; it may
	// be called from any goroutine.
	Open(key pipe.Key, send func(line []byte) error) Conversation
}

// Conversation is one agent process's commands.
type Conversation interface {
	// Command takes one command line. It returns at once; the response goes
	// out later.
	Command(line []byte)
	// Cancel takes a command back, see pipe.Cancel.
	Cancel(seq uint64)
	// Wind drops what waits for a person, unexecuted, because the agent is
	// about to be stopped. Commands under way go on.
	Wind()
	// Close also cancels commands under way and waits until the last one has
	// let go of its page. Nothing is sent any more.
	Close()
}

// AgentConfig says which agent to run and how. Path is required.
type AgentConfig struct {
	Path string
	Args []string
	Env  []string // nil: the host's
	Dir  string
	// BrowserID names the browser profile for good.
	BrowserID    string
	Capabilities []string
	// Page tells where the main page stands when the agent starts; may be
	// nil.
	Page func() *agent.Page
	// Stderr gets what the agent writes to its stderr; nil drops it. The end
	// is kept for OnCrash in any case.
	Stderr io.Writer
	// Grace is how long to wait at each step of Stop; 0 means the protocol's
	// 2 s.
	Grace time.Duration
}

// Process is the agent process (seed 001 §3.1, SgClawProcessHost). All
// methods may be called from any goroutine.
type Process struct {
	log      *slog.Logger
	cfg      AgentConfig
	commands Commands
	notices  notices

	mu      sync.Mutex
	state   State
	proc    *proc // nil unless starting, running or stopping
	agentID string
}

// proc is one run of the agent.
type proc struct {
	cmd     *exec.Cmd
	stdin   *os.File
	lines   *pipe.Reader
	out     *pipe.Writer
	tail    tail
	talk    Conversation
	replies chan struct{} // bounds error messages under way
	ready   chan struct{} // closed when the handshake has ended; talk is set if it went well
	gone    chan struct{} // closed when the process has ended
	exited  chan struct{} // closed when the state has settled

	mu       sync.Mutex
	stopping bool  // Stop was called
	fault    error // why the host killed it
}

// NewProcess makes a Process in state stopped.
func NewProcess(log *slog.Logger, commands Commands, cfg AgentConfig) *Process {
	if cfg.Grace == 0 {
		cfg.Grace = pipe.StopGrace
	}
	return &Process{log: log, cfg: cfg, commands: commands, state: StateStopped}
}

// AddObserver registers an observer until remove is called.
func (p *Process) AddObserver(o Observer) (remove func()) { return p.notices.add(o) }

// State returns the present state.
func (p *Process) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// AgentID is the running agent's id, for audit; empty if none is running.
func (p *Process) AgentID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agentID
}

// setState is called with mu held.
func (p *Process) setState(s State) {
	if p.state == s {
		return
	}
	p.state = s
	p.log.Info("agent state", "state", s)
	p.notices.post(func(o Observer) { o.OnStateChanged(s) })
}

// Start runs the agent and returns when it is running. On error the agent
// has been ended, the state is crashed, and observers know why. ctx bounds
// the start only.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	if p.proc != nil {
		p.mu.Unlock()
		return ErrAlreadyRunning
	}
	p.setState(StateStarting)
	c, stdout, err := p.spawn()
	if err != nil {
		p.setState(StateCrashed)
		p.notices.post(func(o Observer) { o.OnCrash(-1, err.Error()) })
		p.mu.Unlock()
		return err
	}
	p.proc = c
	p.mu.Unlock()
	go p.tend(c, stdout)

	err = p.handshake(ctx, c)
	if err != nil {
		c.kill(err)
	}
	close(c.ready)
	if err == nil {
		return nil
	}
	<-c.exited
	if c.wasStopped() {
		return ErrStopped
	}
	return fmt.Errorf("start %s: %w", p.cfg.Path, err)
}

// handshake makes the agent ready (seed 001 §5.4).
func (p *Process) handshake(ctx context.Context, c *proc) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.gone:
			// What it said last is still to be read, unless a grandchild
			// holds the other end.
			wait(ctx.Done(), p.cfg.Grace)
			cancel()
		case <-ctx.Done():
		}
	}()
	init := pipe.Init{Capabilities: p.cfg.Capabilities, BrowserID: p.cfg.BrowserID}
	if p.cfg.Page != nil {
		init.Page = p.cfg.Page()
	}
	agreed, err := pipe.HostHandshake(ctx, c.lines, c.out, init)
	var refused *pipe.Error
	if err != nil {
		if errors.As(err, &refused) {
			return err
		}
		select {
		case <-c.gone:
			return errors.New("the agent ended before it was ready")
		default:
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.wasStopped() {
		return ErrStopped
	}
	c.talk = p.commands.Open(agreed.Key, c.out.WriteLine)
	p.agentID = agreed.Ack.AgentID
	p.log.Info("agent ready", "agent_id", agreed.Ack.AgentID, "browser_id", agreed.Ack.BrowserID)
	p.setState(StateRunning)
	return nil
}

// spawn starts the process.
func (p *Process) spawn() (_ *proc, stdout *os.File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("agent binary: %w", err)
		}
	}()
	st, err := os.Stat(p.cfg.Path)
	if err != nil {
		return nil, nil, err
	}
	if st.IsDir() {
		return nil, nil, fmt.Errorf("%s is a folder", p.cfg.Path)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, inR.Close(), inW.Close())
	}
	c := &proc{
		stdin: inW, out: pipe.NewWriter(inW), lines: pipe.NewReader(outR),
		replies: make(chan struct{}, maxInFlight),
		ready:   make(chan struct{}), gone: make(chan struct{}), exited: make(chan struct{}),
	}
	c.cmd = exec.Command(p.cfg.Path, p.cfg.Args...)
	c.cmd.Env, c.cmd.Dir = p.cfg.Env, p.cfg.Dir
	c.cmd.Stdin, c.cmd.Stdout = inR, outW
	c.cmd.Stderr = &c.tail
	if p.cfg.Stderr != nil {
		c.cmd.Stderr = io.MultiWriter(&c.tail, p.cfg.Stderr)
	}
	// A grandchild that inherited stderr must not keep Wait from returning.
	c.cmd.WaitDelay = p.cfg.Grace
	err = child.Start(c.cmd)
	_ = inR.Close()
	_ = outW.Close()
	if err != nil {
		return nil, nil, errors.Join(err, inW.Close(), outR.Close())
	}
	return c, outR, nil
}

// tend listens to the agent, waits for its end and settles the state.
func (p *Process) tend(c *proc, stdout *os.File) {
	eof := make(chan struct{})
	go func() {
		<-c.ready
		if c.talk != nil {
			p.listen(c)
			c.talk.Close()
		}
		close(eof)
		// An agent that closed its stdout is of no more use.
		p.end(c)
	}()
	err := c.cmd.Wait()
	close(c.gone)
	<-c.ready
	// What the agent had written is still to be read; a grandchild that
	// holds the other end must not keep us here.
	wait(eof, p.cfg.Grace)
	_ = stdout.Close()
	_ = c.stdin.Close()
	if c.talk != nil {
		c.talk.Close()
	}
	<-eof

	code := -1
	if c.cmd.ProcessState != nil {
		code = exitCode(c.cmd.ProcessState)
	}
	c.mu.Lock()
	stopping, fault := c.stopping, c.fault
	c.mu.Unlock()
	p.mu.Lock()
	p.proc, p.agentID = nil, ""
	if stopping || code == 0 && fault == nil {
		p.setState(StateStopped)
	} else {
		p.setState(StateCrashed)
		p.log.Error("agent crashed", "exit_code", code, "err", errors.Join(fault, err))
		text := c.tail.String()
		if fault != nil {
			text = fault.Error() + "\n" + text
		}
		p.notices.post(func(o Observer) { o.OnCrash(code, text) })
	}
	p.mu.Unlock()
	close(c.exited)
}

// end brings the process to its end: grace, SIGTERM, grace, SIGKILL. Where
// the system has no signal that asks, it is killed after the first grace.
func (p *Process) end(c *proc) {
	if wait(c.gone, p.cfg.Grace) {
		return
	}
	if err := child.Interrupt(c.cmd.Process); err == nil && wait(c.gone, p.cfg.Grace) {
		return
	}
	_ = c.cmd.Process.Kill()
}

// wait reports whether done was closed in time.
func wait(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// Stop ends the agent: shutdown message, 2 s, SIGTERM (not on Windows), 2 s,
// SIGKILL. It returns when the process is gone, and does nothing if there is
// none.
func (p *Process) Stop() {
	p.mu.Lock()
	c := p.proc
	if c == nil {
		if p.state == StateCrashed {
			p.setState(StateStopped)
		}
		p.mu.Unlock()
		return
	}
	c.mu.Lock()
	first := !c.stopping
	c.stopping = true
	c.mu.Unlock()
	if first {
		p.setState(StateStopping)
	}
	talk := c.talk
	p.mu.Unlock()
	if first {
		if talk != nil {
			talk.Wind()
		}
		// An agent that does not read must not hold up its own end.
		go func() { _ = c.out.Write(pipe.Shutdown{Type: pipe.TypeShutdown}) }()
		p.end(c)
	}
	<-c.exited
}

// Keep runs the agent until ctx is done, starting it again whenever it ends,
// with pauses from half a second to 30 s between quick failures. For
// unattended use: seed 001 §3.1 wants no restart where a person looks on.
// Keep stops the agent before it returns.
func (p *Process) Keep(ctx context.Context) {
	const shortest, longest, healthy = 500 * time.Millisecond, 30 * time.Second, time.Minute
	pause := shortest
	defer p.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		if err := p.Start(ctx); err == nil {
			p.mu.Lock()
			c := p.proc
			p.mu.Unlock()
			if c != nil {
				select {
				case <-c.exited:
				case <-ctx.Done():
					return
				}
			}
		}
		if time.Since(began) > healthy {
			pause = shortest
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// Wait blocks until the agent process of the moment has ended or ctx is
// done. It returns at once if there is none.
func (p *Process) Wait(ctx context.Context) {
	p.mu.Lock()
	c := p.proc
	p.mu.Unlock()
	if c == nil {
		return
	}
	select {
	case <-c.exited:
	case <-ctx.Done():
	}
}

// SubmitTask hands the agent a task.
func (p *Process) SubmitTask(t pipe.SubmitTask) error {
	t.Type = pipe.TypeSubmitTask
	return p.send(t)
}

// AbortTask stops a task.
func (p *Process) AbortTask(taskID, reason string) error {
	return p.send(pipe.AbortTask{Type: pipe.TypeAbortTask, TaskID: taskID, Reason: reason})
}

// Confirm answers a confirm_required.
func (p *Process) Confirm(c pipe.Confirm) error {
	c.Type = pipe.TypeConfirm
	return p.send(c)
}

func (p *Process) send(message any) error {
	p.mu.Lock()
	c, state := p.proc, p.state
	p.mu.Unlock()
	if c == nil || state != StateRunning {
		return ErrNotRunning
	}
	return c.out.Write(message)
}

// listen is the PipeListener: bounded lines, each handled or answered, until
// the end of the agent's stdout. It never ends because of a line.
func (p *Process) listen(c *proc) {
	for {
		line, err := c.lines.Next()
		var bad *pipe.Error
		switch {
		case errors.As(err, &bad):
			p.complain(c, 0, bad)
		case err != nil:
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				p.log.Warn("read from agent", "err", err)
			}
			return
		default:
			p.message(c, line)
		}
	}
}

// maxInFlight bounds the commands, and the complaints, that are under way at
// once. An agent that sends more is not read until some are done.
const maxInFlight = 256

// complain tells the agent that a line could not be used. It does so from
// another goroutine, since an agent that only writes would stall the reader;
// if too many complaints wait, this one is only logged.
func (p *Process) complain(c *proc, seq uint64, e *pipe.Error) {
	p.log.Warn("unusable line from agent", "seq", seq, "code", e.Code, "err", e.Message)
	select {
	case c.replies <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-c.replies }()
		_ = c.out.Write(pipe.ErrorMessage{Type: pipe.TypeError, Seq: seq, Code: e.Code, Message: e.Message})
	}()
}

// message handles one line from the agent.
func (p *Process) message(c *proc, line []byte) {
	m, bad := pipe.Decode(line)
	t, seq := pipe.Peek(line)
	switch {
	case t == pipe.TypeCommand && (bad == nil || seq > 0):
		c.talk.Command(line)
		if bad != nil {
			return
		}
	case t == pipe.TypeCancel && bad == nil:
		c.talk.Cancel(seq)
		return
	case t == pipe.TypeError:
		// Never answered: two sides that answer errors would not stop.
		if m, ok := m.(*pipe.ErrorMessage); ok {
			p.log.Warn("error from agent", "seq", m.Seq, "code", m.Code, "err", m.Message)
		}
	case bad != nil:
		p.complain(c, seq, bad)
		return
	case !t.FromAgent() || t == pipe.TypeInitAck:
		p.complain(c, seq, pipe.Errorf(pipe.CodeUnknownType, "%s is not a message from an agent that is ready", t))
		return
	}
	if bad == nil {
		p.notices.post(func(o Observer) { o.OnMessage(t, line) })
	}
}

// kill ends an agent that did not become ready.
func (c *proc) kill(why error) {
	c.mu.Lock()
	c.fault = why
	c.mu.Unlock()
	_ = c.cmd.Process.Kill()
}

func (c *proc) wasStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping
}
