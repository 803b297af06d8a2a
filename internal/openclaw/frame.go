// Package openclaw is the wire of OpenClaw's gateway protocol, version 4:
// frames, errors, parameters and payloads, as its published schema
// (npm @openclaw/gateway-protocol) has them. It knows nothing of sockets and
// nothing of sgclaw.
package openclaw

import "encoding/json"

// ProtocolVersion is what we speak. A client must include it in its range.
const ProtocolVersion = 4

// MinProbe is the oldest version that a client may probe with.
const MinProbe = 3

// Types of frames.
const (
	TypeRequest  = "req"
	TypeResponse = "res"
	TypeEvent    = "event"
)

// Request is a frame from a client.
type Request struct {
	Type              string          `json:"type" oc:"required,oneof=req"`
	ID                string          `json:"id" oc:"required,min=1,max=256"`
	Method            string          `json:"method" oc:"required,min=1,max=256"`
	Params            json.RawMessage `json:"params,omitempty"`
	Traceparent       string          `json:"traceparent,omitempty" oc:"max=128"`
	ExpectedProfileID string          `json:"expectedProfileId,omitempty"`
}

// Response answers a request. A method may answer one request twice: first
// with a payload whose status is "accepted".
type Response struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	OK      bool   `json:"ok"`
	Payload any    `json:"payload,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

// Event is a frame that nobody asked for. Seq counts the events of a
// connection from 1, without gaps.
type Event struct {
	Type    string `json:"type"`
	Event   string `json:"event"`
	Payload any    `json:"payload,omitempty"`
	Seq     int64  `json:"seq,omitempty"`
}

// Codes of errors. Clients branch on Details.Code, where there is one.
const (
	CodeInvalidRequest   = "INVALID_REQUEST"
	CodeForbidden        = "FORBIDDEN"
	CodeUnavailable      = "UNAVAILABLE"
	CodeNotPaired        = "NOT_PAIRED"
	CodeApprovalNotFound = "APPROVAL_NOT_FOUND"
	CodeInternal         = "INTERNAL" // ours: a fault of the gateway
)

// Error is the error of a response. It is a Go error, so that a handler
// returns it.
type Error struct {
	Code         string `json:"code"`
	Message      string `json:"message"`
	Details      any    `json:"details,omitempty"`
	Retryable    bool   `json:"retryable,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Close codes of the socket.
const (
	CloseNormal   = 1000
	CloseProtocol = 1002 // no common protocol version
	ClosePolicy   = 1008 // authentication or handshake
	CloseTooBig   = 1009
	CloseRestart  = 1012 // after a shutdown event
	CloseTryLater = 1013
	CloseSlow     = 4008 // ours: the client did not read fast enough
)
