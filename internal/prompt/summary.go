package prompt

import (
	"fmt"
	"strings"

	"sgclaw/internal/llm"
)

// SummaryInput is what a summary of a session's past is made of.
type SummaryInput struct {
	// Locale is the language of the request and of the summary, "zh" or
	// "en".
	Locale string
	// Marker is the run's random id.
	Marker string
	// Earlier is the summary that is to be carried on.
	Earlier string
	// Text is what was said and done since, with the results of tools.
	Text string
	// MaxTokens bounds the summary.
	MaxTokens int
}

// SumUp makes the request for a summary. It offers no tools, so that nothing
// that the past says can make the model act.
func SumUp(in SummaryInput) llm.Request {
	w := wordsIn(in.Locale)
	id := in.Marker
	var parts []string
	if in.Earlier != "" {
		parts = append(parts, w.sumEarlier+"\n"+Wrap(in.Earlier, id))
	}
	parts = append(parts, w.sumSince+"\n"+Wrap(in.Text, id), w.sumNow)
	return llm.Request{
		System:    fmt.Sprintf(w.sumSystem, in.MaxTokens*2/3, id, id),
		Messages:  []llm.Message{{Role: llm.RoleUser, Text: strings.Join(parts, "\n\n")}},
		MaxTokens: in.MaxTokens,
	}
}
