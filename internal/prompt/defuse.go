package prompt

import (
	"regexp"
	"strings"
	"unicode"
)

// Defuse makes untrusted text safe to stand inside a block of the given
// marker. It takes out characters that nobody can see, and changes what could
// be taken for the end or the beginning of a block, or for a control token of
// a chat template. Everything else stays as it is. Defusing twice changes
// nothing more.
func Defuse(s, id string) string {
	s = visible(s)
	if id != "" && strings.Contains(strings.ToLower(s), strings.ToLower(id)) {
		s = regexp.MustCompile(`(?i)`+regexp.QuoteMeta(id)).ReplaceAllString(s, "[marker]")
	}
	s = brackets.ReplaceAllStringFunc(s, func(run string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case strings.ContainsRune(opening, r):
				return '‹'
			case strings.ContainsRune(closing, r):
				return '›'
			}
			return r
		}, run)
	})
	if !strings.ContainsAny(s, "<>") {
		return s // every token has one
	}
	return tokens.ReplaceAllStringFunc(s, func(t string) string {
		t = strings.ReplaceAll(t, "<", "‹")
		return strings.ReplaceAll(t, ">", "›")
	})
}

const (
	opening = "<＜﹤≪⋘⟪《〈⟨❮❬«"
	closing = ">＞﹥≫⋙⟫》〉⟩❯❭»"
)

// brackets are runs that look like ours. One or two of a kind are ordinary
// text; a single character that looks like several is changed only beside
// others.
var brackets = regexp.MustCompile(`[<＜﹤≪⋘⟪《〈⟨❮❬«](?:[ \t]?[<＜﹤≪⋘⟪《〈⟨❮❬«]){2,}|[>＞﹥≫⋙⟫》〉⟩❯❭»](?:[ \t]?[>＞﹥≫⋙⟫》〉⟩❯❭»]){2,}|[≪⋘⟪«≫⋙⟫»](?:[ \t]?[<＜≪⋘⟪«>＞≫⋙⟫»])+`)

// tokens are control tokens of chat templates: <|im_start|>, <｜User｜>,
// <<SYS>>, <start_of_turn>, <tool_call>, <think> and their ends.
var tokens = regexp.MustCompile(`(?i)<[|｜]>?|[|｜]>|<</?SYS>>|</?(?:start_of_turn|end_of_turn|tool_call|tool_response|tool_calls|function_calls|think|system|assistant|user)>`)

// visible takes out what cannot be seen: control characters but tab and line
// feed, format characters (zero width, bidirectional controls, tags), variation
// selectors and letters that are drawn as nothing. Line separators of all
// kinds become line feeds.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r', r == '\u0085', r == '\u2028', r == '\u2029', r == '\v', r == '\f':
			return '\n'
		case r == unicode.ReplacementChar, r == '\u034f', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0',
			r >= '\u180b' && r <= '\u180f', r >= '\ufe00' && r <= '\ufe0f', r >= 0xe0000 && r <= 0xe0fff,
			r >= '\ufff0' && r <= '\uffff', r >= '\u17b4' && r <= '\u17b5':
			return -1
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs):
			return -1
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}
