package workflows

import (
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
)

// sessionIdle is how long a session without work stays open. The next
// message starts it again, so this bounds only what an idle session costs.
const sessionIdle = 10 * time.Minute

// maxSeen bounds how many message ids a session remembers. Older duplicates
// are caught by the database and by the ids of their runs.
const maxSeen = 500

// SessionInput is the input of Session. Only Key is set by clients; the rest
// is carried over by continue-as-new.
type SessionInput struct {
	Key   string          `json:"key"`
	Queue []agent.Message `json:"queue,omitempty"`
	Seen  []string        `json:"seen,omitempty"`
}

// Session is a durable inbox: it takes messages once each, and runs one at a
// time, in order, as a child workflow Run.
//
//	message --> seen? --> recorded (accept) --> queue --> Run --> next
func Session(ctx workflow.Context, in SessionInput) error {
	s := &session{in: in, log: workflow.GetLogger(ctx)}
	if err := workflow.SetQueryHandler(ctx, InboxQuery, s.inbox); err != nil {
		return err
	}
	workflow.Go(ctx, s.receive)
	return s.serve(ctx)
}

type session struct {
	in      SessionInput
	running string
	taking  []string // ids of messages received and not yet queued
	log     log.Logger

	dropping bool // the end of a dropped message is being recorded
}

func (s *session) inbox() (Inbox, error) {
	box := Inbox{Running: s.running, Queued: []string{}}
	for _, m := range s.in.Queue {
		box.Queued = append(box.Queued, m.ID)
	}
	box.Queued = append(box.Queued, s.taking...)
	return box, nil
}

// receive takes messages as they come, also while a run is under way, so
// that each is on record before anything else happens to it.
func (s *session) receive(ctx workflow.Context) {
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, MessageSignal), func(c workflow.ReceiveChannel, _ bool) {
		var m agent.Message
		if c.ReceiveAsync(&m) { // see run.receive
			s.take(ctx, m)
		}
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, AbortName), func(c workflow.ReceiveChannel, _ bool) {
		var a Abort
		if c.ReceiveAsync(&a) {
			s.drop(ctx, a)
		}
	})
	for {
		sel.Select(ctx)
	}
}

func (s *session) take(ctx workflow.Context, m agent.Message) {
	if slices.Contains(s.in.Seen, m.ID) {
		s.log.Info("message ignored", "run_id", m.ID)
		return
	}
	if !validID(m.ID) || m.Text == "" || len(m.Text) > agent.MaxInstruction || m.BrowserID != "" && !validID(m.BrowserID) {
		s.log.Warn("message cannot be used", "run_id", m.ID)
		return
	}
	s.in.Seen = append(s.in.Seen, m.ID)
	if n := len(s.in.Seen) - maxSeen; n > 0 {
		s.in.Seen = slices.Delete(s.in.Seen, 0, n)
	}
	s.taking = append(s.taking, m.ID)
	defer func() { s.taking = s.taking[:0] }()
	res, err := call[activities.AcceptResult](ctx, quick("accept"), activities.AcceptName, activities.AcceptInput{Session: s.in.Key, Message: m})
	if err != nil {
		s.log.Warn("message refused", "run_id", m.ID, "err", err)
		return
	}
	if !res.Final {
		s.in.Queue = append(s.in.Queue, m)
	}
}

// drop removes a message that has not started yet, and ends its record.
func (s *session) drop(ctx workflow.Context, a Abort) {
	i := slices.IndexFunc(s.in.Queue, func(m agent.Message) bool { return m.ID == a.RunID })
	if i < 0 {
		return
	}
	s.in.Queue = slices.Delete(s.in.Queue, i, i+1)
	s.dropping = true
	defer func() { s.dropping = false }()
	_, err := call[activities.FinishResult](ctx, quick("aborted before it began"), activities.FinishName, activities.FinishInput{
		RunID: a.RunID, Status: agent.StatusAborted, Reason: agent.ReasonAborted, Detail: shorten(a.Reason, maxNote), EndedAt: workflow.Now(ctx),
	})
	if err != nil {
		s.log.Warn("aborted message not recorded", "run_id", a.RunID, "err", err)
	}
}

func (s *session) serve(ctx workflow.Context) error {
	for {
		ready := func() bool { return len(s.in.Queue) > 0 && len(s.taking) == 0 }
		got, err := workflow.AwaitWithTimeout(ctx, sessionIdle, ready)
		if err != nil {
			return err
		}
		if !got {
			if !s.quiet(ctx) {
				continue
			}
			return nil
		}
		m := s.in.Queue[0]
		s.in.Queue = slices.Delete(s.in.Queue, 0, 1)
		s.running = m.ID
		s.run(ctx, m)
		s.running = ""
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && s.light() {
			if err := workflow.Await(ctx, func() bool { return s.quiet(ctx) }); err != nil {
				return err
			}
			return workflow.NewContinueAsNewError(ctx, Session, s.in)
		}
	}
}

// maxCarried bounds the texts that wait when a session continues as new, in
// bytes: a server takes an input of 2 MB at most, and JSON may make six bytes
// of one.
const maxCarried = 256 << 10

// light reports whether what waits can be handed on. Otherwise the session
// goes on as it is until it has run some of it.
func (s *session) light() bool {
	n := 0
	for _, m := range s.in.Queue {
		n += len(m.Text)
	}
	return n <= maxCarried
}

// quiet reports whether nothing is on its way into the session: what is in a
// channel when an execution ends would be lost.
func (s *session) quiet(ctx workflow.Context) bool {
	return len(s.taking) == 0 && !s.dropping && workflow.GetSignalChannel(ctx, MessageSignal).Len() == 0 && workflow.GetSignalChannel(ctx, AbortName).Len() == 0
}

// run carries out one message. What goes wrong inside is the run's own
// record; the session goes on with the next.
func (s *session) run(ctx workflow.Context, m agent.Message) {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            RunWorkflowID(m.ID),
		WorkflowTaskTimeout:   TaskTimeout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		// A run outlives its session: a session that an operator ends must
		// not take the work under way with it.
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     shorten(m.Text, 80),
		TypedSearchAttributes: temporal.NewSearchAttributes(
			attrState.ValueSet(string(agent.StatusQueued)),
			attrUser.ValueSet(shorten(m.Origin.User, maxName)),
			attrBrowser.ValueSet(m.BrowserID),
			attrSession.ValueSet(s.in.Key),
		),
	})
	var out Outcome
	err := workflow.ExecuteChildWorkflow(ctx, Run, RunInput{Session: s.in.Key, Message: m}).Get(ctx, &out)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		s.log.Info("message ran before", "run_id", m.ID)
		return
	}
	if err != nil {
		s.log.Warn("run ended with an error", "run_id", m.ID, "err", err)
	}
}
