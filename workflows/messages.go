package workflows

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/internal/agent"
)

// maxSeenInstructions bounds how many instruction ids a run remembers.
const maxSeenInstructions = 200

// Most bytes of what people say of themselves and by the way; any client can
// send a signal, and it stays in the history several times.
const (
	maxName = 200
	maxNote = 2000
	maxTask = 200 // of a task in a list
)

// receive takes a run's signals as they come. A signal cannot be answered,
// so what a validator would reject is logged and left. One that cannot even
// be decoded is dropped by the SDK, with an error in its log; Receive would
// then wait for the next of that name, and no other signal would be heard.
func (r *run) receive(ctx workflow.Context) {
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, ConfirmName), func(c workflow.ReceiveChannel, _ bool) {
		var a agent.Answer
		if c.ReceiveAsync(&a) {
			r.signalled(ConfirmName, r.checkAnswer(a), func() { r.decide(a) })
		}
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, AbortName), func(c workflow.ReceiveChannel, _ bool) {
		var a Abort
		if c.ReceiveAsync(&a) {
			r.signalled(AbortName, r.checkOver(), func() { r.abort(a) })
		}
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, InstructName), func(c workflow.ReceiveChannel, _ bool) {
		var i Instruction
		if c.ReceiveAsync(&i) {
			fault := r.checkInstruction(i)
			if isApplication(fault, ErrRunOver) || r.usedElse(i) {
				r.leave(i.ID)
			}
			r.signalled(InstructName, fault, func() { r.add(i) })
		}
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, MoveName), func(c workflow.ReceiveChannel, _ bool) {
		var m Move
		if c.ReceiveAsync(&m) {
			r.signalled(MoveName, r.checkMove(m), func() { r.move(m) })
		}
	})
	for {
		sel.Select(ctx)
	}
}

func (r *run) signalled(name string, fault error, do func()) {
	if fault != nil {
		r.log.Warn("signal not usable", "signal", name, "err", fault)
		return
	}
	do()
}

// handleUpdates registers the updates: the same messages, with an answer.
func (r *run) handleUpdates(ctx workflow.Context) error {
	err := workflow.SetUpdateHandlerWithOptions(ctx, ConfirmName, func(_ workflow.Context, a agent.Answer) (ConfirmReply, error) {
		r.decide(a)
		return ConfirmReply{ConfirmID: r.open.ID, Approved: a.Approved}, nil
	}, workflow.UpdateHandlerOptions{Validator: r.checkAnswer})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, AbortName, func(_ workflow.Context, a Abort) error {
		r.abort(a)
		return nil
	}, workflow.UpdateHandlerOptions{Validator: func(Abort) error { return r.checkOver() }})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, InstructName, func(_ workflow.Context, i Instruction) error {
		r.add(i)
		return nil
	}, workflow.UpdateHandlerOptions{Validator: r.checkInstruction})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, MoveName, func(_ workflow.Context, m Move) error {
		r.move(m)
		return nil
	}, workflow.UpdateHandlerOptions{Validator: r.checkMove})
}

func rejected(typ, message string) error {
	return temporal.NewNonRetryableApplicationError(message, typ, nil)
}

func (r *run) checkOver() error {
	if r.over || r.aborted != nil {
		return rejected(ErrRunOver, "the run is over")
	}
	return nil
}

// checkAnswer says whether an answer fits the open question.
func (r *run) checkAnswer(a agent.Answer) error {
	switch {
	case a.Scope != "" && a.Scope != agent.ScopeRun:
		return rejected(ErrInvalid, "an answer holds once, or for the run: "+agent.ScopeRun)
	case a.ConfirmID != "" && slices.Contains(r.st.Decided, a.ConfirmID):
		return rejected(ErrAlreadyDecided, "confirmation "+a.ConfirmID+" is decided")
	case r.over || r.aborted != nil:
		return rejected(ErrRunOver, "the run is over")
	case r.open == nil:
		return rejected(ErrNothingToConfirm, "no confirmation is open")
	case a.ConfirmID != "" && a.ConfirmID != r.open.ID:
		return rejected(ErrUnknownConfirm, "no confirmation "+a.ConfirmID+"; open is "+r.open.ID)
	case r.answer != nil:
		return rejected(ErrAlreadyDecided, "confirmation "+r.open.ID+" is decided")
	case a.Digest != "" && a.Digest != r.open.Digest:
		return rejected(ErrDigestMismatch, "what was shown is not what would be done; look again")
	}
	return nil
}

func (r *run) checkInstruction(i Instruction) error {
	switch {
	case r.over || r.aborted != nil:
		return rejected(ErrRunOver, "the run is over")
	case !validID(i.ID) || i.Text == "":
		return rejected(ErrInvalid, "an instruction needs a text, and an id of at most 200 bytes without spaces")
	case len(i.Text) > agent.MaxInstruction:
		return rejected(ErrInvalid, "the instruction is too long")
	case r.usedElse(i):
		return rejected(ErrInvalid, "the id of the instruction was used before with another text")
	}
	return nil
}

// seen is what a run remembers of an instruction: its id, a space, and a sum
// of its text.
func (i Instruction) seen() string { return i.ID + " " + i.Sum() }

// usedElse reports whether the id of an instruction was that of another one.
func (r *run) usedElse(i Instruction) bool {
	return !slices.Contains(r.st.SeenIDs, i.seen()) &&
		slices.ContainsFunc(r.st.SeenIDs, func(s string) bool { return strings.HasPrefix(s, i.ID+" ") })
}

func (r *run) checkMove(m Move) error {
	switch {
	case r.over || r.aborted != nil:
		return rejected(ErrRunOver, "the run is over")
	case !validID(m.BrowserID):
		return rejected(ErrInvalid, "a move needs a browser's id")
	}
	return nil
}

func (r *run) decide(a agent.Answer) {
	a.By, a.Note = shorten(a.By, maxName), shorten(a.Note, maxNote)
	r.answer = &a
}

func (r *run) abort(a Abort) {
	if r.aborted != nil {
		return
	}
	a.By, a.Reason = shorten(a.By, maxName), shorten(a.Reason, maxNote)
	r.aborted = &a
	if r.cancel != nil {
		r.cancel()
	}
}

func (r *run) add(i Instruction) {
	if slices.Contains(r.st.SeenIDs, i.seen()) {
		return
	}
	r.st.SeenIDs = append(r.st.SeenIDs, i.seen())
	if n := len(r.st.SeenIDs) - maxSeenInstructions; n > 0 {
		r.st.SeenIDs = slices.Delete(r.st.SeenIDs, 0, n)
	}
	i.By = shorten(i.By, maxName)
	r.st.Pending = append(r.st.Pending, i)
}

// leave notes an instruction that the model will not be shown.
func (r *run) leave(id string) {
	if !validID(id) || len(r.st.Unread) >= maxSeenInstructions || slices.Contains(r.st.Unread, id) {
		return
	}
	r.st.Unread = append(r.st.Unread, id)
}

// unread are the instructions that the model was not shown.
func (r *run) unread() []string {
	ids := slices.Clone(r.st.Unread)
	for _, p := range r.st.Pending {
		ids = append(ids, p.ID)
	}
	return ids
}

func (r *run) move(m Move) {
	if m.BrowserID == r.st.Browser {
		return
	}
	r.st.Browser = m.BrowserID
	r.st.Page = agent.Page{}
	r.moved = true
}
