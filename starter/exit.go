package main

import (
	"context"
	"errors"
	"fmt"

	"sgclaw/internal/agent"
	"sgclaw/internal/config"
	"sgclaw/internal/durable"
	"sgclaw/internal/record"
	"sgclaw/internal/transcript"
)

// Exit statuses. docs/starter.md and `starter help exit-codes` list them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitAborted     = 4
	exitNotFound    = 5
	exitUnreachable = 6
	exitState       = 7
	exitDetached    = 130
)

// exitOf is the exit status for how a run ended.
func exitOf(s agent.Status) int {
	switch s {
	case agent.StatusDone:
		return exitDone
	case agent.StatusRefused:
		return exitRefused
	case agent.StatusAborted:
		return exitAborted
	}
	return exitFailed
}

// errUsage marks an error in how the command was called.
var errUsage = errors.New("usage")

type usageError struct{ message string }

func (e usageError) Error() string        { return e.message }
func (e usageError) Is(target error) bool { return target == errUsage }

func usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// Errors that are the command line's own.
var (
	errNotOver      = errors.New("the run is not over")
	errNoBrowser    = errors.New("no browser is online")
	errManyBrowsers = errors.New("several browsers are online")
	errDetached     = errors.New("detached")
)

// kinds maps errors to the exit status, and to the code that programs see
// and that names the text for people ("err_" + code). The first that matches
// counts.
func kinds() []kind {
	return []kind{
		{errDetached, exitDetached, "detached"},
		{context.Canceled, exitDetached, "detached"},
		{errUsage, exitUsage, "usage"},
		{durable.ErrInvalid, exitUsage, "invalid"},
		{durable.ErrConfirmExpired, exitRefused, "confirm_expired"},
		{durable.ErrUnknownConfirm, exitNotFound, "unknown_confirm"},
		{durable.ErrAlreadyDecided, exitState, "already_decided"},
		{durable.ErrNothingToConfirm, exitState, "nothing_to_confirm"},
		{durable.ErrDigestMismatch, exitState, "digest_mismatch"},
		{durable.ErrRunOver, exitState, "run_over"},
		{durable.ErrSteered, exitState, "steered"},
		{durable.ErrQueued, exitState, "queued"},
		{durable.ErrNoStep, exitState, "no_step"},
		{errNotOver, exitState, "not_over"},
		{errNoBrowser, exitState, "no_browser"},
		{errManyBrowsers, exitState, "many_browsers"},
		{durable.ErrNoWorker, exitUnreachable, "no_worker"},
		{durable.ErrNoNamespace, exitUnreachable, "no_namespace"},
		{durable.ErrDenied, exitUnreachable, "denied"},
		{durable.ErrUnreachable, exitUnreachable, "unreachable"},
		{errDatabase, exitUnreachable, "database"},
		{context.DeadlineExceeded, exitUnreachable, "unreachable"},
		{durable.ErrNotFound, exitNotFound, "not_found"},
		{record.ErrNotFound, exitNotFound, "not_found"},
		{transcript.ErrInvalid, exitUsage, "bad_transcript"},
		{transcript.ErrOther, exitState, "other_content"},
		{transcript.ErrReset, exitState, "other_content"},
		{record.ErrInvalid, exitUsage, "invalid"},
	}
}

type kind struct {
	err  error
	exit int
	code string
}

// errorLine is what --json prints when a command fails.
type errorLine struct {
	Type    string `json:"type"` // "error"
	Code    string `json:"code"`
	Message string `json:"message"`
	Exit    int    `json:"exit"`
}

// exit reports err and returns the exit status.
func (a *app) exit(err error) int {
	if err == nil {
		return a.code
	}
	k := kind{exit: exitFailed, code: "failed"}
	var faults *config.FaultsError
	if errors.As(err, &faults) {
		k = kind{exit: exitUsage, code: "config"}
	} else {
		for _, candidate := range kinds() {
			if errors.Is(err, candidate.err) {
				k = candidate
				break
			}
		}
	}
	if a.json {
		if werr := a.emit(errorLine{Type: "error", Code: k.code, Message: err.Error(), Exit: k.exit}); werr != nil {
			fmt.Fprintln(a.stderr, werr)
		}
		return k.exit
	}
	switch k.code {
	case "detached":
	case "usage", "failed":
		fmt.Fprintln(a.stderr, a.red(a.t("error"))+" "+err.Error())
		if k.code == "usage" {
			fmt.Fprintln(a.stderr, a.t("see_help"))
		}
	default:
		fmt.Fprintln(a.stderr, a.red(a.t("error"))+" "+a.t("err_"+k.code))
		fmt.Fprintln(a.stderr, a.dim("  "+err.Error()))
	}
	return k.exit
}
