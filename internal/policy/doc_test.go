package policy

import (
	"os"
	"strings"
	"testing"
)

// The rules in docs/policy.md are rules.
func TestDocumentedRules(t *testing.T) {
	data, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	_, rest, _ := strings.Cut(doc, "```json\n")
	file, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no file in docs/policy.md")
	}
	r, err := Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(rulesSchema(t), []byte(file)); err != nil {
		t.Error(err)
	}
	if _, _, ask := r.ConfirmWhen(Element{Action: "click", Role: "button", Name: "批 准"}); !ask {
		t.Error("does not ask")
	}
	_, rest, _ = strings.Cut(doc, `    { "id": "big-amount"`)
	rule, _, _ := strings.Cut(rest, "\n\n")
	rule = `{ "id": "big-amount"` + rule
	r, err = Parse([]byte(wrap(`"domains": {"allowed": ["finance.example.com"]}`, `"confirm_when": [`+rule+`]`)))
	if err != nil {
		t.Fatal(err)
	}
	if id, p, _ := r.ConfirmWhen(Element{Action: "type", Domain: "finance.example.com", Name: "报销金额", Text: "120,000"}); id != "big-amount" || p.ZH == "" {
		t.Errorf("rule %q", id)
	}
	// Every condition that the schema knows is described.
	for _, c := range []string{"domains", "actions", "role", "name", "url", "link", "text", "form_submit"} {
		if !strings.Contains(doc, "\n| `"+c+"` |") {
			t.Errorf("no row for %s", c)
		}
	}
	for _, code := range []string{CodeActionBlocked, CodeActionNotAllowed, CodeDomainNotAllowed, CodeDomainMismatch, CodeStorageKey, CodeRateLimit, CodeNeedConfirm} {
		if !strings.Contains(doc, "`"+code+"`") {
			t.Errorf("%s is not described", code)
		}
	}
}
