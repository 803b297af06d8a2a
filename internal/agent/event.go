package agent

import (
	"encoding/json"
	"time"
)

// EventKind names what an Event tells.
type EventKind string

// The kinds of events. Delta is announced but not stored.
const (
	EventAccepted   EventKind = "accepted"         // Data: AcceptedEvent
	EventState      EventKind = "state"            // Data: StateEvent
	EventThought    EventKind = "thought"          // Data: ThoughtEvent, a whole model reply
	EventDelta      EventKind = "delta"            // Data: DeltaEvent, a piece of a reply being written
	EventStep       EventKind = "step"             // Data: StepEvent, an action and what came of it
	EventConfirm    EventKind = "confirm_required" // Data: Confirmation
	EventConfirmed  EventKind = "confirmed"        // Data: Answer
	EventDone       EventKind = "done"             // Data: TaskResult without steps
	EventInstructed EventKind = "instructed"       // Data: InstructedEvent, what a person added in mid-run
	EventEntry      EventKind = "entry"            // Data: EntryEvent; RunID is the entry's id
	EventSession    EventKind = "session"          // Data: SessionEvent; RunID is empty
)

// Event is what a watcher of a session sees. Seq grows by one per session,
// without gaps; a delta has none (0).
type Event struct {
	Session string          `json:"session"`
	Seq     int64           `json:"seq,omitempty"`
	RunID   string          `json:"run_id"`
	Kind    EventKind       `json:"kind"`
	At      time.Time       `json:"at"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// AcceptedEvent tells that a session took a task.
type AcceptedEvent struct {
	Task    string `json:"task"`
	Browser string `json:"browser"`
	// Mode is what becomes of it if the session is busy; empty if nobody
	// said.
	Mode Mode `json:"mode,omitempty"`
}

// StateEvent tells that a run entered a state.
type StateEvent struct {
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Rewound, if set, is the step from which the run goes on anew: what
	// earlier events told of later steps is void, and of this one, what is
	// told again.
	Rewound *int `json:"rewound,omitempty"`
}

// ThoughtEvent is a model's whole reply. Attempt grows when a call had to be
// repeated; text of earlier attempts is void.
type ThoughtEvent struct {
	Step    int    `json:"step"`
	Model   string `json:"model,omitempty"`
	Text    string `json:"text,omitempty"`
	Calls   []Call `json:"calls,omitempty"`
	Usage   Usage  `json:"usage"`
	TookMS  int64  `json:"took_ms"`
	Attempt int    `json:"attempt,omitempty"`
}

// DeltaEvent is a piece of a reply being written.
type DeltaEvent struct {
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"`
	Text    string `json:"text"`
}

// StepEvent tells what came of an action.
type StepEvent struct {
	Step        int     `json:"step"`
	Call        Call    `json:"call"`
	Outcome     Outcome `json:"outcome"`
	Code        string  `json:"code,omitempty"`
	Observation string  `json:"observation,omitempty"` // the beginning
	Page        Page    `json:"page,omitzero"`
	DurationMS  int64   `json:"duration_ms"`
}

// InstructedEvent tells what a person added to a run, which the model reads
// before its next step.
type InstructedEvent struct {
	ID   string `json:"id"`
	Step int    `json:"step"` // the last one whose thinking had begun
	Text string `json:"text"`
	By   string `json:"by,omitempty"`
}

// EntryEvent tells that something was added to a session's history that no
// run said.
type EntryEvent struct {
	ID    string `json:"id"`
	Role  string `json:"role"` // "user", "assistant", "tool" or "note"
	Label string `json:"label,omitempty"`
	Text  string `json:"text"`
	By    string `json:"by,omitempty"`
}

// SessionEvent tells that somebody changed a session.
type SessionEvent struct {
	What string `json:"what"` // "patched", "reset", "deleted" or "compacted"
	By   string `json:"by,omitempty"`
}
