package spell

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"click", "type", "navigate", "getText", "consecutive_failure_threshold"}
	for word, want := range map[string]string{
		"clik":                        "click",
		"CLICK":                       "click",
		"gettext":                     "getText",
		"tpye":                        "type",
		"consecutive_fail_threshold":  "consecutive_failure_threshold",
		"drag":                        "",
		"":                            "",
		strings.Repeat("click", 1000): "",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
	if got := Nearest("click", nil); got != "" {
		t.Errorf("nothing known: %q", got)
	}
}
