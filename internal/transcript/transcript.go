// Package transcript writes a session's history as JSON Lines and reads it
// back, so that a session can be kept or moved. The format is described in
// docs/transcripts.md; it is OpenClaw's archive format, with what only we
// have in fields and line types of our own, so that its archives can be read
// too (research on OpenClaw 2026.9, transcripts).
//
// Reading is strict: everything is checked before anything is used, and every
// fault is reported with its line.
package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/record"
)

// Limits of a transcript.
const (
	MaxLine  = 1 << 20  // bytes of a line
	MaxFile  = 64 << 20 // bytes
	MaxLines = 50_000
	MaxText  = 256 << 10 // bytes of a message's text, and of its calls
	MaxCalls = 100       // of one message
	maxID    = 512       // bytes
	maxLabel = 200       // bytes
)

// Version is the version of the format, OpenClaw's.
const Version = 4

// Kinds of items that are no messages, as EntryData.Kind has them.
const (
	KindConfirmation = "sgclaw.confirmation" // Body is Confirmation
	KindSummary      = "compaction"          // Text sums up what stands before
	KindBranch       = "branch_summary"      // Text sums up what was left
	KindReset        = "reset"               // the conversation began anew
)

// Session is a transcript.
type Session struct {
	Key   string // of the session that was written
	Agent string
	Label string
	At    time.Time // when it was made
	Items []Item    // oldest first
	// Skipped counts the lines that were read and left out, by type.
	Skipped map[string]int
}

// Item is a message of a session, or a note.
type Item struct {
	ID    string // unique in the transcript
	Role  string // "user", "assistant", "tool" or "note"
	Text  string
	Label string
	By    string // who said it
	At    time.Time
	record.EntryData
}

// Confirmation is a question to a person and what became of it.
type Confirmation struct {
	Question  agent.Confirmation `json:"question"`
	Decision  string             `json:"decision,omitempty"` // empty while it is open
	By        string             `json:"by,omitempty"`
	Note      string             `json:"note,omitempty"`
	DecidedAt time.Time          `json:"decided_at,omitzero"`
}

// entry is the item as the record keeps it.
func (i Item) entry() (record.Entry, error) {
	e := record.Entry{ID: i.ID, Role: i.Role, Label: i.Label, Text: i.Text, By: i.By, At: i.At}
	b, err := json.Marshal(i.EntryData)
	if err != nil {
		return e, fmt.Errorf("item %s: %w", i.ID, err)
	}
	if string(b) != "{}" {
		e.Data = b
	}
	return e, nil
}

// ErrInvalid is what every FaultsError is.
var ErrInvalid = errors.New("not a valid transcript")

// Fault is what is wrong with a line.
type Fault struct {
	Line    int // from 1
	Message string
}

// FaultsError lists what is wrong with a transcript.
type FaultsError struct {
	Faults []Fault
	More   int // faults that are not listed
}

func (e *FaultsError) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, fmt.Sprintf("line %d: %s", f.Line, f.Message))
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// Is makes a FaultsError an ErrInvalid.
func (e *FaultsError) Is(target error) bool { return target == ErrInvalid }

// The lines. What they have in common is in head; a line of a type that is
// not here is skipped.
type head struct {
	Type      string    `json:"type"`
	ID        string    `json:"id,omitempty"`
	ParentID  *string   `json:"parentId,omitempty"`
	Timestamp timestamp `json:"timestamp,omitzero"`
}

type sessionLine struct {
	Type      string       `json:"type"` // "session"
	Version   int          `json:"version"`
	ID        string       `json:"id"`
	Timestamp timestamp    `json:"timestamp,omitzero"`
	CWD       string       `json:"cwd"` // OpenClaw's; always empty
	Sgclaw    *sessionInfo `json:"sgclaw,omitempty"`
}

type sessionInfo struct {
	Agent string `json:"agent,omitempty"`
	Label string `json:"label,omitempty"`
}

type messageLine struct {
	head
	Message message `json:"message"`
	Sgclaw  *extra  `json:"sgclaw,omitempty"`
}

// extra is what only we have.
type extra struct {
	By      string        `json:"by,omitempty"`
	Label   string        `json:"label,omitempty"`
	RunID   string        `json:"runId,omitempty"`
	Outcome agent.Outcome `json:"outcome,omitempty"`
	Code    string        `json:"code,omitempty"`
	// Call is that of a tool's answer.
	Call *agent.Call `json:"call,omitempty"`
}

type message struct {
	Role       string      `json:"role"` // "user", "assistant" or "toolResult"
	Content    content     `json:"content"`
	Model      string      `json:"model,omitempty"`
	Usage      *usage      `json:"usage,omitempty"`
	StopReason string      `json:"stopReason,omitempty"` // "stop" or "toolUse"
	ToolCallID string      `json:"toolCallId,omitempty"`
	ToolName   string      `json:"toolName,omitempty"`
	IsError    *bool       `json:"isError,omitempty"`
	Timestamp  *float64    `json:"timestamp,omitempty"` // milliseconds since 1970
	OpenClaw   *provenance `json:"__openclaw,omitempty"`
}

type provenance struct {
	RunID string `json:"runId,omitempty"`
}

type usage struct {
	Input       int `json:"input"`
	Output      int `json:"output"`
	CacheRead   int `json:"cacheRead"`
	CacheWrite  int `json:"cacheWrite"`
	TotalTokens int `json:"totalTokens"`
}

// content is a message's: text, calls, and pieces that are only named.
type content struct {
	Text  string
	Calls []agent.Call
}

type piece struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	PageID    string          `json:"pageId,omitempty"`
	Fault     string          `json:"fault,omitempty"`
}

// noteLine is a line that is no message: "custom_message", "custom",
// "compaction", "branch_summary" and "reset".
type noteLine struct {
	head
	CustomType string          `json:"customType,omitempty"`
	Content    *content        `json:"content,omitempty"` // of a custom_message
	Summary    string          `json:"summary,omitempty"` // of a compaction and a branch_summary
	Reason     string          `json:"reason,omitempty"`  // of a reset
	Data       json.RawMessage `json:"data,omitempty"`    // of a custom
	Display    *bool           `json:"display,omitempty"` // of a custom_message
	Sgclaw     *extra          `json:"sgclaw,omitempty"`
}

// timestamp is RFC 3339, in UTC and milliseconds when written.
type timestamp struct{ time.Time }

func (t timestamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

func (t *timestamp) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("timestamp is not a string")
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil || at.Year() < 1 || at.Year() > 9999 {
		return fmt.Errorf("timestamp %.40q is not a time as in RFC 3339", s)
	}
	t.Time = at.UTC()
	return nil
}

func (t timestamp) IsZero() bool { return t.Time.IsZero() }
