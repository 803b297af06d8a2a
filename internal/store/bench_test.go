package store

import (
	"fmt"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/critic"
	"sgclaw/internal/record"
)

func benchRun(b *testing.B, s *Store, id string) script {
	r := script{b, s, id, "x"}
	r.begin()
	return r
}

// All that the store does for a step: two transactions that write, and a look
// before the model is called.
func BenchmarkStep(b *testing.B) {
	s := newStore(b)
	text := string(make([]byte, 0, 8<<10))
	for len(text) < 8<<10 {
		text += "- button \"批准\" [ref=e12]\n"
	}
	r := benchRun(b, s, "r")
	step := 0
	for b.Loop() {
		step++
		if _, err := s.Thought(b.Context(), r.fence(step)); err != nil {
			b.Fatal(err)
		}
		th, err := s.RecordThought(b.Context(), r.fence(step), record.Thought{
			Text: "I will approve the first request.", Calls: []agent.Call{{Action: "click"}}, ProviderIDs: []string{"call_1"}, Usage: usage(4000), Model: "gpt",
		})
		if err != nil {
			b.Fatal(err)
		}
		_, err = s.RecordStep(b.Context(), r.fence(step), "b1", record.Observation{
			Call: th.Calls[0], Outcome: agent.OutcomeDone, Text: text, Signature: "click:1",
		}, 5, func(_ []string, b critic.Breaker) (critic.Breaker, critic.Verdict) { return b, critic.Verdict{} })
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStepParallel(b *testing.B) {
	s := newStore(b)
	b.RunParallel(func(pb *testing.PB) {
		id, err := randomID()
		if err != nil {
			b.Error(err)
			return
		}
		r := benchRun(b, s, id)
		for step := 1; pb.Next(); step++ {
			r.think(step, 1)
			r.observe(step, 0)
		}
	})
}

func BenchmarkConversation(b *testing.B) {
	for _, steps := range []int{10, 50} {
		b.Run(fmt.Sprint(steps), func(b *testing.B) {
			s := newStore(b)
			r := benchRun(b, s, "r")
			for step := 1; step <= steps; step++ {
				r.think(step, 1)
				r.observe(step, 0)
			}
			for b.Loop() {
				if turns, err := s.Conversation(b.Context(), r.fence(steps)); err != nil || len(turns) != 1+2*steps {
					b.Fatalf("%d turns, %v", len(turns), err)
				}
			}
		})
	}
}

func BenchmarkSetStatus(b *testing.B) {
	s := newStore(b)
	r := benchRun(b, s, "r")
	n := 0
	for b.Loop() {
		n++
		r.must(s.SetStatus(b.Context(), r.fence(0), fmt.Sprint(n), agent.StatusCooling, "", ""))
	}
}

// crowd fills the database with sessions of ten runs each, of which every
// tenth is under way, of two steps each.
func crowd(b *testing.B, s *Store, sessions int) {
	b.Helper()
	for _, q := range []string{
		`INSERT INTO sessions (key, last_seq, updated_at, settings)
			SELECT 'agent:main:s' || n, 50, now() - n * interval '1 second', json_build_object('label', 'session ' || n) FROM generate_series(1, $1) n`,
		`INSERT INTO runs (id, session, task, browser, origin, asked, settings, status, success, summary, prompt_tokens, completion_tokens, total_tokens, models,
				step, duration_ms, accepted_at, started_at, ended_at)
			SELECT 'r' || n, 'agent:main:s' || 1 + n % $1, 'approve the leave request number ' || n, 'b' || n % 20, '{"user":"li"}', '{}', '{"agent":"main"}',
				CASE WHEN n > 9 * $1 THEN 'queued' ELSE 'done' END, true, 'done, all ' || n || ' were approved', 1000, 100, 1100,
				'{"gpt":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100}}', 2, 60000,
				t, t, CASE WHEN n > 9 * $1 THEN NULL ELSE t + interval '1 minute' END
			FROM generate_series(1, 10 * $1) n, LATERAL (SELECT now() - (10 * $1 - n) * interval '10 seconds' AS t) at`,
		`INSERT INTO messages (run_id, branch, step, role, key, text)
			SELECT 'r' || n, 1, k, CASE k WHEN 0 THEN 'task' ELSE 'thought' END, 'k/' || k, repeat('text ', 40)
			FROM generate_series(1, 10 * $1) n, generate_series(0, 2) k`,
		`INSERT INTO steps (run_id, branch, step, idx, action, call, outcome, observation)
			SELECT 'r' || n, 1, k, 0, 'click', json_build_object('id', 'c' || k, 'action', 'click'), 'done', repeat('- button 批准 ', 100)
			FROM generate_series(1, 10 * $1) n, generate_series(1, 2) k`,
	} {
		if _, err := s.db.ExecContext(b.Context(), q, sessions); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.db.ExecContext(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// With 10 000 sessions and 100 000 runs: a page of each list.
func BenchmarkLists(b *testing.B) {
	s := newStore(b)
	crowd(b, s, 10_000)
	ctx := b.Context()
	day := time.Now().Truncate(24 * time.Hour)
	for _, c := range []struct {
		name string
		list func() (int, error)
		want int
	}{
		{"Sessions", func() (int, error) {
			list, _, err := s.Sessions(ctx, SessionFilter{})
			return len(list), err
		}, 50},
		{"SessionsFarDown", func() (int, error) {
			list, _, err := s.Sessions(ctx, SessionFilter{Before: "agent:main:s9000"})
			return len(list), err
		}, 50},
		{"SessionsSearched", func() (int, error) {
			list, _, err := s.Sessions(ctx, SessionFilter{Search: "session 77"})
			return len(list), err
		}, 50},
		{"Session", func() (int, error) {
			one, err := s.Session(ctx, "agent:main:s77")
			return one.Runs, err
		}, 10},
		{"History", func() (int, error) {
			list, _, err := s.History(ctx, "agent:main:s77", HistoryFilter{Limit: 200})
			return len(list), err
		}, 50},
		{"HistoryPage", func() (int, error) {
			list, _, err := s.History(ctx, "agent:main:s77", HistoryFilter{Limit: 10, Offset: 20})
			return len(list), err
		}, 10},
		{"Past", func() (int, error) {
			past, err := s.Past(ctx, "agent:main:s77", "")
			return len(past.Parts), err
		}, 9},
		{"Runs", func() (int, error) {
			list, err := s.Runs(ctx, Filter{})
			return len(list), err
		}, 50},
		{"RunsFound", func() (int, error) {
			list, err := s.SearchRuns(ctx, RunSearch{Text: "number 777"})
			return len(list), err
		}, 50},
		{"RunsNotFound", func() (int, error) {
			list, err := s.SearchRuns(ctx, RunSearch{Text: "请假"})
			return len(list), err
		}, 0},
		{"UsageOfADay", func() (int, error) {
			list, err := s.Usage(ctx, day.Add(-24*time.Hour), day, "Asia/Shanghai")
			return min(1, len(list)), err
		}, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if n, err := c.list(); err != nil || n != c.want {
					b.Fatalf("%d, want %d; %v", n, c.want, err)
				}
			}
		})
	}
}

// A session that went on for 5 000 runs.
func BenchmarkHistoryOfALongSession(b *testing.B) {
	s := newStore(b)
	crowd(b, s, 500)
	if _, err := s.db.ExecContext(b.Context(), "UPDATE runs SET session = 'agent:main:s1'"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		items, total, err := s.History(b.Context(), "agent:main:s1", HistoryFilter{Limit: 100})
		if err != nil || len(items) != 100 || total != 500*(9*5+5) {
			b.Fatalf("%d of %d, %v", len(items), total, err)
		}
	}
}
