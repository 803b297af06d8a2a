package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sgclaw/internal/pipe"
)

// patience is how long an answer may take that takes no work.
const patience = 5 * time.Second

// quiet is how long the player listens where nothing must come.
const quiet = 300 * time.Millisecond

// received is one line of the program, read as a message.
type received struct {
	raw     []byte
	message any
	fault   error // why it is no message
}

// wire is the player's end of the pipe.
type wire struct {
	raw    io.Writer
	w      *pipe.Writer
	lines  chan received // closed at the end
	from   func(pipe.Type) bool
	closed chan struct{}
}

// newWire reads r until it ends or stop is called. from says which types the
// program may send.
func newWire(r io.Reader, w io.Writer, from func(pipe.Type) bool) *wire {
	c := &wire{raw: w, w: pipe.NewWriter(w), lines: make(chan received, 1024), from: from, closed: make(chan struct{})}
	go c.read(pipe.NewReader(r))
	return c
}

func (c *wire) stop() { close(c.closed) }

func (c *wire) read(r *pipe.Reader) {
	defer close(c.lines)
	for {
		line, err := r.Next()
		var bad *pipe.Error
		got := received{raw: line}
		switch {
		case errors.As(err, &bad):
			got.fault = bad
		case errors.Is(err, io.ErrUnexpectedEOF):
			got.fault = errors.New("the last line is not ended by a line feed")
		case err != nil:
			return
		default:
			got.message, got.fault = c.decode(line)
		}
		select {
		case c.lines <- got:
		case <-c.closed:
			return
		}
	}
}

func (c *wire) decode(line []byte) (any, error) {
	message, bad := pipe.Decode(line)
	if bad != nil {
		return nil, fmt.Errorf("wrote a line that is no protocol message: %.120q: %w", line, bad)
	}
	if t, _ := pipe.Peek(line); !c.from(t) {
		return nil, fmt.Errorf("sent a message of type %s, which its side must not send", t)
	}
	return message, nil
}

// send writes one line, which may be wrong on purpose.
func (c *wire) send(line string) error {
	if _, err := io.WriteString(c.raw, line+"\n"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

var (
	errEnded   = errors.New("the stream has ended")
	errTimeout = errors.New("in vain")
)

// await waits for a message that match accepts and lets others pass. A line
// that is no message ends it.
func (c *wire) await(ctx context.Context, within time.Duration, match func(any) bool) (received, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		select {
		case got, ok := <-c.lines:
			if !ok {
				return received{}, errEnded
			}
			if got.fault != nil {
				return received{}, got.fault
			}
			if match(got.message) {
				return got, nil
			}
		case <-ctx.Done():
			return received{}, fmt.Errorf("waited %v %w", within, errTimeout)
		}
	}
}

// awaitType waits for a message of type *T.
func awaitType[T any](ctx context.Context, c *wire, within time.Duration, match func(*T) bool) (*T, error) {
	got, err := c.await(ctx, within, func(m any) bool {
		t, ok := m.(*T)
		return ok && (match == nil || match(t))
	})
	if err != nil {
		return nil, err
	}
	return got.message.(*T), nil
}

// silence listens for a while, and fails if a message comes that match
// accepts.
func (c *wire) silence(ctx context.Context, match func(any) bool) error {
	got, err := c.await(ctx, quiet, match)
	switch {
	case errors.Is(err, errTimeout), errors.Is(err, errEnded):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("sent %.120s", got.raw)
}

// drain lets everything pass until the stream ends, and fails on a line that
// is no message.
func (c *wire) drain(ctx context.Context) error {
	for {
		select {
		case got, ok := <-c.lines:
			if !ok {
				return nil
			}
			if got.fault != nil {
				return got.fault
			}
		case <-ctx.Done():
			return errors.New("stdout stays open")
		}
	}
}

// expectError waits for an error message with the code, about seq.
func (c *wire) expectError(ctx context.Context, seq uint64, codes ...pipe.Code) error {
	var other *pipe.ErrorMessage
	_, err := awaitType(ctx, c, patience, func(m *pipe.ErrorMessage) bool {
		other = m
		for _, code := range codes {
			if m.Code == code && m.Seq == seq {
				return true
			}
		}
		return false
	})
	if err == nil {
		return nil
	}
	if other != nil {
		return fmt.Errorf("error %s with seq %d instead of %s with seq %d", other.Code, other.Seq, codes[0], seq)
	}
	return fmt.Errorf("no error %s: %w", codes[0], err)
}
