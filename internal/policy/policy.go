// Package policy is the mandatory access control of seed 001 §2.5 and §3.3:
// which actions may be carried out on which hosts, how often, and when a
// person must be asked first. The same rules file serves both sides of the
// pipe: [Engine] is layer 2, in the agent; [Rules.CheckPage],
// [Rules.AllowURL] and [Rules.ConfirmWhen] are layer 3, in the browser host.
//
// The package only decides. It neither asks nor acts, and it logs nothing.
//
// # Verdicts
//
// Layer 2 checks in this order and stops at the first that applies:
//
//	blocked             MAC_ACTION_BLOCKED      Deny
//	not permitted       MAC_ACTION_NOT_ALLOWED  Deny
//	domain              MAC_DOMAIN_NOT_ALLOWED  Deny
//	storage key prefix  MAC_STORAGE_KEY         Deny
//	rate                MAC_RATE_LIMIT          Deny, with RetryAfter
//	confirm             MAC_NEED_CONFIRM        NeedConfirm
//	else                                        Allow
//
// An action is permitted if it stands in allowed or in need_confirm: the
// seed's file lists confirm actions apart. Nothing is permitted that the
// file does not name.
//
// # Rates
//
// Accesses are counted per host name in a window of one second. One more
// than max_per_second is denied and starts a cooldown, during which
// everything on that host is denied. Only accesses that pass are counted:
// what was denied, or waits for a person, was not sent to the page.
package policy

import (
	"fmt"
	"time"

	"sgclaw/internal/agent"
)

// Codes of verdicts. They are the pipe's codes (seed 001 §5.3) as plain
// strings.
const (
	CodeActionBlocked    = "MAC_ACTION_BLOCKED"
	CodeActionNotAllowed = "MAC_ACTION_NOT_ALLOWED"
	CodeDomainNotAllowed = "MAC_DOMAIN_NOT_ALLOWED"
	CodeDomainMismatch   = "MAC_DOMAIN_MISMATCH"
	CodeStorageKey       = "MAC_STORAGE_KEY"
	CodeRateLimit        = "MAC_RATE_LIMIT"
	CodeNeedConfirm      = "MAC_NEED_CONFIRM"
)

// Decision is what a verdict comes down to. The zero value is Deny.
type Decision int

// The decisions (seed 001 §2.5, MacVerdict).
const (
	Deny Decision = iota
	NeedConfirm
	Allow
)

func (d Decision) String() string {
	switch d {
	case Allow:
		return "allow"
	case NeedConfirm:
		return "need_confirm"
	}
	return "deny"
}

// Verdict is the answer to one check.
type Verdict struct {
	Decision Decision
	// Code is one of the Code constants; empty when allowed.
	Code string
	// Message says why in English, for the model and for logs; empty when
	// allowed.
	Message string
	// Prompt is what to ask the person when the decision is NeedConfirm.
	Prompt Prompt
	// RetryAfter says when a rate-limited action may be tried again.
	RetryAfter time.Duration
}

// Prompt is a question to a person in both languages.
type Prompt = agent.Prompt

// DeniedError is a denial as an error.
type DeniedError struct {
	Code    string
	Message string
}

func (e *DeniedError) Error() string { return e.Code + ": " + e.Message }

// Err returns nil if the verdict is Allow, else a *[DeniedError]. With
// NeedConfirm it has CodeNeedConfirm.
func (v Verdict) Err() error {
	if v.Decision == Allow {
		return nil
	}
	return &DeniedError{Code: v.Code, Message: v.Message}
}

func deny(code, format string, args ...any) Verdict {
	return Verdict{Code: code, Message: fmt.Sprintf(format, args...)}
}

// needConfirm asks for an action by its name, in the words of seed 001 §3.3.
func needConfirm(action string) Verdict {
	return Verdict{
		Decision: NeedConfirm,
		Code:     CodeNeedConfirm,
		Message:  "Action needs a person's confirmation: " + action,
		Prompt: Prompt{
			ZH: "操作需要用户确认: " + action,
			EN: "The action needs your confirmation: " + action,
		},
	}
}
