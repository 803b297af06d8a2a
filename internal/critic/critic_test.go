package critic

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
)

var t0 = time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)

// "CriticConfig … CircuitBreakerConfig" with "(默认 …)" of seed 001 §2.6.
func TestDefault(t *testing.T) {
	want := Config{10, 5, 600 * time.Second, BreakerConfig{10, time.Second, 30 * time.Second, true}}
	if diff := cmp.Diff(want, Default()); diff != "" {
		t.Error(diff)
	}
}

func same(n int, sig string) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(sig+"\n", n), "\n"), "\n")
}

// evaluate(step, action, result, elapsed) of seed 001 §2.6, rule by rule.
func TestEvaluate(t *testing.T) {
	few := Default()
	few.FailureThreshold, few.Breaker.FailureThreshold = 3, 4
	noReset := Default()
	noReset.Breaker.ResetOnSuccess = false
	open := Breaker{Phase: Open, Failures: 10, Cooldown: time.Second, OpenedAt: t0, LastFailure: t0}

	tests := []struct {
		name    string
		in      Input
		breaker Breaker
		config  Config
		abort   string
		warning string
		want    Breaker
	}{
		// 1. 检查操作是否失败
		{name: "a failure is counted", in: Input{Failed: true}, config: Default(),
			want: Breaker{Failures: 1, LastFailure: t0}},
		{name: "the ninth failure warns", in: Input{Failed: true}, breaker: Breaker{Failures: 8}, config: Default(),
			warning: "9 actions in a row failed", want: Breaker{Failures: 9, LastFailure: t0}},
		{name: "连续失败次数达到熔断阈值", in: Input{Failed: true}, breaker: Breaker{Failures: 9}, config: Default(),
			abort: agent.ReasonBreakerOpen, want: open},
		{name: "the lower threshold holds", in: Input{Failed: true}, breaker: Breaker{Failures: 2}, config: few,
			abort: agent.ReasonBreakerOpen, want: Breaker{Phase: Open, Failures: 3, Cooldown: time.Second, OpenedAt: t0, LastFailure: t0}},
		{name: "a failure while open ends the run and does not prolong the cooldown", in: Input{Failed: true, Now: t0.Add(time.Second / 2)}, breaker: open, config: Default(),
			abort: agent.ReasonBreakerOpen, want: Breaker{Phase: Open, Failures: 11, Cooldown: time.Second, OpenedAt: t0, LastFailure: t0.Add(time.Second / 2)}},
		{name: "failure is looked at before repetition and time", in: Input{Failed: true, Recent: same(5, "a"), ActionSignature: "a", Active: time.Hour}, breaker: Breaker{Failures: 9}, config: Default(),
			abort: agent.ReasonBreakerOpen, want: open},
		// 2. 检查是否在重复同一操作
		{name: "检测到死循环：连续重复相同操作", in: Input{Recent: append([]string{"b"}, same(5, "a")...), ActionSignature: "a"}, breaker: Breaker{Failures: 2}, config: Default(),
			abort: agent.ReasonRepeatedAction, want: Breaker{Failures: 2}},
		{name: "four times warns", in: Input{Recent: append([]string{"b"}, same(4, "a")...), ActionSignature: "a"}, config: Default(),
			warning: "done 4 times in a row"},
		{name: "something else between", in: Input{Recent: []string{"a", "a", "b", "a", "a"}, ActionSignature: "a"}, config: Default()},
		{name: "fewer actions than the limit", in: Input{Recent: same(3, "a"), ActionSignature: "a"}, config: Default()},
		{name: "a repeated failure", in: Input{Failed: true, Recent: same(5, "a"), ActionSignature: "a"}, config: Default(),
			abort: agent.ReasonRepeatedAction, want: Breaker{Failures: 1, LastFailure: t0}},
		{name: "a repeated refusal", in: Input{Neutral: true, Recent: same(5, "a"), ActionSignature: "a"}, config: Default(),
			abort: agent.ReasonRepeatedAction},
		{name: "repetition is looked at before time", in: Input{Recent: same(5, "a"), ActionSignature: "a", Active: time.Hour}, config: Default(),
			abort: agent.ReasonRepeatedAction},
		// 3. 检查任务时长
		{name: "任务执行超时", in: Input{Active: 600*time.Second + 1}, breaker: Breaker{Failures: 2}, config: Default(),
			abort: agent.ReasonTaskTimeout, want: Breaker{Failures: 2}},
		{name: "just in time", in: Input{Active: 600 * time.Second}, config: Default(), warning: "the task ends in 0s"},
		// 4. 成功时重置计数
		{name: "a success resets", breaker: Breaker{Failures: 9, LastFailure: t0}, config: Default(), want: Breaker{LastFailure: t0}},
		{name: "reset_on_success = false", breaker: Breaker{Failures: 9}, config: noReset, want: Breaker{Failures: 9}},
		{name: "neither failure nor success", in: Input{Neutral: true, Failed: true}, breaker: Breaker{Failures: 3}, config: Default(), want: Breaker{Failures: 3}},
		{name: "a success closes an open breaker", breaker: open, config: noReset, want: Breaker{Phase: Closed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.in.Now.IsZero() {
				tt.in.Now = t0
			}
			got, v := Evaluate(tt.in, tt.breaker, tt.config)
			if v.ShouldAbort != (tt.abort != "") || v.Reason != tt.abort {
				t.Errorf("verdict %+v, want abort %q", v, tt.abort)
			}
			if (v.Warning == "") != (tt.warning == "") || !strings.Contains(v.Warning, tt.warning) {
				t.Errorf("warning %q, want %q", v.Warning, tt.warning)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("breaker (-want +got):\n%s", diff)
			}
		})
	}
}

// The breaker over time: 1 s, then doubling to 30 s, one trial each, closed
// by a success.
func TestBreakerCooldowns(t *testing.T) {
	c := Default()
	var b Breaker
	now := t0
	for i := range 10 {
		if wait, next := b.Allow(now); wait != 0 {
			t.Fatalf("closed breaker waits %s before failure %d", wait, i)
		} else {
			b = next
		}
		b, _ = Evaluate(Input{Failed: true, Now: now}, b, c)
	}
	for _, secs := range []int{1, 2, 4, 8, 16, 30, 30} {
		cooldown := time.Duration(secs) * time.Second
		if b.Phase != Open {
			t.Fatalf("%s, want open", b.Phase)
		}
		if wait, next := b.Allow(now); wait != cooldown || next.Phase != Open {
			t.Fatalf("wait %s (%s), want %s", wait, next.Phase, cooldown)
		}
		now = now.Add(cooldown)
		wait, next := b.Allow(now)
		if wait != 0 || next.Phase != HalfOpen {
			t.Fatalf("after the cooldown: wait %s, %s", wait, next.Phase)
		}
		b = next
		// Only one trial: whoever comes second waits.
		if wait, _ := b.Allow(now); wait != cooldown {
			t.Fatalf("second trial waits %s, want %s", wait, cooldown)
		}
		var v Verdict
		b, v = Evaluate(Input{Failed: true, Now: now}, b, c)
		if v.Reason != agent.ReasonBreakerOpen {
			t.Fatalf("failed trial: %+v", v)
		}
	}
	now = now.Add(30 * time.Second)
	_, b = b.Allow(now)
	b, v := Evaluate(Input{Now: now}, b, c)
	if diff := cmp.Diff(Breaker{Phase: Closed}, b); diff != "" || v.ShouldAbort {
		t.Errorf("after a good trial: %s%+v", diff, v)
	}
}

func TestLostTrial(t *testing.T) {
	b := Breaker{Phase: Open, Cooldown: 4 * time.Second, OpenedAt: t0.Add(-4 * time.Second)}
	_, b = b.Allow(t0)
	if wait, next := b.Allow(t0.Add(4 * time.Second)); wait != 0 || next.Phase != HalfOpen {
		t.Errorf("a trial nobody reported on blocks for %s", wait)
	}
}

// A run that waited for the cooldown and did not ask again is the trial.
func TestTrialWithoutAsking(t *testing.T) {
	b := Breaker{Phase: Open, Failures: 10, Cooldown: 2 * time.Second, OpenedAt: t0.Add(-2 * time.Second)}
	got, v := Evaluate(Input{Failed: true, Now: t0}, b, Default())
	want := Breaker{Phase: Open, Failures: 11, Cooldown: 4 * time.Second, OpenedAt: t0, LastFailure: t0}
	if diff := cmp.Diff(want, got); diff != "" || v.Reason != agent.ReasonBreakerOpen {
		t.Errorf("%s%+v", diff, v)
	}
}

func TestClockSetBack(t *testing.T) {
	b := Breaker{Phase: Open, Cooldown: time.Second, OpenedAt: t0.Add(time.Hour)}
	if wait, next := b.Allow(t0); wait != 0 || next.Phase != HalfOpen {
		t.Errorf("an hour back: wait %s, %s", wait, next.Phase)
	}
	b.OpenedAt = t0.Add(time.Millisecond)
	if wait, _ := b.Allow(t0); wait != time.Second {
		t.Errorf("clocks that differ a little: wait %s, want 1s", wait)
	}
}

func TestReset(t *testing.T) {
	b := Breaker{Phase: Open, Failures: 10, Cooldown: 30 * time.Second, OpenedAt: t0}.Reset()
	if wait, _ := b.Allow(t0); wait != 0 || b.Failures != 0 {
		t.Errorf("after reset: wait %s, %d failures", wait, b.Failures)
	}
}

func TestBreakerJSON(t *testing.T) {
	b := Breaker{Phase: HalfOpen, Failures: 10, LastFailure: t0, Cooldown: 2 * time.Second, OpenedAt: t0.Add(time.Second)}
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"phase":"half_open","failures":10,"last_failure":"2026-03-03T08:00:00Z","opened_at":"2026-03-03T08:00:01Z","cooldown":2000000000}`
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	var got Breaker
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, got); diff != "" {
		t.Error(diff)
	}
	var zero Breaker
	if err := json.Unmarshal([]byte("{}"), &zero); err != nil || zero != (Breaker{}) {
		t.Errorf("%+v, %v", zero, err)
	}
}
