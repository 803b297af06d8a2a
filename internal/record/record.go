// Package record is what activities and the store hand each other: the
// written record of a run. It holds plain data only, so that neither needs to
// know the other.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
)

// Errors that a store promises.
var (
	// ErrNotFound: there is no such run, session or confirmation.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the id was used before, for something else.
	ErrConflict = errors.New("the id was used before for something else")
	// ErrInvalid: what was given can never be recorded; the error says why.
	ErrInvalid = errors.New("invalid input")
	// ErrSuperseded: the run was rewound, and another execution goes on with
	// it. Whoever gets this must stop.
	ErrSuperseded = errors.New("the run was rewound and goes on elsewhere")
)

// Fence says in whose name something is written. A run is executed by a
// chain of Temporal executions; an execution that is new to the run takes it
// over, and whatever earlier executions wrote from Step on is set aside.
type Fence struct {
	RunID     string
	Execution string // Temporal's id of the execution
	Step      int
}

// Begin starts the record of a run.
type Begin struct {
	Session   string
	Message   agent.Message
	Settings  agent.Settings // every field filled
	Browser   string
	StartedAt time.Time
}

// Run is a run as the record has it.
type Run struct {
	ID        string
	Session   string
	Browser   string
	Task      string
	Status    agent.Status
	Reason    string
	Summary   string
	Detail    string
	Marker    string // random id that marks untrusted text in prompts
	Origin    agent.Origin
	Settings  agent.Settings
	Aside     []agent.Aside // what others said before the task, untrusted
	Usage     agent.Usage
	Models    map[string]agent.Usage
	Steps     int
	CreatedAt time.Time
	StartedAt time.Time
	EndedAt   time.Time
}

// Session is a conversation as the record has it.
type Session struct {
	Key       string
	Agent     string // id; empty is the default agent
	Settings  SessionSettings
	LastSeq   int64 // of its newest event
	CreatedAt time.Time
	UpdatedAt time.Time
	// Since is where its history begins: what was said before was reset.
	Since time.Time
	// DeletedAt is zero unless it was deleted and nobody has spoken in it
	// since.
	DeletedAt time.Time
	// Runs counts the runs since then, Active is the id of the one under way
	// (or waiting to be), Queued how many wait.
	Runs   int
	Active string
	Queued int
	Usage  agent.Usage
	// LastTask and LastText are the beginnings of the newest run's task and
	// answer.
	LastTask, LastText string
}

// SessionSettings are what people set for a session. Empty fields leave it
// to the agent's configuration.
type SessionSettings struct {
	Label   string                `json:"label,omitempty"` // at most 200 bytes
	Mode    agent.Mode            `json:"mode,omitempty"`
	Model   string                `json:"model,omitempty"`
	Browser string                `json:"browser,omitempty"`
	Context *agent.ContextOptions `json:"context,omitempty"`
}

// Entry is a piece of a session's history that no run made.
type Entry struct {
	ID    string // unique in its session, chosen by the caller
	Role  string // "user", "assistant", "tool" or "note"
	Label string
	Text  string
	By    string
	Data  json.RawMessage // EntryData; empty if there is no more to say
	At    time.Time
}

// EntryData is what an entry has besides its text.
type EntryData struct {
	Calls   []agent.Call  `json:"calls,omitempty"`   // of an assistant's
	Call    *agent.Call   `json:"call,omitempty"`    // that a tool's entry answers
	Outcome agent.Outcome `json:"outcome,omitempty"` // of a tool's
	Code    string        `json:"code,omitempty"`    // of a tool's
	Model   string        `json:"model,omitempty"`
	Usage   agent.Usage   `json:"usage,omitzero"`
	// RunID is the run that said it where it was exported.
	RunID string `json:"run_id,omitempty"`
	// Kind and Body are a line of a transcript that is no message: its type,
	// and the line as it was.
	Kind string          `json:"kind,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Detail reads Data.
func (e *Entry) Detail() (EntryData, error) {
	var d EntryData
	if len(e.Data) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return d, fmt.Errorf("data of entry %s: %w", e.ID, err)
	}
	return d, nil
}

// Past is what was said in a session, after its last reset and its newest
// summary, oldest first.
type Past struct {
	Summary *Summary // nil if there is none
	Parts   []Part
}

// Part is a whole run or an entry of a session's past.
type Part struct {
	ID string // of the run or the entry
	// At is its place in the history: when the run ended or the entry was
	// added.
	At    time.Time
	Entry *Entry
	// Run and Turns: what was said and done in it. Turns have no pictures.
	Run   *Run
	Turns []Turn
}

// Summary is what carries on the beginning of a long session.
type Summary struct {
	Text   string
	UpTo   time.Time // Part.At of the last part that it covers
	UpToID string    // and its Part.ID
	Model  string
	Usage  agent.Usage
	At     time.Time
}

// Context is what a run is shown of its session's past, fixed when it
// begins.
type Context struct {
	Summary string        `json:"summary,omitempty"`
	Turns   []ContextTurn `json:"turns,omitempty"`
}

// ContextTurn is one message of the past. A tool's answer follows the calls
// that it answers.
type ContextTurn struct {
	Role   string        `json:"role"` // "user", "assistant", "tool" or "note"
	Text   string        `json:"text,omitempty"`
	Calls  []agent.Call  `json:"calls,omitempty"`   // of an assistant's
	CallID string        `json:"call_id,omitempty"` // of a tool's
	Done   agent.Outcome `json:"outcome,omitempty"` // of a tool's
	Code   string        `json:"code,omitempty"`    // of a tool's
	// Cut is how many bytes of the text are left out; without any Text it
	// was a view of a page, which is out of date.
	Cut int       `json:"cut,omitempty"`
	At  time.Time `json:"at,omitzero"`
}

// Thought is a model's reply on record.
type Thought struct {
	Text string
	// Calls are what the reply asks for; ProviderIDs, of the same length,
	// are the ids that the model gave them.
	Calls       []agent.Call
	ProviderIDs []string
	Final       bool
	GaveUp      bool
	// Nudge is what to tell the model about a reply that was of no use.
	Nudge   string
	Usage   agent.Usage
	Model   string
	TookMS  int64
	Attempt int
}

// Observation is an action and what came of it.
type Observation struct {
	Index   int // of the call in its reply
	Call    agent.Call
	Outcome agent.Outcome
	Code    string
	Text    string // whole, untrusted
	Image   []byte
	MIME    string
	Page    agent.Page
	TookMS  int64
	// Signature identifies the action with its parameters, to see
	// repetition.
	Signature string
}

// Judge is called inside the transaction that records an observation: it
// gets the signatures of the run's last actions, newest last and this one
// included, and the breaker of the run's browser, and returns the breaker as
// it shall stand and the verdict to keep.
type Judge func(recent []string, b critic.Breaker) (critic.Breaker, critic.Verdict)

// TurnKind says what a Turn is.
type TurnKind string

// The kinds of turns.
const (
	TurnTask        TurnKind = "task"
	TurnInstruction TurnKind = "instruction"
	TurnThought     TurnKind = "thought"
	TurnObservation TurnKind = "observation"
)

// Turn is one entry of a run's conversation, in order. Text is set for tasks
// and instructions, ID for instructions.
type Turn struct {
	Kind        TurnKind
	Step        int
	ID          string
	At          time.Time // when it was recorded
	Text        string
	By          string
	Thought     *Thought
	Observation *Observation
}
