package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
	"sgclaw/internal/policy"
)

// Pages is the browser as the Router drives it. Browser is the real one,
// which keeps a Chromium running behind it.
type Pages interface {
	// Ready waits until there is a browser; an error if there will be none.
	Ready(ctx context.Context) *pipe.Error
	// Notices returns what has happened to the browser as a whole since the
	// last call.
	Notices() []pipe.PageEvent
	// Info says where a page stands ("" is the main page); false if there is
	// no such page.
	Info(pageID string) (agent.Page, bool)
	// Do carries out one of page.Page's actions. Data may be nil.
	Do(ctx context.Context, pageID string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error)
	Spawn(ctx context.Context, url string) (agent.Page, *pipe.Error)
	Kill(ctx context.Context, pageID string) *pipe.Error
	FillLogin(ctx context.Context, pageID string, l page.Login) (*pipe.Data, *pipe.Error)
	ClearCookies(ctx context.Context, domain string) (int, *pipe.Error)
	ClearStorage(ctx context.Context, domain string) *pipe.Error
}

// Mode says what happens to a command that a person must agree to.
type Mode string

// The two ways to ask. Both are in the protocol.
const (
	ModeAnswer Mode = "answer" // MAC_NEED_CONFIRM at once; the agent has somebody asked and sends again
	ModeHold   Mode = "hold"   // confirm_pending; the Prompter asks, then the command goes on
)

// Question is what a person at the browser is asked.
type Question struct {
	Action string
	Params json.RawMessage
	// Prompt is the rule's words, in both languages.
	Prompt policy.Prompt
	// Ask says what the action would act on.
	Ask pipe.ConfirmAsk
}

// Prompter asks a person at the browser. It blocks until there is an answer
// or ctx ends, which means that nobody wants it any more. The console of
// browserhost is the real one. It may be asked several things at once.
type Prompter interface {
	Ask(ctx context.Context, q Question) (approved bool, err error)
}

// commandLimit is how long a command may take, from its arrival to its
// response, a person's thinking apart: less than pipe.CommandTimeout, so that
// the agent gets the answer and not its own time-out.
const commandLimit = 28 * time.Second

// RouterConfig says what a Router does besides its rules. The zero value
// answers, and has no credentials.
type RouterConfig struct {
	Mode        Mode
	Prompter    Prompter    // required for ModeHold
	Credentials Credentials // nil: sessionLogin finds none
}

// Router checks commands and carries them out (seed 001, MacWhitelistCheck
// and CommandRouter). Its methods may be called from any goroutine.
type Router struct {
	log     *slog.Logger
	pages   Pages
	cfg     RouterConfig
	rules   func() *policy.Rules
	grants  grants
	dialogs dialogs

	mu     sync.Mutex
	logins map[string]string // domain to log-in URL, where sessionLogin has worked
}

// NewRouter makes a Router. rules returns the rules in force; they are asked
// for anew for each command, and again after a person was asked.
func NewRouter(log *slog.Logger, pages Pages, rules func() *policy.Rules, cfg RouterConfig) *Router {
	return &Router{log: log, pages: pages, rules: rules, cfg: cfg, logins: make(map[string]string)}
}

// Open begins a conversation with an agent.
func (r *Router) Open(key pipe.Key, send func(line []byte) error) Conversation {
	return &conversation{
		router: r, key: key, send: send,
		slots:   make(chan struct{}, maxInFlight),
		done:    make(chan struct{}),
		winding: make(chan struct{}),
		lanes:   make(map[string]chan struct{}),
		jobs:    make(map[uint64]*job),
	}
}

// conversation is the commands of one agent process.
type conversation struct {
	router *Router
	key    pipe.Key
	send   func(line []byte) error
	guard  pipe.SeqGuard // of the goroutine that calls Command
	slots  chan struct{}

	done    chan struct{} // closed when nothing more is to be done
	winding chan struct{} // closed when nobody is to be asked any more

	mu     sync.Mutex
	closed bool
	wound  bool
	lanes  map[string]chan struct{} // closed when the page's last command so far is done
	jobs   map[uint64]*job          // accepted and not yet answered
	wg     sync.WaitGroup
}

// job is one command on its way.
type job struct {
	pipe.Command
	received time.Time
	waited   time.Duration // until its turn came
	held     time.Duration // while a person was asked
	taken    chan struct{} // closed when the agent takes it back
	take     func()        // closes taken
}

// isTaken reports whether the agent has taken the command back.
func (j *job) isTaken() bool {
	select {
	case <-j.taken:
		return true
	default:
		return false
	}
}

func cancelled() *pipe.Error {
	return pipe.Errorf(pipe.CodeCancelled, "the agent took the command back; nothing was done")
}

// Cancel takes a command back, see Conversation.
func (c *conversation) Cancel(seq uint64) {
	c.mu.Lock()
	j := c.jobs[seq]
	c.mu.Unlock()
	if j != nil {
		c.router.log.Info("command taken back", "seq", seq, "action", j.Action)
		j.take()
	}
}

// Wind drops what waits for a person, see Conversation.
func (c *conversation) Wind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.wound {
		c.wound = true
		close(c.winding)
	}
}

// Close ends the conversation, see Conversation.
func (c *conversation) Close() {
	c.Wind()
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// until is a context that also ends with a channel.
func until(ctx context.Context, end <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Command takes one command line, see Conversation. With maxInFlight
// commands under way it waits for one to be done.
func (c *conversation) Command(line []byte) {
	select {
	case c.slots <- struct{}{}:
	case <-c.done:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	j := &job{received: time.Now(), taken: make(chan struct{})}
	j.take = sync.OnceFunc(func() { close(j.taken) })
	fault := c.accept(line, j)
	var before, done chan struct{}
	lane, ordered := c.lane(j)
	if fault == nil && ordered {
		before, done = c.lanes[lane], make(chan struct{})
		c.lanes[lane] = done
	}
	if fault == nil {
		c.jobs[j.Seq] = j
	}
	c.wg.Go(func() {
		defer func() { <-c.slots }()
		if done != nil {
			defer c.leave(lane, done)
		}
		life, end := until(context.Background(), c.done)
		defer end()
		if before != nil {
			select {
			case <-before:
			case <-j.taken:
				// It is answered at once; the page is not free for the next
				// one yet.
				c.respond(life, j, reply{fault: cancelled()})
				select {
				case <-before:
				case <-c.done:
				}
				return
			case <-c.done:
			}
			// The command before may have ended because everything does.
			select {
			case <-c.done:
				return
			default:
			}
		}
		c.respond(life, j, c.run(life, j, fault))
	})
}

// accept checks what can be checked without the page: shape, HMAC, seq.
func (c *conversation) accept(line []byte, j *job) *pipe.Error {
	m, fault := pipe.Decode(line)
	if fault == nil {
		cmd, ok := m.(*pipe.Command)
		if !ok {
			return pipe.Errorf(pipe.CodeUnknownType, "not a command")
		}
		j.Command = *cmd
		if fault = pipe.Verify(line, c.key); fault == nil {
			fault = c.guard.Accept(cmd.Seq)
		}
	} else {
		_, j.Seq = pipe.Peek(line)
	}
	return fault
}

// lane says in which order a command belongs: that of its page. A page that
// is yet to be opened has none.
func (c *conversation) lane(j *job) (id string, ordered bool) {
	switch j.Action {
	case action.ZombieSpawn:
		return "", false
	case action.ZombieKill:
		if p, err := action.Decode[action.ZombieKillParams](j.Params); err == nil {
			return p.PageID, true
		}
	}
	return j.PageID, true
}

func (c *conversation) leave(lane string, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes[lane] == done {
		delete(c.lanes, lane)
	}
	close(done)
}

// reply is what a command came to.
type reply struct {
	data   *pipe.Data
	nodes  []pipe.AOMNode
	fault  *pipe.Error
	prompt policy.Prompt // with data.Confirm
}

// run carries a command out, asking a person where the host does that.
func (c *conversation) run(life context.Context, j *job, fault *pipe.Error) reply {
	if fault != nil {
		return reply{fault: fault}
	}
	j.waited = time.Since(j.received)
	if j.waited >= commandLimit {
		return reply{fault: pipe.Errorf(pipe.CodeRateLimit, "the page was busy with earlier commands for %s; nothing was done", j.waited.Round(time.Second))}
	}
	if spec, _ := action.Lookup(j.Action); !spec.Effect {
		reading, end := until(life, j.taken)
		defer end()
		life = reading
	}
	var agreed string
	for {
		if j.isTaken() {
			return reply{fault: cancelled()}
		}
		ctx, cancel := context.WithDeadline(life, j.received.Add(commandLimit+j.held))
		out := c.router.attempt(ctx, j, agreed)
		cancel()
		if out.fault != nil && life.Err() != nil && j.isTaken() {
			return reply{fault: cancelled()}
		}
		if out.fault == nil || out.fault.Code != pipe.CodeNeedConfirm || c.router.cfg.Mode != ModeHold ||
			out.data == nil || out.data.Confirm == nil {
			return out
		}
		yes, settled := c.hold(j, Question{Action: j.Action, Params: j.Params, Prompt: out.prompt, Ask: *out.data.Confirm})
		switch {
		case j.isTaken():
			return reply{fault: cancelled()}
		case !settled:
			// The agent is going away. What it is told is true: nothing was
			// done, and somebody must be asked.
			return out
		case !yes:
			return reply{fault: pipe.Errorf(pipe.CodeConfirmRejected, "the person at the browser said no")}
		}
		// If the element is another by now, the digest will not fit and the
		// person is asked anew.
		agreed = out.data.Confirm.Digest
	}
}

// hold has a person asked; not settled means that there is no answer.
func (c *conversation) hold(j *job, q Question) (yes, settled bool) {
	began := time.Now()
	defer func() { j.held += time.Since(began) }()
	line, err := pipe.Encode(pipe.ConfirmPending{Type: pipe.TypeConfirmPending, Seq: j.Seq, Ask: q.Ask})
	if err == nil {
		err = c.send(line)
	}
	if err != nil {
		c.router.log.Warn("announce held command", "seq", j.Seq, "err", err)
		return false, false
	}
	asking, end := until(context.Background(), c.winding)
	defer end()
	asking, drop := until(asking, j.taken)
	defer drop()
	yes, err = c.router.cfg.Prompter.Ask(asking, q)
	if asking.Err() != nil {
		return false, false
	}
	if err != nil {
		c.router.log.Warn("ask person", "seq", j.Seq, "err", err)
		return false, false
	}
	c.router.log.Info("person asked", "seq", j.Seq, "action", j.Action, "role", q.Ask.Role, "domain", q.Ask.Domain, "approved", yes)
	return yes, true
}

// respond sends the response. A conversation that has ended gets none.
func (c *conversation) respond(life context.Context, j *job, out reply) {
	r := c.router
	if out.data == nil {
		out.data = &pipe.Data{}
	}
	if out.data.Page == nil {
		if p, ok := r.pages.Info(j.PageID); ok {
			out.data.Page = &p
		} else if p, ok := r.pages.Info(""); ok {
			out.data.Page = &p
		}
	}
	out.data.Events = append(r.pages.Notices(), out.data.Events...)
	total := time.Since(j.received)
	res := pipe.Response{
		Seq: j.Seq, Type: pipe.TypeResponse, Success: out.fault == nil,
		Data: out.data, Error: out.fault, AOMSnapshot: out.nodes,
		Timing: &pipe.Timing{
			QueueMS: j.waited.Milliseconds(),
			ExecMS:  (total - j.waited - j.held).Milliseconds(),
		},
	}
	level, code := slog.LevelDebug, pipe.Code("")
	if out.fault != nil {
		level, code = slog.LevelInfo, out.fault.Code
	}
	r.log.Log(life, level, "command done", "seq", j.Seq, "action", j.Action, "page_id", j.PageID,
		"code", code, "queue_ms", res.Timing.QueueMS, "exec_ms", res.Timing.ExecMS)
	if life.Err() != nil {
		return
	}
	c.mu.Lock()
	if c.jobs[j.Seq] == j {
		delete(c.jobs, j.Seq)
	}
	c.mu.Unlock()
	line, err := fit(&res)
	if err == nil {
		err = c.send(line)
	}
	if err != nil {
		r.log.Warn("response not sent", "seq", j.Seq, "err", err)
	}
}
