package page

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sgclaw/internal/action"
	"sgclaw/internal/pipe"
)

func zero() *int { return ptr(0) }

func TestRefsNeverActOnAnotherElement(t *testing.T) {
	rows := `<table id=t></table><p id=log></p><script>
		const log = (s) => { document.getElementById('log').textContent += s + ';'; };
		const make = (n) => '<tr><td>' + n + '</td><td><button onclick="log(\'' + n + '\')">批准</button></td></tr>';
		const t = document.getElementById('t');
		const draw = (...names) => { t.innerHTML = names.map(make).join(''); };
		draw('张三', '李四');
	</script>
	<button id=redraw onclick="draw('李四','张三')">redraw</button>
	<button id=patch onclick="for (const td of t.querySelectorAll('td:first-child')) td.textContent='王五'">patch</button>
	<button id=rename onclick="t.querySelectorAll('button').forEach(b=>b.textContent='驳回')">rename</button>
	<button id=more onclick="t.querySelectorAll('tr').forEach(r=>r.insertCell().textContent='更多')">more</button>
	<button id=reload onclick="location.reload()">reload</button>`
	tests := []struct {
		name, first string
		want        pipe.Code
	}{
		{"unchanged", "", ""},
		{"element replaced by an equal one", "#redraw", pipe.CodeRefStale},
		{"row of another record in the same nodes", "#patch", pipe.CodeRefStale},
		{"another name", "#rename", pipe.CodeRefStale},
		{"row has gained text", "#more", ""},
		{"same page loaded again", "#reload", pipe.CodeRefStale},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := show(t, rows)
			ref := refOf(t, snap(t, p), "张三", `button "批准"`)
			if tt.first != "" {
				must(t, p, action.Click, click{Selector: tt.first})
			}
			_, e := do(t, p, action.Click, click{Selector: ref, WaitAfter: zero()})
			got := pipe.Code("")
			if e != nil {
				got = e.Code
			}
			if got != tt.want {
				t.Errorf("code %q (%v), want %q", got, e, tt.want)
			}
			want := "张三;"
			if tt.want != "" {
				want = ""
			}
			if log := text(t, p, "#log"); log != want {
				t.Errorf("pressed %q, want %q", log, want)
			}
		})
	}
}

// A ref from before the last snapshot must not follow its node to another
// record either.
func TestRefsOfPatchedRowsAreRetired(t *testing.T) {
	p := show(t, `<table id=t></table><p id=log></p><script>
		let names = ['张三', '李四', '王五'];
		const done = (i) => { log.textContent += names[i] + ';'; names.splice(i, 1); draw(); };
		const draw = () => { // as v-for without a key does
			while (t.rows.length > names.length) t.deleteRow(-1);
			names.forEach((n, i) => {
				const r = t.rows[i] || t.insertRow();
				if (!r.cells.length) { r.innerHTML = '<td></td><td><button>批准</button></td>'; r.querySelector('button').onclick = () => done(i); }
				r.cells[0].textContent = n;
			});
		};
		draw();
	</script>`)
	first := snap(t, p)
	zhang, li := refOf(t, first, "张三", `button "批准"`), refOf(t, first, "李四", `button "批准"`)
	r := request(t, action.Click, click{Selector: zhang})
	r.SnapshotAfter = true
	d, _, e := p.Do(t.Context(), r)
	if e != nil {
		t.Fatal(e)
	}
	if strings.Contains(d.Snapshot, zhang) || strings.Contains(d.Snapshot, li) {
		t.Errorf("a number means another record now:\n%s", d.Snapshot)
	}
	fails(t, p, pipe.CodeRefStale, action.Click, click{Selector: li})
	must(t, p, action.Click, click{Selector: refOf(t, d.Snapshot, "李四", `button "批准"`)})
	if got := text(t, p, "#log"); got != "张三;李四;" {
		t.Errorf("pressed %q", got)
	}
}

func TestRefsAreStable(t *testing.T) {
	p := show(t, `<div id=d><button>a</button><button>b</button></div><button id=add onclick="d.insertAdjacentHTML('afterbegin','<button>c</button>')">add</button>`)
	first := snap(t, p)
	a, b := refOf(t, first, "", `button "a"`), refOf(t, first, "", `button "b"`)
	must(t, p, action.Click, click{Selector: "#add"})
	second := snap(t, p)
	if got := refOf(t, second, "", `button "a"`); got != a {
		t.Errorf("a was %s and is %s", a, got)
	}
	if got := refOf(t, second, "", `button "b"`); got != b {
		t.Errorf("b was %s and is %s", b, got)
	}
	if c := refOf(t, second, "", `button "c"`); strings.Contains(first, c) {
		t.Errorf("c got the used number %s", c)
	}
	visit(t, p, p.url())
	third := snap(t, p)
	if strings.Contains(third, a) || strings.Contains(third, b) {
		t.Errorf("numbers of another document are used again:\n%s", third)
	}
	fails(t, p, pipe.CodeRefStale, action.Click, click{Selector: a})
	fails(t, p, pipe.CodeRefStale, action.GetText, action.GetTextParams{Selector: "@e9999"})
}

func TestClickObstacles(t *testing.T) {
	log := `<p id=log></p><script>const hit = (s) => { document.getElementById('log').textContent += s + ';'; };</script>`
	tests := []struct {
		name, html string
		want       pipe.Code
		says, log  string
	}{
		{name: "covered", html: `<button id=b onclick="hit('b')">b</button><div onclick="hit('cover')" style="position:fixed;inset:0;background:#eee">mask</div>`,
			want: pipe.CodeNotActionable, says: "mask"},
		{name: "half covered", html: `<button id=b style="width:200px;height:60px;position:absolute;left:10px;top:10px" onclick="hit('b')">b</button>
			<div onclick="hit('cover')" style="position:absolute;left:0;top:0;width:160px;height:200px;background:#eee"></div>`, log: "b;"},
		{name: "disabled", html: `<button id=b disabled onclick="hit('b')">b</button>`, want: pipe.CodeNotActionable, says: "disabled"},
		{name: "aria-disabled", html: `<div role=button id=b aria-disabled=true onclick="hit('b')">b</div>`, want: pipe.CodeNotActionable, says: "disabled"},
		{name: "hidden", html: `<button id=b style="visibility:hidden" onclick="hit('b')">b</button>`, want: pipe.CodeNotActionable, says: "hidden"},
		{name: "always moving", html: `<button id=b style="position:absolute" onclick="hit('b')">b</button><script>let x=0;const b=document.getElementById('b');
			(function f(){b.style.left=(x=(x+17)%300)+'px';requestAnimationFrame(f)})()</script>`, want: pipe.CodeNotActionable, says: "moving"},
		{name: "slides in", html: `<style>@keyframes s{from{transform:translateX(400px)}}#b{animation:s .4s}</style><button id=b onclick="hit('b')">b</button>`, log: "b;"},
		{name: "enabled late", html: `<button id=b disabled onclick="hit('b')">b</button><script>setTimeout(()=>{document.getElementById('b').disabled=false},500)</script>`, log: "b;"},
		{name: "overlay fades", html: `<button id=b onclick="hit('b')">b</button><div id=o onclick="hit('cover')" style="position:fixed;inset:0;background:#eee">mask</div>
			<script>setTimeout(()=>o.remove(),500)</script>`, log: "b;"},
		{name: "appears late", html: `<div id=d></div><script>setTimeout(()=>{d.innerHTML='<button id=b onclick="hit(\'b\')">b</button>'},600)</script>`, log: "b;"},
		{name: "inner scroll container", html: `<div style="height:120px;overflow:auto"><div style="height:2000px"></div><button id=b onclick="hit('b')">b</button><div style="height:500px"></div></div>`, log: "b;"},
		{name: "far down", html: `<div style="height:5000px"></div><button id=b onclick="hit('b')">b</button>`, log: "b;"},
		{name: "moves away under the mouse", html: `<button id=b style="position:absolute;left:20px;top:150px;width:80px;height:40px" onclick="hit('b')">b</button>
			<button id=c style="position:absolute;left:20px;top:300px;width:80px;height:40px" onclick="hit('c')">c</button>
			<script>b.addEventListener('mouseenter',()=>{b.style.top='300px';c.style.top='150px'},{once:true})</script>`, log: "b;"},
		{name: "covered under the mouse", html: `<button id=b style="width:80px;height:40px" onclick="hit('b')">b</button>
			<script>b.addEventListener('mouseenter',()=>{document.body.insertAdjacentHTML('beforeend','<button style="position:fixed;inset:0" onclick="hit(\'cover\')">cover</button>')})</script>`,
			want: pipe.CodeNotActionable, says: "cover"},
		{name: "swapped at pointerdown on the way", html: `<button id=b onclick="hit('b')">b</button>
			<script>addEventListener('mousemove',()=>{setTimeout(()=>{b.style.display='none'},0)},{once:true})</script>`, want: pipe.CodeNotActionable, says: "hidden"},
		{name: "label of a hidden box", html: `<label style="display:block;padding:10px"><input type=checkbox id=b style="opacity:0;position:absolute;width:0;height:0" onchange="hit('b')">agree</label>`, log: "b;"},
		{name: "inline link over two lines", html: `<div style="width:150px">some words before the <a id=b href="#" onclick="hit('b')">link that is broken over lines</a> and after</div>`, log: "b;"},
		{name: "text without pointer events", html: `<button onclick="hit('b')" style="padding:20px"><span id=b style="pointer-events:none">b</span></button>`, log: "b;"},
		{name: "svg icon", html: `<button onclick="hit('b')"><svg id=b width=20 height=20><circle cx=10 cy=10 r=9 /></svg></button>`, log: "b;"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := show(t, log+tt.html)
			if tt.want == "" {
				must(t, p, action.Click, click{Selector: "#b", WaitAfter: zero()})
			} else {
				e := fails(t, p, tt.want, action.Click, click{Selector: "#b", WaitAfter: zero()})
				if !strings.Contains(e.Message, tt.says) {
					t.Errorf("message %q does not say %q", e.Message, tt.says)
				}
			}
			if got := text(t, p, "#log"); got != tt.log {
				t.Errorf("pressed %q, want %q", got, tt.log)
			}
		})
	}
}

// The press guard must swallow a press that the page deflects after the last
// check.
func TestGuardSwallowsDeflectedPress(t *testing.T) {
	p := show(t, `<p id=log></p><button id=b style="position:fixed;left:20px;top:50px;width:90px;height:40px">b</button>`)
	var a answer
	if err := p.ask(t.Context(), p.main(), "find", args{Parts: []string{"#b"}}, &a); err != nil {
		t.Fatal(err)
	}
	var armed answer
	if err := p.ask(t.Context(), p.main(), "arm", args{ID: a.ID}, &armed); err != nil || armed.X == 0 {
		t.Fatalf("arm: %+v, %v", armed, err)
	}
	var res answer
	_ = p.b.conn.Call(t.Context(), p.session, "Runtime.evaluate", map[string]string{
		"expression": `document.body.insertAdjacentHTML('beforeend','<button onclick="log.textContent=\'cover\'" onmousedown="log.textContent=\'cover\'" style="position:fixed;inset:0">cover</button>')`,
	}, nil)
	c := newClock(t.Context(), patience)
	defer c.stop()
	at := newAttempt(c, p, Request{}, "#b")
	if err := p.mouse(t.Context(), mousePress(armed.X, armed.Y)...); err != nil {
		t.Fatal(err)
	}
	state, hit := at.disarm(found{node: node{frame: p.main()}})
	if state != "swallowed" || !strings.Contains(hit, "cover") {
		t.Errorf("guard says %q, %q", state, hit)
	}
	if err := p.ask(t.Context(), p.main(), "text", args{ID: a.ID}, &res); err != nil {
		t.Fatal(err)
	}
	if got := text(t, p, "#log"); got != "" {
		t.Errorf("the press reached %q", got)
	}
}

func TestInspect(t *testing.T) {
	html := `<form action="/done"><table><tr><td>张三</td><td>年假 2 天</td><td><button id=b>批准</button></td></tr></table><input id=q aria-label=备注></form>
		<a id=a href="/next"><span id=s>下一页</span></a>`
	srv := site(t, map[string]string{"/": html, "/done": "done", "/next": "next"})
	p := open(t, Options{}).Main()
	reset := func() { visit(t, p, srv.URL+"/") }

	reset()
	var got Target
	var picture []byte
	refuse := func(ctx context.Context, target Target) *pipe.Error {
		got = target
		picture, _ = target.Picture(ctx)
		return pipe.Errorf(pipe.CodeNeedConfirm, "ask")
	}
	try := func(name string, params any) *pipe.Error {
		t.Helper()
		r := request(t, name, params)
		r.Inspect, r.ExpectedDomain = refuse, "127.0.0.1"
		_, _, e := p.Do(t.Context(), r)
		return e
	}
	if e := try(action.Click, click{Selector: "#b"}); e == nil || e.Code != pipe.CodeNeedConfirm {
		t.Fatalf("got %v, want the error of Inspect", e)
	}
	if got.Role != "button" || got.Name != "批准" || got.Context != "张三 年假 2 天 批准" || !got.FormSubmit || got.Domain != "127.0.0.1" || got.URL != srv.URL+"/" {
		t.Errorf("target %+v", got)
	}
	if len(picture) < 100 || picture[0] != 0xff || picture[1] != 0xd8 {
		t.Errorf("picture of %d bytes is no JPEG", len(picture))
	}
	if p.url() != srv.URL+"/" {
		t.Errorf("something was pressed: %s", p.url())
	}
	_ = try(action.Click, click{Selector: "#s"})
	if got.Role != "link" || got.Name != "下一页" || got.LinkURL != srv.URL+"/next" || got.FormSubmit {
		t.Errorf("target of a span in a link: %+v", got)
	}
	_ = try(action.Type, action.TypeParams{Selector: "#q", Text: "好\n"})
	if got.Role != "textbox" || got.Name != "备注" || !got.FormSubmit || got.SubmitName != "批准" {
		t.Errorf("target of Enter: %+v", got)
	}
	if v := text(t, p, "#q"); v != "" {
		t.Errorf("%q was typed", v)
	}
	_ = try(action.Type, action.TypeParams{Selector: "#q", Text: "好"})
	if got.FormSubmit {
		t.Errorf("typing without Enter submits: %+v", got)
	}

	// What changes while a person is asked is not acted on.
	r := request(t, action.Click, click{Selector: "#b"})
	r.Inspect = func(ctx context.Context, target Target) *pipe.Error {
		err := p.b.conn.Call(ctx, p.session, "Runtime.evaluate", map[string]string{"expression": "document.querySelector('td').textContent='李四'"}, nil)
		if err != nil {
			t.Error(err)
		}
		return nil
	}
	if _, _, e := p.Do(t.Context(), r); e == nil || e.Code != pipe.CodeRefStale {
		t.Errorf("acted on another row: %v", e)
	}
	r.ExpectedDomain = "other.example"
	if _, _, e := p.Do(t.Context(), r); e == nil || e.Code != pipe.CodeDomainMismatch {
		t.Errorf("got %v, want %s", e, pipe.CodeDomainMismatch)
	}

	// Time that a person takes is not the action's.
	reset()
	var asked atomic.Int32
	r = request(t, action.Click, click{Selector: "#b"})
	r.Inspect = func(ctx context.Context, target Target) *pipe.Error {
		asked.Add(1)
		return asError(pause(ctx, 3500*time.Millisecond))
	}
	if _, _, e := p.Do(t.Context(), r); e != nil {
		t.Fatal(e)
	}
	if asked.Load() != 1 || !strings.Contains(p.url(), "/done") {
		t.Errorf("asked %d times, now at %s", asked.Load(), p.url())
	}
}

func asError(err error) *pipe.Error {
	if err != nil {
		return fault(err)
	}
	return nil
}

// A click on a wrapper reaches what lies under the point: that is inspected.
func TestInspectSeesWhatIsReallyPressed(t *testing.T) {
	p := show(t, `<p id=log></p><div id=w style="width:200px;height:100px;position:relative"><button style="position:absolute;inset:0" onclick="log.textContent='deleted'">删除</button></div>`)
	r := request(t, action.Click, click{Selector: "#w"})
	var got Target
	r.Inspect = func(_ context.Context, target Target) *pipe.Error {
		got = target
		return pipe.Errorf(pipe.CodeNeedConfirm, "no")
	}
	_, _, _ = p.Do(t.Context(), r)
	if got.Name != "删除" || got.Role != "button" {
		t.Errorf("inspected %+v", got)
	}
}

func TestType(t *testing.T) {
	log := `<p id=log></p><script>const log=(s)=>{document.getElementById('log').textContent+=s};</script>`
	long := strings.Repeat("审批意见", 500)
	tests := []struct {
		name, html, text string
		keep             bool // clear_first false
		value, log       string
		code             pipe.Code
	}{
		{name: "text", html: `<input id=f value=old>`, text: "new", value: "new"},
		{name: "append", html: `<input id=f value=old>`, keep: true, text: "new", value: "oldnew"},
		{name: "clear only", html: `<input id=f value=old oninput="log('i')">`, text: "", value: "", log: "i"},
		{name: "CJK", html: `<input id=f oninput="log('i')" onkeyup="log('u')">`, text: "张三", value: "张三", log: "iu"},
		{name: "keys", html: `<input id=f onkeydown="log(event.key)">`, text: "aB 1", value: "aB 1", log: "aB 1"},
		{name: "long", html: `<textarea id=f></textarea>`, text: long, value: long[:len("审")*499] + "…"},
		{name: "lines", html: `<textarea id=f></textarea>`, text: "一\n二", value: "一 二"},
		{name: "enter", html: `<form onsubmit="log('submit');return false"><input id=f></form>`, text: "x\n", value: "x", log: "submit"},
		{name: "tab", html: `<input id=f onchange="log('change')" onblur="log('blur')"><input>`, text: "x\t", value: "x", log: "changeblur"},
		{name: "newline inside", html: `<input id=f>`, text: "a\nb", code: pipe.CodeInvalidParams},
		{name: "password", html: `<input id=f type=password>`, text: "secret", value: "(hidden, 6 chars)"},
		{name: "number", html: `<input id=f type=number>`, text: "12.5", value: "12.5"},
		{name: "email append", html: `<input id=f type=email value=a@>`, keep: true, text: "b.cn", value: "a@b.cn"},
		{name: "date", html: `<input id=f type=date onchange="log('c')" oninput="log('i')">`, text: "2026-01-31", value: "2026-01-31", log: "ic"},
		{name: "date as written here", html: `<input id=f type=date>`, text: "2026年1月5日", value: "2026-01-05"},
		{name: "bad date", html: `<input id=f type=date value=2026-01-01>`, text: "tomorrow", code: pipe.CodeInvalidParams},
		{name: "time", html: `<input id=f type=time>`, text: "9:05", value: "09:05"},
		{name: "range", html: `<input id=f type=range max=200>`, text: "120", value: "120"},
		{name: "readonly", html: `<input id=f readonly>`, text: "x", code: pipe.CodeNotEditable},
		{name: "disabled", html: `<input id=f disabled>`, text: "x", code: pipe.CodeNotActionable},
		{name: "select", html: `<select id=f><option>1</select>`, text: "1", code: pipe.CodeNotEditable},
		{name: "button", html: `<button id=f>x</button>`, text: "1", code: pipe.CodeNotEditable},
		{name: "contenteditable", html: `<div id=f contenteditable>old <b>text</b></div>`, text: "新的", value: "新的"},
		{name: "contenteditable append", html: `<div id=f contenteditable>old</div>`, keep: true, text: " new", value: "old new"},
		{name: "label", html: `<label id=f for=g>Name</label><input id=g>`, text: "x", value: "x"},
		{name: "wrapper", html: `<div id=f class=el-input><input></div>`, text: "x", value: "x"},
		{name: "maxlength", html: `<input id=f maxlength=3>`, text: "abcdef", value: "abc"},
		{name: "under a dialog", html: `<input id=f><div style="position:fixed;inset:0;background:#ccc">dialog</div>`, text: "x", code: pipe.CodeNotActionable},
		{name: "floating placeholder", html: `<div style="position:relative"><input id=f><span style="position:absolute;inset:0">placeholder</span></div>`, text: "x", value: "x"},
		{name: "formatted while typing", html: `<input id=f oninput="this.value=this.value.replace(/\D/g,'')">`, text: "1a2b", value: "12"},
		{name: "focus thief", html: `<input id=f onfocus="g.focus()"><input id=g>`, text: "x", code: pipe.CodeNotEditable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := show(t, log+tt.html)
			params := action.TypeParams{Selector: "#f", Text: tt.text, ClearFirst: !tt.keep}
			if tt.code != "" {
				fails(t, p, tt.code, action.Type, params)
				return
			}
			d := must(t, p, action.Type, params)
			if d.Value != tt.value {
				t.Errorf("value %q, want %q", d.Value, tt.value)
			}
			if got := text(t, p, "#log"); got != tt.log {
				t.Errorf("page noticed %q, want %q", got, tt.log)
			}
		})
	}
}

// A field whose setter is wrapped, as React does, must notice typing.
func TestTypeIntoControlledField(t *testing.T) {
	p := show(t, `<input id=f><p id=out></p><script>
		const f = document.getElementById('f');
		const proto = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
		let tracked = f.value;
		Object.defineProperty(f, 'value', { configurable: true, get() { return proto.get.call(this); }, set(v) { tracked = String(v); proto.set.call(this, v); } });
		f.addEventListener('input', () => { const now = proto.get.call(f); if (now === tracked) return; tracked = now; document.getElementById('out').textContent = 'state ' + now; });
	</script>`)
	must(t, p, action.Type, action.TypeParams{Selector: "#f", Text: "hello", ClearFirst: true})
	must(t, p, action.Type, action.TypeParams{Selector: "#f", Text: "审批通过", ClearFirst: true})
	if got := text(t, p, "#out"); got != "state 审批通过" {
		t.Errorf("page's state is %q", got)
	}
}

func TestSelect(t *testing.T) {
	html := `<p id=log></p><select id=s onchange="log.textContent+=this.value+';'"><option value=r>研发<option value=m>市场<option value=x disabled>停用</select>
		<select id=multi multiple><option>a<option>b<option>c</select>
		<select id=late></select><script>setTimeout(()=>{late.innerHTML='<option>one<option>two'},400)</script>
		<div id=c role=combobox tabindex=0 onclick="list.hidden=false">选择</div>
		<ul id=list role=listbox hidden><li role=option onclick="log.textContent+='甲;';list.hidden=true">甲</li><li role=option onclick="log.textContent+='乙;'">乙</li></ul>`
	p := show(t, html)
	sel := func(selector, value string) action.SelectParams {
		return action.SelectParams{Selector: selector, Value: value}
	}
	if d := must(t, p, action.Select, sel("#s", "m")); d.Value != "市场" {
		t.Errorf("by value: %q", d.Value)
	}
	if d := must(t, p, action.Select, sel("#s", "研发")); d.Value != "研发" {
		t.Errorf("by label: %q", d.Value)
	}
	fails(t, p, pipe.CodeOptionNotFound, action.Select, sel("#s", "停用"))
	if e := fails(t, p, pipe.CodeOptionNotFound, action.Select, sel("#s", "财务")); !strings.Contains(e.Message, "研发, 市场") {
		t.Errorf("message %q does not name the options", e.Message)
	}
	if d := must(t, p, action.Select, sel("#multi", "a,c")); d.Value != "a, c" {
		t.Errorf("multiple: %q", d.Value)
	}
	if d := must(t, p, action.Select, sel("#late", "two")); d.Value != "two" {
		t.Errorf("late: %q", d.Value)
	}
	must(t, p, action.Select, sel("#c", "甲"))
	if got := text(t, p, "#log"); got != "m;r;甲;" {
		t.Errorf("page noticed %q", got)
	}
	fails(t, p, pipe.CodeSelectorNotFound, action.Select, sel("#none", "a"))
}

func TestWaitAfterIsExact(t *testing.T) {
	p := show(t, `<button id=b onclick="setTimeout(()=>{b.textContent='x'},10)">b</button>`)
	for _, ms := range []int{0, 700} {
		start := time.Now()
		must(t, p, action.Click, click{Selector: "#b", WaitAfter: &ms})
		took := time.Since(start)
		if took < time.Duration(ms)*time.Millisecond || took > time.Duration(ms)*time.Millisecond+900*time.Millisecond {
			t.Errorf("wait_after %d took %v", ms, took)
		}
	}
}

func TestSettleWaitsForAnswers(t *testing.T) {
	srv := site(t, map[string]string{"/": `<p id=out></p><button id=b onclick="fetch('/slow').then(()=>{out.textContent='there'})">b</button>`})
	slow := srv.Config.Handler
	srv.Config.Handler = delay(slow, "/slow", 400*time.Millisecond)
	p := open(t, Options{}).Main()
	visit(t, p, srv.URL+"/")
	must(t, p, action.Click, click{Selector: "#b"})
	if got := text(t, p, "#out"); got != "there" {
		t.Errorf("the answer of the page's request was not waited for: %q", got)
	}
}

func TestOneRequestAtATime(t *testing.T) {
	p := show(t, `<input id=f><p id=log></p><script>f.oninput=()=>{log.textContent=f.value}</script>`)
	done := make(chan error, 4)
	for i := range 4 {
		go func() {
			_, _, e := p.Do(t.Context(), request(t, action.Type, action.TypeParams{Selector: "#f", Text: strings.Repeat(fmt.Sprint(i), 20), ClearFirst: true}))
			if e != nil {
				done <- e
				return
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	v := text(t, p, "#f")
	if len(v) != 20 || strings.Trim(v, v[:1]) != "" {
		t.Errorf("requests were mixed: %q", v)
	}
}
