package openclaw

import "encoding/json"

// ChatSendParams are the parameters of chat.send.
type ChatSendParams struct {
	SessionKey     string `json:"sessionKey" oc:"required,min=1,max=512"`
	AgentID        string `json:"agentId" oc:"min=1"`
	SessionID      string `json:"sessionId"`
	Message        string `json:"message" oc:"required"`
	QueueMode      string `json:"queueMode" oc:"oneof=steer|followup|collect|interrupt"`
	TimeoutMs      int64  `json:"timeoutMs" oc:"min=0"`
	IdempotencyKey string `json:"idempotencyKey" oc:"required,min=1"`
	// SuppressCommandInterpretation changes nothing: no text is a command.
	SuppressCommandInterpretation bool `json:"suppressCommandInterpretation"`

	Attachments                    json.RawMessage `json:"attachments"`
	Intent                         json.RawMessage `json:"intent"`
	Thinking                       json.RawMessage `json:"thinking"`
	FastMode                       json.RawMessage `json:"fastMode"`
	FastAutoOnSeconds              json.RawMessage `json:"fastAutoOnSeconds"`
	Deliver                        json.RawMessage `json:"deliver"`
	OriginatingChannel             json.RawMessage `json:"originatingChannel"`
	OriginatingTo                  json.RawMessage `json:"originatingTo"`
	OriginatingAccountID           json.RawMessage `json:"originatingAccountId"`
	OriginatingThreadID            json.RawMessage `json:"originatingThreadId"`
	ReplyToID                      json.RawMessage `json:"replyToId"`
	ToolBindings                   json.RawMessage `json:"toolBindings"`
	SystemInputProvenance          json.RawMessage `json:"systemInputProvenance"`
	SystemProvenanceReceipt        json.RawMessage `json:"systemProvenanceReceipt"`
	ExpectedLeafEntryID            json.RawMessage `json:"expectedLeafEntryId"`
	ExpectedSessionRoutingContract json.RawMessage `json:"expectedSessionRoutingContract"`
	ExpectedPermissionMode         json.RawMessage `json:"expectedPermissionMode"`
	ExpectedToolOverrides          json.RawMessage `json:"expectedToolOverrides"`
}

// What became of a message with an idempotency key.
const (
	StatusStarted  = "started"   // it was taken just now
	StatusInFlight = "in_flight" // it was taken before, and its run is under way
	StatusOK       = "ok"        // its run is over
	StatusAccepted = "accepted"  // the first answer to agent
	StatusError    = "error"
	StatusTimeout  = "timeout"
	StatusPending  = "pending"
)

// ChatSendResult answers chat.send.
type ChatSendResult struct {
	RunID  string `json:"runId"`
	Status string `json:"status"`
}

// ChatHistoryParams are the parameters of chat.history.
type ChatHistoryParams struct {
	SessionKey string `json:"sessionKey" oc:"required,min=1"`
	AgentID    string `json:"agentId" oc:"min=1"`
	SessionID  string `json:"sessionId" oc:"min=1"`
	Cursor     string `json:"cursor"`
	Limit      int    `json:"limit" oc:"min=1,max=1000"`
	Offset     int    `json:"offset" oc:"min=0"`
	MaxChars   int    `json:"maxChars" oc:"min=1,max=500000"`
	// InputRunIDs asks for receipts of these messages.
	InputRunIDs []string `json:"inputRunIds" oc:"max=50,each=1"`

	PendingBefore json.RawMessage `json:"pendingBefore"`
	MessageID     json.RawMessage `json:"messageId"`
}

// ChatHistory answers chat.history without a cursor.
type ChatHistory struct {
	SessionKey    string         `json:"sessionKey"`
	SessionID     string         `json:"sessionId,omitempty"`
	Messages      []ChatMessage  `json:"messages"`
	HasMore       bool           `json:"hasMore"`
	TotalMessages int            `json:"totalMessages"`
	NextOffset    *int           `json:"nextOffset,omitempty"`
	DeltaCursor   string         `json:"deltaCursor"`
	PendingInputs PendingInputs  `json:"pendingInputs"`
	InputReceipts []InputReceipt `json:"inputReceipts,omitempty"`
	Defaults      ModelDefaults  `json:"defaults"`
	SessionInfo   SessionInfo    `json:"sessionInfo"`
	InFlightRun   *InFlightRun   `json:"inFlightRun,omitempty"`
}

// Kinds of a ChatHistoryDelta.
const (
	HistoryDelta = "delta"
	HistoryReset = "reset"
)

// ChatHistoryDelta answers chat.history with a cursor: nothing new since, or
// that everything is to be read anew (then it is nothing but the Kind).
type ChatHistoryDelta struct {
	Kind        string        `json:"kind"`
	Messages    []ChatMessage `json:"messages"`
	DeltaCursor string        `json:"deltaCursor"`
	SessionInfo SessionInfo   `json:"sessionInfo"`
	InFlightRun *InFlightRun  `json:"inFlightRun,omitempty"`
}

// ChatHistoryReset says that everything is to be read anew.
type ChatHistoryReset struct {
	Kind string `json:"kind"`
}

// PendingInputs are the messages that wait in a session.
type PendingInputs struct {
	Items []PendingInput `json:"items"`
	Total int            `json:"total"`
}

// PendingInput is a message that waits.
type PendingInput struct {
	ID         string      `json:"id"`
	RunID      string      `json:"runId,omitempty"`
	Message    ChatMessage `json:"message"`
	AcceptedAt int64       `json:"acceptedAt"`
	State      string      `json:"state"` // "queued"
}

// InputReceipt says whether a run has begun with a message.
type InputReceipt struct {
	RunID             string `json:"runId"`
	State             string `json:"state"` // "pending" or "consumed"
	ConsumedByEventID string `json:"consumedByEventId,omitempty"`
}

// ModelDefaults say what a session uses unless it is set.
type ModelDefaults struct {
	ModelProvider string `json:"modelProvider,omitempty"`
	Model         string `json:"model,omitempty"`
	ContextTokens int    `json:"contextTokens,omitempty"`
}

// SessionInfo is what chat.history tells of the session.
type SessionInfo struct {
	SessionRow
	ActiveRunIDs []string `json:"activeRunIds"`
}

// InFlightRun is the run under way: its text so far, as its chat events have
// it.
type InFlightRun struct {
	RunID     string       `json:"runId"`
	Text      string       `json:"text"`
	StartedAt int64        `json:"startedAt,omitempty"`
	Events    []AgentEvent `json:"events"`
}

// Roles of a ChatMessage.
const (
	RoleUser       = "user"
	RoleAssistant  = "assistant"
	RoleToolResult = "toolResult"
	RoleSystem     = "system"
)

// ChatMessage is a message as chat.history and session.message have it.
type ChatMessage struct {
	Role    string    `json:"role"`
	Content []Content `json:"content"`
	// Timestamp is in milliseconds since 1970.
	Timestamp  int64         `json:"timestamp"`
	ToolCallID string        `json:"toolCallId,omitempty"`
	ToolName   string        `json:"toolName,omitempty"`
	IsError    bool          `json:"isError,omitempty"`
	Model      string        `json:"model,omitempty"`
	StopReason string        `json:"stopReason,omitempty"`
	Usage      *MessageUsage `json:"usage,omitempty"`
	SenderName string        `json:"senderLabel,omitempty"`
	// Key is "<run id>:user" of a message that a client sent.
	Key  string       `json:"idempotencyKey,omitempty"`
	Meta *MessageMeta `json:"__openclaw,omitempty"`
}

// MessageMeta is what clients know a message by.
type MessageMeta struct {
	ID    string `json:"id"`
	RunID string `json:"runId,omitempty"`
}

// MessageUsage are the tokens of a message.
type MessageUsage struct {
	Input       int `json:"input"`
	Output      int `json:"output"`
	TotalTokens int `json:"totalTokens"`
}

// Types of Content.
const (
	ContentText     = "text"
	ContentToolCall = "toolCall"
)

// Content is a piece of a message.
type Content struct {
	Type      string
	Text      string
	ID        string
	Name      string
	Arguments json.RawMessage
}

// MarshalJSON writes what the type has.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.Type == ContentToolCall {
		return json.Marshal(struct {
			Type      string          `json:"type"`
			ID        string          `json:"id"`
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}{c.Type, c.ID, c.Name, c.Arguments})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{c.Type, c.Text})
}

// Text makes the content of a message that is nothing but text.
func Text(text string) []Content { return []Content{{Type: ContentText, Text: text}} }

// ChatAbortParams are the parameters of chat.abort.
type ChatAbortParams struct {
	SessionKey string `json:"sessionKey" oc:"required,min=1"`
	AgentID    string `json:"agentId" oc:"min=1"`
	RunID      string `json:"runId" oc:"min=1"`
	// PreserveSideRuns changes nothing: a session has no side runs.
	PreserveSideRuns bool `json:"preserveSideRuns"`
}

// ChatAbortResult answers chat.abort.
type ChatAbortResult struct {
	OK      bool     `json:"ok"`
	Aborted bool     `json:"aborted"`
	RunIDs  []string `json:"runIds"`
}

// ChatInjectParams are the parameters of chat.inject.
type ChatInjectParams struct {
	SessionKey string `json:"sessionKey" oc:"required,min=1"`
	AgentID    string `json:"agentId" oc:"min=1"`
	Message    string `json:"message" oc:"required,min=1"`
	Label      string `json:"label" oc:"max=100"`
}

// ChatInjectResult answers chat.inject.
type ChatInjectResult struct {
	OK        bool   `json:"ok"`
	MessageID string `json:"messageId"`
}

// AgentParams are the parameters of agent.
type AgentParams struct {
	Message        string `json:"message" oc:"required,min=1"`
	AgentID        string `json:"agentId" oc:"min=1"`
	SessionID      string `json:"sessionId"`
	SessionKey     string `json:"sessionKey"`
	Model          string `json:"model"`
	Timeout        int64  `json:"timeout" oc:"min=0"` // seconds
	IdempotencyKey string `json:"idempotencyKey" oc:"required,min=1"`
	// What follows changes nothing here, and no client counts on more.
	BestEffortDeliver        bool   `json:"bestEffortDeliver"`
	CleanupBundleMCPOnRunEnd bool   `json:"cleanupBundleMcpOnRunEnd"`
	Lane                     string `json:"lane"`
	PromptMode               string `json:"promptMode" oc:"oneof=full"`
	BootstrapContextMode     string `json:"bootstrapContextMode" oc:"oneof=full"`
	SessionEffects           string `json:"sessionEffects" oc:"oneof=visible"`
	SourceReplyDeliveryMode  string `json:"sourceReplyDeliveryMode" oc:"oneof=automatic"`
	DisableMessageTool       bool   `json:"disableMessageTool"`

	ExtraSystemPrompt                     json.RawMessage `json:"extraSystemPrompt"`
	SuppressPromptPersistence             json.RawMessage `json:"suppressPromptPersistence"`
	Attachments                           json.RawMessage `json:"attachments"`
	Provider                              json.RawMessage `json:"provider"`
	To                                    json.RawMessage `json:"to"`
	ReplyTo                               json.RawMessage `json:"replyTo"`
	ExpectedExistingSessionID             json.RawMessage `json:"expectedExistingSessionId"`
	Thinking                              json.RawMessage `json:"thinking"`
	Deliver                               json.RawMessage `json:"deliver"`
	Channel                               json.RawMessage `json:"channel"`
	ReplyChannel                          json.RawMessage `json:"replyChannel"`
	AccountID                             json.RawMessage `json:"accountId"`
	ReplyAccountID                        json.RawMessage `json:"replyAccountId"`
	ThreadID                              json.RawMessage `json:"threadId"`
	GroupID                               json.RawMessage `json:"groupId"`
	GroupChannel                          json.RawMessage `json:"groupChannel"`
	GroupSpace                            json.RawMessage `json:"groupSpace"`
	Cwd                                   json.RawMessage `json:"cwd"`
	ModelRun                              json.RawMessage `json:"modelRun"`
	BootstrapContextRunKind               json.RawMessage `json:"bootstrapContextRunKind"`
	AcpTurnSource                         json.RawMessage `json:"acpTurnSource"`
	InternalRuntimeHandoffID              json.RawMessage `json:"internalRuntimeHandoffId"`
	InternalExecutionIdentityRetry        json.RawMessage `json:"internalExecutionIdentityRetry"`
	InternalExecutionIdentityRecovery     json.RawMessage `json:"internalExecutionIdentityRecoveryAttempt"`
	ExecApprovalFollowupExpectedSessionID json.RawMessage `json:"execApprovalFollowupExpectedSessionId"`
	InternalEvents                        json.RawMessage `json:"internalEvents"`
	InputProvenance                       json.RawMessage `json:"inputProvenance"`
	SwarmCollector                        json.RawMessage `json:"swarmCollector"`
	SwarmOutputSchema                     json.RawMessage `json:"swarmOutputSchema"`
	ForceRestartSafeTools                 json.RawMessage `json:"forceRestartSafeTools"`
	ForceCodeModeTools                    json.RawMessage `json:"forceCodeModeTools"`
	VoiceWakeTrigger                      json.RawMessage `json:"voiceWakeTrigger"`
	Label                                 json.RawMessage `json:"label"`
}

// AgentAccepted is the first of agent's two answers.
type AgentAccepted struct {
	RunID      string `json:"runId"`
	SessionKey string `json:"sessionKey"`
	AgentID    string `json:"agentId,omitempty"`
	Status     string `json:"status"` // StatusAccepted
	AcceptedAt int64  `json:"acceptedAt"`
}

// AgentResult is the second.
type AgentResult struct {
	RunID   string       `json:"runId"`
	Status  string       `json:"status"` // StatusOK or StatusError
	Summary string       `json:"summary"`
	Result  *AgentOutput `json:"result,omitempty"`
}

// AgentOutput is what came of a run.
type AgentOutput struct {
	Payloads []AgentPayload `json:"payloads"`
	Meta     AgentMeta      `json:"meta"`
}

// AgentPayload is one text of an answer.
type AgentPayload struct {
	Text     string  `json:"text"`
	MediaURL *string `json:"mediaUrl"`
}

// AgentMeta tells of a run.
type AgentMeta struct {
	DurationMs int64         `json:"durationMs"`
	Aborted    bool          `json:"aborted,omitempty"`
	AgentMeta  AgentMetaCore `json:"agentMeta"`
}

// AgentMetaCore tells what a run used.
type AgentMetaCore struct {
	SessionID string       `json:"sessionId"`
	Provider  string       `json:"provider"`
	Model     string       `json:"model"`
	Usage     MessageUsage `json:"usage"`
}

// AgentWaitParams are the parameters of agent.wait.
type AgentWaitParams struct {
	RunID string `json:"runId" oc:"required,min=1"`
	// TimeoutMs absent is 30 s.
	TimeoutMs *int64 `json:"timeoutMs" oc:"min=0"`
}

// AgentWaitResult answers agent.wait.
type AgentWaitResult struct {
	RunID         string         `json:"runId"`
	Status        string         `json:"status"` // ok, error or timeout
	StartedAt     int64          `json:"startedAt,omitempty"`
	EndedAt       int64          `json:"endedAt,omitempty"`
	Error         string         `json:"error,omitempty"`
	StopReason    string         `json:"stopReason,omitempty"`
	TerminalReply *TerminalReply `json:"terminalReply,omitempty"`
}

// TerminalReply is all that a run said, as its chat events had it.
type TerminalReply struct {
	Disposition string `json:"disposition"` // "visible" or "empty"
	Text        string `json:"text"`
}

// ReplyOf makes the TerminalReply of a text.
func ReplyOf(text string) *TerminalReply {
	if text == "" {
		return &TerminalReply{Disposition: "empty"}
	}
	return &TerminalReply{Disposition: "visible", Text: text}
}
