package policy

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const limited = `"rate_limits": {
	"default": {"max_per_second": 3, "cooldown_seconds": 30},
	"overrides": {
		"*.corp.example.com": {"max_per_second": 1, "cooldown_seconds": 60},
		"b.corp.example.com": {"max_per_second": 2, "cooldown_seconds": 0}
	}}`

func ptr[T any](v T) *T { return &v }

// The order of seed 001 §2.5 as architecture.md has it.
func TestCheckOrder(t *testing.T) {
	r := mustParse(t, wrap(limited, `"pipe_actions": {"allowed": ["click", "storageSet"], "blocked": ["eval"], "need_confirm": ["sessionLogin"]}`))
	c := newClock()
	e := New(r, c.Now)
	for range 4 { // one too many: oa cools down
		e.Check(Request{Action: "click", Domain: "oa.example.com"})
	}
	c.advance(5 * time.Second)
	tests := []struct {
		name string
		req  Request
		want Decision
		code string
	}{
		{"blocked before domain", Request{Action: "eval", Domain: "evil.com"}, Deny, CodeActionBlocked},
		{"not permitted before domain", Request{Action: "navigate", Domain: "evil.com"}, Deny, CodeActionNotAllowed},
		{"domain before storage", Request{Action: "storageSet", Domain: "evil.com", StorageKey: ptr("x")}, Deny, CodeDomainNotAllowed},
		{"storage before rate", Request{Action: "storageSet", Domain: "oa.example.com", StorageKey: ptr("token")}, Deny, CodeStorageKey},
		{"an empty key is a key", Request{Action: "storageSet", Domain: "oa.example.com", StorageKey: ptr("")}, Deny, CodeStorageKey},
		{"rate before confirm", Request{Action: "sessionLogin", Domain: "oa.example.com"}, Deny, CodeRateLimit},
		{"a grant does not lift the rate", Request{Action: "sessionLogin", Domain: "oa.example.com", Granted: true}, Deny, CodeRateLimit},
		{"confirm", Request{Action: "sessionLogin", Domain: "a.corp.example.com"}, NeedConfirm, CodeNeedConfirm},
		{"granted", Request{Action: "sessionLogin", Domain: "a.corp.example.com", Granted: true}, Allow, ""},
		{"a grant does not permit", Request{Action: "eval", Domain: "b.corp.example.com", Granted: true}, Deny, CodeActionBlocked},
		{"allow", Request{Action: "storageSet", Domain: "b.corp.example.com", StorageKey: ptr("sgclaw.x")}, Allow, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if v := e.Check(tt.req); v.Decision != tt.want || v.Code != tt.code {
				t.Errorf("got %s %s, want %s %s", v.Decision, v.Code, tt.want, tt.code)
			}
		})
	}
}

func TestRateLimit(t *testing.T) {
	c := newClock()
	e := New(mustParse(t, wrap(limited)), c.Now)
	step := func(name, host string, want Decision, retry time.Duration) {
		t.Helper()
		v := e.Check(Request{Action: "click", Domain: host})
		if v.Decision != want || v.RetryAfter != retry {
			t.Errorf("%s: %s, retry after %s; want %s, %s (%s)", name, v.Decision, v.RetryAfter, want, retry, v.Message)
		}
	}
	const oa, a, b = "oa.example.com", "a.corp.example.com", "b.corp.example.com"

	step("first", oa, Allow, 0)
	c.advance(400 * time.Millisecond)
	step("second", oa, Allow, 0)
	step("third", oa, Allow, 0)
	c.advance(599 * time.Millisecond)
	step("fourth within a second", oa, Deny, 30*time.Second)
	step("another host has a count of its own", a, Allow, 0)
	c.advance(29 * time.Second)
	step("cooling", oa, Deny, time.Second)
	c.advance(time.Second)
	step("after the cooldown", oa, Allow, 0)
	step("and on", oa, Allow, 0)

	// The window slides: three at .0, .0 and .9 of a second leave room for
	// two at 1.0.
	c.advance(10 * time.Second)
	step("window 1", oa, Allow, 0)
	step("window 2", oa, Allow, 0)
	c.advance(900 * time.Millisecond)
	step("window 3", oa, Allow, 0)
	c.advance(100 * time.Millisecond)
	step("window 4", oa, Allow, 0)
	step("window 5", oa, Allow, 0)
	step("window 6", oa, Deny, 30*time.Second)

	// No cooldown: only until there is room again.
	step("b 1", b, Allow, 0)
	c.advance(300 * time.Millisecond)
	step("b 2", b, Allow, 0)
	step("b 3", b, Deny, 700*time.Millisecond)
	c.advance(700 * time.Millisecond)
	step("b 4", b, Allow, 0)
}

// What is not sent to the page does not count.
func TestOnlyPassedAccessesCount(t *testing.T) {
	c := newClock()
	e := New(mustParse(t, wrap(limited, `"pipe_actions": {"allowed": ["click"], "blocked": ["eval"], "need_confirm": ["sessionLogin"]}`)), c.Now)
	for range 20 {
		e.Check(Request{Action: "eval", Domain: "oa.example.com"})
		e.Check(Request{Action: "navigate", Domain: "oa.example.com"})
		e.Check(Request{Action: "click", Domain: "oa.example.com", StorageKey: ptr("x")})
		if v := e.Check(Request{Action: "sessionLogin", Domain: "oa.example.com"}); v.Decision != NeedConfirm {
			t.Fatalf("%s %s", v.Decision, v.Message)
		}
	}
	for range 3 {
		if v := e.Check(Request{Action: "click", Domain: "oa.example.com"}); v.Decision != Allow {
			t.Fatalf("%s %s", v.Decision, v.Message)
		}
	}
}

func TestReloadKeepsRates(t *testing.T) {
	c := newClock()
	rate := func(n string) *Rules {
		return mustParse(t, wrap(`"rate_limits": {"default": {"max_per_second": `+n+`, "cooldown_seconds": 30}}`))
	}
	e := New(rate("3"), c.Now)
	check := func() Decision { return e.Check(Request{Action: "click", Domain: "oa.example.com"}).Decision }
	// passes counts how many of n pass.
	passes := func(n int) (passed int) {
		for range n {
			if check() == Allow {
				passed++
			}
		}
		return passed
	}
	passes(3)
	e.Reload(rate("5"))
	if passes(2) != 2 {
		t.Fatal("the raised limit does not hold")
	}
	c.advance(999 * time.Millisecond)
	if check() != Deny {
		t.Fatal("the counts were lost")
	}
	e.Reload(rate("50"))
	if check() != Deny {
		t.Fatal("the cooldown was lost")
	}
	c.advance(30 * time.Second)
	if passes(50) != 50 {
		t.Fatal("denied below the limit")
	}
	e.Reload(rate("2"))
	if check() != Deny {
		t.Fatal("the lowered limit does not hold")
	}
	c.advance(31 * time.Second)
	if passes(3) != 2 {
		t.Fatal("the lowered limit is wrong afterwards")
	}
	e.Reload(nil)
	if check() != Deny || e.Rules().AllowDomain("oa.example.com") {
		t.Fatal("no rules allow something")
	}
}

func TestCooldownsSurviveARestart(t *testing.T) {
	c := newClock()
	r := mustParse(t, wrap(limited))
	e := New(r, c.Now)
	for range 2 {
		e.Check(Request{Action: "click", Domain: "a.corp.example.com"})
	}
	e.Check(Request{Action: "click", Domain: "oa.example.com"})
	kept := e.Cooldowns()
	if len(kept) != 1 || !kept["a.corp.example.com"].Equal(c.Now().Add(60*time.Second)) {
		t.Fatalf("cooldowns %v", kept)
	}

	c.advance(20 * time.Second)
	e = New(r, c.Now)
	kept["gone.corp.example.com"] = c.Now().Add(-time.Second)
	kept["oa.example.com"] = c.Now().Add(1000 * time.Hour) // the clock was wrong
	e.Restore(kept)
	if v := e.Check(Request{Action: "click", Domain: "a.corp.example.com"}); v.RetryAfter != 40*time.Second {
		t.Errorf("a: %s, retry after %s", v.Decision, v.RetryAfter)
	}
	if v := e.Check(Request{Action: "click", Domain: "oa.example.com"}); v.RetryAfter != 30*time.Second {
		t.Errorf("oa: %s, retry after %s", v.Decision, v.RetryAfter)
	}
	if v := e.Check(Request{Action: "click", Domain: "gone.corp.example.com"}); v.Decision != Allow {
		t.Errorf("gone: %s", v.Message)
	}
}

func TestIdleHostsAreForgotten(t *testing.T) {
	c := newClock()
	e := New(mustParse(t, wrap(limited)), c.Now)
	for i := range 3 * maxIdleHosts {
		e.Check(Request{Action: "click", Domain: "h" + strconv.Itoa(i) + ".corp.example.com"})
		c.advance(10 * time.Millisecond)
	}
	if n := len(e.hosts); n > maxIdleHosts {
		t.Errorf("%d hosts remembered", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := mustParse(t, wrap(limited))
	e := New(r, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				e.Check(Request{Action: "click", Domain: "h" + strconv.Itoa(i%7) + ".corp.example.com"})
				if i%100 == 0 {
					e.Reload(r)
					e.Restore(e.Cooldowns())
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCheck(b *testing.B) {
	r := example(b)
	run := func(name string, req Request) {
		b.Run(name, func(b *testing.B) {
			var now time.Time
			e := New(r, func() time.Time { now = now.Add(time.Second); return now })
			b.ReportAllocs()
			for b.Loop() {
				e.Check(req)
			}
		})
	}
	run("allow", Request{Action: "click", Domain: "oa.example.com"})
	run("deny", Request{Action: "eval", Domain: "oa.example.com"})
	run("confirm", Request{Action: "sessionLogin", Domain: "oa.example.com"})
	b.Run("clock", func(b *testing.B) {
		e := New(mustParse(b, wrap(`"rate_limits": {"default": {"max_per_second": 1000, "cooldown_seconds": 0}}`)), nil)
		b.ReportAllocs()
		for b.Loop() {
			e.Check(Request{Action: "click", Domain: "oa.example.com"})
		}
	})
}

func BenchmarkConfirmWhen(b *testing.B) {
	r := example(b)
	b.ReportAllocs()
	for b.Loop() {
		r.ConfirmWhen(Element{Action: "click", Domain: "oa.example.com", Role: "button", Name: "查看请假申请详情"})
	}
}
