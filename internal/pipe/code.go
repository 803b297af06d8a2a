package pipe

import "fmt"

// Code is an error code of the pipe (seed 001 §5.3 and the additions that
// docs/pipe.md marks). The prefix says who speaks: PIPE_ the transport, MAC_
// the policy, CMD_ the execution of a command, SESSION_ log-in, INTERNAL_ a
// fault.
type Code string

// The codes of seed 001 §5.3.
const (
	CodeInvalidJSON      Code = "PIPE_INVALID_JSON"
	CodeMessageTooLarge  Code = "PIPE_MESSAGE_TOO_LARGE"
	CodeSeqDuplicate     Code = "PIPE_SEQ_DUPLICATE"
	CodeSeqOutOfOrder    Code = "PIPE_SEQ_OUT_OF_ORDER"
	CodeHMACInvalid      Code = "PIPE_HMAC_INVALID"
	CodeActionBlocked    Code = "MAC_ACTION_BLOCKED"
	CodeActionNotAllowed Code = "MAC_ACTION_NOT_ALLOWED"
	CodeDomainNotAllowed Code = "MAC_DOMAIN_NOT_ALLOWED"
	CodeDomainMismatch   Code = "MAC_DOMAIN_MISMATCH"
	CodeRateLimit        Code = "MAC_RATE_LIMIT"
	CodeNeedConfirm      Code = "MAC_NEED_CONFIRM"
	CodeSelectorNotFound Code = "CMD_SELECTOR_NOT_FOUND"
	CodeSelectorTimeout  Code = "CMD_SELECTOR_TIMEOUT"
	CodeNavigationFailed Code = "CMD_NAVIGATION_FAILED"
	CodeZombiePoolFull   Code = "CMD_ZOMBIE_POOL_FULL"
	CodeZombieNotFound   Code = "CMD_ZOMBIE_NOT_FOUND"
	CodeSessionExpired   Code = "SESSION_EXPIRED"
	CodeSessionLoginFail Code = "SESSION_LOGIN_FAILED"
	CodeInternal         Code = "INTERNAL_UNKNOWN"
)

// Additions to seed 001 §5.3.
const (
	CodeNoInit          Code = "PIPE_NO_INIT"           // no init within 5 s
	CodeVersionMismatch Code = "PIPE_VERSION_MISMATCH"  // the two sides speak different versions
	CodeInvalidSeed     Code = "PIPE_INVALID_SEED"      // hmac_seed is not 32 to 64 hex digits
	CodeUnknownType     Code = "PIPE_UNKNOWN_TYPE"      // no such message, or not in this state
	CodeInvalidMessage  Code = "PIPE_INVALID_MESSAGE"   // JSON, but not as the schema wants it
	CodeUnknownSeq      Code = "PIPE_UNKNOWN_SEQ"       // a response for a command that was not sent
	CodeUnknownTask     Code = "PIPE_UNKNOWN_TASK"      // no task has that task_id
	CodeTaskOver        Code = "PIPE_TASK_OVER"         // the task has ended
	CodeUnknownConfirm  Code = "PIPE_UNKNOWN_CONFIRM"   // no question has that action_id
	CodeConfirmOver     Code = "PIPE_CONFIRM_OVER"      // the question was answered, or expired
	CodeStorageKey      Code = "MAC_STORAGE_KEY"        // storage key without the policy's prefix
	CodeGrantInvalid    Code = "MAC_GRANT_INVALID"      // the grant is for something else, or was used
	CodeConfirmRejected Code = "MAC_CONFIRM_REJECTED"   // a host that asked by itself was told no
	CodeInvalidParams   Code = "CMD_INVALID_PARAMS"     // parameters do not fit the action's schema
	CodeRefStale        Code = "CMD_REF_STALE"          // the ref's element is gone or changed; take a snapshot
	CodeNotActionable   Code = "CMD_NOT_ACTIONABLE"     // hidden, disabled, moving or covered
	CodeNotEditable     Code = "CMD_NOT_EDITABLE"       // nothing can be typed there
	CodeOptionNotFound  Code = "CMD_OPTION_NOT_FOUND"   // the select has no such option
	CodeInvalidSelector Code = "CMD_INVALID_SELECTOR"   // not CSS and not a ref
	CodeDialogOpen      Code = "CMD_DIALOG_OPEN"        // a native dialog blocks the page
	CodePageCrashed     Code = "CMD_PAGE_CRASHED"       // the renderer died
	CodeTimeout         Code = "CMD_TIMEOUT"            // no response within 30 s; the outcome is unknown
	CodeNoPage          Code = "CMD_NO_PAGE"            // no page yet; navigate first
	CodeStorageFailed   Code = "CMD_STORAGE_FAILED"     // the page's storage cannot be used
	CodeNoCredentials   Code = "SESSION_NO_CREDENTIALS" // the host has none for that domain
	CodeOutcomeUnknown  Code = "CMD_OUTCOME_UNKNOWN"    // sent before a crash, never answered
	CodeBrowserGone     Code = "CMD_BROWSER_GONE"       // the browser died and could not be started again
	CodeCancelled       Code = "CMD_CANCELLED"          // the agent took the command back; nothing was done
)

// Error is a failure with a code, a message that says what was wrong, and
// where possible what to do.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an Error.
func Errorf(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}
