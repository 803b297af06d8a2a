package action

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ToolName is the name of the one tool that a model drives a browser with
// (seed 001 §2.3).
const ToolName = "browser_action"

// ToolCall is what a model writes as the arguments of that tool.
type ToolCall struct {
	Action string          `json:"action"`
	Params json.RawMessage `json:"params,omitempty"`
	PageID string          `json:"page_id,omitempty"`
}

// toolSchema is the JSON Schema of ToolCall in the order that models read it.
type toolSchema struct {
	Type       string         `json:"type"`
	Properties toolProperties `json:"properties"`
	Required   []string       `json:"required"`
}

type toolProperties struct {
	Action toolString `json:"action"`
	Params toolParams `json:"params"`
	PageID toolString `json:"page_id"`
}

type toolString struct {
	Type        string   `json:"type"`
	Enum        []string `json:"enum,omitempty"`
	Description string   `json:"description"`
}

type toolParams struct {
	Type        string            `json:"type"`
	Description string            `json:"description"`
	AnyOf       []json.RawMessage `json:"anyOf,omitempty"`
}

// ToolSchema returns the JSON Schema of ToolCall for the permitted actions
// (all of them: ToolSchema(Names())), in the seed's order whatever order they
// are given in, so that a provider's cache of the prompt holds. Names that
// are no actions are left out.
//
// The parameters' schemas are alternatives of params, each titled with its
// action, and not of the whole call: providers refuse oneOf and its kin at
// the top of a tool's schema. It is anyOf because the parameters of getText
// and click fit each other; Parse decides by the action.
func ToolSchema(permitted []string) (json.RawMessage, error) {
	cat, err := load()
	if err != nil {
		return nil, err
	}
	var names, lines []string
	var schemas []json.RawMessage
	for _, s := range cat.specs {
		if !slices.Contains(permitted, s.Name) {
			continue
		}
		schema, err := inlined(s.Schema)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", s.Name, err)
		}
		names = append(names, s.Name)
		lines = append(lines, s.Name+": "+s.Description)
		schemas = append(schemas, schema)
	}
	return json.Marshal(toolSchema{
		Type: "object",
		Properties: toolProperties{
			Action: toolString{
				Type: "string",
				Enum: names,
				Description: "What to do.\n" +
					strings.Join(lines, "\n"),
			},
			Params: toolParams{
				Type:        "object",
				Description: "Parameters of the action: the alternative whose title is the action's name.",
				AnyOf:       schemas,
			},
			PageID: toolString{
				Type:        "string",
				Description: "Background page to act in, as zombieSpawn named it. Left out: the main page.",
			},
		},
		Required: []string{"action", "params"},
	})
}

// inlined is a parameters' schema as part of another one.
func inlined(schema json.RawMessage) (json.RawMessage, error) {
	var s struct {
		Title                string          `json:"title"`
		Type                 string          `json:"type"`
		Properties           json.RawMessage `json:"properties"`
		Required             []string        `json:"required,omitempty"`
		AdditionalProperties bool            `json:"additionalProperties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}
