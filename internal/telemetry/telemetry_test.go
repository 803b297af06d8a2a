package telemetry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/telemetry"
)

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	away := errors.New("database is away")
	tel, err := telemetry.Start(t.Context(), slog.New(slog.DiscardHandler), telemetry.Config{
		Service: "test", Addr: addr, Ready: func(context.Context) error { return away }, Getenv: func(string) string { return "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	tel.Action(t.Context(), "click", agent.OutcomeDone, "", 30*time.Millisecond)
	tel.Reply(t.Context(), "m", agent.Usage{PromptTokens: 7, CompletionTokens: 3}, time.Second)
	tel.Ended(t.Context(), agent.StatusDone, "")
	tel.Decided(t.Context(), "approved")
	tel.Connected(t.Context(), 2)
	tel.Connected(t.Context(), -1)
	tel.Request(t.Context(), "chat.send", "", time.Millisecond)
	tel.Delivered(t.Context(), 3*time.Millisecond)
	tel.Dropped(t.Context(), "slow")
	tel.MetricsHandler().Counter("temporal_request").Inc(1)

	_, body := fetch(t, "http://"+addr+"/metrics")
	for _, want := range []string{
		`sgclaw_actions_total{action="click",code="",outcome="done"} 1`,
		`sgclaw_model_tokens_total{kind="prompt",model="m"} 7`,
		`sgclaw_gateway_connections 1`, `sgclaw_gateway_requests_total{code="ok",method="chat.send"} 1`,
		`sgclaw_gateway_delivery_seconds_bucket{le="0.005"} 1`, `sgclaw_gateway_dropped_total{reason="slow"} 1`,
		`sgclaw_runs_total{reason="",status="done"} 1`,
		`sgclaw_confirmations_total{decision="approved"} 1`,
		`sgclaw_action_seconds_bucket{action="click",le="0.025"} 0`, `sgclaw_action_seconds_bucket{action="click",le="0.05"} 1`,
		"temporal_request", "go_goroutines", "process_resident_memory_bytes",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if code, _ := fetch(t, "http://"+addr+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz %d", code)
	}
	if code, body := fetch(t, "http://"+addr+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "database is away") {
		t.Errorf("readyz %d %q", code, body)
	}
	away = nil
	if code, _ := fetch(t, "http://"+addr+"/readyz"); code != http.StatusOK {
		t.Errorf("readyz %d", code)
	}
}
