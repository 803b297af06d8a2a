package activities

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/locale"
	"sgclaw/internal/pipe"
)

// observation puts a response into words for the model: first what became of
// the action, in one line, then what happened besides, where the page stands,
// and last whatever may be long. Everything but the labels comes from the
// page or the host and is data; who builds the prompt marks it as such.
func observation(call agent.Call, outcome agent.Outcome, resp pipe.Response) string {
	var b strings.Builder
	d := resp.Data
	if d == nil {
		d = &pipe.Data{}
	}
	content := call.Action == action.GetText || call.Action == action.StorageGet
	b.WriteString(verb(outcome) + ": " + call.Action)
	switch {
	case resp.Error != nil:
		fmt.Fprintf(&b, ": %s: %s", resp.Error.Code, oneLine(resp.Error.Message))
	case d.Text != "" && !content:
		b.WriteString(": " + oneLine(d.Text))
	}
	b.WriteByte('\n')
	if c := d.Confirm; c != nil {
		fmt.Fprintf(&b, "to confirm: %s %q", c.Role, c.Name)
		if c.Context != "" {
			fmt.Fprintf(&b, " in %q", c.Context)
		}
		b.WriteByte('\n')
	}
	if d.PageID != "" {
		fmt.Fprintf(&b, "page_id: %s\n", d.PageID)
	}
	if d.Found != nil && !*d.Found {
		b.WriteString("there is no such key\n")
	}
	if d.Value != "" {
		fmt.Fprintf(&b, "value is now: %q\n", d.Value)
	}
	if d.Matched > 1 {
		fmt.Fprintf(&b, "the selector matched %d elements, the first was used\n", d.Matched)
	}
	if len(d.Image) > 0 {
		fmt.Fprintf(&b, "picture: %dx%d %s", d.Width, d.Height, d.MIME)
		if d.Scale != 0 && d.Scale != 1 {
			fmt.Fprintf(&b, ", scaled by %.3g", d.Scale)
		}
		b.WriteByte('\n')
	}
	for _, e := range d.Events {
		fmt.Fprintf(&b, "event: %s: %s\n", e.Kind, oneLine(e.Text))
	}
	if p := d.Page; p != nil && p.URL != "" {
		b.WriteString("page: " + p.URL)
		if p.Title != "" {
			fmt.Fprintf(&b, " %q", p.Title)
		}
		b.WriteByte('\n')
	}
	if d.Truncated {
		b.WriteString("this is not all of it")
		if d.Rest != "" {
			b.WriteString(": " + oneLine(d.Rest))
		}
		b.WriteByte('\n')
	}
	if content && resp.Error == nil && (d.Found == nil || *d.Found) {
		b.WriteString("text:\n" + d.Text + "\n")
	}
	if d.HTML != "" {
		b.WriteString("html:\n" + d.HTML + "\n")
	}
	if d.Snapshot != "" {
		b.WriteString("snapshot:\n" + d.Snapshot + "\n")
	}
	if len(resp.AOMSnapshot) > 0 {
		if tree, err := json.Marshal(resp.AOMSnapshot); err == nil {
			b.WriteString("tree:\n" + string(tree) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// verb is how an outcome begins an observation.
func verb(o agent.Outcome) string {
	switch o {
	case agent.OutcomeNeedConfirm:
		return "a person must agree first"
	case agent.OutcomeRateLimited:
		return "too fast"
	case agent.OutcomeRefused:
		return "a person refused"
	}
	return string(o)
}

// describe tells people at the browser what is about to be done. Typed text
// is left out, it may be private.
func describe(call agent.Call, lang string) string {
	var p struct {
		Selector string `json:"selector"`
		Root     string `json:"root_selector"`
		URL      string `json:"url"`
		Key      string `json:"key"`
		Domain   string `json:"domain"`
		PageID   string `json:"page_id"`
	}
	what := ""
	// Parameters that cannot be read leave the action alone to tell.
	if json.Unmarshal(call.Params, &p) == nil {
		what = head(oneLine(cmp.Or(p.Selector, p.Root, p.URL, p.Key, p.Domain, p.PageID)), 160)
	}
	return locale.Doing(lang, call.Action, what)
}

// oneLine keeps a text from starting a line of its own, which could pass for
// one of ours.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// head returns the beginning of s, at most max bytes and whole characters.
func head(s string, max int) string {
	if len(s) <= max {
		return s
	}
	const more = "…"
	n := max - len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}
