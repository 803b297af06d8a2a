package pipe

import (
	"encoding/json"
	"time"

	"sgclaw/internal/agent"
)

// Version is the protocol's version, as init and init_ack carry it.
const Version = "1.0"

// Limits and times of the protocol.
const (
	MaxLine          = 1 << 20          // bytes of a line without its LF (seed 001 §5.3)
	HandshakeTimeout = 5 * time.Second  // from start to init, from init to init_ack (seed 001 §5.4)
	CommandTimeout   = 30 * time.Second // from command to response (seed 001 §2.3)
	StopGrace        = 2 * time.Second  // from shutdown to exit, then SIGTERM, then as long again to SIGKILL (seed 001 §3.1)
)

// Type is the "type" of a message.
type Type string

// Messages from the browser to the agent.
const (
	TypeInit           Type = "init"
	TypeResponse       Type = "response"
	TypeConfirmPending Type = "confirm_pending"
	TypeSubmitTask     Type = "submit_task"
	TypeAbortTask      Type = "abort_task"
	TypeConfirm        Type = "confirm"
	TypeShutdown       Type = "shutdown"
)

// Messages from the agent to the browser.
const (
	TypeInitAck         Type = "init_ack"
	TypeCommand         Type = "command"
	TypeCancel          Type = "cancel"
	TypeTaskAccepted    Type = "task_accepted"
	TypeLog             Type = "log"
	TypeState           Type = "state"
	TypeConfirmRequired Type = "confirm_required"
	TypeTaskComplete    Type = "task_complete"
	TypeError           Type = "error"
)

// Capabilities that init may announce.
const (
	// CapSnapshotAfter: the host honours Command.SnapshotAfter.
	CapSnapshotAfter = "snapshot_after"
	// CapHoldConfirm: the host may hold a command and ask by itself,
	// announcing it with confirm_pending.
	CapHoldConfirm = "hold_confirm"
	// CapPageID: actions take page_id.
	CapPageID = "page_id"
	// CapCancel: the agent may take commands back, see Cancel.
	CapCancel = "cancel"
)

// Init opens the conversation (seed 001 §5.1, PipeInitMessage).
type Init struct {
	Type         Type     `json:"type"`
	Version      string   `json:"version"`
	HMACSeed     string   `json:"hmac_seed"`
	Capabilities []string `json:"capabilities,omitempty"`
	// BrowserID names the browser profile for good; if it is absent the
	// agent makes one and keeps it.
	BrowserID string `json:"browser_id,omitempty"`
	// Page is where the browser's main page stands.
	Page *agent.Page `json:"page,omitempty"`
}

// InitAck answers Init (seed 001 §5.1, PipeInitAckMessage).
type InitAck struct {
	Type             Type     `json:"type"`
	Version          string   `json:"version"`
	AgentID          string   `json:"agent_id"` // UUID v4, new for each process
	SupportedActions []string `json:"supported_actions"`
	BrowserID        string   `json:"browser_id,omitempty"` // the id in use, so that a host can keep it
}

// Command asks for one action (seed 001 §5.1, PipeCommandMessage).
type Command struct {
	Seq    uint64          `json:"seq"`
	Type   Type            `json:"type"`
	Action string          `json:"action"`
	Params json.RawMessage `json:"params"`
	// PageID addresses a zombie page; absent means the main page.
	PageID string `json:"page_id,omitempty"`
	// SnapshotAfter asks for the compact snapshot in the response's data.
	SnapshotAfter bool     `json:"snapshot_after,omitempty"`
	Security      Security `json:"security"`
}

// Cancel takes a command back that nobody waits for any more. One that has
// not begun, that is held, or that only reads is given up and answered
// CodeCancelled; an effect under way goes on and is answered as ever. A
// cancel for a command that is unknown or answered is ignored.
type Cancel struct {
	Type Type   `json:"type"`
	Seq  uint64 `json:"seq"` // of the command
}

// Security guards a command.
type Security struct {
	ExpectedDomain string `json:"expected_domain"`
	// Grant is a person's yes to exactly this command, once.
	Grant *agent.Grant `json:"grant,omitempty"`
	HMAC  string       `json:"hmac"`
}

// Response answers the command with the same Seq (seed 001 §5.1,
// PipeResponseMessage).
type Response struct {
	Seq     uint64 `json:"seq"`
	Type    Type   `json:"type"`
	Success bool   `json:"success"`
	Data    *Data  `json:"data,omitempty"`
	Error   *Error `json:"error,omitempty"`
	// AOMSnapshot is the seed's tree, sent only when getAomSnapshot asks for
	// it with format "tree".
	AOMSnapshot []AOMNode `json:"aom_snapshot,omitempty"`
	Timing      *Timing   `json:"timing,omitempty"`
}

// Data is what a response carries; which fields are set depends on the
// action.
type Data struct {
	Page     *agent.Page `json:"page,omitempty"`     // where the page stands afterwards, also with errors
	Text     string      `json:"text,omitempty"`     // getText, storageGet, and a short account of what was done
	HTML     string      `json:"html,omitempty"`     // getHtml
	Snapshot string      `json:"snapshot,omitempty"` // compact snapshot for the model
	Tokens   int         `json:"tokens,omitempty"`   // of Snapshot, estimated
	Image    []byte      `json:"image,omitempty"`    // pageScreenshot, base64 on the wire
	MIME     string      `json:"mime,omitempty"`
	Width    int         `json:"width,omitempty"`
	Height   int         `json:"height,omitempty"`
	Scale    float64     `json:"scale,omitempty"`
	PageID   string      `json:"page_id,omitempty"` // zombieSpawn
	Value    string      `json:"value,omitempty"`   // value of the field after type or select; masked for passwords
	Matched  int         `json:"matched,omitempty"` // elements that the selector matched
	Found    *bool       `json:"found,omitempty"`   // storageGet: whether the key exists
	// Truncated says that Text, HTML, Snapshot or Image is not all of it;
	// Rest says how to get the rest.
	Truncated bool   `json:"truncated,omitempty"`
	Rest      string `json:"rest,omitempty"`
	// Events are what happened besides: dialogs, downloads, new tabs,
	// navigations.
	Events []PageEvent `json:"events,omitempty"`
	// Confirm says what a person must confirm, with MAC_NEED_CONFIRM.
	Confirm *ConfirmAsk `json:"confirm,omitempty"`
	// RetryAfterMS goes with MAC_RATE_LIMIT.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

// ConfirmAsk is what a delicate command would act on, as the host sees it.
type ConfirmAsk struct {
	agent.Subject
	// Image is a small picture of the element, JPEG.
	Image []byte `json:"image,omitempty"`
	// Digest is agent.Digest of the command and the subject; a grant must
	// carry it.
	Digest string `json:"digest"`
}

// PageEvent is something that happened on a page besides the command.
type PageEvent struct {
	Kind string `json:"kind"` // "dialog", "download", "popup", "navigation", "crash", "blocked", "auth", "filechooser"
	Text string `json:"text"`
}

// AOMNode is a node of the seed's snapshot tree. Ref and States are
// additions that its schema allows.
type AOMNode struct {
	Role     string    `json:"role"`
	Name     string    `json:"name"`
	Bounds   [4]int    `json:"bounds"` // x, y, width, height in CSS pixels, relative to the viewport
	Value    string    `json:"value,omitempty"`
	Ref      string    `json:"ref,omitempty"`
	States   []string  `json:"states,omitempty"`
	Children []AOMNode `json:"children,omitempty"`
}

// Timing says how long a command waited in the host and took.
type Timing struct {
	QueueMS int64 `json:"queue_ms"`
	ExecMS  int64 `json:"exec_ms"`
}

// ConfirmPending tells the agent that the host holds a command and asks a
// person by itself; the command's clock stands still until its response.
type ConfirmPending struct {
	Type Type       `json:"type"`
	Seq  uint64     `json:"seq"`
	Ask  ConfirmAsk `json:"ask"`
}

// SubmitTask hands the agent a task.
type SubmitTask struct {
	Type Type `json:"type"`
	// TaskID is the browser's id and the idempotency key: the same id again
	// is the same task. 1 to 128 of [A-Za-z0-9._:-].
	TaskID      string `json:"task_id"`
	Instruction string `json:"instruction"`
	// Session is a session key; absent, the task gets a session of its own.
	Session string `json:"session,omitempty"`
	Locale  string `json:"locale,omitempty"`
}

// AbortTask stops a task.
type AbortTask struct {
	Type   Type   `json:"type"`
	TaskID string `json:"task_id"`
	Reason string `json:"reason,omitempty"`
}

// Confirm answers a confirm_required (seed 001 §4.1: action_id, approved).
type Confirm struct {
	Type     Type   `json:"type"`
	ActionID string `json:"action_id"`
	Approved bool   `json:"approved"`
	By       string `json:"by,omitempty"`
	Note     string `json:"note,omitempty"`
	// Scope is agent.ScopeRun if the yes holds for the rest of the run.
	Scope string `json:"scope,omitempty"`
}

// Shutdown asks the agent to end: finish or record the command in hand and
// exit 0 within 2 s.
type Shutdown struct {
	Type Type `json:"type"`
}

// TaskAccepted tells that a task became a run that survives everything.
type TaskAccepted struct {
	Type   Type   `json:"type"`
	TaskID string `json:"task_id"`
	RunID  string `json:"run_id"`
}

// Log is a line for the execution log (seed 001 §4.1, onLogEntry).
type Log struct {
	Type    Type      `json:"type"`
	TaskID  string    `json:"task_id,omitempty"`
	Time    time.Time `json:"time"`  // UTC, RFC 3339
	Level   string    `json:"level"` // "info", "warn" or "error"
	Message string    `json:"message"`
}

// States of an agent.
const (
	StateStarting = "starting" // not yet connected to the server
	StateRunning  = "running"
	StateOffline  = "offline" // the server is away; tasks are kept
	StateStopped  = "stopped"
)

// State tells how the agent stands (seed 001 §4.1, onStateChanged).
type State struct {
	Type Type `json:"type"`
	// State is one of the State constants.
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
	// TaskID and Status tell of a task's state (agent.Status).
	TaskID string `json:"task_id,omitempty"`
	Status string `json:"status,omitempty"`
}

// ConfirmRequired asks the person at the browser (seed 001 §4.1,
// onConfirmRequired: id, type, domain).
type ConfirmRequired struct {
	Type     Type          `json:"type"`
	TaskID   string        `json:"task_id"`
	ActionID string        `json:"action_id"`
	Action   string        `json:"action"`
	Domain   string        `json:"domain"`
	Ask      agent.Subject `json:"ask"`
	Image    []byte        `json:"image,omitempty"`
}

// TaskComplete ends a task (seed 001 §4.1, onTaskCompleted).
type TaskComplete struct {
	Type    Type   `json:"type"`
	TaskID  string `json:"task_id"`
	RunID   string `json:"run_id"`
	Success bool   `json:"success"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Summary string `json:"summary"`
}

// ErrorMessage tells the other side that a line could not be used. Seq is
// set when it was a command or a response that could be read so far.
type ErrorMessage struct {
	Type    Type   `json:"type"`
	Seq     uint64 `json:"seq,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}
