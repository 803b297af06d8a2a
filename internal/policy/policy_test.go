package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/pipe"
)

func mustParse(t testing.TB, in string) *Rules {
	t.Helper()
	r, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func example(t testing.TB) *Rules {
	t.Helper()
	r, err := Load(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The codes are the pipe's, which this package must not import.
func TestCodes(t *testing.T) {
	for code, want := range map[string]pipe.Code{
		CodeActionBlocked:    pipe.CodeActionBlocked,
		CodeActionNotAllowed: pipe.CodeActionNotAllowed,
		CodeDomainNotAllowed: pipe.CodeDomainNotAllowed,
		CodeDomainMismatch:   pipe.CodeDomainMismatch,
		CodeStorageKey:       pipe.CodeStorageKey,
		CodeRateLimit:        pipe.CodeRateLimit,
		CodeNeedConfirm:      pipe.CodeNeedConfirm,
	} {
		if code != string(want) {
			t.Errorf("%s, pipe has %s", code, want)
		}
	}
}

func TestAllowDomain(t *testing.T) {
	r := mustParse(t, wrap(`"domains": {"allowed": ["OA.example.com", "*.corp.example.com", "办公.中国", "127.0.0.1", "[::1]"]}`))
	for host, want := range map[string]bool{
		"oa.example.com":          true,
		"x.oa.example.com":        false,
		"example.com":             false,
		"oa.example.com.evil.com": false,
		"xoa.example.com":         false,
		"a.corp.example.com":      true,
		"a.b.corp.example.com":    true,
		"corp.example.com":        false,
		"xcorp.example.com":       false,
		"xn--wnr9bw8d.xn--fiqs8s": false,
		"127.0.0.1":               true,
		"127.0.0.2":               false,
		"::1":                     true,
		"":                        false,
		".":                       false,
		"OA.example.com":          false, // not in the form of action.Host
	} {
		if got := r.AllowDomain(host); got != want {
			t.Errorf("AllowDomain(%q) = %v, want %v", host, got, want)
		}
	}
	if got := r.Domains(); len(got) != 5 || !strings.HasPrefix(got[4], "xn--") || !r.AllowDomain(got[4]) {
		t.Errorf("domains %q", got)
	}
}

func TestNothingButWhatIsNamed(t *testing.T) {
	var none Rules
	e := New(nil, nil)
	for _, name := range []string{"click", "eval", ""} {
		if v := e.Check(Request{Action: name, Domain: "oa.example.com"}); v.Decision != Deny {
			t.Errorf("an engine without rules: %s of %q", v.Decision, name)
		}
		if v := none.CheckPage(name, "", ""); v.Decision != Deny {
			t.Errorf("zero rules: %s of %q", v.Decision, name)
		}
	}
	if none.AllowURL("http://oa.example.com/") == nil {
		t.Error("zero rules allow a URL")
	}
	if (Verdict{}).Decision != Deny {
		t.Error("the zero verdict is no denial")
	}
}

// Check(action, expected_domain, current_page_domain) of seed 001 §3.3.
func TestCheckPage(t *testing.T) {
	r := example(t)
	tests := []struct {
		name                      string
		action, expected, current string
		want                      Decision
		code, message             string
	}{
		{"1 blocked", "eval", "oa.example.com", "oa.example.com", Deny, CodeActionBlocked, "Action is blocked: eval"},
		{"1 before all else", "eval", "evil.example.com", "x", Deny, CodeActionBlocked, "Action is blocked: eval"},
		{"2 not in the whitelist", "drag", "evil.example.com", "x", Deny, CodeActionNotAllowed, "Action not in pipe whitelist: drag"},
		{"3 domain", "click", "evil.example.com", "x", Deny, CodeDomainNotAllowed, "Domain not in whitelist: evil.example.com"},
		{"3 no domain", "click", "", "", Deny, CodeDomainNotAllowed, "Domain not in whitelist: "},
		{"4 mismatch", "click", "oa.example.com", "erp.example.com", Deny, CodeDomainMismatch, "Domain mismatch: expected oa.example.com but current is erp.example.com"},
		{"4 before confirm", "sessionLogin", "oa.example.com", "", Deny, CodeDomainMismatch, "Domain mismatch: expected oa.example.com but current is "},
		{"5 confirm", "sessionLogin", "oa.example.com", "oa.example.com", NeedConfirm, CodeNeedConfirm, "Action needs a person's confirmation: sessionLogin"},
		{"6 allow", "click", "oa.example.com", "oa.example.com", Allow, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := r.CheckPage(tt.action, tt.expected, tt.current)
			got := []string{v.Decision.String(), v.Code, v.Message}
			if diff := cmp.Diff([]string{tt.want.String(), tt.code, tt.message}, got); diff != "" {
				t.Error(diff)
			}
			var denied *DeniedError
			if err := v.Err(); (err == nil) != (tt.want == Allow) || err != nil && (!errors.As(err, &denied) || denied.Code != tt.code) {
				t.Errorf("Err() = %v", err)
			}
		})
	}
	v := r.CheckPage("sessionLogin", "oa.example.com", "oa.example.com")
	if got, want := v.Prompt.In("zh"), "操作需要用户确认: sessionLogin"; got != want {
		t.Errorf("prompt %q, want %q", got, want)
	}
	if got := v.Prompt.In("en"); !strings.Contains(got, "sessionLogin") || got == v.Prompt.ZH {
		t.Errorf("English prompt %q", got)
	}
}

func TestAllowURL(t *testing.T) {
	r := mustParse(t, wrap(`"domains": {"allowed": ["oa.example.com", "127.0.0.1", "bücher.example"]}`))
	for raw, want := range map[string]bool{
		"http://oa.example.com":                true,
		"https://oa.example.com:8443/a?b#c":    true,
		"HTTPS://OA.Example.com./":             true,
		"http://127.0.0.1:8080/leave":          true,
		"http://bücher.example/":               true,
		"http://xn--bcher-kva.example/":        true,
		"http://evil.example.com/":             false,
		"http://oa.example.com.evil.com/":      false,
		"http://oa.example.com@evil.com/":      false,
		"http://evil.com@oa.example.com/":      false,
		"http://evil.com\\@oa.example.com/":    false,
		"http://oa.example.com\\.evil.com/":    false,
		"http:\\\\oa.example.com\\":            false,
		"http:/oa.example.com/":                false,
		"//oa.example.com/":                    false,
		"oa.example.com":                       false,
		"/leave":                               false,
		"ftp://oa.example.com/":                false,
		"file:///etc/passwd":                   false,
		"javascript:alert(1)":                  false,
		"data:text/html,x":                     false,
		"blob:http://oa.example.com/1":         false,
		"about:blank":                          false,
		"view-source:http://oa.example.com/":   false,
		"chrome://settings":                    false,
		"http://2130706433/":                   false,
		"http://0x7f.1/":                       false,
		"http://[::ffff:127.0.0.1]/":           false,
		"http://oa.example.com%2eevil.com/":    false,
		"http://oa.example.com\t.evil.com/":    false,
		"http://oa.example.com\n/":             false,
		"http://oa.example.com:99999999/x\x00": false,
		"http://":                              false,
		"":                                     false,
	} {
		err := r.AllowURL(raw)
		if (err == nil) != want {
			t.Errorf("AllowURL(%q) = %v, want allowed %v", raw, err, want)
		}
		var denied *DeniedError
		if err != nil && (!errors.As(err, &denied) || denied.Code != CodeDomainNotAllowed) {
			t.Errorf("AllowURL(%q): %v", raw, err)
		}
	}
}

func TestConfirmWhen(t *testing.T) {
	r := mustParse(t, wrap(`"confirm_when": [
		{"id": "decisions", "actions": ["click"], "role": ["button", "Link"], "name": "批准|通过|驳回|提交|支付|删除|Approve|Reject|Submit|Pay|Delete"},
		{"id": "big", "actions": ["type"], "text": "^[0-9]{6,}$", "prompt": {"zh": "金额较大", "en": "A large amount"}},
		{"id": "pay", "link": "/pay/|/付款/", "prompt": {"zh": "付款链接"}},
		{"id": "admin", "domains": ["*.corp.example.com"], "url": "/admin/"},
		{"id": "form", "domains": ["oa.example.com"], "form_submit": true}
	]`))
	button := func(name string) Element {
		return Element{Action: "click", Domain: "oa.example.com", URL: "http://oa.example.com/leave", Role: "button", Name: name}
	}
	with := func(e Element, change func(*Element)) Element { change(&e); return e }
	tests := []struct {
		name string
		e    Element
		want string
	}{
		{"a decision", button("批准"), "decisions"},
		{"within a longer name", button("全部批准 (3)"), "decisions"},
		{"case", button("APPROVE ALL"), "decisions"},
		{"a space between, as Ant Design writes it", button("批 准"), "decisions"},
		{"a no-break space", button("批\u00a0准"), "decisions"},
		{"a zero-width space", button("批\u200b准"), "decisions"},
		{"a soft hyphen", button("Ap\u00adprove"), "decisions"},
		{"full-width letters", button("Ａｐｐｒｏｖｅ"), "decisions"},
		{"another name", button("查看"), ""},
		{"no name", button(""), ""},
		{"role in other case", with(button("批准"), func(e *Element) { e.Role = "LINK" }), "decisions"},
		{"another role", with(button("批准"), func(e *Element) { e.Role = "heading" }), ""},
		{"another action", with(button("批准"), func(e *Element) { e.Action = "getText" }), ""},
		{"typed text", Element{Action: "type", Domain: "oa.example.com", Role: "textbox", Name: "金额", Text: "250000"}, "big"},
		{"a smaller one", Element{Action: "type", Domain: "oa.example.com", Role: "textbox", Name: "金额", Text: "2500"}, ""},
		{"a link", with(button("查看"), func(e *Element) { e.LinkURL = "http://oa.example.com/pay/7" }), "pay"},
		{"an encoded link", with(button("查看"), func(e *Element) { e.LinkURL = "http://oa.example.com/%E4%BB%98%E6%AC%BE/7" }), "pay"},
		{"a page of a wildcard", with(button("x"), func(e *Element) { e.Domain, e.URL = "a.corp.example.com", "http://a.corp.example.com/admin/" }), "admin"},
		{"another page there", with(button("x"), func(e *Element) { e.Domain, e.URL = "a.corp.example.com", "http://a.corp.example.com/" }), ""},
		{"a form", with(button("下一步"), func(e *Element) { e.FormSubmit = true }), "form"},
		{"a form elsewhere", with(button("下一步"), func(e *Element) { e.FormSubmit, e.Domain = true, "erp.example.com" }), ""},
		{"the first rule wins", with(button("提交"), func(e *Element) { e.FormSubmit = true }), "decisions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rule, prompt, ask := r.ConfirmWhen(tt.e)
			if rule != tt.want || ask != (tt.want != "") || ask == (prompt == Prompt{}) {
				t.Errorf("got rule %q, ask %v, prompt %+v; want rule %q", rule, ask, prompt, tt.want)
			}
		})
	}
	_, prompt, _ := r.ConfirmWhen(button("批准"))
	want := Prompt{ZH: "操作需要用户确认: 点击元素 “批准” (oa.example.com)", EN: "The action needs your confirmation: click “批准” (oa.example.com)"}
	if prompt != want {
		t.Errorf("prompt %+v, want %+v", prompt, want)
	}
	if _, p, _ := r.ConfirmWhen(tests[15].e); p.In("en") != "付款链接" {
		t.Errorf("a prompt in one language: %+v", p)
	}
}

// The example asks for the decisions that people care about.
func TestExampleConfirms(t *testing.T) {
	r := example(t)
	for _, name := range []string{"批准", "通过", "驳回", "提交", "支付", "删除", "Approve", "Reject", "Submit", "Pay", "Delete"} {
		for _, role := range []string{"button", "link"} {
			if _, _, ask := r.ConfirmWhen(Element{Action: "click", Domain: "oa.example.com", Role: role, Name: name}); !ask {
				t.Errorf("does not ask before the %s %s is clicked", role, name)
			}
		}
	}
	if rule, _, ask := r.ConfirmWhen(Element{Action: "click", Domain: "oa.example.com", Role: "button", Name: "查询"}); ask {
		t.Errorf("asks before a query by rule %s", rule)
	}
}
