package prompt

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
)

func parse(resp llm.Response) Decision {
	n := 0
	return Parse(resp, func() string { n++; return fmt.Sprintf("id%d", n) }, []string{action.Click, action.Navigate, action.GetText, action.ZombieKill}, "en")
}

func tool(args string) llm.ToolCall {
	return llm.ToolCall{ID: "p", Name: action.ToolName, Arguments: args}
}

func TestParseReplies(t *testing.T) {
	click := agent.Call{ID: "id1", Action: "click", Params: json.RawMessage(`{"selector":"[ref=e1]"}`)}
	for _, tt := range []struct {
		name string
		resp llm.Response
		want Decision
	}{
		{"report", llm.Response{Text: " done \n", Finish: llm.FinishStop}, Decision{Final: true, Text: "done", Thinking: "done"}},
		{"empty", llm.Response{Text: " \n", Reasoning: "hm", Finish: llm.FinishStop}, Decision{Thinking: "hm", Fault: FaultEmpty, Nudge: english.nudgeEmpty}},
		{"cut", llm.Response{Text: "I wan", Finish: llm.FinishLength}, Decision{Text: "I wan", Thinking: "I wan", Fault: FaultLength, Nudge: english.nudgeLength}},
		{"filtered", llm.Response{Text: "I", Finish: llm.FinishFilter}, Decision{Text: "I", Thinking: "I", Fault: FaultFiltered, Nudge: english.nudgeFilter}},
		{"gave up", llm.Response{Text: "oh", Calls: []llm.ToolCall{{Name: GiveUpName, Arguments: `{"reason":"no way"}`}}}, Decision{GaveUp: true, Text: "no way", Thinking: "oh"}},
		{"gave up without reason", llm.Response{Text: "oh", Calls: []llm.ToolCall{{Name: GiveUpName, Arguments: `nonsense`}}}, Decision{GaveUp: true, Text: "oh", Thinking: "oh"}},
		{
			"call", llm.Response{Text: "click it", Reasoning: "so", Calls: []llm.ToolCall{tool(`{"action":"click","params":{"selector":"[ref=e1]"}}`)}},
			Decision{Text: "click it", Thinking: "so", Calls: []agent.Call{click}, ProviderIDs: []string{"p"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parse(tt.resp)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCalls(t *testing.T) {
	for _, tt := range []struct {
		name, tool, args string
		want             agent.Call
		fault            string // part of it
	}{
		{name: "background page", args: `{"action":"click","params":{"selector":"a"},"page_id":"z1"}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"selector":"a"}`), PageID: "z1"}},
		{name: "page among the parameters", args: `{"action":"click","params":{"selector":"a","page_id":"z1"}}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"selector":"a"}`), PageID: "z1"}},
		{name: "parameters as a string", args: `{"action":"click","params":"{\"selector\":\"a\"}"}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"selector":"a"}`)}},
		{name: "parameters beside the action", args: `{"action":"click","selector":"a"}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"selector":"a"}`)}},
		{name: "page to close", args: `{"action":"zombieKill","page_id":"z1"}`, want: agent.Call{Action: "zombieKill", Params: json.RawMessage(`{"page_id":"z1"}`), PageID: "z1"}},
		{name: "action as the tool", tool: "click", args: `{"selector":"a"}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"selector":"a"}`)}},
		{name: "missing parameter", args: `{"action":"click","params":{}}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{}`)}, fault: "selector: is required"},
		{name: "unknown action", args: `{"action":"fly","params":{}}`, want: agent.Call{Action: "fly", Params: json.RawMessage(`{}`)}, fault: `action "fly" is not permitted in this run; permitted are click, navigate`},
		{name: "action not permitted", args: `{"action":"type","params":{"selector":"a","text":"b"}}`, want: agent.Call{Action: "type", Params: json.RawMessage(`{"selector":"a","text":"b"}`)}, fault: "not permitted"},
		{name: "unknown tool", tool: "shell", args: `{"x":1}`, want: agent.Call{Action: "shell", Params: json.RawMessage(`{"x":1}`)}, fault: `there is no tool "shell"; the tools are browser_action and give_up`},
		{name: "no JSON", args: `click it`, want: agent.Call{Params: json.RawMessage(`"click it"`)}, fault: "not a JSON object"},
		{name: "no object", args: `[1]`, want: agent.Call{Params: json.RawMessage(`[1]`)}, fault: "not a JSON object"},
		{name: "null", args: `null`, want: agent.Call{Params: json.RawMessage(`null`)}, fault: "not a JSON object"},
		{name: "nothing", args: ``, want: agent.Call{}, fault: "not a JSON object"},
		{name: "no action", args: `{"params":{}}`, want: agent.Call{Params: json.RawMessage(`{"params":{}}`)}, fault: "not a JSON object with action"},
		{name: "page id is a number", args: `{"action":"click","params":{"selector":"a"},"page_id":7}`, want: agent.Call{Action: "click", Params: json.RawMessage(`{"action":"click","params":{"selector":"a"},"page_id":7}`)}, fault: "page_id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tc := tool(tt.args)
			if tt.tool != "" {
				tc.Name = tt.tool
			}
			d := parse(llm.Response{Calls: []llm.ToolCall{tc}, Finish: llm.FinishToolCalls})
			if len(d.Calls) != 1 || d.Final || d.GaveUp || d.Fault != FaultNone {
				t.Fatalf("decision %+v", d)
			}
			got := d.Calls[0]
			if tt.fault == "" && got.Fault != "" || !strings.Contains(got.Fault, tt.fault) {
				t.Errorf("fault %q, want %q", got.Fault, tt.fault)
			}
			got.Fault = ""
			tt.want.ID = "id1"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSeveralCalls(t *testing.T) {
	var calls []llm.ToolCall
	for range MaxCalls + 2 {
		calls = append(calls, tool(`{"action":"getText","params":{"selector":"body"}}`))
	}
	calls[1] = llm.ToolCall{Name: GiveUpName, Arguments: `{"reason":"x"}`}
	d := parse(llm.Response{Calls: calls})
	var faulty []int
	for i, c := range d.Calls {
		if c.Fault != "" {
			faulty = append(faulty, i)
		}
	}
	if diff := cmp.Diff([]int{1, MaxCalls, MaxCalls + 1}, faulty); diff != "" || d.GaveUp {
		t.Errorf("faulty calls (-want +got):\n%s", diff)
	}
	d = parse(llm.Response{Calls: []llm.ToolCall{tool(`{"action":"click","params":{"sel`)}, Finish: llm.FinishLength})
	if got := d.Calls[0].Fault; got != english.faultCut {
		t.Errorf("fault of a cut call: %q", got)
	}
}

func FuzzParseCall(f *testing.F) {
	f.Add("browser_action", `{"action":"click","params":{"selector":"a"}}`)
	f.Add("click", `{"selector":1e999}`)
	f.Add("browser_action", `{"action":"click","params":"x","page_id":null}`)
	f.Fuzz(func(t *testing.T, name, args string) {
		d := parse(llm.Response{Calls: []llm.ToolCall{{Name: name, Arguments: args}}})
		if d.GaveUp {
			return
		}
		c := d.Calls[0]
		if len(c.Params) > 0 && !json.Valid(c.Params) {
			t.Errorf("parameters are not JSON: %s", c.Params)
		}
		if c.Fault == "" {
			if _, err := action.Parse(c.Action, c.Params); err != nil {
				t.Errorf("%s %s: %v", c.Action, c.Params, err)
			}
		}
		if !json.Valid([]byte(arguments(c))) {
			t.Errorf("arguments are not JSON: %s", arguments(c))
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	})
}
