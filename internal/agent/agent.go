// Package agent holds the words of the domain: what a task, an action, an
// observation, a confirmation and a result are. It depends on the standard
// library only, so that every other package, workflow code included, can use
// it. It decides nothing and does nothing.
package agent

import (
	"encoding/json"
	"strings"
	"time"
)

// Status is where a run stands, as people, the database and the Temporal UI
// see it.
type Status string

// The states of a run. Done, Failed, Refused and Aborted are final.
const (
	StatusQueued         Status = "queued"          // accepted by its session, not started
	StatusThinking       Status = "thinking"        // a model call is under way
	StatusActing         Status = "acting"          // a browser action is under way
	StatusWaitingConfirm Status = "waiting_confirm" // a person is asked
	StatusBrowserOffline Status = "browser_offline" // no host polls the run's browser
	StatusCooling        Status = "cooling"         // circuit breaker or rate limit
	StatusDone           Status = "done"            // the task was carried out
	StatusFailed         Status = "failed"          // the agent gave up or was stopped by the critic
	StatusRefused        Status = "refused"         // a confirmation expired unanswered
	StatusAborted        Status = "aborted"         // a person stopped it
)

// Final reports whether a run in this state will not change any more.
func (s Status) Final() bool {
	switch s {
	case StatusDone, StatusFailed, StatusRefused, StatusAborted:
		return true
	}
	return false
}

// Reasons why a run ended without success, stable for programs. Text for
// people comes from package locale under the same key.
const (
	ReasonMaxSteps       = "MAX_STEPS"        // seed 001 §2.2: 达到最大步数限制
	ReasonTaskTimeout    = "TASK_TIMEOUT"     // seed 001 §2.6: 任务执行超时
	ReasonRepeatedAction = "REPEATED_ACTION"  // seed 001 §2.6: 检测到死循环
	ReasonBreakerOpen    = "BREAKER_OPEN"     // seed 001 §2.6: 连续失败次数达到熔断阈值
	ReasonAborted        = "ABORTED"          // a person stopped the run
	ReasonConfirmExpired = "CONFIRM_EXPIRED"  // nobody answered in time
	ReasonModelFailed    = "MODEL_FAILED"     // the model could not be reached or kept answering nonsense
	ReasonBrowserGone    = "BROWSER_GONE"     // no browser came back within the configured time
	ReasonGaveUp         = "GAVE_UP"          // the model itself said that it could not do the task
	ReasonInternal       = "INTERNAL_UNKNOWN" // a fault of ours; the log has it
	ReasonNoAgent        = "AGENT_NOT_FOUND"  // the agent that should answer is not configured
	ReasonSteered        = "STEERED"          // the message was added to the run that was under way; the status is done
)

// Message is a task or a further instruction as it reaches a session.
type Message struct {
	// ID is the client's idempotency key, else a UUID v7. It becomes the id
	// of the run that the message starts, and the run's workflow is
	// "run/<ID>".
	ID string `json:"id"`
	// Text is what the person wrote, at most MaxInstruction bytes.
	Text string `json:"text"`
	// BrowserID names the browser to act in.
	BrowserID string `json:"browser,omitempty"`
	// Agent is the id of the configured agent that answers; empty is the
	// session's, else the default one.
	Agent string `json:"agent,omitempty"`
	// Mode says what becomes of the message if the session is busy.
	Mode Mode `json:"mode,omitempty"`
	// Aside is what others said before it in the same chat, oldest first, at
	// most MaxAside entries. It is untrusted.
	Aside []Aside `json:"aside,omitempty"`
	// Origin says who to answer.
	Origin Origin `json:"origin,omitzero"`
	// Settings override the worker's configuration for this run; zero
	// fields keep it.
	Settings Settings `json:"settings,omitzero"`
	// At is when the client accepted the message, UTC.
	At time.Time `json:"at,omitzero"`
}

// Mode says what becomes of a message to a session that has a run under way.
type Mode string

// The modes. Empty is what the session is set to, else its agent, else
// queue.
const (
	ModeQueue     Mode = "queue"     // it waits for its turn
	ModeSteer     Mode = "steer"     // it is added to the run as an instruction
	ModeInterrupt Mode = "interrupt" // the run is aborted, and it comes next
)

// Valid reports whether m is a mode, or empty.
func (m Mode) Valid() bool {
	return m == "" || m == ModeQueue || m == ModeSteer || m == ModeInterrupt
}

// Aside is something that another person said in the same chat.
type Aside struct {
	Sender string    `json:"sender"`
	Text   string    `json:"text"`
	At     time.Time `json:"at,omitzero"`
}

// MaxAside bounds how many asides a message has (seed 004,
// MAX_UNTRUSTED_HISTORY_ENTRIES).
const MaxAside = 20

// MaxInstruction bounds the text of a task or an instruction, in bytes.
const MaxInstruction = 32 << 10

// Origin says where a message came from, and so where answers go.
type Origin struct {
	// Kind is "cli", "pipe", "gateway", "channel" or "schedule".
	Kind string `json:"kind,omitempty"`
	// Channel is the channel that the message came by, e.g. "panel".
	Channel string `json:"channel,omitempty"`
	// User is who asked, as far as the origin knows.
	User string `json:"user,omitempty"`
	// TaskID is the browser's own id of a task submitted on the pipe.
	TaskID string `json:"task_id,omitempty"`
	// Locale is "zh" or "en": the language of texts written for people.
	Locale string `json:"locale,omitempty"`
}

// OriginPipe is the Origin.Kind of tasks submitted by a browser host. Only
// their progress is reported back over the pipe.
const OriginPipe = "pipe"

// Settings bound and shape a run. Zero fields are filled with the worker's
// configuration when the run begins, and then stay as they are for the run.
type Settings struct {
	MaxSteps          int      `json:"max_steps,omitempty"`           // model calls; default 50 (seed 001 §2.2)
	MaxThinkingTokens int      `json:"max_thinking_tokens,omitempty"` // per step; default 4096 (seed 001 §2.2)
	ConfirmActions    []string `json:"confirm_actions,omitempty"`     // human_confirm_actions (seed 001 §2.2)
	ConfirmTimeoutS   int      `json:"confirm_timeout_s,omitempty"`   // 0 waits for ever
	OfflineTimeoutS   int      `json:"offline_timeout_s,omitempty"`   // 0 waits for ever
	FailureThreshold  int      `json:"failure_threshold,omitempty"`   // default 10 (seed 001 §2.6)
	RepeatLimit       int      `json:"repeat_limit,omitempty"`        // default 5 (seed 001 §2.6)
	MaxTaskS          int      `json:"max_task_s,omitempty"`          // default 600 (seed 001 §2.6); waiting for people and browsers does not count
	Locale            string   `json:"locale,omitempty"`              // "zh" or "en"

	// Agent is the id of the agent that carries the run out.
	Agent string `json:"agent,omitempty"`
	// Model is asked; empty is the worker's.
	Model string `json:"model,omitempty"`
	// Actions are those that the agent may use; nil are all. Domains are the
	// only ones that it may act on; nil leaves it to the browser's rules,
	// which hold in any case.
	Actions []string `json:"actions,omitempty"`
	Domains []string `json:"domains,omitempty"`
	// Context says what the run is shown besides its task.
	Context ContextOptions `json:"context,omitzero"`
}

// Strategy says how much a run is shown besides its task (seed 003, context
// strategies).
type Strategy string

// The strategies. Empty is Full.
const (
	StrategyFull   Strategy = "full"   // all there is
	StrategyLite   Strategy = "lite"   // who it is, the time, the session; nothing of the past
	StrategyCustom Strategy = "custom" // what ContextOptions say
)

// ContextOptions choose what a run is shown. The fields after Strategy hold
// for StrategyCustom only, and there a false or empty one means just that.
type ContextOptions struct {
	Strategy Strategy `json:"strategy,omitempty"`
	// IncludeHistory: what was said in the session before.
	IncludeHistory bool `json:"include_history,omitempty"`
	// IncludeRuntime: time, browser, channel, session.
	IncludeRuntime bool `json:"include_runtime,omitempty"`
	// IncludeTools are the only actions offered, if there are any;
	// ExcludeTools are not offered.
	IncludeTools []string `json:"include_tools,omitempty"`
	ExcludeTools []string `json:"exclude_tools,omitempty"`
}

// Call is one tool call that the model asked for.
type Call struct {
	// ID is made by us when the reply is recorded, never by the model: it is
	// unique over rewinds, and part of the once-only key of an effect.
	ID string `json:"id"`
	// Action is one of package action's names, e.g. "click".
	Action string `json:"action"`
	// Params are the action's parameters, valid and with defaults applied
	// unless Fault says otherwise.
	Params json.RawMessage `json:"params,omitempty"`
	// PageID addresses a background page; empty means the main page.
	PageID string `json:"page_id,omitempty"`
	// Fault is why the call cannot be carried out as the model wrote it
	// (unknown action, invalid parameters). A faulty call is answered, not
	// executed.
	Fault string `json:"fault,omitempty"`
}

// Usage counts tokens (seed 001 §2.8).
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Add returns the sum of two counts.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.PromptTokens + v.PromptTokens, u.CompletionTokens + v.CompletionTokens, u.TotalTokens + v.TotalTokens}
}

// Outcome classes what became of an action.
type Outcome string

// The outcomes of an action. Unknown means that an effect was sent and that
// it cannot be known whether it happened: it must never be repeated blindly.
const (
	OutcomeDone        Outcome = "done"
	OutcomeFailed      Outcome = "failed"  // the browser or the policy said no; Code says why
	OutcomeUnknown     Outcome = "unknown" // sent, no answer
	OutcomeNeedConfirm Outcome = "confirm" // nothing was done; a person must be asked first
	OutcomeRateLimited Outcome = "limited" // nothing was done; try again after RetryAfterMS
	OutcomeRefused     Outcome = "refused" // nothing was done; the person said no
	OutcomeSkipped     Outcome = "skipped" // nothing was done, because an earlier call of the same reply failed
)

// Result is what came of one action. It travels through the history of the
// run, so it is small: whatever is longer than MaxInline stays with the
// browser's journal and is fetched by Ref without a trace in the history.
type Result struct {
	Outcome Outcome `json:"o"`
	// Code is a pipe error code when Outcome is not done.
	Code string `json:"code,omitempty"`
	// Text is the observation, or its beginning.
	Text string `json:"text,omitempty"`
	// Ref names the whole observation in the browser's journal; empty if
	// Text is all of it.
	Ref string `json:"ref,omitempty"`
	// Page is where the browser stood afterwards.
	Page Page `json:"page,omitzero"`
	// Ask describes what a person must confirm when Outcome is confirm.
	Ask *Subject `json:"ask,omitempty"`
	// Digest is what a grant for Ask must carry.
	Digest string `json:"digest,omitempty"`
	// HeldMS is how long the host held the action while it asked a person
	// by itself; it does not count as the run's time.
	HeldMS int64 `json:"held_ms,omitempty"`
	// RetryAfterMS is when a rate-limited action may be tried again.
	RetryAfterMS int64 `json:"retry_ms,omitempty"`
	// ExecMS is how long the browser took.
	ExecMS int64 `json:"ms,omitempty"`
}

// MaxInline is the longest observation, in bytes, that a Result carries
// itself.
const MaxInline = 256

// Page is a browser page as the host last reported it.
type Page struct {
	ID     string `json:"id,omitempty"` // empty for the main page
	URL    string `json:"url,omitempty"`
	Domain string `json:"domain,omitempty"` // host name, lower case, no port
	Title  string `json:"title,omitempty"`
}

// Body is a whole observation as the browser's journal keeps it.
type Body struct {
	Text string `json:"text,omitempty"`
	// Page is where the browser stood afterwards.
	Page Page `json:"page,omitzero"`
	// Image is a picture, raw bytes; MIME its type.
	Image []byte `json:"image,omitempty"`
	MIME  string `json:"mime,omitempty"`
}

// Subject is what a delicate action acts on, as the browser host sees it at
// the moment of acting. A person is shown just that, and a grant holds for
// just that.
type Subject struct {
	Role    string `json:"role,omitempty"`    // accessible role, e.g. "button"
	Name    string `json:"name,omitempty"`    // accessible name, e.g. "批准"
	Context string `json:"context,omitempty"` // text of the surrounding row, list item or form, shortened
	URL     string `json:"url,omitempty"`     // of the page
	Domain  string `json:"domain,omitempty"`
	Rule    string `json:"rule,omitempty"`    // which rule wants a person
	Prompt  Prompt `json:"prompt,omitzero"`   // the rule's own words for the question, if it has any
	Picture string `json:"picture,omitempty"` // Ref of a small picture in the browser's journal
}

// Prompt is a question to a person in both languages.
type Prompt struct {
	ZH string `json:"zh,omitempty"`
	EN string `json:"en,omitempty"`
}

// In returns the prompt in a language, "zh" or "en"; if that one is missing,
// the other.
func (p Prompt) In(lang string) string {
	if p.EN == "" || p.ZH != "" && strings.HasPrefix(lang, "zh") {
		return p.ZH
	}
	return p.EN
}

// Grant is a person's yes to one action with exact parameters on one exact
// subject, to be used once.
type Grant struct {
	ID     string    `json:"id"` // the confirmation's id
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Digest string    `json:"digest"` // see Digest
}

// Confirmation is a question to a person.
type Confirmation struct {
	ID     string          `json:"id"` // unique over all runs
	Step   int             `json:"step"`
	Action string          `json:"action"`
	Params json.RawMessage `json:"params,omitempty"`
	Ask    Subject         `json:"ask"`
	Digest string          `json:"digest"`
	Since  time.Time       `json:"since"`
	// Until is when the question expires; zero if never.
	Until time.Time `json:"until,omitzero"`
}

// Answer is what the person said to a Confirmation. It is the payload of the
// "confirm" signal and of the "confirm" update.
type Answer struct {
	// ConfirmID is the confirmation's id. Empty answers the one that is
	// open.
	ConfirmID string `json:"confirm_id,omitempty"`
	Approved  bool   `json:"approved"`
	By        string `json:"by,omitempty"`
	Note      string `json:"note,omitempty"`
	// Scope, with a yes: "" for this time only, ScopeRun for every later
	// action of the run that is asked about for the same reason: the same
	// action by the same rule on an element of the same role and name in the
	// same domain. Each is still granted, and recorded, by itself.
	Scope string `json:"scope,omitempty"`
	// Digest, when set, must be the confirmation's: a person who saw other
	// parameters has not approved these.
	Digest string `json:"digest,omitempty"`
}

// ScopeRun is the Answer.Scope of a yes that holds for the rest of the run. A
// yes to what a page itself asked (RuleNativeDialog) holds for that time
// only: the page may ask anything the next time.
const ScopeRun = "run"

// RuleNativeDialog is Subject.Rule of an action whose page asked something
// itself, by confirm().
const RuleNativeDialog = "native_dialog"

// Step is one step of a run (seed 001 §2.2, StepRecord).
type Step struct {
	Num         int     `json:"step_num"`
	Thinking    string  `json:"thinking"`
	Action      *Call   `json:"action"` // nil: the task was complete
	Observation string  `json:"observation"`
	Outcome     Outcome `json:"outcome,omitempty"`
	DurationMS  int64   `json:"duration_ms"`
}

// TaskResult is the result of a run (seed 001 §2.2).
type TaskResult struct {
	RunID      string           `json:"run_id"`
	Status     Status           `json:"status"`
	Success    bool             `json:"success"`
	Reason     string           `json:"reason,omitempty"` // one of the Reason constants unless Success
	Summary    string           `json:"summary"`
	Steps      []Step           `json:"steps"`
	TokenUsage Usage            `json:"token_usage"`
	Models     map[string]Usage `json:"models,omitempty"` // per model
	DurationMS int64            `json:"duration_ms"`
}
