package gateway

import (
	"encoding/json"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/store"
)

// itemMessage is a piece of a session's history as OpenClaw's clients know
// messages; maxChars bounds its texts.
func itemMessage(it store.HistoryItem, maxChars int) openclaw.ChatMessage {
	var m openclaw.ChatMessage
	text := clipText(it.Text, maxChars)
	switch {
	case it.Role == "user" && it.RunID != "":
		m = openclaw.ChatMessage{Role: openclaw.RoleUser, Content: openclaw.Text(text), Timestamp: millis(it.At), SenderName: it.By}
		if it.ID == it.RunID {
			m.Key = it.RunID + ":user"
		}
	case it.Role == "assistant" && it.RunID != "":
		m = replyMessage(text, it.Calls, it.Model, it.Usage, it.At)
	case it.Role == "tool" && it.Call != nil:
		m = toolMessage(*it.Call, it.Outcome, text, it.At)
	case it.Role == "note" && it.RunID != "":
		m = noteMessage(strings.TrimSuffix(it.Code+": "+text, ": "), it.At)
	default:
		m = entryMessage(it.Role, it.Label, text, it.By, it.At)
	}
	m.Meta = &openclaw.MessageMeta{ID: it.ID, RunID: it.RunID}
	return m
}

func replyMessage(text string, calls []agent.Call, model string, u agent.Usage, at time.Time) openclaw.ChatMessage {
	m := openclaw.ChatMessage{Role: openclaw.RoleAssistant, Content: []openclaw.Content{}, Timestamp: millis(at), Model: model, StopReason: "stop", Usage: usageOf(u)}
	if text != "" {
		m.Content = openclaw.Text(text)
	}
	for _, c := range calls {
		m.StopReason = "toolUse"
		m.Content = append(m.Content, openclaw.Content{Type: openclaw.ContentToolCall, ID: c.ID, Name: c.Action, Arguments: arguments(c.Params)})
	}
	return m
}

func toolMessage(c agent.Call, o agent.Outcome, text string, at time.Time) openclaw.ChatMessage {
	return openclaw.ChatMessage{
		Role: openclaw.RoleToolResult, Content: openclaw.Text(text), Timestamp: millis(at),
		ToolCallID: c.ID, ToolName: c.Action, IsError: o != agent.OutcomeDone,
	}
}

func noteMessage(text string, at time.Time) openclaw.ChatMessage {
	return openclaw.ChatMessage{Role: openclaw.RoleSystem, Content: openclaw.Text(text), Timestamp: millis(at)}
}

// modelInjected stands where a message of nobody's model names its model.
const modelInjected = "gateway-injected"

func entryMessage(role, label, text, by string, at time.Time) openclaw.ChatMessage {
	if label != "" {
		text = "[" + label + "]\n\n" + text
	}
	m := openclaw.ChatMessage{Content: openclaw.Text(text), Timestamp: millis(at)}
	switch role {
	case "user":
		m.Role, m.SenderName = openclaw.RoleUser, by
	case "assistant":
		m.Role, m.Model, m.StopReason = openclaw.RoleAssistant, modelInjected, "stop"
	case "tool":
		m.Role = openclaw.RoleToolResult
	default:
		m.Role = openclaw.RoleSystem
	}
	return m
}

func usageOf(u agent.Usage) *openclaw.MessageUsage {
	if u == (agent.Usage{}) {
		return nil
	}
	return &openclaw.MessageUsage{Input: u.PromptTokens, Output: u.CompletionTokens, TotalTokens: u.TotalTokens}
}

// arguments are a call's parameters as an object.
func arguments(params json.RawMessage) json.RawMessage {
	if len(params) == 0 || !json.Valid(params) {
		return json.RawMessage("{}")
	}
	return params
}

// approvalDecisions are all that our approvals can be answered with.
func approvalDecisions() []string {
	return []string{openclaw.AllowOnce, openclaw.AllowAlways, openclaw.Deny}
}

// approvalCommand says what is to be approved, in one line: the action, what
// it acts on and where.
func approvalCommand(q agent.Confirmation) string {
	b := q.Action
	if q.Ask.Name != "" || q.Ask.Role != "" {
		b += " " + strings.TrimSpace(q.Ask.Role+" "+quote(q.Ask.Name))
	}
	if q.Ask.Domain != "" {
		b += " @ " + q.Ask.Domain
	}
	if len(q.Params) > 0 && string(q.Params) != "{}" {
		b += " " + string(q.Params)
	}
	return clipText(b, 2000)
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	b, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(b)
}

func approvalWarning(q agent.Confirmation) string {
	var lines []string
	for _, s := range []string{q.Ask.Prompt.ZH, q.Ask.Prompt.EN, q.Ask.Context} {
		if s != "" {
			lines = append(lines, s)
		}
	}
	return clipText(strings.Join(lines, "\n"), 2000)
}

// expires is when a question does; NeverMs if it waits for ever.
func expires(q agent.Confirmation) int64 {
	if q.Until.IsZero() {
		return openclaw.NeverMs
	}
	return q.Until.UnixMilli()
}

func approvalRequest(q agent.Confirmation, session, agentID, runID string) openclaw.ApprovalRequested {
	return openclaw.ApprovalRequested{
		ID: q.ID, ApprovalKind: openclaw.KindExec, CreatedAtMs: millis(q.Since), ExpiresAtMs: expires(q),
		Request: openclaw.ApprovalRequest{
			Command: approvalCommand(q), WarningText: approvalWarning(q), Host: q.Ask.Domain,
			Security: "allowlist", Ask: "always", AgentID: agentID, SessionKey: session, RunID: runID,
			AllowedDecisions: approvalDecisions(),
		},
	}
}

// decisionOf is OpenClaw's word for an answer.
func decisionOf(a agent.Answer) string {
	switch {
	case !a.Approved:
		return openclaw.Deny
	case a.Scope == agent.ScopeRun:
		return openclaw.AllowAlways
	}
	return openclaw.AllowOnce
}

// clipText shortens a text to so many characters; 0 leaves it whole.
func clipText(s string, most int) string {
	if most <= 0 || len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
