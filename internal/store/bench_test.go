package store

import (
	"fmt"
	"testing"

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
