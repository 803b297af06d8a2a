package scripted

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fault is one request that goes wrong.
type Fault struct {
	// Kind says how; see the constants.
	Kind string `json:"kind"`
	// N is for how many requests; 0 is 1.
	N int `json:"n,omitempty"`
	// Status, Code, Message and RetryAfterMS are for FaultStatus; Status is
	// 500 unless it is given.
	Status       int    `json:"status,omitempty"`
	Code         string `json:"code,omitempty"`
	Message      string `json:"message,omitempty"`
	RetryAfterMS int    `json:"retry_after_ms,omitempty"`
}

// Kinds of faults.
const (
	FaultStatus      = "status"       // an HTTP error
	FaultGarbage     = "garbage"      // bytes that are no stream
	FaultCut         = "cut"          // the connection breaks in mid-stream
	FaultHang        = "hang"         // the stream stops in the middle and stays open
	FaultEmpty       = "empty"        // a reply without text and calls
	FaultInvalidArgs = "invalid_args" // a call whose arguments are not JSON
	FaultBadParams   = "bad_params"   // a call whose parameters do not fit
	FaultUnknownTool = "unknown_tool" // a call of a tool that does not exist
	FaultTwoCalls    = "two_calls"    // a second call beside the first
	FaultNoUsage     = "no_usage"     // tokens are not counted
	FaultNoID        = "no_id"        // calls have no id
	FaultLength      = "length"       // the reply is cut off at its length limit
)

// Options shape a server; the zero value works.
type Options struct {
	// StartURL is where tasks begin that name no URL.
	StartURL string
	// APIKey, if set, is asked for.
	APIKey string
	// FirstToken is how long the reply takes to begin, PerToken how long
	// between its pieces.
	FirstToken time.Duration
	PerToken   time.Duration
	// MaxMessages answers conversations of more messages with
	// context_length_exceeded; 0 does not. MaxBytes does the same by the
	// size of the request.
	MaxMessages int
	MaxBytes    int
	// Faults are taken in order, one for a request, before all else.
	Faults []Fault
}

// Stats is what GET /admin/stats answers.
type Stats struct {
	Requests int `json:"requests"` // completions asked for
	Replies  int `json:"replies"`  // given whole
	Faults   int `json:"faults"`   // requests that went wrong by a Fault
	TooLong  int `json:"too_long"` // refused as too long
	Waiting  int `json:"waiting"`  // faults still to come
}

// Server is the handler. Besides OpenAI's paths it serves
//
//	POST /admin/faults   a Fault or a list of them, queued
//	GET  /admin/stats    Stats
//	GET  /healthz        200
type Server struct {
	log *slog.Logger
	opt Options
	mux *http.ServeMux

	mu     sync.Mutex
	faults []Fault
	stats  Stats
}

// New makes a server.
func New(log *slog.Logger, opt Options) *Server {
	s := &Server{log: log, opt: opt, mux: http.NewServeMux(), faults: append([]Fault(nil), opt.Faults...)}
	s.mux.HandleFunc("POST /v1/chat/completions", s.completions)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("POST /admin/faults", s.addFaults)
	s.mux.HandleFunc("GET /admin/stats", s.showStats)
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return s
}

// ServeHTTP serves the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Serve serves on ln until ctx ends, then gives requests under way a moment
// and closes ln.
func Serve(ctx context.Context, log *slog.Logger, ln net.Listener, opt Options) error {
	srv := &http.Server{Handler: New(log, opt), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve scripted model: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-served //nolint:errcheck // it says that the server was closed
	return err
}

// Stats returns the counts so far.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	for _, f := range s.faults {
		st.Waiting += max(1, f.N)
	}
	return st
}

// Fail queues faults.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// next takes the next fault; the zero fault if there is none.
func (s *Server) next() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Requests++
	if len(s.faults) == 0 {
		return Fault{}
	}
	f := s.faults[0]
	if f.N > 1 {
		s.faults[0].N--
	} else {
		s.faults = s.faults[1:]
	}
	s.stats.Faults++
	return f
}

func (s *Server) addFaults(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		fail(w, http.StatusBadRequest, "", "the body cannot be read")
		return
	}
	var list []Fault
	if err := json.Unmarshal(body, &list); err != nil {
		var one Fault
		if err := json.Unmarshal(body, &one); err != nil || one.Kind == "" {
			fail(w, http.StatusBadRequest, "", "the body is neither a fault nor a list of them")
			return
		}
		list = []Fault{one}
	}
	s.Fail(list...)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) showStats(w http.ResponseWriter, _ *http.Request) { s.answer(w, s.Stats()) }

func (s *Server) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("answer not sent", "err", err)
	}
}

// allowed checks the key.
func (s *Server) allowed(w http.ResponseWriter, r *http.Request) bool {
	if s.opt.APIKey == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.opt.APIKey)) == 1 {
		return true
	}
	fail(w, http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided.")
	return false
}

func (s *Server) models(w http.ResponseWriter, r *http.Request) {
	if s.allowed(w, r) {
		s.answer(w, modelList{Object: "list", Data: []modelInfo{{ID: "scripted", Object: "model", OwnedBy: "sgclaw"}}})
	}
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(w, r) {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		fail(w, http.StatusBadRequest, "", "the body cannot be read")
		return
	}
	f := s.next()
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil || len(req.Messages) == 0 {
		fail(w, http.StatusBadRequest, "", "we could not parse the JSON body of your request")
		return
	}
	switch f.Kind {
	case FaultStatus:
		if f.RetryAfterMS > 0 {
			w.Header().Set("Retry-After-Ms", fmt.Sprint(f.RetryAfterMS))
		}
		if f.Status == 0 {
			f.Status = http.StatusInternalServerError
		}
		fail(w, f.Status, f.Code, f.Message)
		return
	case FaultGarbage:
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, "<<garbage>>\n\x00\x01 not a stream\n\n"); err != nil {
			s.log.Debug("answer not sent", "err", err)
		}
		return
	}
	if s.opt.MaxMessages > 0 && len(req.Messages) > s.opt.MaxMessages || s.opt.MaxBytes > 0 && len(body) > s.opt.MaxBytes {
		s.mu.Lock()
		s.stats.TooLong++
		s.mu.Unlock()
		fail(w, http.StatusBadRequest, "context_length_exceeded", "This model's maximum context length is exceeded by your messages. Please reduce their length.")
		return
	}
	rep := decide(read(req), s.opt.StartURL)
	s.log.Info("reply", "messages", len(req.Messages), "bytes", len(body), "calls", len(rep.calls), "fault", f.Kind)
	out := newWriter(w, r, req, s.opt, f, len(body))
	if out.write(spoil(rep, f)) {
		s.mu.Lock()
		s.stats.Replies++
		s.mu.Unlock()
	}
}

// spoil makes a reply wrong in what it says.
func spoil(rep reply, f Fault) reply {
	first := toolCall{name: "browser_action", args: json.RawMessage(`{"action":"getAomSnapshot","params":{}}`)}
	if len(rep.calls) > 0 {
		first = rep.calls[0]
	}
	switch f.Kind {
	case FaultEmpty:
		return reply{}
	case FaultInvalidArgs:
		rep.calls = []toolCall{{first.name, json.RawMessage(`{"action": click, params: [`)}}
	case FaultBadParams:
		rep.calls = []toolCall{{first.name, json.RawMessage(`{"action":"click","params":{"element":"ok"}}`)}}
	case FaultUnknownTool:
		rep.calls = []toolCall{{"open_browser", json.RawMessage(`{"url":"about:blank"}`)}}
	case FaultTwoCalls:
		rep.calls = []toolCall{first, {first.name, json.RawMessage(`{"action":"getAomSnapshot","params":{}}`)}}
	case FaultLength:
		rep.calls = nil
		rep.text = string([]rune(rep.text)[:len([]rune(rep.text))/2])
	}
	return rep
}

// fail answers with OpenAI's error object.
func fail(w http.ResponseWriter, status int, code, message string) {
	typ := "invalid_request_error"
	if status >= 500 {
		typ = "server_error"
	}
	if message == "" {
		message = http.StatusText(status)
	}
	var e errorBody
	e.Error.Message, e.Error.Type = message, typ
	if code != "" {
		e.Error.Code = &code
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(e); err != nil {
		return // the client is gone
	}
}

// newID makes an id like OpenAI's.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:24]) }
