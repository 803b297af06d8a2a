package openclaw

// Ids of clients (client.id).
const (
	ClientWebchatUI   = "webchat-ui"
	ClientControlUI   = "openclaw-control-ui"
	ClientCopilot     = "openclaw-browser-copilot"
	ClientTUI         = "openclaw-tui"
	ClientWebchat     = "webchat"
	ClientCLI         = "cli"
	ClientGateway     = "gateway-client"
	ClientMacOS       = "openclaw-macos"
	ClientLinux       = "openclaw-linux"
	ClientIOS         = "openclaw-ios"
	ClientWatchOS     = "openclaw-watchos"
	ClientAndroid     = "openclaw-android"
	ClientNodeHost    = "node-host"
	ClientWorker      = "openclaw-worker"
	ClientTest        = "test"
	ClientFingerprint = "fingerprint"
	ClientProbe       = "openclaw-probe"
)

// Modes of clients (client.mode).
const (
	ModeWebchat = "webchat"
	ModeCLI     = "cli"
	ModeUI      = "ui"
	ModeBackend = "backend"
	ModeNode    = "node"
	ModeWorker  = "worker"
	ModeProbe   = "probe"
	ModeTest    = "test"
)

// Capabilities that a client may announce.
const (
	CapAgentKind           = "agent-kind"
	CapApprovals           = "approvals"
	CapExecApprovals       = "exec-approvals"
	CapInlineWidgets       = "inline-widgets"
	CapRunToolBindings     = "run-tool-bindings"
	CapSessionScopedEvents = "session-scoped-events"
	CapPluginApprovals     = "plugin-approvals"
	CapTaskSuggestions     = "task-suggestions"
	CapTerminalOffsetSeq   = "terminal-offset-seq"
	CapTerminalSessionMeta = "terminal-session-metadata"
	CapToolEvents          = "tool-events"
	CapUICommands          = "ui-commands"
	CapUsageRefreshing     = "usage-refreshing"
)

// Scopes of operators. Admin has all of them, write has read.
const (
	ScopeRead      = "operator.read"
	ScopeWrite     = "operator.write"
	ScopeAdmin     = "operator.admin"
	ScopeApprovals = "operator.approvals"
	ScopeQuestions = "operator.questions"
	ScopePairing   = "operator.pairing"
)

// RoleOperator is the only role of clients that we serve.
const RoleOperator = "operator"
