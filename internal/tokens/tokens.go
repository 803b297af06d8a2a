// Package tokens counts the tokens of a text as a model does, for whatever
// must stay under a limit. It is pure, works offline and knows nothing of
// requests.
//
// The encodings are OpenAI's, with the vocabularies built in: o200k for its
// models since gpt-4o, cl100k for gpt-4 and gpt-3.5. Other makers' models are
// counted with o200k, the nearest there is to them: it too was made with much
// Chinese in it. Theirs differs by some tokens in a hundred, which is the
// reason to leave room below a service's own limit.
package tokens

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Counter counts the tokens of texts. Its zero value counts with o200k. It
// may be used by many goroutines, and copies share what is costly.
type Counter struct{ encoding *encoding }

// encoding is a vocabulary, built when it is first needed: that takes some 10
// ms, and 6 MB for as long as the process lives.
type encoding struct{ codec func() *codec.Codec }

// The encodings never change.
var (
	o200k  = &encoding{sync.OnceValue(codec.NewO200kBase)}
	cl100k = &encoding{sync.OnceValue(codec.NewCl100kBase)}
)

// For returns the counter for a model, by its name at the service, e.g.
// "gpt-4o-mini". It costs nothing; the first count reads the vocabulary.
func For(model string) Counter {
	model = strings.ToLower(model)
	if i := strings.LastIndexByte(model, '/'); i >= 0 {
		model = model[i+1:] // "openai/gpt-4o", as routers name it
	}
	model = strings.TrimPrefix(model, "ft:")
	switch {
	case strings.HasPrefix(model, "gpt-4o"), strings.HasPrefix(model, "gpt-4.1"), strings.HasPrefix(model, "gpt-4.5"):
		return Counter{o200k}
	case strings.HasPrefix(model, "gpt-4"), strings.HasPrefix(model, "gpt-3.5"), strings.HasPrefix(model, "gpt-35"):
		return Counter{cl100k}
	}
	return Counter{o200k}
}

// piece is how much is counted at once, in bytes: it bounds what the
// tokenizer may hold in memory for a text of any length.
const piece = 32 << 10

// Count returns the tokens of s. A text of more than 32 KiB is counted in
// pieces, which adds less than one token for each. Broken UTF-8 counts as the
// replacement characters that a service makes of it.
func (c Counter) Count(s string) int {
	e := c.encoding
	if e == nil {
		e = o200k
	}
	if s == "" {
		return 0
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	n := 0
	for len(s) > 0 {
		end := min(len(s), piece)
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end--
		}
		n += count(e.codec(), s[:end])
		s = s[end:]
	}
	return n
}

func count(c *codec.Codec, s string) int {
	n, err := c.Count(s)
	if err != nil {
		return len(s) // the splitting gave up; no text has more tokens than bytes
	}
	return n
}

// Cut returns the beginning of s that has at most limit tokens, cut at the
// edge of a rune, and s itself if it has no more.
func (c Counter) Cut(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	// A token is at most 128 bytes long in both encodings.
	if most := limit * 128; len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	if len(s) <= limit || c.Count(s) <= limit {
		return s
	}
	lo, hi := 0, len(s) // s[:lo] fits, s[:hi] does not
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		for mid > lo && !utf8.RuneStart(s[mid]) {
			mid--
		}
		if mid == lo {
			for mid = lo + 1; mid < hi && !utf8.RuneStart(s[mid]); mid++ {
			}
			if mid >= hi {
				break
			}
		}
		if c.Count(s[:mid]) <= limit {
			lo = mid
		} else {
			hi = mid
		}
	}
	return s[:lo]
}
