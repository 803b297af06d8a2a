package scripted_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/chrometest"
	"sgclaw/internal/oa"
	"sgclaw/internal/page"
	"sgclaw/internal/prompt"
	"sgclaw/internal/scripted"
)

var chromium chrometest.Shared

func TestMain(m *testing.M) { os.Exit(chrometest.Main(m, &chromium)) }

// TestRealBrowser does tasks with the snapshots of a real browser, so that
// what the rules read stays what the browser host writes.
func TestRealBrowser(t *testing.T) {
	for name, tt := range map[string]struct {
		task, want string
		answer     oa.Want
	}{
		"the demo task":        {"打开 SITE/ ，" + oa.Task().ZH + "。", "保留未动 6 张", oa.Expected()},
		"the same in English":  {"Open SITE/?lang=en . " + oa.Task().EN + ".", "Left alone (6)", oa.Expected()},
		"reject one":           {"在 SITE/leave 上驳回李四的请假", "已驳回 1 张：LR-2002", oa.Want{Rejected: []string{"LR-2002"}}},
		"the report":           {"打开 SITE/report，统计天数超过 3 天的行数", "共有 200 行，其中 66 行", oa.Want{}},
		"the hostile page":     {"打开 SITE/hostile，读取公告内容", "食堂开放时间", oa.Want{}},
		"a title":              {"打开 SITE/report 告诉我标题", "请假统计 - 演示 OA", oa.Want{}},
		"something to click":   {"Open SITE/?lang=en and click \"Leave report\"", "Leave report - Demo OA", oa.Want{}},
		"something to fill in": {"在 SITE/login 上，在“用户名”中输入“张三”", "已填写", oa.Want{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, oa.Config{}, scripted.Options{})
			conn := chromium.Process(t).Conn()
			b, err := page.Open(t.Context(), slog.New(slog.DiscardHandler), conn, page.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				if err := b.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			w.before = func(c agent.Call) (prompt.Turn, bool) {
				effect := c.Action == action.Click || c.Action == action.Type || c.Action == action.Navigate
				d, _, fault := b.Main().Do(t.Context(), page.Request{Action: c.Action, Params: c.Params, SnapshotAfter: effect})
				o := prompt.Turn{Kind: prompt.Observation, Call: c, Outcome: agent.OutcomeDone, Text: "done: " + c.Action + ": " + d.Text}
				if d.Page != nil {
					o.Page = *d.Page
				}
				if c.Action == action.GetText {
					o.Text = "done: " + c.Action + "\ntext:\n" + d.Text
				}
				if d.Snapshot != "" {
					o.Text += "\nsnapshot:\n" + d.Snapshot
				}
				if fault != nil {
					o.Outcome, o.Code, o.Text = agent.OutcomeFailed, string(fault.Code), "failed: "+fault.Message
				}
				return o, true
			}
			report, err := w.run(tt.task)
			w.check(report, err, tt.answer)
			if !strings.Contains(report, tt.want) {
				t.Errorf("report %q, want %q", report, tt.want)
			}
			if testing.Verbose() {
				t.Log(w.said())
			}
		})
	}
}
