package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sgclaw/internal/action"
)

const exampleFile = "../../rules.example.json"

func TestLoadExample(t *testing.T) {
	r, err := Load(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"erp.example.com", "finance.example.com", "hr.example.com", "oa.example.com"}, r.Domains()); diff != "" {
		t.Error(diff)
	}
	for _, name := range action.Names() {
		if v := r.CheckPage(name, "oa.example.com", "oa.example.com"); v.Decision == Deny {
			t.Errorf("%s: %s", name, v.Message)
		}
	}
	if got, want := r.rateFor("finance.example.com"), (Rate{5, 60}); got != want {
		t.Errorf("rate of finance: %v, want %v", got, want)
	}
	if got, want := r.rateFor("oa.example.com"), (Rate{10, 30}); got != want {
		t.Errorf("rate of oa: %v, want %v", got, want)
	}
}

// wrap puts sections into an otherwise sound file of one line each.
func wrap(sections ...string) string {
	base := []string{
		`"version": "1.0"`,
		`"domains": {"allowed": ["oa.example.com", "*.corp.example.com"]}`,
		`"pipe_actions": {"allowed": ["click", "navigate"]}`,
	}
	for _, s := range sections {
		key, _, _ := strings.Cut(s, ":")
		if i := slices.IndexFunc(base, func(b string) bool { return strings.HasPrefix(b, key+":") }); i >= 0 {
			base[i] = s
		} else {
			base = append(base, s)
		}
	}
	return "{\n" + strings.Join(base, ",\n") + "\n}"
}

func TestParseFaults(t *testing.T) {
	long := strings.Repeat("a", maxPattern+1)
	tests := []struct {
		name string
		in   string
		want []string // each fault: "line path: part of the message"
	}{
		{"not JSON", "{\n\"version\": \"1.0\",,\n}", []string{"2 : not JSON"}},
		{"too early", "{\n\"version\": \"1.0\"", []string{"2 : ends too early"}},
		{"two documents", wrap() + "{}", []string{"5 : something follows"}},
		{"not an object", "[]", []string{"1 : must be an object, is an array"}},
		{"nothing", "{}", []string{`1 : key "version" is missing`, `1 : key "domains" is missing`, `1 : key "pipe_actions" is missing`}},
		{"version", wrap(`"version": "2.0"`), []string{`2 version: "2.0" is not known`}},
		{"unknown keys", wrap(`"domain": {}`, `"storage": {"prefix": "sgclaw."}`),
			[]string{`5 domain: unknown key; did you mean "domains"?`, "6 storage.prefix: unknown key"}},
		{"key twice", wrap()[:len(wrap())-2] + ",\n\"version\": \"1.0\"}", []string{"5 version: key stands here twice"}},
		{"domains", wrap(`"domains": {"allowed": ["https://oa.example.com", "oa.example.com:8080", "*", "*.com", "*.127.0.0.1", "a.*.com", "", 7, "ok.example.com", "ok.example.com"]}`),
			[]string{
				"3 domains.allowed[0]: not a host name", "3 domains.allowed[1]: not a host name",
				"3 domains.allowed[2]: a wildcard is", "3 domains.allowed[3]: public suffix", "3 domains.allowed[4]: address",
				"3 domains.allowed[5]: a wildcard is", "3 domains.allowed[6]: empty", "3 domains.allowed[7]: must be a string, is a number",
				"3 domains.allowed[9]: listed twice, first on line 3",
			}},
		{"actions", wrap(`"pipe_actions": {"allowed": ["clik", "type", "zombieKill"], "blocked": ["eval", "type"], "need_confirm": ["navigate", "frobnicateTheWorld"]}`),
			[]string{
				`4 pipe_actions.allowed[0]: unknown action "clik"; did you mean "click"?`,
				`4 pipe_actions.need_confirm[1]: unknown action "frobnicateTheWorld"`,
				`4 pipe_actions.allowed[1]: "type" is blocked too`,
			}},
		{"prefix", wrap(`"storage": {"key_prefix": "x."}`), []string{`5 storage.key_prefix: must begin with "sgclaw."`}},
		{"rates", wrap(`"rate_limits": {"default": {"max_per_second": 0, "cooldown_seconds": 1.5}, "overrides": {"other.example.com": {"max_per_second": 1}, "OA.example.com": {"max_per_second": 1, "cooldown_seconds": 0}}}`),
			[]string{
				"5 rate_limits.default.max_per_second: from 1 to 1000, is 0",
				"5 rate_limits.default.cooldown_seconds: from 0 to 86400, is 1.5",
				`5 rate_limits.overrides["other.example.com"]: key "cooldown_seconds" is missing`,
				`5 rate_limits.overrides["other.example.com"]: no such domain`,
			}},
		{"confirm_when", wrap(`"confirm_when": [
			{"id": "a", "name": "("},
			{"id": "a", "role": [], "url": "` + long + `"},
			{"id": "no condition", "prompt": {}},
			{"domains": ["elsewhere.example.com"], "actions": ["clck"], "form_submit": "yes", "nme": "x"}
		]`),
			[]string{
				"6 confirm_when[0].name: not a regular expression (RE2): error parsing regexp: missing closing ): `(`",
				"7 confirm_when[1].role: is empty",
				"7 confirm_when[1].url: 1 to 1000 bytes",
				`7 confirm_when[1]: id "a" is taken by the rule on line 6`,
				"8 confirm_when[2].id: must be 1 to 64 letters",
				"8 confirm_when[2]: has no condition",
				"8 confirm_when[2].prompt: needs zh, en or both",
				`9 confirm_when[3].nme: unknown key; did you mean "name"?`,
				`9 confirm_when[3]: key "id" is missing`,
				"9 confirm_when[3].domains: elsewhere.example.com is not in domains.allowed",
				`9 confirm_when[3].actions[0]: unknown action "clck"; did you mean "click"?`,
				"9 confirm_when[3].form_submit: must be a boolean, is a string",
			}},
		{"deep", strings.Repeat("[", 1000), []string{"1 : nested deeper"}},
		{"latin 1", "{\"\xe4\": 1}", []string{"0 : not UTF-8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.in))
			var faults *FaultsError
			if !errors.As(err, &faults) {
				t.Fatalf("got error %v, want faults", err)
			}
			var got []string
			for _, f := range faults.Faults {
				got = append(got, strings.TrimSpace(strings.Join([]string{strconv.Itoa(f.Line), f.Path}, " "))+": "+f.Message)
			}
			rest := slices.Clone(got)
			for _, w := range tt.want {
				at, msg, _ := strings.Cut(w, ": ")
				at = strings.TrimSpace(strings.TrimSuffix(at, " :"))
				i := slices.IndexFunc(rest, func(g string) bool {
					return strings.HasPrefix(g, at+": ") && strings.Contains(g, msg)
				})
				if i < 0 {
					t.Errorf("no fault %q in:\n%s", w, strings.Join(got, "\n"))
					continue
				}
				rest = slices.Delete(rest, i, i+1)
			}
			if len(rest) > 0 {
				t.Errorf("unexpected faults:\n%s", strings.Join(rest, "\n"))
			}
		})
	}
}

func TestFaultsErrorNamesFileAndLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, []byte(wrap(`"version": "9"`, `"oops": 1`)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	want := path + `:2: version: version "9" is not known; it must be "1.0"` + "\n" + path + ":5: oops: unknown key"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestParseAccepts(t *testing.T) {
	tests := []struct{ name, in string }{
		{"least", wrap()},
		{"byte order mark", "\xef\xbb\xbf" + wrap()},
		{"CRLF", strings.ReplaceAll(wrap(), "\n", "\r\n")},
		{"IDN and addresses", wrap(`"domains": {"allowed": ["办公.中国", "127.0.0.1", "::1", "intranet", "my_host.corp"]}`)},
		{"nothing allowed", wrap(`"domains": {"allowed": []}`)},
		{"narrow prefix", wrap(`"storage": {"key_prefix": "sgclaw.oa."}`)},
		{"wildcard override", wrap(`"rate_limits": {"overrides": {"*.corp.example.com": {"max_per_second": 1, "cooldown_seconds": 0}}}`)},
	}
	schema := rulesSchema(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.in)); err != nil {
				t.Error(err)
			}
			if err := validate(schema, []byte(tt.in)); err != nil {
				t.Errorf("schema: %v", err)
			}
		})
	}
}

func rulesSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("../../docs/schema/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(s *jsonschema.Schema, data []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func TestSchema(t *testing.T) {
	s := rulesSchema(t)
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(s, example); err != nil {
		t.Errorf("example: %v", err)
	}
	for _, bad := range []string{
		`{}`,
		wrap(`"version": "2.0"`),
		wrap(`"oops": 1`),
		wrap(`"domains": {"allowed": ["http://oa.example.com"]}`),
		wrap(`"domains": {"allowed": ["a", "a"]}`),
		wrap(`"pipe_actions": {"allowed": ["clik"]}`),
		wrap(`"storage": {"key_prefix": "x"}`),
		wrap(`"rate_limits": {"default": {"max_per_second": 0, "cooldown_seconds": 0}}`),
		wrap(`"rate_limits": {"default": {"max_per_second": 1}}`),
		wrap(`"confirm_when": [{"name": "x"}]`),
		wrap(`"confirm_when": [{"id": "x"}]`),
		wrap(`"confirm_when": [{"id": "x", "role": []}]`),
		wrap(`"confirm_when": [{"id": "x", "domains": []}]`),
		wrap(`"confirm_when": [{"id": "x", "form_submit": 1}]`),
		wrap(`"confirm_when": [{"id": "x", "name": "x", "prompt": {}}]`),
	} {
		if err := validate(s, []byte(bad)); err == nil {
			t.Errorf("schema accepts %s", bad)
		}
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse accepts %s", bad)
		}
	}
}

// The schema's list of actions is written out; it must be the catalogue's.
func TestSchemaNamesAllActions(t *testing.T) {
	data, err := os.ReadFile("../../docs/schema/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Definitions struct {
			Action struct {
				Enum []string `json:"enum"`
			} `json:"action"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(action.Names(), doc.Definitions.Action.Enum); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse looks for panics, and for files that Parse takes and the
// published schema does not.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	f.Add([]byte(wrap()))
	f.Add([]byte(wrap(`"confirm_when": [{"id": "a", "name": "x|y", "role": ["button"], "form_submit": true}]`)))
	schema := rulesSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			var faults *FaultsError
			if !errors.As(err, &faults) || len(faults.Faults) == 0 {
				t.Fatalf("error without faults: %v", err)
			}
			return
		}
		if err := validate(schema, data); err != nil {
			t.Fatalf("Parse accepts what the schema does not: %v", err)
		}
		for _, d := range r.Domains() {
			if host := strings.Replace(d, "*.", "a.", 1); !r.AllowDomain(host) {
				t.Fatalf("%q is listed and not allowed", host)
			}
		}
		r.ConfirmWhen(Element{Action: "click", Name: string(data), URL: "http://oa.example.com/", Role: "button"})
	})
}

func TestNativeDialogs(t *testing.T) {
	schema := rulesSchema(t)
	for text, want := range map[string]struct {
		asks  bool
		fault string
	}{
		`"storage": {}`:                            {asks: true},
		`"native_dialogs": {}`:                     {asks: true},
		`"native_dialogs": {"confirm": "ask"}`:     {asks: true},
		`"native_dialogs": {"confirm": "dismiss"}`: {},
		`"native_dialogs": {"confirm": "accept"}`:  {fault: `must be "ask" or "dismiss", is "accept"`},
		`"native_dialogs": {"confirm": true}`:      {fault: "must be a string"},
		`"native_dialogs": {"prompt": "ask"}`:      {fault: "unknown key"},
	} {
		file := []byte(wrap(text))
		r, err := Parse(file)
		if fails := validate(schema, file) != nil; fails != (want.fault != "") {
			t.Errorf("%s: the schema refuses it: %v", text, fails)
		}
		switch {
		case want.fault != "":
			if err == nil || !strings.Contains(err.Error(), want.fault) {
				t.Errorf("%s: %v, want %q", text, err, want.fault)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case r.AsksByDialog() != want.asks:
			t.Errorf("%s: asks %v", text, r.AsksByDialog())
		}
	}
}
