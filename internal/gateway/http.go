package gateway

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// readyTimeout bounds the checks of /readyz.
const readyTimeout = 5 * time.Second

//go:embed nopanel.html
var noPanel []byte

// handler is what the gateway serves by HTTP. Sockets live as long as ctx
// and are counted in sockets.
func (g *Gateway) handler(ctx context.Context, sockets *sync.WaitGroup) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", g.readyz)
	own := http.NewServeMux()
	if t := g.cfg.Telemetry; t != nil {
		own.Handle("GET /metrics", t.Metrics())
	}
	socket := func(w http.ResponseWriter, r *http.Request) {
		sockets.Add(1)
		defer sockets.Done()
		g.socket(ctx, w, r)
	}
	own.HandleFunc("GET /ws", socket)
	own.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && upgrades(r) {
			socket(w, r)
			return
		}
		g.panel(w, r)
	})
	mux.Handle("/", g.hosts(own))
	return mux
}

func upgrades(r *http.Request) bool {
	for _, v := range r.Header.Values("Upgrade") {
		if strings.EqualFold(v, "websocket") {
			return true
		}
	}
	return false
}

// readyz says whether the gateway can serve. What is missing is said by name
// only: an error may tell of addresses and users.
func (g *Gateway) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := g.Ready(ctx); err != nil {
		g.log.Warn("not ready", "err", err)
		http.Error(w, "not ready: the gateway's log says what is missing", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// hosts refuses requests under a name that is not the gateway's. A page
// whose host's name suddenly means this machine (DNS rebinding) gets nowhere.
func (g *Gateway) hosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.ownName(r.Host) {
			http.Error(w, "the gateway is not reached under this name; gateway.hosts lists its names", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownName reports whether the gateway may be called by a host's name, with or
// without a port: localhost, a bare address, or what is configured.
func (g *Gateway) ownName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(name, "localhost") || net.ParseIP(name) != nil {
		return true
	}
	return slices.ContainsFunc(g.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

// panel serves the panel, a single-page application: a path that is not a
// file of it is one of its views.
func (g *Gateway) panel(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	// Component libraries set styles from code; scripts come as files only.
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "+
		"connect-src 'self' ws://"+r.Host+" wss://"+r.Host+"; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if g.cfg.Panel == nil || !isFile(g.cfg.Panel, "index.html") {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(noPanel)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	switch {
	case isFile(g.cfg.Panel, name) && name != "index.html":
		if strings.HasPrefix(name, "assets/") {
			// Their names change with what is in them.
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		http.ServeFileFS(w, r, g.cfg.Panel, name)
	case path.Ext(name) != "" && name != "index.html":
		http.NotFound(w, r)
	default:
		page, err := fs.ReadFile(g.cfg.Panel, "index.html")
		if err != nil {
			http.Error(w, "the panel cannot be read", http.StatusInternalServerError)
			return
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}
