package tokens

import (
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"
)

// The counts are those of OpenAI's own tiktoken.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		model, text string
		want        int
	}{
		{"gpt-4o", "", 0},
		{"gpt-4o", "hello world", 2},
		{"gpt-4", "hello world", 2},
		{"gpt-4o", "tiktoken is great!", 6},
		{"gpt-4", "tiktoken is great!", 6},
		{"gpt-4", "お誕生日おめでとう", 9},
		{"gpt-4o", "お誕生日おめでとう", 8},
		{"gpt-4", "antidisestablishmentarianism", 6},
		{"gpt-4o", "antidisestablishmentarianism", 6},
		{"gpt-4", "2 + 2 = 4", 7},
	} {
		if n := For(c.model).Count(c.text); n != c.want {
			t.Errorf("%s: %q has %d tokens, want %d", c.model, c.text, n, c.want)
		}
	}
}

func TestFor(t *testing.T) {
	for model, want := range map[string]*encoding{
		"gpt-4o": o200k, "gpt-4o-2024-08-06": o200k, "openai/gpt-4.1-mini": o200k, "gpt-5": o200k, "o3": o200k, "chatgpt-4o-latest": o200k,
		"gpt-4": cl100k, "gpt-4-turbo": cl100k, "GPT-3.5-turbo-16k": cl100k, "ft:gpt-3.5-turbo:acme": cl100k, "gpt-35-turbo": cl100k,
		"qwen2.5:14b": o200k, "deepseek-chat": o200k, "claude-sonnet-4": o200k, "": o200k,
	} {
		if got := For(model).encoding; got != want {
			t.Errorf("%q has the wrong encoding", model)
		}
	}
}

func TestChineseIsDenser(t *testing.T) {
	text := strings.Repeat("请假单已经批准，剩余三条等待审批。", 20)
	n, old := For("gpt-4o").Count(text), For("gpt-4").Count(text)
	runes := utf8.RuneCountInString(text)
	if n >= runes || n <= runes/3 || old <= n {
		t.Errorf("%d characters: %d tokens of o200k, %d of cl100k", runes, n, old)
	}
}

func TestZeroValueAndBrokenText(t *testing.T) {
	var c Counter
	if got, want := c.Count("hello world"), For("gpt-4o").Count("hello world"); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	if n := c.Count("ab\xff\xfecd"); n < 2 || n > 8 {
		t.Errorf("broken text has %d tokens", n)
	}
}

// Long texts are counted in pieces; the sum differs by less than one for
// each border.
func TestPieces(t *testing.T) {
	c := For("gpt-4o")
	for _, unit := range []string{"word and number 12 ", "审批流程，", "x", " ", "\n", "A"} {
		text := strings.Repeat(unit, 5*piece/2/len(unit))
		whole, err := c.encoding.codec().Count(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Count(text); n < whole-3 || n > whole+3 {
			t.Errorf("%q: %d tokens in pieces, %d as a whole", unit, n, whole)
		}
	}
}

func TestCut(t *testing.T) {
	c := For("gpt-4o")
	same := func(s string, limit uint8) bool {
		s = strings.ToValidUTF8(s, "") + strings.Repeat("汉字 and words", int(limit)%7)
		cut := c.Cut(s, int(limit))
		return strings.HasPrefix(s, cut) && utf8.ValidString(cut) && c.Count(cut) <= int(limit) && (cut == s) == (c.Count(s) <= int(limit) && (limit > 0 || s == ""))
	}
	if err := quick.Check(same, &quick.Config{MaxCount: 300}); err != nil {
		t.Error(err)
	}
	if got := c.Cut(strings.Repeat("one two three ", 10000), 10); c.Count(got) < 8 {
		t.Errorf("%q is too short", got)
	}
}

func BenchmarkCount(b *testing.B) {
	c := For("gpt-4o")
	c.Count("warm")
	for name, text := range map[string]string{
		"english_8k": strings.Repeat("The leave request of three days was approved by the manager. ", 8192/61),
		"chinese_8k": strings.Repeat("请假单已经批准，剩余三条等待审批。", 8192/51),
		"blank_8k":   strings.Repeat(" ", 8192),
		"oneword_8k": strings.Repeat("a", 8192),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c.Count(text)
			}
		})
	}
}
