package pipe

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
)

func readDoc(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/pipe.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestDocExamples: each message has a section with an example, and all
// examples are good messages.
func TestDocExamples(t *testing.T) {
	doc := readDoc(t)
	schemas := compile(t)
	seen := map[Type]bool{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSpace(line)
			m, bad := Decode([]byte(line))
			if bad != nil {
				t.Errorf("%s: %v", line, bad)
				continue
			}
			typ, _ := Peek([]byte(line))
			seen[typ] = true
			if err := validate(t, schemas[typ], []byte(line)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			again, err := Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if d := lost(t, line, string(again)); d != "" {
				t.Errorf("%s: %s is no member we know", line, d)
			}
		}
	}
	for typ := range types {
		if !seen[typ] {
			t.Errorf("no example of %s", typ)
		}
		if !strings.Contains(doc, "\n#### "+string(typ)+"\n") {
			t.Errorf("no section on %s", typ)
		}
	}
}

// lost returns the name of a member of before that after lacks.
func lost(t *testing.T, before, after string) string {
	t.Helper()
	var b, a map[string]json.RawMessage
	if json.Unmarshal([]byte(before), &b) != nil || json.Unmarshal([]byte(after), &a) != nil {
		return ""
	}
	for name, v := range b {
		w, ok := a[name]
		if !ok {
			return name
		}
		if d := lost(t, string(v), string(w)); d != "" {
			return name + "." + d
		}
	}
	return ""
}

// TestDocMembers: each member of each message is in the doc.
func TestDocMembers(t *testing.T) {
	doc := readDoc(t)
	for name, typ := range types {
		for member := range fields(typ) {
			if !strings.Contains(doc, "`"+member) && !strings.Contains(doc, member+"`") {
				t.Errorf("%s.%s is not in the doc", name, member)
			}
		}
	}
	for member := range fields(types[TypeResponse].Field(3).Type.Elem()) {
		if !strings.Contains(doc, "`"+member+"`") {
			t.Errorf("response.data.%s is not in the doc", member)
		}
	}
	for _, a := range action.Names() {
		if !strings.Contains(doc, "| `"+a+"` |") {
			t.Errorf("action %s is not in the doc", a)
		}
	}
	for _, reason := range []string{
		agent.ReasonMaxSteps, agent.ReasonTaskTimeout, agent.ReasonRepeatedAction, agent.ReasonBreakerOpen, agent.ReasonAborted,
		agent.ReasonConfirmExpired, agent.ReasonModelFailed, agent.ReasonBrowserGone, agent.ReasonGaveUp, agent.ReasonInternal,
	} {
		if !strings.Contains(doc, reason) {
			t.Errorf("reason %s is not in the doc", reason)
		}
	}
}

// TestDocCodes: the doc's table of errors and the constants are the same.
func TestDocCodes(t *testing.T) {
	doc := readDoc(t)
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && regexp.MustCompile(`^[A-Z]+_[A-Z_]+$`).MatchString(s) {
				codes[s] = true
			}
		}
		return true
	})
	if len(codes) < 40 {
		t.Fatalf("%d codes found", len(codes))
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+_[A-Z_]+)`( ＋)? \\| \\S.* \\| \\S.* \\|$").FindAllStringSubmatch(doc, -1) {
		listed[row[1]] = true
		if !codes[row[1]] {
			t.Errorf("%s is in the doc, not in the code", row[1])
		}
	}
	for code := range codes {
		if !listed[code] {
			t.Errorf("%s is in the code, not in the doc", code)
		}
	}
}

// TestDocVectors: the doc shows vectors of vectors.json verbatim.
func TestDocVectors(t *testing.T) {
	doc := readDoc(t)
	raw, err := os.ReadFile(filepath.Join(schemaDir, "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	keys, commands, digests := 0, 0, 0
	for _, k := range v.Keys {
		if strings.Contains(doc, "| `"+k.Seed+"` | `"+k.Key+"` |") {
			keys++
		}
	}
	shown := regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(doc, -1)
	var text strings.Builder
	for _, block := range shown {
		text.WriteString("\n" + block[1])
	}
	for _, c := range v.Commands {
		if strings.Contains(text.String(), "\n"+c.Line+"\n") && strings.Contains(text.String(), "\n"+c.Canonical+"\n") {
			commands++
		}
	}
	for _, d := range v.Digests {
		if strings.Contains(doc, "`"+d.Digest+"` |") && strings.Contains(doc, "| `"+d.Params+"` |") {
			digests++
		}
	}
	if keys < 2 || commands < 5 || digests < 3 {
		t.Errorf("%d keys, %d commands, %d digests are shown", keys, commands, digests)
	}
	// Nothing that looks like a vector is out of date.
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		known := false
		for _, c := range v.Commands {
			known = known || line == c.Line || line == c.Canonical
		}
		if !known {
			t.Errorf("not in vectors.json: %s", line)
		}
	}
	const first = "`12:sessionLogin,27:{\"domain\":\"oa.example.com\"},0:,14:oa.example.com,0:,0:,0:,`"
	if !strings.Contains(doc, first) {
		t.Error("the worked digest is missing")
	}
}
