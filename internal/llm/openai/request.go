package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"sgclaw/internal/llm"
)

// params is the request in the library's types.
func (m *Model) params(req llm.Request) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{
		Model:         m.cfg.Model,
		Messages:      messages(req),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if req.MaxTokens > 0 {
		// max_tokens is what every imitator knows; OpenAI's reasoning models
		// refuse it.
		if m.own {
			p.MaxCompletionTokens = param.NewOpt(int64(req.MaxTokens))
		} else {
			p.MaxTokens = param.NewOpt(int64(req.MaxTokens))
		}
	}
	if !m.family.reasoning {
		p.Temperature = param.NewOpt(req.Temperature)
		if len(req.Stop) > 0 {
			p.Stop.OfStringArray = req.Stop
		}
	}
	for _, t := range req.Tools {
		var schema shared.FunctionParameters
		if err := json.Unmarshal(t.Schema, &schema); err != nil {
			return p, fmt.Errorf("schema of tool %s: %w", t.Name, err)
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name:        t.Name,
			Description: param.NewOpt(t.Description),
			Parameters:  schema,
		}))
	}
	return p, nil
}

// messages turns a conversation into the wire's messages. The wire has no
// pictures in a tool's answer, so that they follow in a message of the
// user's, after the last answer of the same reply: nothing may stand between
// the answers.
func messages(req llm.Request) []openai.ChatCompletionMessageParamUnion {
	out := make([]openai.ChatCompletionMessageParamUnion, 0, len(req.Messages)+1)
	if req.System != "" {
		out = append(out, openai.SystemMessage(req.System))
	}
	var pictures []llm.Image
	flush := func() {
		if len(pictures) > 0 {
			out = append(out, openai.UserMessage(parts("", pictures)))
			pictures = nil
		}
	}
	for _, msg := range req.Messages {
		if msg.Role != llm.RoleTool {
			flush()
		}
		switch msg.Role {
		case llm.RoleTool:
			out = append(out, openai.ToolMessage(msg.Text, msg.CallID))
			pictures = append(pictures, msg.Images...)
		case llm.RoleAssistant:
			out = append(out, assistant(msg))
		case llm.RoleUser:
			if len(msg.Images) == 0 {
				out = append(out, openai.UserMessage(msg.Text))
			} else {
				out = append(out, openai.UserMessage(parts(msg.Text, msg.Images)))
			}
		}
	}
	flush()
	return out
}

func assistant(msg llm.Message) openai.ChatCompletionMessageParamUnion {
	var a openai.ChatCompletionAssistantMessageParam
	// Null and not absent, as OpenAI itself writes it: some servers insist.
	a.Content.OfString = param.Null[string]()
	if msg.Text != "" || len(msg.Calls) == 0 {
		a.Content.OfString = param.NewOpt(msg.Text)
	}
	for _, c := range msg.Calls {
		a.ToolCalls = append(a.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name:      c.Name,
					Arguments: c.Arguments,
				},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

func parts(text string, images []llm.Image) []openai.ChatCompletionContentPartUnionParam {
	var out []openai.ChatCompletionContentPartUnionParam
	if text != "" {
		out = append(out, openai.TextContentPart(text))
	}
	for _, img := range images {
		out = append(out, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
			URL: "data:" + img.MIME + ";base64," + base64.StdEncoding.EncodeToString(img.Data),
		}))
	}
	return out
}
