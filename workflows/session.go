package workflows

import (
	"slices"
	"strings"
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
	// Steered are messages that were added to the run under way: whether it
	// read them is known when it ends.
	Steered []agent.Message `json:"steered,omitempty"`
}

// Names of changes to Session that histories from before them do not have;
// see workflow.GetVersion.
const (
	changeBusy   = "busy"   // messages that steer and interrupt
	changeSingle = "single" // a session of one task ends with it
)

// Session is a durable inbox: it takes messages once each, and runs one at a
// time, in order, as a child workflow Run. A message that comes while a run
// is under way may also steer that run or take its place.
//
//	message --> seen? --> recorded (accept) --> queue --> Run --> next
//	                          |       |           ^        ^
//	                          |       | interrupt |  abort |
//	                          |       +-----------+--------+
//	                          | steer                      |
//	                          +----------------------------+
//
// What a run was steered by and did not read when it ended is queued.
func Session(ctx workflow.Context, in SessionInput) error {
	s := &session{in: in, log: workflow.GetLogger(ctx)}
	if err := workflow.SetQueryHandler(ctx, InboxQuery, s.inbox); err != nil {
		return err
	}
	if strings.HasPrefix(in.Key, SingleSession) {
		s.single = workflow.GetVersion(ctx, changeSingle, workflow.DefaultVersion, 1) >= 1
	}
	// Carried over although the run that they were for is not.
	s.in.Steered = nil
	s.requeue(in.Steered)
	workflow.Go(ctx, s.receive)
	return s.serve(ctx)
}

type session struct {
	in      SessionInput
	single  bool // made for one task
	running string
	current agent.Message                // of the run under way
	child   workflow.ChildWorkflowFuture // of the run under way
	taking  []agent.Message              // received and not yet queued
	missed  []string                     // ids of steered messages that did not reach their run
	log     log.Logger

	dropping bool // the end of a dropped message is being recorded
}

func (s *session) inbox() (Inbox, error) {
	box := Inbox{Running: s.running, Queued: []string{}}
	for _, m := range s.in.Steered {
		box.Steered = append(box.Steered, m.ID)
	}
	for _, m := range append(slices.Clone(s.in.Queue), s.taking...) {
		if slices.Contains(box.Queued, m.ID) || slices.Contains(box.Steered, m.ID) {
			continue // on its way from one to the other
		}
		box.Queued = append(box.Queued, m.ID)
		box.Tasks = append(box.Tasks, Beginning(m.Text))
	}
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

// usable reports whether a message can be taken. Any client can send one;
// durable.StartTask says what is wrong with it.
func usable(m agent.Message) bool {
	aside := 0
	for _, a := range m.Aside {
		aside += len(a.Sender) + len(a.Text)
	}
	return validID(m.ID) && m.Text != "" && len(m.Text) <= agent.MaxInstruction &&
		(m.BrowserID == "" || validID(m.BrowserID)) && (m.Agent == "" || validID(m.Agent)) &&
		m.Mode.Valid() && len(m.Aside) <= agent.MaxAside && aside <= MaxAsideBytes
}

func (s *session) take(ctx workflow.Context, m agent.Message) {
	if slices.Contains(s.in.Seen, m.ID) {
		s.log.Info("message ignored", "run_id", m.ID)
		return
	}
	if !usable(m) {
		s.log.Warn("message cannot be used", "run_id", m.ID)
		return
	}
	s.in.Seen = append(s.in.Seen, m.ID)
	if n := len(s.in.Seen) - maxSeen; n > 0 {
		s.in.Seen = slices.Delete(s.in.Seen, 0, n)
	}
	s.taking = append(s.taking, m)
	defer func() { s.taking = s.taking[:0] }()
	res, err := call[activities.AcceptResult](ctx, quick("accept"), activities.AcceptName, activities.AcceptInput{Session: s.in.Key, Message: m})
	if err != nil {
		s.log.Warn("message refused", "run_id", m.ID, "err", err)
		return
	}
	if res.Final {
		return
	}
	switch mode := s.mode(ctx, res.Mode); {
	case mode == agent.ModeSteer && !s.elsewhere(m):
		s.steer(ctx, m)
	case mode == agent.ModeInterrupt:
		s.interrupt(ctx, m)
	default:
		s.in.Queue = append(s.in.Queue, m)
	}
}

// mode is what becomes of a message now, when it should be treated as said.
func (s *session) mode(ctx workflow.Context, said agent.Mode) agent.Mode {
	if s.running == "" || said != agent.ModeSteer && said != agent.ModeInterrupt ||
		workflow.GetVersion(ctx, changeBusy, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return agent.ModeQueue
	}
	return said
}

// elsewhere reports whether a message is for another agent or browser than
// the run under way, as far as both say.
func (s *session) elsewhere(m agent.Message) bool {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	return differ(m.Agent, s.current.Agent) || differ(m.BrowserID, s.current.BrowserID)
}

// steer adds a message to the run under way. What became of it is settled
// when the run ends.
func (s *session) steer(ctx workflow.Context, m agent.Message) {
	s.in.Steered = append(s.in.Steered, m)
	if err := s.signal(ctx, InstructName, Instruction{ID: m.ID, Text: m.Text, By: m.Origin.User}); err != nil {
		s.log.Info("message not added to the run", "run_id", m.ID, "err", err)
		s.missed = append(s.missed, m.ID)
	}
}

// interrupt aborts the run under way and puts the message in its place.
func (s *session) interrupt(ctx workflow.Context, m agent.Message) {
	m.Mode = agent.ModeInterrupt
	s.in.Queue = slices.Insert(s.in.Queue, 0, m)
	if err := s.signal(ctx, AbortName, Abort{By: m.Origin.User, Reason: "interrupted by message " + m.ID}); err != nil {
		s.log.Info("run not interrupted", "by", m.ID, "err", err)
	}
}

// signal sends the run under way a signal. The error is nil only if the
// server took it for a run that was not over.
func (s *session) signal(ctx workflow.Context, name string, payload any) error {
	runID := s.running
	if err := s.child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return err
	}
	// By its id and not as a child: it may be rewound, or continue as new.
	return workflow.SignalExternalWorkflow(ctx, RunWorkflowID(runID), "", name, payload).Get(ctx, nil)
}

// settleSteered ends the records of the messages that the run read, and
// queues the others. out is nil if the run could not say.
func (s *session) settleSteered(ctx workflow.Context, runID string, out *Outcome) {
	if len(s.in.Steered) == 0 {
		return
	}
	// The signal of the last one may still be on its way.
	if err := workflow.Await(ctx, func() bool { return len(s.taking) == 0 }); err != nil {
		return
	}
	var unread, read []agent.Message
	for _, m := range s.in.Steered {
		if out == nil || slices.Contains(out.Unread, m.ID) || slices.Contains(s.missed, m.ID) {
			unread = append(unread, m)
		} else {
			read = append(read, m)
		}
	}
	// Each is to be found in one place at any time.
	s.in.Steered, s.missed = read, nil
	s.requeue(unread)
	for len(s.in.Steered) > 0 {
		m := s.in.Steered[0]
		s.in.Steered = s.in.Steered[1:]
		s.finish(ctx, "read by "+runID, activities.FinishInput{
			RunID: m.ID, Status: agent.StatusDone, Reason: agent.ReasonSteered, Detail: "added to run " + runID,
		})
	}
}

// requeue puts messages that no run read before those that wait, but for
// those that interrupted.
func (s *session) requeue(messages []agent.Message) {
	i := 0
	for i < len(s.in.Queue) && s.in.Queue[i].Mode == agent.ModeInterrupt {
		i++
	}
	s.in.Queue = slices.Insert(s.in.Queue, i, messages...)
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
	s.finish(ctx, "aborted before it began", activities.FinishInput{
		RunID: a.RunID, Status: agent.StatusAborted, Reason: agent.ReasonAborted, Detail: a.detail(), Why: label(a.Reason),
	})
}

// finish ends the record of a message that had no run of its own.
func (s *session) finish(ctx workflow.Context, summary string, in activities.FinishInput) {
	in.EndedAt = workflow.Now(ctx)
	if _, err := call[activities.FinishResult](ctx, quick(summary), activities.FinishName, in); err != nil {
		s.log.Warn("end of a message not recorded", "run_id", in.RunID, "err", err)
	}
}

func (s *session) serve(ctx workflow.Context) error {
	for {
		m, err := s.next(ctx)
		if m == nil || err != nil {
			return err
		}
		s.running, s.current = m.ID, *m
		s.run(ctx, *m)
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && s.light() {
			if err := s.still(ctx); err != nil {
				return err
			}
			return workflow.NewContinueAsNewError(ctx, Session, s.in)
		}
	}
}

// next waits for the message to run next; nil if the session is to end.
func (s *session) next(ctx workflow.Context) (*agent.Message, error) {
	ready := func() bool { return len(s.in.Queue) > 0 && len(s.taking) == 0 }
	spent := func() bool { return len(s.in.Queue) == 0 && s.quiet(ctx) }
	for {
		var got bool
		var err error
		if s.single {
			if err := settle(ctx); err != nil {
				return nil, err
			}
			err = workflow.Await(ctx, func() bool { return ready() || spent() })
			got = ready()
		} else {
			got, err = workflow.AwaitWithTimeout(ctx, sessionIdle, ready)
		}
		if err != nil {
			return nil, err
		}
		if got {
			m := s.in.Queue[0]
			s.in.Queue = slices.Delete(s.in.Queue, 0, 1)
			return &m, nil
		}
		// A message that came with the very event that ended the wait is in
		// the hands of the receiver, which has not had its turn yet.
		if err := settle(ctx); err != nil {
			return nil, err
		}
		if spent() {
			return nil, nil
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
		for _, a := range m.Aside {
			n += len(a.Sender) + len(a.Text)
		}
	}
	return n <= maxCarried
}

// quiet reports whether nothing is on its way into the session, once what
// came is settled: what is in a channel when an execution ends would be
// lost.
func (s *session) quiet(ctx workflow.Context) bool {
	return len(s.taking) == 0 && !s.dropping && workflow.GetSignalChannel(ctx, MessageSignal).Len() == 0 && workflow.GetSignalChannel(ctx, AbortName).Len() == 0
}

// still waits until nothing is on its way into the session.
func (s *session) still(ctx workflow.Context) error {
	for {
		if err := settle(ctx); err != nil || s.quiet(ctx) {
			return err
		}
		if err := workflow.Await(ctx, func() bool { return s.quiet(ctx) }); err != nil {
			return err
		}
	}
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
	s.child = workflow.ExecuteChildWorkflow(ctx, Run, RunInput{Session: s.in.Key, Message: m})
	var out *Outcome
	err := s.child.Get(ctx, &out)
	s.running, s.child = "", nil
	if err != nil {
		out = nil
	}
	defer s.settleSteered(ctx, m.ID, out)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		s.log.Info("message ran before", "run_id", m.ID)
		return
	}
	if err != nil {
		s.log.Warn("run ended with an error", "run_id", m.ID, "err", err)
	}
}
