package pipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// ExitHandshake is the exit status of an agent whose handshake came to
// nothing.
const ExitHandshake = 3

// Handshake is what both sides agreed on.
type Handshake struct {
	Init Init
	Ack  InitAck
	Key  Key
}

// AgentHandshake waits for the host's init and answers it. supported are the
// actions to announce; browserID, if not nil, settles the browser's id,
// which is Init.BrowserID if that is set.
//
// It takes at most HandshakeTimeout. Lines that are no init are answered by
// an error message and otherwise ignored. If the handshake comes to nothing
// (no init in time, another version, an unusable init or seed), the host is
// told, and the *Error that it was told is returned: the agent then exits
// with ExitHandshake. If ctx ends or the stream does, its error is returned.
// After an error r must not be used any more: a read of it may still be
// under way.
func AgentHandshake(ctx context.Context, r *Reader, w *Writer, supported []string, browserID func(Init) (string, error)) (Handshake, error) {
	init, err := awaitInit(ctx, r, w)
	if err != nil {
		return Handshake{}, err
	}
	refuse := func(e *Error) (Handshake, error) { return Handshake{}, refusal(w, e) }
	if init.Version != Version {
		return refuse(Errorf(CodeVersionMismatch, "browser speaks version %s, agent %s", init.Version, Version))
	}
	seed, err := ParseSeed(init.HMACSeed)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return refuse(e)
		}
		return Handshake{}, err
	}
	key, err := DeriveKey(seed)
	if err != nil {
		return refuse(Errorf(CodeInternal, "%v", err))
	}
	agentID, err := uuid.NewRandom()
	if err != nil {
		return refuse(Errorf(CodeInternal, "make agent id: %v", err))
	}
	ack := InitAck{
		Type: TypeInitAck, Version: Version, AgentID: agentID.String(),
		SupportedActions: supported, BrowserID: init.BrowserID,
	}
	if browserID != nil {
		if ack.BrowserID, err = browserID(*init); err != nil {
			return refuse(Errorf(CodeInternal, "browser id: %v", err))
		}
	}
	if err := w.Write(&ack); err != nil {
		return Handshake{}, fmt.Errorf("write init_ack: %w", err)
	}
	return Handshake{Init: *init, Ack: ack, Key: key}, nil
}

// awaitInit reads until an init comes. An init that cannot be used ends it.
func awaitInit(ctx context.Context, r *Reader, w *Writer) (*Init, error) {
	wait, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	for {
		line, err := next(wait, r)
		var bad *Error
		switch {
		case errors.As(err, &bad):
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return nil, refusal(w, Errorf(CodeNoInit, "no init within %v", HandshakeTimeout))
		case err != nil:
			return nil, fmt.Errorf("read init: %w", err)
		default:
			var message any
			if message, bad = Decode(line); bad == nil {
				if init, ok := message.(*Init); ok {
					return init, nil
				}
				bad = Errorf(CodeUnknownType, "the first message must be init")
			}
		}
		t, seq := Peek(line)
		switch t {
		case TypeError:
			continue
		case TypeInit:
			return nil, refusal(w, bad)
		}
		if err := tell(w, seq, bad); err != nil {
			return nil, err
		}
	}
}

// HostHandshake sends init and waits for the agent's init_ack. Type and
// Version of init are set for the caller, and HMACSeed if it is empty.
//
// It takes at most HandshakeTimeout. What the agent refuses with, and what is
// wrong with its init_ack, comes back as *Error; the host then kills the
// agent. Lines that are no messages are ignored. If ctx ends or the stream
// does, its error is returned. After an error r must not be used any more: a
// read of it may still be under way.
func HostHandshake(ctx context.Context, r *Reader, w *Writer, init Init) (Handshake, error) {
	init.Type = TypeInit
	init.Version = Version
	if init.HMACSeed == "" {
		init.HMACSeed = NewSeed()
	}
	seed, err := ParseSeed(init.HMACSeed)
	if err != nil {
		return Handshake{}, err
	}
	key, err := DeriveKey(seed)
	if err != nil {
		return Handshake{}, err
	}
	wait, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	if err := w.Write(&init); err != nil {
		return Handshake{}, fmt.Errorf("write init: %w", err)
	}
	for {
		line, err := next(wait, r)
		var bad *Error
		switch {
		case errors.As(err, &bad):
			continue
		case err != nil && ctx.Err() != nil:
			return Handshake{}, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return Handshake{}, Errorf(CodeNoInit, "no init_ack within %v", HandshakeTimeout)
		case err != nil:
			return Handshake{}, fmt.Errorf("read init_ack: %w", err)
		}
		message, bad := Decode(line)
		if bad != nil {
			if t, _ := Peek(line); t == TypeInitAck {
				return Handshake{}, bad
			}
			continue
		}
		switch m := message.(type) {
		case *ErrorMessage:
			return Handshake{}, &Error{Code: m.Code, Message: m.Message}
		case *InitAck:
			if m.Version != Version {
				return Handshake{}, Errorf(CodeVersionMismatch, "agent speaks version %s, browser %s", m.Version, Version)
			}
			return Handshake{Init: init, Ack: *m, Key: key}, nil
		}
	}
}

// refusal tells the host why the handshake came to nothing, and returns it.
func refusal(w *Writer, e *Error) error {
	if err := tell(w, 0, e); err != nil {
		return errors.Join(e, err)
	}
	return e
}

// tell writes an error message.
func tell(w *Writer, seq uint64, e *Error) error {
	if err := w.Write(&ErrorMessage{Type: TypeError, Seq: seq, Code: e.Code, Message: e.Message}); err != nil {
		return fmt.Errorf("write error: %w", err)
	}
	return nil
}

// next is r.Next, given up when ctx ends: a read cannot be broken off.
func next(ctx context.Context, r *Reader) ([]byte, error) {
	type read struct {
		line []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := r.Next()
		done <- read{line, err}
	}()
	select {
	case got := <-done:
		return got.line, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
