package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/host"
	"sgclaw/internal/locale"
	"sgclaw/internal/pipe"
)

// Limits of the panel. Its page is a page: what it sends is checked, and it
// cannot make the host keep or do more than this.
const (
	maxPanelCalls  = 16   // under way at once
	maxPanelMinute = 120  // in a minute
	maxPanelPast   = 400  // events kept for a page that is loading or loaded again
	maxPanelAsks   = 64   // questions open at once
	maxPanelNote   = 4096 // bytes of a note
)

// panelAgent is what the panel works with; *host.Process is the real one.
type panelAgent interface {
	Start(ctx context.Context) error
	Stop()
	SubmitTask(t pipe.SubmitTask) error
	Confirm(c pipe.Confirm) error
}

// document is the panel's page as it is now; page.Document is the real one.
type document interface {
	Tell(ctx context.Context, handler string, arg any) error
	Answer(ctx context.Context, id int64, response any) error
}

// sidePanel is the person at the side panel (seed 001 §4.1): it carries out what
// the page asks for with sgFunctionsUI, and tells it what the agent does
// through sgClawEvents. It is a host.Observer and a host.Prompter.
//
// Events wait, in order and in a bounded number, until a page takes them. A
// page that was loaded again gets them anew: the log and the results so far,
// the questions that are still open, and of the states the last.
type sidePanel struct {
	log  *slog.Logger
	lang string
	// reopen opens the page again; ready is told when it takes events.
	reopen   func()
	attached chan struct{} // closed when agent is set
	agent    panelAgent

	mu      sync.Mutex
	process host.State
	server  string // what the agent last said of its server, a pipe.State constant
	shown   panelState
	events  []panelEvent
	next    uint64 // number of the next event
	open    map[string]panelAsk
	doc     document // nil while no page is ready
	cursor  uint64   // number of the next event for doc
	shut    bool     // the person closed the page
	calls   int      // under way
	minute  time.Time
	inMin   int           // calls since minute
	changed chan struct{} // capacity 1
}

// panelState is a state of seed 001 §4.1.
type panelState string

// The four states.
const (
	panelStopped  panelState = "stopped"
	panelStarting panelState = "starting"
	panelRunning  panelState = "running"
	panelError    panelState = "error"
)

// Handlers of sgClawEvents. The first four are the seed's.
const (
	onState         = "onStateChanged"
	onLog           = "onLogEntry"
	onConfirm       = "onConfirmRequired"
	onComplete      = "onTaskCompleted"
	onConfirmClosed = "onConfirmClosed" // a question is settled: {id}
)

// panelEvent is one call of a handler.
type panelEvent struct {
	number  uint64
	handler string
	arg     any
	ask     string // with onConfirm, the question
}

// panelAsk is an open question.
type panelAsk struct {
	task   string
	answer func(pipe.Confirm) error
	drop   func() // there will be no answer; may be nil
}

// panelLog is the argument of onLogEntry.
type panelLog struct {
	Time    string `json:"time"` // local, 15:04:05
	Message string `json:"message"`
	Level   string `json:"level"` // info, warn, error
	TaskID  string `json:"task_id,omitempty"`
}

// panelConfirm is the argument of onConfirmRequired: id, type and domain are
// the seed's.
type panelConfirm struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"` // the action
	Domain  string          `json:"domain"`
	TaskID  string          `json:"task_id,omitempty"`
	Role    string          `json:"role,omitempty"`
	Name    string          `json:"name,omitempty"`
	Context string          `json:"context,omitempty"`
	URL     string          `json:"url,omitempty"`
	Rule    string          `json:"rule,omitempty"`
	Prompt  agent.Prompt    `json:"prompt,omitzero"`
	Params  json.RawMessage `json:"params,omitempty"`
	Picture string          `json:"picture,omitempty"` // of the element, a data: URL
}

// panelResult is the argument of onTaskCompleted: success and summary are the
// seed's.
type panelResult struct {
	Success bool   `json:"success"`
	Summary string `json:"summary"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	TaskID  string `json:"task_id"`
	RunID   string `json:"run_id"`
}

// panelResponse answers a call of sgFunctionsUI. Code is one of the constants
// below, for programs; Error is for people.
type panelResponse struct {
	Success bool   `json:"success"`
	Error   string `json:"error,omitempty"`
	Code    string `json:"code,omitempty"`
	TaskID  string `json:"task_id,omitempty"` // of sgclaw_submit_task
}

// Codes of panelResponse.
const (
	panelUnknownFunction = "UNKNOWN_FUNCTION"
	panelInvalidParams   = "INVALID_PARAMS"
	panelTooLong         = "TOO_LONG"
	panelTooMany         = "TOO_MANY"
	panelNotRunning      = "NOT_RUNNING"
	panelAlreadyRunning  = "ALREADY_RUNNING"
	panelStartFailed     = "START_FAILED"
	panelUnknownConfirm  = "UNKNOWN_CONFIRM"
	panelSendFailed      = "SEND_FAILED"
)

func newPanel(log *slog.Logger, lang string) *sidePanel {
	p := &sidePanel{log: log, lang: lang, process: host.StateStopped, open: map[string]panelAsk{},
		reopen: func() {}, attached: make(chan struct{}), changed: make(chan struct{}, 1)}
	p.setState()
	return p
}

// attach names the agent. Calls of a page wait until then.
func (p *sidePanel) attach(process *host.Process) {
	p.agent = process
	process.AddObserver(p)
	close(p.attached)
}

// ready is told that a page takes events.
func (p *sidePanel) ready(d document) {
	p.mu.Lock()
	p.doc, p.cursor, p.shut = d, 0, false
	p.mu.Unlock()
	p.wake()
}

// closed is told that the page is gone. What only it could answer is let go,
// undone; when there is something to answer again, the page comes back.
func (p *sidePanel) closed() {
	p.mu.Lock()
	p.doc, p.shut = nil, true
	var drop []func()
	for id, a := range p.open {
		if a.drop != nil {
			drop = append(drop, a.drop)
			p.settleLocked(id)
		}
	}
	p.mu.Unlock()
	for _, f := range drop {
		f()
	}
}

// show opens the page again if the person closed it.
func (p *sidePanel) show() {
	p.mu.Lock()
	shut := p.shut
	p.shut = false
	p.mu.Unlock()
	if shut {
		p.reopen()
	}
}

func (p *sidePanel) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// run tells the page what happens until ctx ends.
func (p *sidePanel) run(ctx context.Context) {
	for {
		doc, e, ok := p.upcoming()
		if !ok {
			select {
			case <-p.changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := doc.Tell(ctx, e.handler, e.arg)
		p.mu.Lock()
		switch {
		case p.doc != doc || p.cursor > e.number:
			// Another page, or the same one anew.
		case err != nil:
			p.log.Debug("panel's page not told", "err", err)
			p.doc = nil
		default:
			p.cursor = e.number + 1
		}
		p.mu.Unlock()
	}
}

// upcoming returns the next event for the page there is.
func (p *sidePanel) upcoming() (document, panelEvent, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.doc == nil {
		return nil, panelEvent{}, false
	}
	for _, e := range p.events {
		if e.number >= p.cursor && !p.staleLocked(e) {
			return p.doc, e, true
		}
	}
	return nil, panelEvent{}, false
}

// staleLocked reports whether an event means nothing any more: a question
// that is settled, a state that is not the last.
func (p *sidePanel) staleLocked(e panelEvent) bool {
	switch e.handler {
	case onConfirm:
		_, open := p.open[e.ask]
		return !open
	case onState:
		return slices.ContainsFunc(p.events, func(o panelEvent) bool { return o.handler == onState && o.number > e.number })
	}
	return false
}

// tellLocked adds an event and forgets the oldest that may be forgotten.
func (p *sidePanel) tellLocked(handler string, arg any, ask string) {
	p.events = append(p.events, panelEvent{number: p.next, handler: handler, arg: arg, ask: ask})
	p.next++
	p.events = slices.DeleteFunc(p.events, func(e panelEvent) bool { return e.handler != onLog && p.staleLocked(e) })
	if len(p.events) > maxPanelPast {
		i := slices.IndexFunc(p.events, func(e panelEvent) bool { return e.handler != onState && e.handler != onConfirm })
		p.events = slices.Delete(p.events, i, i+1)
	}
	p.wake()
}

func (p *sidePanel) note(level, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellLocked(onLog, panelLog{Time: time.Now().Format(time.TimeOnly), Message: message, Level: level}, "")
}

// setState tells the state if it is another.
func (p *sidePanel) setState() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := panelStopped
	switch p.process {
	case host.StateStarting:
		s = panelStarting
	case host.StateCrashed:
		s = panelError
	case host.StateRunning:
		s = map[string]panelState{
			// Away or not yet there: the agent runs, and waits for its server.
			pipe.StateStarting: panelStarting, pipe.StateOffline: panelStarting, pipe.StateStopped: panelStopped,
		}[p.server]
		if s == "" {
			s = panelRunning
		}
	case host.StateStopping:
		return // it will be stopped soon
	}
	if s == p.shown {
		return
	}
	p.shown = s
	p.tellLocked(onState, s, "")
}

// settleLocked closes a question.
func (p *sidePanel) settleLocked(id string) {
	delete(p.open, id)
	p.tellLocked(onConfirmClosed, map[string]string{"id": id}, "")
}

// settleTask closes the questions of a task: it goes on, so somebody has
// answered, or it is over.
func (p *sidePanel) settleTask(task string) {
	p.settle(func(a panelAsk) bool { return a.task == task && a.drop == nil })
}

func (p *sidePanel) settle(which func(panelAsk) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, a := range p.open {
		if which(a) {
			p.settleLocked(id)
		}
	}
}

// OnStateChanged is told where the agent process stands.
func (p *sidePanel) OnStateChanged(s host.State) {
	p.mu.Lock()
	p.process = s
	if s != host.StateRunning {
		p.server = ""
	}
	p.mu.Unlock()
	if s == host.StateStopped || s == host.StateCrashed {
		// Its questions stay open in their runs; it asks again when it is back.
		p.settle(func(a panelAsk) bool { return a.drop == nil })
	}
	p.setState()
}

// OnCrash is told how the agent ended.
func (p *sidePanel) OnCrash(code int, stderr string) {
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	p.note("error", locale.Text(p.lang, locale.HostAgentEnded, code, lines[len(lines)-1]))
}

// OnMessage is told what the agent says.
func (p *sidePanel) OnMessage(_ pipe.Type, line json.RawMessage) {
	m, fault := pipe.Decode(line)
	if fault != nil {
		return
	}
	switch m := m.(type) {
	case *pipe.Log:
		if m.TaskID != "" {
			p.settleTask(m.TaskID)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tellLocked(onLog, panelLog{Time: m.Time.Local().Format(time.TimeOnly), Message: m.Message, Level: m.Level, TaskID: m.TaskID}, "")
	case *pipe.State:
		p.serverState(m)
	case *pipe.ConfirmRequired:
		c := panelConfirm{ID: m.ActionID, Type: m.Action, Domain: m.Domain, TaskID: m.TaskID, Picture: pictureURL(m.Image)}
		c.about(m.Ask)
		p.ask(c, panelAsk{task: m.TaskID, answer: p.agentConfirm})
	case *pipe.TaskComplete:
		p.settleTask(m.TaskID)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tellLocked(onComplete, panelResult{
			Success: m.Success, Summary: m.Summary, Status: m.Status, Reason: m.Reason, TaskID: m.TaskID, RunID: m.RunID,
		}, "")
	case *pipe.ErrorMessage:
		if m.Seq == 0 {
			p.note("error", string(m.Code)+": "+m.Message)
		}
	}
}

func (p *sidePanel) serverState(m *pipe.State) {
	if m.TaskID != "" && m.Status != "" && m.Status != string(agent.StatusWaitingConfirm) {
		p.settleTask(m.TaskID)
	}
	p.mu.Lock()
	was := p.server
	if m.TaskID == "" || m.State == pipe.StateOffline {
		p.server = m.State
	}
	gone := p.server == pipe.StateOffline && was != pipe.StateOffline
	p.mu.Unlock()
	if gone {
		text := locale.Text(p.lang, locale.Key("agent."+m.State))
		if m.Detail != "" {
			text += " (" + m.Detail + ")"
		}
		p.note("warn", text)
	}
	p.setState()
}

// agentConfirm sends an answer to the agent.
func (p *sidePanel) agentConfirm(c pipe.Confirm) error { return p.agent.Confirm(c) }

func pictureURL(jpeg []byte) string {
	if len(jpeg) == 0 {
		return ""
	}
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(jpeg)
}

func (c *panelConfirm) about(s agent.Subject) {
	c.Role, c.Name, c.Context, c.URL, c.Rule, c.Prompt = s.Role, s.Name, s.Context, s.URL, s.Rule, s.Prompt
}

// ask puts a question to the person; it reports whether anybody can see it.
func (p *sidePanel) ask(c panelConfirm, a panelAsk) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, again := p.open[c.ID]; again {
		return true
	}
	if len(p.open) >= maxPanelAsks {
		p.log.Warn("question not shown in the panel: too many are open", "id", c.ID)
		return false
	}
	if p.shut {
		p.shut = false
		go p.reopen()
	}
	p.open[c.ID] = a
	p.tellLocked(onConfirm, c, c.ID)
	return true
}

// Ask shows a question of the host and waits for the answer.
func (p *sidePanel) Ask(ctx context.Context, q host.Question) (bool, error) {
	answers := make(chan bool, 1)
	c := panelConfirm{ID: "hold-" + uuid.NewString(), Type: q.Action, Domain: q.Ask.Domain, Params: q.Params, Picture: pictureURL(q.Ask.Image)}
	c.about(q.Ask.Subject)
	if c.Prompt == (agent.Prompt{}) {
		c.Prompt = q.Prompt
	}
	dropped := make(chan struct{})
	shown := p.ask(c, panelAsk{
		answer: func(c pipe.Confirm) error { answers <- c.Approved; return nil },
		drop:   func() { close(dropped) },
	})
	if !shown {
		return false, errors.New("nobody is at the panel")
	}
	select {
	case yes := <-answers:
		return yes, nil
	case <-dropped:
		return false, errors.New("the panel was closed")
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, open := p.open[c.ID]; open {
			p.settleLocked(c.ID)
		}
		return false, ctx.Err()
	}
}

// call takes one call of sgFunctionsUI and answers it later. ctx is the
// program's life.
func (p *sidePanel) call(ctx context.Context, d document, id int64, name string, params json.RawMessage) {
	p.mu.Lock()
	if now := time.Now(); now.Sub(p.minute) >= time.Minute {
		p.minute, p.inMin = now, 0
	}
	p.inMin++
	full := p.calls >= maxPanelCalls || p.inMin > maxPanelMinute
	flood := p.inMin > 2*maxPanelMinute
	if !full {
		p.calls++
	}
	p.mu.Unlock()
	if flood {
		return // not even an answer
	}
	go func() {
		select {
		case <-p.attached:
		case <-ctx.Done():
			return
		}
		var r panelResponse
		if full {
			r = refuse(panelTooMany, p.text(locale.PanelTooMany))
		} else {
			r = p.carryOut(ctx, name, params)
			p.mu.Lock()
			p.calls--
			p.mu.Unlock()
		}
		if err := d.Answer(ctx, id, r); err != nil {
			p.log.Debug("panel's page not answered", "err", err)
		}
	}()
}

func (p *sidePanel) text(key locale.Key, args ...any) string {
	return locale.Text(p.lang, key, args...)
}

func refuse(code, text string) panelResponse { return panelResponse{Code: code, Error: text} }

// carryOut does what a function of seed 001 §4.1 is for.
func (p *sidePanel) carryOut(ctx context.Context, name string, params json.RawMessage) panelResponse {
	switch name {
	case "sgclaw_start":
		var none struct{}
		if bad := p.read(params, &none); bad != nil {
			return *bad
		}
		err := p.agent.Start(ctx)
		switch {
		case err == nil:
			return panelResponse{Success: true}
		case errors.Is(err, host.ErrAlreadyRunning):
			return refuse(panelAlreadyRunning, p.text(locale.PanelAlreadyRunning))
		}
		return refuse(panelStartFailed, p.text(locale.PanelStartFailed, err))
	case "sgclaw_stop":
		var none struct{}
		if bad := p.read(params, &none); bad != nil {
			return *bad
		}
		p.agent.Stop()
		return panelResponse{Success: true}
	case "sgclaw_submit_task":
		return p.submit(params)
	case "sgclaw_confirm":
		return p.confirm(params)
	}
	return refuse(panelUnknownFunction, p.text(locale.PanelUnknownFunction))
}

func (p *sidePanel) submit(params json.RawMessage) panelResponse {
	var in struct {
		Instruction string `json:"instruction"`
	}
	if bad := p.read(params, &in); bad != nil {
		return *bad
	}
	switch {
	case strings.TrimSpace(in.Instruction) == "":
		return refuse(panelInvalidParams, p.text(locale.PanelNoInstruction))
	case len(in.Instruction) > agent.MaxInstruction:
		return refuse(panelTooLong, p.text(locale.PanelTooLong, agent.MaxInstruction))
	}
	id := uuid.NewString()
	if err := p.agent.SubmitTask(pipe.SubmitTask{TaskID: id, Instruction: in.Instruction, Locale: p.lang}); err != nil {
		return p.notSent(err)
	}
	return panelResponse{Success: true, TaskID: id}
}

func (p *sidePanel) confirm(params json.RawMessage) panelResponse {
	var in struct {
		ActionID string `json:"action_id"`
		Approved *bool  `json:"approved"`
		Note     string `json:"note"`
		Scope    string `json:"scope"`
	}
	if bad := p.read(params, &in); bad != nil {
		return *bad
	}
	switch {
	case in.ActionID == "" || in.Approved == nil || in.Scope != "" && in.Scope != agent.ScopeRun:
		return refuse(panelInvalidParams, p.text(locale.PanelBadParams))
	case len(in.Note) > maxPanelNote:
		return refuse(panelTooLong, p.text(locale.PanelTooLong, maxPanelNote))
	}
	p.mu.Lock()
	a, ok := p.open[in.ActionID]
	delete(p.open, in.ActionID) // one answer is enough
	p.mu.Unlock()
	if !ok {
		return refuse(panelUnknownConfirm, p.text(locale.PanelUnknownConfirm))
	}
	err := a.answer(pipe.Confirm{ActionID: in.ActionID, Approved: *in.Approved, Note: in.Note, Scope: in.Scope})
	if err != nil {
		p.mu.Lock()
		p.open[in.ActionID] = a
		p.mu.Unlock()
		return p.notSent(err)
	}
	return panelResponse{Success: true}
}

func (p *sidePanel) notSent(err error) panelResponse {
	if errors.Is(err, host.ErrNotRunning) {
		return refuse(panelNotRunning, p.text(locale.PanelNotRunning))
	}
	return refuse(panelSendFailed, p.text(locale.HostFault, err))
}

// read decodes the parameters of a function: one object, with members that
// the function knows and no others.
func (p *sidePanel) read(params json.RawMessage, into any) *panelResponse {
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	trimmed := bytes.TrimSpace(params)
	if len(trimmed) == 0 || trimmed[0] != '{' || !utf8.Valid(params) || d.Decode(into) != nil || d.Decode(new(json.RawMessage)) != io.EOF {
		bad := refuse(panelInvalidParams, p.text(locale.PanelBadParams))
		return &bad
	}
	return nil
}

// prompters asks several people the same; the first answer counts.
type prompters []host.Prompter

// Ask fails if none of them can answer.
func (l prompters) Ask(ctx context.Context, q host.Question) (bool, error) {
	type answer struct {
		yes bool
		err error
	}
	asking, done := context.WithCancel(ctx)
	defer done()
	answers := make(chan answer, len(l))
	for _, one := range l {
		go func() {
			yes, err := one.Ask(asking, q)
			answers <- answer{yes, err}
		}()
	}
	var errs []error
	for range l {
		a := <-answers
		if a.err == nil {
			return a.yes, nil
		}
		errs = append(errs, a.err)
	}
	return false, errors.Join(errs...)
}
