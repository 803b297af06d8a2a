package critic

import "time"

// Phase is where a circuit breaker stands. Empty is Closed.
type Phase string

// The phases of a circuit breaker (seed 001 §2.6, CircuitState).
const (
	Closed   Phase = "closed"    // actions are let through
	Open     Phase = "open"      // nothing is let through until the cooldown is over
	HalfOpen Phase = "half_open" // one trial is let through
)

// Breaker is the memory of a circuit breaker. The zero value is closed. It
// is kept as JSON.
type Breaker struct {
	Phase Phase `json:"phase,omitempty"`
	// Failures are counted since the last success.
	Failures int `json:"failures,omitempty"`
	// LastFailure is when the last one was.
	LastFailure time.Time `json:"last_failure,omitzero"`
	// OpenedAt is when the breaker opened last; while it is half open, when
	// the trial was let through.
	OpenedAt time.Time `json:"opened_at,omitzero"`
	// Cooldown is how long it stays open; 0 while it has not been open since
	// it was last closed. A trial that nobody reports on for as long (its
	// process may have died) counts as lost, and another is let through.
	Cooldown time.Duration `json:"cooldown,omitempty"`
}

// Allow asks whether an action may be tried. It returns how long to wait
// before asking again, 0 for go ahead, and the breaker as it shall stand: an
// open one whose cooldown is over becomes half open, and the caller's is the
// trial.
func (b Breaker) Allow(now time.Time) (wait time.Duration, next Breaker) {
	switch b.Phase {
	case Open, HalfOpen:
		if left := b.left(now); left > 0 {
			return left, b
		}
		b.Phase = HalfOpen
		b.OpenedAt = now.UTC()
	}
	return 0, b
}

// Reset closes the breaker and forgets all failures (seed 001 §2.6, reset).
func (b Breaker) Reset() Breaker { return Breaker{Phase: Closed} }

// left is what remains of the cooldown. Workers' clocks may differ a little;
// a clock that was set back must not keep the breaker open.
func (b Breaker) left(now time.Time) time.Duration {
	age := now.Sub(b.OpenedAt)
	if age < -b.Cooldown {
		return 0
	}
	return min(b.Cooldown-age, b.Cooldown)
}

// cooled turns an open breaker whose cooldown is over into a half open one.
func (b Breaker) cooled(now time.Time) Breaker {
	if b.Phase == Open && b.left(now) <= 0 {
		b.Phase = HalfOpen
	}
	return b
}

// fail counts a failure and opens the breaker if that was one too many, or
// if it was the trial.
func (b Breaker) fail(now time.Time, c Config) Breaker {
	now = now.UTC()
	b.Failures++
	b.LastFailure = now
	switch b.Phase {
	case Open:
		return b
	case HalfOpen:
		return b.open(now, min(2*b.Cooldown, c.Breaker.CooldownMax))
	}
	if t := c.threshold(); t > 0 && b.Failures >= t {
		return b.open(now, min(c.Breaker.CooldownBase, c.Breaker.CooldownMax))
	}
	return b
}

func (b Breaker) open(now time.Time, cooldown time.Duration) Breaker {
	b.Phase = Open
	b.Cooldown = cooldown
	b.OpenedAt = now
	return b
}

// succeed closes a breaker that was not closed, whatever the configuration:
// a browser that does what it is told works. A closed one only forgets its
// failures if the configuration says so.
func (b Breaker) succeed(c BreakerConfig) Breaker {
	switch {
	case b.Phase == Open, b.Phase == HalfOpen:
		return b.Reset()
	case c.ResetOnSuccess:
		b.Failures = 0
	}
	return b
}
