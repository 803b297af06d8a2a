package action

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestCatalogue(t *testing.T) {
	files, err := filepath.Glob("schema/*.json")
	if err != nil {
		t.Fatal(err)
	}
	all := All()
	if len(all) != 17 || len(files) != len(all) {
		t.Fatalf("%d actions, %d schema files, want 17 of each", len(all), len(files))
	}
	var reads []string
	for _, s := range all {
		if got, ok := Lookup(s.Name); !ok || got.Name != s.Name {
			t.Errorf("Lookup(%q) = %v, %v", s.Name, got.Name, ok)
		}
		if s.Description == "" || s.DescriptionZH == "" || len(s.Schema) == 0 {
			t.Errorf("%s: incomplete", s.Name)
		}
		if !s.Effect {
			reads = append(reads, s.Name)
		}
		var schema struct {
			Title      string                     `json:"title"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(s.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if schema.Title != s.Name {
			t.Errorf("%s: schema is titled %q", s.Name, schema.Title)
		}
		_, selector := schema.Properties["selector"]
		_, root := schema.Properties["root_selector"]
		if s.Selector != (selector || root) {
			t.Errorf("%s: Selector = %v", s.Name, s.Selector)
		}
		if _, url := schema.Properties["url"]; s.URL != url {
			t.Errorf("%s: URL = %v", s.Name, s.URL)
		}
	}
	want := []string{Navigate, GetText, GetHTML, WaitForSelector, PageScreenshot, ScrollTo, GetAOMSnapshot, StorageGet}
	if d := cmp.Diff(want, reads); d != "" {
		t.Errorf("reads (-want +got):\n%s", d)
	}
	if _, ok := Lookup("eval"); ok {
		t.Error("eval is an action")
	}
}

// TestSeed holds the schemas against those of seed 001 §5.2, which
// testdata/seed.json quotes without descriptions: whatever the seed says is
// still there.
func TestSeed(t *testing.T) {
	raw, err := os.ReadFile("testdata/seed.json")
	if err != nil {
		t.Fatal(err)
	}
	var seed map[string]map[string]any
	if err := json.Unmarshal(raw, &seed); err != nil {
		t.Fatal(err)
	}
	if len(seed) != 14 {
		t.Fatalf("%d actions in the seed", len(seed))
	}
	for name, want := range seed {
		s, ok := Lookup(name)
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(s.Schema, &got); err != nil {
			t.Fatal(err)
		}
		contains(t, name, got, want)
	}
}

func contains(t *testing.T, path string, got, want any) {
	t.Helper()
	wantMap, ok := want.(map[string]any)
	if !ok {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-seed +ours):\n%s", path, d)
		}
		return
	}
	gotMap, ok := got.(map[string]any)
	if !ok {
		t.Errorf("%s is not an object", path)
		return
	}
	for k, w := range wantMap {
		contains(t, path+"."+k, gotMap[k], w)
	}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("长", 10001)
	for _, tt := range []struct {
		name, params string
		want         string // canonical parameters
		field, fault string // of the error
	}{
		{name: Click, params: `{"selector":"#a"}`, want: `{"selector":"#a"}`},
		{name: Click, params: `{"wait_after":1e3, "selector":"#a>b"}`, want: `{"selector":"#a>b","wait_after":1000}`},
		{name: Click, params: `{"wait_after":0,"selector":"[ref=e1]"}`, want: `{"selector":"[ref=e1]","wait_after":0}`},
		{name: Click, params: `{"selector":"#a","wait_after":null}`, want: `{"selector":"#a"}`},
		{name: Click, params: `{}`, field: "selector", fault: "selector: is required"},
		{name: Click, params: ``, field: "selector", fault: "selector: is required"},
		{name: Click, params: `null`, field: "selector", fault: "selector: is required"},
		{name: Click, params: `{"selector":""}`, field: "selector", fault: "selector: must not be empty"},
		{name: Click, params: `{"selector":"a","wait_after":30001}`, field: "wait_after", fault: "wait_after: must be at most 30000, is 30001"},
		{name: Click, params: `{"selector":"a","wait_after":-1}`, field: "wait_after", fault: "wait_after: must be at least 0, is -1"},
		{name: Click, params: `{"selector":"a","wait_after":0.5}`, field: "wait_after", fault: "wait_after: must be of type integer, not number"},
		{name: Click, params: `{"selector":"a","wait_after":1e300}`, field: "wait_after", fault: "wait_after: must be at most 30000, is 1e+300"},
		{name: Click, params: `{"selector":"a","wait_after":1e-999999999}`, want: `{"selector":"a","wait_after":0}`},
		{name: Click, params: `{"selector":1,"why":2,"wait_after":"x"}`, field: "selector", fault: "selector: must be of type string, not number; wait_after: must be of type integer, not string; why: there is no such parameter"},
		{name: Click, params: `{"selector":"a","selector":"b"}`, fault: "parameters are not JSON: no canonical form: Duplicate key: \"selector\""},
		{name: Click, params: `{"selector":"\ud800"}`, fault: "no canonical form"},
		{name: Click, params: `{"selector":`, fault: "not valid JSON"},
		{name: Click, params: `[]`, fault: "must be of type object, not array"},
		{name: Click, params: `{"selector":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, fault: "nested more than 32 deep"},
		{name: Type, params: `{"selector":"a","text":"张三 \u20ac <b>"}`, want: `{"clear_first":true,"selector":"a","text":"张三 € <b>"}`},
		{name: Type, params: `{"selector":"a","text":"","clear_first":false}`, want: `{"clear_first":false,"selector":"a","text":""}`},
		{name: Type, params: `{"selector":"a","text":"` + long + `"}`, field: "text", fault: "text: must have at most 10000 characters, has 10001"},
		{name: Type, params: `{"selector":"a","text":"` + long[3:] + `"}`, want: `{"clear_first":true,"selector":"a","text":"` + long[3:] + `"}`},
		{name: Navigate, params: `{"url":"https://oa.example.com/a?b=c"}`, want: `{"url":"https://oa.example.com/a?b=c"}`},
		{name: Navigate, params: `{"url":"oa.example.com"}`, field: "url", fault: "url: must be an absolute URI, e.g. https://oa.example.com/"},
		{name: Navigate, params: `{"url":"file:///etc/passwd"}`, field: "url", fault: `url: only http and https URLs can be opened, not "file:///etc/passwd"`},
		{name: Navigate, params: `{"url":"javascript:alert(1)"}`, field: "url", fault: "url: only http and https"},
		{name: Navigate, params: `{"url":"http://a:b@oa.example.com/"}`, field: "url", fault: "url: a URL must not carry"},
		{name: GetText, params: `{"selector":"a"}`, want: `{"selector":"a"}`},
		{name: GetHTML, params: `{"selector":"a"}`, want: `{"outer":false,"selector":"a"}`},
		{name: WaitForSelector, params: `{"selector":"a"}`, want: `{"selector":"a","timeout_ms":5000}`},
		{name: WaitForSelector, params: `{"selector":"a","timeout_ms":99}`, field: "timeout_ms", fault: "timeout_ms: must be at least 100, is 99"},
		{name: PageScreenshot, params: `{}`, want: `{"full_page":false}`},
		{name: PageScreenshot, params: `{"full_page":"yes"}`, field: "full_page", fault: "full_page: must be of type boolean, not string"},
		{name: Select, params: `{"selector":"a","value":""}`, want: `{"selector":"a","value":""}`},
		{name: ScrollTo, params: `{}`, want: `{}`},
		{name: ScrollTo, params: `{"x":0,"y":-3.0,"selector":""}`, want: `{"x":0,"y":-3}`},
		{name: ScrollTo, params: `{"y":1e10}`, field: "y", fault: "y: must be at most 2147483647, is 10000000000"},
		{name: GetAOMSnapshot, params: `{}`, want: `{"format":"text","max_tokens":4000}`},
		{name: GetAOMSnapshot, params: `{"format":"xml"}`, field: "format", fault: `format: must be "text" or "tree"`},
		{name: StorageSet, params: `{"key":"sgclaw.a","value":"1"}`, want: `{"key":"sgclaw.a","value":"1"}`},
		{name: StorageGet, params: `{"key":"token"}`, field: "key", fault: `key: must match ^sgclaw\., is "token"`},
		{name: ZombieSpawn, params: `{"url":"http://127.0.0.1:8080/"}`, want: `{"url":"http://127.0.0.1:8080/"}`},
		{name: ZombieKill, params: `{"page_id":"z1"}`, want: `{"page_id":"z1"}`},
		{name: SessionLogin, params: `{"domain":"OA.Example.com."}`, want: `{"domain":"oa.example.com"}`},
		{name: SessionLogin, params: `{"domain":"oa.example.com","password":"x"}`, field: "password", fault: "password: there is no such parameter"},
		{name: ClearStorage, params: `{"domain":"http://oa.example.com"}`, field: "domain", fault: "domain: "},
		{name: "eval", params: `{}`, fault: "no such action"},
	} {
		got, err := Parse(tt.name, json.RawMessage(tt.params))
		label := tt.name + " " + clip(tt.params)
		if tt.fault == "" {
			if err != nil {
				t.Errorf("%s: %v", label, err)
			} else if string(got) != tt.want {
				t.Errorf("%s: got %s, want %s", label, got, tt.want)
			}
			if again, err := Parse(tt.name, got); err != nil || string(again) != string(got) {
				t.Errorf("%s: parsed again: %s, %v", label, again, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %s, %v, want an error", label, got, err)
			continue
		}
		if e.Field != tt.field || !strings.Contains(e.Message, tt.fault) {
			t.Errorf("%s: fault in %q: %s\nwant in %q: %s", label, e.Field, e.Message, tt.field, tt.fault)
		}
	}
}

// TestDefaults holds the defaults of the Go types against the schemas'.
func TestDefaults(t *testing.T) {
	required := map[string]string{
		"selector": `"#a"`, "text": `""`, "value": `""`, "url": `"http://a/"`, "key": `"sgclaw.a"`, "page_id": `"z"`, "domain": `"a"`,
	}
	for _, s := range All() {
		var schema struct {
			Required   []string `json:"required"`
			Properties map[string]struct {
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(s.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		in := map[string]json.RawMessage{}
		for _, r := range schema.Required {
			in[r] = json.RawMessage(required[r])
		}
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Parse(s.Name, raw)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		for name, p := range schema.Properties {
			want := string(p.Default)
			if _, ok := in[name]; ok {
				want = string(in[name])
			}
			if s.Name == Click && name == "wait_after" {
				want = ""
			}
			if string(got[name]) != want {
				t.Errorf("%s.%s = %s, want %s", s.Name, name, got[name], want)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	click, err := Decode[ClickParams](json.RawMessage(`{"selector":"a"}`))
	if err != nil || click.WaitAfter != nil {
		t.Errorf("click: %+v, %v", click, err)
	}
	snap, err := Decode[GetAOMSnapshotParams](json.RawMessage(`{"max_tokens":100}`))
	if err != nil || snap != (GetAOMSnapshotParams{Format: FormatText, MaxTokens: 100}) {
		t.Errorf("snapshot: %+v, %v", snap, err)
	}
	if _, err := Decode[NavigateParams](json.RawMessage(`{"url":1}`)); err == nil {
		t.Error("a number passed for a URL")
	}
}

func TestHost(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"OA.Example.COM", "oa.example.com"},
		{"oa.example.com.", "oa.example.com"},
		{"办公.中国", "xn--55qx2a.xn--fiqs8s"},
		{"ＯＡ.example.com", "oa.example.com"},
		{"oa_test.corp", "oa_test.corp"},
		{"127.0.0.1", "127.0.0.1"},
		{"[::1]", "::1"},
		{"localhost", "localhost"},
		{"", ""}, {".", ""}, {"a b", ""}, {"a:80", ""}, {"http://a", ""}, {"a/b", ""}, {"a..b", ""},
		{"a／b", ""}, {"fe80::1%eth0", ""}, {strings.Repeat("a", 64) + ".com", ""},
	} {
		got, err := Host(tt.in)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("Host(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestTarget(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{Navigate, "https://OA.example.com:8443/x", "oa.example.com"},
		{Navigate, "HTTP://办公.中国/", "xn--55qx2a.xn--fiqs8s"},
		{ZombieSpawn, "http://[::1]:80/", "::1"},
		{Navigate, "https://oa.example.com./", "oa.example.com"},
		{Navigate, `https://oa.example.com\@evil.example/`, ""},
		{Navigate, "https://oa.example.com@evil.example/", ""},
		{Navigate, "https:oa.example.com", ""},
		{Navigate, "https:///oa.example.com", ""},
		{Navigate, "view-source:https://oa.example.com", ""},
		{Navigate, "//oa.example.com/", ""},
		{Navigate, "https://oa.example.com:x/", ""},
		{Navigate, "data:text/html,x", ""},
	} {
		params, err := json.Marshal(NavigateParams{URL: tt.url})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Target(tt.name, params)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("Target(%s, %q) = %q, %v, want %q", tt.name, tt.url, got, err, tt.want)
		}
	}
	if host, err := Target(Click, json.RawMessage(`{"selector":"a"}`)); host != "" || err != nil {
		t.Errorf("target of click: %q, %v", host, err)
	}
}

func TestToolSchema(t *testing.T) {
	raw, err := ToolSchema([]string{GetText, Click, "nonsense"})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("tool", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("tool")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		call string
		ok   bool
	}{
		{`{"action":"click","params":{"selector":"a"}}`, true},
		{`{"action":"click","params":{"selector":"a","wait_after":5},"page_id":"z1"}`, true},
		{`{"action":"click"}`, false},
		{`{"action":"navigate","params":{"url":"http://a"}}`, false},
		{`{"action":"getText","params":{"sel":"a"}}`, false},
	} {
		call, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.call))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(call); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.call, err)
		}
	}
	if strings.Index(string(raw), `"title":"click"`) > strings.Index(string(raw), `"title":"getText"`) {
		t.Error("not in the seed's order")
	}
	for _, bad := range []string{`"$schema"`, `"oneOf"`, "navigate"} {
		if strings.Contains(string(raw), bad) {
			t.Errorf("schema contains %s", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range All() {
		f.Add(s.Name, []byte(`{}`))
	}
	f.Add(Click, []byte(`{"selector":"#a","wait_after":1e3}`))
	f.Add(Navigate, []byte(`{"url":"http://办公.中国:80/?q=\u4e2d"}`))
	f.Add(ScrollTo, []byte(`{"x":-0,"y":1e21}`))
	f.Add(SessionLogin, []byte(`{"domain":"A.b."}`))
	f.Fuzz(func(t *testing.T, name string, params []byte) {
		got, err := Parse(name, params)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Message == "" {
				t.Fatalf("error %v is not an *Error that says something", err)
			}
			return
		}
		again, err := Parse(name, got)
		if err != nil || string(again) != string(got) {
			t.Fatalf("parsed again %s: %s, %v", got, again, err)
		}
		canonical, err := Canonical(got)
		if err != nil || string(canonical) != string(got) {
			t.Fatalf("%s is not canonical: %s, %v", got, canonical, err)
		}
		if _, err := Target(name, got); err != nil {
			t.Fatalf("target: %v", err)
		}
	})
}
