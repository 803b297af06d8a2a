package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/host"
	"sgclaw/internal/oa"
	"sgclaw/internal/pipe"
)

// dialogs is the demo's office, whose pages ask before they send a decision.
func dialogs(t *testing.T, d *desk) (s *oa.Site, ask func(id string)) {
	t.Helper()
	s, err := oa.New(slog.New(slog.DiscardHandler), oa.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, func(id string) {
		t.Helper()
		d.do(action.Navigate, fmt.Sprintf(`{"url":"%s/leave/%s?ask=1"}`, srv.URL, id), "")
	}
}

const approve, reject = `{"selector":"form button"}`, `{"selector":"form button.plain"}`

// A press that a rule asks about, on a page that asks too: two questions, one
// decision.
func TestDialogIsConfirmed(t *testing.T) {
	d := sit(t, plain(t), host.RouterConfig{Mode: host.ModeAnswer})
	site, ask := dialogs(t, d)
	q := site.Ledger().Requests[0]
	ask(q.ID)
	yes := func(id string, r *pipe.Response) *agent.Grant {
		return &agent.Grant{ID: id, By: "w", At: time.Now(), Digest: r.Data.Confirm.Digest}
	}
	r := d.do(action.Click, approve, pipe.CodeNeedConfirm)
	if r.Data.Confirm.Rule != "decisions" {
		t.Fatalf("asked %+v", r.Data.Confirm)
	}
	r = d.do(action.Click, approve, pipe.CodeNeedConfirm, yes("g1", r))
	c := r.Data.Confirm
	if c.Rule != "native_dialog" || !strings.Contains(c.Context, "确定要批准") || !strings.Contains(c.Context, q.ID) || len(c.Image) == 0 {
		t.Fatalf("asked %+v", c)
	}
	if n := len(site.Ledger().Entries); n != 0 {
		t.Fatalf("%d decisions before anybody agreed to the dialog", n)
	}
	// The same yes on another page answers nothing.
	other := site.Ledger().Requests[1]
	ask(other.ID)
	d.do(action.Click, approve, pipe.CodeNeedConfirm, yes("g2", r))
	ask(q.ID)
	last := d.do(action.Click, approve, "", yes("g2", r))
	if !strings.Contains(fmt.Sprint(last.Data.Events), "confirm accepted: 确定要批准") {
		t.Errorf("events %v", last.Data.Events)
	}
	d.do(action.Navigate, fmt.Sprintf(`{"url":%q}`, last.Data.Page.URL), "")
	if err := oa.Check(site.Ledger(), oa.Want{Approved: []string{q.ID}}); err != nil {
		t.Error(err)
	}
}

// The same where the host asks by itself.
func TestDialogIsHeld(t *testing.T) {
	who := clerk{make(chan bool)}
	d := sit(t, plain(t), host.RouterConfig{Mode: host.ModeHold, Prompter: who})
	site, ask := dialogs(t, d)
	q := site.Ledger().Requests[0]
	for _, last := range []bool{false, true} {
		ask(q.ID)
		d.send(&pipe.Command{Action: action.Click, Params: json.RawMessage(reject)})
		for _, c := range []struct {
			rule string
			yes  bool
		}{{"decisions", true}, {"native_dialog", last}} {
			if m, ok := d.next().(*pipe.ConfirmPending); !ok || m.Ask.Rule != c.rule {
				t.Fatalf("got %+v, want a question by %s", m, c.rule)
			}
			who.answers <- c.yes
		}
		if r, ok := d.next().(*pipe.Response); !ok || r.Success != last {
			t.Fatalf("got %+v", r)
		}
		if n := len(site.Ledger().Entries); (n == 1) != last {
			t.Errorf("%d decisions", n)
		}
	}
	if err := oa.Check(site.Ledger(), oa.Want{Rejected: []string{q.ID}}); err != nil {
		t.Error(err)
	}
}
