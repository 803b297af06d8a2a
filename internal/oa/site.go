package oa

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultUser and DefaultPassword open the site unless Config.Users says
// otherwise.
const (
	DefaultUser     = "manager"
	DefaultPassword = "demo-1234"
)

// Config shapes a site; the zero value is the demo without a file.
type Config struct {
	// LedgerFile keeps the ledger over restarts; empty keeps it in memory.
	LedgerFile string
	// RequireLogin sends visitors without a session to the log-in page.
	RequireLogin bool
	// Users maps user names to passwords; nil is DefaultUser alone.
	Users map[string]string
	// Requests are the leave requests the site starts with; nil is
	// Default().
	Requests []Request
	// Delay is how long a decision takes from being recorded to being
	// answered, to give tests a moment in which its outcome is unknown.
	Delay time.Duration
}

// Site is the demo site: an http.Handler. Close it when it serves no more.
type Site struct {
	log *slog.Logger
	cfg Config
	mux *http.ServeMux

	mu       sync.Mutex
	journal  *journal
	entries  []Entry
	requests []Request
	sessions map[string]string // hash of the session's token to user
}

// New opens a site, going on from the ledger file if there is one.
func New(log *slog.Logger, cfg Config) (*Site, error) {
	if cfg.Users == nil {
		cfg.Users = map[string]string{DefaultUser: DefaultPassword}
	}
	if cfg.Requests == nil {
		cfg.Requests = Default()
	}
	j, entries, err := openJournal(cfg.LedgerFile)
	if err != nil {
		return nil, err
	}
	s := &Site{
		log:      log,
		cfg:      cfg,
		journal:  j,
		requests: slices.Clone(cfg.Requests),
		sessions: map[string]string{},
	}
	for _, e := range entries {
		s.apply(e)
	}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /{$}", s.home)
	s.mux.HandleFunc("GET /login", s.loginPage)
	s.mux.HandleFunc("POST /login", s.login)
	s.mux.HandleFunc("POST /logout", s.logout)
	s.mux.HandleFunc("GET /leave", s.guard(s.list))
	s.mux.HandleFunc("GET /leave/{id}", s.guard(s.detail))
	s.mux.HandleFunc("POST /leave/{id}/approve", s.decide(ActionApprove, Approved))
	s.mux.HandleFunc("POST /leave/{id}/reject", s.decide(ActionReject, Rejected))
	s.mux.HandleFunc("GET /report", s.guard(s.report))
	s.mux.HandleFunc("GET /hostile", s.hostile)
	s.mux.HandleFunc("POST /hostile", s.post(ActionHostile, http.StatusOK))
	s.mux.HandleFunc("GET /ledger", s.serveLedger)
	s.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.mux.HandleFunc("POST /", s.post(ActionOther, http.StatusNotFound))
	s.mux.HandleFunc("GET /", s.notFound)
	return s, nil
}

// Close closes the ledger file.
func (s *Site) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.close()
}

// ServeHTTP serves the site.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	s.mux.ServeHTTP(w, r)
}

// Ledger returns a copy of the ledger.
func (s *Site) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Ledger{Entries: append([]Entry{}, s.entries...), Requests: slices.Clone(s.requests)}
}

// apply takes an entry into the state; it is called under mu, or before the
// site is shared.
func (s *Site) apply(e Entry) {
	s.entries = append(s.entries, e)
	if !e.Changed {
		return
	}
	switch e.Action {
	case ActionLogin:
		s.sessions[e.Session] = e.User
	case ActionLogout:
		delete(s.sessions, e.Session)
	case ActionApprove, ActionReject:
		i := s.find(e.ID)
		if i < 0 {
			return
		}
		s.requests[i].Status = Approved
		if e.Action == ActionReject {
			s.requests[i].Status = Rejected
		}
		s.requests[i].Comment = e.Comment
	}
}

// record writes an entry to the ledger and takes it into the state; it is
// called under mu. Without the entry on disk nothing has happened.
func (s *Site) record(r *http.Request, e Entry) (Entry, error) {
	e.Seq = int64(len(s.entries)) + 1
	e.At = time.Now().UTC()
	e.Method = r.Method
	e.Path = r.URL.Path
	if err := s.journal.append(e); err != nil {
		return e, err
	}
	s.apply(e)
	return e, nil
}

func (s *Site) find(id string) int {
	return slices.IndexFunc(s.requests, func(r Request) bool { return r.ID == id })
}

const sessionCookie = "oa_session"

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// user returns who is logged in, or "".
func (s *Site) user(r *http.Request) string {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[hash(c.Value)]
}

// guard sends visitors without a session to the log-in page where the site
// asks for one.
func (s *Site) guard(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.RequireLogin && s.user(r) == "" {
			q := url.Values{"next": {r.URL.RequestURI()}}
			if language(r) == "en" {
				q.Set("lang", "en")
			}
			http.Redirect(w, r, "/login?"+q.Encode(), http.StatusSeeOther)
			return
		}
		h(w, r)
	}
}

// language is the language of the page that a request asks for.
func language(r *http.Request) string {
	if r.URL.Query().Get("lang") == "en" {
		return "en"
	}
	return "zh"
}

// fail answers a request whose ledger entry could not be written.
func (s *Site) fail(w http.ResponseWriter, err error) {
	s.log.Error("ledger not written", "err", err)
	http.Error(w, "ledger not written", http.StatusInternalServerError)
}

// post records a POST that changes nothing.
func (s *Site) post(action string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user := s.user(r)
		s.mu.Lock()
		_, err := s.record(r, Entry{Action: action, User: user, Status: status})
		s.mu.Unlock()
		if err != nil {
			s.fail(w, err)
			return
		}
		s.message(w, r, status, "recorded")
	}
}

// decide takes a decision on a leave request and goes back to its page.
func (s *Site) decide(action string, to Status) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "form not readable", http.StatusBadRequest)
			return
		}
		user := s.user(r)
		e, err := s.decideLocked(r, action, user)
		if err != nil {
			s.fail(w, err)
			return
		}
		s.log.Info("decision", "id", e.ID, "action", action, "changed", e.Changed, "duplicate", e.Duplicate, "status", e.Status)
		if s.cfg.Delay > 0 {
			select {
			case <-time.After(s.cfg.Delay):
			case <-r.Context().Done():
			}
		}
		switch e.Status {
		case http.StatusSeeOther:
			q := url.Values{"done": {string(to)}}
			if language(r) == "en" {
				q.Set("lang", "en")
			}
			http.Redirect(w, r, "/leave/"+e.ID+"?"+q.Encode(), http.StatusSeeOther)
		case http.StatusConflict:
			s.message(w, r, e.Status, "decided_before")
		case http.StatusForbidden:
			s.message(w, r, e.Status, "no_session")
		default:
			s.message(w, r, e.Status, "no_request")
		}
	}
}

func (s *Site) decideLocked(r *http.Request, action, user string) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := Entry{Action: action, ID: r.PathValue("id"), User: user, Comment: r.PostForm.Get("comment")}
	e.Duplicate = slices.ContainsFunc(s.entries, func(o Entry) bool { return o.Action == action && o.ID == e.ID })
	i := s.find(e.ID)
	switch {
	case s.cfg.RequireLogin && user == "":
		e.Status = http.StatusForbidden
	case i < 0:
		e.Status = http.StatusNotFound
	case s.requests[i].Status != Pending:
		e.Status = http.StatusConflict
	default:
		e.Status = http.StatusSeeOther
		e.Changed = true
	}
	return s.record(r, e)
}

func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "form not readable", http.StatusBadRequest)
		return
	}
	name, password := r.PostForm.Get("user"), r.PostForm.Get("password")
	want, known := s.cfg.Users[name]
	ok := known && subtle.ConstantTimeCompare([]byte(want), []byte(password)) == 1
	e := Entry{Action: ActionLogin, Status: http.StatusUnauthorized}
	token := rand.Text()
	if ok {
		e.User, e.Status, e.Changed, e.Session = name, http.StatusSeeOther, true, hash(token)
	}
	s.mu.Lock()
	_, err := s.record(r, e)
	s.mu.Unlock()
	if err != nil {
		s.fail(w, err)
		return
	}
	if !ok {
		s.renderLogin(w, r, http.StatusUnauthorized, name)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, next(r), http.StatusSeeOther)
}

// next is where a log-in leads: a path of this site only.
func next(r *http.Request) string {
	n := r.FormValue("next")
	if !strings.HasPrefix(n, "/") || strings.HasPrefix(n, "//") || strings.Contains(n, `\`) {
		n = "/leave"
		if language(r) == "en" {
			n += "?lang=en"
		}
	}
	return n
}

func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	e := Entry{Action: ActionLogout, Status: http.StatusSeeOther, User: s.user(r)}
	if c, err := r.Cookie(sessionCookie); err == nil && e.User != "" {
		e.Session, e.Changed = hash(c.Value), true
	}
	s.mu.Lock()
	_, err := s.record(r, e)
	s.mu.Unlock()
	if err != nil {
		s.fail(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (s *Site) serveLedger(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(s.Ledger(), "", "  ")
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if _, err := w.Write(b); err != nil {
		s.log.Debug("ledger not sent", "err", err)
	}
}

// number reads a query parameter within bounds, or returns the default.
func number(r *http.Request, name string, def, low, high int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		return def
	}
	return min(max(n, low), high)
}
