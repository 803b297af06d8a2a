package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sgclaw/internal/locale"
)

func doc(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/starter.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDocumentationNamesEverything(t *testing.T) {
	text := doc(t)
	for _, k := range kinds() {
		if !strings.Contains(text, "`"+k.code+"`") {
			t.Errorf("docs/starter.md does not name the code %q", k.code)
		}
	}
	a := newApp(nil, nil, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	for _, c := range a.root().Commands() {
		if c.IsAdditionalHelpTopicCommand() || c.Name() == "help" {
			continue
		}
		if !strings.Contains(text, "| `"+c.Name()) {
			t.Errorf("docs/starter.md does not have the command %q", c.Name())
		}
	}
	for _, line := range []any{
		startedLine{}, eventLine{}, resultLine{}, runLine{}, decidedLine{}, sentLine{}, rewoundLine{}, browserLine{},
		breakerLine{}, sessionLine{}, itemLine{}, exportedLine{}, importedLine{}, tokenLine{}, auditLine{}, migrationLine{}, checkLine{}, errorLine{}, versionLine{},
	} {
		typ := reflect.TypeOf(line)
		name := strings.TrimSuffix(typ.Name(), "Line")
		if !strings.Contains(text, "\n`"+name+"`") || !strings.Contains(text, `{"type":"`+name+`"`) {
			t.Errorf("docs/starter.md does not describe the value %q", name)
		}
	}
	for _, s := range statuses() {
		if !strings.Contains(text, "`"+string(s)+"`") {
			t.Errorf("docs/starter.md does not name the state %q", s)
		}
	}
}

// Every text that the program asks for exists; a key that does not is shown
// as it is.
func TestTextsExist(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, k := range kinds() {
		switch k.code {
		case "usage", "detached":
		default:
			keys = append(keys, "err_"+k.code)
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, textsIn(f)...)
	}
	if len(keys) < 100 {
		t.Fatalf("found %d texts only", len(keys))
	}
	for _, key := range keys {
		k := locale.Key("starter." + key)
		if locale.Text(locale.EN, k) == string(k) {
			t.Errorf("no text %q", key)
		}
	}
}

// textsIn finds the calls of t, note and warn with a literal key.
func textsIn(f *ast.File) []string {
	var keys []string
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "t" && sel.Sel.Name != "note" && sel.Sel.Name != "warn" && sel.Sel.Name != "count" {
			return true
		}
		if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			key := strings.Trim(lit.Value, `"`)
			keys = append(keys, key)
			if sel.Sel.Name == "count" {
				keys = append(keys, key+"_1")
			}
		}
		return true
	})
	return keys
}
