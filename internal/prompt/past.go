package prompt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
	"sgclaw/internal/record"
)

// Runtime is what a run may be told of its surroundings. It stays the same
// for the whole run. All of it but the time comes from clients, and stands in
// a block as pages do.
type Runtime struct {
	Time    time.Time // when the run began
	Browser string
	Channel string
	User    string
	Session string
}

// Offered are those of the permitted actions that a run with these options is
// offered: under agent.StrategyCustom, what they leave, else all.
func Offered(permitted []string, o agent.ContextOptions) []string {
	if o.Strategy != agent.StrategyCustom {
		return permitted
	}
	return slices.DeleteFunc(slices.Clone(permitted), func(name string) bool {
		return len(o.IncludeTools) > 0 && !slices.Contains(o.IncludeTools, name) || slices.Contains(o.ExcludeTools, name)
	})
}

// WantsPast says whether a run is shown what was said before it.
func WantsPast(o agent.ContextOptions) bool {
	switch o.Strategy {
	case agent.StrategyLite:
		return false
	case agent.StrategyCustom:
		return o.IncludeHistory
	case agent.StrategyFull:
	}
	return true
}

// choose takes out of the input what its context options leave out.
func (in *Input) choose() {
	if !WantsPast(in.Context) {
		in.Past, in.Aside = record.Context{}, nil
	}
	switch in.Context.Strategy {
	case agent.StrategyLite:
		in.Runtime = Runtime{Time: in.Runtime.Time, Session: in.Runtime.Session}
	case agent.StrategyCustom:
		if !in.Context.IncludeRuntime {
			in.Runtime = Runtime{}
		}
	default:
		// A task that stands alone is shown alone: it reads the same whatever
		// it came by.
		if in.Past.Summary == "" && len(in.Past.Turns) == 0 && len(in.Aside) == 0 {
			in.Runtime = Runtime{}
		}
	}
}

// before writes what stands before the run's own conversation. It says where
// that begins if there is anything.
func (b *builder) before() {
	b.past(b.in.Past)
	if r := b.in.Runtime.lines(); r != "" {
		b.user(b.w.runtime + "\n" + b.wrap(r))
	}
	if len(b.in.Aside) > 0 {
		b.user(b.w.aside + "\n" + b.wrap(b.aside()))
	}
}

func (r Runtime) lines() string {
	var lines []string
	add := func(name, value string) {
		if value = oneLine(value); value != "" {
			lines = append(lines, name+": "+value)
		}
	}
	if !r.Time.IsZero() {
		add("time", r.Time.UTC().Format("2006-01-02T15:04:05Z, Monday"))
	}
	add("browser", r.Browser)
	add("channel", r.Channel)
	add("user", r.User)
	add("session", r.Session)
	return strings.Join(lines, "\n")
}

// aside is what others said, a line each; lines after the first are set in,
// so that nobody can write a line of somebody else's.
func (b *builder) aside() string {
	said := b.in.Aside[max(0, len(b.in.Aside)-agent.MaxAside):]
	var lines []string
	for _, a := range said {
		head := "- " + clipBytes(oneLine(a.Sender), 100)
		if !a.At.IsZero() {
			head += " (" + a.At.UTC().Format("2006-01-02 15:04Z") + ")"
		}
		text := cut(strings.TrimSpace(visible(a.Text)), b.lim.aside, b.w)
		lines = append(lines, head+": "+strings.ReplaceAll(text, "\n", "\n  "))
	}
	return strings.Join(lines, "\n")
}

// past writes what was said in the session before, as the conversation that
// it was.
func (b *builder) past(c record.Context) {
	summary := cut(c.Summary, b.lim.summary, b.w)
	turns := c.Turns
	if b.lim.past == pastNone {
		turns = nil
	}
	if summary == "" && len(turns) == 0 {
		return
	}
	b.user(b.w.past)
	if summary != "" {
		b.user(b.w.summary + "\n" + b.wrap(summary))
	}
	for i := 0; i < len(turns); {
		i += b.pastTurn(turns[i:])
	}
}

// pastTurn writes the first of the turns, with the answers to its calls, and
// returns how many that were.
func (b *builder) pastTurn(turns []record.ContextTurn) int {
	t := turns[0]
	switch t.Role {
	case "user":
		b.user(b.shortened(t, b.lim.said))
		return 1
	case "assistant":
	default:
		if b.lim.past != pastTalk {
			b.user(b.pastNote(t))
		}
		return 1
	}
	n := 1
	for n < len(turns) && turns[n].Role == "tool" {
		n++
	}
	answers := turns[1:n]
	msg := llm.Message{Role: llm.RoleAssistant, Text: b.shortened(t, b.lim.thought)}
	if b.lim.past == pastTalk {
		switch last := len(b.out) - 1; {
		case msg.Text == "":
		case b.out[last].Role == llm.RoleAssistant:
			b.out[last].Text += "\n\n" + msg.Text
		default:
			b.out = append(b.out, msg)
		}
		return n
	}
	var results, strays []llm.Message
	used := map[string]bool{}
	for _, c := range t.Calls {
		id := c.ID
		for b.ids[id] {
			id += "x"
		}
		b.ids[id] = true
		used[c.ID] = true
		msg.Calls = append(msg.Calls, llm.ToolCall{ID: id, Name: action.ToolName, Arguments: arguments(c)})
		a := llm.Message{Role: llm.RoleTool, CallID: id, Text: "outcome: " + string(agent.OutcomeUnknown) + "\n" + b.w.noRecord}
		if i := slices.IndexFunc(answers, func(t record.ContextTurn) bool { return t.CallID == c.ID }); i >= 0 {
			a.Text = b.pastResult(answers[i])
		}
		results = append(results, a)
	}
	for _, a := range answers {
		if !used[a.CallID] {
			strays = append(strays, llm.Message{Text: b.pastNote(a)})
		}
	}
	if msg.Text == "" && len(msg.Calls) == 0 {
		msg.Text = b.w.empty
	}
	b.out = append(append(b.out, msg), results...)
	for _, s := range strays {
		b.user(s.Text)
	}
	return n
}

func (b *builder) pastResult(t record.ContextTurn) string {
	head := "outcome: " + string(t.Done)
	if t.Code != "" {
		head += " (" + oneLine(t.Code) + ")"
	}
	lines := []string{head}
	left := t.Cut
	text := t.Text
	if b.lim.past == pastOutcomes {
		left, text = left+len(text), ""
	}
	if text != "" {
		lines = append(lines, b.wrap(text))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf(b.w.pastCut, left))
	}
	return strings.Join(lines, "\n")
}

func (b *builder) pastNote(t record.ContextTurn) string {
	text := b.w.pastNote + "\n" + b.wrap(t.Text)
	if t.Cut > 0 {
		text += "\n" + fmt.Sprintf(b.w.cut, t.Cut)
	}
	return text
}

// shortened is the text of a turn in at most n bytes.
func (b *builder) shortened(t record.ContextTurn, n int) string {
	if t.Cut == 0 {
		return cut(t.Text, n, b.w)
	}
	head := clipBytes(t.Text, n)
	return head + "\n" + fmt.Sprintf(b.w.cut, t.Cut+len(t.Text)-len(head))
}

func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Size returns what measures a context, as a run with this marker is shown
// it, in the tokens that count counts. Contexts measure as much together as
// they do apart, but for what introduces them.
func Size(count func(text string) int, marker, locale string) func(record.Context) int {
	if locale != "en" {
		locale = "zh"
	}
	return func(c record.Context) int {
		b := &builder{in: Input{Marker: marker}, w: wordsIn(locale), lim: limitsOf(0), ids: map[string]bool{}}
		n := 0
		if c.Summary != "" {
			n += perMessage + count(b.w.summary+"\n"+b.wrap(c.Summary))
		}
		for _, t := range c.Turns {
			var text string
			switch t.Role {
			case "user":
				text = b.shortened(t, b.lim.said)
			case "assistant":
				if text = b.shortened(t, b.lim.thought); text == "" && len(t.Calls) == 0 {
					text = b.w.empty
				}
			case "tool":
				text = b.pastResult(t)
			default:
				text = b.pastNote(t)
			}
			n += perMessage + count(text)
			for _, c := range t.Calls {
				n += perCall + count(arguments(c))
			}
		}
		return n
	}
}

// What services add to a message and to a call, in tokens: role, separators,
// names and ids.
const (
	perMessage = 6
	perCall    = 14
)

// PastWords are our own words in a context that is put together elsewhere.
type PastWords struct {
	LeftOut string // with how many messages of a task are left out
	Ended   string // with how a task ended
	Called  string // with a tool that there is none of any more
}

// WordsOfPast returns them in a language.
func WordsOfPast(locale string) PastWords {
	w := wordsIn(locale)
	return PastWords{LeftOut: w.pastLeftOut, Ended: w.pastEnded, Called: w.pastCalled}
}

// IsView tells whether what came of an action shows a page as it stood then,
// and so is out of date later.
func IsView(name, text string) bool {
	switch name {
	case action.GetText, action.GetHTML, action.StorageGet:
		return false
	}
	return len(text) > agent.MaxInline
}
