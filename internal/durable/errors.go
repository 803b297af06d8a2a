package durable

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"sgclaw/workflows"
)

// What the methods of Client return, wrapped with what was attempted. Match
// with errors.Is.
var (
	ErrNotFound         = errors.New("not found")
	ErrRunOver          = errors.New("the run is over")
	ErrQueued           = errors.New("the run waits in its session and has not begun")
	ErrFull             = errors.New("too many messages wait in the session")
	ErrNothingToConfirm = errors.New("no confirmation is open")
	ErrUnknownConfirm   = errors.New("no such confirmation")
	ErrAlreadyDecided   = errors.New("the confirmation is decided already")
	ErrConfirmExpired   = errors.New("the confirmation has expired")
	ErrDigestMismatch   = errors.New("what was shown is not what would be done")
	ErrInvalid          = errors.New("invalid")
	ErrNoStep           = errors.New("the run has no such step")
	ErrNoWorker         = errors.New("no worker answers")
	ErrUnreachable      = errors.New("temporal cannot be reached")
	ErrDenied           = errors.New("temporal refuses the credentials")
	ErrNoNamespace      = errors.New("no such temporal namespace")
)

// ErrSteered is returned for a message that was added to the run under way
// and has none of its own (yet). It is ErrQueued, too.
var ErrSteered error = steered{}

type steered struct{}

func (steered) Error() string { return "the message was added to the run that is under way" }

// Is makes it ErrQueued for who does not tell the two apart.
func (steered) Is(target error) bool { return target == ErrQueued }

// rejections maps the types of the application errors with which a run
// rejects updates.
var rejections = map[string]error{
	workflows.ErrNothingToConfirm: ErrNothingToConfirm,
	workflows.ErrUnknownConfirm:   ErrUnknownConfirm,
	workflows.ErrAlreadyDecided:   ErrAlreadyDecided,
	workflows.ErrConfirmExpired:   ErrConfirmExpired,
	workflows.ErrDigestMismatch:   ErrDigestMismatch,
	workflows.ErrRunOver:          ErrRunOver,
	workflows.ErrInvalid:          ErrInvalid,
}

// fault adds to err what was attempted, and the sentinel that it amounts to.
// ctx is the caller's: when it is done, its error says more than ours.
func fault(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if kind := classify(err); kind != nil {
		var app *temporal.ApplicationError
		if errors.As(err, &app) {
			return fmt.Errorf("%s: %w (%s)", op, kind, app.Message())
		}
		return fmt.Errorf("%s: %w: %w", op, kind, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, ctx.Err())
	}
	return fmt.Errorf("%s: %w", op, err)
}

func classify(err error) error {
	var (
		app         *temporal.ApplicationError
		notFound    *serviceerror.NotFound
		noNamespace *serviceerror.NamespaceNotFound
		unavailable *serviceerror.Unavailable
		denied      *serviceerror.PermissionDenied
		invalid     *serviceerror.InvalidArgument
	)
	switch {
	case errors.As(err, &app):
		return rejections[app.Type()]
	case errors.As(err, &noNamespace):
		return ErrNoNamespace
	case errors.As(err, &notFound):
		return ErrNotFound
	case errors.As(err, &unavailable):
		return ErrUnreachable
	case errors.As(err, &denied):
		return ErrDenied
	case errors.As(err, &invalid):
		return ErrInvalid
	}
	return nil
}

// noAnswer reports whether err means that the server took the request and no
// worker answered it in the time that ctx gave.
func noAnswer(ctx context.Context, err error) bool {
	var (
		timeout      *client.WorkflowUpdateServiceTimeoutOrCanceledError
		precondition *serviceerror.FailedPrecondition
		deadline     *serviceerror.DeadlineExceeded
		notReady     *serviceerror.WorkflowNotReady
	)
	switch {
	case errors.As(err, &precondition), errors.As(err, &notReady):
		return true
	case errors.As(err, &timeout), errors.As(err, &deadline), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	return errors.Is(ctx.Err(), context.DeadlineExceeded)
}
