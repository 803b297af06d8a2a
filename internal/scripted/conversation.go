package scripted

import (
	"encoding/json"
	"regexp"
	"strings"
)

// step is one tool call of the conversation and what came of it.
type step struct {
	note    string // what was said beside it
	action  string
	params  json.RawMessage
	outcome string // "done", "failed", "unknown", "refused" …; empty if it is not known
	code    string
	block   string // what the page said
	view    *view  // if the block showed the page
}

// selector is the step's parameter of that name, and so on for others.
func (s step) param(name string) string {
	var p map[string]json.RawMessage
	var v string
	if json.Unmarshal(s.params, &p) != nil || json.Unmarshal(p[name], &v) != nil {
		return ""
	}
	return v
}

// conversation is what a request says, read.
type conversation struct {
	task         string
	instructions []string
	steps        []step
	english      bool
	tool         string // name of the tool that acts in the browser; empty if there is none
	giveUp       string // name of the tool that gives up
	actions      string // what the tool's schema says, to see what it can do
}

// taskMark begins the task if anything stands before it: what was said in
// the session before, or where the run takes place.
var taskMark = regexp.MustCompile(`(?m)^(?:现在的任务：|The task now: )`)

var instructionMark = regexp.MustCompile(`(?m)^(?:用户补充指示：|Additional instruction from the person: )`)

// read reads a request. Only what the user's messages say outside of page
// blocks is taken as said by a person.
func read(req chatRequest) conversation {
	c := conversation{}
	for _, t := range req.Tools {
		schema := string(t.Function.Parameters)
		switch {
		case strings.Contains(schema, "getAomSnapshot"):
			c.tool, c.actions = t.Function.Name, schema
		case strings.Contains(t.Function.Name, "give_up"):
			c.giveUp = t.Function.Name
		}
	}
	calls := map[string]int{} // tool call id to index in steps
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			c.heard(m.text())
		case "assistant":
			note := m.text()
			for _, tc := range m.ToolCalls {
				s := step{note: note}
				var args struct {
					Action string          `json:"action"`
					Params json.RawMessage `json:"params"`
				}
				if json.Unmarshal([]byte(tc.Function.Arguments), &args) == nil {
					s.action, s.params = args.Action, args.Params
				}
				calls[tc.ID] = len(c.steps)
				c.steps = append(c.steps, s)
			}
		case "tool":
			if i, ok := calls[m.ToolCallID]; ok {
				c.steps[i].observed(m.text())
			}
		}
	}
	c.english = !hasHan(c.task)
	return c
}

// heard takes a message of the user's side: the task first, then
// instructions. Blocks hold steps that were shortened. What stands before the
// mark of the task is over.
func (c *conversation) heard(text string) {
	if task, ok := present(text); ok {
		c.task, c.instructions, c.steps = "", nil, nil
		text = task
	}
	said, blocks := split(text)
	for _, b := range blocks {
		c.recall(b)
	}
	parts := instructionMark.Split(said, -1)
	if c.task == "" {
		c.task = strings.TrimSpace(parts[0])
	}
	for _, p := range parts[1:] {
		c.instructions = append(c.instructions, strings.TrimSpace(p))
	}
}

var foldedCall = regexp.MustCompile(`^\d+: ([A-Za-z]+) (\{.*?)? ?-> ([a-z]+)(?: \(([A-Z_]+)\))?$`)

// recall reads steps that were shortened to lines.
func (c *conversation) recall(block string) {
	note := ""
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if m := foldedCall.FindStringSubmatch(line); m != nil {
			c.steps = append(c.steps, step{note: note, action: m[1], params: json.RawMessage(strings.TrimSuffix(m[2], "…")), outcome: m[3], code: m[4]})
			note = ""
			continue
		}
		if _, text, ok := strings.Cut(line, ": "); ok {
			note = text
		}
	}
}

var outcomeLine = regexp.MustCompile(`(?m)^outcome: ([a-z]+)(?: \(([A-Z_]+)\))?`)

func (s *step) observed(text string) {
	said, blocks := split(text)
	if m := outcomeLine.FindStringSubmatch(said); m != nil {
		s.outcome, s.code = m[1], m[2]
	}
	s.block = strings.Join(blocks, "\n")
	if s.outcome == "" && len(blocks) == 0 {
		s.block = text
	}
	if s.block == "" {
		return
	}
	v := parseView(s.block)
	// A view that was left out as out of date is not taken for one.
	switch {
	case strings.Contains(s.block, "[ref="), strings.Contains(s.block, "\nsnapshot:"), s.action == "getAomSnapshot" && s.outcome == "done":
		s.view = v
	}
}

// present is what follows the mark of the task; what a block says is no mark.
func present(text string) (string, bool) {
	for rest := text; rest != ""; {
		said, after, block := strings.Cut(rest, "<<<page ")
		if i := taskMark.FindStringIndex(said); i != nil {
			return rest[i[1]:], true
		}
		if !block {
			break
		}
		id, body, _ := strings.Cut(after, "\n")
		_, rest, _ = strings.Cut(body, "page "+id+">>>")
	}
	return "", false
}

// split parts what was said from the blocks of page text.
func split(text string) (said string, blocks []string) {
	const opening = "<<<page "
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, opening)
		b.WriteString(before)
		if !ok {
			return b.String(), blocks
		}
		id, rest, ok := strings.Cut(rest, "\n")
		if !ok {
			return b.String(), blocks
		}
		block, after, _ := strings.Cut(rest, "page "+id+">>>")
		blocks = append(blocks, strings.Trim(block, "\n"))
		text = after
	}
}

func hasHan(s string) bool {
	for _, r := range s {
		if r >= 0x4e00 && r <= 0x9fff {
			return true
		}
	}
	return false
}

// last is the newest step; nil if there is none.
func (c *conversation) last() *step {
	if len(c.steps) == 0 {
		return nil
	}
	return &c.steps[len(c.steps)-1]
}

// current is the page as the newest step shows it; nil if it shows none, or
// if something was done since.
func (c *conversation) current() *view {
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		if s.view != nil && s.outcome != "" {
			return s.view
		}
		// These change nothing, so that an older view still holds.
		harmless := s.outcome == "refused" || s.outcome == "skipped" || s.action == "getText" && s.outcome == "done"
		if !harmless {
			return nil
		}
	}
	return nil
}

// failuresInARow counts the newest steps of an action that failed.
func (c *conversation) failuresInARow(action string) int {
	n := 0
	for i := len(c.steps) - 1; i >= 0; i-- {
		s := c.steps[i]
		switch {
		case s.action == action && s.outcome == "failed":
			n++
		case s.action == "getAomSnapshot" && action != "getAomSnapshot":
		default:
			return n
		}
	}
	return n
}
