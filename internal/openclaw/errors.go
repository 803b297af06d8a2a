package openclaw

import (
	"fmt"
	"time"
)

// Codes in Error.Details, on which clients branch.
const (
	DetailTokenMissing     = "AUTH_TOKEN_MISSING"
	DetailTokenMismatch    = "AUTH_TOKEN_MISMATCH"
	DetailRateLimited      = "AUTH_RATE_LIMITED"
	DetailProtocolMismatch = "PROTOCOL_MISMATCH"
	DetailMissingScope     = "MISSING_SCOPE"
	DetailOrigin           = "CONTROL_UI_ORIGIN_NOT_ALLOWED"

	DetailDeviceID        = "DEVICE_AUTH_DEVICE_ID_MISMATCH"
	DetailDeviceExpired   = "DEVICE_AUTH_SIGNATURE_EXPIRED"
	DetailDeviceNonce     = "DEVICE_AUTH_NONCE_MISMATCH"
	DetailDeviceSignature = "DEVICE_AUTH_SIGNATURE_INVALID"
	DetailDeviceKey       = "DEVICE_AUTH_PUBLIC_KEY_INVALID"
)

// What a client should do next, in AuthDetails.
const (
	NextUpdateCredentials = "update_auth_credentials"
	NextWaitThenRetry     = "wait_then_retry"
	NextReviewConfig      = "review_auth_configuration"
)

// Details is what most errors have to tell: a code.
type Details struct {
	Code string `json:"code"`
}

// AuthDetails tells why somebody was not let in.
type AuthDetails struct {
	Code                    string `json:"code"`
	AuthReason              string `json:"authReason"`
	CanRetryWithDeviceToken bool   `json:"canRetryWithDeviceToken"`
	RecommendedNextStep     string `json:"recommendedNextStep"`
}

// ProtocolDetails tells which versions there are.
type ProtocolDetails struct {
	Code                 string `json:"code"`
	ClientMinProtocol    int    `json:"clientMinProtocol"`
	ClientMaxProtocol    int    `json:"clientMaxProtocol"`
	ExpectedProtocol     int    `json:"expectedProtocol"`
	MinimumProbeProtocol int    `json:"minimumProbeProtocol"`
}

// ScopeDetails tells which scope would have been needed.
type ScopeDetails struct {
	Code           string   `json:"code"`
	MissingScope   string   `json:"missingScope"`
	RequiredScopes []string `json:"requiredScopes"`
}

// ReasonDetails tells why the gateway cannot serve just now.
type ReasonDetails struct {
	Reason string `json:"reason"`
}

// Invalid is an INVALID_REQUEST.
func Invalid(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams refuses parameters; faults say what is wrong with them.
func InvalidParams(method, faults string) *Error {
	return Invalid("invalid %s params: %s", method, faults)
}

// UnknownMethod refuses a method that there is not.
func UnknownMethod(name string) *Error { return Invalid("unknown method: %s", clip(name)) }

// InvalidHandshake refuses a first request that is not connect.
func InvalidHandshake() *Error {
	return Invalid("invalid handshake: first request must be connect")
}

// MissingScope refuses what a client has no scope for; any one of required
// would do, the first is named.
func MissingScope(required ...string) *Error {
	return &Error{
		Code: CodeForbidden, Message: "missing scope: " + required[0],
		Details: ScopeDetails{DetailMissingScope, required[0], required},
	}
}

// ProtocolMismatch refuses a client that does not speak our version.
func ProtocolMismatch(p ConnectParams) *Error {
	e := Invalid("protocol mismatch: the client speaks %d to %d, the gateway %d", p.MinProtocol, p.MaxProtocol, ProtocolVersion)
	e.Details = ProtocolDetails{DetailProtocolMismatch, p.MinProtocol, p.MaxProtocol, ProtocolVersion, MinProbe}
	return e
}

// TokenMissing refuses a client that shows no token.
func TokenMissing() *Error {
	e := Invalid("unauthorized: gateway token missing (give it as auth.token)")
	e.Details = AuthDetails{DetailTokenMissing, "token_missing", false, NextUpdateCredentials}
	return e
}

// TokenMismatch refuses a token; why is shown to people and says no more
// than whoever has the token may know.
func TokenMismatch(why string) *Error {
	e := Invalid("unauthorized: gateway token mismatch (%s)", why)
	e.Details = AuthDetails{DetailTokenMismatch, "token_mismatch", false, NextUpdateCredentials}
	return e
}

// RateLimited refuses a client of an address from which too many wrong
// tokens came.
func RateLimited(wait time.Duration) *Error {
	e := Invalid("unauthorized: too many failed authentication attempts (retry later)")
	e.Details = AuthDetails{DetailRateLimited, "rate_limited", false, NextWaitThenRetry}
	e.Retryable, e.RetryAfterMs = true, max(1, wait.Milliseconds())
	return e
}

// OriginNotAllowed refuses a web page of another host.
func OriginNotAllowed(origin string) *Error {
	e := Invalid("origin not allowed: %s (the gateway's own page may connect, and what gateway.origins lists)", clip(origin))
	e.Details = AuthDetails{DetailOrigin, "origin_not_allowed", false, NextReviewConfig}
	return e
}

// Starting refuses a client for a moment: the gateway is not ready.
func Starting() *Error {
	return &Error{
		Code: CodeUnavailable, Message: "gateway starting; retry shortly", Retryable: true, RetryAfterMs: 500,
		Details: ReasonDetails{"startup-sidecars"},
	}
}

// Unavailable says that something that the gateway needs is away; reason is
// for programs, such as "database".
func Unavailable(reason, format string, args ...any) *Error {
	return &Error{
		Code: CodeUnavailable, Message: fmt.Sprintf(format, args...), Retryable: true, RetryAfterMs: 1000,
		Details: ReasonDetails{reason},
	}
}

// Refused is an INVALID_REQUEST with a detail code.
func Refused(detail, format string, args ...any) *Error {
	e := Invalid(format, args...)
	e.Details = Details{detail}
	return e
}

// Internal says that the fault is ours, and no more.
func Internal() *Error {
	return &Error{Code: CodeInternal, Message: "internal error; the gateway's log says more"}
}
