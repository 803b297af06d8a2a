package chrome

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"sgclaw/internal/cdp"
)

// Attach connects to a browser that already runs with remote debugging:
// endpoint is its websocket (ws://…/devtools/browser/…) or the address of its
// port (http://127.0.0.1:9222). The caller closes the connection, which does
// not end the browser.
func Attach(ctx context.Context, log *slog.Logger, endpoint string) (*cdp.Conn, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("browser endpoint: %w", err)
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		if endpoint, err = websocketOf(ctx, strings.TrimSuffix(endpoint, "/")); err != nil {
			return nil, err
		}
	} else if u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("browser endpoint %q: want ws:// or http://", endpoint)
	}
	t, err := cdp.Dial(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return cdp.New(log, t), nil
}

func websocketOf(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/json/version", nil)
	if err != nil {
		return "", fmt.Errorf("browser endpoint: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("browser endpoint: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var v struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&v); err != nil || v.URL == "" {
		return "", fmt.Errorf("browser endpoint %s: no DevTools there (HTTP status %d)", base, res.StatusCode)
	}
	return v.URL, nil
}
