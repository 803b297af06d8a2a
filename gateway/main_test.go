package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"sgclaw/internal/pgtest"
	"sgclaw/internal/temporaltest"
)

func TestWrongCalls(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  []string
		code int
		want string // part of what is said
	}{
		{"version", []string{"--version"}, nil, 0, "sgclaw gateway "},
		{"help", []string{"--help"}, nil, 0, "-config"},
		{"unknown flag", []string{"--listen", "x"}, nil, 2, "flag provided but not defined"},
		{"argument", []string{"start"}, nil, 2, `unexpected argument "start"`},
		{"no file", []string{"--config", "no.toml"}, nil, 2, "no.toml: no such file"},
		{"for others with a short token", nil, []string{"SGCLAW_GATEWAY_LISTEN=0.0.0.0:0", "SGCLAW_GATEWAY_TOKEN=short"}, 2, "too short"},
		{"no certificate", nil, []string{"SGCLAW_GATEWAY_TLS_CERT_FILE=no.pem", "SGCLAW_GATEWAY_TLS_KEY_FILE=no.key"}, 2, "gateway.tls_cert_file: open no.pem"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			code := run(t.Context(), tt.args, append(tt.env, "HOME="+t.TempDir()), &out, &out)
			if code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("status %d, %q; want %d, %q", code, out.String(), tt.code, tt.want)
			}
		})
	}
}

// started runs a gateway and returns where it listens. stop asks it to end
// and returns its status.
func started(t *testing.T, more ...string) (address string, stop func() int) {
	t.Helper()
	s := temporaltest.Start(t)
	env := append([]string{
		"HOME=" + t.TempDir(), "SGCLAW_DATABASE_URL=" + pgtest.New(t), "SGCLAW_TEMPORAL_ADDRESS=" + s.Address, "SGCLAW_TEMPORAL_NAMESPACE=" + s.Namespace,
		"SGCLAW_GATEWAY_LISTEN=127.0.0.1:0", "SGCLAW_GATEWAY_TOKEN=secret-of-the-test", "SGCLAW_GENERAL_LOG_FORMAT=json",
	}, more...)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, nil, env, io.Discard, w)
		w.Close()
		ended <- code
	}()
	where := make(chan string, 1)
	go func() {
		defer close(where)
		for d := json.NewDecoder(r); ; {
			var line struct{ Msg, Level, Listen, Err string }
			if err := d.Decode(&line); err != nil {
				return
			}
			if line.Level != "INFO" && line.Level != "DEBUG" {
				t.Log(line)
			}
			if line.Msg == "serving" {
				where <- line.Listen
			}
		}
	}()
	address, ok := <-where
	if !ok {
		t.Fatalf("the gateway ended with status %d", <-ended)
	}
	return address, func() int {
		cancel()
		return <-ended
	}
}

// ready waits until the gateway lets clients in.
func ready(t *testing.T, client *http.Client, url string) {
	t.Helper()
	for t.Context().Err() == nil {
		resp, err := client.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
}

// dial connects a client and lets it in.
func dial(t *testing.T, url string, opts *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	if _, _, err := c.Read(t.Context()); err != nil { // the challenge
		t.Fatal(err)
	}
	const hello = `{"type":"req","id":"1","method":"connect","params":{"minProtocol":4,"maxProtocol":4,"role":"operator","scopes":["operator.read"],` +
		`"client":{"id":"cli","version":"1","platform":"linux","mode":"cli"},"auth":{"token":"secret-of-the-test"}}}`
	if err := c.Write(t.Context(), websocket.MessageText, []byte(hello)); err != nil {
		t.Fatal(err)
	}
	_, answer, err := c.Read(t.Context())
	if err != nil || !strings.Contains(string(answer), `"hello-ok"`) {
		t.Fatalf("%s, %v", answer, err)
	}
	// Once it is answered the connection counts.
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"req","id":"2","method":"nope"}`)); err != nil {
		t.Fatal(err)
	}
	for {
		_, frame, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(frame), `"id":"2"`) {
			return c
		}
	}
}

// Clients are told that the gateway comes back before they are closed, and
// one that does not listen does not keep it from ending.
func TestOrderlyEnd(t *testing.T) {
	address, stop := started(t)
	ready(t, http.DefaultClient, "http://"+address)
	for _, path := range []string{"/", "/healthz", "/metrics"} {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	c := dial(t, "ws://"+address+"/", nil)
	dial(t, "ws://"+address+"/", nil) // reads nothing more
	ended := make(chan int, 1)
	go func() { ended <- stop() }()
	told := false
	for {
		_, frame, err := c.Read(t.Context())
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusServiceRestart {
				t.Errorf("closed with %v, want 1012", err)
			}
			break
		}
		told = told || strings.Contains(string(frame), `"event":"shutdown"`)
	}
	if !told {
		t.Error("nothing was said before the connection was closed")
	}
	if code := <-ended; code != 0 {
		t.Errorf("status %d after an orderly end", code)
	}
}

// By configuration the same port speaks TLS, and nothing else.
func TestTLS(t *testing.T) {
	like := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	like.Close()
	key, err := x509.MarshalPKCS8PrivateKey(like.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	address, stop := started(t,
		"SGCLAW_GATEWAY_TLS_CERT_FILE="+file("cert.pem", "CERTIFICATE", like.Certificate().Raw),
		"SGCLAW_GATEWAY_TLS_KEY_FILE="+file("key.pem", "PRIVATE KEY", key))
	client := like.Client() // trusts the certificate
	ready(t, client, "https://"+address)
	if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("served without TLS")
		}
	}
	c := dial(t, "wss://"+address+"/", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {"https://" + address}}})
	_ = c.Close(websocket.StatusNormalClosure, "")
	if code := stop(); code != 0 {
		t.Errorf("status %d", code)
	}
}
