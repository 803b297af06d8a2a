// Package critic judges a run after each action (seed 001 §2.6): is the
// browser failing again and again, does the agent go round in circles, has
// the task taken too long? It is pure: what it remembers is the [Breaker],
// which the caller keeps (per browser, in the database) and hands in again.
//
// The circuit breaker:
//
//	         failures reach the threshold
//	Closed ───────────────────────────────▶ Open
//	  ▲                                     │  ▲
//	  │ the trial succeeds    cooldown over │  │ the trial fails:
//	  │                                     ▼  │ cooldown doubles, up to the most
//	  └────────────────────────────────── HalfOpen
//
// The first cooldown is the base (1 s). Closing sets failures and cooldown
// back.
package critic

import (
	"fmt"
	"time"

	"sgclaw/internal/agent"
)

// Config are the critic's thresholds.
type Config struct {
	// FailureThreshold is how many failures in a row end a run: the seed's
	// consecutive_failure_threshold. The breaker has a threshold of its own;
	// the lower of the two holds, and one that is 0 does not count.
	FailureThreshold int
	// RepeatLimit is how many equal actions in a row end a run: the seed's
	// same_action_repeat_limit.
	RepeatLimit int
	// MaxTask is how long a run may be active: the seed's
	// max_task_duration_secs.
	MaxTask time.Duration
	Breaker BreakerConfig
}

// BreakerConfig are the circuit breaker's thresholds.
type BreakerConfig struct {
	FailureThreshold int
	CooldownBase     time.Duration
	CooldownMax      time.Duration
	// ResetOnSuccess sets the count of failures back to 0 at each success.
	// Without it they add up until the breaker opens.
	ResetOnSuccess bool
}

// Default returns the seed's defaults.
func Default() Config {
	return Config{
		FailureThreshold: 10,
		RepeatLimit:      5,
		MaxTask:          600 * time.Second,
		Breaker: BreakerConfig{
			FailureThreshold: 10,
			CooldownBase:     time.Second,
			CooldownMax:      30 * time.Second,
			ResetOnSuccess:   true,
		},
	}
}

// threshold is how many failures open the breaker; 0 if none do.
func (c Config) threshold() int {
	a, b := c.FailureThreshold, c.Breaker.FailureThreshold
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Input is one action and what came of it.
type Input struct {
	Step int
	// ActionSignature identifies the action with its parameters.
	ActionSignature string
	// Recent are the signatures of the run's last actions, newest last, this
	// one included; RepeatLimit of them are enough.
	Recent []string
	// Failed says that the action failed. Neutral says that it neither
	// failed nor succeeded, as when a person refused it; it wins.
	Failed  bool
	Neutral bool
	// Active is how long the run has been at work, without waiting for
	// people and absent browsers.
	Active time.Duration
	Now    time.Time
}

// Verdict is the critic's (seed 001 §2.6, CriticVerdict).
type Verdict struct {
	ShouldAbort bool `json:"should_abort,omitempty"`
	// Reason is one of agent's Reason constants if ShouldAbort; package
	// locale has the text.
	Reason string `json:"reason,omitempty"`
	// Warning is for the record and the model, in English; it does not end
	// the run.
	Warning string `json:"warning,omitempty"`
}

func abort(reason string) Verdict { return Verdict{ShouldAbort: true, Reason: reason} }

// Evaluate judges one action, in the seed's order, and returns the breaker
// as it shall stand. As in the seed, a run that is ended for repetition or
// time does not reset the count of failures.
func Evaluate(in Input, b Breaker, c Config) (Breaker, Verdict) {
	b = b.cooled(in.Now)
	// 1. has the action failed?
	if in.Failed && !in.Neutral {
		b = b.fail(in.Now, c)
		if b.Phase == Open {
			return b, abort(agent.ReasonBreakerOpen)
		}
	}
	// 2. is it the same action over and over?
	same := repeats(in.Recent, in.ActionSignature)
	if c.RepeatLimit > 0 && same >= c.RepeatLimit {
		return b, abort(agent.ReasonRepeatedAction)
	}
	// 3. has the task taken too long?
	if c.MaxTask > 0 && in.Active > c.MaxTask {
		return b, abort(agent.ReasonTaskTimeout)
	}
	// 4. a success sets the count back
	if !in.Failed && !in.Neutral {
		b = b.succeed(c.Breaker)
	}
	return b, Verdict{Warning: warning(in, same, b, c)}
}

// repeats counts how often the newest action stands at the end of recent
// without a break.
func repeats(recent []string, signature string) int {
	n := 0
	for i := len(recent) - 1; i >= 0 && recent[i] == signature; i-- {
		n++
	}
	return n
}

// warning tells of a limit that is near.
func warning(in Input, same int, b Breaker, c Config) string {
	if t := c.threshold(); t > 1 && b.Failures == t-1 && in.Failed {
		return fmt.Sprintf("%d actions in a row failed; one more failure ends the task", b.Failures)
	}
	if c.RepeatLimit > 1 && same == c.RepeatLimit-1 {
		return fmt.Sprintf("the same action was done %d times in a row; once more ends the task", same)
	}
	if c.MaxTask > 0 && in.Active > c.MaxTask-c.MaxTask/10 {
		return fmt.Sprintf("the task ends in %s", (c.MaxTask - in.Active).Round(time.Second))
	}
	return ""
}
