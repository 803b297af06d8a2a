package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"sgclaw/activities"
	"sgclaw/internal/agent"
)

// view writes what a run does, line by line. On a terminal the last line is
// alive: it shows what goes on at the moment, with the time and the tokens
// so far.
type view struct {
	app   *app
	alive bool // the last line is redrawn
	drawn bool // it stands there now
	quiet bool // a question is open: no live line

	began  time.Time // of the state
	start  time.Time // of watching
	state  agent.Status
	step   int
	tokens int
	text   string // of the reply being written
	writes [2]int // step and attempt that text belongs to
	said   string // the last reply
}

func newView(a *app) *view {
	return &view{app: a, alive: a.terminal && !a.json && a.getenv("TERM") != "dumb", start: time.Now(), began: time.Now()}
}

// line prints a whole line.
func (v *view) line(s string) {
	v.clear()
	fmt.Fprintln(v.app.stdout, s)
	v.tick()
}

// clear takes the live line away.
func (v *view) clear() {
	if v.drawn {
		fmt.Fprint(v.app.stdout, "\r\x1b[K")
		v.drawn = false
	}
}

// tick redraws the live line.
func (v *view) tick() {
	if !v.alive || v.quiet || v.state == "" {
		return
	}
	v.clear()
	parts := []string{v.app.statusWord(v.state) + " " + short(time.Since(v.began))}
	if v.step > 0 {
		parts = append([]string{v.app.t("step", v.step)}, parts...)
	}
	if v.tokens > 0 {
		parts = append(parts, v.app.count("tokens", v.tokens))
	}
	head := "· " + strings.Join(parts, " · ")
	room := v.app.width - 1 - cells(head)
	if v.text != "" && room > 10 {
		head += " · " + tail(v.text, room-3)
	}
	fmt.Fprint(v.app.stdout, v.app.dim(clip(head, v.app.width-1)))
	v.drawn = true
}

func (v *view) enter(s agent.Status) {
	if s != v.state {
		v.state, v.began = s, time.Now()
	}
}

func (v *view) event(e agent.Event) error {
	a := v.app
	decode := func(to any) error {
		if err := json.Unmarshal(e.Data, to); err != nil {
			return fmt.Errorf("event %s: %w", e.Kind, err)
		}
		return nil
	}
	switch e.Kind {
	case agent.EventAccepted:
		v.enter(agent.StatusQueued)
	case agent.EventState:
		var s agent.StateEvent
		if err := decode(&s); err != nil {
			return err
		}
		v.enter(s.Status)
		lasts := s.Status == agent.StatusBrowserOffline || s.Status == agent.StatusCooling || s.Status == agent.StatusQueued
		if lasts || s.Detail != "" {
			v.line(a.yellow("· "+a.statusWord(s.Status)) + detail(s.Detail))
		}
	case agent.EventDelta:
		var d agent.DeltaEvent
		if err := decode(&d); err != nil {
			return err
		}
		v.enter(agent.StatusThinking)
		v.step = d.Step
		if at := [2]int{d.Step, d.Attempt}; at != v.writes {
			v.writes, v.text = at, ""
		}
		v.text += d.Text
	case agent.EventThought:
		var t agent.ThoughtEvent
		if err := decode(&t); err != nil {
			return err
		}
		v.thought(t)
	case agent.EventInstructed:
		var i agent.InstructedEvent
		if err := decode(&i); err != nil {
			return err
		}
		v.line(a.yellow("· "+a.t("was_instructed", plain(i.By))) + " " + oneLine(plain(i.Text), 500))
	case agent.EventStep:
		var s agent.StepEvent
		if err := decode(&s); err != nil {
			return err
		}
		v.action(s)
	}
	v.tick()
	return nil
}

func (v *view) thought(t agent.ThoughtEvent) {
	a := v.app
	v.step, v.text = t.Step, ""
	v.tokens += t.Usage.TotalTokens
	v.enter(agent.StatusActing)
	head := a.bold(a.t("step", t.Step))
	var extra []string
	if t.Model != "" {
		extra = append(extra, t.Model)
	}
	if t.TookMS > 0 {
		extra = append(extra, short(time.Duration(t.TookMS)*time.Millisecond))
	}
	if t.Usage.TotalTokens > 0 {
		extra = append(extra, a.count("tokens", t.Usage.TotalTokens))
	}
	v.line(head + a.dim("  "+strings.Join(extra, " · ")))
	v.said = strings.TrimSpace(t.Text)
	if text := v.said; text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			v.line("  " + plain(line))
		}
	}
}

func (v *view) action(s agent.StepEvent) {
	a := v.app
	v.step = s.Step
	v.enter(agent.StatusThinking)
	mark := a.green("✓")
	switch s.Outcome {
	case agent.OutcomeDone:
	case agent.OutcomeSkipped, agent.OutcomeRefused:
		mark = a.yellow("–")
	case agent.OutcomeUnknown:
		mark = a.yellow("?")
	default:
		mark = a.red("✗")
	}
	text := fmt.Sprintf("%s %s %s", mark, a.dim(fmt.Sprintf("%2d", s.Step)), a.describe(s.Call))
	if s.Outcome != agent.OutcomeDone {
		text += " · " + a.outcomeWord(s.Outcome)
		if s.Code != "" {
			text += " " + s.Code
		}
	}
	if s.DurationMS > 0 {
		text += a.dim(" · " + short(time.Duration(s.DurationMS)*time.Millisecond))
	}
	if s.Page.Title != "" || s.Page.URL != "" {
		text += a.dim(" · " + oneLine(plain(s.Page.Title+" "+s.Page.URL), 60))
	}
	v.line(text)
}

// describe tells an action in a few words. What was typed is left out: it
// may be private, and others may look on.
func (a *app) describe(c agent.Call) string {
	var p struct {
		Selector string `json:"selector"`
		URL      string `json:"url"`
	}
	// Parameters that do not fit are described by the action alone.
	_ = json.Unmarshal(c.Params, &p)
	text := a.deed(c.Action)
	if p.URL != "" {
		text += " " + p.URL
	}
	if p.Selector != "" {
		text += " " + p.Selector
	}
	return oneLine(plain(text), 80)
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return " (" + plain(s) + ")"
}

// question shows what a person must decide.
func (v *view) question(q agent.Confirmation) {
	v.clear()
	v.enter(agent.StatusWaitingConfirm)
	v.app.printQuestion(v.app.stdout, q)
}

func (v *view) answered(ans agent.Answer) {
	v.enter(agent.StatusActing)
	switch {
	case ans.Approved:
		v.line(v.app.t("was_confirmed", plain(ans.By)) + detail(ans.Note))
	case ans.By == "" && ans.Note == activities.DecisionExpired:
		v.line(v.app.t("was_expired"))
	case ans.By == "" && ans.Note == activities.DecisionVoid:
		v.line(v.app.t("was_void"))
	default:
		v.line(v.app.t("was_rejected", plain(ans.By)) + detail(ans.Note))
	}
}

func (a *app) printQuestion(w io.Writer, q agent.Confirmation) {
	name := a.deed(q.Action)
	if q.Ask.Name != "" {
		name += " " + a.t("quoted", plain(q.Ask.Name))
	}
	if q.Ask.Role != "" {
		name += a.t("role", a.role(plain(q.Ask.Role)))
	}
	fmt.Fprintf(w, "%s %s\n", a.yellow(a.bold("? "+a.t("question"))), a.bold(name))
	row := func(key, value string) {
		if value != "" {
			fmt.Fprintf(w, "    %s %s\n", a.dim(a.t(key)), plain(value))
		}
	}
	row("ask_prompt", oneLine(q.Ask.Prompt.In(a.lang), 500))
	row("ask_context", oneLine(q.Ask.Context, 1000))
	row("ask_page", q.Ask.URL)
	if q.Ask.URL == "" {
		row("ask_page", q.Ask.Domain)
	}
	row("ask_params", oneLine(string(q.Params), 300))
	row("ask_rule", q.Ask.Rule)
	row("ask_until", a.moment(q.Until))
	row("ask_id", q.ID)
}

// plain makes text from a page or a model harmless for a terminal: control
// characters, and those that turn the direction of writing, are shown and not
// obeyed. What only joins characters or has no width is left out.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r >= '\u200b' && r <= '\u200d', r == '\u2060', r == '\ufeff', r == '\u00ad':
			return -1
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return '\ufffd'
		}
		return r
	}, s)
}

// cells is how many columns text takes in a terminal.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOf(r)
	}
	return n
}

func cellsOf(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// clip cuts text to so many columns.
func clip(s string, columns int) string {
	n := 0
	for i, r := range s {
		if n += cellsOf(r); n > columns {
			return s[:i]
		}
	}
	return s
}

// tail is the end of text, on one line, in so many columns.
func tail(s string, columns int) string {
	s = plain(strings.Join(strings.Fields(s[max(0, len(s)-4*columns):]), " "))
	n := 0
	for i := len(s); i > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if n += cellsOf(r); n > columns {
			return s[i:]
		}
		i -= size
	}
	return s
}

// oneLine shortens text to n characters on one line.
func oneLine(s string, n int) string {
	s = plain(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// short is a duration as people read it.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// moment is a time as people read it, in their zone.
func (a *app) moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

func (a *app) paint(code, s string) string {
	if !a.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *app) bold(s string) string   { return a.paint("1", s) }
func (a *app) dim(s string) string    { return a.paint("2", s) }
func (a *app) red(s string) string    { return a.paint("31", s) }
func (a *app) green(s string) string  { return a.paint("32", s) }
func (a *app) yellow(s string) string { return a.paint("33", s) }
