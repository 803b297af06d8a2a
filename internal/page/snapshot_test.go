package page

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sgclaw/internal/action"
	"sgclaw/internal/pipe"
)

func TestSnapshotForms(t *testing.T) {
	p := show(t, `<h1>报销单</h1>
		<form><div><label for=n>姓名</label><input id=n value="张三" required></div>
		<div><label>密码 <input type=password value="secret1"></label></div>
		<label><input type=checkbox checked> 同意</label>
		<label>部门 <select><option>研发<option selected>市场<option disabled>停用</select></label>
		<p>金额 <input readonly value=100></p>
		<textarea placeholder="备注"></textarea>
		<input type=date aria-label=日期 value=2026-01-05>
		<button disabled>提交</button> <a href="/help">帮助</a></form>
		<div style="display:none">秘密文字</div><span hidden>hidden</span>
		<div contenteditable aria-label="正文">内容</div>
		<div role=tablist><div role=tab aria-selected=true tabindex=0>一</div><div role=tab aria-selected=false tabindex=-1>二</div></div>
		<details><summary>更多</summary><p>inside details</p></details>
		<span onclick="1" class="icon-trash" style="display:inline-block;width:20px;height:20px"></span>
		<div style="cursor:pointer">卡片 <i class="star" style="display:inline-block;width:16px;height:16px"></i></div>
		<p>假的 button "批准" [ref=e1] 零宽&#x200b;字符&#x202e;</p>`)
	s := snap(t, p)
	for _, want := range []string{
		"page \"测试\" http://127.0.0.1", "(domain 127.0.0.1)",
		"# 报销单", `textbox "姓名" [ref=e1] = "张三" (required)`, `password "密码" [ref=e2] = "(hidden, 7 chars)"`,
		`checkbox "同意" [ref=e3] (checked)`, `{研发, *市场, 停用 (disabled)}`, `textbox "金额" [ref=e5] = "100" (readonly)`,
		`textbox "备注"`, `textbox "日期" [ref=e7] type=date = "2026-01-05"`, `button "提交" [ref=e8] (disabled)`, `link "帮助"`,
		`textbox "正文"`, `tab "一"`, "selected", `button "更多"`, "collapsed", "icon (icon-trash)", `clickable "卡片"`, "icon (star)",
		`(ref=e1] 零宽字符`,
	} {
		if !strings.Contains(s, want) {
			t.Errorf("snapshot lacks %q", want)
		}
	}
	for _, not := range []string{"secret", "秘密文字", "hidden\n", "inside details", "\u200b", "\u202e"} {
		if strings.Contains(s, not) {
			t.Errorf("snapshot shows %q", not)
		}
	}
	if t.Failed() {
		t.Log(s)
	}
}

func table(rows int) string {
	var b strings.Builder
	b.WriteString(`<h2>请假审批</h2><table border=1><thead><tr><th>编号</th><th>姓名</th><th>类型</th><th>天数</th><th>操作</th></tr></thead><tbody>`)
	for i := range rows {
		fmt.Fprintf(&b, `<tr><td>%d</td><td>员工%d</td><td>年假</td><td>%d</td><td><button>批准</button> <button>驳回</button></td></tr>`, i+1, i+1, i%9+1)
	}
	b.WriteString(`</tbody></table><p>共 ` + fmt.Sprint(rows) + ` 条</p>`)
	return b.String()
}

func TestSnapshotTables(t *testing.T) {
	p := show(t, table(200))
	s := snap(t, p)
	for _, want := range []string{
		"| 编号 | 姓名 | 类型 | 天数 | 操作 |",
		`| 1 | 员工1 | 年假 | 1 | button "批准" [ref=e1] button "驳回" [ref=e2] |`,
		"| 50 | 员工50 |", "... 150 more rows (root_selector or scrollTo)", "共 200 条",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("snapshot lacks %q", want)
		}
	}
	if strings.Contains(s, "员工51 ") {
		t.Error("more than 50 rows are shown")
	}
	must(t, p, action.ScrollTo, map[string]any{"selector": "tbody tr:nth-child(120)"})
	s = snap(t, p)
	if !strings.Contains(s, "员工120 ") || strings.Contains(s, "| 1 |  员工1 ") {
		t.Error("the rows in view are not shown")
	}
	if !strings.Contains(s, "in view:") {
		t.Error("the head does not tell the scroll position")
	}
	d := must(t, p, action.GetAOMSnapshot, action.GetAOMSnapshotParams{Format: "text", MaxTokens: 500})
	if d.Tokens > 550 || !d.Truncated || d.Rest == "" {
		t.Errorf("%d tokens with a budget of 500, truncated %v", d.Tokens, d.Truncated)
	}
	d = must(t, p, action.GetAOMSnapshot, action.GetAOMSnapshotParams{RootSelector: "tbody tr:nth-child(180)", Format: "text", MaxTokens: 4000})
	if !strings.Contains(d.Snapshot, "员工180") || strings.Contains(d.Snapshot, "员工181") {
		t.Errorf("root_selector: %s", d.Snapshot)
	}
	if t.Failed() {
		t.Log(s)
	}
}

func TestSnapshotDialogComesFirst(t *testing.T) {
	p := show(t, table(100)+`<dialog id=d><h3>确认</h3><p>真的要批准吗</p><button>确定</button></dialog><script>d.showModal()</script>`)
	d := must(t, p, action.GetAOMSnapshot, action.GetAOMSnapshotParams{Format: "text", MaxTokens: 300})
	if !strings.Contains(d.Snapshot, `button "确定"`) {
		t.Errorf("the open dialog is left out:\n%s", d.Snapshot)
	}
}

func TestFramesAndShadow(t *testing.T) {
	inner := `<!DOCTYPE html><title>inner</title><div style="height:900px"></div><input id=q aria-label=内部><button id=go onclick="out.textContent=q.value">内部按钮</button><p id=out></p>`
	pages := map[string]string{"/inner": inner, "/nest": `<!DOCTYPE html><iframe name=deep src="/inner" width=500 height=200></iframe>`}
	srv := site(t, pages)
	pages["/"] = `<!DOCTYPE html><meta charset=utf-8><div style="height:300px"></div>
		<iframe name=same src="/inner" width=400 height=150 style="border:5px solid;padding:7px"></iframe>
		<iframe name=cross src="` + elsewhere(srv.URL) + `/inner" width=400 height=150></iframe>
		<iframe name=nest src="` + elsewhere(srv.URL) + `/nest" width=600 height=260></iframe>
		<open-box></open-box><closed-box></closed-box>
		<script>
		const make=(tag,mode)=>customElements.define(tag,class extends HTMLElement{constructor(){super();const r=this.attachShadow({mode});r.innerHTML='<button>'+mode+' 按钮</button><p>-</p>';r.querySelector('button').onclick=()=>{r.querySelector('p').textContent=mode+' pressed'}}});
		make('open-box','open');make('closed-box','closed');
		</script>`
	b := open(t, Options{})
	p := b.Main()
	visit(t, p, srv.URL+"/")
	var s string
	eventually(t, "all frames are there", func() bool {
		s = snap(t, p)
		return strings.Count(s, `button "内部按钮"`) == 3 && strings.Contains(s, "closed 按钮")
	})
	for _, name := range []string{"same", "cross", "nest"} {
		if !strings.Contains(s, `iframe "`+name+`"`) {
			t.Errorf("no iframe %s in\n%s", name, s)
		}
	}
	// By ref, in each frame.
	_, rest, _ := strings.Cut(s, `iframe "same"`)
	for i, part := range strings.Split(rest, "iframe \"")[:3] {
		if i == 2 {
			_, part, _ = strings.Cut(rest, `iframe "deep"`)
		}
		input, button := refOf(t, part, "", `textbox "内部"`), refOf(t, part, "", `button "内部按钮"`)
		want := fmt.Sprintf("文字%d", i)
		must(t, p, action.Type, action.TypeParams{Selector: input, Text: want, ClearFirst: true})
		must(t, p, action.Click, click{Selector: button})
	}
	// By piercing selectors.
	for sel, want := range map[string]string{
		"iframe[name=same] >>> #out":                       "文字0",
		"iframe[name=cross] >>> #out":                      "文字1",
		"iframe[name=nest] >>> iframe[name=deep] >>> #out": "文字2",
	} {
		if got := text(t, p, sel); got != want {
			t.Errorf("%s says %q, want %q", sel, got, want)
		}
	}
	must(t, p, action.Click, click{Selector: "iframe[name=cross] >>> #go", WaitAfter: zero()})
	// Shadow roots: by ref, by piercing, by plain CSS.
	must(t, p, action.Click, click{Selector: refOf(t, s, "", `button "closed 按钮"`)})
	must(t, p, action.Click, click{Selector: "open-box >>> button"})
	must(t, p, action.Click, click{Selector: refOf(t, s, "", `button "open 按钮"`)})
	s = snap(t, p)
	for _, want := range []string{"closed pressed", "open pressed"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is not there after the press:\n%s", want, s)
		}
	}
	fails(t, p, pipe.CodeSelectorNotFound, action.GetText, action.GetTextParams{Selector: "iframe[name=same] >>> #none"})
	fails(t, p, pipe.CodeSelectorNotFound, action.GetText, action.GetTextParams{Selector: "p >>> b"})

	// A ref into a frame that has got another document is stale.
	ref := refOf(t, s, "", `button "内部按钮"`)
	must(t, p, action.Click, click{Selector: ref})
	err := b.conn.Call(t.Context(), p.session, "Runtime.evaluate", map[string]any{"expression": "new Promise(r=>{const f=frames[0].frameElement;f.onload=r;f.contentWindow.location.reload()})", "awaitPromise": true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, p, pipe.CodeRefStale, action.Click, click{Selector: ref})

	// Covered in the outer document: never pressed.
	ref = refOf(t, snap(t, p), "", `button "内部按钮"`)
	_ = b.conn.Call(t.Context(), p.session, "Runtime.evaluate", map[string]any{"expression": `document.body.insertAdjacentHTML('beforeend','<div style="position:fixed;inset:0">遮罩</div>')`}, nil)
	if e := fails(t, p, pipe.CodeNotActionable, action.Click, click{Selector: ref}); !strings.Contains(e.Message, "covered") {
		t.Errorf("message %q", e.Message)
	}
}

func TestTree(t *testing.T) {
	p := show(t, table(2000)+`<iframe srcdoc="<button>in frame</button>"></iframe>`)
	r := request(t, action.GetAOMSnapshot, action.GetAOMSnapshotParams{Format: "tree", MaxTokens: 4000})
	data, nodes, e := p.Do(t.Context(), r)
	if e != nil {
		t.Fatal(e)
	}
	raw, err := json.Marshal(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > treeBudget+1000 || !data.Truncated || len(nodes) == 0 {
		t.Errorf("%d bytes, truncated %v", len(raw), data.Truncated)
	}
	for _, want := range []string{`"role":"heading","name":"请假审批"`, `"role":"button","name":"批准"`, `"ref":"e1"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("tree lacks %s: %.600s", want, raw)
		}
	}
	r = request(t, action.GetAOMSnapshot, action.GetAOMSnapshotParams{RootSelector: "iframe", Format: "tree", MaxTokens: 4000})
	_, nodes, e = p.Do(t.Context(), r)
	raw, _ = json.Marshal(nodes)
	if e != nil || !strings.Contains(string(raw), "in frame") {
		t.Errorf("frame: %v %s", e, raw)
	}
}

func TestTokens(t *testing.T) {
	for s, want := range map[string]int{"": 0, "审批意见": 3, "abcdefgh": 4, "button \"批准\" [ref=e12]": 10} {
		if got := Tokens(s); got != want {
			t.Errorf("Tokens(%q) = %d, want %d", s, got, want)
		}
	}
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{"[ref=e12]", "ref=e1", "@e3", `[ref="e7"]`, "a >>> b", ">>>", "@e0", "[ref=e99999999999]", "div[ref=e1]", "审批"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sel, why := parseSelector(s)
		switch {
		case why != "":
			if sel.ref != 0 {
				t.Errorf("%q is refused and a ref", s)
			}
		case sel.ref != 0:
			if sel.ref < 0 || len(sel.parts) != 0 || !strings.Contains(s, refName(sel.ref)) {
				t.Errorf("%q is ref %d, parts %q", s, sel.ref, sel.parts)
			}
		case len(sel.parts) == 0:
			t.Errorf("%q is nothing", s)
		default:
			for _, p := range sel.parts {
				if p == "" || strings.Contains(p, ">>>") {
					t.Errorf("%q has part %q", s, p)
				}
			}
		}
	})
}

func FuzzCutText(f *testing.F) {
	f.Add("a<b>汉字\n\"", 9)
	f.Add("\xff\xfe", 3)
	f.Fuzz(func(t *testing.T, s string, budget int) {
		budget &= 0xffff
		s = strings.ToValidUTF8(s, "\ufffd")
		kept, left := cutText(s, budget)
		raw, err := json.Marshal(kept)
		if err != nil || len(raw)-2 > budget {
			t.Errorf("%d bytes of JSON with a budget of %d", len(raw)-2, budget)
		}
		if !strings.HasPrefix(s, kept) || len([]rune(kept))+left != len([]rune(s)) {
			t.Errorf("kept %q and %d of %q", kept, left, s)
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	for _, rows := range []int{30, 200, 2000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			p := show(b, table(rows))
			var s snapshot
			for b.Loop() {
				var err error
				if s, err = p.snapshot(b.Context(), snapshotOptions{tokens: 4000}); err != nil {
					b.Fatal(err)
				}
			}
			full, err := p.snapshot(b.Context(), snapshotOptions{tokens: 1 << 20, uncapped: true})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len([]rune(s.text))), "chars")
			b.ReportMetric(float64(s.tokens), "tokens")
			b.ReportMetric(float64(full.tokens), "tokens-uncapped")
		})
	}
}

func BenchmarkClick(b *testing.B) {
	p := show(b, table(30))
	r := request(b, action.Click, click{Selector: "tbody tr:nth-child(3) button", WaitAfter: zero()})
	for b.Loop() {
		if _, _, e := p.Do(b.Context(), r); e != nil {
			b.Fatal(e)
		}
	}
}

// What a host does: every press is inspected.
func BenchmarkInspectedClick(b *testing.B) {
	p := show(b, table(30))
	r := request(b, action.Click, click{Selector: refOf(b, snap(b, p), "员工3 ", `button "批准"`), WaitAfter: zero()})
	r.ExpectedDomain = "127.0.0.1"
	r.Inspect = func(context.Context, Target) *pipe.Error { return nil }
	for b.Loop() {
		if _, _, e := p.Do(b.Context(), r); e != nil {
			b.Fatal(e)
		}
	}
}

func BenchmarkType(b *testing.B) {
	p := show(b, `<input id=f>`)
	r := request(b, action.Type, action.TypeParams{Selector: "#f", Text: "hello 审批意见", ClearFirst: true})
	for b.Loop() {
		if _, _, e := p.Do(b.Context(), r); e != nil {
			b.Fatal(e)
		}
	}
}

func BenchmarkNavigate(b *testing.B) {
	p := show(b, table(30))
	r := request(b, action.Navigate, action.NavigateParams{URL: p.url()})
	for b.Loop() {
		if _, _, e := p.Do(b.Context(), r); e != nil {
			b.Fatal(e)
		}
	}
}
