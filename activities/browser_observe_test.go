package activities

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

var update = flag.Bool("update", false, "write the golden files")

// TestObservation holds what the model is told against testdata/observation.
func TestObservation(t *testing.T) {
	page := &agent.Page{URL: "http://oa.example.com/leave/7", Domain: "oa.example.com", Title: "请假单 \"7\""}
	no := false
	for name, c := range map[string]struct {
		action  string
		outcome agent.Outcome
		resp    pipe.Response
	}{
		"click": {action.Click, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{
			Page: page, Text: `clicked button "批准"`, Matched: 3,
			Events:   []pipe.PageEvent{{Kind: "dialog", Text: "alert \"已批准\"\naccepted"}, {Kind: "navigation", Text: "http://oa.example.com/leave/7"}},
			Snapshot: "- heading \"请假单\" [level=1]\n- button \"返回\" [ref=e4]", Tokens: 20,
		}}},
		"type":       {action.Type, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Page: page, Text: "typed 4 characters", Value: "年假"}}},
		"get_text":   {action.GetText, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Page: page, Text: "第一行\n第二行", Truncated: true, Rest: "ask for a smaller element"}}},
		"get_html":   {action.GetHTML, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Page: page, HTML: "<b>\n</b>"}}},
		"no_key":     {action.StorageGet, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Found: &no}}},
		"screenshot": {action.PageScreenshot, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Page: page, Image: []byte{1}, MIME: "image/jpeg", Width: 640, Height: 360, Scale: 0.5}}},
		"spawn":      {action.ZombieSpawn, agent.OutcomeDone, pipe.Response{Success: true, Data: &pipe.Data{Page: page, PageID: "z1", Text: "opened page z1"}}},
		"tree":       {action.GetAOMSnapshot, agent.OutcomeDone, pipe.Response{Success: true, AOMSnapshot: []pipe.AOMNode{{Role: "button", Name: "批准", Ref: "e1"}}}},
		"failed": {action.Click, agent.OutcomeFailed, pipe.Response{
			Error: &pipe.Error{Code: pipe.CodeSelectorNotFound, Message: "nothing matches #a;\ntake a snapshot"}, Data: &pipe.Data{Page: page}}},
		"confirm": {action.Click, agent.OutcomeNeedConfirm, pipe.Response{
			Error: &pipe.Error{Code: pipe.CodeNeedConfirm, Message: "rule 2"},
			Data:  &pipe.Data{Confirm: &pipe.ConfirmAsk{Subject: agent.Subject{Role: "button", Name: "批准", Context: "张三 2 天"}}}}},
		"refused": {action.Click, agent.OutcomeRefused, pipe.Response{Error: &pipe.Error{Code: pipe.CodeConfirmRejected, Message: "said no"}}},
		"empty":   {action.ScrollTo, agent.OutcomeDone, pipe.Response{Success: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := observation(agent.Call{Action: c.action}, c.outcome, c.resp) + "\n"
			path := filepath.Join("testdata", "observation", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ action, params, locale, want string }{
		{action.Click, `{"selector":"ref=e1"}`, "en", "clicking ref=e1"},
		{action.Type, `{"selector":"#a","text":"secret"}`, "zh", "填写 #a"},
		{action.Navigate, `{"url":"http://oa.example.com/"}`, "zh", "导航至 http://oa.example.com/"},
		{action.PageScreenshot, `{}`, "zh", "页面截图"},
	} {
		if got := describe(agent.Call{Action: c.action, Params: json.RawMessage(c.params)}, c.locale); got != c.want {
			t.Errorf("%s: %q, want %q", c.action, got, c.want)
		}
	}
}

func TestHead(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("a", 300), strings.Repeat("长", 100), strings.Repeat("a", 254) + "长", strings.Repeat("😀", 64)} {
		got := head(s, agent.MaxInline)
		if len(got) > agent.MaxInline || !utf8.ValidString(got) || len(s) <= agent.MaxInline && got != s {
			t.Errorf("head of %d bytes: %d bytes, valid %v", len(s), len(got), utf8.ValidString(got))
		}
	}
}
