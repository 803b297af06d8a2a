package page

import (
	"strconv"
	"strings"
)

// selector is a parsed selector: a ref, or CSS in parts that " >>> " divided.
type selector struct {
	ref   int // 0: CSS
	parts []string
}

// parseSelector tells refs from CSS. A ref is "[ref=e12]" with or without
// quotes, "ref=e12" or "@e12". Whether CSS is valid is for the page to say;
// why is set for what cannot be.
func parseSelector(s string) (sel selector, why string) {
	s = strings.TrimSpace(s)
	if n, ok := parseRef(s); ok {
		return selector{ref: n}, ""
	}
	if s == "" {
		return selector{}, "the selector is empty"
	}
	for part := range strings.SplitSeq(s, ">>>") {
		part = strings.TrimSpace(part)
		if part == "" {
			return selector{}, "there is nothing on one side of >>>"
		}
		if _, ok := parseRef(part); ok {
			return selector{}, "a ref stands alone: it already says in which frame its element is"
		}
		sel.parts = append(sel.parts, part)
	}
	return sel, ""
}

func parseRef(s string) (int, bool) {
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		inner, ok := strings.CutPrefix(strings.TrimSpace(s[1:len(s)-1]), "ref=")
		if !ok {
			return 0, false
		}
		s = strings.Trim(inner, `"'`)
	case strings.HasPrefix(s, "ref="):
		s = s[len("ref="):]
	case strings.HasPrefix(s, "@"):
		s = s[1:]
	default:
		return 0, false
	}
	digits, ok := strings.CutPrefix(s, "e")
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' || len(digits) > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// hint says what to write instead of selectors that other tools know and CSS
// does not.
func (s selector) hint() string {
	all := strings.Join(s.parts, " ")
	switch {
	case strings.HasPrefix(all, "//") || strings.HasPrefix(all, "xpath"):
		return "; XPath is not supported, use a ref from the snapshot or CSS"
	case strings.Contains(all, ":contains(") || strings.Contains(all, ":has-text(") || strings.Contains(all, "text="):
		return "; elements cannot be selected by text, use a ref from the snapshot"
	}
	return "; use a ref from the snapshot such as [ref=e12], or CSS"
}

func refName(n int) string { return "e" + strconv.Itoa(n) }
