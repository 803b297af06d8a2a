package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/durable/durabletest"
	"sgclaw/internal/temporaltest"
	"sgclaw/workflows"
)

func scheduler(t *testing.T) (*durable.Client, *durabletest.Core) {
	t.Helper()
	s := temporaltest.Start(t)
	core := durabletest.New(t, s)
	c, err := durable.Dial(t.Context(), temporaltest.Logger(t, slog.LevelError), durable.Config{Address: s.Address, Namespace: s.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, core
}

// hourly is a schedule that does not fire by itself during a test.
func hourly(session, task string) durable.Schedule {
	return durable.Schedule{
		Session: session, Message: agent.Message{Text: task, Origin: agent.Origin{Kind: "schedule", User: "ann"}},
		Timing:     durable.Timing{Every: time.Hour, Anchor: time.Now().Add(30 * time.Minute).UTC().Truncate(time.Second)},
		Definition: json.RawMessage(`{"name":"n"}`),
	}
}

func TestScheduleIsKeptAsItWasMade(t *testing.T) {
	c, _ := scheduler(t)
	for name, timing := range map[string]durable.Timing{
		"cron":  {Cron: "30 9 * * 1-5", TZ: "Asia/Shanghai", Jitter: time.Second},
		"every": {Every: 90 * time.Minute, Anchor: time.Date(2026, 1, 1, 0, 20, 0, 0, time.UTC)},
		"at":    {At: time.Date(2099, 3, 4, 5, 6, 7, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			want := hourly("s-"+name, "click")
			want.Timing, want.Skip, want.Catchup = timing, true, 2*time.Hour
			id, err := c.CreateSchedule(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.DescribeSchedule(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if got.Next.Before(time.Now()) || got.CreatedAt.IsZero() {
				t.Errorf("next %v, created %v", got.Next, got.CreatedAt)
			}
			if name == "cron" && (got.Next.Hour() != 1 || got.Next.Minute() != 30) {
				t.Errorf("next is %v, want 9:30 in Shanghai", got.Next)
			}
			if name == "at" && !got.Next.Equal(timing.At) {
				t.Errorf("next is %v, want %v", got.Next, timing.At)
			}
			want.ID = id
			want.CreatedAt, want.UpdatedAt, want.Next = got.CreatedAt, got.UpdatedAt, got.Next
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestScheduleRefusesWhatCannotBe(t *testing.T) {
	c, _ := scheduler(t)
	for name, change := range map[string]func(*durable.Schedule){
		"no time":           func(s *durable.Schedule) { s.Timing = durable.Timing{} },
		"two times":         func(s *durable.Schedule) { s.Timing.Cron = "* * * * *" },
		"six fields":        func(s *durable.Schedule) { s.Timing = durable.Timing{Cron: "* * * * * *"} },
		"not a cron":        func(s *durable.Schedule) { s.Timing = durable.Timing{Cron: "a b c d e"} },
		"unknown time zone": func(s *durable.Schedule) { s.Timing = durable.Timing{Cron: "1 2 * * *", TZ: "Mars/Olympus"} },
		"part of a second":  func(s *durable.Schedule) { s.Timing = durable.Timing{Every: 1500 * time.Millisecond} },
		"no task":           func(s *durable.Schedule) { s.Message.Text = " " },
		"no session":        func(s *durable.Schedule) { s.Session = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := hourly("s", "click")
			change(&s)
			if id, err := c.CreateSchedule(t.Context(), s); !errors.Is(err, durable.ErrInvalid) {
				t.Errorf("created %q, %v", id, err)
			}
		})
	}
	if _, err := c.DescribeSchedule(t.Context(), "none"); !errors.Is(err, durable.ErrNotFound) {
		t.Errorf("describe: %v", err)
	}
	if err := c.DeleteSchedule(t.Context(), "none"); !errors.Is(err, durable.ErrNotFound) {
		t.Errorf("delete: %v", err)
	}
	if err := c.UpdateSchedule(t.Context(), "none", func(*durable.Schedule) error { return nil }); !errors.Is(err, durable.ErrNotFound) {
		t.Errorf("update: %v", err)
	}
}

func TestScheduleFiresOnceIntoItsSession(t *testing.T) {
	c, core := scheduler(t)
	core.StartWorker(t)
	id, err := c.CreateSchedule(t.Context(), hourly("s-fire", "giveup"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.TriggerSchedule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if f.RunID != workflows.FireMessageID(id, f.Due) || f.Session != "s-fire" {
		t.Fatalf("fired %+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if out, err := c.WaitResult(ctx, f.RunID); err != nil || out.Reason != agent.ReasonGaveUp {
		t.Fatalf("result %+v, %v", out, err)
	}
	// The same firing, once more.
	if st, err := c.StartTask(t.Context(), "s-fire", agent.Message{ID: f.RunID, Text: "giveup"}); err != nil || !st.Known {
		t.Errorf("started again: %+v, %v", st, err)
	}
	s, err := c.DescribeSchedule(t.Context(), id)
	if err != nil || !slices.Contains(s.Recent, f) {
		t.Errorf("recent %+v, %v", s.Recent, err)
	}
}

// TestJitterDoesNotHideTheRun: the server lists a firing at the time that
// jitter gave it, and its run is named by the time at which it was due.
func TestJitterDoesNotHideTheRun(t *testing.T) {
	c, core := scheduler(t)
	core.StartWorker(t)
	s := hourly("s-jitter", "giveup")
	s.Timing = durable.Timing{Every: 3 * time.Second, Jitter: 2900 * time.Millisecond}
	id, err := c.CreateSchedule(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var recent []durable.Firing
	eventually(t, "it fired twice", func() bool {
		s, err := c.DescribeSchedule(t.Context(), id)
		recent = s.Recent
		return err == nil && len(recent) >= 2
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, f := range recent {
		if f.Due.Unix()%3 != 0 {
			t.Errorf("due at %v, which is not every three seconds", f.Due)
		}
		if _, err := c.WaitResult(ctx, f.RunID); err != nil {
			t.Errorf("run %s: %v", f.RunID, err)
		}
	}
}

func TestScheduleThatSkipsLeavesOutWhatWouldWait(t *testing.T) {
	c, core := scheduler(t)
	core.StartWorker(t)
	for _, fresh := range []bool{false, true} {
		s := hourly("s-skip", "slow")
		s.Skip, s.Fresh = true, fresh
		id, err := c.CreateSchedule(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.TriggerSchedule(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the first run is under way", func() bool {
			r, err := c.List(t.Context(), durable.Filter{Session: first.Session, Active: true})
			return err == nil && len(r) == 1 && r[0].RunID == first.RunID
		})
		eventually(t, "another second has begun", func() bool { return time.Now().Unix() > first.Due.Unix() })
		second, err := c.TriggerSchedule(t.Context(), id)
		if err != nil || second.RunID == first.RunID {
			t.Fatalf("second %+v, %v", second, err)
		}
		eventually(t, "the second firing is over", func() bool {
			d, err := c.Temporal().DescribeWorkflow(t.Context(), fireWorkflow(id, second), "")
			return err == nil && d.WorkflowCloseTime != nil
		})
		if r, err := c.Describe(t.Context(), second.RunID); !errors.Is(err, durable.ErrNotFound) {
			t.Errorf("fresh %v: the second firing has a run: %+v, %v", fresh, r, err)
		}
	}
}

func fireWorkflow(id string, f durable.Firing) string {
	return workflows.FireWorkflowID(id) + "-" + f.Due.Format(time.RFC3339)
}

func TestScheduleIsChangedPausedAndDeleted(t *testing.T) {
	c, _ := scheduler(t)
	id, err := c.CreateSchedule(t.Context(), hourly("s-change", "click"))
	if err != nil {
		t.Fatal(err)
	}
	err = c.UpdateSchedule(t.Context(), id, func(s *durable.Schedule) error {
		s.Message.Text, s.Paused, s.Timing = "click click", true, durable.Timing{Cron: "0 0 1 1 *"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.DescribeSchedule(t.Context(), id)
	if err != nil || got.Message.Text != "click click" || !got.Paused || got.Timing.Cron != "0 0 1 1 *" || !got.Next.IsZero() {
		t.Errorf("changed to %+v, %v", got, err)
	}
	eventually(t, "it is listed", func() bool {
		all, err := c.Schedules(t.Context())
		return err == nil && slices.ContainsFunc(all, func(s durable.Schedule) bool { return s.ID == id })
	})
	if err := c.DeleteSchedule(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DescribeSchedule(t.Context(), id); !errors.Is(err, durable.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}
}

// eventually waits until something is so: the server lists and tells some
// things a moment later.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s", what)
		}
	}
}
