package gateway

import (
	"context"
	"errors"

	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// Codes in an error's details that OpenClaw does not have.
const (
	DetailRunNotFound     = "RUN_NOT_FOUND"
	DetailRunOver         = "RUN_OVER"
	DetailAlreadyDecided  = "ALREADY_DECIDED"
	DetailConfirmExpired  = "CONFIRM_EXPIRED"
	DetailDigestMismatch  = "DIGEST_MISMATCH"
	DetailQueued          = "QUEUED"
	DetailAgentNotFound   = "AGENT_NOT_FOUND"
	DetailBrowserNotFound = "BROWSER_NOT_FOUND"
	DetailTooLong         = "TOO_LONG"
	DetailRateLimited     = "RATE_LIMITED"
	DetailNotFound        = "NOT_FOUND"
	DetailTooMany         = "TOO_MANY_WATCHES"
	DetailQueueFull       = "QUEUE_FULL"
)

// known are the errors of what the gateway stands on that a client may be
// told of, and under which code. A handler that knows better what was not
// found says so itself.
var known = []struct {
	err    error
	detail string
}{
	{durable.ErrRunOver, DetailRunOver},
	{durable.ErrAlreadyDecided, DetailAlreadyDecided},
	{durable.ErrConfirmExpired, DetailConfirmExpired},
	{durable.ErrDigestMismatch, DetailDigestMismatch},
	{durable.ErrQueued, DetailQueued},
	{durable.ErrFull, DetailQueueFull},
	{durable.ErrUnknownConfirm, openclaw.CodeApprovalNotFound},
	{durable.ErrNothingToConfirm, openclaw.CodeApprovalNotFound},
	{durable.ErrNoStep, DetailNotFound},
	{durable.ErrNotFound, DetailRunNotFound},
	{record.ErrNotFound, DetailNotFound},
}

// wireError says an error to a client. What is not in the lists here is a
// fault of ours, of which a client is told nothing.
func wireError(err error) *openclaw.Error {
	var e *openclaw.Error
	switch {
	case errors.As(err, &e):
		return e
	case store.Unavailable(err):
		return openclaw.Unavailable("database", "the database is away; retry shortly")
	case errors.Is(err, durable.ErrUnreachable):
		return openclaw.Unavailable("temporal", "temporal cannot be reached; retry shortly")
	case errors.Is(err, durable.ErrNoWorker):
		return openclaw.Unavailable("worker", "no worker answers; retry shortly")
	case errors.Is(err, context.DeadlineExceeded):
		return openclaw.Unavailable("timeout", "the request took too long")
	case errors.Is(err, context.Canceled):
		return openclaw.Unavailable("canceled", "the connection ended")
	case errors.Is(err, durable.ErrInvalid), errors.Is(err, record.ErrInvalid):
		return openclaw.Invalid("%v", err)
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return openclaw.Refused(k.detail, "%v", err)
		}
	}
	return openclaw.Internal()
}
