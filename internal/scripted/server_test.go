package scripted_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/scripted"
)

func start(t *testing.T, opt scripted.Options) (*scripted.Server, string) {
	t.Helper()
	s := scripted.New(slog.New(slog.DiscardHandler), opt)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func send(t *testing.T, method, url, key, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

const ask = `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"Open http://x.example/ and tell me the title"}]}],
"tools":[{"type":"function","function":{"name":"browser_action","parameters":{"enum":["navigate","getAomSnapshot"]}}}]`

// TestWire holds the stream to what OpenAI's looks like: field by field, in
// order, with usage in a chunk of its own when it was asked for.
func TestWire(t *testing.T) {
	_, base := start(t, scripted.Options{})
	status, body, header := send(t, http.MethodPost, base+"/v1/chat/completions", "", ask+`,"stream":true,"stream_options":{"include_usage":true}}`)
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("status %d, type %q: %s", status, header.Get("Content-Type"), body)
	}
	type chunk struct {
		ID, Object, Model string
		Created           int64
		Choices           []struct {
			Index int
			Delta struct {
				Role      string
				Content   *string
				ToolCalls []struct {
					Index    *int
					ID, Type string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			FinishReason *string `json:"finish_reason"`
		}
		Usage *struct {
			PromptTokens     int `json:"prompt_tokens"`
			CompletionTokens int `json:"completion_tokens"`
			TotalTokens      int `json:"total_tokens"`
		}
	}
	var chunks []chunk
	done := false
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			var c chunk
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			chunks = append(chunks, c)
		}
	}
	if !done || len(chunks) < 5 {
		t.Fatalf("%d chunks, done %v", len(chunks), done)
	}
	var content, args, name, id, finish string
	for i, c := range chunks {
		if c.ID != chunks[0].ID || c.Object != "chat.completion.chunk" || c.Model != "m" || c.Created == 0 {
			t.Errorf("chunk %d: %+v", i, c)
		}
		for _, ch := range c.Choices {
			if ch.Delta.Content != nil {
				content += *ch.Delta.Content
			}
			for _, tc := range ch.Delta.ToolCalls {
				if tc.Index == nil || *tc.Index != 0 {
					t.Errorf("chunk %d: tool call without index", i)
				}
				id, name, args = id+tc.ID, name+tc.Function.Name, args+tc.Function.Arguments
			}
			if ch.FinishReason != nil {
				finish += *ch.FinishReason
			}
		}
	}
	last := chunks[len(chunks)-1]
	if len(last.Choices) != 0 || last.Usage == nil || last.Usage.TotalTokens != last.Usage.PromptTokens+last.Usage.CompletionTokens {
		t.Errorf("last chunk %+v", last)
	}
	if chunks[0].Choices[0].Delta.Role != "assistant" || finish != "tool_calls" || name != "browser_action" || !strings.HasPrefix(id, "call_") {
		t.Errorf("role %q, finish %q, name %q, id %q", chunks[0].Choices[0].Delta.Role, finish, name, id)
	}
	if content != "Open http://x.example/." || args != `{"action":"navigate","params":{"url":"http://x.example/"}}` {
		t.Errorf("content %q, arguments %s", content, args)
	}

	status, body, _ = send(t, http.MethodPost, base+"/v1/chat/completions", "", ask+`}`)
	var whole struct {
		Object  string
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct{ Index *int } `json:"tool_calls"`
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage *struct{}
	}
	if err := json.Unmarshal([]byte(body), &whole); err != nil {
		t.Fatal(err)
	}
	if status != 200 || whole.Object != "chat.completion" || whole.Choices[0].Message.Content != content || whole.Choices[0].FinishReason != finish || whole.Choices[0].Message.ToolCalls[0].Index != nil || whole.Usage == nil {
		t.Errorf("plain answer: %d %s", status, body)
	}
}

func TestErrorsAndAdmin(t *testing.T) {
	s, base := start(t, scripted.Options{APIKey: "k", MaxBytes: 2000})
	for _, tt := range []struct {
		name, method, path, key, body string
		status                        int
		want                          string
	}{
		{"no key", http.MethodPost, "/v1/chat/completions", "", ask + "}", 401, "invalid_api_key"},
		{"wrong key", "GET", "/v1/models", "x", "", 401, "invalid_api_key"},
		{"models", "GET", "/v1/models", "k", "", 200, `"id":"scripted"`},
		{"not JSON", http.MethodPost, "/v1/chat/completions", "k", "{", 400, "could not parse"},
		{"no messages", http.MethodPost, "/v1/chat/completions", "k", "{}", 400, "could not parse"},
		{"too long", http.MethodPost, "/v1/chat/completions", "k", ask + `,"x":"` + strings.Repeat("a", 2000) + `"}`, 400, "context_length_exceeded"},
		{"no path", http.MethodPost, "/v1/responses", "k", "{}", 404, ""},
		{"bad fault", http.MethodPost, "/admin/faults", "", `{"status":1}`, 400, "neither a fault"},
		{"one fault", http.MethodPost, "/admin/faults", "", `{"kind":"status","n":2,"status":429,"code":"rate_limit_exceeded","message":"slow","retry_after_ms":5}`, 204, ""},
		{"a list", http.MethodPost, "/admin/faults", "", `[{"kind":"garbage"}]`, 204, ""},
		{"fault 1", http.MethodPost, "/v1/chat/completions", "k", ask + "}", 429, "slow"},
		{"fault 2", http.MethodPost, "/v1/chat/completions", "k", ask + "}", 429, "rate_limit_exceeded"},
		{"fault 3", http.MethodPost, "/v1/chat/completions", "k", ask + "}", 200, "garbage"},
		{"fine again", http.MethodPost, "/v1/chat/completions", "k", ask + "}", 200, "navigate"},
		{"health", "GET", "/healthz", "", "", 200, ""},
	} {
		status, body, _ := send(t, tt.method, base+tt.path, tt.key, tt.body)
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: status %d: %s", tt.name, status, body)
		}
	}
	_, body, _ := send(t, "GET", base+"/admin/stats", "", "")
	var got scripted.Stats
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := scripted.Stats{Requests: 7, Replies: 1, Faults: 3, TooLong: 1}
	if diff := cmp.Diff(want, got); diff != "" || s.Stats() != got {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestRepliesTakeTheirTime(t *testing.T) {
	_, base := start(t, scripted.Options{FirstToken: 20 * time.Millisecond, PerToken: time.Millisecond})
	began := time.Now()
	send(t, http.MethodPost, base+"/v1/chat/completions", "", ask+`,"stream":true}`)
	if took := time.Since(began); took < 25*time.Millisecond {
		t.Errorf("a slow reply took %s", took)
	}

	_, base = start(t, scripted.Options{FirstToken: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(ask+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		t.Errorf("status %d before its time: %v", resp.StatusCode, resp.Body.Close())
	}
}

func TestServe(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		served <- scripted.Serve(ctx, slog.New(slog.NewTextHandler(bufio.NewWriter(&log), nil)), ln, scripted.Options{})
	}()
	if status, _, _ := send(t, "GET", "http://"+ln.Addr().String()+"/healthz", "", ""); status != 200 {
		t.Errorf("status %d", status)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := scripted.Serve(t.Context(), slog.New(slog.DiscardHandler), ln, scripted.Options{}); err == nil {
		t.Error("a closed listener served")
	}
}
