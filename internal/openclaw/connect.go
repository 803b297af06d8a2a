package openclaw

import (
	"encoding/json"
	"time"
)

// Limits and times of the handshake and of a connection.
const (
	MaxConnectBytes  = 64 << 10
	HandshakeTimeout = 15 * time.Second
	TickInterval     = 30 * time.Second
	PongTimeout      = 25 * time.Second
	RequestTimeout   = 30 * time.Second
)

// MethodConnect is the first request of a connection.
const MethodConnect = "connect"

// Names of the events that belong to a connection.
const (
	EventChallenge = "connect.challenge"
	EventTick      = "tick"
	EventShutdown  = "shutdown"
	EventPresence  = "presence"
)

// Challenge is the payload of the first frame of all.
type Challenge struct {
	Nonce        string   `json:"nonce"`
	TS           int64    `json:"ts"` // ms since 1970
	Capabilities []string `json:"capabilities,omitempty"`
}

// Tick is the payload of EventTick.
type Tick struct {
	TS int64 `json:"ts"` // ms since 1970
}

// Shutdown is the payload of EventShutdown. With RestartExpectedMs the
// gateway comes back.
type Shutdown struct {
	Reason            string `json:"reason"`
	RestartExpectedMs *int64 `json:"restartExpectedMs,omitempty"`
}

// ConnectParams are the parameters of connect.
type ConnectParams struct {
	MinProtocol int             `json:"minProtocol" oc:"required,min=1"`
	MaxProtocol int             `json:"maxProtocol" oc:"required,min=1"`
	Client      Client          `json:"client" oc:"required"`
	Caps        []string        `json:"caps,omitempty" oc:"each=1,max=100"`
	Commands    []string        `json:"commands,omitempty" oc:"each=1"`
	ComputerUse json.RawMessage `json:"computerUse,omitempty"`
	WorkerRuns  json.RawMessage `json:"workerRuns,omitempty"`
	Permissions map[string]bool `json:"permissions,omitempty"`
	PathEnv     string          `json:"pathEnv,omitempty"`
	Role        string          `json:"role,omitempty" oc:"min=1"`
	Scopes      []string        `json:"scopes,omitempty" oc:"each=1,max=100"`
	Device      *Device         `json:"device,omitempty"`
	Auth        *Auth           `json:"auth,omitempty"`
	Locale      string          `json:"locale,omitempty"`
	UserAgent   string          `json:"userAgent,omitempty"`
}

// Client is what a client says of itself when it connects.
type Client struct {
	ID              string `json:"id" oc:"required,oneof=webchat-ui|openclaw-control-ui|openclaw-browser-copilot|openclaw-tui|webchat|cli|gateway-client|openclaw-macos|openclaw-linux|openclaw-ios|openclaw-watchos|openclaw-android|node-host|openclaw-worker|test|fingerprint|openclaw-probe"`
	DisplayName     string `json:"displayName,omitempty" oc:"min=1"`
	Version         string `json:"version" oc:"required,min=1"`
	BuildID         string `json:"buildId,omitempty" oc:"min=1,max=96"`
	Platform        string `json:"platform" oc:"required,min=1"`
	DeviceFamily    string `json:"deviceFamily,omitempty" oc:"min=1"`
	ModelIdentifier string `json:"modelIdentifier,omitempty" oc:"min=1"`
	TimeZone        string `json:"timeZone,omitempty" oc:"min=1,max=64"`
	Mode            string `json:"mode" oc:"required,oneof=webchat|cli|ui|backend|node|worker|probe|test"`
	InstanceID      string `json:"instanceId,omitempty" oc:"min=1"`
}

// Auth is what a client shows to be let in. Token and Password mean the
// same to us; the others are of no use here.
type Auth struct {
	Token                     string `json:"token,omitempty"`
	Password                  string `json:"password,omitempty"`
	BootstrapToken            string `json:"bootstrapToken,omitempty"`
	DeviceToken               string `json:"deviceToken,omitempty"`
	ApprovalRuntimeToken      string `json:"approvalRuntimeToken,omitempty"`
	AgentRuntimeIdentityToken string `json:"agentRuntimeIdentityToken,omitempty"`
}

// Secret is the shared secret that the client shows, however it calls it.
func (a *Auth) Secret() string {
	if a == nil {
		return ""
	}
	for _, s := range []string{a.Token, a.Password} {
		if s != "" {
			return s
		}
	}
	return ""
}

// HelloOK is the payload with which connect is answered.
type HelloOK struct {
	Type     string    `json:"type"` // "hello-ok"
	Protocol int       `json:"protocol"`
	Server   Server    `json:"server"`
	Features Features  `json:"features"`
	Snapshot Snapshot  `json:"snapshot"`
	Auth     HelloAuth `json:"auth"`
	Policy   Policy    `json:"policy"`
}

// Server is who answers.
type Server struct {
	Version string `json:"version"`
	BootID  string `json:"bootId,omitempty"`
	ConnID  string `json:"connId"`
}

// Features is what the gateway can do.
type Features struct {
	Methods      []string `json:"methods"`
	Events       []string `json:"events"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// Snapshot is how things stood when the client connected.
type Snapshot struct {
	Presence        []Presence       `json:"presence"`
	Health          SnapshotHealth   `json:"health"`
	StateVersion    StateVersion     `json:"stateVersion"`
	UptimeMs        int64            `json:"uptimeMs"`
	SessionDefaults *SessionDefaults `json:"sessionDefaults,omitempty"`
	AuthMode        string           `json:"authMode,omitempty"`
}

// SnapshotHealth is the little that a snapshot says of it.
type SnapshotHealth struct {
	OK bool  `json:"ok,omitempty"`
	TS int64 `json:"ts,omitempty"` // ms since 1970
}

// StateVersion counts changes of what is in a Snapshot.
type StateVersion struct {
	Presence int64 `json:"presence"`
	Health   int64 `json:"health"`
}

// SessionDefaults tell a client where a message goes that names no session.
type SessionDefaults struct {
	DefaultAgentID string `json:"defaultAgentId"`
	MainKey        string `json:"mainKey"`
	MainSessionKey string `json:"mainSessionKey"`
	Scope          string `json:"scope,omitempty"`
}

// HelloAuth is what the client may do.
type HelloAuth struct {
	Role       string   `json:"role"`
	Scopes     []string `json:"scopes"`
	IssuedAtMs int64    `json:"issuedAtMs,omitempty"`
}

// Policy is what the gateway holds the client to.
type Policy struct {
	MaxPayload       int   `json:"maxPayload"`       // bytes of a frame
	MaxBufferedBytes int   `json:"maxBufferedBytes"` // that wait for the client
	TickIntervalMs   int64 `json:"tickIntervalMs"`
}

// Presence is who is connected: an entry of EventPresence and of
// system-presence.
type Presence struct {
	Host         string   `json:"host,omitempty"`
	IP           string   `json:"ip,omitempty"`
	Version      string   `json:"version,omitempty"`
	Platform     string   `json:"platform,omitempty"`
	DeviceFamily string   `json:"deviceFamily,omitempty"`
	Mode         string   `json:"mode,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	Text         string   `json:"text,omitempty"`
	TS           int64    `json:"ts"`                    // ms since 1970
	OnlineSince  int64    `json:"onlineSince,omitempty"` // ms since 1970
	DeviceID     string   `json:"deviceId,omitempty"`
	Roles        []string `json:"roles,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	InstanceID   string   `json:"instanceId,omitempty"`
}

// PresenceEvent is the payload of EventPresence.
type PresenceEvent struct {
	Presence []Presence `json:"presence"`
}
