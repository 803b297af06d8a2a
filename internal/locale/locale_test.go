package locale

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
)

func all() map[Key]text {
	out := make(map[Key]text)
	for _, table := range []map[Key]text{catalogue, starter} {
		for k, t := range table {
			out[k] = t
		}
	}
	return out
}

var verb = regexp.MustCompile(`%(\[\d+\])?[-+# 0]*[\d*]*(\.[\d*]+)?[a-zA-Z%]`)

// verbs are the arguments that a text takes, by position.
func verbs(s string) []string {
	var out []string
	next := 1
	for _, v := range verb.FindAllStringSubmatch(s, -1) {
		if strings.HasSuffix(v[0], "%%") {
			continue
		}
		at := next
		if v[1] != "" {
			at, _ = strconv.Atoi(strings.Trim(v[1], "[]"))
		}
		next = at + 1
		// Whether a word is quoted may differ between languages.
		kind := strings.ReplaceAll(v[0][len(v[0])-1:], "q", "s")
		out = append(out, strconv.Itoa(at)+kind)
	}
	slices.Sort(out)
	return out
}

func TestEveryTextInBothLanguages(t *testing.T) {
	if len(all()) != len(catalogue)+len(starter) {
		t.Error("a key stands in two tables")
	}
	for key, tx := range all() {
		if tx.zh == "" || tx.en == "" {
			t.Errorf("%s: %+v", key, tx)
		}
		if diff := cmp.Diff(verbs(tx.zh), verbs(tx.en)); diff != "" {
			t.Errorf("%s takes different arguments:\n%s", key, diff)
		}
		if strings.ContainsFunc(tx.en, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s: Chinese in the English text %q", key, tx.en)
		}
	}
}

// Every Reason, Status and Outcome constant of package agent, read from its
// source, has a text.
func TestEveryWordOfTheDomain(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../agent/agent.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(f, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		switch name := spec.Names[0].Name; {
		case strings.HasPrefix(name, "Reason"):
			got = Reason(ZH, value)
		case strings.HasPrefix(name, "Status"):
			got = Status(ZH, agent.Status(value))
		default:
			return true
		}
		n++
		if strings.Contains(got, value) {
			t.Errorf("no text for %s", spec.Names[0].Name)
		}
		return true
	})
	if n < 20 {
		t.Errorf("found only %d constants", n)
	}
}

func TestEveryActionIsTold(t *testing.T) {
	for _, name := range action.Names() {
		for _, lang := range []string{ZH, EN} {
			if got := Doing(lang, name, ""); strings.Contains(got, "do.") {
				t.Errorf("no text for doing %s", name)
			}
		}
	}
	if got, want := Doing(ZH, action.Click, "“财务报表”"), "点击 “财务报表”"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Doing(EN, action.PageScreenshot, ""), "taking a picture of the page"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The words that seed 001 gives.
func TestSeedWords(t *testing.T) {
	for got, want := range map[string]string{
		Text(ZH, Refused):                         "用户拒绝了此操作",
		Reason(ZH, agent.ReasonMaxSteps):          "达到最大步数限制",
		Reason(ZH, agent.ReasonTaskTimeout):       "任务执行超时",
		Reason(ZH, agent.ReasonRepeatedAction):    "检测到死循环：连续重复相同操作",
		Reason(ZH, agent.ReasonBreakerOpen):       "连续失败次数达到熔断阈值",
		Text("fr", Refused):                       Text(EN, Refused),
		Text(ZH, "no such key"):                   "no such key",
		Text(ZH, "no such key", "with arguments"): "no such key",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDetect(t *testing.T) {
	tests := []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{}, EN},
		{map[string]string{"LANG": "zh_CN.UTF-8"}, ZH},
		{map[string]string{"LANG": "C.UTF-8"}, EN},
		{map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, EN},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, ZH},
		{map[string]string{"LC_ALL": "en_US.UTF-8", "SGCLAW_LOCALE": "zh"}, ZH},
		{map[string]string{"LC_ALL": "", "LANG": "ZH-hans"}, ZH},
	}
	for _, tt := range tests {
		if got := Detect(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.env, got, tt.want)
		}
	}
}
