// Package history chooses what a run is shown of its session's past: the
// newest of it word for word, up to a number of messages and of tokens, and
// the rest for a summary. It is pure: it reads no record, counts with what it
// is given and asks no model.
//
// What is chosen is whole: a run of the past with all that was said and done
// in it, or an entry together with the answers to its calls. Only the newest,
// if it is too long by itself, is shortened from its beginning, and says so.
// A call is never parted from its answer.
//
// Views of pages are out of date, so of an earlier run's views only the
// address and the title stay; other results are shortened.
package history

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

// Limits bound what is shown (seed 001 §7.1, memory.short_term_max_messages
// and short_term_max_tokens).
type Limits struct {
	Messages int
	Tokens   int // of the messages and the summary together
}

// Options say how to choose.
type Options struct {
	Limits Limits
	// Locale is the language of our own words, "zh" or "en".
	Locale string
	// Size measures a context in tokens, as the model is shown it
	// (prompt.Size). The size of several turns is the sum of theirs.
	Size func(record.Context) int
	// Reserve is kept free for a summary that is yet to be written, in
	// tokens.
	Reserve int
	// Tight keeps the newest and then only up to half of the limits, so that
	// the next runs find room and need no new summary.
	Tight bool
}

// Choice is what was chosen. Every part of the past is either in Context or
// in Older.
type Choice struct {
	Context record.Context
	Older   []record.Part // oldest first
	Tokens  int           // of Context
	// Shortened: the newest part did not fit as a whole.
	Shortened bool
}

// Choose chooses from the past.
func Choose(past record.Past, o Options) Choice {
	var c Choice
	room := o.Limits
	if past.Summary != nil && past.Summary.Text != "" {
		c.Context.Summary = o.cutSummary(past.Summary.Text, room.Tokens/4)
		c.Tokens = o.Size(record.Context{Summary: c.Context.Summary})
	}
	room.Tokens -= max(c.Tokens, o.Reserve)
	var kept [][]record.ContextTurn // newest first
	first := len(past.Parts)        // the first part that is kept
	full, count := room, 0
	for first > 0 {
		start := unit(past.Parts, first)
		turns := render(past.Parts[start:first], o.Locale, shown)
		size := o.Size(record.Context{Turns: turns})
		if len(turns) > room.Messages || size > room.Tokens {
			if count > 0 {
				break
			}
			if turns = o.shorten(turns, room); len(turns) == 0 {
				break
			}
			size = o.Size(record.Context{Turns: turns})
			c.Shortened = true
		}
		first = start
		kept = append(kept, turns)
		count += len(turns)
		c.Tokens += size
		room.Messages -= len(turns)
		room.Tokens -= size
		if c.Shortened {
			break
		}
		if o.Tight && count > 0 && len(kept) == 1 {
			room.Messages -= full.Messages - full.Messages/2
			room.Tokens -= full.Tokens - full.Tokens/2
		}
	}
	slices.Reverse(kept)
	c.Context.Turns = slices.Concat(kept...)
	number(c.Context.Turns)
	c.Older = past.Parts[:first]
	return c
}

// unit returns where the unit begins whose last part is parts[end-1].
func unit(parts []record.Part, end int) int {
	i := end - 1
	for i > 0 && isAnswer(parts[i]) {
		i--
	}
	if i < end-1 && !hasCalls(parts[i]) {
		return end - 1 // answers to nothing stand by themselves
	}
	return i
}

func isAnswer(p record.Part) bool { return p.Entry != nil && p.Entry.Role == "tool" }

func hasCalls(p record.Part) bool {
	return p.Entry != nil && p.Entry.Role == "assistant" && len(dataOf(p.Entry).Calls) > 0
}

// number gives the calls ids that are unique in the context: ids of imported
// entries may be anything.
func number(turns []record.ContextTurn) {
	n := 0
	ids := map[string]string{} // of the newest reply's calls
	for i := range turns {
		t := &turns[i]
		switch t.Role {
		case "assistant":
			clear(ids)
			for j := range t.Calls {
				n++
				id := fmt.Sprintf("past%04d", n)
				ids[t.Calls[j].ID] = id
				t.Calls[j].ID = id
			}
		case "tool":
			t.CallID = ids[t.CallID]
		}
	}
}

// cutSummary shortens a summary that takes more than its share.
func (o Options) cutSummary(text string, limit int) string {
	return longest(text, func(s string) bool { return o.Size(record.Context{Summary: s}) <= limit })
}

// shorten takes from a unit's beginning what does not fit into the room,
// between the task and the newest turns. It returns none if not even a part
// of the newest fits.
func (o Options) shorten(turns []record.ContextTurn, room Limits) []record.ContextTurn {
	groups := grouped(turns)
	var head []record.ContextTurn
	left := room
	if len(groups) > 1 && turns[0].Role == "user" && room.Messages >= 3 {
		// The task explains everything after it.
		if t, ok := o.cutTurn(turns[0], room.Tokens/4); ok {
			head = append(head, t)
			groups = groups[1:]
			left.Messages--
			left.Tokens -= o.Size(record.Context{Turns: head})
		}
	}
	note := record.ContextTurn{Role: "note", Text: fmt.Sprintf(words(o.Locale).LeftOut, len(turns))}
	noted := left
	noted.Messages--
	noted.Tokens -= o.Size(record.Context{Turns: []record.ContextTurn{note}})
	var tail []record.ContextTurn
	for i := len(groups) - 1; i >= 0; i-- {
		size := o.Size(record.Context{Turns: groups[i]})
		if len(groups[i]) > noted.Messages || size > noted.Tokens {
			break
		}
		noted.Messages -= len(groups[i])
		noted.Tokens -= size
		tail = slices.Concat(groups[i], tail)
	}
	if len(tail) == 0 {
		// Of the newest reply its words at least.
		last := groups[len(groups)-1][0]
		last.Calls = nil
		t, ok := record.ContextTurn{}, false
		if noted.Messages > 0 {
			t, ok = o.cutTurn(last, noted.Tokens)
		}
		if !ok {
			if left.Messages < 1 {
				return nil
			}
			// No room to say so apart.
			if n := len(turns) - len(head) - 1; n > 0 {
				last.Text = fmt.Sprintf(words(o.Locale).LeftOut, n) + "\n" + last.Text
			}
			if t, ok = o.cutTurn(last, left.Tokens); !ok {
				return nil
			}
			return append(head, t)
		}
		tail = append(tail, t)
	}
	note.Text = fmt.Sprintf(words(o.Locale).LeftOut, len(turns)-len(head)-len(tail))
	return slices.Concat(head, []record.ContextTurn{note}, tail)
}

// cutTurn shortens the text of a turn without calls until it has at most so
// many tokens.
func (o Options) cutTurn(t record.ContextTurn, limit int) (record.ContextTurn, bool) {
	with := func(s string) record.ContextTurn {
		c := t
		c.Cut += len(t.Text) - len(s)
		c.Text = s
		return c
	}
	text := longest(t.Text, func(s string) bool {
		return o.Size(record.Context{Turns: []record.ContextTurn{with(s)}}) <= limit
	})
	c := with(text)
	return c, (text != "" || t.Text == "") && o.Size(record.Context{Turns: []record.ContextTurn{c}}) <= limit
}

// longest is the longest beginning of s that fits, found by halving.
func longest(s string, fits func(string) bool) string {
	if fits(s) {
		return s
	}
	lo, hi := 0, len(s)
	for hi-lo > 8 {
		mid := (lo + hi) / 2
		for mid > lo && !utf8.RuneStart(s[mid]) {
			mid--
		}
		if mid == lo {
			break
		}
		if fits(s[:mid]) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return s[:lo]
}

// grouped parts turns into replies with their answers, and everything else
// by itself.
func grouped(turns []record.ContextTurn) [][]record.ContextTurn {
	var groups [][]record.ContextTurn
	for i, t := range turns {
		if t.Role == "tool" && len(groups) > 0 {
			last := &groups[len(groups)-1]
			*last = turns[i-len(*last) : i+1]
			continue
		}
		groups = append(groups, turns[i:i+1])
	}
	return groups
}

// Text is parts of the past as one text, for a summary of them. It has at
// most limit bytes: if need be, results are shortened, then the beginnings of
// the oldest parts are left out.
func Text(parts []record.Part, locale string, limit int) string {
	for _, d := range []detail{whole, shown, bare} {
		if text := text(parts, locale, d); len(text) <= limit || d == bare {
			return tail(text, limit)
		}
	}
	return ""
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return "…" + s
}

func text(parts []record.Part, locale string, d detail) string {
	var b strings.Builder
	for end := 0; end < len(parts); {
		start := end
		end++
		for hasCalls(parts[start]) && end < len(parts) && isAnswer(parts[end]) {
			end++
		}
		for i, t := range render(parts[start:end], locale, d) {
			if i == 0 && !t.At.IsZero() {
				fmt.Fprintf(&b, "\n[%s]\n", t.At.UTC().Format("2006-01-02 15:04Z"))
			}
			said := t.Text
			if t.Cut > 0 {
				said = strings.TrimSpace(said + " …")
			}
			switch {
			case t.Role == "tool" && said != "":
				fmt.Fprintf(&b, "result: %s: %s\n", t.Done, said)
			case t.Role == "tool":
				fmt.Fprintf(&b, "result: %s\n", t.Done)
			case said != "":
				fmt.Fprintf(&b, "%s: %s\n", t.Role, said)
			}
			for _, c := range t.Calls {
				fmt.Fprintf(&b, "call: %s %s\n", c.Action, c.Params)
			}
		}
	}
	return strings.TrimSpace(b.String())
}

// dataOf reads what an entry has besides its text; nothing if it is not ours.
func dataOf(e *record.Entry) record.EntryData {
	d, err := e.Detail()
	if err != nil {
		return record.EntryData{}
	}
	return d
}

// outcomeOf is an answer's outcome; an imported one may have none.
func outcomeOf(d record.EntryData) agent.Outcome {
	if d.Outcome == "" {
		return agent.OutcomeDone
	}
	return d.Outcome
}
