package openclaw

import "encoding/json"

// Kinds of a CronSchedule.
const (
	CronAt    = "at"
	CronEvery = "every"
	CronExpr  = "cron"
)

// CronSchedule says when a job is due.
type CronSchedule struct {
	Kind      string `json:"kind" oc:"required,oneof=at|every|cron|on-exit|stream"`
	At        string `json:"at,omitempty"`
	EveryMs   int64  `json:"everyMs,omitempty" oc:"min=1"`
	AnchorMs  *int64 `json:"anchorMs,omitempty" oc:"min=0"`
	Expr      string `json:"expr,omitempty"`
	TZ        string `json:"tz,omitempty"`
	StaggerMs int64  `json:"staggerMs,omitempty" oc:"min=0"`

	Command       json.RawMessage `json:"command,omitempty"`
	Cwd           json.RawMessage `json:"cwd,omitempty"`
	Mode          json.RawMessage `json:"mode,omitempty"`
	Match         json.RawMessage `json:"match,omitempty"`
	BatchMs       json.RawMessage `json:"batchMs,omitempty"`
	MaxBatchBytes json.RawMessage `json:"maxBatchBytes,omitempty"`
}

// Kinds of a CronPayload.
const (
	CronEvent = "systemEvent"
	CronTurn  = "agentTurn"
)

// CronPayload says what to do.
type CronPayload struct {
	Kind           string  `json:"kind" oc:"required,oneof=systemEvent|agentTurn|command|script"`
	Text           string  `json:"text,omitempty" oc:"min=1"`
	Message        string  `json:"message,omitempty" oc:"min=1"`
	Model          string  `json:"model,omitempty"`
	TimeoutSeconds float64 `json:"timeoutSeconds,omitempty" oc:"min=0"`

	Fallbacks              json.RawMessage `json:"fallbacks,omitempty"`
	Thinking               json.RawMessage `json:"thinking,omitempty"`
	AllowUnsafe            json.RawMessage `json:"allowUnsafeExternalContent,omitempty"`
	LightContext           json.RawMessage `json:"lightContext,omitempty"`
	ToolsAllow             json.RawMessage `json:"toolsAllow,omitempty"`
	ToolsAllowIsDefault    json.RawMessage `json:"toolsAllowIsDefault,omitempty"`
	Argv                   json.RawMessage `json:"argv,omitempty"`
	Cwd                    json.RawMessage `json:"cwd,omitempty"`
	Env                    json.RawMessage `json:"env,omitempty"`
	Input                  json.RawMessage `json:"input,omitempty"`
	NoOutputTimeoutSeconds json.RawMessage `json:"noOutputTimeoutSeconds,omitempty"`
	OutputMaxBytes         json.RawMessage `json:"outputMaxBytes,omitempty"`
	Script                 json.RawMessage `json:"script,omitempty"`
	ToolBudget             json.RawMessage `json:"toolBudget,omitempty"`
}

// CronDelivery says where an answer goes: nowhere but to its session.
type CronDelivery struct {
	Mode string `json:"mode" oc:"oneof=none|announce|webhook"`

	Channel               json.RawMessage `json:"channel,omitempty"`
	To                    json.RawMessage `json:"to,omitempty"`
	ThreadID              json.RawMessage `json:"threadId,omitempty"`
	AccountID             json.RawMessage `json:"accountId,omitempty"`
	BestEffort            json.RawMessage `json:"bestEffort,omitempty"`
	FailureDestination    json.RawMessage `json:"failureDestination,omitempty"`
	CompletionDestination json.RawMessage `json:"completionDestination,omitempty"`
}

// CronForeign are properties of jobs that we do not have.
type CronForeign struct {
	DeclarationKey json.RawMessage `json:"declarationKey"`
	DisplayName    json.RawMessage `json:"displayName"`
	Owner          json.RawMessage `json:"owner"`
	Pacing         json.RawMessage `json:"pacing"`
	Trigger        json.RawMessage `json:"trigger"`
	FailureAlert   json.RawMessage `json:"failureAlert"`
}

// CronAddParams are the parameters of cron.add. Overlap and CatchUpMs are
// ours: what becomes of a firing while the one before is under way, and how
// old a missed one may be to be made up for.
type CronAddParams struct {
	Name           string           `json:"name" oc:"required,min=1,max=200"`
	AgentID        Optional[string] `json:"agentId"`
	SessionKey     Optional[string] `json:"sessionKey"`
	Description    string           `json:"description" oc:"max=2000"`
	Enabled        *bool            `json:"enabled"`
	DeleteAfterRun *bool            `json:"deleteAfterRun"`
	Schedule       CronSchedule     `json:"schedule" oc:"required"`
	SessionTarget  string           `json:"sessionTarget" oc:"required,min=1"`
	WakeMode       string           `json:"wakeMode" oc:"required,oneof=next-heartbeat|now"`
	Payload        CronPayload      `json:"payload" oc:"required"`
	Delivery       *CronDelivery    `json:"delivery"`
	Overlap        string           `json:"overlap" oc:"oneof=skip|buffer"`
	CatchUpMs      int64            `json:"catchUpMs" oc:"min=0"`

	CronForeign
}

// CronPatch changes a job; what is absent stays.
type CronPatch struct {
	Name           *string          `json:"name" oc:"min=1,max=200"`
	AgentID        Optional[string] `json:"agentId"`
	SessionKey     Optional[string] `json:"sessionKey"`
	Description    *string          `json:"description" oc:"max=2000"`
	Enabled        *bool            `json:"enabled"`
	DeleteAfterRun *bool            `json:"deleteAfterRun"`
	Schedule       *CronSchedule    `json:"schedule"`
	SessionTarget  *string          `json:"sessionTarget" oc:"min=1"`
	WakeMode       *string          `json:"wakeMode" oc:"oneof=next-heartbeat|now"`
	Payload        *CronPayload     `json:"payload"`
	Delivery       *CronDelivery    `json:"delivery"`
	Overlap        *string          `json:"overlap" oc:"oneof=skip|buffer"`
	CatchUpMs      *int64           `json:"catchUpMs" oc:"min=0"`

	CronForeign
}

// CronID names a job, by either name.
type CronID struct {
	ID    string `json:"id" oc:"min=1"`
	JobID string `json:"jobId" oc:"min=1"`
}

// Job is the id that was given, or empty.
func (c CronID) Job() string {
	if c.ID != "" {
		return c.ID
	}
	return c.JobID
}

// CronUpdateParams are the parameters of cron.update.
type CronUpdateParams struct {
	CronID
	Patch CronPatch `json:"patch" oc:"required"`

	ExpectedConfigRevision json.RawMessage `json:"expectedConfigRevision"`
}

// CronRunParams are the parameters of cron.run.
type CronRunParams struct {
	CronID
	Mode string `json:"mode" oc:"oneof=due|force|if-enabled"`

	ExpectedProcessInstanceID json.RawMessage `json:"expectedProcessInstanceId"`
}

// CronRan answers cron.run.
type CronRan struct {
	OK                bool   `json:"ok"`
	Ran               *bool  `json:"ran,omitempty"` // false, with the reason
	Reason            string `json:"reason,omitempty"`
	Enqueued          bool   `json:"enqueued,omitempty"`
	RunID             string `json:"runId,omitempty"`
	ProcessInstanceID string `json:"processInstanceId,omitempty"`
}

// CronRemoved answers cron.remove.
type CronRemoved struct {
	OK      bool `json:"ok"`
	Removed bool `json:"removed"`
}

// CronListParams are the parameters of cron.list.
type CronListParams struct {
	IncludeDisabled bool   `json:"includeDisabled"`
	Limit           int    `json:"limit" oc:"min=1,max=200"`
	Offset          int    `json:"offset" oc:"min=0"`
	Query           string `json:"query"`
	Enabled         string `json:"enabled" oc:"oneof=all|enabled|disabled"`
	ScheduleKind    string `json:"scheduleKind" oc:"oneof=all|at|every|cron|on-exit|stream"`
	LastRunStatus   string `json:"lastRunStatus" oc:"oneof=all|ok|error|skipped|unknown"`
	SortBy          string `json:"sortBy" oc:"oneof=nextRunAtMs|updatedAtMs|name"`
	SortDir         string `json:"sortDir" oc:"oneof=asc|desc"`
	AgentID         string `json:"agentId" oc:"min=1"`
	Compact         bool   `json:"compact"` // a job is small as it is
	Trigger         string `json:"trigger" oc:"oneof=all|conditional|unconditional"`
	// IncludeDeliveryPreviews adds nothing: nothing is delivered elsewhere.
	IncludeDeliveryPreviews bool `json:"includeDeliveryPreviews"`
}

// CronJobs answers cron.list.
type CronJobs struct {
	Jobs             []CronJob `json:"jobs"`
	Total            int       `json:"total"`
	Offset           int       `json:"offset"`
	Limit            int       `json:"limit"`
	HasMore          bool      `json:"hasMore"`
	NextOffset       *int      `json:"nextOffset"`
	SnapshotRevision string    `json:"snapshotRevision"`
}

// CronJob is a job. What the schema does not have is left out of it.
type CronJob struct {
	ID             string        `json:"id"`
	AgentID        string        `json:"agentId,omitempty"`
	SessionKey     string        `json:"sessionKey,omitempty"`
	Name           string        `json:"name"`
	Description    string        `json:"description,omitempty"`
	Enabled        bool          `json:"enabled"`
	CreatedAtMs    int64         `json:"createdAtMs"`
	UpdatedAtMs    int64         `json:"updatedAtMs"`
	ConfigRevision string        `json:"configRevision"`
	Schedule       CronSchedule  `json:"schedule"`
	SessionTarget  string        `json:"sessionTarget"`
	WakeMode       string        `json:"wakeMode"`
	Payload        CronPayload   `json:"payload"`
	Delivery       *CronDelivery `json:"delivery,omitempty"`
	State          CronState     `json:"state"`
	NextRunAtMs    int64         `json:"nextRunAtMs,omitempty"`
	LastRunAtMs    int64         `json:"lastRunAtMs,omitempty"`
	LastRunStatus  string        `json:"lastRunStatus,omitempty"`
}

// CronState is how a job stands.
type CronState struct {
	NextRunAtMs   int64  `json:"nextRunAtMs,omitempty"`
	RunningAtMs   int64  `json:"runningAtMs,omitempty"`
	LastRunAtMs   int64  `json:"lastRunAtMs,omitempty"`
	LastRunStatus string `json:"lastRunStatus,omitempty"`
	LastStatus    string `json:"lastStatus,omitempty"`
	LastError     string `json:"lastError,omitempty"`
	LastDuration  int64  `json:"lastDurationMs,omitempty"`
}

// CronStatus answers cron.status.
type CronStatus struct {
	Enabled      bool   `json:"enabled"`
	Jobs         int    `json:"jobs"`
	NextWakeAtMs *int64 `json:"nextWakeAtMs"`
	Storage      string `json:"storage"`
	StorePath    string `json:"storePath"`
}

// CronRunsParams are the parameters of cron.runs.
type CronRunsParams struct {
	CronID
	AgentID  string   `json:"agentId" oc:"min=1"`
	Scope    string   `json:"scope" oc:"oneof=job|all"`
	RunID    string   `json:"runId" oc:"min=1"`
	Limit    int      `json:"limit" oc:"min=1,max=200"`
	Offset   int      `json:"offset" oc:"min=0"`
	Statuses []string `json:"statuses" oc:"oneof=ok|error|skipped"`
	Status   string   `json:"status" oc:"oneof=all|ok|error|skipped"`
	Query    string   `json:"query"`
	SortDir  string   `json:"sortDir" oc:"oneof=asc|desc"`

	DeliveryStatuses json.RawMessage `json:"deliveryStatuses"`
	DeliveryStatus   json.RawMessage `json:"deliveryStatus"`
}

// CronRuns answers cron.runs.
type CronRuns struct {
	Entries    []CronRun `json:"entries"`
	Total      int       `json:"total"`
	Offset     int       `json:"offset"`
	Limit      int       `json:"limit"`
	HasMore    bool      `json:"hasMore"`
	NextOffset *int      `json:"nextOffset"`
}

// States of a CronRun.
const (
	CronOK      = "ok"
	CronError   = "error"
	CronSkipped = "skipped"
)

// CronRun is a firing whose run is over, or that was left out.
type CronRun struct {
	Ts         int64  `json:"ts"`
	JobID      string `json:"jobId"`
	Action     string `json:"action"` // "finished"
	Status     string `json:"status,omitempty"`
	Error      string `json:"error,omitempty"`
	Summary    string `json:"summary,omitempty"`
	SessionKey string `json:"sessionKey,omitempty"`
	RunID      string `json:"runId,omitempty"`
	RunAtMs    int64  `json:"runAtMs,omitempty"`
	DurationMs int64  `json:"durationMs,omitempty"`
	Model      string `json:"model,omitempty"`
	JobName    string `json:"jobName,omitempty"`
}

type cronNotFound struct {
	Code  string `json:"code"`
	JobID string `json:"jobId"`
}

// CronJobNotFound refuses an id.
func CronJobNotFound(id string) *Error {
	e := Invalid("unknown cron job id: %s", clip(id))
	e.Details = cronNotFound{"CRON_JOB_NOT_FOUND", id}
	return e
}
