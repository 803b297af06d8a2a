package openclaw

import "encoding/json"

// SessionsListParams are the parameters of sessions.list.
type SessionsListParams struct {
	Limit         int    `json:"limit" oc:"min=1"`
	Offset        int    `json:"offset" oc:"min=0"`
	ActiveMinutes int    `json:"activeMinutes" oc:"min=1"`
	AgentID       string `json:"agentId" oc:"min=1"`
	Search        string `json:"search"`
	Label         string `json:"label" oc:"min=1,max=512"`
	SortBy        string `json:"sortBy" oc:"oneof=updatedAt|lastInteractionAt"`

	// What follows adds nothing to a row here, or leaves no session out.
	IncludeGlobal          bool `json:"includeGlobal"`
	IncludeUnknown         bool `json:"includeUnknown"`
	IncludeDerivedTitles   bool `json:"includeDerivedTitles"`
	IncludeLastMessage     bool `json:"includeLastMessage"`
	IncludePeople          bool `json:"includePeople"`
	ConfiguredAgentsOnly   bool `json:"configuredAgentsOnly"`
	RequireLastInteraction bool `json:"requireLastInteraction"`
	OwnerFirst             bool `json:"ownerFirst"`

	// Archived asks for sessions that are put away; there are none.
	Archived json.RawMessage `json:"archived"`

	BoardFace          json.RawMessage `json:"boardFace"`
	CreatorID          json.RawMessage `json:"creatorId"`
	OwnerID            json.RawMessage `json:"ownerId"`
	InvolvingMe        json.RawMessage `json:"involvingMe"`
	InvolvingProfileID json.RawMessage `json:"involvingProfileId"`
	SpawnedBy          json.RawMessage `json:"spawnedBy"`
}

// SessionsList answers sessions.list.
type SessionsList struct {
	Ts           int64         `json:"ts"`
	Path         string        `json:"path"`
	Count        int           `json:"count"`
	TotalCount   int           `json:"totalCount"`
	LimitApplied int           `json:"limitApplied"`
	HasMore      bool          `json:"hasMore"`
	NextOffset   *int          `json:"nextOffset"`
	Owners       []string      `json:"owners"`
	Defaults     ModelDefaults `json:"defaults"`
	Sessions     []SessionRow  `json:"sessions"`
}

// States of a session's last run.
const (
	RowQueued  = "queued"
	RowRunning = "running"
	RowDone    = "done"
	RowFailed  = "failed"
	RowKilled  = "killed"
	RowTimeout = "timeout"
)

// SessionRow is a session in a list. Mode, Browser and Queued are ours; the
// schema leaves room for them.
type SessionRow struct {
	Key                string `json:"key"`
	SessionID          string `json:"sessionId,omitempty"`
	Kind               string `json:"kind"` // "direct", "group" or "unknown"
	Label              string `json:"label,omitempty"`
	DisplayName        string `json:"displayName,omitempty"`
	DerivedTitle       string `json:"derivedTitle,omitempty"`
	LastMessagePreview string `json:"lastMessagePreview,omitempty"`
	AgentID            string `json:"agentId,omitempty"`
	IsMain             bool   `json:"isMain,omitempty"`
	UpdatedAt          int64  `json:"updatedAt"`
	CreatedAt          int64  `json:"createdAt,omitempty"`
	LastActivityAt     int64  `json:"lastActivityAt,omitempty"`
	LastInteractionAt  int64  `json:"lastInteractionAt,omitempty"`
	Status             string `json:"status,omitempty"`
	LastRunID          string `json:"lastRunId,omitempty"`
	InputTokens        int    `json:"inputTokens"`
	OutputTokens       int    `json:"outputTokens"`
	TotalTokens        int    `json:"totalTokens"`
	Model              string `json:"model,omitempty"`

	HasActiveRun bool   `json:"hasActiveRun"`
	ActiveRunID  string `json:"activeRunId,omitempty"`
	Mode         string `json:"mode,omitempty"`
	Browser      string `json:"browser,omitempty"`
	Queued       int    `json:"queued,omitempty"`
	Runs         int    `json:"runs"`
	Seq          int64  `json:"seq"` // of its newest event
}

// SessionKeyParams are those of methods that take no more than a session:
// sessions.describe and sessions.messages.unsubscribe.
type SessionKeyParams struct {
	Key                  string `json:"key" oc:"required,min=1"`
	AgentID              string `json:"agentId" oc:"min=1"`
	IncludeDerivedTitles bool   `json:"includeDerivedTitles"`
	IncludeLastMessage   bool   `json:"includeLastMessage"`
}

// SessionsDescribed answers sessions.describe.
type SessionsDescribed struct {
	Session *SessionRow `json:"session"`
}

// SessionsResolveParams are the parameters of sessions.resolve.
type SessionsResolveParams struct {
	Key            string `json:"key" oc:"min=1"`
	SessionID      string `json:"sessionId" oc:"min=1"`
	Label          string `json:"label" oc:"min=1,max=512"`
	AgentID        string `json:"agentId" oc:"min=1"`
	IncludeGlobal  bool   `json:"includeGlobal"`
	IncludeUnknown bool   `json:"includeUnknown"`
	AllowMissing   bool   `json:"allowMissing"`

	ShortID   json.RawMessage `json:"shortId"`
	SlugHint  json.RawMessage `json:"slugHint"`
	SpawnedBy json.RawMessage `json:"spawnedBy"`
}

// SessionsResolved answers sessions.resolve.
type SessionsResolved struct {
	OK      bool   `json:"ok"`
	Key     string `json:"key,omitempty"`
	AgentID string `json:"agentId,omitempty"`
}

// SessionsGetParams are the parameters of sessions.get.
type SessionsGetParams struct {
	Key     string `json:"key" oc:"min=1"`
	Session string `json:"sessionKey" oc:"min=1"` // the same
	AgentID string `json:"agentId" oc:"min=1"`
	Limit   int    `json:"limit" oc:"min=1"`
}

// SessionsMessages answers sessions.get.
type SessionsMessages struct {
	Messages []ChatMessage `json:"messages"`
}

// SessionsPreviewParams are the parameters of sessions.preview.
type SessionsPreviewParams struct {
	Keys     []string `json:"keys" oc:"required,min=1,each=1"`
	Limit    int      `json:"limit" oc:"min=1"`
	MaxChars int      `json:"maxChars" oc:"min=20"`
}

// SessionsPreviews answers sessions.preview.
type SessionsPreviews struct {
	Ts       int64            `json:"ts"`
	Previews []SessionPreview `json:"previews"`
}

// SessionPreview is the end of a session.
type SessionPreview struct {
	Key    string        `json:"key"`
	Status string        `json:"status"` // "ok", "empty" or "missing"
	Items  []PreviewItem `json:"items"`
}

// PreviewItem is a message, shortened.
type PreviewItem struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// SessionsPatchParams are the parameters of sessions.patch. Mode and Browser
// are ours: what becomes of a message while a run is under way, and where
// runs act; null or "" leaves it to the agent.
type SessionsPatchParams struct {
	Key               string           `json:"key" oc:"required,min=1"`
	AgentID           string           `json:"agentId" oc:"min=1"`
	ExpectedSessionID string           `json:"expectedSessionId" oc:"min=1"`
	Label             Optional[string] `json:"label" oc:"max=512"`
	Model             Optional[string] `json:"model"`
	Mode              Optional[string] `json:"mode"`
	Browser           Optional[string] `json:"browser"`

	ExpectedLifecycleRevision  json.RawMessage `json:"expectedLifecycleRevision"`
	ExpectedPermissionMode     json.RawMessage `json:"expectedPermissionMode"`
	ExpectedToolOverrides      json.RawMessage `json:"expectedToolOverrides"`
	ExpectedMarkedUnreadAt     json.RawMessage `json:"expectedMarkedUnreadAt"`
	Icon                       json.RawMessage `json:"icon"`
	Color                      json.RawMessage `json:"color"`
	Category                   json.RawMessage `json:"category"`
	BoardFace                  json.RawMessage `json:"boardFace"`
	StatusNote                 json.RawMessage `json:"statusNote"`
	Attention                  json.RawMessage `json:"attention"`
	TTLMinutes                 json.RawMessage `json:"ttlMinutes"`
	Archived                   json.RawMessage `json:"archived"`
	Pinned                     json.RawMessage `json:"pinned"`
	Unread                     json.RawMessage `json:"unread"`
	ContextWindow              json.RawMessage `json:"contextWindow"`
	ThinkingLevel              json.RawMessage `json:"thinkingLevel"`
	FastMode                   json.RawMessage `json:"fastMode"`
	ToolOverrides              json.RawMessage `json:"toolOverrides"`
	VerboseLevel               json.RawMessage `json:"verboseLevel"`
	TraceLevel                 json.RawMessage `json:"traceLevel"`
	ReasoningLevel             json.RawMessage `json:"reasoningLevel"`
	ResponseUsage              json.RawMessage `json:"responseUsage"`
	ElevatedLevel              json.RawMessage `json:"elevatedLevel"`
	ExecHost                   json.RawMessage `json:"execHost"`
	ExecSecurity               json.RawMessage `json:"execSecurity"`
	ExecAsk                    json.RawMessage `json:"execAsk"`
	ExecNode                   json.RawMessage `json:"execNode"`
	PermissionMode             json.RawMessage `json:"permissionMode"`
	CompletionOwnerSessionKey  json.RawMessage `json:"completionOwnerSessionKey"`
	InheritedToolPolicyVersion json.RawMessage `json:"inheritedToolPolicyVersion"`
	InheritedToolAllow         json.RawMessage `json:"inheritedToolAllow"`
	InheritedToolDeny          json.RawMessage `json:"inheritedToolDeny"`
	SendPolicy                 json.RawMessage `json:"sendPolicy"`
	GroupActivation            json.RawMessage `json:"groupActivation"`
}

// SessionsResetParams are the parameters of sessions.reset.
type SessionsResetParams struct {
	Key     string `json:"key" oc:"required,min=1"`
	AgentID string `json:"agentId" oc:"min=1"`
	Reason  string `json:"reason" oc:"oneof=new|reset"`
}

// SessionsChange answers sessions.patch and sessions.reset.
type SessionsChange struct {
	OK    bool       `json:"ok"`
	Path  string     `json:"path"`
	Key   string     `json:"key"`
	Entry SessionRow `json:"entry"`
}

// SessionsDeleteParams are the parameters of sessions.delete.
type SessionsDeleteParams struct {
	Key               string `json:"key" oc:"required,min=1"`
	AgentID           string `json:"agentId" oc:"min=1"`
	ExpectedSessionID string `json:"expectedSessionId" oc:"min=1"`
	// What follows changes nothing: what was said stays on record in any
	// case, and nothing listens to the end of a session.
	DeleteTranscript   bool `json:"deleteTranscript"`
	EmitLifecycleHooks bool `json:"emitLifecycleHooks"`

	ExpectedLifecycleRevision json.RawMessage `json:"expectedLifecycleRevision"`
	ExpectedSessionUpdatedAt  json.RawMessage `json:"expectedSessionUpdatedAt"`
	ArchivedOnly              json.RawMessage `json:"archivedOnly"`
}

// SessionsDeleted answers sessions.delete.
type SessionsDeleted struct {
	OK       bool     `json:"ok"`
	Key      string   `json:"key"`
	Deleted  bool     `json:"deleted"`
	Archived []string `json:"archived"`
}

// SessionsCompactParams are the parameters of sessions.compact.
type SessionsCompactParams struct {
	Key     string `json:"key" oc:"required,min=1"`
	AgentID string `json:"agentId" oc:"min=1"`

	MaxLines json.RawMessage `json:"maxLines"`
}

// SessionsCompacted answers sessions.compact.
type SessionsCompacted struct {
	OK        bool   `json:"ok"`
	Key       string `json:"key"`
	Compacted bool   `json:"compacted"`
	Reason    string `json:"reason,omitempty"`
}

// SessionsSubscribed answers sessions.subscribe and sessions.unsubscribe.
type SessionsSubscribed struct {
	Subscribed bool `json:"subscribed"`
}

// MessagesSubscribeParams are the parameters of sessions.messages.subscribe.
type MessagesSubscribeParams struct {
	Key              string `json:"key" oc:"required,min=1"`
	AgentID          string `json:"agentId" oc:"min=1"`
	IncludeApprovals bool   `json:"includeApprovals"`
}

// MessagesSubscribed answers it, and sessions.messages.unsubscribe.
type MessagesSubscribed struct {
	Subscribed     bool            `json:"subscribed"`
	Key            string          `json:"key"`
	ApprovalReplay *ApprovalReplay `json:"approvalReplay,omitempty"`
}

// ApprovalReplay are a session's open approvals.
type ApprovalReplay struct {
	SessionKey  string     `json:"sessionKey"`
	UpdatedAtMs int64      `json:"updatedAtMs"`
	Approvals   []Approval `json:"approvals"`
	Truncated   bool       `json:"truncated"`
}
