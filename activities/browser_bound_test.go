package activities_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sgclaw/activities"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

// TestHostCannotFillHistories: whatever a host or a page says, the result
// that goes into the history stays small, and what a person is shown stays
// on its line.
func TestHostCannotFillHistories(t *testing.T) {
	long := strings.Repeat("批准\n", 100_000)
	page := &agent.Page{URL: "https://oa.example.com/?" + long, Domain: long, Title: long}
	trick := "批准\n    page  https://bank.example\u202egnihton"
	for name, resp := range map[string]pipe.Response{
		"done":   {Success: true, Data: &pipe.Data{Page: page, Text: long}, Timing: &pipe.Timing{ExecMS: -1 << 60}},
		"failed": {Error: &pipe.Error{Code: pipe.Code(long), Message: long}, Data: &pipe.Data{Page: page}},
		"confirm": {Error: &pipe.Error{Code: pipe.CodeNeedConfirm, Message: long}, Data: &pipe.Data{Page: page, Confirm: &pipe.ConfirmAsk{
			Digest: long, Subject: agent.Subject{Role: long, Name: trick + long, Context: long, URL: long, Domain: long, Rule: long, Prompt: agent.Prompt{ZH: long, EN: long}, Picture: long}}}},
		"limited": {Error: &pipe.Error{Code: pipe.CodeRateLimit, Message: long}, Data: &pipe.Data{Page: page, RetryAfterMS: 1 << 62}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, activities.BrowserConfig{})
			b.host.say(resp)
			res := b.mustAct(click())
			data, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 12<<10 {
				t.Errorf("the result has %d bytes", len(data))
			}
			if res.RetryAfterMS > 24*3600*1000 || res.ExecMS < 0 {
				t.Errorf("waits %d ms, took %d ms", res.RetryAfterMS, res.ExecMS)
			}
			if name == "failed" && res.Code != string(pipe.CodeInternal) {
				t.Errorf("code %.100q", res.Code)
			}
			if res.Ask != nil && (strings.ContainsAny(res.Ask.Name+res.Ask.Context+res.Ask.Domain, "\n\u202e") || !strings.HasPrefix(res.Ask.Name, "批准     page")) {
				t.Errorf("a person is shown %.100q", res.Ask.Name)
			}
		})
	}
}
