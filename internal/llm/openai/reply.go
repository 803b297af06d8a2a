package openai

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
)

// reply puts a streamed reply together.
type reply struct {
	text, reasoning strings.Builder
	refusal         strings.Builder
	calls           []*call
	finish          string
	model           string
	usage           agent.Usage
	chunks          int
}

type call struct {
	index    int64 // as the service numbered it
	id, name string
	args     strings.Builder
}

func (r *reply) add(c openai.ChatCompletionChunk, onDelta func(string)) {
	r.chunks++
	if c.Model != "" {
		r.model = c.Model
	}
	// Some services count in every chunk; the last count holds.
	if c.Usage.TotalTokens > 0 || c.Usage.PromptTokens > 0 || c.Usage.CompletionTokens > 0 {
		r.count(c.Usage)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		d := choice.Delta
		if d.Content != "" {
			r.text.WriteString(d.Content)
			if onDelta != nil {
				onDelta(d.Content)
			}
		}
		r.refusal.WriteString(d.Refusal)
		r.reasoning.WriteString(reasoning(d.JSON.ExtraFields))
		for _, tc := range d.ToolCalls {
			r.addCall(tc)
		}
		if choice.FinishReason != "" {
			r.finish = choice.FinishReason
		}
	}
}

func (r *reply) count(u openai.CompletionUsage) {
	r.usage = agent.Usage{
		PromptTokens:     int(u.PromptTokens),
		CompletionTokens: int(u.CompletionTokens),
		TotalTokens:      int(u.TotalTokens),
	}
	if r.usage.TotalTokens == 0 {
		r.usage.TotalTokens = r.usage.PromptTokens + r.usage.CompletionTokens
	}
}

// reasoning reads the two names under which services show a model's
// thinking.
func reasoning(extra map[string]respjson.Field) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var s string
		if f, ok := extra[name]; ok && json.Unmarshal([]byte(f.Raw()), &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// addCall takes one piece of a tool call.
//
// By the protocol the index says which call a piece belongs to, and id and
// name come with its first piece. Services also: number every call 0, leave
// the index out, repeat id and name with every piece, leave the id out, write
// the arguments as an object.
func (r *reply) addCall(tc openai.ChatCompletionChunkChoiceDeltaToolCall) {
	c := r.openCall(tc)
	if c == nil {
		c = &call{index: tc.Index, id: tc.ID}
		r.calls = append(r.calls, c)
	}
	if c.id == "" {
		c.id = tc.ID
	}
	if name := tc.Function.Name; name != c.name && c.args.Len() == 0 {
		c.name += name
	}
	if raw := tc.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
		c.args.WriteString(raw)
		return
	}
	c.args.WriteString(tc.Function.Arguments)
}

// openCall finds the call that a piece continues; nil if it begins one.
func (r *reply) openCall(tc openai.ChatCompletionChunkChoiceDeltaToolCall) *call {
	var c *call
	for i := len(r.calls) - 1; i >= 0 && c == nil; i-- {
		if r.calls[i].index == tc.Index || !tc.JSON.Index.Valid() {
			c = r.calls[i]
		}
	}
	switch {
	case c == nil:
		return nil
	case tc.ID != "" && c.id != "" && tc.ID != c.id:
		return nil
	case tc.ID == "" && tc.Function.Name != "" && c.name != "" && json.Valid([]byte(c.args.String())):
		return nil
	}
	return c
}

// addPlain takes a whole answer that came as JSON instead of a stream.
func (r *reply) addPlain(body []byte, onDelta func(string)) error {
	var c openai.ChatCompletion
	if err := json.Unmarshal(body, &c); err != nil || len(c.Choices) == 0 {
		if e := bodyError(body); e != nil {
			return e
		}
		return &llm.Error{Class: llm.ClassMalformed, Message: "the answer is neither a stream nor a completion"}
	}
	r.chunks++
	r.model = c.Model
	r.count(c.Usage)
	choice := c.Choices[0]
	r.finish = choice.FinishReason
	r.text.WriteString(choice.Message.Content)
	if onDelta != nil && choice.Message.Content != "" {
		onDelta(choice.Message.Content)
	}
	r.refusal.WriteString(choice.Message.Refusal)
	r.reasoning.WriteString(reasoning(choice.Message.JSON.ExtraFields))
	for i, tc := range choice.Message.ToolCalls {
		one := &call{index: int64(i), id: tc.ID, name: tc.Function.Name}
		one.args.WriteString(tc.Function.Arguments)
		if raw := tc.Function.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
			one.args.Reset()
			one.args.WriteString(raw)
		}
		r.calls = append(r.calls, one)
	}
	return nil
}

// response is the whole reply, once the stream has ended.
func (r *reply) response() (llm.Response, error) {
	resp := llm.Response{Text: r.text.String(), Reasoning: r.reasoning.String(), Usage: r.usage, Model: r.model}
	if resp.Text == "" {
		resp.Text = r.refusal.String()
	}
	if thought, rest, ok := inlineThought(resp.Text); ok {
		resp.Text = rest
		resp.Reasoning += thought
	}
	seen := map[string]bool{}
	for i, c := range r.calls {
		if c.id == "" || seen[c.id] {
			c.id = fmt.Sprintf("call_%d_%s", i, rand.Text()[:12])
		}
		seen[c.id] = true
		resp.Calls = append(resp.Calls, llm.ToolCall{ID: c.id, Name: c.name, Arguments: c.args.String()})
	}
	switch r.finish {
	case "length", "max_tokens":
		resp.Finish = llm.FinishLength
	case "content_filter", "sensitive":
		resp.Finish = llm.FinishFilter
		if resp.Text == "" && len(resp.Calls) == 0 {
			return resp, &llm.Error{Class: llm.ClassContentPolicy, Message: "the service withheld the reply"}
		}
	default:
		resp.Finish = llm.FinishStop
		if len(resp.Calls) > 0 {
			resp.Finish = llm.FinishToolCalls
		}
	}
	return resp, nil
}

// inlineThought parts a text that opens with a model's thinking in
// <think>…</think>, as some servers of open models send it.
func inlineThought(text string) (thought, rest string, ok bool) {
	body, ok := strings.CutPrefix(strings.TrimSpace(text), "<think>")
	if !ok {
		return "", text, false
	}
	thought, rest, ok = strings.Cut(body, "</think>")
	return strings.TrimSpace(thought), strings.TrimSpace(rest), ok
}
