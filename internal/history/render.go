package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/locale"
	"sgclaw/internal/prompt"
	"sgclaw/internal/record"
)

// detail is how much of results is kept, in bytes.
type detail struct {
	view   int // of a view of a page; 0 leaves its address and title
	read   int // of a text that was asked for
	said   int // of what the model said beside its calls
	params int // of each parameter of a call
}

// What the model is shown, what is summed up, and what is summed up of too
// much.
var (
	shown = detail{view: 0, read: 1000, said: 4000, params: 200}
	whole = detail{view: 1500, read: 4000, said: 4000, params: 400}
	bare  = detail{view: 0, read: 0, said: 300, params: 60}
)

func words(lang string) prompt.PastWords { return prompt.WordsOfPast(lang) }

// render is a unit as turns: a run, or an entry with the answers to its
// calls. Every call is answered directly after its reply, and nothing else
// is.
func render(parts []record.Part, lang string, d detail) []record.ContextTurn {
	if p := parts[0]; p.Run != nil {
		return renderRun(p, lang, d)
	}
	var out []record.ContextTurn
	open := map[string]bool{}
	for _, p := range parts {
		e := p.Entry
		if e == nil {
			continue
		}
		data := dataOf(e)
		t := record.ContextTurn{Role: e.Role, Text: e.Text, At: e.At}
		if e.Label != "" && e.Role != "tool" {
			t.Text = "[" + e.Label + "]\n\n" + t.Text
		}
		switch e.Role {
		case "user":
		case "assistant":
			answered := func(id string) bool {
				return slices.ContainsFunc(parts[1:], func(q record.Part) bool {
					a := dataOf(q.Entry)
					return q.Entry.Role == "tool" && a.Call != nil && a.Call.ID == id
				})
			}
			for _, c := range data.Calls {
				switch _, known := action.Lookup(c.Action); {
				case known && answered(c.ID) && !open[c.ID]:
					open[c.ID] = true
					t.Calls = append(t.Calls, shortCall(c, d))
				default:
					t.Text = strings.TrimSpace(t.Text + "\n" + fmt.Sprintf(words(lang).Called, c.Action))
				}
			}
		case "tool":
			t.Text, t.Cut = short(e.Text, d.read)
			if data.Call != nil && open[data.Call.ID] {
				delete(open, data.Call.ID)
				t.CallID, t.Done, t.Code = data.Call.ID, outcomeOf(data), data.Code
				break
			}
			t.Role = "note"
		default:
			t.Role = "note"
			t.Text, t.Cut = short(t.Text, d.read)
		}
		if t.Text == "" && len(t.Calls) == 0 && t.Role != "tool" {
			continue
		}
		out = append(out, t)
	}
	return strayLast(out)
}

// strayLast moves what answers no call behind the answers.
func strayLast(turns []record.ContextTurn) []record.ContextTurn {
	slices.SortStableFunc(turns, func(a, b record.ContextTurn) int { return rank(a) - rank(b) })
	return turns
}

func rank(t record.ContextTurn) int {
	switch t.Role {
	case "tool":
		return 1
	case "note":
		return 2
	}
	return 0
}

func renderRun(p record.Part, lang string, d detail) []record.ContextTurn {
	answers := map[string]*record.Observation{}
	asked := map[string]bool{}
	for _, t := range p.Turns {
		if t.Observation != nil {
			answers[t.Observation.Call.ID] = t.Observation
		}
		if t.Thought != nil {
			for _, c := range t.Thought.Calls {
				asked[c.ID] = true
			}
		}
	}
	var out []record.ContextTurn
	reported := false
	for _, t := range p.Turns {
		switch {
		case t.Kind == record.TurnTask || t.Kind == record.TurnInstruction:
			out = append(out, record.ContextTurn{Role: "user", Text: t.Text, At: p.Run.CreatedAt})
		case t.Thought != nil:
			th := t.Thought
			if th.Text == "" && len(th.Calls) == 0 {
				continue // of no use then, and now
			}
			reported = th.Final && th.Text != ""
			r := record.ContextTurn{Role: "assistant", Text: th.Text}
			if !th.Final {
				r.Text, r.Cut = short(th.Text, d.said)
			}
			var results []record.ContextTurn
			for _, c := range th.Calls {
				r.Calls = append(r.Calls, shortCall(c, d))
				results = append(results, result(c, answers[c.ID], d))
			}
			out = append(append(out, r), results...)
		case t.Observation != nil && !asked[t.Observation.Call.ID]:
			o := t.Observation
			n := record.ContextTurn{Role: "note", Text: fmt.Sprintf(words(lang).Called, o.Call.Action) + "\n" + string(o.Outcome)}
			out = append(out, n)
		}
	}
	if n := ending(p.Run, reported, lang); n != "" {
		out = append(out, record.ContextTurn{Role: "note", Text: n, At: p.Run.EndedAt})
	}
	return out
}

// ending says how a run ended, unless its report did.
func ending(r *record.Run, reported bool, lang string) string {
	if r.Status == agent.StatusDone && (reported || r.Summary == "") {
		return ""
	}
	how := locale.Status(lang, r.Status)
	if r.Reason != "" {
		how = locale.Reason(lang, r.Reason)
	}
	text := fmt.Sprintf(words(lang).Ended, how)
	if r.Summary != "" && !reported && r.Summary != how {
		s, _ := short(r.Summary, 1000)
		text += "\n" + s
	}
	return text
}

// result is what came of a call; without a record of it, that is not known.
func result(c agent.Call, o *record.Observation, d detail) record.ContextTurn {
	t := record.ContextTurn{Role: "tool", CallID: c.ID, Done: agent.OutcomeUnknown}
	switch {
	case o != nil:
	case c.Fault != "":
		t.Done = agent.OutcomeFailed
		return t
	default:
		return t
	}
	t.Done, t.Code = o.Outcome, o.Code
	body, n := o.Text, d.read
	if prompt.IsView(o.Call.Action, o.Text) {
		n = d.view
	} else if len(o.Text) <= agent.MaxInline {
		n = max(n, agent.MaxInline)
	}
	body, t.Cut = short(body, n)
	var lines []string
	if o.Page.URL != "" && (t.Cut > 0 || body != "") {
		lines = append(lines, "url: "+oneLine(o.Page.URL))
	}
	if o.Page.Title != "" && t.Cut > 0 {
		lines = append(lines, "title: "+oneLine(o.Page.Title))
	}
	if body != "" {
		lines = append(lines, body)
	}
	t.Text = strings.Join(lines, "\n")
	return t
}

func oneLine(s string) string {
	s, _ = short(strings.Join(strings.Fields(s), " "), 300)
	return s
}

// short is the beginning of s in at most n bytes, and how many are missing.
func short(s string, n int) (string, int) {
	if len(s) <= n {
		return s, 0
	}
	head := strings.ToValidUTF8(s[:n], "")
	return head, len(s) - len(head)
}

// shortCall is a call with long parameters shortened.
func shortCall(c agent.Call, d detail) agent.Call {
	out := agent.Call{ID: c.ID, Action: c.Action, PageID: c.PageID, Params: c.Params}
	if len(c.Params) == 0 || len(c.Params) <= d.params && json.Valid(c.Params) {
		return out
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(c.Params, &params) != nil {
		out.Params = json.RawMessage("{}")
		return out
	}
	for name, value := range params {
		if len(value) <= d.params {
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			delete(params, name)
			continue
		}
		text, _ = short(text, d.params)
		value, err := json.Marshal(text + "…")
		if err != nil {
			delete(params, name)
			continue
		}
		params[name] = value
	}
	b, err := json.Marshal(params)
	if err != nil {
		b = []byte("{}")
	}
	out.Params = b
	return out
}
