package activities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/history"
	"sgclaw/internal/llm"
	"sgclaw/internal/locale"
	"sgclaw/internal/prompt"
	"sgclaw/internal/record"
)

// Record is the written record of sessions and runs. The real one is
// store.Store on PostgreSQL; there is no other. Every write is idempotent by
// key, and refuses with record.ErrSuperseded whoever was rewound.
type Record interface {
	AcceptMessage(ctx context.Context, session string, m agent.Message) (fresh bool, err error)
	Session(ctx context.Context, key string) (record.Session, error)
	EnsureSession(ctx context.Context, key, agent string) error
	Run(ctx context.Context, runID string) (record.Run, error)
	BeginRun(ctx context.Context, f record.Fence, b record.Begin) (record.Run, error)
	SetStatus(ctx context.Context, f record.Fence, key string, s agent.Status, detail, browser string) error
	Conversation(ctx context.Context, f record.Fence) ([]record.Turn, error)
	Thought(ctx context.Context, f record.Fence) (*record.Thought, error)
	RecordThought(ctx context.Context, f record.Fence, t record.Thought) (record.Thought, error)
	Reply(ctx context.Context, runID string, step int) (record.Thought, error)
	RecordStep(ctx context.Context, f record.Fence, browser string, o record.Observation, keep int, judge record.Judge) (critic.Verdict, error)
	AddInstruction(ctx context.Context, f record.Fence, id, by, text string) error
	Ask(ctx context.Context, f record.Fence, c agent.Confirmation) error
	Decide(ctx context.Context, f record.Fence, decision string, a agent.Answer, at time.Time) error
	Finish(ctx context.Context, f record.Fence, r agent.TaskResult, detail string, at time.Time) (agent.TaskResult, error)
	Breaker(ctx context.Context, browser string) (critic.Breaker, error)
	SetBreaker(ctx context.Context, browser string, change func(critic.Breaker) critic.Breaker) error
	Delta(ctx context.Context, runID string, d agent.DeltaEvent) error
	Past(ctx context.Context, session, beforeRun string) (record.Past, error)
	SaveSummary(ctx context.Context, session string, s record.Summary) error
	SaveContext(ctx context.Context, f record.Fence, c record.Context) (record.Context, error)
	Context(ctx context.Context, runID string) (record.Context, error)
}

// Bodies fetches observations that are too long for the history. The real
// one is durable.Client, which queries the browser's workflow.
type Bodies interface {
	// Observation returns the body that a browser keeps under ref.
	Observation(ctx context.Context, browserID, ref string) (agent.Body, error)
}

// Meter counts what happens, for operators. The real one is
// telemetry.Telemetry.
type Meter interface {
	Action(ctx context.Context, action string, o agent.Outcome, code string, took time.Duration)
	Reply(ctx context.Context, model string, u agent.Usage, took time.Duration)
	Ended(ctx context.Context, s agent.Status, reason string)
	Decided(ctx context.Context, decision string)
}

// AgentConfig shapes the agent's activities.
type AgentConfig struct {
	// Settings, Template and Browser are those of the agent that there is
	// when Agents is empty: it has no id.
	Settings agent.Settings   // defaults of a run, every field filled
	Template *prompt.Template // nil is the built-in one
	Browser  string           // for messages that name none

	// Agents are the configured agents by id, and Default the id of the one
	// for messages and sessions that name none.
	Agents  map[string]Profile
	Default string
	// Mode is what becomes of a message to a busy session if neither it, nor
	// the session, nor the agent says.
	Mode agent.Mode
	// Models gives a model by its name; nil if there is only one.
	Models func(name string) (llm.Model, error)

	Critic      critic.Config
	Snapshot    bool // follow effects with a snapshot
	MaxTokens   int
	Temperature float64
	Actions     []string // offered to the model, if its agent may use them
	// History bounds what a run is shown of its session's past; zero fields
	// are the defaults.
	History history.Limits
}

// Profile is a configured agent.
type Profile struct {
	// Settings are the defaults of its runs, every field filled. No message
	// lifts their Actions, Domains and ConfirmActions.
	Settings agent.Settings
	Template *prompt.Template // nil is the built-in one
	Browser  string           // for messages and sessions that name none
	Mode     agent.Mode
}

// Agent is the activities that a worker serves on the agent's queue.
type Agent struct {
	log    *slog.Logger
	record Record
	model  llm.Model
	bodies Bodies
	meter  Meter
	cfg    AgentConfig
}

// NewAgent returns the activities. model is nil when none is configured;
// runs then end with a message that says so.
func NewAgent(log *slog.Logger, r Record, model llm.Model, bodies Bodies, meter Meter, cfg AgentConfig) *Agent {
	return &Agent{log: log, record: r, model: model, bodies: bodies, meter: meter, cfg: cfg}
}

// Registrar is what activities are registered with: a Temporal worker.
type Registrar interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// Register registers every activity under its name.
func (a *Agent) Register(r Registrar) {
	for name, fn := range map[string]any{
		AcceptName: a.Accept, BeginName: a.Begin, PrepareName: a.Prepare, ThinkName: a.Think, CriticName: a.Critic, StatusName: a.Status,
		AskName: a.Ask, DecideName: a.Decide, InstructName: a.Instruct, FinishName: a.Finish,
	} {
		r.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
}

// fence says in whose name an activity writes.
func fence(ctx context.Context, runID string, step int) record.Fence {
	return record.Fence{RunID: runID, Execution: activity.GetInfo(ctx).WorkflowExecution.RunID, Step: step}
}

// fault gives an error of the record the type by which workflows know it.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrSuperseded):
		return temporal.NewNonRetryableApplicationError(err.Error(), ErrSuperseded, err)
	case errors.Is(err, record.ErrConflict):
		return temporal.NewNonRetryableApplicationError(err.Error(), ErrConflict, err)
	case errors.Is(err, record.ErrNotFound):
		return temporal.NewNonRetryableApplicationError(err.Error(), ErrNotFound, err)
	case errors.Is(err, record.ErrInvalid):
		return temporal.NewNonRetryableApplicationError(err.Error(), ErrInvalid, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return temporal.NewApplicationError(err.Error(), ErrRecordAway)
}

// resolve finds who answers a message: the agent that it names, else the
// session's, else the default one. session is zero if there is none yet.
func (a *Agent) resolve(ctx context.Context, key string, m agent.Message) (id string, p Profile, known bool, session record.Session, err error) {
	session, err = a.record.Session(ctx, key)
	if errors.Is(err, record.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return "", p, false, session, fault(err)
	}
	id = cmp.Or(m.Agent, session.Agent, a.cfg.Default)
	if len(a.cfg.Agents) == 0 && id == "" {
		return "", Profile{Settings: a.cfg.Settings, Template: a.cfg.Template, Browser: a.cfg.Browser}, true, session, nil
	}
	p, known = a.cfg.Agents[id]
	return id, p, known, session, nil
}

// browser is where a message's run acts.
func (a *Agent) browser(m agent.Message, session record.Session, p Profile) string {
	return cmp.Or(m.BrowserID, session.Settings.Browser, p.Browser, a.cfg.Browser)
}

// Accept records that a session took a message, and who answers there.
func (a *Agent) Accept(ctx context.Context, in AcceptInput) (AcceptResult, error) {
	_, profile, known, session, err := a.resolve(ctx, in.Session, in.Message)
	if err != nil {
		return AcceptResult{}, err
	}
	in.Message.BrowserID = a.browser(in.Message, session, profile)
	in.Message.Mode = cmp.Or(in.Message.Mode, session.Settings.Mode, profile.Mode, a.cfg.Mode)
	fresh, err := a.record.AcceptMessage(ctx, in.Session, in.Message)
	if err != nil {
		return AcceptResult{}, fault(err)
	}
	if known && in.Message.Agent != "" {
		if err := a.record.EnsureSession(ctx, in.Session, in.Message.Agent); err != nil {
			return AcceptResult{}, fault(err)
		}
	}
	res := AcceptResult{Mode: in.Message.Mode}
	if fresh {
		return res, nil
	}
	run, err := a.record.Run(ctx, in.Message.ID)
	if err != nil {
		return AcceptResult{}, fault(err)
	}
	res.Final = run.Status.Final()
	return res, nil
}

// Begin starts the record of a run and fills its settings, which then stay.
func (a *Agent) Begin(ctx context.Context, in BeginInput) (BeginResult, error) {
	id, profile, known, session, err := a.resolve(ctx, in.Session, in.Message)
	if err != nil {
		return BeginResult{}, err
	}
	browser := a.browser(in.Message, session, profile)
	in.Message.BrowserID = browser
	if _, err := a.record.AcceptMessage(ctx, in.Session, in.Message); err != nil {
		return BeginResult{}, fault(err)
	}
	if !known {
		return BeginResult{}, temporal.NewNonRetryableApplicationError(id, ErrNoAgent, nil)
	}
	settings := fill(in.Message.Settings, session.Settings, profile.Settings)
	settings.Agent = id
	settings.Locale = cmp.Or(in.Message.Origin.Locale, profile.Settings.Locale)
	run, err := a.record.BeginRun(ctx, fence(ctx, in.Message.ID, 0), record.Begin{
		Session: in.Session, Message: in.Message, Settings: settings, Browser: browser, StartedAt: in.StartedAt,
	})
	if err != nil {
		return BeginResult{}, fault(err)
	}
	res := BeginResult{Settings: run.Settings, Browser: browser, Snapshot: a.cfg.Snapshot}
	err = a.record.SetBreaker(ctx, browser, func(b critic.Breaker) critic.Breaker {
		wait, next := b.Allow(time.Now())
		res.WaitMS = wait.Milliseconds()
		return next
	})
	return res, fault(err)
}

// noAction stands in Settings.Actions for none at all, since an empty list
// is no limit.
const noAction = "none"

// fill replaces the zero fields of s by those of the session and then of the
// agent d, and holds s to the agent's limits.
func fill(s agent.Settings, session record.SessionSettings, d agent.Settings) agent.Settings {
	s.MaxSteps = cmp.Or(max(0, s.MaxSteps), d.MaxSteps)
	s.MaxThinkingTokens = cmp.Or(max(0, s.MaxThinkingTokens), d.MaxThinkingTokens)
	s.ConfirmTimeoutS = cmp.Or(s.ConfirmTimeoutS, d.ConfirmTimeoutS)
	s.OfflineTimeoutS = cmp.Or(s.OfflineTimeoutS, d.OfflineTimeoutS)
	s.FailureThreshold = cmp.Or(s.FailureThreshold, d.FailureThreshold)
	s.RepeatLimit = cmp.Or(s.RepeatLimit, d.RepeatLimit)
	s.MaxTaskS = cmp.Or(s.MaxTaskS, d.MaxTaskS)
	s.Model = cmp.Or(s.Model, session.Model, d.Model)
	if s.Context.Strategy == "" {
		s.Context = d.Context
		if session.Context != nil {
			s.Context = *session.Context
		}
	}
	for _, name := range d.ConfirmActions {
		if !slices.Contains(s.ConfirmActions, name) {
			s.ConfirmActions = append(s.ConfirmActions, name)
		}
	}
	s.Actions = within(s.Actions, d.Actions)
	if len(d.Domains) > 0 {
		s.Domains = d.Domains
	}
	return s
}

// within are the actions that both lists allow; an empty one allows all.
func within(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	both := slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
	if len(both) == 0 {
		return []string{noAction}
	}
	return both
}

// Think asks the model for its next reply and records it. A reply on record
// is returned as it is: the model is not asked twice for one step.
func (a *Agent) Think(ctx context.Context, in ThinkInput) (ThinkResult, error) {
	in.RunID = RunID(ctx, in.RunID)
	f := fence(ctx, in.RunID, in.Step)
	known, err := a.record.Thought(ctx, f)
	if err != nil {
		return ThinkResult{}, fault(err)
	}
	if known != nil {
		return thinkResult(*known), nil
	}
	run, err := a.record.Run(ctx, in.RunID)
	if err != nil {
		return ThinkResult{}, fault(err)
	}
	model, err := a.modelOf(run.Settings)
	if err != nil {
		return ThinkResult{}, err
	}
	actions := prompt.Offered(within(a.cfg.Actions, run.Settings.Actions), run.Settings.Context)
	past, err := a.record.Context(ctx, in.RunID)
	if err != nil {
		return ThinkResult{}, fault(err)
	}
	turns, err := a.record.Conversation(ctx, f)
	if err != nil {
		return ThinkResult{}, fault(err)
	}
	req, _, err := prompt.Fit(prompt.Input{
		Turns: promptTurns(turns), Marker: run.Marker, Locale: run.Settings.Locale, Template: a.template(run.Settings), Actions: actions,
		Context: run.Settings.Context, Past: past, Aside: run.Aside, Runtime: runtimeOf(run),
		MaxTokens: min(a.cfg.MaxTokens, run.Settings.MaxThinkingTokens), Temperature: a.cfg.Temperature,
		Compact: in.Compact, Vision: model.Info().SupportsVision,
	}, model.Info().MaxContextTokens)
	if err != nil {
		return ThinkResult{}, temporal.NewNonRetryableApplicationError("prompt: "+err.Error(), ErrModelFinal, err)
	}
	began := time.Now()
	resp, err := a.chat(ctx, model, in, req)
	if err != nil {
		return ThinkResult{}, modelFault(err)
	}
	a.meter.Reply(ctx, resp.Model, resp.Usage, time.Since(began))
	d := prompt.Parse(resp, newCallID, actions, run.Settings.Locale)
	kept, err := a.record.RecordThought(ctx, f, record.Thought{
		Text: d.Text, Calls: d.Calls, ProviderIDs: d.ProviderIDs, Final: d.Final || d.GaveUp, GaveUp: d.GaveUp, Nudge: d.Nudge,
		Usage: resp.Usage, Model: resp.Model, TookMS: time.Since(began).Milliseconds(), Attempt: int(activity.GetInfo(ctx).Attempt),
	})
	if err != nil {
		return ThinkResult{}, fault(err)
	}
	return thinkResult(kept), nil
}

// modelOf is the model that a run asks. The error ends the run.
func (a *Agent) modelOf(s agent.Settings) (llm.Model, error) {
	switch {
	case a.model == nil:
		return nil, temporal.NewNonRetryableApplicationError("no model is configured: set SGCLAW_LLM_API_KEY for the worker", ErrModelFinal, nil)
	case s.Model == "" || s.Model == a.model.Info().Model:
		return a.model, nil
	case a.cfg.Models == nil:
		return nil, temporal.NewNonRetryableApplicationError("the model "+s.Model+" is not configured", ErrModelFinal, nil)
	}
	model, err := a.cfg.Models(s.Model)
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError("model "+s.Model+": "+err.Error(), ErrModelFinal, err)
	}
	return model, nil
}

// template is the system prompt's of a run.
func (a *Agent) template(s agent.Settings) *prompt.Template {
	if p, ok := a.cfg.Agents[s.Agent]; ok {
		return p.Template
	}
	return a.cfg.Template
}

// promptTurns are the record's turns as the prompt wants them.
func promptTurns(turns []record.Turn) []prompt.Turn {
	out := make([]prompt.Turn, 0, len(turns))
	for _, t := range turns {
		p := prompt.Turn{Kind: prompt.Kind(t.Kind), Step: t.Step, Text: t.Text}
		if th := t.Thought; th != nil {
			p.Text, p.Calls, p.ProviderIDs, p.Nudge = th.Text, th.Calls, th.ProviderIDs, th.Nudge
		}
		if o := t.Observation; o != nil {
			p.Text, p.Call, p.Outcome, p.Code, p.Page = o.Text, o.Call, o.Outcome, o.Code, o.Page
			if len(o.Image) > 0 {
				p.Image = &llm.Image{MIME: o.MIME, Data: o.Image}
			}
		}
		out = append(out, p)
	}
	return out
}

func newCallID() string { return uuid.NewString()[:8] }

func thinkResult(t record.Thought) ThinkResult {
	res := ThinkResult{Final: t.Final, GaveUp: t.GaveUp, Calls: t.Calls, Tokens: Tokens{t.Usage.PromptTokens, t.Usage.CompletionTokens}}
	for i := range res.Calls {
		if c := &res.Calls[i]; c.Fault != "" {
			// What was wrong is on record for the model; the workflow only
			// needs to know that something was.
			c.Fault, c.Action, c.Params = clip(c.Fault, 120), clip(c.Action, 60), nil
		}
	}
	if t.Final {
		res.Summary = clip(t.Text, 200)
	}
	return res
}

// deltaEvery is how often pieces of a reply are announced.
const deltaEvery = 150 * time.Millisecond

// chat calls the model; pieces of the reply are announced to watchers as
// they come.
func (a *Agent) chat(ctx context.Context, model llm.Model, in ThinkInput, req llm.Request) (llm.Response, error) {
	attempt := int(activity.GetInfo(ctx).Attempt)
	var piece strings.Builder
	last := time.Now()
	return model.Chat(ctx, req, func(text string) {
		piece.WriteString(text)
		if time.Since(last) < deltaEvery {
			return // the last piece comes with the whole reply
		}
		// Watchers that miss a piece see the whole reply a moment later.
		if err := a.record.Delta(ctx, in.RunID, agent.DeltaEvent{Step: in.Step, Attempt: attempt, Text: piece.String()}); err != nil {
			a.log.Debug("delta not announced", "run_id", in.RunID, "err", err)
		}
		piece.Reset()
		last = time.Now()
	})
}

// modelFault is the one table from a model's failure to what Temporal does
// about it.
func modelFault(err error) error {
	e := llm.AsError(err)
	if e == nil {
		return err
	}
	switch {
	case e.Class == llm.ClassContextTooLong:
		return temporal.NewNonRetryableApplicationError(e.Error(), ErrContextTooLong, nil)
	case !e.Class.Retryable():
		return temporal.NewNonRetryableApplicationError(e.Error(), ErrModelFinal, nil)
	}
	return temporal.NewApplicationErrorWithOptions(e.Error(), string(e.Class), temporal.ApplicationErrorOptions{NextRetryDelay: e.RetryAfter})
}

// Critic records an action and what came of it, and judges (seed 001 §2.6).
func (a *Agent) Critic(ctx context.Context, in CriticInput) (Verdict, error) {
	in.RunID = RunID(ctx, in.RunID)
	f := fence(ctx, in.RunID, in.Step)
	// The browser is asked while the record is read.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var kept fetched
	var g errgroup.Group
	g.Go(func() (err error) {
		kept, err = a.fetch(asking, in)
		return err
	})
	run, err := a.record.Run(ctx, in.RunID)
	if err != nil {
		return Verdict{}, fault(err)
	}
	t, err := a.record.Reply(ctx, in.RunID, in.Step)
	if err != nil {
		return Verdict{}, fault(err)
	}
	if in.Index >= len(t.Calls) {
		return Verdict{}, temporal.NewNonRetryableApplicationError(fmt.Sprintf("run %s has no call %d in step %d", in.RunID, in.Index, in.Step), "NoCall", nil)
	}
	if err := g.Wait(); err != nil {
		return Verdict{}, err
	}
	o := observed(in, t.Calls[in.Index], kept, run.Settings.Locale)
	now := time.Now()
	cfg := a.cfg.Critic
	cfg.FailureThreshold = run.Settings.FailureThreshold
	cfg.RepeatLimit = run.Settings.RepeatLimit
	cfg.MaxTask = time.Duration(run.Settings.MaxTaskS) * time.Second
	v, err := a.record.RecordStep(ctx, f, in.Browser, o, cfg.RepeatLimit, func(recent []string, b critic.Breaker) (critic.Breaker, critic.Verdict) {
		return critic.Evaluate(critic.Input{
			Step: in.Step, ActionSignature: o.Signature, Recent: recent,
			Failed: in.Result.Outcome == agent.OutcomeFailed, Neutral: neutral(in.Result.Outcome),
			Active: time.Duration(in.ActiveMS) * time.Millisecond, Now: now,
		}, b, cfg)
	})
	if err != nil {
		return Verdict{}, fault(err)
	}
	name := o.Call.Action
	if _, ok := action.Lookup(name); !ok {
		name = "unknown" // models may call it anything, a metric must not
	}
	a.meter.Action(ctx, name, o.Outcome, o.Code, time.Duration(o.TookMS)*time.Millisecond)
	return Verdict{Abort: v.ShouldAbort, Reason: v.Reason, Warning: v.Warning}, nil
}

// neutral outcomes are neither the browser's failure nor its success.
func neutral(o agent.Outcome) bool {
	switch o {
	case agent.OutcomeRefused, agent.OutcomeSkipped, agent.OutcomeUnknown:
		return true
	}
	return false
}

// observed puts together what the model will read about an action.
func observed(in CriticInput, call agent.Call, kept fetched, lang string) record.Observation {
	o := record.Observation{
		Index: in.Index, Call: call, Outcome: in.Result.Outcome, Code: in.Result.Code, Page: in.Result.Page,
		TookMS: in.TookMS, Signature: signature(call),
	}
	switch {
	case call.Fault != "":
		o.Text = call.Fault
		return o
	case in.Result.Outcome == agent.OutcomeRefused:
		o.Text = locale.Text(lang, locale.Refused)
		if in.Note != "" {
			o.Text += ": " + in.Note
		}
		return o
	case in.Result.Outcome == agent.OutcomeSkipped:
		o.Text = locale.Text(lang, locale.Skipped)
		return o
	}
	o.Text, o.Image, o.MIME = kept.result.Text, kept.result.Image, kept.result.MIME
	if kept.result.Page.URL != "" {
		o.Page = kept.result.Page
	}
	if in.Look != nil {
		o.Text += "\n" + kept.look.Text
	}
	if kept.lost {
		o.Text += "\n" + locale.Text(lang, locale.ObservationLost)
	}
	return o
}

// fetched is what a browser keeps about an action and the look after it.
type fetched struct {
	result, look agent.Body
	lost         bool // some of it is gone
}

func (a *Agent) fetch(ctx context.Context, in CriticInput) (fetched, error) {
	var f fetched
	var err error
	if f.result, err = a.body(ctx, in, in.Result, &f.lost); err != nil || in.Look == nil {
		return f, err
	}
	f.look, err = a.body(ctx, in, *in.Look, &f.lost)
	return f, err
}

// bodyAttempts is how often a body is asked for before the run goes on
// without it: a browser that just went offline must not stop the record.
const bodyAttempts = 6

func (a *Agent) body(ctx context.Context, in CriticInput, r agent.Result, lost *bool) (agent.Body, error) {
	if r.Ref == "" {
		return agent.Body{Text: r.Text}, nil
	}
	limit, attempts := 5*time.Second, int32(bodyAttempts)
	if in.Last {
		limit, attempts = 500*time.Millisecond, 1
	}
	ask, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := a.bodies.Observation(ask, in.Browser, r.Ref)
	if err == nil {
		return b, nil
	}
	if activity.GetInfo(ctx).Attempt < attempts {
		return agent.Body{}, fmt.Errorf("fetch observation %s from browser %s: %w", r.Ref, in.Browser, err)
	}
	a.log.Warn("observation lost", "browser", in.Browser, "ref", r.Ref, "err", err)
	*lost = true
	return agent.Body{Text: r.Text}, nil
}

// signature identifies an action with its parameters.
func signature(c agent.Call) string {
	params, err := action.Canonical(c.Params)
	if err != nil {
		params = c.Params
	}
	sum := sha256.Sum256([]byte(c.Action + "\x00" + c.PageID + "\x00" + string(params)))
	return c.Action + ":" + hex.EncodeToString(sum[:8])
}

// Status tells watchers that a run entered a state that lasts.
func (a *Agent) Status(ctx context.Context, in StatusInput) error {
	return fault(a.record.SetStatus(ctx, fence(ctx, in.RunID, in.Step), in.Key, in.Status, in.Detail, in.Browser))
}

// Ask records a question to a person and announces it.
func (a *Agent) Ask(ctx context.Context, in AskInput) error {
	return fault(a.record.Ask(ctx, fence(ctx, in.RunID, in.Step), in.Confirmation))
}

// Decide records what became of a question.
func (a *Agent) Decide(ctx context.Context, in DecideInput) error {
	if err := a.record.Decide(ctx, fence(ctx, in.RunID, in.Step), in.Decision, in.Answer, in.At); err != nil {
		return fault(err)
	}
	a.meter.Decided(ctx, in.Decision)
	return nil
}

// Instruct records an instruction given in mid-run.
func (a *Agent) Instruct(ctx context.Context, in InstructInput) error {
	return fault(a.record.AddInstruction(ctx, fence(ctx, in.RunID, in.Step), in.ID, in.By, in.Text))
}

// Finish ends the record of a run. The summary is what the model said last;
// where it did not come to that, it is the reason in the person's language.
func (a *Agent) Finish(ctx context.Context, in FinishInput) (FinishResult, error) {
	f := fence(ctx, in.RunID, in.Step)
	run, err := a.record.Run(ctx, in.RunID)
	if err != nil {
		return FinishResult{}, fault(err)
	}
	summary := in.Summary
	if summary == "" && (in.Reason == "" || in.Reason == agent.ReasonGaveUp) {
		t, err := a.record.Reply(ctx, in.RunID, in.Step)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return FinishResult{}, fault(err)
		}
		summary = t.Text
	}
	if summary == "" && in.Reason != "" {
		// A run that never began has no settings.
		summary = locale.Reason(cmp.Or(run.Settings.Locale, run.Origin.Locale, a.cfg.Settings.Locale), in.Reason)
		if (in.Reason == agent.ReasonModelFailed || in.Reason == agent.ReasonNoAgent) && in.Detail != "" {
			summary += ": " + in.Detail
		}
		if in.Why != "" {
			summary += ": " + in.Why
		}
	}
	res, err := a.record.Finish(ctx, f, agent.TaskResult{
		RunID: in.RunID, Status: in.Status, Success: in.Status == agent.StatusDone, Reason: in.Reason, Summary: summary,
	}, in.Detail, in.EndedAt)
	if err != nil {
		return FinishResult{}, fault(err)
	}
	a.meter.Ended(ctx, in.Status, in.Reason)
	return FinishResult{Summary: clip(res.Summary, MaxSummary)}, nil
}

// clip cuts s to at most n bytes, at the edge of a rune.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
