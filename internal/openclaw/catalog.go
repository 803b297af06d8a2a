package openclaw

import "encoding/json"

// HealthResult answers health.
type HealthResult struct {
	OK               bool              `json:"ok"`
	Ts               int64             `json:"ts"`
	DurationMs       int64             `json:"durationMs"`
	Channels         struct{}          `json:"channels"`
	ChannelOrder     []string          `json:"channelOrder"`
	ChannelLabels    struct{}          `json:"channelLabels"`
	HeartbeatSeconds int               `json:"heartbeatSeconds"`
	DefaultAgentID   string            `json:"defaultAgentId"`
	Agents           []HealthAgent     `json:"agents"`
	Sessions         HealthSessions    `json:"sessions"`
	Parts            map[string]string `json:"sgclaw"` // what is wrong with what we depend on; "ok" if nothing
}

// HealthAgent is an agent in HealthResult.
type HealthAgent struct {
	AgentID   string         `json:"agentId"`
	Name      string         `json:"name,omitempty"`
	IsDefault bool           `json:"isDefault"`
	Heartbeat Heartbeat      `json:"heartbeat"`
	Sessions  HealthSessions `json:"sessions"`
}

// Heartbeat says that there is none.
type Heartbeat struct {
	Enabled bool   `json:"enabled"`
	Every   string `json:"every"`
	EveryMs *int64 `json:"everyMs"`
}

// HealthSessions counts sessions.
type HealthSessions struct {
	Path   string          `json:"path"`
	Count  int             `json:"count"`
	Recent []RecentSession `json:"recent"`
}

// RecentSession is one of the latest sessions.
type RecentSession struct {
	Key       string `json:"key"`
	UpdatedAt int64  `json:"updatedAt"`
	Age       int64  `json:"age"` // milliseconds
}

// HealthParams are the parameters of health. Probe changes nothing: it is
// always looked.
type HealthParams struct {
	Probe bool `json:"probe"`
	// IncludeSensitive asks for what we do not tell.
	IncludeSensitive bool `json:"includeSensitive"`
}

// StatusParams are the parameters of status.
type StatusParams struct {
	IncludeChannelSummary bool `json:"includeChannelSummary"`
}

// Status answers status.
type Status struct {
	RuntimeVersion     string          `json:"runtimeVersion"`
	PID                int             `json:"pid"`
	Heartbeat          StatusHeartbeat `json:"heartbeat"`
	ChannelSummary     []string        `json:"channelSummary"`
	QueuedSystemEvents []string        `json:"queuedSystemEvents"`
	Tasks              StatusTasks     `json:"tasks"`
	Sessions           StatusSessions  `json:"sessions"`
}

// StatusHeartbeat is part of Status.
type StatusHeartbeat struct {
	DefaultAgentID string        `json:"defaultAgentId"`
	Agents         []HealthAgent `json:"agents"`
}

// StatusTasks counts the runs that are not over.
type StatusTasks struct {
	Total     int `json:"total"`
	Active    int `json:"active"`
	Terminal  int `json:"terminal"`
	Failures  int `json:"failures"`
	ByStatus  any `json:"byStatus"`
	ByRuntime any `json:"byRuntime"`
}

// StatusSessions is part of Status.
type StatusSessions struct {
	Paths    []string        `json:"paths"`
	Count    int             `json:"count"`
	Defaults ModelDefaults   `json:"defaults"`
	Recent   []RecentSession `json:"recent"`
	ByAgent  []AgentSessions `json:"byAgent"`
}

// AgentSessions counts an agent's sessions.
type AgentSessions struct {
	AgentID string          `json:"agentId"`
	Path    string          `json:"path"`
	Count   int             `json:"count"`
	Recent  []RecentSession `json:"recent"`
}

// None are the parameters of methods that have none.
type None struct{}

// AgentOnly are those of methods that take an agent at most.
type AgentOnly struct {
	AgentID    string `json:"agentId" oc:"min=1"`
	SessionKey string `json:"sessionKey" oc:"min=1"`
}

// AgentsList answers agents.list.
type AgentsList struct {
	DefaultID string         `json:"defaultId"`
	MainKey   string         `json:"mainKey"`
	Scope     string         `json:"scope"` // "per-sender"
	Agents    []AgentSummary `json:"agents"`
}

// AgentSummary is an agent in it.
type AgentSummary struct {
	ID    string      `json:"id"`
	Name  string      `json:"name,omitempty"`
	Model *AgentModel `json:"model,omitempty"`
}

// AgentModel is what an agent asks.
type AgentModel struct {
	Primary string `json:"primary,omitempty"`
}

// ModelsListParams are the parameters of models.list. All views are the same:
// what is configured.
type ModelsListParams struct {
	AgentID                     string `json:"agentId" oc:"min=1"`
	IncludeProviderCapabilities bool   `json:"includeProviderCapabilities"`
	PreparedOnly                bool   `json:"preparedOnly"`
	Refresh                     bool   `json:"refresh"`
	View                        string `json:"view" oc:"oneof=default|configured|provider-config|all"`
}

// ModelsList answers models.list.
type ModelsList struct {
	Models []ModelChoice `json:"models"`
}

// ModelChoice is a model in it.
type ModelChoice struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Provider      string `json:"provider"`
	Available     bool   `json:"available"`
	ContextWindow int    `json:"contextWindow,omitempty"`
	SupportsTools bool   `json:"supportsTools"`
}

// ToolsCatalogParams are the parameters of tools.catalog.
type ToolsCatalogParams struct {
	AgentID        string `json:"agentId" oc:"min=1"`
	IncludePlugins bool   `json:"includePlugins"`
}

// ToolsCatalog answers tools.catalog.
type ToolsCatalog struct {
	AgentID  string        `json:"agentId"`
	Profiles []ToolProfile `json:"profiles"`
	Groups   []ToolGroup   `json:"groups"`
}

// ToolProfile is part of ToolsCatalog.
type ToolProfile struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// ToolGroup is part of ToolsCatalog.
type ToolGroup struct {
	ID     string `json:"id"`
	Label  string `json:"label"`
	Source string `json:"source"` // "core"
	Tools  []Tool `json:"tools"`
}

// Tool is a browser action. DefaultProfiles is of tools.catalog,
// RawDescription of tools.effective.
type Tool struct {
	ID              string   `json:"id"`
	Label           string   `json:"label"`
	Description     string   `json:"description"`
	RawDescription  *string  `json:"rawDescription,omitempty"`
	Source          string   `json:"source"`
	Risk            string   `json:"risk,omitempty"`
	DefaultProfiles []string `json:"defaultProfiles,omitempty"`
}

// ToolsEffectiveParams are the parameters of tools.effective.
type ToolsEffectiveParams struct {
	AgentID    string `json:"agentId" oc:"min=1"`
	SessionKey string `json:"sessionKey" oc:"required,min=1"`
}

// ToolsEffective answers tools.effective.
type ToolsEffective struct {
	AgentID string      `json:"agentId"`
	Profile string      `json:"profile"`
	Groups  []ToolGroup `json:"groups"`
}

// SkillsStatus answers skills.status.
type SkillsStatus struct {
	WorkspaceDir     string     `json:"workspaceDir"`
	ManagedSkillsDir string     `json:"managedSkillsDir"`
	Skills           []struct{} `json:"skills"`
}

// CommandsListParams are the parameters of commands.list.
type CommandsListParams struct {
	SessionKey  string `json:"sessionKey" oc:"min=1"`
	AgentID     string `json:"agentId" oc:"min=1"`
	Provider    string `json:"provider" oc:"min=1"`
	Scope       string `json:"scope" oc:"oneof=text|native|both"`
	IncludeArgs bool   `json:"includeArgs"`
}

// CommandsList answers commands.list: no text is a command here.
type CommandsList struct {
	Commands []struct{} `json:"commands"`
}

// Questions answers question.list: there are none besides approvals.
type Questions struct {
	Questions []struct{} `json:"questions"`
}

// TaskSuggestions answers taskSuggestions.list.
type TaskSuggestions struct {
	Suggestions []struct{} `json:"suggestions"`
}

// LogsTailParams are the parameters of logs.tail.
type LogsTailParams struct {
	Cursor   *int64 `json:"cursor" oc:"min=0"`
	Limit    int    `json:"limit" oc:"min=1,max=5000"`
	MaxBytes int    `json:"maxBytes" oc:"min=1,max=1000000"`
}

// LogsTail answers logs.tail. Cursor and Size count bytes that were ever
// logged.
type LogsTail struct {
	File      string   `json:"file"`
	Cursor    int64    `json:"cursor"`
	Size      int64    `json:"size"`
	Lines     []string `json:"lines"`
	Truncated bool     `json:"truncated,omitempty"`
	Reset     bool     `json:"reset,omitempty"`
}

// UsageCostParams are the parameters of usage.cost.
type UsageCostParams struct {
	StartDate string `json:"startDate"`
	EndDate   string `json:"endDate"`
	Days      int    `json:"days" oc:"min=1"`
	AgentID   string `json:"agentId" oc:"min=1"`
	Mode      string `json:"mode" oc:"oneof=utc|gateway|specific"`
	TimeZone  string `json:"timeZone" oc:"min=1"`
	Range     string `json:"range" oc:"oneof=7d|30d|90d|1y|all"`
	// AgentScope "all" is what it does without an agent.
	AgentScope string `json:"agentScope" oc:"oneof=all"`

	UTCOffset json.RawMessage `json:"utcOffset"`
}

// UsageCost answers usage.cost. Nothing has a price here: costs are 0, and
// MissingCostEntries says how many runs that is of.
type UsageCost struct {
	UpdatedAt int64       `json:"updatedAt"`
	Days      int         `json:"days"`
	Daily     []DailyCost `json:"daily"`
	Totals    CostTotals  `json:"totals"`
}

// DailyCost is a day of it.
type DailyCost struct {
	Date string `json:"date"`
	CostTotals
}

// CostTotals are sums.
type CostTotals struct {
	Input              int     `json:"input"`
	Output             int     `json:"output"`
	CacheRead          int     `json:"cacheRead"`
	CacheWrite         int     `json:"cacheWrite"`
	TotalTokens        int     `json:"totalTokens"`
	TotalCost          float64 `json:"totalCost"`
	InputCost          float64 `json:"inputCost"`
	OutputCost         float64 `json:"outputCost"`
	CacheReadCost      float64 `json:"cacheReadCost"`
	CacheWriteCost     float64 `json:"cacheWriteCost"`
	MissingCostEntries int     `json:"missingCostEntries"`
}

// UsageStatus answers usage.status: no provider tells us what it has left.
type UsageStatus struct {
	UpdatedAt int64      `json:"updatedAt"`
	Providers []struct{} `json:"providers"`
}
