package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sgclaw/internal/agent"
)

// Write writes a transcript. A text of more than MaxText bytes is cut, and a
// line that would be longer than MaxLine is an error.
func Write(w io.Writer, s Session) error {
	b := bufio.NewWriter(w)
	first := sessionLine{Type: "session", Version: Version, ID: s.Key, Timestamp: timestamp{s.At}}
	if s.Agent != "" || s.Label != "" {
		first.Sgclaw = &sessionInfo{s.Agent, s.Label}
	}
	if err := writeLine(b, first); err != nil {
		return err
	}
	var parent *string
	for i := range s.Items {
		if err := writeLine(b, s.Items[i].line(parent)); err != nil {
			return fmt.Errorf("item %s: %w", s.Items[i].ID, err)
		}
		parent = &s.Items[i].ID
	}
	return b.Flush()
}

func writeLine(w *bufio.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	if b.Len() > MaxLine {
		return fmt.Errorf("its line has %d bytes, at most %d are allowed", b.Len(), MaxLine)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// line is an item as it is written.
func (i Item) line(parent *string) any {
	h := head{ID: i.ID, ParentID: parent, Timestamp: timestamp{i.At}}
	x := &extra{By: i.By, Label: i.Label, RunID: i.RunID, Outcome: i.Outcome, Code: i.Code, Call: i.Call}
	if *x == (extra{}) {
		x = nil
	}
	text := clip(i.Text, MaxText/2)
	if i.Role == "note" {
		return i.note(h, x, text)
	}
	h.Type = "message"
	m := message{Role: i.Role, Content: content{Text: text, Calls: i.Calls}, Model: i.Model}
	if !i.At.IsZero() {
		ms := float64(i.At.UnixMilli())
		m.Timestamp = &ms
	}
	if u := i.Usage; u != (agent.Usage{}) {
		m.Usage = &usage{Input: u.PromptTokens, Output: u.CompletionTokens, TotalTokens: u.TotalTokens}
	}
	switch i.Role {
	case "assistant":
		m.StopReason = "stop"
		if len(i.Calls) > 0 {
			m.StopReason = "toolUse"
		}
	case "tool":
		m.Role = "toolResult"
		wrong := i.Outcome != agent.OutcomeDone
		m.IsError = &wrong
		if i.Call != nil {
			m.ToolCallID, m.ToolName = i.Call.ID, i.Call.Action
		}
	}
	if i.RunID != "" {
		m.OpenClaw = &provenance{i.RunID}
	}
	return messageLine{head: h, Message: m, Sgclaw: x}
}

func (i Item) note(h head, x *extra, text string) noteLine {
	switch i.Kind {
	case KindConfirmation:
		h.Type = "custom"
		return noteLine{head: h, CustomType: KindConfirmation, Data: i.Body, Content: &content{Text: text}, Sgclaw: x}
	case KindSummary, KindBranch:
		h.Type = i.Kind
		return noteLine{head: h, Summary: text, Sgclaw: x}
	case KindReset:
		h.Type = i.Kind
		return noteLine{head: h, Reason: text, Sgclaw: x}
	}
	h.Type = "custom_message"
	shown := true
	kind := i.Kind
	if kind == "" {
		kind = noteType
	}
	return noteLine{head: h, CustomType: kind, Content: &content{Text: text}, Display: &shown, Sgclaw: x}
}

// noteType is the customType of a note without a kind.
const noteType = "sgclaw.note"

func (c content) MarshalJSON() ([]byte, error) {
	pieces := []piece{}
	if c.Text != "" || len(c.Calls) == 0 {
		pieces = append(pieces, piece{Type: "text", Text: &c.Text})
	}
	for _, call := range c.Calls {
		args := call.Params
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		pieces = append(pieces, piece{Type: "toolCall", ID: call.ID, Name: call.Action, Arguments: args, PageID: call.PageID, Fault: call.Fault})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(pieces)
	return bytes.TrimSpace(b.Bytes()), err
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head := strings.ToValidUTF8(s[:n], "")
	return fmt.Sprintf("%s\n[cut: %d more bytes]", head, len(s)-len(head))
}
