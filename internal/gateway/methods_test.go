package gateway

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/access"
	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/openclaw/schematest"
	"sgclaw/internal/rig"
	"sgclaw/internal/store"
)

// TestTableFitsTheProtocol: whoever has OpenClaw's scope for a method has a
// role with which it may call it here.
func TestTableFitsTheProtocol(t *testing.T) {
	order := map[string]int{openclaw.ScopeRead: 0, openclaw.ScopeWrite: 1, openclaw.ScopeApprovals: 2, openclaw.ScopeQuestions: 2, openclaw.ScopeAdmin: 3}
	for _, m := range Methods() {
		if strings.HasPrefix(m.Name, "sgclaw.") {
			continue
		}
		theirs := schematest.Scope(t, m.Name)
		if theirs == "" && !strings.HasSuffix(m.Name, "subscribe") {
			t.Errorf("%s is not a method of the protocol", m.Name)
		}
		if n, ok := order[theirs]; ok && n < slices.Index(access.Roles(), m.Role) && m.Name != "logs.tail" {
			t.Errorf("%s needs %s there, and a %s here", m.Name, theirs, m.Role)
		}
	}
}

// TestEveryListAnswers calls what needs no more than a database and a core;
// each result is held to the published schema.
func TestEveryListAnswers(t *testing.T) {
	p := newPlay(t)
	c := p.open().connect(testToken)
	want[openclaw.ChatSendResult](c, "chat.send", object{"sessionKey": "main", "message": "WORDS say:hi", "idempotencyKey": "r"})
	c.chat("r", openclaw.ChatFinal)
	for method, params := range map[string]object{
		"health": {}, "status": {}, "system-presence": {}, "logs.tail": {"limit": 5}, "usage.status": {}, "usage.cost": {"days": 7},
		"chat.history": {"sessionKey": "main", "limit": 1}, "sessions.list": {"includeLastMessage": true, "search": "main"}, "sessions.get": {"key": "main"},
		"sessions.describe": {"key": "main"}, "sessions.resolve": {"key": "main"}, "sessions.preview": {"keys": []string{"main", "agent:main:none"}},
		"sessions.patch": {"key": "main", "label": "L", "mode": "steer"}, "sessions.compact": {"key": "main"}, "sessions.subscribe": {}, "sessions.unsubscribe": {},
		"sessions.messages.subscribe": {"key": "main", "includeApprovals": true}, "sessions.messages.unsubscribe": {"key": "main"},
		"agents.list": {}, "models.list": {"view": "configured"}, "tools.catalog": {}, "tools.effective": {"sessionKey": "main"}, "skills.status": {}, "commands.list": {},
		"exec.approval.list": {}, "approval.history": {}, "openclaw.approval.list": {}, "plugin.approval.list": {}, "question.list": {}, "taskSuggestions.list": {},
		"cron.list": {}, "cron.status": {}, "cron.runs": {}, "sgclaw.runs.list": {}, "sgclaw.runs.get": {"runId": "r"}, "sgclaw.confirmations.list": {},
		"sgclaw.queue": {"sessionKey": "main"}, "sgclaw.browsers": {}, "sgclaw.health": {}, "sgclaw.usage": {"timezone": "Asia/Shanghai"}, "sgclaw.whoami": {},
		"sessions.reset": {"key": "agent:main:new"}, "sessions.delete": {"key": "agent:main:new"}, "agent.wait": {"runId": "none", "timeoutMs": 0},
	} {
		if r := c.call(method, params); !r.OK {
			t.Errorf("%s: %v", method, r.Error)
		}
		params["nonsense"] = 1
		if r := c.call(method, params); r.OK || !strings.Contains(r.Error.Message, "unexpected property 'nonsense'") {
			t.Errorf("%s with a property that there is not: %+v", method, r)
		}
	}
	row := want[openclaw.SessionsDescribed](c, "sessions.describe", object{"key": "main"}).Session
	if row == nil || row.Label != "L" || row.Mode != "steer" || row.Key != "agent:main:main" || row.TotalTokens != 110 || row.LastMessagePreview != "hi" {
		t.Errorf("row %+v", row)
	}
	if code := refused(c, "sessions.delete", object{"key": "main"}); code != openclaw.CodeInvalidRequest {
		t.Errorf("delete the main session: %s", code)
	}
	if code := refused(c, "sessions.patch", object{"key": "main", "permissionMode": "full"}); code != DetailUnsupported {
		t.Errorf("patch what we do not have: %s", code)
	}
	cost := want[openclaw.UsageCost](c, "usage.cost", object{"days": 1})
	if cost.Totals.TotalTokens != 110 || len(cost.Daily) != 1 {
		t.Errorf("cost %+v", cost)
	}
}

func TestPanelSeesARun(t *testing.T) {
	p := newPlay(t)
	g := p.open()
	c := g.connect(testToken)
	const key = "agent:main:panel"
	if w := want[watched](c, "sgclaw.watch", object{"sessionKey": key, "after": 0}); w != (watched{key, 0}) {
		t.Errorf("watch: %+v", w)
	}
	s := want[sent](c, "sgclaw.send", object{"sessionKey": key, "text": "WORDS approve hold:abc|def", "idempotencyKey": "r"})
	if s != (sent{RunID: "r", SessionKey: key, Agent: "main"}) {
		t.Errorf("send: %+v", s)
	}
	native := func(kind agent.EventKind) agent.Event {
		t.Helper()
		for {
			var e agent.Event
			if err := json.Unmarshal(c.await(EventNative).Payload, &e); err != nil {
				t.Fatal(err)
			}
			if e.Kind == kind {
				return e
			}
		}
	}
	native(agent.EventConfirm)
	q := want[confirmationsResult](c, "sgclaw.confirmations.list", object{"sessionKey": key}).Confirmations
	if len(q) != 1 || q[0].RunID != "r" || q[0].Browser != rig.BrowserID || q[0].Confirmation.Ask.Name != "批准" {
		t.Fatalf("confirmations %+v", q)
	}
	pic := want[picture](c, "sgclaw.confirmations.picture", object{"runId": "r", "confirmId": q[0].Confirmation.ID})
	if pic.Data != "anBlZw==" {
		t.Errorf("picture %+v", pic)
	}
	detail := want[runDetail](c, "sgclaw.runs.get", object{"runId": "r"})
	if detail.Open == nil || detail.Open.ID != q[0].Confirmation.ID || detail.Run.Status != agent.StatusWaitingConfirm || detail.Run.Agent != "main" {
		t.Errorf("run %+v", detail)
	}
	answer := object{"runId": "r", "confirmId": q[0].Confirmation.ID, "digest": "other", "approved": true}
	if code := refused(c, "sgclaw.confirmations.answer", answer); code != DetailDigestMismatch {
		t.Errorf("an answer to something else: %s", code)
	}
	answer["digest"] = q[0].Confirmation.Digest
	want[answerResult](c, "sgclaw.confirmations.answer", answer)
	want[answerResult](c, "sgclaw.confirmations.answer", answer)
	answer["approved"] = false
	if code := refused(c, "sgclaw.confirmations.answer", answer); code != DetailAlreadyDecided {
		t.Errorf("another answer: %s", code)
	}
	<-p.model.held
	want[sent](c, "sgclaw.send", object{"sessionKey": key, "text": "WORDS say:next", "idempotencyKey": "r2"})
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if b := want[queueResult](c, "sgclaw.queue", object{"sessionKey": key}); b.Running == "r" && len(b.Queued) == 1 && b.Queued[0].RunID == "r2" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("queue %+v", b)
		}
	}
	steer := object{"runId": "r", "text": "faster", "idempotencyKey": "i-1"}
	want[receiptResult](c, "sgclaw.runs.steer", steer)
	want[receiptResult](c, "sgclaw.runs.steer", steer)
	if code := refused(c, "sgclaw.runs.move", object{"runId": "r", "browser": "nowhere"}); code != DetailBrowserNotFound {
		t.Errorf("move to no browser: %s", code)
	}
	want[receiptResult](c, "sgclaw.runs.abort", object{"runId": "r2"})
	want[receiptResult](c, "sgclaw.runs.abort", object{"runId": "r2"})
	p.model.free <- struct{}{}
	for e := native(agent.EventDone); e.RunID != "r"; {
		e = native(agent.EventDone)
	}
	if code := refused(c, "sgclaw.runs.abort", object{"runId": "r"}); code != DetailRunOver {
		t.Errorf("abort of what is over: %s", code)
	}
	if code := refused(c, "sgclaw.runs.get", object{"runId": "none"}); code != DetailRunNotFound {
		t.Errorf("no run: %s", code)
	}
	detail = want[runDetail](c, "sgclaw.runs.get", object{"runId": "r"})
	if !detail.Run.Success || len(detail.Steps) < 2 || detail.Steps[0].Action != "click" || detail.Steps[0].Outcome != agent.OutcomeDone || detail.Steps[0].Thinking != "step 1" {
		t.Errorf("run %+v", detail)
	}
	list := want[runsListResult](c, "sgclaw.runs.list", object{"sessionKey": key, "limit": 1})
	if len(list.Runs) != 1 || !list.HasMore || list.Runs[0].RunID != "r2" || list.Runs[0].Status != agent.StatusAborted {
		t.Errorf("runs %+v", list)
	}
	back := want[rewindResult](c, "sgclaw.runs.rewind", object{"runId": "r", "step": 2})
	if back != (rewindResult{"r", 2}) {
		t.Errorf("rewind %+v", back)
	}
	<-p.model.held
	p.model.free <- struct{}{}
	native(agent.EventDone)
	// The session is not on record yet when a message that came just now is aborted.
	log, err := p.store.AuditLog(t.Context(), store.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var verbs []string
	for _, e := range slices.Backward(log) {
		verbs = append(verbs, e.Verb+" "+e.RunID)
	}
	if d := cmp.Diff([]string{"confirm r", "abort r2", "abort r", "rewind r"}, slices.Compact(verbs)); d != "" {
		t.Errorf("audit: %s", d)
	}
}

func TestCronJobs(t *testing.T) {
	p := newPlay(t)
	c := p.open().connect(testToken)
	add := object{
		"name": "morning", "schedule": object{"kind": "cron", "expr": "0 9 * * 1-5", "tz": "Asia/Shanghai"}, "sessionTarget": "isolated", "wakeMode": "now",
		"payload": object{"kind": "agentTurn", "message": "WORDS say:good-morning"}, "delivery": object{"mode": "none", "channel": "last"},
	}
	job := want[openclaw.CronJob](c, "cron.add", add)
	if job.ID == "" || job.Schedule.Expr != "0 9 * * 1-5" || !job.Enabled || job.NextRunAtMs == 0 || job.AgentID != "main" || job.ConfigRevision == "" {
		t.Fatalf("job %+v", job)
	}
	for name, change := range map[string]object{
		"schedule.kind stream":   {"schedule": object{"kind": "stream", "command": []string{"x"}}},
		"payload.kind command":   {"payload": object{"kind": "command", "argv": []string{"rm"}}},
		"delivery.mode announce": {"delivery": object{"mode": "announce"}},
		"trigger":                {"trigger": object{"script": "x"}},
		"sessionTarget current":  {"sessionTarget": "current"},
	} {
		bad := object{}
		for k, v := range add {
			bad[k] = v
		}
		for k, v := range change {
			bad[k] = v
		}
		if r := c.call("cron.add", bad); r.OK || r.detail() != DetailUnsupported || !strings.Contains(r.Error.Message, name) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	ran := want[openclaw.CronRan](c, "cron.run", object{"id": job.ID, "mode": "force"})
	if !ran.Enqueued || ran.RunID == "" {
		t.Fatalf("run %+v", ran)
	}
	if w := want[openclaw.AgentWaitResult](c, "agent.wait", object{"runId": ran.RunID, "timeoutMs": 20000}); w.Status != "ok" || w.TerminalReply.Text != "good-morning" {
		t.Fatalf("agent.wait %+v", w)
	}
	runs := want[openclaw.CronRuns](c, "cron.runs", object{"id": job.ID})
	if len(runs.Entries) != 1 || runs.Entries[0].Status != openclaw.CronOK || runs.Entries[0].Summary != "good-morning" || runs.Entries[0].RunID != ran.RunID {
		t.Errorf("runs %+v", runs)
	}
	if !strings.HasPrefix(runs.Entries[0].SessionKey, "agent:main:cron:"+job.ID+":run:") {
		t.Errorf("session %s", runs.Entries[0].SessionKey)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		list := want[openclaw.CronJobs](c, "cron.list", object{})
		if list.SnapshotRevision == "" {
			t.Fatal("no snapshotRevision")
		}
		if len(list.Jobs) == 1 && list.Jobs[0].LastRunStatus == openclaw.CronOK {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("jobs %+v", list)
		}
	}
	job = want[openclaw.CronJob](c, "cron.update", object{"id": job.ID, "patch": object{"enabled": false, "name": "never", "payload": object{"kind": "agentTurn", "timeoutSeconds": 60}}})
	if job.Enabled || job.Name != "never" || job.Payload.Message != "WORDS say:good-morning" || job.Payload.TimeoutSeconds != 60 || job.NextRunAtMs != 0 {
		t.Errorf("changed %+v", job)
	}
	if r := want[openclaw.CronRan](c, "cron.run", object{"jobId": job.ID, "mode": "if-enabled"}); r.Enqueued || r.Reason != "disabled" {
		t.Errorf("run of a disabled job: %+v", r)
	}
	if r := want[openclaw.CronRemoved](c, "cron.remove", object{"id": job.ID}); !r.Removed {
		t.Errorf("remove %+v", r)
	}
	if code := refused(c, "cron.remove", object{"id": job.ID}); code != "CRON_JOB_NOT_FOUND" {
		t.Errorf("remove again: %s", code)
	}
}

func TestLogsKeepTheEndAndNoSecrets(t *testing.T) {
	l := NewLogs(3)
	log := slog.New(l.Handler(slog.DiscardHandler))
	if log.Enabled(t.Context(), slog.LevelError) {
		t.Error("kept what the log itself does not take")
	}
	log = slog.New(l.Handler(slog.NewTextHandler(&strings.Builder{}, nil)))
	log.Debug("not taken")
	log.Info("first")
	log.Info("connect", "token", "sgc_0123456789abcdefghij", "url", "postgres://me:hunter2@db/x")
	log.Info("header", "err", "401 for Authorization: Bearer abc.def.ghi and sk-aaaaaaaaaaaaaaaaaaaa, password=hunter2")
	page := l.tail(-1, 10, 1000)
	if len(page.lines) != 3 || page.cursor != page.end {
		t.Fatalf("page %+v", page)
	}
	all := strings.Join(page.lines, "\n")
	for _, secret := range []string{"0123456789abcdefghij", "hunter2", "abc.def", "aaaaaaaa"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is in %s", secret, all)
		}
	}
	if !strings.Contains(all, `"message":"header"`) {
		t.Errorf("lines %s", all)
	}
	at := page.cursor
	log.Info("fourth")
	if next := l.tail(at, 10, 1000); len(next.lines) != 1 || !strings.Contains(next.lines[0], "fourth") || next.truncated {
		t.Errorf("after the cursor: %+v", next)
	}
	if few := l.tail(-1, 2, 1000); len(few.lines) != 2 || !few.truncated {
		t.Errorf("two lines: %+v", few)
	}
	if gone := l.tail(0, 10, 1000); len(gone.lines) != 3 || !gone.truncated {
		t.Errorf("from what is gone: %+v", gone)
	}
	if other := l.tail(at+1e6, 10, 1000); !other.reset || len(other.lines) != 3 {
		t.Errorf("with another process's cursor: %+v", other)
	}
}

func TestReferenceNamesEveryMethod(t *testing.T) {
	doc, err := os.ReadFile("../../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Methods() {
		var row string
		for line := range strings.Lines(string(doc)) {
			if strings.HasPrefix(line, "| `") && strings.Contains(line, "`"+m.Name+"`") {
				row = line
			}
		}
		if !strings.Contains(row, "| "+string(m.Role)+" |") {
			t.Errorf("docs/gateway.md does not say that %s is for a %s: %q", m.Name, m.Role, row)
		}
	}
}
