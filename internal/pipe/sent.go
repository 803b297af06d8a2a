package pipe

import "errors"

// What an agent's client of a host reports when a command got no response.
// Besides these there are *Error with CodeTimeout (no response in
// CommandTimeout) or CodeInvalidMessage (one that cannot be read), and the
// caller's own context error. Of all but ErrNotSent the outcome is unknown.
var (
	// ErrNotSent: the command was certainly not written, not even in part.
	ErrNotSent = errors.New("command was not sent")
	// ErrNoAnswer: the pipe closed before the response came.
	ErrNoAnswer = errors.New("pipe closed before the response")
)
