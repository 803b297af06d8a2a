package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sgclaw/internal/locale"
	"sgclaw/internal/page"
)

// panelCSP lets the panel's page load what is built into this program, show
// pictures that it is given, and nothing else.
const panelCSP = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; " +
	"font-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePanel serves the files of a built panel on a loopback port, below a
// path that nobody can guess, until the listener is closed. It returns the
// panel's address.
func servePanel(log *slog.Logger, files fs.FS) (url string, l net.Listener, err error) {
	l, err = net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("panel: %w", err)
	}
	host := l.Addr().String()
	prefix := "/" + rand.Text() + "/"
	mux := http.NewServeMux()
	mux.Handle("GET "+prefix, http.StripPrefix(prefix, http.FileServerFS(files)))
	srv := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// A name that somebody's name server gave this address to is not
			// ours.
			if r.Host != host {
				http.Error(w, "no such host", http.StatusMisdirectedRequest)
				return
			}
			h := w.Header()
			h.Set("Content-Security-Policy", panelCSP)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Resource-Policy", "same-origin")
			h.Set("Cache-Control", "no-store")
			mux.ServeHTTP(w, r)
		}),
	}
	go func() {
		if err := srv.Serve(l); !errors.Is(err, net.ErrClosed) {
			log.Error("panel", "err", err)
		}
	}()
	return "http://" + host + prefix, l, nil
}

// panelWindow keeps the panel's page open in the browser of the moment.
type panelWindow struct {
	log     *slog.Logger
	url     string
	panel   *sidePanel
	told    func(locale.Key, ...any) // that it was opened or closed
	browser atomic.Pointer[page.Browser]
	opened  atomic.Int64 // how often
}

// openIn opens the page in a browser that was started. ctx bounds the
// opening, life what the page asks for afterwards.
func (w *panelWindow) openIn(ctx, life context.Context, b *page.Browser) error {
	w.browser.Store(b)
	return w.open(ctx, life)
}

func (w *panelWindow) open(ctx, life context.Context) error {
	b, n := w.browser.Load(), w.opened.Add(1)
	_, err := b.OpenWindow(ctx, page.WindowOptions{
		URL:   w.url,
		Ready: func(d page.Document) { w.panel.ready(d) },
		Call: func(d page.Document, id int64, name string, params json.RawMessage) {
			w.panel.call(life, d, id, name, params)
		},
		Closed: func() {
			if w.opened.Load() != n {
				return
			}
			w.panel.closed()
			if b.Err() == nil && life.Err() == nil {
				w.told(locale.PanelClosed)
			}
		},
	})
	if err == nil {
		w.told(locale.PanelOpen, w.url)
	}
	return err
}

// again opens the page after the person closed it.
func (w *panelWindow) again(life context.Context) {
	ctx, cancel := context.WithTimeout(life, launchTimeout)
	defer cancel()
	if err := w.open(ctx, life); err != nil {
		w.log.Error("panel not opened", "err", err)
		w.panel.closed()
	}
}
