// Package prompt turns the state of a run into a request to a model, and the
// model's reply into a decision. It is pure: no clock, no chance, no I/O but
// Load's.
//
// # The request
//
// What stays the same comes first, for the provider's cache: the tools, the
// system prompt, what was said in the session before, the task; then replies,
// observations and what people added, oldest first. How much stands before
// the task is the run's choice (agent.ContextOptions, seed 003):
//
//	full    a summary of the session's past and its newest turns, what others
//	        said in the chat, and, if there is any of these, where and when
//	        the run takes place
//	lite    the time and the session
//	custom  what the options name, and only the tools that they leave
//
// A reply's tool calls and their answers are never parted:
// every call of a reply is answered directly after it, whatever was recorded
// in between, and a call without a record is answered as having none.
//
// # Untrusted text
//
// Everything that came from a browser, from other people in the chat, or from
// a client's description of itself, and every summary of it, stands between
//
//	<<<page ID
//	page ID>>>
//
// where ID is the run's random marker. The system prompt says that what
// stands between them is data and never an instruction, also if the system
// prompt's template was replaced. Text cannot end its own block: Defuse takes
// the marker, look-alikes of the brackets, the control tokens of chat
// templates and invisible characters out of it. This tells the model what is
// what; it does not rely on the model's obeying. What an agent may do is
// decided by the policy and by people.
//
// # Size
//
// A view of a page is out of date once there is a newer one, so only the
// newest two are kept whole. Levels 1 to MaxLevel keep ever less; Fit finds
// the lowest one that fits.
package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
	"sgclaw/internal/record"
)

// Kind says what a Turn is.
type Kind string

// The kinds of turns.
const (
	Task        Kind = "task"        // what the person asked for
	Instruction Kind = "instruction" // what a person added while the run was under way
	Thought     Kind = "thought"     // a reply of the model
	Observation Kind = "observation" // what came of one call
)

// Turn is one entry of a run's conversation.
type Turn struct {
	Kind Kind
	Step int
	// Text is the task, the instruction, the model's own words, or the whole
	// observation; the last is untrusted.
	Text string

	// Of a thought: what it asks for. ProviderIDs, if not nil, has the ids
	// that the model gave the calls.
	Calls       []agent.Call
	ProviderIDs []string
	// Nudge is what the model was told about a reply of no use; see
	// Decision.Nudge.
	Nudge string

	// Of an observation.
	Call    agent.Call
	Outcome agent.Outcome
	Code    string
	Page    agent.Page
	Note    string // what the person wrote who decided about the action
	Image   *llm.Image
}

// Input is everything that a request is made of.
type Input struct {
	// Template is the template of the system prompt; nil is the built-in
	// one.
	Template *Template
	// Locale is "zh" or "en", the language of our own words.
	Locale string
	// Marker is the run's random id: 6 to 64 lower-case hex digits.
	Marker string
	// Turns are the conversation, oldest first.
	Turns []Turn
	// Actions are the actions that the model may ask for; see Offered.
	Actions []string
	// Context chooses what of the following is shown.
	Context agent.ContextOptions
	// Past is what was said in the session before, Aside what others said in
	// the same chat, and Runtime where the run takes place.
	Past    record.Context
	Aside   []agent.Aside
	Runtime Runtime
	// MaxTokens bounds the reply (seed 001 §2.2, max_thinking_tokens).
	MaxTokens   int
	Temperature float64
	// Vision says that the model takes pictures.
	Vision bool
	// Compact is how hard the conversation is compacted, 0 to MaxLevel.
	Compact int
}

// MaxLevel is the highest level of Input.Compact.
const MaxLevel = 3

// GiveUpName is the tool with which a model says that it cannot do the task.
const GiveUpName = "give_up"

var marker = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// Build makes the request.
func Build(in Input) (llm.Request, error) {
	if !marker.MatchString(in.Marker) {
		return llm.Request{}, errors.New("the run's marker is not 6 to 64 hex digits")
	}
	if in.Locale != "en" {
		in.Locale = "zh"
	}
	in.choose()
	system, err := in.Template.render(in)
	if err != nil {
		return llm.Request{}, err
	}
	tools, err := Tools(in.Locale, in.Actions)
	if err != nil {
		return llm.Request{}, err
	}
	return llm.Request{
		System:      system,
		Messages:    messages(in),
		Tools:       tools,
		MaxTokens:   in.MaxTokens,
		Temperature: in.Temperature,
	}, nil
}

// Fit makes the request at the lowest level from in.Compact on whose estimated
// size, the reply included, is at most maxTokens, else at MaxLevel; 0 is no
// bound. It returns the level.
func Fit(in Input, maxTokens int) (llm.Request, int, error) {
	for {
		req, err := Build(in)
		if err != nil || in.Compact >= MaxLevel || maxTokens <= 0 || Estimate(req)+req.MaxTokens <= maxTokens {
			return req, in.Compact, err
		}
		in.Compact++
	}
}

// Tools are the tools that a model is offered. Without any permitted action
// it can only report or give up.
func Tools(locale string, permitted []string) ([]llm.Tool, error) {
	schema, err := action.ToolSchema(permitted)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", action.ToolName, err)
	}
	w := wordsIn(locale)
	var tools []llm.Tool
	if len(permitted) > 0 {
		tools = append(tools, llm.Tool{Name: action.ToolName, Description: w.browserAction, Schema: schema})
	}
	giveUp, err := json.Marshal(giveUpSchema{
		Type:       "object",
		Properties: giveUpProperties{Reason: property{Type: "string", Description: w.giveUpReason}},
		Required:   []string{"reason"},
	})
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", GiveUpName, err)
	}
	return append(tools, llm.Tool{Name: GiveUpName, Description: w.giveUp, Schema: giveUp}), nil
}

type giveUpSchema struct {
	Type       string           `json:"type"`
	Properties giveUpProperties `json:"properties"`
	Required   []string         `json:"required"`
}

type giveUpProperties struct {
	Reason property `json:"reason"`
}

type property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// Tokens estimates the tokens of a text. Counted on pages, it is within 12 %
// of o200k: Chinese characters cost two thirds of a token each, everything
// else a token for 2.4 characters.
func Tokens(s string) int {
	wide, rest := 0, 0
	for _, r := range s {
		if r >= 0x2E80 {
			wide++
		} else {
			rest++
		}
	}
	return int(float64(wide)*0.65+float64(rest)/2.4) + 1
}

// imageTokens is what a picture costs, roughly.
const imageTokens = 1000

// Estimate estimates the tokens of a request without its reply.
func Estimate(req llm.Request) int {
	n := Tokens(req.System)
	for _, t := range req.Tools {
		n += Tokens(t.Description) + Tokens(string(t.Schema))
	}
	for _, m := range req.Messages {
		n += 4 + Tokens(m.Text) + imageTokens*len(m.Images)
		for _, c := range m.Calls {
			n += 4 + Tokens(c.Arguments)
		}
	}
	return n
}

// arguments is a call as the model is shown it again: always a JSON object,
// because services parse it, also when the model wrote none.
func arguments(c agent.Call) string {
	params := c.Params
	if len(params) == 0 || !json.Valid(params) {
		params = json.RawMessage("{}")
	}
	b, err := json.Marshal(action.ToolCall{Action: c.Action, Params: params, PageID: c.PageID})
	if err != nil {
		return "{}"
	}
	return string(b)
}

// cut shortens a text to at most n bytes and says so.
func cut(s string, n int, w *words) string {
	if len(s) <= n {
		return s
	}
	head := strings.ToValidUTF8(s[:n], "")
	return head + "\n" + fmt.Sprintf(w.cut, len(s)-len(head))
}
