// Package locale is the one catalogue of what people read, in Chinese and
// English. Logs and errors for engineers are English and not in it.
package locale

import (
	"fmt"
	"strings"

	"sgclaw/internal/agent"
)

// The languages.
const (
	ZH = "zh"
	EN = "en"
)

// Key names a text.
type Key string

// Text returns the text in the language, English for any language but
// Chinese, with the arguments put in as fmt does. An unknown key is returned
// as it is, so that a gap shows and breaks nothing.
func Text(lang string, key Key, args ...any) string {
	t, ok := catalogue[key]
	if !ok {
		t, ok = starter[key]
	}
	if !ok {
		return string(key)
	}
	s := t.en
	if lang == ZH {
		s = t.zh
	}
	if len(args) == 0 {
		return s
	}
	return fmt.Sprintf(s, args...)
}

// Reason tells why a run ended, by one of agent's Reason constants.
func Reason(lang, reason string) string { return Text(lang, Key("reason."+reason)) }

// Status names a run's state.
func Status(lang string, s agent.Status) string { return Text(lang, Key("status."+string(s))) }

// Doing tells what an action is about to do, and to what if that is known,
// e.g. "点击 e12".
func Doing(lang, action, what string) string {
	return strings.TrimSuffix(Text(lang, Key("do."+action))+" "+what, " ")
}

// Detect returns the language that the environment asks for: SGCLAW_LOCALE,
// else the first of LC_ALL, LC_MESSAGES and LANG that is set; English if none
// speaks of Chinese.
func Detect(getenv func(string) string) string {
	for _, name := range []string{"SGCLAW_LOCALE", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := getenv(name); v != "" {
			if strings.HasPrefix(strings.ToLower(v), ZH) {
				return ZH
			}
			return EN
		}
	}
	return EN
}
