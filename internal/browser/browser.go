// Package browser is the agent's side of the pipe once the handshake is
// done: a client that sends commands to a browser host and matches the
// responses, and hands on what else the host says. The other side is package
// host, or any host that passes the conformance rules.
//
// # One command
//
//	queued --> written --> answered
//	             |  \--confirm_pending--> held --> answered
//	             v
//	          given up (30 s without confirm_pending, or the caller's context)
//	             |
//	             v  late: the caller's callback gets the response
//
// A host that can is asked to take back what was given up because its caller
// had gone.
//
// Commands for one page go one after the other: the next is written when the
// one before was answered, or when it is overdue and nothing is to be
// expected any more. Commands for different pages overlap.
//
// The client does not know which commands may be repeated. It says whether a
// command was written (pipe.ErrNotSent) and leaves the rest to its caller.
package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

// Inbound is a message of the browser that is not about a command: a
// *pipe.SubmitTask, *pipe.AbortTask or *pipe.Confirm.
type Inbound struct {
	Message any
	Line    []byte // as it came
}

// Client speaks with a browser host. Run must be running for anything to
// happen. All methods can be called from several goroutines.
type Client struct {
	log *slog.Logger
	r   *pipe.Reader
	w   *pipe.Writer
	key pipe.Key
	// cancels: the host takes commands back.
	cancels bool

	// Timeout is how long a command waits for its response; Run's caller may
	// change it before Run.
	Timeout time.Duration

	queue    chan *outgoing
	inbox    chan Inbound
	drain    chan struct{} // closed: no command is begun any more
	shutdown chan struct{} // closed: the host asked to end
	done     chan struct{} // closed: the pipe is closed
	stopping sync.Once
	drained  sync.Once
	late     sync.WaitGroup // callbacks under way

	mu      sync.Mutex
	closed  bool
	pending map[uint64]*call
	pages   map[string]agent.Page
	turns   map[string]*turn
}

// New makes the client of a conversation whose handshake is done. It reads
// and writes the pipe but does not close it.
func New(log *slog.Logger, r *pipe.Reader, w *pipe.Writer, h pipe.Handshake) *Client {
	c := &Client{
		log: log, r: r, w: w, key: h.Key, cancels: slices.Contains(h.Init.Capabilities, pipe.CapCancel),
		Timeout:  pipe.CommandTimeout,
		queue:    make(chan *outgoing, 64),
		inbox:    make(chan Inbound, 64),
		drain:    make(chan struct{}),
		shutdown: make(chan struct{}),
		done:     make(chan struct{}),
		pending:  map[uint64]*call{},
		pages:    map[string]agent.Page{},
		turns:    map[string]*turn{},
	}
	if h.Init.Page != nil {
		c.pages[h.Init.Page.ID] = *h.Init.Page
	}
	return c
}

// Inbox delivers the host's messages in order. While nobody reads it, the
// pipe is not read further. It is never closed; see Done.
func (c *Client) Inbox() <-chan Inbound { return c.inbox }

// Shutdown is closed when the host has asked the agent to end. Responses are
// still read then.
func (c *Client) Shutdown() <-chan struct{} { return c.shutdown }

// Done is closed when the pipe has ended, after which nothing can be sent.
func (c *Client) Done() <-chan struct{} { return c.done }

// Drain stops new commands: Do returns pipe.ErrNotSent. Those in hand go on.
func (c *Client) Drain() { c.drained.Do(func() { close(c.drain) }) }

// Page returns where a page stood when the host last spoke of it; the id of
// the main page is empty.
func (c *Client) Page(id string) (agent.Page, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pages[id]
	return p, ok
}

// Run reads and writes the pipe until the host closes it (nil) or an error
// makes it unusable. When it returns, every waiting Do has failed and every
// late callback has returned.
func (c *Client) Run() error {
	writer := make(chan error, 1)
	go func() { writer <- c.write() }()
	read := make(chan error, 1)
	go func() { read <- c.read() }()
	var err error
	select {
	case err = <-read:
	case err = <-writer:
	}
	c.close()
	c.late.Wait()
	return err
}

// close fails everything that waits.
func (c *Client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	for _, k := range c.pending {
		k.settle(outcome{err: pipe.ErrNoAnswer})
	}
	clear(c.pending)
}

// Do sends a command and waits for its response; Type, Seq and the signature
// are set here. held is how long the host held the command to ask a person.
//
// Without a response the error is one of those that pipe.ErrNotSent lists.
// If the response comes after all, late is called with it, once, from
// another goroutine; late may be nil.
func (c *Client) Do(ctx context.Context, cmd pipe.Command, late func(pipe.Response)) (resp pipe.Response, held time.Duration, err error) {
	leave, err := c.enter(ctx, cmd.PageID)
	if err != nil {
		return pipe.Response{}, 0, fmt.Errorf("%w: %w", pipe.ErrNotSent, err)
	}
	k := &call{
		action: cmd.Action, page: cmd.PageID, late: late, leave: leave,
		answer: make(chan outcome, 1), hold: make(chan struct{}, 1),
	}
	out := &outgoing{command: &cmd, call: k, written: make(chan error, 1)}
	select {
	case c.queue <- out:
	case <-ctx.Done():
		leave()
		return pipe.Response{}, 0, fmt.Errorf("%w: %w", pipe.ErrNotSent, ctx.Err())
	case <-c.done:
		leave()
		return pipe.Response{}, 0, fmt.Errorf("%w: %w", pipe.ErrNotSent, io.ErrClosedPipe)
	}
	select {
	case err := <-out.written:
		if err != nil {
			leave()
			return pipe.Response{}, 0, err
		}
	case <-ctx.Done():
		if out.cancel() {
			leave()
			return pipe.Response{}, 0, fmt.Errorf("%w: %w", pipe.ErrNotSent, ctx.Err())
		}
		go func() {
			select {
			case err := <-out.written:
				if err == nil {
					c.cancel(k)
				}
			case <-c.done:
			}
		}()
		c.abandon(k)
		return pipe.Response{}, 0, ctx.Err()
	case <-c.done:
		leave()
		if out.cancel() {
			return pipe.Response{}, 0, fmt.Errorf("%w: %w", pipe.ErrNotSent, io.ErrClosedPipe)
		}
		return pipe.Response{}, 0, pipe.ErrNoAnswer
	}
	return c.await(ctx, k)
}

// await waits for the response to a command that was written.
func (c *Client) await(ctx context.Context, k *call) (pipe.Response, time.Duration, error) {
	clock := time.NewTimer(c.Timeout)
	defer clock.Stop()
	var heldAt time.Time
	heldFor := func() time.Duration {
		if heldAt.IsZero() {
			return 0
		}
		return time.Since(heldAt)
	}
	for {
		select {
		case a := <-k.answer:
			k.leave()
			return a.response, heldFor(), a.err
		case <-k.hold:
			heldAt = time.Now()
			clock.Stop()
		case <-clock.C:
			return pipe.Response{}, 0, c.overdue(k)
		case <-ctx.Done():
			c.abandon(k)
			c.cancel(k)
			return pipe.Response{}, heldFor(), ctx.Err()
		}
	}
}

// overdue gives a command up whose time is over. The page is free again:
// what waits on it has its own clock.
func (c *Client) overdue(k *call) error {
	c.giveUp(k)
	k.leave()
	return pipe.Errorf(pipe.CodeTimeout, "no response to %s within %v", k.action, c.Timeout)
}

// cancel asks the host to take a written command back, so that the page is
// soon free and nobody is asked about it any more. The host answers in any
// case; what it answers is late.
func (c *Client) cancel(k *call) {
	if c.cancels {
		c.Offer(&pipe.Cancel{Type: pipe.TypeCancel, Seq: k.seq})
	}
}

// abandon gives a command up whose caller has gone. The host is still at it,
// so the page stays taken until it answers or its time is over.
func (c *Client) abandon(k *call) {
	c.giveUp(k)
	time.AfterFunc(c.Timeout, k.leave)
}

// giveUp makes the response, if it comes, go to the late callback.
func (c *Client) giveUp(k *call) {
	c.mu.Lock()
	k.abandoned = true
	c.mu.Unlock()
	select {
	case a := <-k.answer:
		// It came in the same moment.
		c.deliverLate(k, a)
	default:
	}
}

func (c *Client) deliverLate(k *call, a outcome) {
	k.leave()
	if a.err != nil || k.late == nil {
		return
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.late.Go(func() { k.late(a.response) })
	}
	c.mu.Unlock()
	if closed {
		k.late(a.response)
	}
}

// Send writes a message other than a command, e.g. a *pipe.TaskComplete, and
// returns when it is written.
func (c *Client) Send(ctx context.Context, message any) error {
	out := &outgoing{message: message, written: make(chan error, 1)}
	select {
	case c.queue <- out:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return io.ErrClosedPipe
	}
	select {
	case err := <-out.written:
		return err
	case <-ctx.Done():
		if out.cancel() {
			return ctx.Err()
		}
		// It is being written; what is on the wire counts as sent.
		return nil
	case <-c.done:
		return io.ErrClosedPipe
	}
}

// Offer writes a message of which it does not matter if it gets lost, e.g. a
// *pipe.Log. It never blocks: when too much waits to be written, the message
// is dropped.
func (c *Client) Offer(message any) {
	select {
	case c.queue <- &outgoing{message: message, written: make(chan error, 1)}:
	default:
		c.log.Warn("message dropped, the browser does not read")
	}
}

// Tell offers an error message; seq is 0 if it is about no command.
func (c *Client) Tell(seq uint64, e *pipe.Error) {
	c.Offer(&pipe.ErrorMessage{Type: pipe.TypeError, Seq: seq, Code: e.Code, Message: e.Message})
}

// enter waits until it is the caller's turn on a page. leave may be called
// more than once.
func (c *Client) enter(ctx context.Context, page string) (leave func(), err error) {
	select {
	case <-c.drain:
		return nil, errors.New("agent is stopping")
	case <-c.done:
		return nil, io.ErrClosedPipe
	default:
	}
	c.mu.Lock()
	t := c.turns[page]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		c.turns[page] = t
	}
	t.users++
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, page)
		}
	}
	select {
	case <-t.free:
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	case <-c.drain:
		forget()
		return nil, errors.New("agent is stopping")
	case <-c.done:
		forget()
		return nil, io.ErrClosedPipe
	}
	return sync.OnceFunc(func() {
		t.free <- struct{}{}
		forget()
	}), nil
}

// turn lets one command at a time onto a page.
type turn struct {
	free  chan struct{}
	users int
}

// remember notes where a page stands.
func (c *Client) remember(k *call, resp pipe.Response) {
	if resp.Error != nil && resp.Error.Code == pipe.CodeZombieNotFound && k.page != "" {
		delete(c.pages, k.page)
	}
	if resp.Data == nil || resp.Data.Page == nil {
		return
	}
	p := *resp.Data.Page
	id := p.ID
	if id == "" {
		id = k.page
	}
	if k.action == action.ZombieSpawn && id == "" {
		// Without an id of its own this is the page that was opened, if one
		// was; where the main page stands has not changed.
		if id = resp.Data.PageID; id == "" {
			return
		}
	}
	c.pages[id] = p
}
