package policy

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Request is one action that the agent wants to carry out.
type Request struct {
	Action string
	// Domain is the host that the action is about, in the form of
	// action.Host.
	Domain string
	// StorageKey is the key of storageSet and storageGet; nil for other
	// actions.
	StorageKey *string
	// Granted says that a person has said yes to this very action: the
	// confirm step is passed over, all others hold. Whether the grant is
	// good is the caller's to check.
	Granted bool
}

// Engine is layer 2: rules and the memory of how often each host was
// accessed. It is safe for concurrent use.
type Engine struct {
	clock func() time.Time
	start time.Time
	rules atomic.Pointer[Rules]

	mu    sync.Mutex
	hosts map[string]*meter
}

// meter is what an Engine knows about one host. Times count from the
// engine's start, so that a wall clock that is set does not matter.
type meter struct {
	passed []time.Duration // the last accesses, at most MaxPerSecond, as a ring
	next   int             // where the next one goes; the oldest once the ring is full
	until  time.Duration   // end of the cooldown
}

// maxIdleHosts is how many hosts an Engine remembers before it forgets those
// that are neither cooling nor were accessed within a second. Only wildcards
// can bring that many about.
const maxIdleHosts = 1024

// New returns an engine. A nil clock means time.Now. With nil rules nothing
// is permitted until Reload.
func New(rules *Rules, clock func() time.Time) *Engine {
	if clock == nil {
		clock = time.Now
	}
	e := &Engine{clock: clock, start: clock(), hosts: make(map[string]*meter)}
	e.Reload(rules)
	return e
}

// Rules returns the rules in force.
func (e *Engine) Rules() *Rules { return e.rules.Load() }

// Reload puts other rules in force. Checks under way finish with the old
// ones; counts and cooldowns stay.
func (e *Engine) Reload(rules *Rules) {
	if rules == nil {
		rules = &Rules{rate: DefaultRate, keyPrefix: DefaultKeyPrefix}
	}
	e.rules.Store(rules)
}

// Check judges a request and, if it is allowed, counts it (seed 001 §2.5,
// check and record_access). The package comment has the order.
func (e *Engine) Check(req Request) Verdict {
	r := e.rules.Load()
	if v, ok := r.checkAction(req.Action, req.Domain); !ok {
		return v
	}
	if req.StorageKey != nil {
		if v := r.CheckStorageKey(*req.StorageKey); v.Decision != Allow {
			return v
		}
	}
	confirm := r.confirm[req.Action] && !req.Granted
	if v := e.count(req.Domain, r.rateFor(req.Domain), !confirm); v.Decision != Allow {
		return v
	}
	if confirm {
		return needConfirm(req.Action)
	}
	return Verdict{Decision: Allow}
}

// count applies the rate of a host and, if pass is set and the access is
// within it, records the access.
func (e *Engine) count(host string, rate Rate, pass bool) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock().Sub(e.start)
	m := e.hosts[host]
	if m == nil {
		m = e.meter(host, now)
	}
	if now < m.until {
		wait := m.until - now
		v := deny(CodeRateLimit, "Rate limit of %s was exceeded; it cools down for another %s", host, ceilSecond(wait))
		v.RetryAfter = wait
		return v
	}
	m.resize(rate.MaxPerSecond)
	if len(m.passed) == rate.MaxPerSecond {
		if age := now - m.passed[m.next]; age < time.Second {
			wait := time.Second - age
			if rate.CooldownSeconds > 0 {
				wait = time.Duration(rate.CooldownSeconds) * time.Second
				m.until = now + wait
			}
			v := deny(CodeRateLimit, "Rate limit exceeded on %s: more than %d actions within a second; try again in %s",
				host, rate.MaxPerSecond, ceilSecond(wait))
			v.RetryAfter = wait
			return v
		}
	}
	if pass {
		m.record(now, rate.MaxPerSecond)
	}
	return Verdict{Decision: Allow}
}

// meter makes the meter of a host, after forgetting idle ones if there are
// too many.
func (e *Engine) meter(host string, now time.Duration) *meter {
	if len(e.hosts) >= maxIdleHosts {
		maps.DeleteFunc(e.hosts, func(_ string, m *meter) bool { return m.idle(now) })
	}
	m := &meter{}
	e.hosts[host] = m
	return m
}

func (m *meter) idle(now time.Duration) bool {
	if now < m.until {
		return false
	}
	return len(m.passed) == 0 || now-slices.Max(m.passed) >= time.Second
}

func (m *meter) record(now time.Duration, limit int) {
	if len(m.passed) < limit {
		m.passed = append(m.passed, now)
		return
	}
	m.passed[m.next] = now
	m.next = (m.next + 1) % limit
}

// resize fits the ring to a limit that was reloaded, keeping the newest
// accesses. Below the limit the ring is in order and next is 0.
func (m *meter) resize(limit int) {
	if len(m.passed) <= limit && m.next == 0 {
		return
	}
	if len(m.passed) == limit {
		return
	}
	ordered := append(slices.Clone(m.passed[m.next:]), m.passed[:m.next]...)
	m.passed = ordered[max(0, len(ordered)-limit):]
	m.next = 0
}

// Cooldowns returns the hosts that are cooling down and until when, for
// keeping over a restart.
func (e *Engine) Cooldowns() map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.clock()
	now := at.Sub(e.start)
	out := make(map[string]time.Time)
	for host, m := range e.hosts {
		if now < m.until {
			out[host] = at.Add(m.until - now).UTC().Round(0)
		}
	}
	return out
}

// Restore takes over cooldowns of an earlier process. Those that have ended
// are left out; none lasts longer than the rules in force say, whatever
// became of the clock.
func (e *Engine) Restore(cooldowns map[string]time.Time) {
	r := e.rules.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.clock()
	now := at.Sub(e.start)
	for host, until := range cooldowns {
		left := min(until.Sub(at.Round(0)), time.Duration(r.rateFor(host).CooldownSeconds)*time.Second)
		if left <= 0 {
			continue
		}
		m := e.hosts[host]
		if m == nil {
			m = e.meter(host, now)
		}
		m.until = max(m.until, now+left)
	}
}

// ceilSecond is a duration for a message: whole seconds, never zero.
func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
