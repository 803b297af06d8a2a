package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sgclaw/internal/agent"
)

// maxFaults is how many faults are listed.
const maxFaults = 20

// Read reads a transcript and checks all of it. What is wrong with it is a
// *FaultsError; other errors are those of r.
//
// Lines of other branches than the one that the last line continues are
// skipped, as are line types, roles and pieces of content that we have no
// place for.
func Read(r io.Reader) (Session, error) {
	p := &parser{
		s:    Session{Skipped: map[string]int{}},
		seen: map[string]int{}, parent: map[string]string{},
	}
	limited := &io.LimitedReader{R: r, N: MaxFile + 1}
	scan := bufio.NewScanner(limited)
	scan.Buffer(make([]byte, 0, 64<<10), MaxLine+1)
	for scan.Scan() {
		p.number++
		if p.number > MaxLines {
			p.fault("more than %d lines", MaxLines)
			return Session{}, p.err()
		}
		p.line(scan.Bytes())
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		p.number++
		p.fault("longer than %d bytes", MaxLine)
	case err != nil:
		return Session{}, err
	case limited.N <= 0:
		p.fault("the file has more than %d bytes", MaxFile)
	case p.number == 0:
		p.number = 1
		p.fault("the file is empty")
	}
	if err := p.err(); err != nil {
		return Session{}, err
	}
	p.branch()
	return p.s, nil
}

type parser struct {
	s      Session
	number int // of the line
	faults []Fault
	more   int
	seen   map[string]int    // line of an id
	parent map[string]string // of an id; absent at a root
	last   string            // id of the last line that has one
}

func (p *parser) fault(format string, args ...any) {
	if len(p.faults) == maxFaults {
		p.more++
		return
	}
	p.faults = append(p.faults, Fault{p.number, fmt.Sprintf(format, args...)})
}

func (p *parser) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	return &FaultsError{p.faults, p.more}
}

func (p *parser) line(b []byte) {
	b = bytes.TrimSuffix(b, []byte("\r"))
	switch {
	case len(b) > MaxLine:
		p.fault("longer than %d bytes", MaxLine)
		return
	case !utf8.Valid(b):
		p.fault("not UTF-8")
		return
	case len(bytes.TrimSpace(b)) == 0:
		p.fault("empty")
		return
	}
	if p.number == 1 {
		p.session(b)
		return
	}
	var h head
	if !p.decode(b, &h) || !p.place(h) {
		return
	}
	switch h.Type {
	case "":
		p.fault("no type")
	case "session":
		p.fault("a second session")
	case "message":
		p.message(b)
	case "custom_message", "custom", KindSummary, KindBranch, KindReset:
		p.note(b)
	default:
		p.skip(h.Type)
	}
}

// skip counts a line that we have no place for.
func (p *parser) skip(what string) {
	if len(what) > 60 {
		what = what[:60]
	}
	if what = strings.ToValidUTF8(what, ""); len(p.s.Skipped) < 50 || p.s.Skipped[what] > 0 {
		p.s.Skipped[what]++
	}
}

// decode reads a line as v.
func (p *parser) decode(b []byte, v any) bool {
	err := json.Unmarshal(b, v)
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case err == nil:
		return true
	case errors.As(err, &syntax):
		p.fault("not JSON at byte %d: %v", syntax.Offset, syntax)
	case errors.As(err, &typ) && typ.Field != "":
		p.fault("%s is a %s", typ.Field, typ.Value)
	case errors.As(err, &typ):
		p.fault("a %s where an object must be", typ.Value)
	default:
		p.fault("%v", err)
	}
	return false
}

// place notes where a line stands in the tree.
func (p *parser) place(h head) bool {
	if h.ID == "" {
		return true // only messages and notes need one
	}
	switch err := checkID(h.ID); {
	case err != nil:
		p.fault("id: %v", err)
		return false
	case p.seen[h.ID] > 0:
		p.fault("id %.60q is that of line %d", h.ID, p.seen[h.ID])
		return false
	}
	switch {
	case h.ParentID == nil || *h.ParentID == "":
		// It goes on from the line before it.
		if p.last != "" {
			p.parent[h.ID] = p.last
		}
	case p.seen[*h.ParentID] == 0:
		p.fault("parentId %.60q is no line before this one", *h.ParentID)
		return false
	default:
		p.parent[h.ID] = *h.ParentID
	}
	p.seen[h.ID] = p.number
	p.last = h.ID
	return true
}

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("is missing")
	case len(id) > maxID:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(id), maxID)
	case strings.ContainsFunc(id, unicode.IsControl):
		return errors.New("has control characters")
	}
	return nil
}

func (p *parser) session(b []byte) {
	var l sessionLine
	if !p.decode(b, &l) {
		return
	}
	switch {
	case l.Type != "session":
		p.fault("the first line is of type %.40q and must be of type \"session\"", l.Type)
	case l.Version < 0 || l.Version > Version:
		p.fault("version %d, at most %d can be read", l.Version, Version)
	}
	p.s.Key, p.s.At = l.ID, l.Timestamp.Time
	if l.Sgclaw != nil {
		p.s.Agent, p.s.Label = l.Sgclaw.Agent, l.Sgclaw.Label
		if len(p.s.Label) > maxLabel {
			p.fault("label of %d bytes, at most %d are allowed", len(p.s.Label), maxLabel)
		}
	}
}

func (p *parser) message(b []byte) {
	var l messageLine
	if !p.decode(b, &l) {
		return
	}
	m := l.Message
	i := Item{ID: l.ID, Role: m.Role, Text: m.Content.Text, At: l.Timestamp.Time}
	i.Model = m.Model
	if i.At.IsZero() && m.Timestamp != nil {
		i.At = p.millis(*m.Timestamp)
	}
	if u := m.Usage; u != nil {
		i.Usage = agent.Usage{PromptTokens: max(0, u.Input), CompletionTokens: max(0, u.Output), TotalTokens: max(0, u.TotalTokens)}
	}
	if m.OpenClaw != nil {
		i.RunID = m.OpenClaw.RunID
	}
	p.extra(&i, l.Sgclaw)
	switch m.Role {
	case "user":
	case "assistant":
		i.Calls = m.Content.Calls
	case "toolResult":
		i.Role = "tool"
		if m.ToolCallID == "" || len(m.ToolCallID) > maxID {
			p.fault("toolCallId is missing or longer than %d bytes", maxID)
			return
		}
		if i.Call == nil || i.Call.ID != m.ToolCallID {
			i.Call = &agent.Call{ID: m.ToolCallID, Action: m.ToolName, Params: json.RawMessage("{}")}
		}
		if i.Outcome == "" {
			i.Outcome = agent.OutcomeDone
			if m.IsError != nil && *m.IsError {
				i.Outcome = agent.OutcomeFailed
			}
		}
	case "":
		p.fault("no role")
		return
	default:
		p.skip("message of " + m.Role)
		return
	}
	if i.Role != "tool" {
		i.Call, i.Outcome, i.Code = nil, "", ""
	}
	p.add(i)
}

func (p *parser) note(b []byte) {
	var l noteLine
	if !p.decode(b, &l) {
		return
	}
	i := Item{ID: l.ID, Role: "note", At: l.Timestamp.Time}
	if l.Content != nil {
		i.Text = l.Content.Text
	}
	switch i.Kind = l.Type; l.Type {
	case "custom":
		if l.CustomType != KindConfirmation {
			p.skip("custom " + l.CustomType)
			return
		}
		i.Kind, i.Body = KindConfirmation, l.Data
		var c Confirmation
		if err := json.Unmarshal(l.Data, &c); err != nil {
			p.fault("data is no confirmation")
			return
		}
	case "custom_message":
		if i.Kind = l.CustomType; i.Kind == noteType {
			i.Kind = ""
		}
		if len(i.Kind) > maxLabel || i.Kind == KindConfirmation || i.Kind == KindSummary || i.Kind == KindBranch || i.Kind == KindReset {
			p.fault("customType %.60q cannot be that of a message", i.Kind)
			return
		}
	case KindReset:
		i.Text = l.Reason
	default:
		i.Text = l.Summary
	}
	p.extra(&i, l.Sgclaw)
	i.Call, i.Outcome = nil, ""
	p.add(i)
}

// extra takes over what only we write.
func (p *parser) extra(i *Item, x *extra) {
	if x == nil {
		return
	}
	i.By, i.Label, i.Outcome, i.Code, i.Call = x.By, x.Label, x.Outcome, x.Code, x.Call
	if x.RunID != "" {
		i.RunID = x.RunID
	}
	if i.Call != nil {
		i.Call.Params = compact(i.Call.Params)
	}
	switch x.Outcome {
	case "", agent.OutcomeDone, agent.OutcomeFailed, agent.OutcomeUnknown, agent.OutcomeNeedConfirm, agent.OutcomeRateLimited, agent.OutcomeRefused, agent.OutcomeSkipped:
	default:
		p.fault("outcome %.40q", x.Outcome)
	}
}

// add takes an item if all of it can be kept.
func (p *parser) add(i Item) {
	if err := checkID(i.ID); err != nil {
		p.fault("id: %v", err)
		return
	}
	e, err := i.entry()
	if err != nil {
		p.fault("%v", err)
		return
	}
	switch {
	case len(i.Text) > MaxText:
		p.fault("text of %d bytes, at most %d are allowed", len(i.Text), MaxText)
	case len(e.Data) > MaxText:
		p.fault("calls and details of %d bytes, at most %d are allowed", len(e.Data), MaxText)
	case len(i.Calls) > MaxCalls:
		p.fault("%d calls, at most %d are allowed", len(i.Calls), MaxCalls)
	case len(i.Label) > maxLabel:
		p.fault("label of %d bytes, at most %d are allowed", len(i.Label), maxLabel)
	case len(i.By) > maxID || len(i.Model) > maxID || len(i.RunID) > maxID:
		p.fault("by, model or runId longer than %d bytes", maxID)
	default:
		p.s.Items = append(p.s.Items, i)
	}
}

func (p *parser) millis(ms float64) time.Time {
	if ms != ms || ms <= 0 || ms > 253402300799000 { // the end of the year 9999
		p.fault("timestamp of the message is no time in milliseconds")
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// branch leaves only what the last line continues: the lines are a tree.
func (p *parser) branch() {
	on := map[string]bool{}
	for id, ok := p.last, true; ok; id, ok = p.parent[id] {
		on[id] = true
	}
	kept := p.s.Items[:0]
	for _, i := range p.s.Items {
		if on[i.ID] {
			kept = append(kept, i)
		} else {
			p.s.Skipped["other branch"]++
		}
	}
	p.s.Items = kept
}

// UnmarshalJSON reads a string or a list of pieces.
func (c *content) UnmarshalJSON(b []byte) error {
	*c = content{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &c.Text)
	}
	var pieces []piece
	if err := json.Unmarshal(b, &pieces); err != nil {
		return errors.New("content is neither a string nor a list of pieces")
	}
	var text []string
	for n, piece := range pieces {
		switch piece.Type {
		case "":
			return fmt.Errorf("piece %d of content has no type", n)
		case "text":
			if piece.Text == nil {
				return fmt.Errorf("piece %d of content has no text", n)
			}
			text = append(text, *piece.Text)
		case "toolCall":
			args := piece.Arguments
			var object map[string]json.RawMessage
			if piece.ID == "" || len(piece.ID) > maxID || piece.Name == "" || len(piece.Name) > maxID || len(args) > 0 && json.Unmarshal(args, &object) != nil {
				return fmt.Errorf("piece %d of content is no call: it needs an id, a name and arguments that are an object", n)
			}
			c.Calls = append(c.Calls, agent.Call{ID: piece.ID, Action: piece.Name, Params: compact(args), PageID: piece.PageID, Fault: piece.Fault})
		case "thinking", "redacted_thinking":
		default:
			text = append(text, "["+clip(piece.Type, 40)+"]")
		}
	}
	c.Text = strings.Join(text, "\n")
	return nil
}

// compact writes JSON in one way, since the same may be written in many.
func compact(b json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	if len(b) == 0 || string(b) == "null" || json.Compact(&out, b) != nil {
		return json.RawMessage("{}")
	}
	return out.Bytes()
}
