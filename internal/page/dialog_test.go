package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/pipe"
)

// answering does an action and gives each of the page's questions the next of
// the answers; then No.
func answering(t *testing.T, p *Page, name string, params any, answers ...bool) (asked []string, _ *pipe.Data, _ *pipe.Error) {
	t.Helper()
	r := request(t, name, params)
	var mu sync.Mutex
	r.Dialog = func(d Dialog) bool {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, d.Type+": "+d.Message)
		n := len(asked) - 1
		return n < len(answers) && answers[n]
	}
	data, _, e := p.Do(t.Context(), r)
	mu.Lock()
	defer mu.Unlock()
	return asked, data, e
}

// asker is a page whose controls ask.
const asker = `<p id=out>-</p>
<button id=once onclick="if(confirm('确定\n要批准\u200b吗？'))out.textContent+='approved '">once</button>
<button id=twice onclick="if(confirm('A')&&confirm('B'))out.textContent+='both '">twice</button>
<button id=says onclick="if(confirm('A')){alert('done');out.textContent+='said '}">says</button>
<button id=late onclick="fetch('/get').then(()=>{if(confirm('late'))out.textContent+='late '})">late</button>
<button id=posts onclick="fetch('/post',{method:'POST'});if(confirm('A'))out.textContent+='posted '">posts</button>
<button id=leaves onclick="if(!confirm('A'))location='/left'">leaves</button>
<button id=prompts onclick="out.textContent+=prompt('why')+' '">prompts</button>
<form onsubmit="return confirm('submit?')" action=/left><input id=field></form>
<input id=nosy onchange="if(confirm('change?'))out.textContent+='changed '">
<select id=list onchange="if(confirm('choose?'))out.textContent+='chosen '"><option>1<option>2</select>
<input id=box type=checkbox onchange="confirm('tick?')">
<iframe id=frame srcdoc="<button onclick=&quot;if(confirm('framed'))parent.out.textContent+='framed '&quot;>in</button>"></iframe>`

func TestDialogIsAnsweredByAPerson(t *testing.T) {
	for name, tt := range map[string]struct {
		action   string
		params   any
		answers  []bool
		asked    []string
		code     pipe.Code
		out      string // what the page has done
		contains string // in the events
	}{
		"no":                 {params: click{Selector: "#once"}, asked: []string{"confirm: 确定 要批准吗？"}, code: pipe.CodeNeedConfirm, out: "-"},
		"yes":                {params: click{Selector: "#once"}, answers: []bool{true}, asked: []string{"confirm: 确定 要批准吗？"}, out: "-approved", contains: "confirm accepted: 确定 要批准吗？"},
		"yes, no":            {params: click{Selector: "#twice"}, answers: []bool{true}, asked: []string{"confirm: A", "confirm: B"}, out: "-", contains: `nobody is asked about "B": an earlier question`},
		"yes, yes":           {params: click{Selector: "#twice"}, answers: []bool{true, true}, asked: []string{"confirm: A", "confirm: B"}, out: "-both"},
		"yes, alert":         {params: click{Selector: "#says"}, answers: []bool{true}, asked: []string{"confirm: A"}, out: "-said", contains: "alert accepted: done"},
		"asks late, no":      {params: click{Selector: "#late"}, asked: []string{"confirm: late"}, code: pipe.CodeNeedConfirm, out: "-"},
		"asks late, yes":     {params: click{Selector: "#late"}, answers: []bool{true}, asked: []string{"confirm: late"}, out: "-late"},
		"sends all the same": {params: click{Selector: "#posts"}, asked: []string{"confirm: A"}, out: "-", contains: "sent something all the same (POST)"},
		"leaves on No":       {params: click{Selector: "#leaves"}, asked: []string{"confirm: A"}, out: "left", contains: "the page was left all the same"},
		"prompt":             {params: click{Selector: "#prompts"}, answers: []bool{true}, out: "-null", contains: "prompt dismissed: why"},
		"Enter, no":          {action: action.Type, params: action.TypeParams{Selector: "#field", Text: "x\n", ClearFirst: true}, asked: []string{"confirm: submit?"}, code: pipe.CodeNeedConfirm, out: "-"},
		"Enter, yes":         {action: action.Type, params: action.TypeParams{Selector: "#field", Text: "x\n", ClearFirst: true}, answers: []bool{true}, asked: []string{"confirm: submit?"}, out: "left"},
		"more text":          {action: action.Type, params: action.TypeParams{Selector: "#field", Text: "x\n"}, out: "-", contains: "confirm dismissed: submit?"},
		"tab, no":            {action: action.Type, params: action.TypeParams{Selector: "#nosy", Text: "x\t", ClearFirst: true}, asked: []string{"confirm: change?"}, code: pipe.CodeNeedConfirm, out: "-"},
		"choice, no":         {action: action.Select, params: action.SelectParams{Selector: "#list", Value: "2"}, asked: []string{"confirm: choose?"}, code: pipe.CodeNeedConfirm, out: "-"},
		"choice, yes":        {action: action.Select, params: action.SelectParams{Selector: "#list", Value: "2"}, answers: []bool{true}, asked: []string{"confirm: choose?"}, out: "-chosen"},
		"box":                {params: click{Selector: "#box"}, answers: []bool{true}, out: "-", contains: "confirm dismissed: tick?"},
		"frame, yes":         {params: click{Selector: "#frame >>> button"}, answers: []bool{true}, asked: []string{"confirm: framed"}, out: "-framed"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := site(t, map[string]string{
				"/": "<!DOCTYPE html><meta charset=utf-8>" + asker, "/left": "<p id=out>left", "/get": "", "/post": "",
			})
			p := open(t, Options{}).Main()
			visit(t, p, srv.URL+"/")
			if tt.action == "" {
				tt.action = action.Click
			}
			asked, data, e := answering(t, p, tt.action, tt.params, tt.answers...)
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			var code pipe.Code
			if e != nil {
				code = e.Code
			}
			if code != tt.code {
				t.Errorf("got %v, want %q", e, tt.code)
			}
			if got := text(t, p, "#out"); got != tt.out {
				t.Errorf("page says %q, want %q", got, tt.out)
			}
			if got := events(data, "dialog"); !strings.Contains(got, tt.contains) {
				t.Errorf("events %q, want %q", got, tt.contains)
			}
		})
	}
}

// What comes up when no action is under way is answered No, and the yes of an
// action that is over counts for nothing.
func TestDialogAfterTheAction(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<p id=out>-</p><button id=b onclick="fetch('/wait').then(()=>{out.textContent=confirm('later')})">b</button>`))
	}))
	t.Cleanup(srv.Close)
	p := open(t, Options{}).Main()
	visit(t, p, srv.URL+"/")
	none := 0
	asked, _, e := answering(t, p, action.Click, click{Selector: "#b", WaitAfter: &none}, true)
	if e != nil || len(asked) > 0 {
		t.Fatalf("asked %q, %v", asked, e)
	}
	close(release)
	if err := p.await(t.Context(), func(s *state) bool { return len(s.events) > 0 }); err != nil {
		t.Fatal(err)
	}
	if got := text(t, p, "#out"); got != "false" {
		t.Errorf("page got %q", got)
	}
}

// A page that leaves an option chosen after a No is told of it again.
func TestDialogOfAChoiceThatStays(t *testing.T) {
	p := show(t, asker)
	choice := action.SelectParams{Selector: "#list", Value: "2"}
	if _, _, e := answering(t, p, action.Select, choice); e == nil || e.Code != pipe.CodeNeedConfirm {
		t.Fatalf("got %v", e)
	}
	if asked, _, e := answering(t, p, action.Select, choice, true); e != nil || len(asked) != 1 {
		t.Errorf("asked %q, %v", asked, e)
	}
	if asked, _, e := answering(t, p, action.Select, choice); e != nil || len(asked) != 0 {
		t.Errorf("chosen once more: asked %q, %v", asked, e)
	}
	if got := text(t, p, "#out"); got != "-chosen" {
		t.Errorf("page says %q", got)
	}
}
