package activities

import (
	"encoding/json"

	"sgclaw/internal/action"
	"sgclaw/internal/agent"
)

// Names of the activities and the workflow that a pipehost serves on its
// browser's queue.
const (
	ActName          = "act"
	NotifyName       = "notify"
	BrowserWorkflow  = "Browser"     // workflow type; the id is BrowserQueue(id)
	ObservationQuery = "observation" // query of BrowserWorkflow: Ref in, agent.Body out
	PresenceQuery    = "presence"    // query of BrowserWorkflow: Presence out
)

// BrowserQueue is the task queue of one browser, and the id of the workflow
// that stands for it.
func BrowserQueue(browserID string) string { return "browser/" + browserID }

// ActInput is the input of the activity "act": one browser action.
type ActInput struct {
	RunID  string     `json:"run,omitempty"` // see ThinkInput
	Step   int        `json:"step"`
	Call   agent.Call `json:"call"`
	Domain string     `json:"domain,omitempty"` // where the run believes the page to be; empty: where the pipehost last saw it
	// Grant is a person's yes, when the first try came back with
	// agent.OutcomeNeedConfirm. The once-only key of an effect is (RunID,
	// Step, Call.ID, Grant.ID).
	Grant *agent.Grant `json:"grant,omitempty"`
	// Confirm says that the run's own list wants a person for this action:
	// without a grant the answer is agent.OutcomeNeedConfirm.
	Confirm bool `json:"confirm,omitempty"`
	// Snapshot asks for a snapshot after the action.
	Snapshot bool `json:"snapshot,omitempty"`
	// Actions and Domains are the limits of the run's agent (agent.Settings);
	// empty: it has none. They hold in addition to the browser's rules.
	Actions []string `json:"actions,omitempty"`
	Domains []string `json:"domains,omitempty"`
	// TaskID and Log go to the browser as a log line when the task came from
	// its pipe.
	TaskID string `json:"task_id,omitempty"`
	Log    string `json:"log,omitempty"`
}

// NotifyInput is the input of the activity "notify": one message for the
// browser, e.g. a pipe.TaskComplete. Key makes it once per process: a
// message that was written is not written again, one that could not be is.
type NotifyInput struct {
	Key     string          `json:"key"`
	Message json.RawMessage `json:"message"`
	// PictureRef names a picture in the journal to put into the message's
	// "image" before it is sent.
	PictureRef string `json:"picture_ref,omitempty"`
}

// Kind tells of an action whether it is an effect, and whether it opens a
// page of its own, whatever was there before.
func Kind(name string) (effect, opens bool) {
	spec, _ := action.Lookup(name)
	return spec.Effect, spec.URL
}

// Presence describes the pipehost that serves a browser.
type Presence struct {
	BrowserID string     `json:"browser_id"`
	AgentID   string     `json:"agent_id"`
	Version   string     `json:"version"`
	Page      agent.Page `json:"page,omitzero"`
}
