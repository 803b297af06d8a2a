package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"sgclaw/internal/agent"
)

// AgentQueue is the task queue of workflows and of the activities that need
// the model and the database.
const AgentQueue = "sgclaw-agent"

// Workflow types, and how their ids are made.
const (
	SessionType = "Session" // id SessionID(key)
	RunType     = "Run"     // id RunWorkflowID(run id)
)

// SingleSession begins the keys of sessions that were made for one task; the
// run's id follows. Such a session ends when it has nothing left to run.
const SingleSession = "cli:"

// MaxAsideBytes bounds the asides of a message together, in bytes.
const MaxAsideBytes = agent.MaxInstruction

// SessionID is the workflow id of a session.
func SessionID(key string) string { return "session/" + key }

// RunWorkflowID is the workflow id of a run.
func RunWorkflowID(runID string) string { return "run/" + runID }

// Names of signals, updates and queries. Each signal of a run has an update
// of the same name, which validates and answers; both take the same payload.
const (
	MessageSignal   = "message"    // to a session: agent.Message
	ConfirmName     = "confirm"    // to a run, signal and update: agent.Answer; the update answers ConfirmReply
	AbortName       = "abort"      // to a run, signal and update: Abort; to a session, signal: Abort of a queued message
	InstructName    = "instruct"   // to a run, signal and update: Instruction
	MoveName        = "move"       // to a run, signal and update: Move
	StateQuery      = "state"      // of a run: State
	TranscriptQuery = "transcript" // of a run: []Line
	InboxQuery      = "inbox"      // of a session: Inbox
)

// Search attributes, all of type Keyword. They are set when a phase changes,
// not at every step.
const (
	AttrState   = "SgState"   // agent.Status
	AttrUser    = "SgUser"    // Origin.User
	AttrBrowser = "SgBrowser" // browser id
	AttrSession = "SgSession" // session key
)

// Abort asks a run to stop.
type Abort struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// RunID is needed on the signal to a session only: which queued message.
	RunID string `json:"run_id,omitempty"`
}

// detail tells engineers who aborted and why.
func (a Abort) detail() string {
	by, reason := shorten(a.By, maxName), shorten(a.Reason, maxNote)
	if by == "" {
		return reason
	}
	return strings.TrimSuffix("by "+by+": "+reason, ": ")
}

// Instruction is something a person adds while a run is under way.
type Instruction struct {
	ID   string `json:"id"` // idempotency key
	Text string `json:"text"`
	By   string `json:"by,omitempty"`
}

// Sum tells apart the texts of instructions.
func (i Instruction) Sum() string {
	sum := sha256.Sum256([]byte(i.Text))
	return hex.EncodeToString(sum[:8])
}

// Move sends a run on to another browser.
type Move struct {
	BrowserID string `json:"browser"`
	By        string `json:"by,omitempty"`
}

// ConfirmReply answers the confirm update. Rejected updates come back as
// application errors of the types below.
type ConfirmReply struct {
	ConfirmID string `json:"confirm_id"`
	Approved  bool   `json:"approved"`
}

// Types of the application errors with which a run's updates are rejected.
const (
	ErrNothingToConfirm = "NothingToConfirm" // no confirmation is open
	ErrUnknownConfirm   = "UnknownConfirm"   // no such confirmation in this run
	ErrAlreadyDecided   = "AlreadyDecided"   // somebody answered before
	ErrConfirmExpired   = "ConfirmExpired"   // it waited too long
	ErrDigestMismatch   = "DigestMismatch"   // what was shown is not what would be done
	ErrRunOver          = "RunOver"          // the run has ended
	ErrInvalid          = "Invalid"          // the payload is not usable
)

// State answers the state query.
type State struct {
	RunID     string              `json:"run_id"`
	Session   string              `json:"session"`
	Browser   string              `json:"browser"`
	Task      string              `json:"task"`
	Status    agent.Status        `json:"status"`
	Step      int                 `json:"step"`
	Confirm   *agent.Confirmation `json:"confirm,omitempty"` // the open question
	Usage     agent.Usage         `json:"usage"`
	StartedAt time.Time           `json:"started_at"`
	Page      agent.Page          `json:"page,omitzero"`
}

// Line is one line of the transcript query: what a run did, for an operator.
// The whole text is in the database.
type Line struct {
	Step    int           `json:"step"`
	Action  string        `json:"action"`
	Outcome agent.Outcome `json:"outcome"`
	Code    string        `json:"code,omitempty"`
	MS      int64         `json:"ms"`
}

// Inbox answers the inbox query of a session.
type Inbox struct {
	Running string   `json:"running,omitempty"` // run id
	Queued  []string `json:"queued"`            // message ids, in order
	// Tasks are the beginnings of the queued messages' texts.
	Tasks []string `json:"tasks,omitempty"`
	// Steered are the ids of the messages that were added to the run under
	// way. Those that it has not read when it ends are queued.
	Steered []string `json:"steered,omitempty"`
}

// Outcome is the result of a run's workflow; the whole result is in the
// database.
type Outcome struct {
	RunID   string       `json:"run_id"`
	Status  agent.Status `json:"status"`
	Success bool         `json:"success"`
	Reason  string       `json:"reason,omitempty"`
	Summary string       `json:"summary"`
	Steps   int          `json:"steps"`
	Usage   agent.Usage  `json:"usage"`
	// Unread are the ids of the instructions that the model was not shown
	// any more.
	Unread []string `json:"unread,omitempty"`
}
