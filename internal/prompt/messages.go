package prompt

import (
	"fmt"
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
)

// limits are what a level keeps.
type limits struct {
	views     int // newest views of pages kept
	viewBytes int // of each
	reads     int // newest texts that were asked for kept
	readBytes int // of each
	restBytes int // of older texts that were asked for
	thought   int // bytes of each reply's text
	groups    int // newest replies kept with their answers; older ones become a line each
	past      pastLevel
	said      int // bytes of each thing that was said in the past
	summary   int // bytes of the summary
	aside     int // bytes of each thing that others said
}

// pastLevel is how much of the session's past is kept.
type pastLevel int

const (
	pastAll      pastLevel = iota
	pastOutcomes           // no results of tools but how they ended
	pastTalk               // what was said, and no tools
	pastNone               // the summary only
)

func limitsOf(level int) limits {
	switch {
	case level <= 0:
		return limits{views: 2, viewBytes: 64 << 10, reads: 4, readBytes: 64 << 10, restBytes: 1000, thought: 16 << 10, groups: 1000,
			past: pastAll, said: agent.MaxInstruction, summary: 32 << 10, aside: 2000}
	case level == 1:
		return limits{views: 1, viewBytes: 32 << 10, reads: 2, readBytes: 16 << 10, restBytes: 300, thought: 2000, groups: 1000,
			past: pastOutcomes, said: 8 << 10, summary: 16 << 10, aside: 1000}
	case level == 2:
		return limits{views: 1, viewBytes: 12 << 10, reads: 1, readBytes: 6000, restBytes: 100, thought: 400, groups: 40,
			past: pastTalk, said: 1000, summary: 4000, aside: 300}
	}
	return limits{views: 1, viewBytes: 5000, reads: 1, readBytes: 2000, restBytes: 0, thought: 200, groups: 6,
		past: pastNone, summary: 2000, aside: 100}
}

// builder writes the messages of a conversation.
type builder struct {
	in     Input
	w      *words
	lim    limits
	answer map[string]*Turn // by call id
	keep   map[*Turn]int    // bytes of an observation's text; absent: nothing of it
	image  *Turn            // the one observation whose picture is shown
	out    []llm.Message
	ids    map[string]bool // tool call ids in use
	folded []string
}

func messages(in Input) []llm.Message {
	b := &builder{in: in, w: wordsIn(in.Locale), lim: limitsOf(in.Compact), answer: map[string]*Turn{}, keep: map[*Turn]int{}, ids: map[string]bool{}}
	groups := 0
	asked := map[string]bool{}
	for i := range in.Turns {
		switch t := &in.Turns[i]; t.Kind {
		case Thought:
			groups++
			for _, c := range t.Calls {
				asked[c.ID] = true
			}
		case Observation:
			b.answer[t.Call.ID] = t
		}
	}
	b.choose()
	b.before()
	told := len(b.out) > 0 // the task does not come first
	fold := groups - b.lim.groups
	for i := range in.Turns {
		t := &in.Turns[i]
		switch t.Kind {
		case Task:
			if told {
				b.user(b.w.present + t.Text)
				told = false
				continue
			}
			b.user(t.Text)
		case Instruction:
			b.unfold()
			b.user(b.w.instruction + t.Text)
		case Thought:
			if fold > 0 {
				fold--
				b.fold(t)
				continue
			}
			b.unfold()
			b.thought(t)
		case Observation:
			// An observation without its reply is shown all the same.
			if !asked[t.Call.ID] {
				b.unfold()
				b.user(b.w.orphan + t.Call.Action + "\n" + b.observation(t))
			}
		}
	}
	b.unfold()
	return b.out
}

// isView tells whether an observation shows a page as it stands, and so is
// out of date with the next one, and not a text that was asked for.
func isView(t *Turn) bool { return IsView(t.Call.Action, t.Text) }

// choose decides how much of each observation is kept, newest first.
func (b *builder) choose() {
	views, reads := 0, 0
	for i := len(b.in.Turns) - 1; i >= 0; i-- {
		t := &b.in.Turns[i]
		if t.Kind != Observation {
			continue
		}
		if t.Image != nil && b.image == nil && b.in.Vision {
			b.image = t
		}
		switch {
		case len(t.Text) <= agent.MaxInline:
			b.keep[t] = agent.MaxInline
		case isView(t):
			if views < b.lim.views {
				b.keep[t] = b.lim.viewBytes
			}
			views++
		default:
			b.keep[t] = b.lim.restBytes
			if reads < b.lim.reads {
				b.keep[t] = b.lim.readBytes
			}
			reads++
		}
	}
}

// user adds text of the user's side. Neighbours are joined: not every
// service takes two of them.
func (b *builder) user(text string) {
	if n := len(b.out); n > 0 && b.out[n-1].Role == llm.RoleUser {
		b.out[n-1].Text += "\n\n" + text
		return
	}
	b.out = append(b.out, llm.Message{Role: llm.RoleUser, Text: text})
}

func (b *builder) thought(t *Turn) {
	text := cut(t.Text, b.lim.thought, b.w)
	if text == "" && len(t.Calls) == 0 {
		text = b.w.empty
	}
	msg := llm.Message{Role: llm.RoleAssistant, Text: text}
	var answers []llm.Message
	for i, c := range t.Calls {
		id := b.callID(t, i)
		msg.Calls = append(msg.Calls, llm.ToolCall{ID: id, Name: action.ToolName, Arguments: arguments(c)})
		a := llm.Message{Role: llm.RoleTool, CallID: id}
		switch o := b.answer[c.ID]; {
		case o != nil:
			a.Text = b.observation(o)
			if o == b.image {
				a.Images = []llm.Image{*o.Image}
			}
		case c.Fault != "":
			a.Text = b.fault(c)
		default:
			a.Text = "outcome: " + string(agent.OutcomeUnknown) + "\n" + b.w.noRecord
		}
		answers = append(answers, a)
	}
	b.out = append(b.out, msg)
	b.out = append(b.out, answers...)
	if t.Nudge != "" {
		b.user(t.Nudge)
	}
}

// callID is the id of a call on the wire: the model's own if it is of use,
// for services that are particular about them, else ours.
func (b *builder) callID(t *Turn, i int) string {
	id := t.Calls[i].ID
	if i < len(t.ProviderIDs) {
		if p := t.ProviderIDs[i]; p != "" && len(p) <= 64 && !b.ids[p] {
			id = p
		}
	}
	b.ids[id] = true
	return id
}

func (b *builder) fault(c agent.Call) string {
	return "outcome: " + string(agent.OutcomeFailed) + " (CMD_INVALID_PARAMS)\n" + b.w.notDone + "\n" + b.wrap(c.Fault)
}

// wrap puts untrusted text into a block.
func (b *builder) wrap(text string) string {
	return Wrap(text, b.in.Marker)
}

// Wrap defuses untrusted text and puts it into a block of the given marker.
func Wrap(text, id string) string {
	return "<<<page " + id + "\n" + strings.Trim(Defuse(text, id), "\n") + "\npage " + id + ">>>"
}

// observation is what the model is told of what came of a call: the outcome
// in our words, then where the page stands and what it says, as untrusted
// text.
func (b *builder) observation(t *Turn) string {
	head := "outcome: " + string(t.Outcome)
	if t.Code != "" {
		head += " (" + t.Code + ")"
	}
	lines := []string{head}
	if hint := b.w.hint(t.Outcome, t.Code); hint != "" {
		lines = append(lines, hint)
	}
	if t.Note != "" {
		lines = append(lines, b.w.note+t.Note)
	}
	var body []string
	if t.Page.ID != "" {
		body = append(body, "page_id: "+t.Page.ID)
	}
	if t.Page.URL != "" {
		body = append(body, "url: "+oneLine(t.Page.URL))
	}
	if t.Page.Title != "" {
		body = append(body, "title: "+oneLine(t.Page.Title))
	}
	left := len(t.Text) - b.keep[t]
	if n := b.keep[t]; n > 0 {
		body = append(body, strings.ToValidUTF8(t.Text[:min(n, len(t.Text))], ""))
	}
	if len(body) > 0 {
		lines = append(lines, b.wrap(strings.Join(body, "\n")))
	}
	switch {
	case left > 0 && isView(t) && b.keep[t] == 0:
		lines = append(lines, fmt.Sprintf(b.w.oldView, left))
	case left > 0:
		lines = append(lines, fmt.Sprintf(b.w.cut, left))
	}
	switch {
	case t.Image == nil || t == b.image:
	case b.in.Vision:
		lines = append(lines, b.w.oldImage)
	default:
		lines = append(lines, b.w.noVision)
	}
	return strings.Join(lines, "\n")
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}

// fold turns a reply and its answers into a line each.
func (b *builder) fold(t *Turn) {
	if text := oneLine(cut(t.Text, b.lim.thought, b.w)); text != "" {
		b.folded = append(b.folded, fmt.Sprintf("%d: %s", t.Step, text))
	}
	for _, c := range t.Calls {
		line := fmt.Sprintf("%d: %s %s", t.Step, c.Action, c.Params)
		if len(line) > 200 {
			line = strings.ToValidUTF8(line[:200], "") + "…"
		}
		switch o := b.answer[c.ID]; {
		case o != nil && o.Code != "":
			line += " -> " + string(o.Outcome) + " (" + o.Code + ")"
		case o != nil:
			line += " -> " + string(o.Outcome)
		case c.Fault != "":
			line += " -> " + string(agent.OutcomeFailed)
		default:
			line += " -> " + string(agent.OutcomeUnknown)
		}
		b.folded = append(b.folded, line)
	}
}

// unfold adds what was folded so far. A call's parameters may repeat what a
// page said, so it is untrusted too.
func (b *builder) unfold() {
	if len(b.folded) == 0 {
		return
	}
	b.user(b.w.folded + "\n" + b.wrap(strings.Join(b.folded, "\n")))
	b.folded = nil
}
