package journal

import (
	"strings"
	"testing"

	"sgclaw/internal/agent"
)

// BenchmarkEffect is what the journal adds to an effect: begun and done,
// with an observation, both on disk.
func BenchmarkEffect(b *testing.B) {
	j := openIn(b, b.TempDir())
	snapshot := strings.Repeat("- button \"批准\" [ref=e1]\n", 300)
	step := 0
	for b.Loop() {
		step++
		e := effect("run", step)
		if _, fresh, err := j.Begin(e); err != nil || !fresh {
			b.Fatal(fresh, err)
		}
		ref := newRef()
		if err := j.Done(e, agent.Result{Outcome: agent.OutcomeDone, Ref: ref}, map[string]agent.Body{ref: {Text: snapshot}}); err != nil {
			b.Fatal(err)
		}
	}
}
