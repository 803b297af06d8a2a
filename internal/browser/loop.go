package browser

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"sgclaw/internal/pipe"
)

// call is a command that was written, or is about to be.
type call struct {
	seq          uint64 // set before it is written
	action, page string
	late         func(pipe.Response)
	leave        func()
	answer       chan outcome  // one value
	hold         chan struct{} // one value, at confirm_pending
	held         bool          // guarded by Client.mu
	abandoned    bool          // guarded by Client.mu
}

// outcome is how a call ends: a response, or why there is none.
type outcome struct {
	response pipe.Response
	err      error
}

func (k *call) settle(a outcome) {
	select {
	case k.answer <- a:
	default:
	}
}

// outgoing is something to be written.
type outgoing struct {
	message any
	command *pipe.Command
	call    *call
	written chan error // one value
	claimed atomic.Bool
}

// cancel takes the message back; false if it is being written.
func (o *outgoing) cancel() bool { return o.claimed.CompareAndSwap(false, true) }

// write is the only place that writes, so that seq and the order on the wire
// agree, and so that a host that does not read blocks nobody else.
func (c *Client) write() error {
	seq := uint64(0)
	for {
		var out *outgoing
		select {
		case out = <-c.queue:
		case <-c.done:
			return nil
		}
		if !out.claimed.CompareAndSwap(false, true) {
			continue
		}
		var err error
		if out.command != nil {
			err = c.writeCommand(out, seq+1)
			if !errors.Is(err, pipe.ErrNotSent) {
				seq++
			}
		} else {
			err = c.w.Write(out.message)
		}
		out.written <- err
		if refused := (*pipe.Error)(nil); err != nil && !errors.Is(err, pipe.ErrNotSent) && !errors.As(err, &refused) {
			return fmt.Errorf("write to browser: %w", err)
		}
	}
}

func (c *Client) writeCommand(out *outgoing, seq uint64) error {
	cmd := out.command
	cmd.Seq = seq
	if err := pipe.Sign(cmd, c.key); err != nil {
		return fmt.Errorf("%w: %w", pipe.ErrNotSent, err)
	}
	line, err := pipe.Encode(cmd)
	if err != nil {
		return fmt.Errorf("%w: %w", pipe.ErrNotSent, err)
	}
	if len(line) > pipe.MaxLine {
		return fmt.Errorf("%w: %w", pipe.ErrNotSent, pipe.Errorf(pipe.CodeMessageTooLarge, "command has %d bytes, more than %d", len(line), pipe.MaxLine))
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fmt.Errorf("%w: %w", pipe.ErrNotSent, io.ErrClosedPipe)
	}
	out.call.seq = seq
	c.pending[seq] = out.call
	c.mu.Unlock()
	if err := c.w.WriteLine(line); err != nil {
		// Part of it may have got through.
		return fmt.Errorf("%w: %w", pipe.ErrNoAnswer, err)
	}
	return nil
}

// read reads until the host closes the pipe.
func (c *Client) read() error {
	for {
		line, err := c.r.Next()
		if bad := (*pipe.Error)(nil); errors.As(err, &bad) {
			c.log.Warn("line from browser cannot be used", "code", bad.Code, "err", bad.Message)
			c.Tell(0, bad)
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from browser: %w", err)
		}
		c.handle(line)
	}
}

func (c *Client) handle(line []byte) {
	message, bad := pipe.Decode(line)
	if bad != nil {
		t, seq := pipe.Peek(line)
		c.log.Warn("message from browser cannot be used", "type", string(t), "seq", seq, "code", bad.Code, "err", bad.Message)
		if t == pipe.TypeResponse && seq != 0 {
			c.settle(seq, outcome{err: pipe.Errorf(pipe.CodeInvalidMessage, "response cannot be read: %s", bad.Message)})
		}
		if t != pipe.TypeError {
			c.Tell(seq, bad)
		}
		return
	}
	switch m := message.(type) {
	case *pipe.Response:
		if !c.settle(m.Seq, outcome{response: *m}) {
			c.log.Warn("response to an unknown command", "seq", m.Seq)
			c.Tell(m.Seq, pipe.Errorf(pipe.CodeUnknownSeq, "no command %d waits for a response", m.Seq))
		}
	case *pipe.ConfirmPending:
		if !c.pause(m.Seq) {
			c.Tell(m.Seq, pipe.Errorf(pipe.CodeUnknownSeq, "no command %d waits for a response", m.Seq))
		}
	case *pipe.ErrorMessage:
		c.log.Warn("browser reports an error", "seq", m.Seq, "code", m.Code, "err", m.Message)
		if m.Seq != 0 {
			c.settle(m.Seq, outcome{response: pipe.Response{
				Seq: m.Seq, Type: pipe.TypeResponse, Error: &pipe.Error{Code: m.Code, Message: m.Message},
			}})
		}
	case *pipe.Shutdown:
		c.stopping.Do(func() { close(c.shutdown) })
	case *pipe.SubmitTask, *pipe.AbortTask, *pipe.Confirm:
		select {
		case c.inbox <- Inbound{Message: m, Line: line}:
		case <-c.done:
		}
	default:
		t, seq := pipe.Peek(line)
		c.log.Warn("message from browser is out of place", "type", string(t))
		c.Tell(seq, pipe.Errorf(pipe.CodeUnknownType, "a message of type %q has no place here", t))
	}
}

// settle gives a call its answer; false if no such call waits.
func (c *Client) settle(seq uint64, a outcome) bool {
	c.mu.Lock()
	k := c.pending[seq]
	if k == nil {
		c.mu.Unlock()
		return false
	}
	delete(c.pending, seq)
	if a.err == nil {
		c.remember(k, a.response)
	}
	abandoned := k.abandoned
	if !abandoned {
		k.settle(a)
	}
	c.mu.Unlock()
	if abandoned {
		c.log.Info("late response", "seq", seq, "action", k.action)
		c.deliverLate(k, a)
	}
	return true
}

// pause stops a call's clock; false if no such call waits.
func (c *Client) pause(seq uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.pending[seq]
	if k == nil {
		return false
	}
	if !k.held {
		k.held = true
		k.hold <- struct{}{}
	}
	return true
}
