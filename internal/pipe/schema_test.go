package pipe

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
)

var update = flag.Bool("update", false, "write docs/schema anew")

const schemaDir = "../../docs/schema"

// types are all messages, by type.
var types = map[Type]reflect.Type{
	TypeInit:            reflect.TypeFor[Init](),
	TypeInitAck:         reflect.TypeFor[InitAck](),
	TypeCommand:         reflect.TypeFor[Command](),
	TypeCancel:          reflect.TypeFor[Cancel](),
	TypeResponse:        reflect.TypeFor[Response](),
	TypeConfirmPending:  reflect.TypeFor[ConfirmPending](),
	TypeSubmitTask:      reflect.TypeFor[SubmitTask](),
	TypeAbortTask:       reflect.TypeFor[AbortTask](),
	TypeConfirm:         reflect.TypeFor[Confirm](),
	TypeShutdown:        reflect.TypeFor[Shutdown](),
	TypeTaskAccepted:    reflect.TypeFor[TaskAccepted](),
	TypeLog:             reflect.TypeFor[Log](),
	TypeState:           reflect.TypeFor[State](),
	TypeConfirmRequired: reflect.TypeFor[ConfirmRequired](),
	TypeTaskComplete:    reflect.TypeFor[TaskComplete](),
	TypeError:           reflect.TypeFor[ErrorMessage](),
}

func compile(t *testing.T) map[Type]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schemas := map[Type]*jsonschema.Schema{}
	for name := range types {
		s, err := c.Compile(filepath.Join(schemaDir, string(name)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		schemas[name] = s
	}
	return schemas
}

func validate(t *testing.T, s *jsonschema.Schema, line []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(line)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestSchemas holds the published schemas against the Go types: the same
// members, of the same types, all the way down.
func TestSchemas(t *testing.T) {
	for name, typ := range types {
		raw, err := os.ReadFile(filepath.Join(schemaDir, string(name)+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var s schemaNode
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		compare(t, string(name), &s, &s, typ)
		if s.Properties["type"].Const != string(name) {
			t.Errorf("%s: type is %q", name, s.Properties["type"].Const)
		}
		if !name.FromAgent() && !name.FromBrowser() {
			t.Errorf("%s comes from nowhere", name)
		}
	}
	for _, a := range action.All() {
		path := filepath.Join(schemaDir, "actions", a.Name+".json")
		if *update {
			if err := os.WriteFile(path, a.Schema, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		published, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(published) != string(a.Schema) {
			t.Errorf("%s is not what package action has; run go generate", path)
		}
	}
}

type schemaNode struct {
	Type            string                 `json:"type"`
	Const           string                 `json:"const"`
	Ref             string                 `json:"$ref"`
	ContentEncoding string                 `json:"contentEncoding"`
	Properties      map[string]*schemaNode `json:"properties"`
	Items           *schemaNode            `json:"items"`
	Definitions     map[string]*schemaNode `json:"definitions"`
}

func compare(t *testing.T, path string, root, s *schemaNode, typ reflect.Type) {
	t.Helper()
	if s.Ref != "" {
		return // a node of the snapshot, compared where it is first met
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	var want string
	switch {
	case typ == reflect.TypeFor[json.RawMessage]():
		want = "object"
	case typ == reflect.TypeFor[time.Time](), typ == reflect.TypeFor[[]byte]():
		want = "string"
	case typ.Kind() == reflect.Struct:
		want = "object"
		members := fields(typ)
		got, expected := keys(s.Properties), keys(members)
		if d := cmp.Diff(expected, got); d != "" {
			t.Errorf("%s: members (-go +schema):\n%s", path, d)
			return
		}
		for name, f := range members {
			compare(t, path+"."+name, root, s.Properties[name], f)
		}
	case typ.Kind() == reflect.Slice, typ.Kind() == reflect.Array:
		want = "array"
		if typ == reflect.TypeFor[[]AOMNode]() && root.Definitions["node"] != nil && path == "response.aom_snapshot" {
			compare(t, path+"[]", root, root.Definitions["node"], typ.Elem())
		} else {
			compare(t, path+"[]", root, s.Items, typ.Elem())
		}
	case typ.Kind() == reflect.String:
		want = "string"
	case typ.Kind() == reflect.Bool:
		want = "boolean"
	case typ.Kind() == reflect.Float64:
		want = "number"
	default:
		want = "integer"
	}
	if s.Type != want && s.Const == "" {
		t.Errorf("%s: schema says %q, Go %q", path, s.Type, want)
	}
}

// fields returns a struct's members as JSON names them.
func fields(typ reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			for k, v := range fields(f.Type) {
				out[k] = v
			}
			continue
		}
		out[name] = f.Type
	}
	return out
}

func keys[V any](m map[string]V) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// full returns each message with every member set, and once more with the
// required ones alone.
func full() []any {
	at := time.Date(2026, 3, 3, 10, 23, 1, 0, time.UTC)
	digest := strings.Repeat("ab", 32)
	page := &agent.Page{ID: "z1", URL: "https://oa.example.com/", Domain: "oa.example.com", Title: "待办"}
	ask := ConfirmAsk{
		Subject: agent.Subject{Role: "button", Name: "批准", Context: "张三 请假", URL: page.URL, Domain: page.Domain, Rule: "approve", Picture: "p"},
		Image:   []byte{1, 2, 3}, Digest: digest,
	}
	found := true
	return []any{
		&Init{TypeInit, Version, goodSeed, []string{CapPageID}, "desk-1", page},
		&Init{Type: TypeInit, Version: Version, HMACSeed: goodSeed},
		&InitAck{TypeInitAck, Version, "5f9c9f0e-6c5f-4c1e-9a1d-0d1f5b8f7a11", action.Names(), "desk-1"},
		&Command{
			Seq: 1, Type: TypeCommand, Action: action.Click, Params: json.RawMessage(`{"selector":"#a"}`), PageID: "z1", SnapshotAfter: true,
			Security: Security{ExpectedDomain: "oa.example.com", Grant: &agent.Grant{ID: "c1", By: "张三", At: at, Digest: digest}, HMAC: digest},
		},
		&Cancel{TypeCancel, 1},
		&Response{
			Seq: 1, Type: TypeResponse, Success: true,
			Data: &Data{
				Page: page, Text: "t", HTML: "h", Snapshot: "s", Tokens: 1, Image: []byte{1}, MIME: "image/jpeg", Width: 1, Height: 2, Scale: 0.5,
				PageID: "z1", Value: "v", Matched: 1, Found: &found, Truncated: true, Rest: "r",
				Events: []PageEvent{{"dialog", "x"}}, Confirm: &ask, RetryAfterMS: 5,
			},
			Error:       &Error{CodeInternal, "x"},
			AOMSnapshot: []AOMNode{{Role: "list", Name: "", Children: []AOMNode{{Role: "button", Name: "b", Value: "v", Ref: "e1", States: []string{"disabled"}}}}},
			Timing:      &Timing{1, 2},
		},
		&Response{Seq: 1, Type: TypeResponse, Success: true},
		&Response{Seq: 1, Type: TypeResponse, Error: Errorf(CodeInternal, "x")},
		&ConfirmPending{TypeConfirmPending, 1, ask},
		&SubmitTask{TypeSubmitTask, "t-1", "导出报表", "main", "zh"},
		&SubmitTask{Type: TypeSubmitTask, TaskID: "t-1", Instruction: "x"},
		&AbortTask{TypeAbortTask, "t-1", "why"},
		&Confirm{TypeConfirm, "c1", true, "张三", "ok", agent.ScopeRun},
		&Confirm{Type: TypeConfirm, ActionID: "c1"},
		&Shutdown{TypeShutdown},
		&TaskAccepted{TypeTaskAccepted, "t-1", "r1"},
		&Log{TypeLog, "t-1", at, "info", "x"},
		&State{TypeState, StateOffline, "x", "t-1", "queued"},
		&State{Type: TypeState, State: StateRunning},
		&ConfirmRequired{TypeConfirmRequired, "t-1", "c1", "click", "oa.example.com", ask.Subject, []byte{1}},
		&TaskComplete{TypeTaskComplete, "t-1", "r1", false, "failed", agent.ReasonMaxSteps, "x"},
		&ErrorMessage{TypeError, 3, CodeInvalidJSON, "x"},
		&ErrorMessage{Type: TypeError, Code: CodeInvalidJSON, Message: "x"},
	}
}

func TestRoundTrip(t *testing.T) {
	schemas := compile(t)
	seen := map[Type]bool{}
	for _, m := range full() {
		line, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		typ, _ := Peek(line)
		seen[typ] = true
		if err := validate(t, schemas[typ], line); err != nil {
			t.Errorf("%s\n%v", line, err)
		}
		got, bad := Decode(line)
		if bad != nil {
			t.Errorf("%s: %v", line, bad)
			continue
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Errorf("%s (-sent +received):\n%s", typ, d)
		}
	}
	if len(seen) != len(types) {
		t.Errorf("%d of %d types seen", len(seen), len(types))
	}
}
