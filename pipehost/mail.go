package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/browser"
	"sgclaw/internal/durable"
	"sgclaw/internal/journal"
	"sgclaw/internal/pipe"
	"sgclaw/workflows"
)

// receive writes the browser's messages to the outbox, where they survive
// this process, until the context ends. Whether Temporal is there makes no
// difference.
func (s *session) receive(ctx context.Context) {
	for {
		select {
		case in := <-s.client.Inbox():
			s.post(in)
		case <-ctx.Done():
			// What was read before the end is not lost either.
			for {
				select {
				case in := <-s.client.Inbox():
					s.post(in)
					continue
				default:
				}
				return
			}
		}
	}
}

func (s *session) post(in browser.Inbound) {
	typ, _ := pipe.Peek(in.Line)
	if err := s.journal.Post(string(typ), in.Line); err != nil {
		s.log.Error("message of the browser not kept", "type", string(typ), "err", err)
		s.client.Tell(0, pipe.Errorf(pipe.CodeInternal, "%s was not accepted: %v", typ, err))
		return
	}
	if s.status.offline() {
		kept := &pipe.State{Type: pipe.TypeState, State: pipe.StateOffline, Detail: string(typ) + " is kept until temporal is back"}
		if m, ok := in.Message.(*pipe.SubmitTask); ok {
			kept.TaskID = m.TaskID
		}
		s.client.Offer(kept)
	}
}

// batch is how much of the outbox is looked at in one go.
const batch = 1000

// deliver empties the outbox into Temporal until the context ends.
func (s *session) deliver(ctx context.Context, c *durable.Client) {
	pause := firstRetry
	for {
		letters, err := s.journal.Letters(batch)
		if err == nil {
			err = s.deliverAll(ctx, c, letters)
		}
		if ctx.Err() != nil {
			return
		}
		s.status.delivery(err)
		var retry <-chan time.Time
		switch {
		case err != nil:
			s.log.Warn("message of the browser not delivered yet", "err", err)
			retry = time.After(pause)
			pause = min(2*pause, lastRetry)
		case len(letters) == batch:
			continue
		default:
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-s.journal.Posted():
		case <-retry:
		}
	}
}

// deliverAll delivers messages in order. Tasks stay in order among
// themselves: one that cannot be delivered now holds up all that follow. An
// answer or an abort that cannot be, for instance because no worker answers,
// does not. The error is the first of those that are to be tried again.
func (s *session) deliverAll(ctx context.Context, c *durable.Client, letters []journal.Letter) error {
	var first error
	for _, l := range letters {
		err := s.deliverOne(ctx, c, l)
		if refusal := (*pipe.Error)(nil); errors.As(err, &refusal) {
			s.log.Warn("message of the browser refused", "type", l.Type, "code", refusal.Code, "err", refusal.Message)
			s.client.Tell(0, refusal)
		} else if err != nil {
			if first == nil {
				first = err
			}
			if l.Type == string(pipe.TypeSubmitTask) || ctx.Err() != nil {
				return first
			}
			continue
		}
		if err := s.journal.Delivered(l.Seq); err != nil {
			return err
		}
	}
	return first
}

// deliverOne hands one message on. A *pipe.Error means that it never can be.
func (s *session) deliverOne(ctx context.Context, c *durable.Client, l journal.Letter) error {
	message, bad := pipe.Decode(l.Body)
	if bad != nil {
		return bad
	}
	switch m := message.(type) {
	case *pipe.SubmitTask:
		return s.submit(ctx, c, m, l.At)
	case *pipe.AbortTask:
		_, err := c.Abort(ctx, m.TaskID, workflows.Abort{By: s.person(""), Reason: m.Reason})
		return verdict(err, "task "+m.TaskID)
	case *pipe.Confirm:
		run, err := s.journal.Asker(m.ActionID)
		if errors.Is(err, journal.ErrNotFound) {
			return pipe.Errorf(pipe.CodeUnknownConfirm, "no question %q was asked here", m.ActionID)
		}
		if err != nil {
			return err
		}
		_, _, err = c.Confirm(ctx, run, agent.Answer{ConfirmID: m.ActionID, Approved: m.Approved, By: s.person(m.By), Note: m.Note, Scope: m.Scope})
		return verdict(err, "question "+m.ActionID)
	}
	return pipe.Errorf(pipe.CodeUnknownType, "message of type %q cannot be delivered", l.Type)
}

// submit starts a task. The browser's id of the task is the run's id, so a
// task that is delivered twice is one.
func (s *session) submit(ctx context.Context, c *durable.Client, m *pipe.SubmitTask, at time.Time) error {
	locale := m.Locale
	if locale == "" {
		locale = s.settings.locale
	}
	started, err := c.StartTask(ctx, m.Session, agent.Message{
		ID: m.TaskID, Text: m.Instruction, BrowserID: s.shake.Ack.BrowserID, At: at,
		Origin: agent.Origin{Kind: agent.OriginPipe, User: s.person(""), TaskID: m.TaskID, Locale: locale},
	})
	if err != nil {
		return verdict(err, "task "+m.TaskID)
	}
	s.client.Offer(&pipe.TaskAccepted{Type: pipe.TypeTaskAccepted, TaskID: m.TaskID, RunID: started.RunID})
	return nil
}

// person names who acts through this browser, as far as it is known.
func (s *session) person(by string) string {
	if by != "" {
		return by
	}
	return "browser " + s.shake.Ack.BrowserID
}

// verdict tells refusals, which are final, from faults of the surroundings,
// after which the message is tried again.
func verdict(err error, what string) error {
	for _, v := range []struct {
		err  error
		code pipe.Code
	}{
		{durable.ErrNotFound, pipe.CodeUnknownTask},
		{durable.ErrRunOver, pipe.CodeTaskOver},
		{durable.ErrNothingToConfirm, pipe.CodeUnknownConfirm},
		{durable.ErrUnknownConfirm, pipe.CodeUnknownConfirm},
		{durable.ErrAlreadyDecided, pipe.CodeConfirmOver},
		{durable.ErrConfirmExpired, pipe.CodeConfirmOver},
		{durable.ErrDigestMismatch, pipe.CodeConfirmOver},
		{durable.ErrInvalid, pipe.CodeInvalidMessage},
	} {
		if errors.Is(err, v.err) {
			return pipe.Errorf(v.code, "%s: %v", what, v.err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
