// Package schematest holds frames to the schema that OpenClaw publishes in
// npm's @openclaw/gateway-protocol. The package is fetched with npm the first
// time that a test needs it, at the version that
// internal/openclaw/testdata/schema locks.
package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"sgclaw/internal/openclaw"
)

// Check fails the test if a frame is not one that the schema allows, or an
// event's payload, or the details of an error, are not what it has for them.
// For the payloads of responses a Conversation is needed.
func Check(t testing.TB, frame []byte) {
	t.Helper()
	new(Conversation).Received(t, frame)
}

// Conversation checks the frames of one connection. It remembers which
// request had which method. It is safe for concurrent use.
type Conversation struct {
	mu      sync.Mutex
	methods map[string]string // by request id
}

// Sent takes note of a request. It checks nothing: tests send bad frames on
// purpose.
func (c *Conversation) Sent(frame []byte) {
	var r openclaw.Request
	if json.Unmarshal(frame, &r) != nil || r.Type != openclaw.TypeRequest {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.methods == nil {
		c.methods = map[string]string{}
	}
	c.methods[r.ID] = r.Method
}

// envelope is what a frame from a gateway may hold.
type envelope struct {
	Type    string
	ID      string
	OK      bool
	Event   string
	Payload json.RawMessage
	Error   *struct{ Details json.RawMessage }
}

// Received checks a frame that the gateway sent.
func (c *Conversation) Received(t testing.TB, frame []byte) {
	t.Helper()
	var e envelope
	if err := json.Unmarshal(frame, &e); err != nil {
		t.Errorf("frame %s: %v", shown(frame), err)
		return
	}
	switch e.Type {
	case openclaw.TypeEvent:
		Validate(t, "EventFrame", frame)
		if name := eventDefinition(e.Event); name != "" {
			Validate(t, name, prepare(name, e.Payload))
		}
		if e.Event == openclaw.EventPresence {
			var p struct{ Presence []json.RawMessage }
			if err := json.Unmarshal(e.Payload, &p); err != nil || p.Presence == nil {
				t.Errorf("presence %s: %v", shown(e.Payload), err)
			}
			for _, entry := range p.Presence {
				Validate(t, "PresenceEntry", entry)
			}
		}
	case openclaw.TypeResponse:
		Validate(t, "ResponseFrame", frame)
		c.response(t, e)
	default:
		t.Errorf("frame %s is neither event nor response", shown(frame))
	}
}

func (c *Conversation) response(t testing.TB, e envelope) {
	t.Helper()
	c.mu.Lock()
	method := c.methods[e.ID]
	c.mu.Unlock()
	if e.OK == (e.Error != nil) {
		t.Errorf("response to %s: ok is %v, and error is %v", method, e.OK, e.Error)
		return
	}
	if !e.OK {
		var d struct{ Code string }
		if json.Unmarshal(e.Error.Details, &d) == nil && d.Code == openclaw.DetailMissingScope {
			Validate(t, "MissingScopeErrorDetails", e.Error.Details)
		}
		return
	}
	if name := resultDefinition(method); name != "" {
		Validate(t, name, e.Payload)
	}
}

// events are the schema's definitions of payloads of events.
func eventDefinition(event string) string {
	switch event {
	case openclaw.EventTick:
		return "TickEvent"
	case openclaw.EventShutdown:
		return "ShutdownEvent"
	case "chat":
		return "ChatEvent"
	case "agent":
		return "AgentEvent"
	case "session.approval":
		return "SessionApprovalEvent"
	case "session.operation":
		return "SessionOperationEvent"
	case "question.resolved":
		return "QuestionResolvedEvent"
	}
	return ""
}

// prepare leaves out of a payload what OpenClaw's own gateway sends though
// its schema does not have it.
func prepare(definition string, payload json.RawMessage) json.RawMessage {
	if definition != "AgentEvent" {
		return payload
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil {
		return payload
	}
	for _, extra := range []string{"sessionKey", "sessionId", "agentId"} {
		delete(members, extra)
	}
	b, err := json.Marshal(members)
	if err != nil {
		return payload
	}
	return b
}

// resultDefinition is the definition of the result of a method; empty if the
// schema has none. It names them after the methods: chat.message.get has
// ChatMessageGetResult.
func resultDefinition(method string) string {
	if method == openclaw.MethodConnect {
		return "HelloOk"
	}
	return defined(pascal(method) + "Result")
}

// ParamsDefinition is the definition of a method's parameters; empty if the
// schema has none.
func ParamsDefinition(method string) string {
	return defined(pascal(method) + "Params")
}

func pascal(method string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(method, func(r rune) bool { return r == '.' || r == '-' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func defined(name string) string {
	s, err := load()
	if err != nil || s.texts[name] == nil {
		return ""
	}
	return name
}

// Validate fails the test if a JSON text is not what the schema's definition
// of that name allows.
func Validate(t testing.TB, definition string, text []byte) {
	t.Helper()
	if err := Valid(t, definition, text); err != nil {
		t.Errorf("%s is not a %s: %v", shown(text), definition, err)
	}
}

// Valid is Validate that returns what is wrong.
func Valid(t testing.TB, definition string, text []byte) error {
	t.Helper()
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	schema, err := s.definition(definition)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

// Scope is the scope that the schema says a method needs; empty if the
// schema does not have the method.
func Scope(t testing.TB, method string) string {
	t.Helper()
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return s.scopes[method]
}

func shown(text []byte) string {
	if len(text) > 2000 {
		return string(text[:2000]) + "…"
	}
	return string(text)
}

// protocol is the published schema.
type protocol struct {
	scopes map[string]string

	mu       sync.Mutex
	texts    map[string]json.RawMessage // of the definitions; none refers to another
	compiled map[string]*jsonschema.Schema
}

const location = "https://openclaw.ai/protocol/"

// javascript compiles the schema's patterns, which are JavaScript's.
func javascript(pattern string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(pattern, regexp2.ECMAScript|regexp2.Unicode)
	return expression{re}, err
}

type expression struct{ *regexp2.Regexp }

// MatchString implements jsonschema.Regexp.
func (e expression) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return ok && err == nil
}

var load = sync.OnceValues(func() (*protocol, error) {
	path, err := fetch()
	if err != nil {
		return nil, fmt.Errorf("schema of OpenClaw's protocol: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var outline struct {
		Definitions map[string]json.RawMessage
		Methods     map[string]struct{ Scope string }
	}
	if err := json.Unmarshal(text, &outline); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &protocol{scopes: map[string]string{}, texts: outline.Definitions, compiled: map[string]*jsonschema.Schema{}}
	for name, m := range outline.Methods {
		p.scopes[name] = m.Scope
	}
	return p, nil
})

func (p *protocol) definition(name string) (*jsonschema.Schema, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.compiled[name]; ok {
		return s, nil
	}
	text, ok := p.texts[name]
	if !ok {
		return nil, fmt.Errorf("the schema has no definition %s", name)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseRegexpEngine(javascript)
	if err := c.AddResource(location+name, doc); err != nil {
		return nil, fmt.Errorf("definition %s: %w", name, err)
	}
	s, err := c.Compile(location + name)
	if err != nil {
		return nil, fmt.Errorf("definition %s: %w", name, err)
	}
	p.compiled[name] = s
	return s, nil
}

// fetch returns the path of the schema, which it has npm install if it is
// not there.
func fetch() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "internal", "openclaw", "testdata", "schema")
	modules := filepath.Join(dir, "node_modules")
	path := filepath.Join(modules, "@openclaw", "gateway-protocol", "protocol.schema.json")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("npm is missing, which fetches @openclaw/gateway-protocol once; install Node.js, or run `npm ci --ignore-scripts` in %s elsewhere and copy node_modules there", dir)
	}
	// Elsewhere first: several test binaries may be at it.
	work, err := os.MkdirTemp(dir, "node_modules-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(work, name), b, 0o600); err != nil {
			return "", err
		}
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
	}
	if err := os.Rename(filepath.Join(work, "node_modules"), modules); err != nil {
		if _, there := os.Stat(path); there != nil {
			return "", err
		}
	}
	return path, nil
}

// moduleRoot is the folder of go.mod above the test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the test")
		}
		dir = up
	}
	return "", err
}
