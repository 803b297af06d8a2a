// Package llm is the small interface between the agent and a language model:
// messages in, a reply with text and tool calls out. Providers live in
// packages of their own below this one (llm/openai). It is not a client of
// any service and keeps no state.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sgclaw/internal/agent"
)

// Role says who speaks.
type Role string

// The roles of a conversation. The system prompt is Request.System.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// Images are shown to models with vision, after the text.
	Images []Image `json:"images,omitempty"`
	// Calls are the tool calls of an assistant's message.
	Calls []ToolCall `json:"calls,omitempty"`
	// CallID says which tool call a tool's message answers.
	CallID string `json:"call_id,omitempty"`
}

// Image is a picture in a message.
type Image struct {
	MIME string `json:"mime"`
	Data []byte `json:"data"`
}

// ToolCall is a tool call as the model wrote it; Arguments may be anything,
// also no JSON at all.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments
}

// Request is one model call.
type Request struct {
	System      string
	Messages    []Message
	Tools       []Tool
	MaxTokens   int // of the reply; seed 001 §7.1 llm.config.max_tokens
	Temperature float64
	Stop        []string
}

// Finish says why a reply ended.
type Finish string

// Why a reply ended.
const (
	FinishStop      Finish = "stop"
	FinishToolCalls Finish = "tool_calls"
	FinishLength    Finish = "length"
	FinishFilter    Finish = "content_filter"
)

// Response is a model's whole reply (seed 001 §2.8, LlmResponse).
type Response struct {
	Text string
	// Reasoning is what a model shows of its thinking beside the reply, if
	// it does. It is for people and is not sent back.
	Reasoning string
	Calls     []ToolCall
	Usage     agent.Usage // zero where the service does not count
	Finish    Finish
	Model     string // as the service named it
}

// Info describes a provider (seed 001 §2.8, ProviderInfo).
type Info struct {
	Name              string // "claude", "openai" or "ollama"
	Model             string
	MaxContextTokens  int
	SupportsTools     bool
	SupportsStreaming bool
	SupportsVision    bool
}

// Model is a language model. The real one is llm/openai; tests run it
// against a scripted server that speaks the service's wire format.
type Model interface {
	// Chat sends the request and streams the reply: onDelta, if not nil, gets
	// each piece of text as it arrives, from the calling goroutine. It does
	// not retry. A failure is an *Error. Cancelling ctx ends the request at
	// once and returns ctx's error.
	Chat(ctx context.Context, req Request, onDelta func(text string)) (Response, error)
	Info() Info
}

// Class says what a failed model call means for the caller.
type Class string

// The classes of failures. The first four may be tried again.
const (
	ClassRateLimit      Class = "rate_limit"       // 429 with time; try again after RetryAfter
	ClassOverloaded     Class = "overloaded"       // 5xx, 529, 408, 409
	ClassNetwork        Class = "network"          // no answer, or a broken one
	ClassMalformed      Class = "malformed"        // an answer that is not the protocol's
	ClassAuth           Class = "auth"             // 401, 403
	ClassQuota          Class = "quota"            // 429 because the account is used up
	ClassBadRequest     Class = "bad_request"      // 400, 404, 422
	ClassContextTooLong Class = "context_too_long" // send less
	ClassContentPolicy  Class = "content_policy"   // refused by the service
)

// Retryable reports whether the same request can succeed later.
func (c Class) Retryable() bool {
	switch c {
	case ClassRateLimit, ClassOverloaded, ClassNetwork, ClassMalformed:
		return true
	}
	return false
}

// Error is a failed model call. It never holds the key or the request.
type Error struct {
	Class      Class
	Status     int           // HTTP status, 0 if none
	RetryAfter time.Duration // what the service asked for, 0 if nothing
	Message    string
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("model call: %s (HTTP %d): %s", e.Class, e.Status, e.Message)
	}
	return fmt.Sprintf("model call: %s: %s", e.Class, e.Message)
}

// AsError returns err's *Error, or nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
