package pipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
)

// FromBrowser reports whether a message of this type may come from the
// browser.
func (t Type) FromBrowser() bool {
	switch t {
	case TypeInit, TypeResponse, TypeConfirmPending, TypeSubmitTask, TypeAbortTask, TypeConfirm, TypeShutdown, TypeError:
		return true
	}
	return false
}

// FromAgent reports whether a message of this type may come from the agent.
func (t Type) FromAgent() bool {
	switch t {
	case TypeInitAck, TypeCommand, TypeCancel, TypeTaskAccepted, TypeLog, TypeState, TypeConfirmRequired, TypeTaskComplete, TypeError:
		return true
	}
	return false
}

// Decode reads one line into a pointer to its message type: *Init,
// *Response, *Command and so on. Members that a type does not know are
// ignored, and an optional member that is null counts as absent.
//
// Decode looks at shape only. It checks neither signature nor seq nor what an
// action's parameters are, nor whether this side may send this type now: see
// FromBrowser and FromAgent. Where it fails, Peek may still tell whom to
// answer.
func Decode(line []byte) (any, *Error) {
	if err := check(line); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return nil, Errorf(CodeInvalidMessage, "a message must be a JSON object")
	}
	var t Type
	if err := json.Unmarshal(members["type"], &t); err != nil || t == "" {
		return nil, Errorf(CodeInvalidMessage, "type must be a string that names the message")
	}
	decode, ok := decoderOf(t)
	if !ok {
		return nil, Errorf(CodeUnknownType, "there is no message of type %q", clip([]byte(t)))
	}
	return decode(line, members)
}

// Peek reads type and seq of a line as far as possible, to answer a message
// that Decode has refused. What it cannot read is zero.
func Peek(line []byte) (t Type, seq uint64) {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return "", 0
	}
	if json.Unmarshal(members["type"], &t) != nil {
		t = ""
	}
	if json.Unmarshal(members["seq"], &seq) != nil || seq > MaxSeq {
		seq = 0
	}
	return t, seq
}

type decoder func(line []byte, members map[string]json.RawMessage) (any, *Error)

func decoderOf(t Type) (decoder, bool) {
	switch t {
	case TypeInit:
		return as((*Init).check, "version", "hmac_seed"), true
	case TypeInitAck:
		return as((*InitAck).check, "version", "agent_id"), true
	case TypeCommand:
		return as((*Command).check, "seq", "action", "params", "security"), true
	case TypeCancel:
		return as(func(m *Cancel) *Error { return seq(m.Seq) }, "seq"), true
	case TypeResponse:
		return as((*Response).check, "seq", "success"), true
	case TypeConfirmPending:
		return as((*ConfirmPending).check, "seq", "ask"), true
	case TypeSubmitTask:
		return as((*SubmitTask).check, "task_id", "instruction"), true
	case TypeAbortTask:
		return as(func(m *AbortTask) *Error { return id("task_id", m.TaskID) }, "task_id"), true
	case TypeConfirm:
		return as(func(m *Confirm) *Error {
			if err := filled("action_id", m.ActionID); err != nil || m.Scope == "" {
				return err
			}
			return oneOf("scope", m.Scope, agent.ScopeRun)
		}, "action_id", "approved"), true
	case TypeShutdown:
		return as(func(*Shutdown) *Error { return nil }), true
	case TypeTaskAccepted:
		return as(func(m *TaskAccepted) *Error { return id("task_id", m.TaskID) }, "task_id", "run_id"), true
	case TypeLog:
		return as(func(m *Log) *Error { return oneOf("level", m.Level, "info", "warn", "error") }, "time", "level", "message"), true
	case TypeState:
		return as(func(m *State) *Error {
			return oneOf("state", m.State, StateStarting, StateRunning, StateOffline, StateStopped)
		}, "state"), true
	case TypeConfirmRequired:
		return as(func(m *ConfirmRequired) *Error { return filled("action_id", m.ActionID) },
			"task_id", "action_id", "action", "domain", "ask"), true
	case TypeTaskComplete:
		return as(func(m *TaskComplete) *Error { return id("task_id", m.TaskID) },
			"task_id", "run_id", "success", "status", "summary"), true
	case TypeError:
		return as(func(m *ErrorMessage) *Error { return filled("code", string(m.Code)) }, "code", "message"), true
	}
	return nil, false
}

// as makes the decoder of T, which must have the required members and pass
// check.
func as[T any](check func(*T) *Error, required ...string) decoder {
	return func(line []byte, members map[string]json.RawMessage) (any, *Error) {
		for _, name := range required {
			if raw, ok := members[name]; !ok || bytes.Equal(raw, []byte("null")) {
				return nil, Errorf(CodeInvalidMessage, "%s is missing", name)
			}
		}
		m := new(T)
		if err := json.Unmarshal(line, m); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				return nil, Errorf(CodeInvalidMessage, "%s must not be of type %s", wrong.Field, wrong.Value)
			}
			return nil, Errorf(CodeInvalidMessage, "%v", err)
		}
		if err := check(m); err != nil {
			return nil, err
		}
		return m, nil
	}
}

func (m *Init) check() *Error {
	major, minor, ok := strings.Cut(m.Version, ".")
	if !ok || !digits(major) || !digits(minor) {
		return Errorf(CodeInvalidMessage, "version must be two numbers with a point between them, e.g. %s", Version)
	}
	if m.BrowserID != "" {
		return id("browser_id", m.BrowserID)
	}
	return nil
}

func (m *InitAck) check() *Error {
	if u, err := uuid.Parse(m.AgentID); err != nil || u.Version() != 4 || len(m.AgentID) != 36 {
		return Errorf(CodeInvalidMessage, "agent_id must be a UUID v4")
	}
	if m.BrowserID != "" {
		return id("browser_id", m.BrowserID)
	}
	return nil
}

func (m *Command) check() *Error {
	if err := seq(m.Seq); err != nil {
		return err
	}
	if err := filled("action", m.Action); err != nil {
		return err
	}
	if !bytes.HasPrefix(m.Params, []byte("{")) {
		return Errorf(CodeInvalidMessage, "params must be an object")
	}
	if g := m.Security.Grant; g != nil && (g.ID == "" || g.Digest == "") {
		return Errorf(CodeInvalidMessage, "security.grant must have id and digest")
	}
	return nil
}

func (m *Response) check() *Error {
	if err := seq(m.Seq); err != nil {
		return err
	}
	if !m.Success && (m.Error == nil || m.Error.Code == "") {
		return Errorf(CodeInvalidMessage, "error.code is missing")
	}
	return nil
}

func (m *ConfirmPending) check() *Error {
	if err := seq(m.Seq); err != nil {
		return err
	}
	return filled("ask.digest", m.Ask.Digest)
}

func (m *SubmitTask) check() *Error {
	if err := id("task_id", m.TaskID); err != nil {
		return err
	}
	if strings.TrimSpace(m.Instruction) == "" {
		return Errorf(CodeInvalidMessage, "instruction is empty")
	}
	if len(m.Instruction) > agent.MaxInstruction {
		return Errorf(CodeInvalidMessage, "instruction has %d bytes, more than %d", len(m.Instruction), agent.MaxInstruction)
	}
	if m.Locale != "" {
		return oneOf("locale", m.Locale, "zh", "en")
	}
	return nil
}

func seq(n uint64) *Error {
	if n < 1 || n > MaxSeq {
		return Errorf(CodeInvalidMessage, "seq must be 1 to %d", uint64(MaxSeq))
	}
	return nil
}

func filled(name, value string) *Error {
	if value == "" {
		return Errorf(CodeInvalidMessage, "%s is empty", name)
	}
	return nil
}

func oneOf(name, value string, want ...string) *Error {
	for _, w := range want {
		if value == w {
			return nil
		}
	}
	return Errorf(CodeInvalidMessage, "%s must be one of %s", name, strings.Join(want, ", "))
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func id(name, value string) *Error {
	if !ValidID(value) {
		return Errorf(CodeInvalidMessage, "%s must be 1 to 128 of A-Z a-z 0-9 . _ : -", name)
	}
	return nil
}

// ValidID reports whether s can be a task_id or a browser_id: 1 to 128 of
// [A-Za-z0-9._:-].
func ValidID(s string) bool {
	if len(s) < 1 || len(s) > 128 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
