package main

import (
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/locale"
)

// t is a text of the command line in the reader's language.
func (a *app) t(key string, args ...any) string {
	return locale.Text(a.lang, locale.Key("starter."+key), args...)
}

// count is a text about n things; English has another one for a single thing.
func (a *app) count(key string, n int) string {
	if n == 1 {
		return a.t(key+"_1", n)
	}
	return a.t(key, n)
}

// deed names an action as people do; in English its own name does.
func (a *app) deed(name string) string {
	if _, known := action.Lookup(name); a.lang == locale.EN || !known {
		return name
	}
	return locale.Doing(a.lang, name, "")
}

// role names an accessible role; one without a word for it stays as it is.
func (a *app) role(role string) string {
	key := locale.Key("role." + role)
	if word := locale.Text(a.lang, key); word != string(key) {
		return word
	}
	return role
}

func (a *app) statusWord(s agent.Status) string { return locale.Status(a.lang, s) }

func (a *app) reason(r string) string {
	if r == "" {
		return ""
	}
	return locale.Reason(a.lang, r)
}

func (a *app) outcomeWord(o agent.Outcome) string { return a.t("out_" + string(o)) }

// languageOf finds the language before the flags are read: the help is in it
// too.
func languageOf(args []string, getenv func(string) string) string {
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--locale=")
		if arg == "--locale" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if ok && (value == locale.ZH || value == locale.EN) {
			return value
		}
	}
	return locale.Detect(getenv)
}
