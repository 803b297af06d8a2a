package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
	"sgclaw/internal/llm"
)

const key = "sk-test-0123456789abcdef"

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

func model(t *testing.T, base string, change func(*Config)) *Model {
	t.Helper()
	cfg := Config{APIKey: key, BaseURL: base, Model: "some-model", IdleTimeout: 10 * time.Second}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// say writes to a client that may be gone.
func say(w http.ResponseWriter, s string) {
	if _, err := io.WriteString(w, s); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// stream answers every request with the given bytes as an event stream.
func stream(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, body)
	}
}

func lines(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String()
}

func delta(d, finish string) string {
	if finish == "" {
		finish = "null"
	} else {
		finish = `"` + finish + `"`
	}
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"some-model-1","choices":[{"index":0,"delta":` + d + `,"finish_reason":` + finish + `}]}`
}

const usage = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"some-model-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}`

func hello(ctx context.Context, m *Model) (llm.Response, error) {
	return m.Chat(ctx, llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "hello"}}}, nil)
}

func TestRequestOnTheWire(t *testing.T) {
	var got map[string]any
	var auth, path string
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		auth, path = r.Header.Get("Authorization"), r.URL.Path
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		stream(lines(delta(`{"content":"ok"}`, "stop"), usage, "[DONE]"))(w, r)
	})
	m := model(t, base, nil)
	_, err := m.Chat(t.Context(), llm.Request{
		System: "be brief",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "look", Images: []llm.Image{{MIME: "image/png", Data: []byte{1, 2}}}},
			{Role: llm.RoleAssistant, Calls: []llm.ToolCall{{ID: "a", Name: "t", Arguments: "{}"}, {ID: "b", Name: "t", Arguments: "{}"}}},
			{Role: llm.RoleTool, CallID: "a", Text: "one", Images: []llm.Image{{MIME: "image/jpeg", Data: []byte{3}}}},
			{Role: llm.RoleTool, CallID: "b", Text: "two"},
			{Role: llm.RoleAssistant, Text: "hm"},
			{Role: llm.RoleUser, Text: "go on"},
		},
		Tools:     []llm.Tool{{Name: "t", Description: "d", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}},
		MaxTokens: 77, Temperature: 0.25, Stop: []string{"END"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "Bearer "+key || path != "/v1/chat/completions" {
		t.Errorf("authorization %q, path %q", auth, path)
	}
	call := func(id string) any {
		return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "t", "arguments": "{}"}}
	}
	picture := func(u string) any {
		return map[string]any{"type": "image_url", "image_url": map[string]any{"url": u}}
	}
	want := map[string]any{
		"model": "some-model", "stream": true, "stream_options": map[string]any{"include_usage": true},
		"max_tokens": 77.0, "temperature": 0.25, "stop": []any{"END"},
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{
			"name": "t", "description": "d", "parameters": map[string]any{"type": "object", "properties": map[string]any{}},
		}}},
		"messages": []any{
			map[string]any{"role": "system", "content": "be brief"},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "look"}, picture("data:image/png;base64,AQI=")}},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call("a"), call("b")}},
			map[string]any{"role": "tool", "tool_call_id": "a", "content": "one"},
			map[string]any{"role": "tool", "tool_call_id": "b", "content": "two"},
			map[string]any{"role": "user", "content": []any{picture("data:image/jpeg;base64,Aw==")}},
			map[string]any{"role": "assistant", "content": "hm"},
			map[string]any{"role": "user", "content": "go on"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestReasoningModelsGetNoTemperature(t *testing.T) {
	m := model(t, DefaultBaseURL, func(c *Config) { c.Model = "o3-mini" })
	p, err := m.params(llm.Request{MaxTokens: 5, Temperature: 0.5, Stop: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"temperature", "stop\"", "\"max_tokens"} {
		if strings.Contains(string(b), s) {
			t.Errorf("request has %s: %s", s, b)
		}
	}
	if !strings.Contains(string(b), `"max_completion_tokens":5`) {
		t.Errorf("no limit: %s", b)
	}
}

func TestReplies(t *testing.T) {
	tool := func(pieces ...string) string { return `{"tool_calls":[` + strings.Join(pieces, ",") + `]}` }
	one := llm.ToolCall{ID: "x1", Name: "go", Arguments: `{"a":1}`}
	two := llm.ToolCall{ID: "x2", Name: "go", Arguments: `{"b":2}`}
	for _, tt := range []struct {
		name string
		body string
		want llm.Response
		anon bool // ids are made up by us
	}{
		{
			name: "text in pieces with usage",
			body: lines(delta(`{"role":"assistant","content":""}`, ""), delta(`{"content":"你"}`, ""), delta(`{"content":"好"}`, ""), delta(`{}`, "stop"), usage, "[DONE]"),
			want: llm.Response{Text: "你好", Finish: llm.FinishStop, Model: "some-model-1", Usage: agent.Usage{PromptTokens: 10, CompletionTokens: 4, TotalTokens: 14}},
		},
		{
			name: "no usage, comments, CRLF, no space after the colon",
			body: ": ping\r\n\r\ndata:" + delta(`{"content":"a"}`, "") + "\r\n\r\n: ping\n\nevent: x\ndata: " + delta(`{"content":"b"}`, "stop") + "\n\ndata: [DONE]\n\n",
			want: llm.Response{Text: "ab", Finish: llm.FinishStop, Model: "some-model-1"},
		},
		{
			name: "two calls in pieces",
			body: lines(
				delta(tool(`{"index":0,"id":"x1","type":"function","function":{"name":"go","arguments":""}}`), ""),
				delta(tool(`{"index":0,"function":{"arguments":"{\"a\""}}`), ""),
				delta(tool(`{"index":1,"id":"x2","type":"function","function":{"name":"go","arguments":"{\"b\":"}}`), ""),
				delta(tool(`{"index":0,"function":{"arguments":":1}"}}`, `{"index":1,"function":{"arguments":"2}"}}`), ""),
				delta(`{}`, "tool_calls"), "[DONE]"),
			want: llm.Response{Calls: []llm.ToolCall{one, two}, Finish: llm.FinishToolCalls, Model: "some-model-1"},
		},
		{
			name: "every call numbered 0, id and name repeated, finish stop",
			body: lines(
				delta(tool(`{"index":0,"id":"x1","function":{"name":"go","arguments":"{\"a\""}}`), ""),
				delta(tool(`{"index":0,"id":"x1","function":{"name":"go","arguments":":1}"}}`), ""),
				delta(tool(`{"index":0,"id":"x2","function":{"name":"go","arguments":"{\"b\":2}"}}`), ""),
				delta(`{}`, "stop"), "[DONE]"),
			want: llm.Response{Calls: []llm.ToolCall{one, two}, Finish: llm.FinishToolCalls, Model: "some-model-1"},
		},
		{
			name: "no index",
			body: lines(
				delta(tool(`{"id":"x1","function":{"name":"go","arguments":"{\"a\""}}`), ""),
				delta(tool(`{"function":{"arguments":":1}"}}`), ""),
				delta(tool(`{"id":"x2","function":{"name":"go","arguments":"{\"b\":2}"}}`), "tool_calls"), "[DONE]"),
			want: llm.Response{Calls: []llm.ToolCall{one, two}, Finish: llm.FinishToolCalls, Model: "some-model-1"},
		},
		{
			name: "no ids",
			anon: true,
			body: lines(delta(tool(`{"index":0,"id":"","function":{"name":"go","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"","function":{"name":"go","arguments":"{\"b\":2}"}}`), "stop"), "[DONE]"),
			want: llm.Response{Calls: []llm.ToolCall{{Name: "go", Arguments: one.Arguments}, {Name: "go", Arguments: two.Arguments}}, Finish: llm.FinishToolCalls, Model: "some-model-1"},
		},
		{
			name: "arguments as an object",
			body: lines(delta(tool(`{"index":0,"id":"x1","function":{"name":"go","arguments":{"a":1}}}`), "tool_calls"), "[DONE]"),
			want: llm.Response{Calls: []llm.ToolCall{one}, Finish: llm.FinishToolCalls, Model: "some-model-1"},
		},
		{
			name: "end mark without finish reason",
			body: lines(delta(`{"content":"a"}`, ""), "[DONE]"),
			want: llm.Response{Text: "a", Finish: llm.FinishStop, Model: "some-model-1"},
		},
		{
			name: "finish reason without end mark",
			body: lines(delta(`{"content":"a"}`, "length")),
			want: llm.Response{Text: "a", Finish: llm.FinishLength, Model: "some-model-1"},
		},
		{
			name: "reasoning beside the text",
			body: lines(delta(`{"reasoning_content":"hm, "}`, ""), delta(`{"reasoning_content":"so","content":null}`, ""), delta(`{"content":"a"}`, "stop"), "[DONE]"),
			want: llm.Response{Text: "a", Reasoning: "hm, so", Finish: llm.FinishStop, Model: "some-model-1"},
		},
		{
			name: "reasoning in the text",
			body: lines(delta(`{"content":"<think>\nhm\n</think>\n\na"}`, "stop"), "[DONE]"),
			want: llm.Response{Text: "a", Reasoning: "hm", Finish: llm.FinishStop, Model: "some-model-1"},
		},
		{
			name: "refusal",
			body: lines(delta(`{"refusal":"I can't"}`, "stop"), "[DONE]"),
			want: llm.Response{Text: "I can't", Finish: llm.FinishStop, Model: "some-model-1"},
		},
		{
			name: "filtered after some text",
			body: lines(delta(`{"content":"a"}`, "content_filter"), "[DONE]"),
			want: llm.Response{Text: "a", Finish: llm.FinishFilter, Model: "some-model-1"},
		},
		{
			name: "nothing at all",
			body: lines(delta(`{"content":""}`, "stop"), "[DONE]"),
			want: llm.Response{Finish: llm.FinishStop, Model: "some-model-1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := model(t, serve(t, stream(tt.body)), nil)
			var pieces strings.Builder
			got, err := m.Chat(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "x"}}}, func(s string) { pieces.WriteString(s) })
			if err != nil {
				t.Fatal(err)
			}
			if tt.anon {
				ids := map[string]bool{}
				for i := range got.Calls {
					ids[got.Calls[i].ID] = true
					got.Calls[i].ID = ""
				}
				if len(ids) != len(got.Calls) || ids[""] {
					t.Errorf("ids %v", ids)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
			if !strings.Contains(tt.body, "think") && !strings.Contains(tt.body, "refusal") && pieces.String() != got.Text {
				t.Errorf("pieces %q, text %q", pieces.String(), got.Text)
			}
		})
	}
}

func TestPlainAnswer(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		say(w, `{"id":"c","model":"m2","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"hm","tool_calls":[{"id":"x","type":"function","function":{"name":"go","arguments":"{}"}}]}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	})
	got, err := hello(t.Context(), model(t, base, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := llm.Response{Text: "hm", Model: "m2", Finish: llm.FinishToolCalls, Calls: []llm.ToolCall{{ID: "x", Name: "go", Arguments: "{}"}}, Usage: agent.Usage{PromptTokens: 3, CompletionTokens: 2, TotalTokens: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
}

func TestFailuresAreClassed(t *testing.T) {
	answer := func(status int, header http.Header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range header {
				w.Header()[k] = v
			}
			w.WriteHeader(status)
			say(w, body)
		}
	}
	openaiError := func(code, typ, msg string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%q}}`, msg, typ, code)
	}
	for _, tt := range []struct {
		name string
		h    http.HandlerFunc
		want llm.Error
	}{
		{"rate limit in seconds", answer(429, http.Header{"Retry-After": {"7"}}, openaiError("rate_limit_exceeded", "requests", "slow down")), llm.Error{Class: llm.ClassRateLimit, Status: 429, RetryAfter: 7 * time.Second, Message: "slow down"}},
		{"rate limit in milliseconds", answer(429, http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, ""), llm.Error{Class: llm.ClassRateLimit, Status: 429, RetryAfter: 250 * time.Millisecond, Message: "Too Many Requests"}},
		{"quota", answer(429, nil, openaiError("insufficient_quota", "insufficient_quota", "pay")), llm.Error{Class: llm.ClassQuota, Status: 429, Message: "pay"}},
		{"balance", answer(402, nil, openaiError("", "", "Insufficient Balance")), llm.Error{Class: llm.ClassQuota, Status: 402, Message: "Insufficient Balance"}},
		{"overloaded", answer(503, nil, "<html>busy</html>"), llm.Error{Class: llm.ClassOverloaded, Status: 503, Message: "Service Unavailable"}},
		{"overloaded 529", answer(529, nil, `{"error":"busy"}`), llm.Error{Class: llm.ClassOverloaded, Status: 529, Message: "busy"}},
		{"conflict", answer(409, nil, ""), llm.Error{Class: llm.ClassOverloaded, Status: 409, Message: "Conflict"}},
		{"wrong key, repeated by the service", answer(401, nil, openaiError("invalid_api_key", "", "Incorrect API key provided: "+key+" or sk-tes***cdef.")), llm.Error{Class: llm.ClassAuth, Status: 401, Message: "Incorrect API key provided: [key] or [key]"}},
		{"context, by code", answer(400, nil, openaiError("context_length_exceeded", "invalid_request_error", "too long")), llm.Error{Class: llm.ClassContextTooLong, Status: 400, Message: "too long"}},
		{"context, by text", answer(400, nil, `{"message":"This model's maximum context length is 4096 tokens."}`), llm.Error{Class: llm.ClassContextTooLong, Status: 400, Message: "This model's maximum context length is 4096 tokens."}},
		{"body too large", answer(413, nil, ""), llm.Error{Class: llm.ClassContextTooLong, Status: 413, Message: "Request Entity Too Large"}},
		{"content policy", answer(400, nil, openaiError("content_filter", "", "no")), llm.Error{Class: llm.ClassContentPolicy, Status: 400, Message: "no"}},
		{"bad request", answer(400, nil, openaiError("", "invalid_request_error", "no such parameter")), llm.Error{Class: llm.ClassBadRequest, Status: 400, Message: "no such parameter"}},
		{"no such model", answer(404, nil, openaiError("model_not_found", "", "no model")), llm.Error{Class: llm.ClassBadRequest, Status: 404, Message: "no model"}},
		{"web page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			say(w, "<html>log in</html>")
		}, llm.Error{Class: llm.ClassMalformed, Status: 200, Message: "the answer is a web page, not a model's reply; check the base URL"}},
		{"garbage", stream("what is this\n\n"), llm.Error{Class: llm.ClassMalformed, Message: "the answer is not a stream of completion chunks"}},
		{"garbage chunk", stream(lines(delta(`{"content":"a"}`, ""), `{"id":`)), llm.Error{Class: llm.ClassMalformed, Message: "a chunk of the stream is not JSON of a completion"}},
		{"plain garbage", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			say(w, `{"hello":1}`)
		}, llm.Error{Class: llm.ClassMalformed, Message: "the answer is neither a stream nor a completion"}},
		{"plain error with status 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			say(w, `{"error":{"message":"busy","code":503}}`)
		}, llm.Error{Class: llm.ClassOverloaded, Message: "busy"}},
		{"empty", stream(""), llm.Error{Class: llm.ClassNetwork, Message: "the stream broke off"}},
		{"ended half-way", stream(lines(delta(`{"content":"half"}`, ""))), llm.Error{Class: llm.ClassNetwork, Message: "the stream broke off"}},
		{"cut half-way", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			say(w, lines(delta(`{"content":"half"}`, ""))+"data: {\"id\"")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, llm.Error{Class: llm.ClassNetwork, Message: "unexpected EOF"}},
		{"error in the stream", stream(lines(delta(`{"content":"half"}`, ""), openaiError("server_error", "server_error", "sorry"))), llm.Error{Class: llm.ClassOverloaded, Message: "sorry"}},
		{"rate limit in the stream", stream(lines(`{"error":{"message":"slow","code":429}}`)), llm.Error{Class: llm.ClassRateLimit, Message: "slow"}},
		{"filtered", stream(lines(delta(`{}`, "content_filter"), "[DONE]")), llm.Error{Class: llm.ClassContentPolicy, Message: "the service withheld the reply"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			base := serve(t, func(w http.ResponseWriter, r *http.Request) { calls++; tt.h(w, r) })
			_, err := hello(t.Context(), model(t, base, nil))
			e := llm.AsError(err)
			if e == nil {
				t.Fatalf("error %v, want *llm.Error", err)
			}
			if diff := cmp.Diff(tt.want, *e); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if calls != 1 {
				t.Errorf("%d requests, want 1: the library must not retry", calls)
			}
			if s := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(s, key) {
				t.Errorf("the key is in the error: %s", s)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	base := srv.URL + "/v1?token=secret-in-url"
	srv.Close()
	_, err := hello(t.Context(), model(t, base, nil))
	e := llm.AsError(err)
	if e == nil || e.Class != llm.ClassNetwork {
		t.Fatalf("error %v, want class network", err)
	}
	if strings.Contains(err.Error(), "secret-in-url") {
		t.Errorf("the address is in the error: %v", err)
	}
}

func TestWholeReplySurvivesALostEnd(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, lines(delta(`{"content":"all"}`, "stop")))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	got, err := hello(t.Context(), model(t, base, nil))
	if err != nil || got.Text != "all" {
		t.Errorf("got %q, %v", got.Text, err)
	}
}

func TestSilence(t *testing.T) {
	for name, first := range map[string]string{"before the first chunk": "", "between chunks": lines(delta(`{"content":"a"}`, ""))} {
		t.Run(name, func(t *testing.T) {
			base := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				say(w, first)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			_, err := hello(t.Context(), model(t, base, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond }))
			if e := llm.AsError(err); e == nil || e.Class != llm.ClassNetwork || e.Message != "nothing came for 50ms" {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestSlowButAliveIsNotSilence(t *testing.T) {
	const n = 8
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range n {
			say(w, ": keep-alive\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		say(w, lines(delta(`{"content":"a"}`, "stop"), "[DONE]"))
	})
	if _, err := hello(t.Context(), model(t, base, func(c *Config) { c.IdleTimeout = 600 * time.Millisecond })); err != nil {
		t.Error(err)
	}
}

func TestCancelIsImmediate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, lines(delta(`{"content":"a"}`, "")))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var at time.Time
	_, err := model(t, base, nil).Chat(ctx, llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "x"}}}, func(string) { at = time.Now(); cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if took := time.Since(at); took > time.Second {
		t.Errorf("cancelling took %s", took)
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	for _, cfg := range []Config{{}, {Model: "m", BaseURL: "nothing"}, {Model: "m", BaseURL: "ftp://x/"}, {Model: "m", BaseURL: "http://\x7f/"}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestInfo(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		cfg     Config
		context int
		vision  bool
	}{
		{Config{Model: "gpt-4o-mini"}, 128_000, true},
		{Config{Model: "gpt-4"}, 8_192, false},
		{Config{Model: "openai/gpt-4.1-mini"}, 1_047_576, true},
		{Config{Model: "DeepSeek-Chat"}, 128_000, false},
		{Config{Model: "unheard-of"}, 32_768, false},
		{Config{Model: "unheard-of", MaxContextTokens: 5, Vision: &yes}, 5, true},
	} {
		m, err := New(tt.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Info(); got.MaxContextTokens != tt.context || got.SupportsVision != tt.vision || got.Name != "openai" || got.Model != tt.cfg.Model {
			t.Errorf("%s: %+v", tt.cfg.Model, got)
		}
	}
}
