package gateway

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/routing"
)

// OpenClaw's clients see a run as one text that grows. A run of ours has a
// reply a step, so the text is that of all its steps so far, with an empty
// line between them: a client that keeps count of what it has shown (as its
// own ACP bridge does) may go on counting over steps, connections and
// gateways. The text is only said to be replaced when something in it became
// void: a call to the model was repeated, or a step was done anew.

// piece is what one step said.
type piece struct {
	step, attempt int
	text          string
	whole         bool // on record; nothing is added any more
	missed        bool // its beginning was not seen: it is told when it is whole
}

// runText is what a run has said so far, by step.
type runText []piece

func (t runText) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.text == "" || p.missed && !p.whole {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// at returns the piece of a step, made if there is none.
func (t *runText) at(step int) *piece {
	i, ok := slices.BinarySearchFunc(*t, step, func(p piece, step int) int { return p.step - step })
	if !ok {
		*t = slices.Insert(*t, i, piece{step: step})
	}
	return &(*t)[i]
}

// from drops the pieces from a step on.
func (t *runText) from(step int) {
	*t = slices.DeleteFunc(*t, func(p piece) bool { return p.step >= step })
}

// finish adds the summary with which a run ended, unless it was just said.
func (t runText) finish(summary string) string {
	text := t.String()
	switch {
	case summary == "" || strings.HasSuffix(strings.TrimSpace(text), strings.TrimSpace(summary)):
		return text
	case text == "":
		return summary
	}
	return text + "\n\n" + summary
}

// begun is what is on record of a run of which the first event seen is not
// its first.
type begun struct {
	text    runText
	started bool
}

// translator is the Translator of a session.
type translator struct {
	session string
	agentID string
	// load tells what is on record of a run.
	load func(runID string) begun
	runs map[string]*runState
}

type runState struct {
	seq     int // of its chat events
	agent   int // of its agent events
	text    runText
	started bool
	asked   map[string]openclaw.ApprovalRequest // open questions by id
}

func newTranslator(session string, load func(runID string) begun) *translator {
	t := &translator{session: session, load: load, runs: map[string]*runState{}}
	if k, err := routing.Parse(session); err == nil {
		t.agentID = k.Agent
	}
	return t
}

// Translate implements Translator.
func (t *translator) Translate(e agent.Event) []*Frame {
	switch e.Kind {
	case agent.EventEntry:
		return t.entry(e)
	case agent.EventSession:
		return t.changed(e)
	}
	fresh := t.runs[e.RunID] == nil
	r := t.run(e)
	switch e.Kind {
	case agent.EventAccepted:
		return t.accepted(e, r)
	case agent.EventState:
		return t.state(e, r)
	case agent.EventDelta:
		return t.delta(e, r, fresh)
	case agent.EventThought:
		return t.thought(e, r)
	case agent.EventStep:
		return t.step(e, r)
	case agent.EventConfirm:
		return t.ask(e, r)
	case agent.EventConfirmed:
		return t.decided(e, r)
	case agent.EventDone:
		delete(t.runs, e.RunID)
		return t.done(e, r)
	}
	return nil
}

func (t *translator) run(e agent.Event) *runState {
	r := t.runs[e.RunID]
	if r == nil {
		r = &runState{asked: map[string]openclaw.ApprovalRequest{}}
		if e.Kind != agent.EventAccepted && t.load != nil {
			b := t.load(e.RunID)
			r.text, r.started = b.text, b.started
		}
		t.runs[e.RunID] = r
	}
	return r
}

// read decodes the data of an event; what cannot be read is as nothing.
func read[T any](e agent.Event) T {
	var v T
	_ = json.Unmarshal(e.Data, &v)
	return v
}

func (t *translator) accepted(e agent.Event, r *runState) []*Frame {
	task := read[agent.AcceptedEvent](e).Task
	return []*Frame{
		t.message(e, e.RunID, openclaw.ChatMessage{
			Role: openclaw.RoleUser, Content: openclaw.Text(task), Timestamp: e.At.UnixMilli(), Key: e.RunID + ":user",
		}),
		t.chat(e, r, openclaw.ChatEvent{State: openclaw.ChatStatus, Phase: openclaw.PhasePreparing}),
	}
}

func (t *translator) state(e agent.Event, r *runState) []*Frame {
	s := read[agent.StateEvent](e)
	var frames []*Frame
	if s.Rewound != nil {
		before := r.text.String()
		r.text.from(*s.Rewound)
		clear(r.asked)
		frames = append(frames, t.say(e, r, before)...)
	}
	if !r.started {
		r.started = true
		frames = append(frames,
			t.agent(e, r, openclaw.StreamLifecycle, openclaw.Lifecycle{Phase: "start", StartedAt: e.At.UnixMilli()}),
			t.chat(e, r, openclaw.ChatEvent{State: openclaw.ChatStatus, Phase: openclaw.PhaseStarting}))
	}
	return frames
}

func (t *translator) delta(e agent.Event, r *runState, fresh bool) []*Frame {
	d := read[agent.DeltaEvent](e)
	if n := len(r.text); n > 0 && r.text[n-1].step > d.Step {
		return nil // a straggler
	}
	before := r.text.String()
	p := r.text.at(d.Step)
	switch {
	case p.whole || p.attempt > d.Attempt:
		return nil
	case p.attempt < d.Attempt:
		// The text of earlier attempts is void.
		*p = piece{step: d.Step, attempt: d.Attempt, missed: fresh}
	case fresh:
		p.missed = true
	}
	p.text += d.Text
	return t.say(e, r, before)
}

// say tells how the text of a run changed from what it was before.
func (t *translator) say(e agent.Event, r *runState, before string) []*Frame {
	now := r.text.String()
	if now == before {
		return nil
	}
	delta, added := strings.CutPrefix(now, before)
	key := e.RunID
	if n := len(r.text); n > 0 {
		key += "/" + strconv.Itoa(r.text[n-1].step) + "/" + strconv.Itoa(r.text[n-1].attempt)
	}
	chat := t.chat(e, r, openclaw.ChatEvent{
		State: openclaw.ChatDelta, DeltaText: &delta, Replace: !added,
		Message: &openclaw.ChatMessage{Role: openclaw.RoleAssistant, Content: openclaw.Text(now), Timestamp: e.At.UnixMilli()},
	})
	chat.Key, chat.Merge = key, mergeChat(chat.Payload.(openclaw.ChatEvent))
	assistant := t.agent(e, r, openclaw.StreamAssistant, openclaw.AssistantText{Text: now, Delta: delta, Replace: !added})
	assistant.Key, assistant.Merge = key, mergeAssistant(assistant.Payload.(openclaw.AgentEvent))
	return []*Frame{assistant, chat}
}

// mergeChat says in one event what an earlier one and then this one say.
func mergeChat(later openclaw.ChatEvent) func(any) any {
	return func(earlier any) any {
		first, ok := earlier.(openclaw.ChatEvent)
		if !ok || later.Replace || first.DeltaText == nil {
			return later
		}
		text := *first.DeltaText + *later.DeltaText
		merged := later
		merged.DeltaText, merged.Replace = &text, first.Replace
		return merged
	}
}

func mergeAssistant(later openclaw.AgentEvent) func(any) any {
	return func(earlier any) any {
		first, ok := earlier.(openclaw.AgentEvent)
		if !ok {
			return later
		}
		was, _ := first.Data.(openclaw.AssistantText)
		is, _ := later.Data.(openclaw.AssistantText)
		if is.Replace {
			return later
		}
		is.Delta, is.Replace = was.Delta+is.Delta, was.Replace
		merged := later
		merged.Data = is
		return merged
	}
}

func (t *translator) thought(e agent.Event, r *runState) []*Frame {
	th := read[agent.ThoughtEvent](e)
	before := r.text.String()
	r.text.from(th.Step + 1)
	p := r.text.at(th.Step)
	*p = piece{step: th.Step, attempt: max(p.attempt, th.Attempt), text: th.Text, whole: true}
	frames := t.say(e, r, before)
	for _, f := range frames {
		f.Key, f.Merge = "", nil // this one is not left out or changed any more
	}
	if th.Usage != (agent.Usage{}) {
		frames = append(frames, t.agent(e, r, openclaw.StreamUsage, openclaw.UsageData{
			InputTokens: th.Usage.PromptTokens, OutputTokens: th.Usage.CompletionTokens, TotalTokens: th.Usage.TotalTokens,
		}))
	}
	for _, c := range th.Calls {
		frames = append(frames, t.agent(e, r, openclaw.StreamTool, openclaw.ToolStart{
			Phase: "start", Name: c.Action, ToolCallID: c.ID, Args: arguments(c.Params),
		}))
	}
	return append(frames, t.message(e, replyID(e.RunID, th.Step), replyMessage(th.Text, th.Calls, th.Model, th.Usage, e.At)))
}

func (t *translator) step(e agent.Event, r *runState) []*Frame {
	s := read[agent.StepEvent](e)
	failed := s.Outcome != agent.OutcomeDone
	return []*Frame{
		t.agent(e, r, openclaw.StreamTool, openclaw.ToolResult{
			Phase: "result", Name: s.Call.Action, ToolCallID: s.Call.ID, IsError: failed,
			Result: openclaw.ToolOutput{
				Content: openclaw.Text(s.Observation),
				Details: openclaw.ToolDetails{Outcome: string(s.Outcome), Code: s.Code, DurationMs: s.DurationMS, URL: s.Page.URL},
			},
		}),
		t.message(e, s.Call.ID, toolMessage(s.Call, s.Outcome, s.Observation, e.At)),
	}
}

func (t *translator) ask(e agent.Event, r *runState) []*Frame {
	q := read[agent.Confirmation](e)
	asked := approvalRequest(q, t.session, t.agentID, e.RunID)
	r.asked[q.ID] = asked.Request
	return []*Frame{{Event: openclaw.EventApprovalAsked, Payload: asked, To: ToApprovals}}
}

func (t *translator) decided(e agent.Event, r *runState) []*Frame {
	a := read[agent.Answer](e)
	done := openclaw.ApprovalResolved{ID: a.ConfirmID, Decision: decisionOf(a), ResolvedBy: a.By, Ts: e.At.UnixMilli()}
	if request, ok := r.asked[a.ConfirmID]; ok {
		done.Request = &request
		delete(r.asked, a.ConfirmID)
	}
	return []*Frame{{Event: openclaw.EventApprovalDone, Payload: done, To: ToApprovals}}
}

func (t *translator) done(e agent.Event, r *runState) []*Frame {
	res := read[agent.TaskResult](e)
	var frames []*Frame
	for id, request := range r.asked {
		frames = append(frames, &Frame{Event: openclaw.EventApprovalDone, To: ToApprovals, Payload: openclaw.ApprovalResolved{
			ID: id, Decision: openclaw.Deny, Ts: e.At.UnixMilli(), Request: &request,
		}})
	}
	if !res.Success && res.Status != agent.StatusDone {
		frames = append(frames, t.message(e, endID(e.RunID), noteMessage(ending(res), e.At)))
	}
	at := e.At.UnixMilli()
	end := openclaw.Lifecycle{Phase: "end", EndedAt: at, StopReason: "stop"}
	chat := openclaw.ChatEvent{State: openclaw.ChatFinal, StopReason: "stop", Usage: usageOf(res.TokenUsage)}
	message := func(text string) *openclaw.ChatMessage {
		if text == "" {
			return nil
		}
		return &openclaw.ChatMessage{Role: openclaw.RoleAssistant, Content: openclaw.Text(text), Timestamp: at, StopReason: "stop", Usage: usageOf(res.TokenUsage)}
	}
	switch {
	case res.Reason == agent.ReasonSteered:
		// The answer is that of the run which it was added to.
		end.TerminalReply, chat.Usage = openclaw.ReplyOf(""), nil
	case res.Status == agent.StatusDone:
		text := r.text.finish(res.Summary)
		end.TerminalReply, chat.Message = openclaw.ReplyOf(text), message(text)
	case res.Status == agent.StatusAborted:
		text := r.text.String()
		end.Aborted, end.StopReason, end.TerminalReply = true, "rpc", openclaw.ReplyOf(text)
		chat = openclaw.ChatEvent{State: openclaw.ChatAborted, StopReason: "rpc", Message: message(text)}
	default:
		end = openclaw.Lifecycle{Phase: "error", EndedAt: at, Error: ending(res)}
		chat = openclaw.ChatEvent{State: openclaw.ChatError, ErrorMessage: ending(res), ErrorKind: errorKind(res.Reason), StopReason: "error"}
	}
	return append(frames, t.agent(e, r, openclaw.StreamLifecycle, end), t.chat(e, r, chat))
}

func (t *translator) entry(e agent.Event) []*Frame {
	in := read[agent.EntryEvent](e)
	m := entryMessage(in.Role, in.Label, in.Text, in.By, e.At)
	frames := []*Frame{t.message(e, in.ID, m)}
	if in.Role == "assistant" {
		frames = append(frames, &Frame{Event: openclaw.EventChat, To: ToChat, Payload: openclaw.ChatEvent{
			RunID: "inject-" + in.ID, SessionKey: t.session, AgentID: t.agentID, State: openclaw.ChatFinal, Message: &m,
		}})
	}
	return frames
}

func (t *translator) changed(e agent.Event) []*Frame {
	return []*Frame{{Event: openclaw.EventSessionsChanged, To: ToMessages, Payload: openclaw.SessionsChanged{
		SessionKey: t.session, AgentID: t.agentID, Reason: read[agent.SessionEvent](e).What, Ts: e.At.UnixMilli(),
	}}}
}

// chat makes a chat event of a run.
func (t *translator) chat(e agent.Event, r *runState, c openclaw.ChatEvent) *Frame {
	r.seq++
	c.RunID, c.SessionKey, c.AgentID, c.Seq = e.RunID, t.session, t.agentID, r.seq
	return &Frame{Event: openclaw.EventChat, Payload: c, To: ToChat}
}

// agent makes an agent event of a run.
func (t *translator) agent(e agent.Event, r *runState, stream string, data any) *Frame {
	r.agent++
	return &Frame{Event: openclaw.EventAgent, To: ToAgent, Payload: openclaw.AgentEvent{
		RunID: e.RunID, Seq: r.agent, Stream: stream, Ts: e.At.UnixMilli(), Data: data, SessionKey: t.session, AgentID: t.agentID,
	}}
}

// message makes a session.message event.
func (t *translator) message(e agent.Event, id string, m openclaw.ChatMessage) *Frame {
	m.Meta = &openclaw.MessageMeta{ID: id, RunID: e.RunID}
	if e.Kind == agent.EventEntry {
		m.Meta.RunID = ""
	}
	return &Frame{Event: openclaw.EventSessionMessage, To: ToMessages, Payload: openclaw.SessionMessage{
		SessionKey: t.session, AgentID: t.agentID, MessageID: id, MessageSeq: e.Seq, RunID: m.Meta.RunID, Message: m,
	}}
}

// errorKind is what OpenClaw's clients call a reason.
func errorKind(reason string) string {
	if reason == agent.ReasonTaskTimeout || reason == agent.ReasonConfirmExpired {
		return openclaw.ErrorTimeout
	}
	return openclaw.ErrorUnknown
}

// ending says in words why a run ended without success.
func ending(res agent.TaskResult) string {
	switch {
	case res.Summary != "" && res.Reason != "":
		return res.Reason + ": " + res.Summary
	case res.Summary != "":
		return res.Summary
	case res.Reason != "":
		return res.Reason
	}
	return string(res.Status)
}

func replyID(runID string, step int) string { return runID + "/" + strconv.Itoa(step) }

func endID(runID string) string { return runID + "/end" }

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
