package openclaw

// Names of events of sessions and runs.
const (
	EventChat            = "chat"
	EventAgent           = "agent"
	EventSessionMessage  = "session.message"
	EventSessionsChanged = "sessions.changed"
	EventApprovalAsked   = "exec.approval.requested"
	EventApprovalDone    = "exec.approval.resolved"
)

// States of a ChatEvent.
const (
	ChatStatus  = "status"
	ChatDelta   = "delta"
	ChatFinal   = "final"
	ChatAborted = "aborted"
	ChatError   = "error"
)

// Phases of a ChatEvent with ChatStatus.
const (
	PhasePreparing = "preparing_context"
	PhaseStarting  = "starting_model"
)

// ChatEvent is the payload of a chat event. Seq counts those of the run on
// this gateway.
type ChatEvent struct {
	RunID        string        `json:"runId"`
	SessionKey   string        `json:"sessionKey"`
	AgentID      string        `json:"agentId,omitempty"`
	Seq          int           `json:"seq"`
	State        string        `json:"state"`
	Phase        string        `json:"phase,omitempty"`
	DeltaText    *string       `json:"deltaText,omitempty"`
	Replace      bool          `json:"replace,omitempty"`
	Message      *ChatMessage  `json:"message,omitempty"`
	Usage        *MessageUsage `json:"usage,omitempty"`
	StopReason   string        `json:"stopReason,omitempty"`
	ErrorMessage string        `json:"errorMessage,omitempty"`
	ErrorKind    string        `json:"errorKind,omitempty"`
}

// Kinds of ChatError.
const (
	ErrorTimeout   = "timeout"
	ErrorRateLimit = "rate_limit"
	ErrorUnknown   = "unknown"
)

// Streams of an AgentEvent.
const (
	StreamLifecycle = "lifecycle"
	StreamAssistant = "assistant"
	StreamTool      = "tool"
	StreamUsage     = "usage"
)

// AgentEvent is the payload of an agent event.
type AgentEvent struct {
	RunID      string `json:"runId"`
	Seq        int    `json:"seq"`
	Stream     string `json:"stream"`
	Ts         int64  `json:"ts"`
	Data       any    `json:"data"`
	SessionKey string `json:"sessionKey,omitempty"`
	AgentID    string `json:"agentId,omitempty"`
}

// Lifecycle is the data of StreamLifecycle.
type Lifecycle struct {
	Phase         string         `json:"phase"` // "start", "model", "end" or "error"
	StartedAt     int64          `json:"startedAt,omitempty"`
	EndedAt       int64          `json:"endedAt,omitempty"`
	Model         string         `json:"model,omitempty"`
	StopReason    string         `json:"stopReason,omitempty"`
	Aborted       bool           `json:"aborted,omitempty"`
	Error         string         `json:"error,omitempty"`
	TerminalReply *TerminalReply `json:"terminalReply,omitempty"`
}

// AssistantText is the data of StreamAssistant: the run's text so far, and
// what is new of it. Replace says that Text is not the earlier one with Delta
// at its end.
type AssistantText struct {
	Text    string `json:"text"`
	Delta   string `json:"delta"`
	Replace bool   `json:"replace,omitempty"`
}

// ToolStart is the data of StreamTool before a call, and ToolResult after it.
type ToolStart struct {
	Phase      string `json:"phase"` // "start"
	Name       string `json:"name"`
	ToolCallID string `json:"toolCallId"`
	Args       any    `json:"args"`
}

// ToolResult tells what came of a call.
type ToolResult struct {
	Phase      string     `json:"phase"` // "result"
	Name       string     `json:"name"`
	ToolCallID string     `json:"toolCallId"`
	IsError    bool       `json:"isError"`
	Result     ToolOutput `json:"result"`
}

// ToolOutput is what a call gave.
type ToolOutput struct {
	Content []Content   `json:"content"`
	Details ToolDetails `json:"details"`
}

// ToolDetails are ours.
type ToolDetails struct {
	Outcome    string `json:"outcome"`
	Code       string `json:"code,omitempty"`
	DurationMs int64  `json:"durationMs"`
	URL        string `json:"url,omitempty"`
}

// UsageData is the data of StreamUsage.
type UsageData struct {
	InputTokens  int `json:"inputTokens"`
	OutputTokens int `json:"outputTokens"`
	TotalTokens  int `json:"totalTokens"`
}

// SessionMessage is the payload of session.message: a message as
// chat.history has it.
type SessionMessage struct {
	SessionKey string      `json:"sessionKey"`
	AgentID    string      `json:"agentId,omitempty"`
	MessageID  string      `json:"messageId"`
	MessageSeq int64       `json:"messageSeq,omitempty"`
	RunID      string      `json:"runId,omitempty"`
	Message    ChatMessage `json:"message"`
}

// SessionsChanged is the payload of sessions.changed. Without a key any
// session may have changed.
type SessionsChanged struct {
	SessionKey string      `json:"sessionKey,omitempty"`
	AgentID    string      `json:"agentId,omitempty"`
	Reason     string      `json:"reason"`
	Ts         int64       `json:"ts"`
	Session    *SessionRow `json:"session,omitempty"`
}

// ApprovalRequested is the payload of exec.approval.requested, and an item of
// exec.approval.list.
type ApprovalRequested struct {
	ID           string          `json:"id"`
	ApprovalKind string          `json:"approvalKind"` // KindExec
	Request      ApprovalRequest `json:"request"`
	CreatedAtMs  int64           `json:"createdAtMs"`
	ExpiresAtMs  int64           `json:"expiresAtMs"`
}

// ApprovalRequest says what is to be approved.
type ApprovalRequest struct {
	Command          string   `json:"command"`
	CommandPreview   string   `json:"commandPreview,omitempty"`
	WarningText      string   `json:"warningText,omitempty"`
	Host             string   `json:"host,omitempty"`
	Security         string   `json:"security"`
	Ask              string   `json:"ask"`
	AgentID          string   `json:"agentId,omitempty"`
	SessionKey       string   `json:"sessionKey"`
	RunID            string   `json:"runId"`
	ToolCallID       string   `json:"toolCallId,omitempty"`
	AllowedDecisions []string `json:"allowedDecisions"`
}

// ApprovalResolved is the payload of exec.approval.resolved.
type ApprovalResolved struct {
	ID         string           `json:"id"`
	Decision   string           `json:"decision"`
	ResolvedBy string           `json:"resolvedBy,omitempty"`
	Ts         int64            `json:"ts"`
	Request    *ApprovalRequest `json:"request,omitempty"`
}
