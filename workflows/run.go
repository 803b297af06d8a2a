package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

// RunInput is the input of Run. Session sets Session and Message; State is
// carried over by continue-as-new.
type RunInput struct {
	Session string        `json:"session"`
	Message agent.Message `json:"message"`
	State   *RunState     `json:"state,omitempty"`
}

// RunState is all that a run remembers besides the database. It is small,
// because continue-as-new hands it on.
type RunState struct {
	Settings  agent.Settings `json:"settings"`
	Snapshot  bool           `json:"snapshot,omitempty"`
	Browser   string         `json:"browser"`
	Seen      string         `json:"seen,omitempty"` // browser of the last observation
	StartedAt time.Time      `json:"started_at"`
	Step      int            `json:"step"`
	Nonsense  int            `json:"nonsense,omitempty"` // replies in a row with neither text nor calls
	Compact   int            `json:"compact,omitempty"`
	Asked     int            `json:"asked,omitempty"`     // confirmations so far
	ActiveMS  int64          `json:"active_ms,omitempty"` // of thinking and acting; see CriticInput
	WaitedMS  int64          `json:"waited_ms,omitempty"` // for people, browsers and cooldowns
	Usage     agent.Usage    `json:"usage"`
	Page      agent.Page     `json:"page,omitzero"`
	Decided   []string       `json:"decided,omitempty"` // confirmation ids, newest last
	Pending   []Instruction  `json:"pending,omitempty"`
	SeenIDs   []string       `json:"seen_ids,omitempty"` // of instructions, see Instruction.seen
	Unread    []string       `json:"unread,omitempty"`   // ids of instructions that came too late or could not be recorded
	Allowed   []Allowed      `json:"allowed,omitempty"`  // for the rest of the run, newest last
	Lines     []Line         `json:"lines,omitempty"`
}

// Allowed is what a person allowed for the rest of the run: see
// agent.Answer.
type Allowed struct {
	Action string `json:"action"`
	Rule   string `json:"rule,omitempty"`
	Role   string `json:"role,omitempty"`
	Name   string `json:"name,omitempty"`
	Domain string `json:"domain,omitempty"`
	By     string `json:"by,omitempty"`
}

// covers reports whether a question needs not be put to a person again.
func (a Allowed) covers(q agent.Confirmation) bool {
	return a.Action == q.Action && a.Rule == q.Ask.Rule && a.Role == q.Ask.Role && a.Name == q.Ask.Name && a.Domain == q.Ask.Domain
}

// Names of changes to Run that histories from before them do not have; see
// workflow.GetVersion.
const (
	changePrepare = "prepare" // the session's past is prepared
	changeScope   = "scope"   // a yes may hold for the rest of the run
)

const (
	maxLines        = 100
	maxDecided      = 50
	maxAllowed      = 50
	maxAway         = 3 // times that the database may be away while the past is prepared
	maxNonsense     = 3
	maxRateLimits   = 20
	stepsPerHistory = 150
)

// Run carries out one task:
//
//	think --> act --> critic --> think ...
//	           |  ^
//	           v  | confirm
//	          ask a person
//
// It ends when the model gives its final answer, when the critic or a limit
// stops it, when a person aborts it, or when a question expires. It waits,
// for as long as it takes, for people and for a browser that is away.
func Run(ctx workflow.Context, in RunInput) (Outcome, error) {
	r, err := newRun(ctx, in)
	if err != nil {
		return Outcome{}, err
	}
	return r.run(ctx)
}

// ending says how a run ends; nil while it goes on.
type ending struct {
	status  agent.Status
	reason  string
	summary string
	detail  string
}

type run struct {
	in     RunInput
	st     RunState
	log    log.Logger
	cancel workflow.CancelFunc // of the work under way, by abort
	status agent.Status

	aborted *Abort
	open    *agent.Confirmation // the question that waits
	answer  *agent.Answer       // what was said to it
	moved   bool
	over    bool
	notes   int    // states told, for their keys
	planned string // browser whose page the model chose its calls by
	at      string // browser that carried out the last action
}

func newRun(ctx workflow.Context, in RunInput) (*run, error) {
	r := &run{in: in, log: workflow.GetLogger(ctx), status: agent.StatusThinking}
	if in.State != nil {
		r.st = *in.State
	}
	if err := workflow.SetQueryHandler(ctx, StateQuery, r.state); err != nil {
		return nil, err
	}
	if err := workflow.SetQueryHandler(ctx, TranscriptQuery, func() ([]Line, error) { return r.st.Lines, nil }); err != nil {
		return nil, err
	}
	if err := r.handleUpdates(ctx); err != nil {
		return nil, err
	}
	workflow.Go(ctx, r.receive)
	return r, nil
}

func (r *run) run(ctx workflow.Context) (Outcome, error) {
	work, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel
	if r.aborted != nil {
		cancel()
	}
	end, err := r.loop(work)
	if r.aborted != nil {
		end, err = &ending{status: agent.StatusAborted, reason: agent.ReasonAborted, detail: r.aborted.detail()}, nil
	} else if err != nil && ctx.Err() != nil {
		// Cancelled from outside, in the Temporal UI for instance.
		end, err = &ending{status: agent.StatusAborted, reason: agent.ReasonAborted, detail: "cancelled"}, nil
	}
	if err != nil {
		var can *workflow.ContinueAsNewError
		if errors.As(err, &can) {
			return Outcome{}, err
		}
		if isApplication(err, activities.ErrSuperseded) {
			return Outcome{}, err
		}
		end = &ending{status: agent.StatusFailed, reason: agent.ReasonInternal, detail: err.Error()}
	}
	clean, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	out, ferr := r.finish(clean, end)
	if ferr == nil {
		// Instructions that came with the last event are heard first.
		ferr = settle(clean)
		out.Unread = r.unread()
	}
	if isApplication(ferr, activities.ErrNotFound) && err != nil {
		// There is no record to end, since it could not begin; why is what
		// is to be told.
		return out, err
	}
	return out, ferr
}

func (r *run) loop(ctx workflow.Context) (*ending, error) {
	if r.in.State == nil {
		if end, err := r.begin(ctx); end != nil || err != nil {
			return end, err
		}
		if err := r.prepare(ctx); err != nil {
			return nil, err
		}
	}
	first := r.st.Step
	for r.st.Step < r.st.Settings.MaxSteps {
		if err := r.instruct(ctx); err != nil {
			return nil, err
		}
		if info := workflow.GetInfo(ctx); info.GetContinueAsNewSuggested() || r.st.Step-first >= stepsPerHistory {
			return nil, r.continueAsNew(ctx)
		}
		r.st.Step++
		workflow.SetCurrentDetails(ctx, r.details())
		d, end, err := r.think(ctx)
		if end != nil || err != nil {
			return end, err
		}
		if d.Final {
			if err := settle(ctx); err != nil {
				return nil, err
			}
			if len(r.st.Pending) > 0 {
				// Somebody added something while the model was writing its
				// last word; that is not the last word then.
				continue
			}
			if d.GaveUp {
				return &ending{status: agent.StatusFailed, reason: agent.ReasonGaveUp}, nil
			}
			return &ending{status: agent.StatusDone}, nil
		}
		end, err = r.carryOut(ctx, d.Calls)
		if end != nil || err != nil {
			return end, err
		}
	}
	return &ending{status: agent.StatusFailed, reason: agent.ReasonMaxSteps}, nil
}

func (r *run) begin(ctx workflow.Context) (*ending, error) {
	r.st.StartedAt = workflow.Now(ctx)
	b, err := call[activities.BeginResult](ctx, quick("begin"), activities.BeginName, activities.BeginInput{
		Session: r.in.Session, Message: r.in.Message, StartedAt: r.st.StartedAt,
	})
	if isApplication(err, activities.ErrNoAgent) {
		return &ending{status: agent.StatusFailed, reason: agent.ReasonNoAgent, detail: reasonOf(err)}, nil
	}
	if err != nil {
		return nil, err
	}
	r.st.Settings, r.st.Browser, r.st.Snapshot = b.Settings, b.Browser, b.Snapshot
	r.setAttr(ctx, agent.StatusThinking)
	if b.WaitMS > 0 {
		return nil, r.sleep(ctx, time.Duration(b.WaitMS)*time.Millisecond, "circuit breaker")
	}
	return nil, nil
}

// prepare fixes what the run is shown of its session's past. It may ask the
// model, which is not the run's time; whatever goes wrong, the run goes on
// with less.
func (r *run) prepare(ctx workflow.Context) error {
	if workflow.GetVersion(ctx, changePrepare, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	for away := 0; ; {
		var res activities.PrepareResult
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, preparing()), activities.PrepareName).Get(ctx, &res)
		note := res.Note
		switch {
		case err == nil:
			r.st.Usage = r.st.Usage.Add(res.Usage.Usage())
		case ctx.Err() != nil || isApplication(err, activities.ErrSuperseded):
			return err
		case isApplication(err, activities.ErrRecordAway) && away < maxAway:
			// This returns when the database is back.
			away++
			if err := r.setStatus(ctx, agent.StatusThinking, ""); err != nil {
				return err
			}
			continue
		default:
			note = "the session's past is left out: " + reasonOf(err)
		}
		if note == "" {
			return nil
		}
		r.log.Warn("past not prepared", "note", note)
		return r.setStatus(ctx, agent.StatusThinking, shorten(note, maxNote))
	}
}

// instruct puts what people added on record, in order, before the next step.
func (r *run) instruct(ctx workflow.Context) error {
	for {
		if err := settle(ctx); err != nil {
			return err
		}
		if len(r.st.Pending) == 0 {
			return nil
		}
		p := r.st.Pending[0]
		_, err := call[struct{}](ctx, quick("instruction from "+p.By), activities.InstructName, activities.InstructInput{
			RunID: r.in.Message.ID, Step: r.st.Step, ID: p.ID, Text: p.Text, By: p.By,
		})
		switch {
		case isApplication(err, activities.ErrConflict), isApplication(err, activities.ErrInvalid):
			// One that cannot be recorded must not end the run.
			r.log.Warn("instruction refused", "instruction", p.ID, "err", err)
			r.leave(p.ID)
		case err != nil:
			return err
		}
		r.st.Pending = slices.Delete(r.st.Pending, 0, 1)
	}
}

func (r *run) think(ctx workflow.Context) (activities.ThinkResult, *ending, error) {
	r.planned = cmp.Or(r.st.Seen, r.st.Browser)
	for {
		r.status = agent.StatusThinking
		began := workflow.Now(ctx)
		d, err := call[activities.ThinkResult](ctx, thinking(r.st.Step), activities.ThinkName, activities.ThinkInput{
			Step: r.st.Step, Compact: r.st.Compact,
		})
		switch {
		case err == nil:
			r.st.Usage = r.st.Usage.Add(d.Tokens.Usage())
			if d.Final || len(d.Calls) > 0 {
				r.st.Nonsense = 0
				r.st.ActiveMS += workflow.Now(ctx).Sub(began).Milliseconds()
				return d, nil, nil
			}
			r.st.Nonsense++
			if r.st.Nonsense >= maxNonsense {
				return d, &ending{status: agent.StatusFailed, reason: agent.ReasonModelFailed, detail: "the model gave neither an answer nor a tool call, " + strconv.Itoa(maxNonsense) + " times in a row"}, nil
			}
			return d, nil, nil
		case isApplication(err, activities.ErrContextTooLong) && r.st.Compact < activities.MaxCompact:
			r.st.Compact++
		case isApplication(err, activities.ErrRecordAway):
			// Model calls are tried a few times, the database for as long as
			// it takes: this returns when it is back.
			if err := r.setStatus(ctx, agent.StatusThinking, ""); err != nil {
				return d, nil, err
			}
		case temporal.IsCanceledError(err) || isApplication(err, activities.ErrSuperseded):
			return d, nil, err
		default:
			return d, &ending{status: agent.StatusFailed, reason: agent.ReasonModelFailed, detail: reasonOf(err)}, nil
		}
	}
}

// carryOut executes the calls of one reply in order. Once one did not
// succeed, the rest are answered and not executed: the model chose them
// without knowing.
func (r *run) carryOut(ctx workflow.Context, calls []agent.Call) (*ending, error) {
	failed := false
	for i, c := range calls {
		began := workflow.Now(ctx)
		waited := r.st.WaitedMS
		r.at = r.st.Browser
		var res agent.Result
		var look *agent.Result
		var note string
		var end *ending
		var err error
		switch {
		case failed:
			res = agent.Result{Outcome: agent.OutcomeSkipped}
		case c.Fault != "":
			res = agent.Result{Outcome: agent.OutcomeFailed, Code: string(pipe.CodeInvalidParams)}
		default:
			res, note, end, err = r.act(ctx, c)
			if err == nil && end == nil && (res.Outcome == agent.OutcomeUnknown || res.Outcome == agent.OutcomeFailed && r.strange()) {
				look, err = r.look(ctx, c)
			}
		}
		if err != nil && res.Outcome == "" {
			return nil, err
		}
		took := max(0, workflow.Now(ctx).Sub(began).Milliseconds()-(r.st.WaitedMS-waited))
		r.st.ActiveMS += took
		r.line(Line{Step: r.st.Step, Action: c.Action, Outcome: res.Outcome, Code: res.Code, MS: took})
		in := activities.CriticInput{
			Step: r.st.Step, Index: i, Browser: r.at, Result: brief(res), Look: look, Note: note,
			TookMS: took, ActiveMS: r.st.ActiveMS,
		}
		var v activities.Verdict
		if err == nil {
			v, err = call[activities.Verdict](ctx, checking(res), activities.CriticName, in)
		}
		if err != nil {
			return nil, r.keep(ctx, in, err)
		}
		if end != nil {
			return end, nil
		}
		if v.Abort {
			return &ending{status: agent.StatusFailed, reason: v.Reason}, nil
		}
		failed = failed || res.Outcome != agent.OutcomeDone
	}
	return nil, nil
}

// keep puts on record what came of an action although err ends the run here:
// what was done to a page, or may have been, is never missing from the
// transcript.
func (r *run) keep(ctx workflow.Context, in activities.CriticInput, err error) error {
	if isApplication(err, activities.ErrSuperseded) {
		return err
	}
	record, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	in.Last = true
	_, kept := call[activities.Verdict](record, checking(in.Result), activities.CriticName, in)
	return errors.Join(err, kept)
}

// act carries out one action: it asks whoever must be asked, waits for
// whatever is away, and returns what came of it. An error with a result, or
// with the outcome unknown, ends a run that did something all the same.
func (r *run) act(ctx workflow.Context, c agent.Call) (res agent.Result, note string, end *ending, err error) {
	var grant *agent.Grant
	limits := 0
	for try := 0; ; try++ {
		res, end, err = r.send(ctx, c, grant, "act-"+c.ID+suffix(try))
		if end != nil || err != nil {
			return res, "", end, err
		}
		r.st.WaitedMS += res.HeldMS
		if res.Page.URL != "" && res.Page.ID == "" {
			r.st.Page = res.Page
		}
		switch res.Outcome {
		case agent.OutcomeNeedConfirm:
			var answer *agent.Answer
			answer, grant, end, err = r.ask(ctx, c, res)
			if err != nil {
				return agent.Result{}, "", nil, err
			}
			if end != nil {
				return agent.Result{Outcome: agent.OutcomeRefused, Page: res.Page}, "", end, nil
			}
			if grant == nil {
				return agent.Result{Outcome: agent.OutcomeRefused, Page: res.Page}, answer.Note, nil, nil
			}
		case agent.OutcomeRateLimited:
			limits++
			if limits > maxRateLimits {
				return agent.Result{Outcome: agent.OutcomeFailed, Code: string(pipe.CodeRateLimit), Page: res.Page}, "", nil, nil
			}
			if err := r.sleep(ctx, time.Duration(res.RetryAfterMS)*time.Millisecond, "rate limit"); err != nil {
				return agent.Result{}, "", nil, err
			}
		default:
			return res, "", nil, nil
		}
	}
}

// offlineWaits are the schedule-to-start limits of one action, one after the
// other: short at first, so that an absent browser is seen soon, then long,
// so that a week of waiting costs few events.
var offlineWaits = []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour}

// strange reports whether the model chose its calls by the page of another
// browser than the one that the run is in now.
func (r *run) strange() bool { return r.planned != r.st.Browser }

// send delivers one action to the browser, and waits while it is away.
//
// The journal that keeps an effect from happening twice is the browser's. So
// when the run is moved, an effect that may have begun before is unknown, and
// no other is carried out on a page that the model has not seen.
func (r *run) send(ctx workflow.Context, c agent.Call, grant *agent.Grant, id string) (agent.Result, *ending, error) {
	in := activities.ActInput{
		Step: r.st.Step, Call: c, Grant: grant,
		Confirm:  slices.Contains(r.st.Settings.ConfirmActions, c.Action),
		Snapshot: r.st.Snapshot,
		Actions:  r.st.Settings.Actions,
		Domains:  r.st.Settings.Domains,
	}
	effect, opens := activities.Kind(c.Action)
	begun := ""
	away := int64(0)
	// unsure is what is left to say of an action that is given up.
	unsure := func() agent.Result {
		if !effect {
			return agent.Result{}
		}
		return agent.Result{Outcome: agent.OutcomeUnknown, Code: string(pipe.CodeOutcomeUnknown),
			Text: "unknown: " + c.Action + " may or may not have happened: the task ended before the browser answered."}
	}
	for try := 0; ; try++ {
		r.at, r.moved = r.st.Browser, false
		switch {
		case effect && begun != "" && begun != r.at:
			return agent.Result{Outcome: agent.OutcomeUnknown, Code: string(pipe.CodeOutcomeUnknown),
				Text: "unknown: " + c.Action + " may or may not have happened in the browser that the task was in before it was moved here."}, nil, nil
		case effect && !opens && r.strange():
			return agent.Result{Outcome: agent.OutcomeFailed, Code: string(pipe.CodeRefStale),
				Text: "failed: " + c.Action + ": nothing was done, the task was moved to another browser, which shows another page."}, nil, nil
		}
		in.Domain, in.TaskID = "", ""
		if c.PageID == "" {
			in.Domain = r.st.Page.Domain
		}
		if r.fromPipe() && r.at == r.origin() {
			in.TaskID = r.in.Message.Origin.TaskID
		}
		wait := offlineWaits[min(try, len(offlineWaits)-1)]
		if t := int64(r.st.Settings.OfflineTimeoutS) * 1000; t > 0 {
			wait = min(wait, max(time.Second, time.Duration(t-away)*time.Millisecond))
		}
		opts := acting(activities.BrowserQueue(r.at), id+suffix(try), summarize(c), wait)
		r.status = agent.StatusActing
		if try > 0 {
			r.status = agent.StatusBrowserOffline
			// A move must know what became of it.
			opts.WaitForCancellation = true
		}
		began := workflow.Now(ctx)
		res, err := r.deliver(ctx, in, opts)
		elapsed := workflow.Now(ctx).Sub(began).Milliseconds()
		if err == nil {
			r.st.Seen = r.at
			if try > 0 {
				r.st.WaitedMS += max(0, elapsed-res.HeldMS-res.ExecMS)
				return res, nil, r.setStatus(ctx, agent.StatusActing, "")
			}
			return res, nil, nil
		}
		var timeout *temporal.TimeoutError
		if ctx.Err() != nil {
			return unsure(), nil, err
		}
		if mayHaveBegun(err) {
			begun = r.at
		}
		if !errors.As(err, &timeout) && !r.moved {
			if begun == "" {
				return agent.Result{}, nil, err
			}
			return unsure(), nil, err
		}
		r.st.WaitedMS += elapsed
		away += elapsed
		if try == 0 {
			if err := r.setStatus(ctx, agent.StatusBrowserOffline, r.at); err != nil {
				if begun == "" {
					return agent.Result{}, nil, err
				}
				return unsure(), nil, err
			}
		}
		if t := r.st.Settings.OfflineTimeoutS; t > 0 && away >= int64(t)*1000 {
			res := agent.Result{Outcome: agent.OutcomeFailed, Code: string(pipe.CodeBrowserGone)}
			if effect && begun != "" {
				res = unsure()
			}
			return res, &ending{status: agent.StatusFailed, reason: agent.ReasonBrowserGone}, nil
		}
	}
}

// mayHaveBegun reports whether an act activity that ended with an error may
// have sent something. It has not if no attempt at it was ever picked up, or
// if it was cancelled and does not say otherwise.
func mayHaveBegun(err error) bool {
	var timeout *temporal.TimeoutError
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &timeout):
		return timeout.TimeoutType() != enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START || timeout.Unwrap() != nil
	case errors.As(err, &canceled):
		return canceled.HasDetails()
	}
	return true
}

// deliver runs one act activity; a move to another browser cuts its wait
// short.
func (r *run) deliver(ctx workflow.Context, in activities.ActInput, opts workflow.ActivityOptions) (agent.Result, error) {
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	var res agent.Result
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), activities.ActName, in)
	if err := workflow.Await(ctx, func() bool {
		return f.IsReady() || r.moved && r.status == agent.StatusBrowserOffline
	}); err != nil {
		return res, err
	}
	if !f.IsReady() {
		cancel()
	}
	return res, f.Get(ctx, &res)
}

// brief leaves out of a result what its body has too.
func brief(res agent.Result) agent.Result {
	if res.Ref != "" {
		res.Text, res.Page = "", agent.Page{}
	}
	res.Ask, res.Digest = nil, ""
	return res
}

// look takes a snapshot after an effect whose outcome is unknown, so that
// the model can judge from the page.
func (r *run) look(ctx workflow.Context, c agent.Call) (*agent.Result, error) {
	see := agent.Call{ID: c.ID + "-look", Action: "getAomSnapshot", Params: json.RawMessage(`{}`), PageID: c.PageID}
	res, end, err := r.send(ctx, see, nil, "act-"+see.ID)
	if err != nil {
		return nil, err
	}
	if end != nil {
		return nil, nil
	}
	if res.Page.URL != "" && res.Page.ID == "" {
		r.st.Page = res.Page
	}
	return &res, nil
}

// ask puts a question to people and waits for the answer. It returns the
// answer, and a grant if it was yes.
func (r *run) ask(ctx workflow.Context, c agent.Call, res agent.Result) (*agent.Answer, *agent.Grant, *ending, error) {
	r.st.Asked++
	q := agent.Confirmation{
		// The call is in it because its id is unique over rewinds, and a host
		// takes each grant once.
		ID: fmt.Sprintf("%s-c%d-%s", r.in.Message.ID, r.st.Asked, c.ID), Step: r.st.Step, Action: c.Action, Params: c.Params,
		Digest: res.Digest, Since: workflow.Now(ctx),
	}
	if res.Ask != nil {
		q.Ask = *res.Ask
	}
	limit := time.Duration(r.st.Settings.ConfirmTimeoutS) * time.Second
	if limit > 0 {
		q.Until = q.Since.Add(limit)
	}
	// Open before it is announced: an answer may be quicker than we are.
	r.open, r.answer = &q, nil
	known := slices.IndexFunc(r.st.Allowed, func(a Allowed) bool { return a.covers(q) })
	if known >= 0 {
		r.answer = &agent.Answer{ConfirmID: q.ID, Approved: true, By: r.st.Allowed[known].By, Scope: agent.ScopeRun, Digest: q.Digest}
	}
	r.status = agent.StatusWaitingConfirm
	defer func() { r.open, r.answer = nil, nil }()
	if _, err := call[struct{}](ctx, quick("ask: "+summarize(c)+" "+q.Ask.Name), activities.AskName, activities.AskInput{
		RunID: r.in.Message.ID, Step: r.st.Step, Confirmation: q,
	}); err != nil {
		return nil, nil, nil, err
	}
	decision, err := activities.DecisionApproved, error(nil)
	if known < 0 {
		r.setAttr(ctx, agent.StatusWaitingConfirm)
		workflow.SetCurrentDetails(ctx, r.details())
		told := r.tellAsked(ctx, c, q)
		decision, err = r.await(ctx, limit)
		told()
	}
	now := workflow.Now(ctx)
	r.st.WaitedMS += now.Sub(q.Since).Milliseconds()
	answer := r.answer
	if answer == nil {
		answer = &agent.Answer{ConfirmID: q.ID}
	}
	r.st.Decided = append(r.st.Decided, q.ID)
	if n := len(r.st.Decided) - maxDecided; n > 0 {
		r.st.Decided = slices.Delete(r.st.Decided, 0, n)
	}
	r.open = nil
	record := ctx
	if err != nil {
		// Aborted while it waited: the record says so all the same.
		var done workflow.CancelFunc
		record, done = workflow.NewDisconnectedContext(ctx)
		defer done()
		decision = activities.DecisionVoid
	}
	_, derr := call[struct{}](record, quick(decision+" by "+answer.By), activities.DecideName, activities.DecideInput{
		RunID: r.in.Message.ID, Step: r.st.Step, Decision: decision, Answer: *answer, At: now,
	})
	if err = errors.Join(err, derr); err != nil {
		return answer, nil, nil, err
	}
	r.status = agent.StatusActing
	if known < 0 {
		r.setAttr(ctx, agent.StatusActing)
		r.allow(ctx, q, *answer)
	}
	switch decision {
	case activities.DecisionExpired:
		return answer, nil, &ending{status: agent.StatusRefused, reason: agent.ReasonConfirmExpired}, nil
	case activities.DecisionApproved:
		return answer, &agent.Grant{ID: q.ID, By: answer.By, At: now, Digest: q.Digest}, nil, nil
	}
	return answer, nil, nil, nil
}

// allow keeps what a person allowed for the rest of the run.
func (r *run) allow(ctx workflow.Context, q agent.Confirmation, a agent.Answer) {
	if !a.Approved || a.Scope != agent.ScopeRun || q.Ask.Rule == agent.RuleNativeDialog || workflow.GetVersion(ctx, changeScope, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	r.st.Allowed = append(r.st.Allowed, Allowed{
		Action: q.Action, Rule: q.Ask.Rule, Role: q.Ask.Role, Name: q.Ask.Name, Domain: q.Ask.Domain, By: a.By,
	})
	if n := len(r.st.Allowed) - maxAllowed; n > 0 {
		r.st.Allowed = slices.Delete(r.st.Allowed, 0, n)
	}
}

// await waits for the answer to the open question, limit at most if not 0.
func (r *run) await(ctx workflow.Context, limit time.Duration) (decision string, err error) {
	answered := func() bool { return r.answer != nil }
	got := true
	if limit > 0 {
		got, err = workflow.AwaitWithTimeout(ctx, limit, answered)
	} else {
		err = workflow.Await(ctx, answered)
	}
	switch {
	case err != nil:
		return "", err
	case !got:
		return activities.DecisionExpired, nil
	case r.answer.Approved:
		return activities.DecisionApproved, nil
	}
	return activities.DecisionRejected, nil
}

// tellAsked shows the question at the browser that the task came from. The
// run does not wait for that; the returned function ends the attempt.
func (r *run) tellAsked(ctx workflow.Context, c agent.Call, q agent.Confirmation) workflow.CancelFunc {
	if !r.fromPipe() {
		return func() {}
	}
	tell, cancel := workflow.WithCancel(ctx)
	// The question's id as the key: it is another one after a rewind.
	r.notify(tell, r.origin(), q.ID, q.Ask.Picture, pipe.ConfirmRequired{
		Type: pipe.TypeConfirmRequired, TaskID: r.in.Message.Origin.TaskID, ActionID: q.ID,
		Action: c.Action, Domain: q.Ask.Domain, Ask: q.Ask,
	})
	return cancel
}

// notify sends a message to a browser and does not wait.
func (r *run) notify(ctx workflow.Context, browser, key, picture string, message any) workflow.Future {
	b, err := json.Marshal(message)
	if err != nil {
		r.log.Error("message cannot be encoded", "err", err)
	}
	opts := acting(activities.BrowserQueue(browser), "", "tell the browser", 0)
	opts.StartToCloseTimeout = 30 * time.Second
	opts.ScheduleToCloseTimeout = 7 * 24 * time.Hour
	opts.RetryPolicy.MaximumAttempts = 0
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, opts), activities.NotifyName, activities.NotifyInput{
		Key: key, Message: b, PictureRef: picture,
	})
}

func (r *run) finish(ctx workflow.Context, end *ending) (Outcome, error) {
	r.over = true
	r.status = end.status
	res, err := call[activities.FinishResult](ctx, quick("finish: "+r.last(end)), activities.FinishName, activities.FinishInput{
		RunID: r.in.Message.ID, Step: r.st.Step, Status: end.status, Reason: end.reason, Summary: end.summary, Detail: end.detail,
		Why: r.why(end), EndedAt: workflow.Now(ctx),
	})
	if err != nil {
		return Outcome{}, err
	}
	r.setAttr(ctx, end.status)
	workflow.SetCurrentDetails(ctx, r.details())
	out := Outcome{
		RunID: r.in.Message.ID, Status: end.status, Success: end.status == agent.StatusDone, Reason: end.reason,
		Summary: res.Summary, Steps: r.st.Step, Usage: r.st.Usage,
	}
	if r.fromPipe() {
		if err := r.tellDone(ctx, out); err != nil {
			r.log.Warn("browser not told of the result", "err", err)
		}
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return out, err
	}
	return out, nil
}

// why is what the person said who ended the run.
func (r *run) why(end *ending) string {
	if r.aborted == nil || end.reason != agent.ReasonAborted {
		return ""
	}
	return label(r.aborted.Reason)
}

// last tells how the run ends, and who ended it.
func (r *run) last(end *ending) string {
	if r.aborted != nil && r.aborted.By != "" {
		return string(end.status) + " by " + r.aborted.By
	}
	return string(end.status)
}

// tellDone starts a small workflow of its own that tells the browser the
// result, so that a browser that is away holds up neither the run nor its
// session.
func (r *run) tellDone(ctx workflow.Context, out Outcome) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          "tell/" + out.RunID,
		WorkflowTaskTimeout: TaskTimeout,
		// Of a run that was rewound, the last result counts.
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING, //nolint:staticcheck // children have no conflict policy
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         "tell the browser the result",
	})
	f := workflow.ExecuteChildWorkflow(ctx, Tell, TellInput{Browser: r.origin(), Complete: pipe.TaskComplete{
		Type: pipe.TypeTaskComplete, TaskID: r.in.Message.Origin.TaskID, RunID: out.RunID,
		Success: out.Success, Status: string(out.Status), Reason: out.Reason, Summary: out.Summary,
	}})
	return f.GetChildWorkflowExecution().Get(ctx, nil)
}

func (r *run) continueAsNew(ctx workflow.Context) error {
	// What is in a channel when an execution ends would be lost.
	quiet := func() bool {
		for _, name := range []string{ConfirmName, AbortName, InstructName, MoveName} {
			if workflow.GetSignalChannel(ctx, name).Len() > 0 {
				return false
			}
		}
		return workflow.AllHandlersFinished(ctx)
	}
	if err := workflow.Await(ctx, quiet); err != nil {
		return err
	}
	if r.aborted != nil {
		return temporal.NewCanceledError()
	}
	next := r.in
	next.State = &r.st
	return workflow.NewContinueAsNewError(ctx, Run, next)
}

// sleep waits without counting the time as the run's own.
func (r *run) sleep(ctx workflow.Context, d time.Duration, why string) error {
	if d <= 0 {
		d = time.Second
	}
	r.status = agent.StatusCooling
	if d > 5*time.Second {
		if err := r.setStatus(ctx, agent.StatusCooling, why); err != nil {
			return err
		}
	}
	r.st.WaitedMS += d.Milliseconds()
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: why}).Get(ctx, nil)
}

// setStatus tells watchers and the UI that the run entered a state that
// lasts.
func (r *run) setStatus(ctx workflow.Context, s agent.Status, detail string) error {
	r.status = s
	r.setAttr(ctx, s)
	workflow.SetCurrentDetails(ctx, r.details())
	r.notes++
	_, err := call[struct{}](ctx, quick(string(s)), activities.StatusName, activities.StatusInput{
		RunID: r.in.Message.ID, Step: r.st.Step, Key: "s" + strconv.Itoa(r.st.Step) + "-" + strconv.Itoa(r.notes), Status: s, Detail: detail, Browser: r.st.Browser,
	})
	return err
}

func (r *run) setAttr(ctx workflow.Context, s agent.Status) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, attrState.ValueSet(string(s)), attrBrowser.ValueSet(r.st.Browser)); err != nil {
		r.log.Warn("search attributes not set", "err", err)
	}
}

func (r *run) line(l Line) {
	r.st.Lines = append(r.st.Lines, l)
	if n := len(r.st.Lines) - maxLines; n > 0 {
		r.st.Lines = slices.Delete(r.st.Lines, 0, n)
	}
}

func (r *run) fromPipe() bool { return r.in.Message.Origin.Kind == agent.OriginPipe }

// origin is the browser that the task came from; the run may have moved on.
func (r *run) origin() string { return cmp.Or(r.in.Message.BrowserID, r.st.Browser) }

func (r *run) state() (State, error) {
	return State{
		RunID: r.in.Message.ID, Session: r.in.Session, Browser: r.st.Browser, Task: shorten(r.in.Message.Text, 500),
		Status: r.status, Step: r.st.Step, Confirm: r.open, Usage: r.st.Usage, StartedAt: r.st.StartedAt, Page: r.st.Page,
	}, nil
}

// details is what the Temporal UI shows on top of a run.
func (r *run) details() string {
	d := fmt.Sprintf("**%s** · step %d of %d · browser %s", r.status, r.st.Step, r.st.Settings.MaxSteps, code(r.st.Browser))
	if q := r.open; q != nil {
		d += fmt.Sprintf("\n\nWaits for a person: %s %s (%s) on %s. Confirmation %s.", code(q.Action), code(q.Ask.Name), code(q.Ask.Role), code(q.Ask.Domain), code(q.ID))
	}
	return d
}

// summarize tells an action in a few words for the Temporal UI. Typed text
// is left out: it may be private.
func summarize(c agent.Call) string {
	var p struct {
		Selector string `json:"selector"`
		URL      string `json:"url"`
	}
	if json.Unmarshal(c.Params, &p) != nil {
		return c.Action
	}
	switch {
	case p.URL != "":
		return c.Action + " " + shorten(p.URL, 80)
	case p.Selector != "":
		return c.Action + " " + shorten(p.Selector, 60)
	}
	return c.Action
}

func suffix(n int) string {
	if n == 0 {
		return ""
	}
	return "." + strconv.Itoa(n)
}

// isApplication reports whether err is an activity's application error of
// the type.
func isApplication(err error, typ string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == typ
}

// reasonOf is the innermost message of a failed activity.
func reasonOf(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	return err.Error()
}
