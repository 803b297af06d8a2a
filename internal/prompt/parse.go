package prompt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
)

// Fault is why a reply is of no use.
type Fault string

// The faults of a reply. A run tells the model (Decision.Nudge) and asks
// again, a few times.
const (
	FaultNone     Fault = ""
	FaultEmpty    Fault = "empty"    // neither text nor calls
	FaultLength   Fault = "length"   // a text that was cut off
	FaultFiltered Fault = "filtered" // a text that the service withheld in part
)

// MaxCalls is how many calls of one reply are carried out.
const MaxCalls = 8

// Decision is what a reply means. Exactly one of these holds: Final, GaveUp,
// there are Calls, there is a Fault.
type Decision struct {
	// Final says that the task is complete; Text is the report.
	Final bool
	// GaveUp says that the model cannot do the task; Text is why.
	GaveUp bool
	// Text is the report, the reason, or what the model said before its
	// calls.
	Text string
	// Thinking is what the model showed of its thinking, if it does, else
	// Text.
	Thinking string
	// Calls are what the model asks for. One that cannot be carried out as
	// it was written has a Fault that tells the model why.
	Calls []agent.Call
	// ProviderIDs are the ids that the model gave the calls.
	ProviderIDs []string
	Fault       Fault
	// Nudge is what to tell the model about the Fault.
	Nudge string
}

// Parse reads a reply. newID makes the ids of calls; permitted are the
// actions that the run may do; locale is the language of faults and nudges.
func Parse(resp llm.Response, newID func() string, permitted []string, locale string) Decision {
	w := wordsIn(locale)
	d := Decision{Text: strings.TrimSpace(resp.Text), Thinking: strings.TrimSpace(resp.Reasoning)}
	if d.Thinking == "" {
		d.Thinking = d.Text
	}
	if len(resp.Calls) == 1 && resp.Calls[0].Name == GiveUpName {
		d.GaveUp = true
		if reason := giveUpReason(resp.Calls[0].Arguments); reason != "" {
			d.Text = reason
		}
		return d
	}
	for i, tc := range resp.Calls {
		p := parser{w: w, permitted: permitted, cut: resp.Finish == llm.FinishLength && i == len(resp.Calls)-1}
		c := p.call(tc)
		c.ID = newID()
		if i >= MaxCalls {
			c.Fault = fmt.Sprintf(w.faultMany, MaxCalls)
		}
		d.Calls = append(d.Calls, c)
		d.ProviderIDs = append(d.ProviderIDs, tc.ID)
	}
	if len(d.Calls) > 0 {
		return d
	}
	switch {
	case resp.Finish == llm.FinishFilter:
		d.Fault, d.Nudge = FaultFiltered, w.nudgeFilter
	case resp.Finish == llm.FinishLength:
		d.Fault, d.Nudge = FaultLength, w.nudgeLength
	case d.Text == "":
		d.Fault, d.Nudge = FaultEmpty, w.nudgeEmpty
	default:
		d.Final = true
	}
	return d
}

func giveUpReason(arguments string) string {
	var a struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal([]byte(arguments), &a) != nil {
		return ""
	}
	return strings.TrimSpace(a.Reason)
}

type parser struct {
	w         *words
	permitted []string
	cut       bool // the reply ended here because it was too long
}

func (p parser) call(tc llm.ToolCall) agent.Call {
	raw := json.RawMessage(strings.TrimSpace(tc.Arguments))
	c := agent.Call{Action: tc.Name, Params: raw}
	if !json.Valid(raw) {
		// What the model wrote is kept as a JSON string.
		c.Params = quoted(tc.Arguments)
	}
	switch {
	case tc.Name == action.ToolName:
	case tc.Name == GiveUpName:
		c.Fault = fmt.Sprintf(p.w.faultAlone, GiveUpName)
		return c
	case slices.Contains(action.Names(), tc.Name):
		// Some models take an action's name for a tool's.
		return p.check(c, raw)
	default:
		c.Fault = fmt.Sprintf(p.w.faultTool, short(tc.Name), action.ToolName, GiveUpName)
		return c
	}
	c.Action = ""
	fields, err := object(raw)
	if err != nil {
		c.Fault = fmt.Sprintf(p.w.faultArguments, short(tc.Arguments))
		if p.cut {
			c.Fault = p.w.faultCut
		}
		return c
	}
	if json.Unmarshal(fields["action"], &c.Action) != nil || c.Action == "" {
		c.Fault = fmt.Sprintf(p.w.faultArguments, short(tc.Arguments))
		return c
	}
	if v, ok := fields["page_id"]; ok && json.Unmarshal(v, &c.PageID) != nil {
		c.Fault = "page_id: must be of type string"
		return c
	}
	return p.check(c, p.params(c.Action, fields))
}

// params finds the parameters in the arguments: under "params" as the schema
// has it, there but as a string, or beside the action.
func (p parser) params(name string, fields map[string]json.RawMessage) json.RawMessage {
	params, ok := fields["params"]
	if !ok {
		delete(fields, "action")
		if name != action.ZombieKill {
			delete(fields, "page_id")
		}
		b, err := json.Marshal(fields)
		if err != nil {
			return nil
		}
		return b
	}
	var text string
	if json.Unmarshal(params, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return params
}

// check validates the parameters.
func (p parser) check(c agent.Call, params json.RawMessage) agent.Call {
	if json.Valid(params) {
		c.Params = params
	}
	if !slices.Contains(p.permitted, c.Action) {
		c.Fault = fmt.Sprintf(p.w.faultPermitted, short(c.Action), strings.Join(p.permitted, ", "))
		return c
	}
	// Models put page_id beside the parameters it goes with.
	if fields, err := object(params); err == nil && c.Action != action.ZombieKill && c.PageID == "" && fields["page_id"] != nil {
		if json.Unmarshal(fields["page_id"], &c.PageID) == nil {
			delete(fields, "page_id")
			if b, err := json.Marshal(fields); err == nil {
				params = b
			}
		}
	}
	full, err := action.Parse(c.Action, params)
	if err != nil {
		c.Fault = err.Error()
		return c
	}
	c.Params = full
	return c
}

func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, fmt.Errorf("null is no object")
	}
	return fields, nil
}

func quoted(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	if len(s) > 2000 {
		s = s[:2000] + "…"
	}
	b, err := json.Marshal(strings.ToValidUTF8(s, ""))
	if err != nil {
		return nil
	}
	return b
}

func short(s string) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
