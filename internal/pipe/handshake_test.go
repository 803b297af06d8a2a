package pipe

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

const goodSeed = "000102030405060708090a0b0c0d0e0f"

func TestHandshake(t *testing.T) {
	toAgent, fromHost := io.Pipe()
	toHost, fromAgent := io.Pipe()
	type result struct {
		Handshake
		err error
	}
	agentSide := make(chan result, 1)
	go func() {
		h, err := AgentHandshake(t.Context(), NewReader(toAgent), NewWriter(fromAgent), []string{"click"},
			func(Init) (string, error) { return "made", nil })
		agentSide <- result{h, err}
	}()
	host, err := HostHandshake(t.Context(), NewReader(toHost), NewWriter(fromHost), Init{Capabilities: []string{CapPageID}})
	if err != nil {
		t.Fatal(err)
	}
	got := <-agentSide
	if got.err != nil {
		t.Fatal(got.err)
	}
	if d := cmp.Diff(host, got.Handshake); d != "" {
		t.Errorf("the sides disagree:\n%s", d)
	}
	if len(host.Init.HMACSeed) != 64 || host.Ack.BrowserID != "made" || host.Key == (Key{}) {
		t.Errorf("%+v", host)
	}
}

func TestAgentHandshakeRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []Code // told to the host; the last one is returned
		ok       bool
	}{
		{"version", `{"type":"init","version":"2.0","hmac_seed":"` + goodSeed + `"}`, []Code{CodeVersionMismatch}, false},
		{"short seed", `{"type":"init","version":"1.0","hmac_seed":"00"}`, []Code{CodeInvalidSeed}, false},
		{"odd seed", `{"type":"init","version":"1.0","hmac_seed":"` + goodSeed + `0"}`, []Code{CodeInvalidSeed}, false},
		{"long seed", `{"type":"init","version":"1.0","hmac_seed":"` + goodSeed + goodSeed + `00"}`, []Code{CodeInvalidSeed}, false},
		{"no hex", `{"type":"init","version":"1.0","hmac_seed":"` + strings.Repeat("x", 32) + `"}`, []Code{CodeInvalidSeed}, false},
		{"no seed", `{"type":"init","version":"1.0"}`, []Code{CodeInvalidMessage}, false},
		{"no version", `{"type":"init","version":"one","hmac_seed":"` + goodSeed + `"}`, []Code{CodeInvalidMessage}, false},
		{"bad lines first", "nonsense\n" + `{"type":"shutdown"}` + "\n" + `{"type":"error","code":"X","message":""}` + "\n" +
			`{"type":"init","version":"1.0","hmac_seed":"` + goodSeed + `"}`, []Code{CodeInvalidJSON, CodeUnknownType}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			_, err := AgentHandshake(t.Context(), NewReader(strings.NewReader(tt.in+"\n")), NewWriter(&out), nil, nil)
			var told []Code
			lines := bufio.NewScanner(strings.NewReader(out.String()))
			for lines.Scan() {
				m, bad := Decode(lines.Bytes())
				if bad != nil {
					t.Fatal(bad)
				}
				if e, ok := m.(*ErrorMessage); ok {
					told = append(told, e.Code)
				}
			}
			if d := cmp.Diff(tt.want, told); d != "" {
				t.Errorf("told (-want +got):\n%s", d)
			}
			var e *Error
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.As(err, &e) || e.Code != tt.want[len(tt.want)-1] {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestHostHandshakeRefusals(t *testing.T) {
	const ack = `{"type":"init_ack","version":"1.0","agent_id":"5f9c9f0e-6c5f-4c1e-9a1d-0d1f5b8f7a11"}`
	for _, tt := range []struct {
		name, in string
		want     Code
		eof      bool
	}{
		{name: "ok", in: ack},
		{name: "noise first", in: "hello\n" + `{"type":"log","time":"2026-01-01T00:00:00Z","level":"info","message":""}` + "\n" + ack},
		{name: "version", in: strings.Replace(ack, "1.0", "1.1", 1), want: CodeVersionMismatch},
		{name: "uuid v1", in: strings.Replace(ack, "-4c1e", "-1c1e", 1), want: CodeInvalidMessage},
		{name: "no id", in: `{"type":"init_ack","version":"1.0"}`, want: CodeInvalidMessage},
		{name: "error", in: `{"type":"error","code":"PIPE_VERSION_MISMATCH","message":"no"}`, want: CodeVersionMismatch},
		{name: "eof", in: "", eof: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := HostHandshake(t.Context(), NewReader(strings.NewReader(tt.in+"\n")), NewWriter(io.Discard), Init{})
			var e *Error
			switch {
			case tt.eof:
				if !errors.Is(err, io.EOF) {
					t.Errorf("err = %v", err)
				}
			case tt.want == "":
				if err != nil {
					t.Error(err)
				}
			case !errors.As(err, &e) || e.Code != tt.want:
				t.Errorf("err = %v, want %s", err, tt.want)
			}
		})
	}
}

func TestHandshakeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		pr, pw := io.Pipe()
		defer func() { _ = pw.Close() }()
		_, err := AgentHandshake(t.Context(), NewReader(pr), NewWriter(&out), nil, nil)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeNoInit || !strings.Contains(out.String(), string(CodeNoInit)) {
			t.Errorf("agent: %v, told %q", err, out.String())
		}
		pr2, pw2 := io.Pipe()
		defer func() { _ = pw2.Close() }()
		_, err = HostHandshake(t.Context(), NewReader(pr2), NewWriter(io.Discard), Init{})
		if !errors.As(err, &e) || e.Code != CodeNoInit {
			t.Errorf("host: %v", err)
		}
	})
}

func TestHandshakeCanceled(t *testing.T) {
	pr, pw := io.Pipe()
	defer func() { _ = pw.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := AgentHandshake(ctx, NewReader(pr), NewWriter(io.Discard), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("agent: %v", err)
	}
	pr2, pw2 := io.Pipe()
	defer func() { _ = pw2.Close() }()
	if _, err := HostHandshake(ctx, NewReader(pr2), NewWriter(io.Discard), Init{}); !errors.Is(err, context.Canceled) {
		t.Errorf("host: %v", err)
	}
}
