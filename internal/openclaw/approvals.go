package openclaw

import "encoding/json"

// KindExec is the kind of all our approvals.
const KindExec = "exec"

// Decisions about an approval.
const (
	AllowOnce   = "allow-once"
	AllowAlways = "allow-always"
	Deny        = "deny"
)

// States of an Approval.
const (
	ApprovalPending   = "pending"
	ApprovalAllowed   = "allowed"
	ApprovalDenied    = "denied"
	ApprovalExpired   = "expired"
	ApprovalCancelled = "cancelled"
)

// Reasons why an Approval is no longer pending.
const (
	ReasonUser       = "user"
	ReasonTimeout    = "timeout"
	ReasonRunAborted = "run-aborted"
)

// Reasons in the details of an error.
const (
	ReasonApprovalNotFound = "APPROVAL_NOT_FOUND"
	ReasonAlreadyResolved  = "APPROVAL_ALREADY_RESOLVED"
)

// ApprovalGetParams are the parameters of approval.get and
// exec.approval.get.
type ApprovalGetParams struct {
	ID string `json:"id" oc:"required,min=1"`
}

// ApprovalResolveParams are the parameters of approval.resolve.
type ApprovalResolveParams struct {
	ID       string `json:"id" oc:"required,min=1"`
	Kind     string `json:"kind" oc:"required,oneof=exec|plugin|system-agent"`
	Decision string `json:"decision" oc:"required,oneof=allow-once|allow-always|deny"`

	Reviewer           json.RawMessage `json:"reviewer"`
	GrantExpiresInDays json.RawMessage `json:"grantExpiresInDays"`
}

// ExecApprovalResolveParams are the parameters of exec.approval.resolve.
type ExecApprovalResolveParams struct {
	ID       string `json:"id" oc:"required,min=1"`
	Decision string `json:"decision" oc:"required,min=1"`

	Reviewer           json.RawMessage `json:"reviewer"`
	GrantExpiresInDays json.RawMessage `json:"grantExpiresInDays"`
}

// ApprovalHistoryParams are the parameters of approval.history.
type ApprovalHistoryParams struct {
	Cursor string `json:"cursor" oc:"min=1,max=512"`
	Limit  int    `json:"limit" oc:"min=1,max=100"`
	Kind   string `json:"kind" oc:"oneof=exec|plugin|system-agent"`
}

// ApprovalHistory answers it.
type ApprovalHistory struct {
	Items      []Approval `json:"items"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

// ApprovalGot answers approval.get.
type ApprovalGot struct {
	Approval Approval `json:"approval"`
}

// ApprovalResult answers approval.resolve.
type ApprovalResult struct {
	Applied  bool     `json:"applied"`
	Approval Approval `json:"approval"`
}

// Approval is a question to a person, open or decided.
type Approval struct {
	ID               string               `json:"id"`
	URLPath          string               `json:"urlPath"`
	CreatedAtMs      int64                `json:"createdAtMs"`
	ExpiresAtMs      int64                `json:"expiresAtMs"`
	Presentation     ApprovalPresentation `json:"presentation"`
	Status           string               `json:"status"`
	SourceSessionKey string               `json:"sourceSessionKey,omitempty"` // of a pending one
	ResolvedAtMs     int64                `json:"resolvedAtMs,omitempty"`
	Source           *ApprovalSource      `json:"source,omitempty"` // of a decided one
	Resolver         *ApprovalResolver    `json:"resolver,omitempty"`
	Decision         string               `json:"decision,omitempty"`
	Reason           string               `json:"reason,omitempty"`
}

// ResolverDevice is the kind of an ApprovalResolver that is a person's token:
// the protocol knows nothing nearer to it.
const ResolverDevice = "device"

// ApprovalResolver is who decided.
type ApprovalResolver struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

// ApprovalSource says where a question came from.
type ApprovalSource struct {
	AgentID    string `json:"agentId,omitempty"`
	SessionKey string `json:"sessionKey,omitempty"`
}

// ApprovalPresentation is what a person is shown.
type ApprovalPresentation struct {
	Kind             string   `json:"kind"` // KindExec
	CommandText      string   `json:"commandText"`
	CommandPreview   string   `json:"commandPreview,omitempty"`
	WarningText      string   `json:"warningText,omitempty"`
	Host             string   `json:"host,omitempty"`
	AgentID          string   `json:"agentId,omitempty"`
	AllowedDecisions []string `json:"allowedDecisions"`
}

// ExecApproval answers exec.approval.get.
type ExecApproval struct {
	ID               string   `json:"id"`
	CommandText      string   `json:"commandText"`
	CommandPreview   string   `json:"commandPreview,omitempty"`
	AllowedDecisions []string `json:"allowedDecisions"`
	Host             string   `json:"host,omitempty"`
	AgentID          string   `json:"agentId,omitempty"`
	ExpiresAtMs      int64    `json:"expiresAtMs"`
}

// NeverMs stands for no end where the protocol wants one: the last moment
// that JavaScript can name.
const NeverMs = 8_640_000_000_000_000

// ApprovalNotFound refuses an id.
func ApprovalNotFound() *Error {
	return &Error{Code: CodeApprovalNotFound, Message: "unknown or expired approval id", Details: ReasonDetails{ReasonApprovalNotFound}}
}

// AlreadyResolved refuses another answer than the one that was given.
func AlreadyResolved() *Error {
	e := Invalid("approval already resolved")
	e.Details = ReasonDetails{ReasonAlreadyResolved}
	return e
}
