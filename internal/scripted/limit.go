package scripted

import (
	"regexp"
	"strconv"
	"strings"
)

// limit is a bound in a task.
type limit struct {
	over   bool // at least, else at most
	strict bool // without the bound itself
	n      float64
}

func (l limit) holds(v float64) bool {
	switch {
	case v == l.n:
		return !l.strict
	case l.over:
		return v > l.n
	}
	return v < l.n
}

const (
	zhNumber = `(\d+(?:\.\d+)?|[零半一二两三四五六七八九十百]+)`
	enNumber = `(\d+(?:\.\d+)?|a|one|two|three|four|five|six|seven|eight|nine|ten|half a)`
	zhUnit   = `\s*(?:个)?(?:天|日|工作日)?\s*`
	enUnit   = `\s*(?:working |business )?(?:days?)?\s*`
)

// limitPatterns are tried in order.
var limitPatterns = []struct {
	re           *regexp.Regexp
	over, strict bool
}{
	{regexp.MustCompile(`(?:不超过|不多于|不大于|至多|最多|<=|≤)\s*` + zhNumber), false, false},
	{regexp.MustCompile(`(?:不少于|不低于|至少|>=|≥)\s*` + zhNumber), true, false},
	{regexp.MustCompile(`(?:少于|小于|低于|不到|<)\s*` + zhNumber), false, true},
	{regexp.MustCompile(`(?:超过|大于|多于|高于|>)\s*` + zhNumber), true, true},
	{regexp.MustCompile(zhNumber + zhUnit + `(?:（含）|\(含\))?(?:及|或|和)?(?:以下|以内|之内|内)`), false, false},
	{regexp.MustCompile(zhNumber + zhUnit + `(?:及|或|和)?(?:以上)`), true, false},
	{regexp.MustCompile(`(?i)(?:up to|at most|no more than|not more than|no longer than|max(?:imum)?(?: of)?)\s+` + enNumber + `\b`), false, false},
	{regexp.MustCompile(`(?i)(?:at least|no less than|no fewer than)\s+` + enNumber + `\b`), true, false},
	{regexp.MustCompile(`(?i)(?:under|below|less than|fewer than|shorter than)\s+` + enNumber + `\b`), false, true},
	{regexp.MustCompile(`(?i)(?:over|above|more than|longer than|exceeding|greater than)\s+` + enNumber + `\b`), true, true},
	{regexp.MustCompile(`(?i)\b` + enNumber + enUnit + `or (?:less|fewer|shorter|under)`), false, false},
	{regexp.MustCompile(`(?i)\b` + enNumber + enUnit + `or (?:more|longer|over)`), true, false},
}

// limitOf finds the bound in a text.
func limitOf(text string) (limit, bool) {
	text = urlPattern.ReplaceAllString(text, "")
	for _, p := range limitPatterns {
		if m := p.re.FindStringSubmatch(text); m != nil {
			if n, ok := parseNumber(m[1]); ok {
				return limit{p.over, p.strict, n}, true
			}
		}
	}
	return limit{}, false
}

// parseNumber reads digits, Chinese numerals up to 99 and English ones up to
// ten.
func parseNumber(s string) (float64, bool) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		return n, true
	}
	switch strings.ToLower(s) {
	case "半", "half a":
		return 0.5, true
	case "a":
		return 1, true
	}
	for i, w := range []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		if strings.EqualFold(s, w) {
			return float64(i), true
		}
	}
	digit := map[rune]float64{'零': 0, '一': 1, '二': 2, '两': 2, '三': 3, '四': 4, '五': 5, '六': 6, '七': 7, '八': 8, '九': 9}
	var n, d float64
	for _, r := range s {
		switch v, ok := digit[r]; {
		case ok:
			d = v
		case r == '十':
			n += max(d, 1) * 10
			d = 0
		case r == '百':
			n += max(d, 1) * 100
			d = 0
		default:
			return 0, false
		}
	}
	return n + d, s != ""
}

func (a *actor) limitText(l limit) string {
	n := strconv.FormatFloat(l.n, 'f', -1, 64)
	switch {
	case l.over && l.strict:
		return a.say("超过 %s", "over %s", n)
	case l.over:
		return a.say("不少于 %s", "of at least %s", n)
	case l.strict:
		return a.say("少于 %s", "under %s", n)
	}
	return a.say("不超过 %s", "of at most %s", n)
}
