package durable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/durable/durabletest"
	"sgclaw/workflows"
)

// stepsFrom returns the steps of the model calls of a run from the nth on.
func stepsFrom(core *durabletest.Core, runID string, n int) []int {
	var steps []int
	for _, in := range core.Thinks(runID)[n:] {
		steps = append(steps, in.Step)
	}
	return steps
}

// ends reports whether the last of steps are want.
func ends(steps []int, want ...int) bool {
	if len(steps) < len(want) {
		return false
	}
	for i, s := range steps[len(steps)-len(want):] {
		if s != want[i] {
			return false
		}
	}
	return true
}

func TestRewindOfARunThatIsOver(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "desk", "click click click")
	result(t, c, runID)
	before, err := c.Describe(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Rewind(t.Context(), runID, 3, workflows.Instruction{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Execution == before.Execution || r.Step != 3 {
		t.Errorf("Rewind = %+v", r)
	}
	out := result(t, c, runID)
	if out.Status != agent.StatusDone || out.Steps != 4 {
		t.Errorf("outcome %+v", out)
	}
	if steps := stepsFrom(core, runID, 4); !ends(steps, 3, 4) || len(steps) != 2 {
		t.Errorf("steps after the rewind %v, want 3 4", steps)
	}
}

func TestRewindWithInstruction(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "", "click click approve click")
	q := asked(t, c, runID)
	// Signals and updates of what is dropped must not come back.
	if _, err := c.Instruct(t.Context(), runID, workflows.Instruction{ID: "old", Text: "old"}); err != nil {
		t.Fatal(err)
	}
	if err := core.Signal(t, runID, workflows.InstructName, workflows.Instruction{ID: "old-signal", Text: "old signal"}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan workflows.Outcome, 1)
	go func() { waited <- result(t, c, runID) }()
	n := len(core.Thinks(runID))
	if _, err := c.Rewind(t.Context(), runID, 2, workflows.Instruction{ID: "new", Text: "look twice", By: "tester"}); err != nil {
		t.Fatal(err)
	}
	var again agent.Confirmation
	until(t, "asked again", func() bool { again = asked(t, c, runID); return again.Since.After(q.Since) })
	if err := second(c.Confirm(t.Context(), runID, agent.Answer{ConfirmID: again.ID, Approved: true})); err != nil {
		t.Fatal(err)
	}
	if out := <-waited; out.Status != agent.StatusDone || out.Steps != 5 {
		t.Errorf("outcome %+v", out)
	}
	told := core.Instructions(runID)
	if len(told) != 1 || told[0].Text != "look twice" || told[0].Thinks < n {
		t.Fatalf("instructions %+v after %d model calls, want only the new one", told, n)
	}
	if steps := stepsFrom(core, runID, told[0].Thinks); !ends(steps, 2, 3, 4, 5) || len(steps) != 4 {
		t.Errorf("steps after the instruction %v, want 2 3 4 5", steps)
	}
}

func TestRewindToTheFirstStep(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "", "giveup")
	if out := result(t, c, runID); out.Status != agent.StatusFailed {
		t.Fatalf("outcome %+v", out)
	}
	for _, step := range []int{0, -1} {
		if _, err := c.Rewind(t.Context(), runID, step, workflows.Instruction{}); !errors.Is(err, durable.ErrInvalid) {
			t.Errorf("Rewind to %d = %v, want ErrInvalid", step, err)
		}
	}
	if _, err := c.Rewind(t.Context(), runID, 2, workflows.Instruction{}); !errors.Is(err, durable.ErrNoStep) {
		t.Errorf("Rewind to a step that never was = %v, want ErrNoStep", err)
	}
	if _, err := c.Rewind(t.Context(), "nobody", 1, workflows.Instruction{}); !errors.Is(err, durable.ErrNotFound) {
		t.Errorf("Rewind of nothing = %v, want ErrNotFound", err)
	}
	if _, err := c.Rewind(t.Context(), runID, 1, workflows.Instruction{Text: "try again"}); err != nil {
		t.Fatal(err)
	}
	until(t, "over again", func() bool {
		r, err := c.Describe(t.Context(), runID)
		return err == nil && r.Status.Final() && !r.EndedAt.IsZero()
	})
	if told := core.Instructions(runID); len(told) != 1 || !ends(stepsFrom(core, runID, told[0].Thinks), 1) {
		t.Errorf("instructions %+v, steps %v", told, stepsFrom(core, runID, 0))
	}
}

// The step may be preceded by an instruction already, whose recording then is
// the last thing before it.
func TestRewindAgainAndAgain(t *testing.T) {
	c, core := setup(t)
	runID := start(t, c, "", "click approve")
	q := asked(t, c, runID)
	for n := range 3 {
		text := fmt.Sprintf("again %d", n)
		if _, err := c.Rewind(t.Context(), runID, 1, workflows.Instruction{Text: text}); err != nil {
			t.Fatal(err)
		}
		until(t, "asked again", func() bool { next := asked(t, c, runID); return next.ID != q.ID })
		q = asked(t, c, runID)
		told := core.Instructions(runID)
		i := slices.IndexFunc(told, func(i durabletest.Instruction) bool { return i.Text == text })
		if i < 0 {
			t.Fatalf("%s: not told: %+v", text, told)
		}
		if steps := stepsFrom(core, runID, told[i].Thinks); len(steps) == 0 || steps[0] != 1 {
			t.Errorf("%s came before steps %v, want 1", text, steps)
		}
	}
}

// A child that is rewound is still its parent's child: the session waits for
// the execution that goes on, and then runs what is next.
func TestSessionWaitsForARewoundRun(t *testing.T) {
	c, core := setup(t)
	one := start(t, c, "desk", "click approve")
	q := asked(t, c, one)
	two := start(t, c, "desk", "click")
	if _, err := c.Rewind(t.Context(), one, 1, workflows.Instruction{Text: "again"}); err != nil {
		t.Fatal(err)
	}
	until(t, "asked again", func() bool { return asked(t, c, one).Since.After(q.Since) })
	if box, err := c.Inbox(t.Context(), "desk"); err != nil || box.Running != one {
		t.Errorf("Inbox = %+v, %v; want %s running", box, err, one)
	}
	if err := second(c.Confirm(t.Context(), one, agent.Answer{Approved: false})); err != nil {
		t.Fatal(err)
	}
	if out := result(t, c, two); out.Status != agent.StatusDone {
		t.Errorf("outcome of the second run %+v", out)
	}
	if n := len(core.Acts(one)); n < 1 {
		t.Errorf("%d actions of the first run", n)
	}
}

// Run continues as new after 150 steps, so step 3 is in an execution that has
// ended long ago.
func TestRewindOverContinueAsNew(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds: a run of 160 steps")
	}
	c, core := setup(t)
	s, err := c.StartTask(t.Context(), "", agent.Message{Text: strings.Repeat("click ", 155), BrowserID: "b1", Settings: agent.Settings{MaxSteps: 200}})
	if err != nil {
		t.Fatal(err)
	}
	runID := s.RunID
	out := result(t, c, runID)
	if out.Steps != 156 {
		t.Fatalf("outcome %+v", out)
	}
	for _, step := range []int{153, 151, 150, 3} {
		text := fmt.Sprintf("do step %d anew", step)
		if _, err := c.Rewind(t.Context(), runID, step, workflows.Instruction{Text: text}); err != nil {
			t.Fatalf("rewind to %d: %v", step, err)
		}
		var steps []int
		until(t, "steps after the instruction", func() bool {
			told := core.Instructions(runID)
			i := slices.IndexFunc(told, func(i durabletest.Instruction) bool { return i.Text == text })
			if i >= 0 {
				steps = stepsFrom(core, runID, told[i].Thinks)
			}
			return len(steps) > 0
		})
		if steps[0] != step {
			t.Errorf("rewind to %d: the instruction came before step %d", step, steps[0])
		}
	}
	if _, err := c.Abort(t.Context(), runID, workflows.Abort{}); err != nil {
		t.Fatal(err)
	}
	if out := result(t, c, runID); out.Status != agent.StatusAborted {
		t.Errorf("outcome %+v", out)
	}
}
