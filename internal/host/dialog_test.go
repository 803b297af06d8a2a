package host

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/page"
	"sgclaw/internal/pipe"
)

// askingPages is a browser whose page asks before it does anything.
type askingPages struct {
	*fakePages
	asks []string // questions of one press, in order
}

func (a *askingPages) Do(ctx context.Context, id string, r page.Request) (*pipe.Data, []pipe.AOMNode, *pipe.Error) {
	a.mu.Lock()
	target, asks := a.target, a.asks
	a.mu.Unlock()
	if r.Inspect != nil {
		if fault := r.Inspect(ctx, target); fault != nil {
			return nil, nil, fault
		}
	}
	a.log("press")
	said := false
	for _, q := range asks {
		if r.Dialog == nil || !r.Dialog(page.Dialog{Type: "confirm", Message: q}) {
			a.log("no to " + q)
			if r.Dialog == nil || said {
				return &pipe.Data{}, nil, nil
			}
			return &pipe.Data{}, nil, pipe.Errorf(pipe.CodeNeedConfirm, "asked")
		}
		said = true
		a.log("ok to " + q)
	}
	return &pipe.Data{}, nil, nil
}

func asker(t *testing.T, cfg RouterConfig, text string, asks ...string) (*askingPages, *talk) {
	pages := &askingPages{fakePages: newFakePages(), asks: asks}
	return pages, open(t, NewRouter(quiet(t), pages, rules(t, text), cfg))
}

func grant(id string, r *pipe.Response) *agent.Grant {
	return &agent.Grant{ID: id, By: "w", At: time.Now(), Digest: r.Data.Confirm.Digest}
}

func TestDialogIsAsked(t *testing.T) {
	pages, k := asker(t, RouterConfig{}, testRules, "确定吗？")
	pages.target.Picture = func(context.Context) ([]byte, error) { return []byte{0xff, 0xd8}, nil }
	r := k.do(clickOn(k, nil))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm == nil {
		t.Fatalf("got %v", r.Error)
	}
	want := agent.Subject{
		Role: "button", Name: "查看", Context: "张三 2 天 · confirm(): “确定吗？”", URL: "https://oa.example.com/list",
		Domain: "oa.example.com", Rule: "native_dialog", Prompt: dialogPrompt,
	}
	if diff := cmp.Diff(want, r.Data.Confirm.Subject); diff != "" {
		t.Error(diff)
	}
	if r.Data.Confirm.Digest != agent.Digest("click", []byte(`{"selector":"[ref=e4]"}`), "", want) {
		t.Error("digest is not that of the command and the subject")
	}
	if len(r.Data.Confirm.Image) == 0 {
		t.Error("no picture")
	}
	g := grant("g1", r)
	if r = k.do(clickOn(k, g)); code(r) != "" {
		t.Errorf("grant: %v", r.Error)
	}
	if r = k.do(clickOn(k, g)); code(r) != pipe.CodeNeedConfirm {
		t.Errorf("grant again: %v", r.Error)
	}
	other := clickOn(k, grant("g2", r))
	other.Params = json.RawMessage(`{"selector":"[ref=e5]"}`)
	if r = k.do(other); code(r) != pipe.CodeNeedConfirm {
		t.Errorf("other parameters: %v", r.Error)
	}
	if diff := cmp.Diff([]string{
		"press", "no to 确定吗？", "press", "ok to 确定吗？", "press", "no to 确定吗？", "press", "no to 确定吗？",
	}, pages.did()); diff != "" {
		t.Error(diff)
	}
}

// A rule asks about the press, and then the page asks: two questions, and the
// yes to the second is one to the press too.
func TestDialogAfterARule(t *testing.T) {
	pages, k := asker(t, RouterConfig{}, testRules, "确定吗？")
	pages.setName("批准")
	r := k.do(clickOn(k, nil))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm.Rule != "decisions" {
		t.Fatalf("got %v", r.Error)
	}
	r = k.do(clickOn(k, grant("g1", r)))
	if code(r) != pipe.CodeNeedConfirm || r.Data.Confirm.Rule != "native_dialog" {
		t.Fatalf("got %v", r.Error)
	}
	yes := grant("g2", r)
	pages.setName("删除")
	if r = k.do(clickOn(k, yes)); code(r) != pipe.CodeNeedConfirm || r.Data.Confirm.Rule != "decisions" {
		t.Fatalf("another element: %v", r.Error)
	}
	pages.setName("批准")
	if r = k.do(clickOn(k, yes)); code(r) != "" {
		t.Fatalf("got %v", r.Error)
	}
	if r = k.do(clickOn(k, yes)); code(r) != pipe.CodeGrantInvalid {
		t.Errorf("again: %v", r.Error)
	}
	if diff := cmp.Diff([]string{"press", "no to 确定吗？", "press", "ok to 确定吗？"}, pages.did()); diff != "" {
		t.Error(diff)
	}
}

// A yes is for one text, once.
func TestDialogOfAnotherText(t *testing.T) {
	pages, k := asker(t, RouterConfig{}, testRules, "删除 1 条？")
	r := k.do(clickOn(k, nil))
	pages.mu.Lock()
	pages.asks = []string{"删除 99 条？"}
	pages.mu.Unlock()
	r = k.do(clickOn(k, grant("g1", r)))
	if code(r) != pipe.CodeNeedConfirm || !strings.Contains(r.Data.Confirm.Context, "99") {
		t.Fatalf("got %v", r.Error)
	}
	pages.mu.Lock()
	pages.asks = []string{"删除 99 条？", "删除 99 条？"}
	pages.mu.Unlock()
	if r = k.do(clickOn(k, grant("g2", r))); code(r) != "" {
		t.Fatalf("got %v", r.Error)
	}
	if diff := cmp.Diff([]string{
		"press", "no to 删除 1 条？", "press", "no to 删除 99 条？", "press", "ok to 删除 99 条？", "no to 删除 99 条？",
	}, pages.did()); diff != "" {
		t.Error(diff)
	}
	long := strings.Repeat("很长", 500)
	a, b := dialogContext("", page.Dialog{Message: long + "1"}), dialogContext("", page.Dialog{Message: long + "2"})
	if a == b || len(a) > maxDialogText+100 {
		t.Errorf("long texts: %q and %q", a, b)
	}
}

// The page does not ask again: what was done is told as it was.
func TestDialogThatStaysAway(t *testing.T) {
	pages, k := asker(t, RouterConfig{}, testRules, "确定吗？")
	r := k.do(clickOn(k, nil))
	pages.mu.Lock()
	pages.asks = nil
	pages.mu.Unlock()
	if r = k.do(clickOn(k, grant("g1", r))); code(r) != "" || !strings.Contains(r.Data.Text, "asked nothing") {
		t.Errorf("got %v, %q", r.Error, r.Data.Text)
	}
	if r = k.do(clickOn(k, nil)); code(r) != "" || r.Data.Text != "" {
		t.Errorf("without a grant: %v, %q", r.Error, r.Data.Text)
	}
}

func TestDialogIsDismissed(t *testing.T) {
	pages, k := asker(t, RouterConfig{}, strings.Replace(testRules, `"confirm_when"`, `"native_dialogs": {"confirm": "dismiss"}, "confirm_when"`, 1), "确定吗？")
	if r := k.do(clickOn(k, nil)); code(r) != "" {
		t.Errorf("got %v", r.Error)
	}
	if diff := cmp.Diff([]string{"press", "no to 确定吗？"}, pages.did()); diff != "" {
		t.Error(diff)
	}
}

func TestDialogIsHeld(t *testing.T) {
	p := &person{asked: make(chan Question, 4), answers: make(chan bool, 4)}
	pages, k := asker(t, RouterConfig{Mode: ModeHold, Prompter: p}, testRules, "确定吗？")
	pages.setName("批准")
	k.send(clickOn(k, nil))
	for _, rule := range []string{"decisions", "native_dialog"} {
		if m, ok := k.next().(*pipe.ConfirmPending); !ok || m.Ask.Rule != rule {
			t.Fatalf("got %+v, want %s", m, rule)
		}
		if q := <-p.asked; q.Action != action.Click || q.Prompt.ZH == "" {
			t.Errorf("asked %+v", q)
		}
		p.answers <- true
	}
	if r := k.response(); code(r) != "" {
		t.Error(r.Error)
	}
	k.send(clickOn(k, nil))
	k.next()
	p.answers <- true
	k.next()
	p.answers <- false
	if r := k.response(); code(r) != pipe.CodeConfirmRejected {
		t.Error(r.Error)
	}
	if diff := cmp.Diff([]string{"press", "no to 确定吗？", "press", "ok to 确定吗？", "press", "no to 确定吗？"}, pages.did()); diff != "" {
		t.Error(diff)
	}
}
