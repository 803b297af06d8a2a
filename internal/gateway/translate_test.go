package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/openclaw/schematest"
)

const testSession = "agent:main:main"

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// happened makes an event of the run "r" with a number.
func happened(seq int64, kind agent.EventKind, data any) agent.Event {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	e := agent.Event{Session: testSession, Seq: seq, RunID: "r", Kind: kind, At: testTime, Data: raw}
	if kind == agent.EventSession {
		e.RunID = ""
	}
	return e
}

func piecemeal(step, attempt int, text string) agent.Event {
	return happened(0, agent.EventDelta, agent.DeltaEvent{Step: step, Attempt: attempt, Text: text})
}

func replied(seq int64, step int, text string, calls ...agent.Call) agent.Event {
	return happened(seq, agent.EventThought, agent.ThoughtEvent{
		Step: step, Attempt: 1, Text: text, Calls: calls, Model: "m", Usage: agent.Usage{PromptTokens: 5, CompletionTokens: 2, TotalTokens: 7},
	})
}

func thinking(seq int64) agent.Event {
	return happened(seq, agent.EventState, agent.StateEvent{Status: agent.StatusThinking})
}

func over(seq int64, status agent.Status, reason, summary string) agent.Event {
	return happened(seq, agent.EventDone, agent.TaskResult{
		RunID: "r", Status: status, Success: status == agent.StatusDone && reason == "", Reason: reason, Summary: summary, TokenUsage: agent.Usage{TotalTokens: 7},
	})
}

// lines writes down what frames say, a line each, and holds each payload to
// the published schema.
func lines(t *testing.T, frames []*Frame) []string {
	t.Helper()
	var out []string
	for _, f := range frames {
		raw, err := json.Marshal(f.Payload)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := json.Marshal(openclaw.Event{Type: openclaw.TypeEvent, Event: f.Event, Payload: f.Payload, Seq: 1})
		if err != nil {
			t.Fatal(err)
		}
		schematest.Check(t, frame)
		switch p := f.Payload.(type) {
		case openclaw.ChatEvent:
			line := "chat " + p.State
			if p.Phase != "" {
				line += " " + p.Phase
			}
			if p.DeltaText != nil {
				line += fmt.Sprintf(" %q", *p.DeltaText)
			}
			if p.Replace {
				line += " replace"
			}
			if p.Message != nil {
				line += fmt.Sprintf(" = %q", p.Message.Content[0].Text)
			}
			if p.ErrorMessage != "" {
				line += " " + p.ErrorKind + " " + p.ErrorMessage
			}
			out = append(out, line)
		case openclaw.AgentEvent:
			data, err := json.Marshal(p.Data)
			if err != nil {
				t.Fatal(err)
			}
			var d struct{ Phase, Delta, Name string }
			if err := json.Unmarshal(data, &d); err != nil {
				t.Fatal(err)
			}
			out = append(out, strings.TrimSpace(fmt.Sprintf("agent %s %s %s", p.Stream, d.Phase+d.Delta, d.Name)))
		case openclaw.SessionMessage:
			out = append(out, "message "+p.MessageID+" "+p.Message.Role)
		case openclaw.ApprovalRequested:
			out = append(out, "asked "+p.ID+" "+p.Request.Command)
		case openclaw.ApprovalResolved:
			out = append(out, "resolved "+p.ID+" "+p.Decision+" "+p.ResolvedBy)
		case openclaw.SessionsChanged:
			out = append(out, "changed "+p.Reason)
		default:
			t.Errorf("a frame %s with %s", f.Event, raw)
		}
	}
	return out
}

func TestTranslate(t *testing.T) {
	click := agent.Call{ID: "c1", Action: "click", Params: json.RawMessage(`{"selector":"#a"}`)}
	question := agent.Confirmation{
		ID: "r-c1-c1", Step: 1, Action: "click", Params: json.RawMessage(`{"selector":"#a"}`), Since: testTime,
		Ask: agent.Subject{Role: "button", Name: "批准", Domain: "oa.example", Prompt: agent.Prompt{ZH: "确定批准?"}},
	}
	for name, tc := range map[string]struct {
		load   begun
		events []agent.Event
		want   []string
	}{
		"a reply without actions": {
			events: []agent.Event{
				happened(1, agent.EventAccepted, agent.AcceptedEvent{Task: "hello"}), thinking(2),
				piecemeal(1, 1, "Hel"), piecemeal(1, 1, "lo"), replied(3, 1, "Hello"), over(4, agent.StatusDone, "", "Hello"),
			},
			want: []string{
				"message r user", "chat status preparing_context",
				"agent lifecycle start", "chat status starting_model",
				"agent assistant Hel", `chat delta "Hel" = "Hel"`,
				"agent assistant lo", `chat delta "lo" = "Hello"`,
				"agent usage", "message r/1 assistant",
				"agent lifecycle end", `chat final = "Hello"`,
			},
		},
		"steps go on in one text": {
			events: []agent.Event{
				thinking(1), piecemeal(1, 1, "I click."), replied(2, 1, "I click.", click),
				happened(3, agent.EventStep, agent.StepEvent{Step: 1, Call: click, Outcome: agent.OutcomeDone, Observation: "ok"}),
				piecemeal(2, 1, "Done"), replied(4, 2, "Done."), over(5, agent.StatusDone, "", "Done."),
			},
			want: []string{
				"agent lifecycle start", "chat status starting_model",
				"agent assistant I click.", `chat delta "I click." = "I click."`,
				"agent usage", "agent tool start click", "message r/1 assistant",
				"agent tool result click", "message c1 toolResult",
				"agent assistant \n\nDone", `chat delta "\n\nDone" = "I click.\n\nDone"`,
				"agent assistant .", `chat delta "." = "I click.\n\nDone."`,
				"agent usage", "message r/2 assistant",
				"agent lifecycle end", `chat final = "I click.\n\nDone."`,
			},
		},
		"a repeated call makes its text void": {
			events: []agent.Event{thinking(1), piecemeal(1, 1, "He"), piecemeal(1, 2, "Good day"), piecemeal(1, 1, "llo"), replied(2, 1, "Good day")},
			want: []string{
				"agent lifecycle start", "chat status starting_model",
				"agent assistant He", `chat delta "He" = "He"`,
				"agent assistant Good day", `chat delta "Good day" replace = "Good day"`,
				"agent usage", "message r/1 assistant",
			},
		},
		"lost pieces come with the whole": {
			events: []agent.Event{thinking(1), piecemeal(1, 1, "a"), piecemeal(1, 1, "c"), replied(2, 1, "abc")},
			want: []string{
				"agent lifecycle start", "chat status starting_model",
				"agent assistant a", `chat delta "a" = "a"`, "agent assistant c", `chat delta "c" = "ac"`,
				"agent assistant abc", `chat delta "abc" replace = "abc"`,
				"agent usage", "message r/1 assistant",
			},
		},
		"a gateway that comes late tells a step whose beginning it missed when it is whole": {
			load:   begun{text: runText{{step: 1, attempt: 1, text: "one", whole: true}}, started: true},
			events: []agent.Event{piecemeal(2, 1, "wo"), piecemeal(2, 1, " and"), replied(9, 2, "two and"), piecemeal(3, 1, "three"), over(10, agent.StatusDone, "", "three")},
			want: []string{
				"agent assistant \n\ntwo and", `chat delta "\n\ntwo and" = "one\n\ntwo and"`, "agent usage", "message r/2 assistant",
				"agent assistant \n\nthree", `chat delta "\n\nthree" = "one\n\ntwo and\n\nthree"`,
				"agent lifecycle end", `chat final = "one\n\ntwo and\n\nthree"`,
			},
		},
		"what a rewind sets aside is void": {
			events: []agent.Event{
				thinking(1), replied(2, 1, "one"), replied(3, 2, "two"),
				happened(4, agent.EventState, agent.StateEvent{Status: agent.StatusThinking, Rewound: new(2)}), piecemeal(2, 1, "other"),
			},
			want: []string{
				"agent lifecycle start", "chat status starting_model",
				"agent assistant one", `chat delta "one" = "one"`, "agent usage", "message r/1 assistant",
				"agent assistant \n\ntwo", `chat delta "\n\ntwo" = "one\n\ntwo"`, "agent usage", "message r/2 assistant",
				"agent assistant one", `chat delta "one" replace = "one"`,
				"agent assistant \n\nother", `chat delta "\n\nother" = "one\n\nother"`,
			},
		},
		"questions": {
			events: []agent.Event{
				thinking(1), happened(2, agent.EventConfirm, question), happened(3, agent.EventConfirmed, agent.Answer{ConfirmID: question.ID, Approved: true, Scope: agent.ScopeRun, By: "ann"}),
				happened(4, agent.EventConfirm, question), over(5, agent.StatusAborted, agent.ReasonAborted, ""),
			},
			want: []string{
				"agent lifecycle start", "chat status starting_model",
				`asked r-c1-c1 click button "批准" @ oa.example {"selector":"#a"}`, "resolved r-c1-c1 allow-always ann",
				`asked r-c1-c1 click button "批准" @ oa.example {"selector":"#a"}`, "resolved r-c1-c1 deny ",
				"message r/end system", "agent lifecycle end", "chat aborted",
			},
		},
		"a run that fails": {
			load:   begun{started: true},
			events: []agent.Event{over(1, agent.StatusFailed, agent.ReasonTaskTimeout, "too long")},
			want:   []string{"message r/end system", "agent lifecycle error", "chat error timeout TASK_TIMEOUT: too long"},
		},
		"a message that steered another run": {
			events: []agent.Event{happened(1, agent.EventAccepted, agent.AcceptedEvent{Task: "faster"}), over(2, agent.StatusDone, agent.ReasonSteered, "")},
			want:   []string{"message r user", "chat status preparing_context", "agent lifecycle end", "chat final"},
		},
		"entries and changes": {
			events: []agent.Event{
				happened(1, agent.EventEntry, agent.EntryEvent{ID: "e", Role: "assistant", Label: "CI", Text: "green"}),
				happened(2, agent.EventSession, agent.SessionEvent{What: "reset", By: "ann"}),
			},
			want: []string{"message e assistant", `chat final = "[CI]\n\ngreen"`, "changed reset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTranslator(testSession, func(string) begun { return tc.load })
			var got []string
			for _, e := range tc.events {
				got = append(got, lines(t, tr.Translate(e))...)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestMergedPiecesSayAll: whoever lags gets fewer frames, and the same text.
func TestMergedPiecesSayAll(t *testing.T) {
	tr := newTranslator(testSession, nil)
	tr.Translate(thinking(1))
	var chat, assistant *Frame
	for _, e := range []agent.Event{piecemeal(1, 1, "old"), piecemeal(1, 2, "a"), piecemeal(1, 2, "b"), piecemeal(1, 2, "c")} {
		for _, f := range tr.Translate(e) {
			last := &chat
			if f.Event == openclaw.EventAgent {
				last = &assistant
			}
			if *last != nil {
				f.Payload = f.Merge((*last).Payload)
			}
			*last = f
		}
	}
	c := chat.Payload.(openclaw.ChatEvent)
	if *c.DeltaText != "abc" || !c.Replace || c.Message.Content[0].Text != "abc" {
		t.Errorf("chat %q %v %+v", *c.DeltaText, c.Replace, c.Message)
	}
	a := assistant.Payload.(openclaw.AgentEvent).Data.(openclaw.AssistantText)
	if want := (openclaw.AssistantText{Text: "abc", Delta: "abc", Replace: true}); a != want {
		t.Errorf("agent %+v, want %+v", a, want)
	}
}
