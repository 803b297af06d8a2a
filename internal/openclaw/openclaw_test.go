package openclaw_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/openclaw"
	"sgclaw/internal/openclaw/schematest"
)

func hello() openclaw.HelloOK {
	return openclaw.HelloOK{
		Type: "hello-ok", Protocol: openclaw.ProtocolVersion,
		Server:   openclaw.Server{Version: "dev", BootID: "b", ConnID: "c"},
		Features: openclaw.Features{Methods: []string{"health"}, Events: []string{"tick"}},
		Snapshot: openclaw.Snapshot{
			Presence: []openclaw.Presence{{Host: "h", TS: 1, Roles: []string{"operator"}}},
			Health:   openclaw.SnapshotHealth{OK: true, TS: 1}, UptimeMs: 5, AuthMode: "token",
			SessionDefaults: &openclaw.SessionDefaults{DefaultAgentID: "main", MainKey: "main", MainSessionKey: "agent:main:main", Scope: "per-sender"},
		},
		Auth:   openclaw.HelloAuth{Role: "operator", Scopes: []string{openclaw.ScopeRead}},
		Policy: openclaw.Policy{MaxPayload: 1, MaxBufferedBytes: 1, TickIntervalMs: 1},
	}
}

// Every payload of ours is what the published schema has for it.
func TestFramesMatchTheSchema(t *testing.T) {
	expected := int64(5000)
	var c schematest.Conversation
	c.Sent([]byte(`{"type":"req","id":"1","method":"connect","params":{}}`))
	for _, payload := range []any{
		openclaw.Response{Type: openclaw.TypeResponse, ID: "1", OK: true, Payload: hello()},
		openclaw.Event{Type: openclaw.TypeEvent, Event: openclaw.EventChallenge, Payload: openclaw.Challenge{Nonce: "n", TS: 1}},
		openclaw.Event{Type: openclaw.TypeEvent, Event: openclaw.EventTick, Payload: openclaw.Tick{TS: 1}, Seq: 3},
		openclaw.Event{Type: openclaw.TypeEvent, Event: openclaw.EventShutdown, Payload: openclaw.Shutdown{Reason: "restart", RestartExpectedMs: &expected}},
		openclaw.Event{Type: openclaw.TypeEvent, Event: openclaw.EventPresence, Payload: openclaw.PresenceEvent{Presence: hello().Snapshot.Presence}},
		refusal(openclaw.UnknownMethod("nope")), refusal(openclaw.MissingScope(openclaw.ScopeRead)), refusal(openclaw.Starting()),
		refusal(openclaw.TokenMismatch("no")), refusal(openclaw.TokenMissing()), refusal(openclaw.RateLimited(time.Second)),
		refusal(openclaw.ProtocolMismatch(openclaw.ConnectParams{})), refusal(openclaw.Internal()), refusal(openclaw.OriginNotAllowed("x")),
	} {
		b, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		c.Received(t, b)
	}
}

func refusal(e *openclaw.Error) openclaw.Response {
	return openclaw.Response{Type: openclaw.TypeResponse, ID: "2", Error: e}
}

// The shapes of errors that clients branch on, as measured on OpenClaw's own
// gateway.
func TestErrorShapes(t *testing.T) {
	for _, tt := range []struct {
		err  *openclaw.Error
		want string
	}{
		{openclaw.TokenMismatch("x"), `{"code":"INVALID_REQUEST","message":"unauthorized: gateway token mismatch (x)","details":{"code":"AUTH_TOKEN_MISMATCH","authReason":"token_mismatch","canRetryWithDeviceToken":false,"recommendedNextStep":"update_auth_credentials"}}`},
		{openclaw.MissingScope("operator.read"), `{"code":"FORBIDDEN","message":"missing scope: operator.read","details":{"code":"MISSING_SCOPE","missingScope":"operator.read","requiredScopes":["operator.read"]}}`},
		{openclaw.UnknownMethod("nope.method"), `{"code":"INVALID_REQUEST","message":"unknown method: nope.method"}`},
		{openclaw.Starting(), `{"code":"UNAVAILABLE","message":"gateway starting; retry shortly","details":{"reason":"startup-sidecars"},"retryable":true,"retryAfterMs":500}`},
		{openclaw.InvalidHandshake(), `{"code":"INVALID_REQUEST","message":"invalid handshake: first request must be connect"}`},
		{openclaw.RateLimited(1500 * time.Millisecond), `{"code":"INVALID_REQUEST","message":"unauthorized: too many failed authentication attempts (retry later)","details":{"code":"AUTH_RATE_LIMITED","authReason":"rate_limited","canRetryWithDeviceToken":false,"recommendedNextStep":"wait_then_retry"},"retryable":true,"retryAfterMs":1500}`},
	} {
		got, err := json.Marshal(tt.err)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	var d struct{ Details openclaw.ProtocolDetails }
	b, _ := json.Marshal(openclaw.ProtocolMismatch(openclaw.ConnectParams{MinProtocol: 5, MaxProtocol: 6}))
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	if want := (openclaw.ProtocolDetails{Code: "PROTOCOL_MISMATCH", ClientMinProtocol: 5, ClientMaxProtocol: 6, ExpectedProtocol: 4, MinimumProbeProtocol: 3}); d.Details != want {
		t.Errorf("got %+v, want %+v", d.Details, want)
	}
}

type item struct {
	Name string `json:"name" oc:"required,min=1"`
}

type embedded struct {
	SessionKey string `json:"sessionKey" oc:"required,min=1,max=5"`
}

type params struct {
	embedded
	Message string                    `json:"message" oc:"required"`
	Mode    string                    `json:"mode,omitempty" oc:"oneof=steer|queue"`
	Limit   *int                      `json:"limit,omitempty" oc:"min=1,max=1000"`
	Ratio   float64                   `json:"ratio,omitempty"`
	Deep    bool                      `json:"deep,omitempty"`
	Items   []item                    `json:"items,omitempty" oc:"max=2"`
	Keys    []string                  `json:"keys,omitempty" oc:"min=1,each=2"`
	Label   openclaw.Optional[string] `json:"label,omitempty" oc:"max=3"`
	Any     json.RawMessage           `json:"any,omitempty"`
}

func TestDecode(t *testing.T) {
	const ok = `"sessionKey":"main","message":"hi"`
	for _, tt := range []struct{ in, want string }{
		{`{` + ok + `}`, ""},
		{`{` + ok + `,"limit":1e3,"ratio":0.5,"deep":true,"items":[{"name":"a"}],"keys":["ab"],"any":{"x":[1]},"label":null}`, ""},
		{``, "must have required property 'sessionKey'; must have required property 'message'"},
		{`null`, "must have required property 'sessionKey'; must have required property 'message'"},
		{`[]`, "must be object"},
		{`{"sessionKey":"main"}`, "must have required property 'message'"},
		{`{` + ok + `,"foo":1}`, "at root: unexpected property 'foo'"},
		{`{` + ok + `,"MESSAGE":"x"}`, "at root: unexpected property 'MESSAGE'"},
		{`{"sessionKey":"","message":"hi"}`, "at /sessionKey: must NOT have fewer than 1 characters"},
		{`{"sessionKey":"主会话主会话","message":"hi"}`, "at /sessionKey: must NOT have more than 5 characters"},
		{`{"sessionKey":"主会话主会","message":"hi"}`, ""},
		{`{"sessionKey":"main","message":null}`, "at /message: must be string"},
		{`{"sessionKey":"main","message":7}`, "at /message: must be string"},
		{`{"sessionKey":"main","message":"a\u0000b"}`, "at /message: must NOT have the character U+0000"},
		{`{` + ok + `,"mode":"now"}`, "at /mode: must be equal to one of the allowed values (steer, queue)"},
		{`{` + ok + `,"limit":0}`, "at /limit: must be >= 1"},
		{`{` + ok + `,"limit":1001}`, "at /limit: must be <= 1000"},
		{`{` + ok + `,"limit":1.5}`, "at /limit: must be integer"},
		{`{` + ok + `,"limit":1e300}`, "at /limit: must be integer"},
		{`{` + ok + `,"limit":"5"}`, "at /limit: must be integer"},
		{`{` + ok + `,"limit":null}`, "at /limit: must be integer"},
		{`{` + ok + `,"ratio":"x"}`, "at /ratio: must be number"},
		{`{` + ok + `,"deep":1}`, "at /deep: must be boolean"},
		{`{` + ok + `,"items":[{"name":"a","b":1}]}`, "at /items/0: unexpected property 'b'"},
		{`{` + ok + `,"items":[{"name":"a"},{}]}`, "at /items/1: must have required property 'name'"},
		{`{` + ok + `,"items":[{},{},{}]}`, "at /items: must NOT have more than 2 items"},
		{`{` + ok + `,"items":{}}`, "at /items: must be array"},
		{`{` + ok + `,"keys":[]}`, "at /keys: must NOT have fewer than 1 items"},
		{`{` + ok + `,"keys":["ab","c"]}`, "at /keys/1: must NOT have fewer than 2 characters"},
		{`{` + ok + `,"label":"long"}`, "at /label: must NOT have more than 3 characters"},
	} {
		t.Run(tt.in, func(t *testing.T) {
			_, err := openclaw.Decode[params]("chat.send", json.RawMessage(tt.in))
			got := ""
			if err != nil {
				if err.Code != openclaw.CodeInvalidRequest {
					t.Errorf("code %s", err.Code)
				}
				got = err.Message
			}
			want := ""
			if tt.want != "" {
				want = "invalid chat.send params: " + tt.want
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	got, err := openclaw.Decode[params]("m", json.RawMessage(`{"sessionKey":"main","message":"a","message":"b","limit":1e1,"label":null,"any":[ 1 ],"items":[{"name":"n"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	limit := 10
	want := params{
		embedded: embedded{"main"}, Message: "b", Limit: &limit, Label: openclaw.Optional[string]{Set: true, Null: true},
		Any: json.RawMessage(`[ 1 ]`), Items: []item{{"n"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(params{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What the published schema accepts as connect's parameters we accept, and
// what it refuses we refuse.
func TestConnectParamsMatchTheSchema(t *testing.T) {
	const ok = `"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"linux","mode":"cli"}`
	for _, in := range []string{
		`{` + ok + `}`,
		`{` + ok + `,"caps":[],"auth":{"token":"x"},"role":"operator","scopes":["operator.read"],"locale":"zh","userAgent":"x","pathEnv":"p"}`,
		`{` + ok + `,"device":{"id":"i","publicKey":"k","signature":"s","signedAt":1,"nonce":"n"}}`,
		`{` + ok + `,"device":{"id":"i","publicKey":"k","signature":"s","signedAt":-1,"nonce":"n"}}`,
		`{` + ok + `,"device":{"id":"i"}}`,
		`{` + ok + `,"auth":{"secret":"x"}}`,
		`{` + ok + `,"role":""}`,
		`{` + ok + `,"caps":[""]}`,
		`{` + ok + `,"caps":"x"}`,
		`{` + ok + `,"foo":1}`,
		`{"minProtocol":4,"maxProtocol":4}`,
		`{"minProtocol":0,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"linux","mode":"cli"}}`,
		`{"minProtocol":4,"maxProtocol":4,"client":{"id":"netscape","version":"1","platform":"linux","mode":"cli"}}`,
		`{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"linux","mode":"operator"}}`,
		`{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"","platform":"linux","mode":"cli"}}`,
		`{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"linux","mode":"cli","x":1}}`,
		`[]`, `7`,
	} {
		schema := schematest.Valid(t, "ConnectParams", []byte(in))
		_, ours := openclaw.Decode[openclaw.ConnectParams](openclaw.MethodConnect, json.RawMessage(in))
		if (schema == nil) != (ours == nil) {
			t.Errorf("%s: the schema says %v, we say %v", in, schema, ours)
		}
	}
}

func device(t *testing.T, p *openclaw.ConnectParams, version, nonce string, at time.Time) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pub)
	d := &openclaw.Device{ID: hex.EncodeToString(sum[:]), PublicKey: base64.RawURLEncoding.EncodeToString(pub), SignedAt: at.UnixMilli(), Nonce: nonce}
	text := fmt.Sprintf("%s|%s|%s|%s|%s|%s|%d|%s|%s", version, d.ID, p.Client.ID, p.Client.Mode, p.Role, strings.Join(p.Scopes, ","), d.SignedAt, p.Auth.Token, nonce)
	if version == "v3" {
		text += "|" + strings.ToLower(p.Client.Platform) + "|" + strings.ToLower(p.Client.DeviceFamily)
	}
	d.Signature = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text)))
	p.Device = d
}

func TestVerifyDevice(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		version string
		at      time.Time
		change  func(*openclaw.ConnectParams)
		want    string
	}{
		"v3":             {"v3", now, func(*openclaw.ConnectParams) {}, ""},
		"v2":             {"v2", now, func(*openclaw.ConnectParams) {}, ""},
		"v1":             {"v1", now, func(*openclaw.ConnectParams) {}, openclaw.DetailDeviceSignature},
		"other scopes":   {"v3", now, func(p *openclaw.ConnectParams) { p.Scopes = append(p.Scopes, "operator.admin") }, openclaw.DetailDeviceSignature},
		"other token":    {"v3", now, func(p *openclaw.ConnectParams) { p.Auth.Token = "x" }, openclaw.DetailDeviceSignature},
		"other platform": {"v3", now, func(p *openclaw.ConnectParams) { p.Client.Platform = "x" }, openclaw.DetailDeviceSignature},
		"other nonce":    {"v3", now, func(p *openclaw.ConnectParams) { p.Device.Nonce = "x" }, openclaw.DetailDeviceNonce},
		"other id":       {"v3", now, func(p *openclaw.ConnectParams) { p.Device.ID = "x" }, openclaw.DetailDeviceID},
		"no key":         {"v3", now, func(p *openclaw.ConnectParams) { p.Device.PublicKey = "x" }, openclaw.DetailDeviceKey},
		"no signature":   {"v3", now, func(p *openclaw.ConnectParams) { p.Device.Signature = "!" }, openclaw.DetailDeviceSignature},
		"old":            {"v3", now.Add(-time.Hour), func(*openclaw.ConnectParams) {}, openclaw.DetailDeviceExpired},
		"from tomorrow":  {"v3", now.Add(time.Hour), func(*openclaw.ConnectParams) {}, openclaw.DetailDeviceExpired},
	} {
		t.Run(name, func(t *testing.T) {
			p := openclaw.ConnectParams{
				Client: openclaw.Client{ID: "cli", Mode: "cli", Platform: "Linux", DeviceFamily: "PC"}, Role: "operator",
				Scopes: []string{"operator.read", "operator.write"}, Auth: &openclaw.Auth{Token: "secret"},
			}
			device(t, &p, tt.version, "nonce", tt.at)
			tt.change(&p)
			err := openclaw.VerifyDevice(p, "nonce", now)
			got := ""
			if err != nil {
				got = err.Details.(openclaw.Details).Code
			}
			if got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"sessionKey":"main","message":"hi","items":[{"name":"x"}],"limit":3}`)
	f.Add(`{"label":null,"keys":[],"any":{}}`)
	f.Add(`[[[`)
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			t.Skip()
		}
		p, err := openclaw.Decode[params]("m", json.RawMessage(text))
		if err == nil && (p.SessionKey == "" || p.Limit != nil && *p.Limit > 1000) {
			t.Errorf("%s was accepted as %+v", text, p)
		}
	})
}
