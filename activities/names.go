package activities

import (
	"context"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"sgclaw/internal/agent"
)

// Names of the activities that a worker serves on the agent's queue.
const (
	AcceptName   = "accept"   // of a session: AcceptInput, AcceptResult
	BeginName    = "begin"    // BeginInput, BeginResult
	PrepareName  = "prepare"  // PrepareResult: fixes what the run is shown of its session's past
	ThinkName    = "think"    // ThinkInput, ThinkResult
	CriticName   = "critic"   // CriticInput, Verdict
	StatusName   = "status"   // StatusInput
	AskName      = "ask"      // AskInput
	DecideName   = "decide"   // DecideInput
	InstructName = "instruct" // InstructInput
	FinishName   = "finish"   // FinishInput, FinishResult
)

// Types of the application errors that workflows tell apart. Everything
// else is a fault of the surroundings and retried by Temporal.
const (
	ErrContextTooLong = "LLMContextTooLong" // think: send less
	ErrModelFinal     = "LLMFinal"          // think: trying again will not help; the message says why
	ErrSuperseded     = "Superseded"        // any: the run was rewound and goes on elsewhere
	ErrConflict       = "Conflict"          // any: the id was used before for something else
	ErrNotFound       = "NotFound"          // any: the record has no such run, reply or question
	ErrRecordAway     = "RecordAway"        // any: the database cannot be used at the moment
	ErrInvalid        = "Invalid"           // any: what was given can never be recorded; the message says why
	ErrNoAgent        = "NoAgent"           // begin: no such agent is configured; the message is its id
)

// AcceptInput records that a session took a message.
type AcceptInput struct {
	Session string        `json:"session"`
	Message agent.Message `json:"message"`
}

// AcceptResult says where the message's run stands; Final means that this is
// a message from long ago, which is not run again.
type AcceptResult struct {
	Final bool `json:"final,omitempty"`
	// Mode is what becomes of the message if a run is under way; empty is
	// queue.
	Mode agent.Mode `json:"mode,omitempty"`
}

// BeginInput starts the record of a run.
type BeginInput struct {
	Session   string        `json:"session"`
	Message   agent.Message `json:"message"`
	StartedAt time.Time     `json:"started_at"`
}

// BeginResult is what the run needs to decide.
type BeginResult struct {
	Settings agent.Settings `json:"settings"` // every field filled
	Browser  string         `json:"browser"`
	// Snapshot: effects are followed by a snapshot.
	Snapshot bool `json:"snapshot,omitempty"`
	// WaitMS is how long the browser's circuit breaker still cools.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

// PrepareResult tells what the run is shown of its session's past.
type PrepareResult struct {
	Messages int `json:"messages,omitempty"`
	Tokens   int `json:"tokens,omitempty"` // of them and the summary
	// Summarised: the model was asked to sum up what is older.
	Summarised bool   `json:"summarised,omitempty"`
	Usage      Tokens `json:"tok,omitzero"`
	// Note is why there is less than there should be, e.g. the model could
	// not be asked.
	Note string `json:"note,omitempty"`
}

// ThinkInput asks for the model's next reply.
//
// RunID is empty when the run itself asks: its workflow's id says it, and
// histories stay small. The same holds for CriticInput and ActInput.
type ThinkInput struct {
	RunID string `json:"run,omitempty"`
	Step  int    `json:"step"`
	// Compact says how much of the conversation to leave out, 0 to
	// MaxCompact, after the model found it too long.
	Compact int `json:"compact,omitempty"`
}

// MaxCompact is the strongest compaction of a conversation.
const MaxCompact = 3

// ThinkResult is the model's reply, without its text: that is in the
// database.
type ThinkResult struct {
	Final bool `json:"final,omitempty"` // the task is over
	// GaveUp: the model says that it could not do the task.
	GaveUp bool         `json:"gave_up,omitempty"`
	Calls  []agent.Call `json:"calls,omitempty"`
	// Summary is the final answer, shortened for the history.
	Summary string `json:"summary,omitempty"`
	Tokens  Tokens `json:"tok"`
}

// Tokens are prompt and completion tokens, short for the history.
type Tokens [2]int

// Usage is the count in the domain's words.
func (t Tokens) Usage() agent.Usage {
	return agent.Usage{PromptTokens: t[0], CompletionTokens: t[1], TotalTokens: t[0] + t[1]}
}

// CriticInput records an action and what came of it, and asks whether the
// run may go on.
type CriticInput struct {
	RunID   string `json:"run,omitempty"`
	Step    int    `json:"step"`
	Index   int    `json:"i,omitempty"` // of the call in the recorded reply
	Browser string `json:"b"`
	// Result comes without text and page when it has a Ref: the body has
	// both.
	Result agent.Result `json:"result"`
	// ActiveMS is how long the run has thought and acted, in milliseconds. It
	// is a sum and not a difference of times: a run that is rewound a day
	// later has not worked for a day.
	ActiveMS int64 `json:"active"`
	TookMS   int64 `json:"took"`
	// Look is a snapshot taken because the outcome is unknown.
	Look *agent.Result `json:"look,omitempty"`
	// Note is what a person said when refusing.
	Note string `json:"note,omitempty"`
	// Last says that the run ends with this action: nobody waits for an
	// observation that cannot be fetched at once.
	Last bool `json:"last,omitempty"`
}

// Verdict is the critic's (seed 001 §2.6, CriticVerdict).
type Verdict struct {
	Abort   bool   `json:"abort,omitempty"`
	Reason  string `json:"reason,omitempty"` // one of agent's Reason constants
	Warning string `json:"warning,omitempty"`
}

// StatusInput tells watchers that a run entered a state. Key makes it once.
type StatusInput struct {
	RunID   string       `json:"run"`
	Step    int          `json:"step"`
	Key     string       `json:"key"`
	Status  agent.Status `json:"status"`
	Detail  string       `json:"detail,omitempty"`
	Browser string       `json:"browser,omitempty"`
}

// AskInput records a question to a person and announces it.
type AskInput struct {
	RunID        string             `json:"run"`
	Step         int                `json:"step"`
	Confirmation agent.Confirmation `json:"confirmation"`
}

// Decisions on a confirmation.
const (
	DecisionApproved = "approved"
	DecisionRejected = "rejected"
	DecisionExpired  = "expired"
	DecisionVoid     = "void" // the run ended before anybody answered
)

// DecideInput records what became of a question.
type DecideInput struct {
	RunID    string       `json:"run"`
	Step     int          `json:"step"`
	Decision string       `json:"decision"`
	Answer   agent.Answer `json:"answer"`
	At       time.Time    `json:"at"`
}

// InstructInput records an instruction given in mid-run, after Step.
type InstructInput struct {
	RunID string `json:"run"`
	Step  int    `json:"step"`
	ID    string `json:"id"`
	Text  string `json:"text"`
	By    string `json:"by,omitempty"`
}

// FinishInput ends the record of a run.
type FinishInput struct {
	RunID   string       `json:"run"`
	Step    int          `json:"step"`
	Status  agent.Status `json:"status"`
	Reason  string       `json:"reason,omitempty"`
	Summary string       `json:"summary,omitempty"` // empty: the model's last answer, or the reason in the person's language
	Detail  string       `json:"detail,omitempty"`  // for engineers, e.g. the model's error
	Why     string       `json:"why,omitempty"`     // in the words of the person who aborted it
	EndedAt time.Time    `json:"ended_at"`
}

// FinishResult is what the run's workflow returns and the browser is told.
type FinishResult struct {
	Summary string `json:"summary"` // shortened to MaxSummary bytes
}

// MaxSummary bounds a summary in the history, in bytes. The whole is in the
// database.
const MaxSummary = 2 << 10

// RunID is the run in whose workflow an activity runs, unless the input says
// otherwise.
func RunID(ctx context.Context, said string) string {
	if said != "" {
		return said
	}
	return strings.TrimPrefix(activity.GetInfo(ctx).WorkflowExecution.ID, "run/")
}
