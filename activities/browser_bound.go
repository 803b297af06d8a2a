package activities

import (
	"strings"
	"time"
	"unicode"

	"sgclaw/internal/agent"
	"sgclaw/internal/pipe"
)

// Most that a result takes over of what a page or a host says: it stays in
// histories, and a page can make its URL a megabyte long. In bytes, but for
// maxRetry.
const (
	maxCode    = 64
	maxName    = 512
	maxContext = 2 << 10
	maxURL     = 2 << 10
	maxDomain  = 255
	maxRetry   = 24 * time.Hour
)

func boundPage(p agent.Page) agent.Page {
	return agent.Page{ID: head(p.ID, maxCode), URL: head(p.URL, maxURL), Domain: head(p.Domain, maxDomain), Title: head(p.Title, maxName)}
}

// boundSubject makes a subject fit to be shown to a person who decides by
// it: nothing in it starts a line, is invisible, or turns the direction of
// writing. The digest is of the subject as the host sees it.
func boundSubject(s agent.Subject) agent.Subject {
	return agent.Subject{
		Role: head(seen(s.Role), maxCode), Name: head(seen(s.Name), maxName), Context: head(seen(s.Context), maxContext),
		URL: head(seen(s.URL), maxURL), Domain: head(seen(s.Domain), maxDomain), Rule: head(seen(s.Rule), maxName),
		Prompt: agent.Prompt{ZH: head(seen(s.Prompt.ZH), maxName), EN: head(seen(s.Prompt.EN), maxName)},
	}
}

// seen leaves of a text what can be seen, on one line.
func seen(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, s)
}

// boundCode lets codes through that could be ours. They stand where the
// model reads our own words, and in the names of metrics.
func boundCode(c pipe.Code) pipe.Code {
	odd := strings.ContainsFunc(string(c), func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' })
	if odd || c == "" || len(c) > maxCode {
		return pipe.CodeInternal
	}
	return c
}
