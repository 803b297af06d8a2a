package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"sgclaw/internal/llm"
)

// Bounds on what is read of an answer that is not a stream, and on what an
// error says.
const (
	maxPlain   = 16 << 20
	maxMessage = 500
)

// exchange watches one request and its answer below the library, which
// hides whether a stream was ended or cut and loses the status of an error
// whose body it cannot read.
type exchange struct {
	alive func()
	plain []byte // the answer, if it is JSON and not a stream
	done  bool   // the stream's end mark was seen
	bytes int64
	tail  []byte
	body  io.ReadCloser
}

func (x *exchange) watch(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return nil, err
	}
	x.alive()
	if resp.StatusCode != http.StatusOK {
		return nil, failure(resp)
	}
	// An unreadable type is taken as a stream.
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	x.body = resp.Body
	resp.Body = x
	switch mediaType {
	case "application/json":
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxPlain))
		if err != nil {
			return nil, errors.Join(err, x.body.Close())
		}
		if x.plain = b; len(b) == 0 {
			x.plain = []byte("null")
		}
	case "text/html":
		return nil, errors.Join(&llm.Error{Class: llm.ClassMalformed, Status: resp.StatusCode, Message: "the answer is a web page, not a model's reply; check the base URL"}, x.body.Close())
	}
	return resp, nil
}

const endMark = "[DONE]"

// Read passes the answer's body on, noting that it lives and whether the end
// mark came by.
func (x *exchange) Read(p []byte) (int, error) {
	n, err := x.body.Read(p)
	if n > 0 {
		x.alive()
		x.bytes += int64(n)
		x.tail = append(x.tail, p[:n]...)
		if bytes.Contains(x.tail, []byte(endMark)) {
			x.done = true
		}
		if over := len(x.tail) - len(endMark); over > 0 {
			x.tail = append(x.tail[:0], x.tail[over:]...)
		}
	}
	return n, err
}

// Close closes the answer's body.
func (x *exchange) Close() error { return x.body.Close() }

// cut is the error for a stream that ended without saying so.
func (x *exchange) cut(chunks int) error {
	if chunks == 0 && x.bytes > 0 {
		return &llm.Error{Class: llm.ClassMalformed, Message: "the answer is not a stream of completion chunks"}
	}
	return &llm.Error{Class: llm.ClassNetwork, Message: "the stream broke off"}
}

// classify makes an *llm.Error of what the library reports.
func (x *exchange) classify(err error) error {
	if e := llm.AsError(err); e != nil {
		return e
	}
	var se *ssestream.StreamError
	if errors.As(err, &se) {
		if e := bodyError(se.Event.Data); e != nil {
			return e
		}
		return &llm.Error{Class: llm.ClassOverloaded, Message: "the service reported an error in the stream"}
	}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &typ) {
		return &llm.Error{Class: llm.ClassMalformed, Message: "a chunk of the stream is not JSON of a completion"}
	}
	// A *url.Error repeats the address, and with it whatever somebody put
	// into its query.
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return &llm.Error{Class: llm.ClassNetwork, Message: err.Error()}
}

// fault is the error object of the wire. Imitators write code as a number,
// or the whole as a string.
type fault struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
}

// readFault finds the error object in a body; the zero fault if there is
// none.
func readFault(body []byte) fault {
	var wrapped struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &wrapped) != nil {
		return fault{}
	}
	var f fault
	if json.Unmarshal(wrapped.Error, &f) == nil && (f.Message != "" || f.Type != "" || len(f.Code) > 0) {
		return f
	}
	var text string
	if json.Unmarshal(wrapped.Error, &text) == nil && text != "" {
		return fault{Message: text}
	}
	if wrapped.Message != "" {
		return fault{Message: wrapped.Message}
	}
	return fault{Message: strings.Trim(string(wrapped.Detail), `"`)}
}

// bodyError makes an error of an error object that came with status 200; nil
// if the body has none.
func bodyError(body []byte) error {
	f := readFault(body)
	if f.Message == "" && f.Type == "" && len(f.Code) == 0 {
		return nil
	}
	status := 0
	if n, err := strconv.Atoi(strings.Trim(string(f.Code), `"`)); err == nil && n >= 400 && n < 600 {
		status = n
	}
	return &llm.Error{Class: class(status, f), Message: f.Message}
}

// failure makes an error of an answer whose status is not 200, and closes
// it.
func failure(resp *http.Response) error {
	// What was read so far says enough if the rest does not come.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	f := readFault(body)
	e := &llm.Error{
		Class:      class(resp.StatusCode, f),
		Status:     resp.StatusCode,
		RetryAfter: retryAfter(resp.Header, time.Now()),
		Message:    f.Message,
	}
	if e.Message == "" {
		e.Message = http.StatusText(resp.StatusCode)
	}
	return errors.Join(e, resp.Body.Close())
}

// class says what a status and an error object mean. The object's message is
// read because many services have no codes; it is the service's text and not
// one of our errors.
func class(status int, f fault) llm.Class {
	code := strings.ToLower(strings.Trim(string(f.Code), `"`) + " " + f.Type)
	text := strings.ToLower(f.Message)
	has := func(s string, parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(s, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has(code, "context_length_exceeded", "string_above_max_length", "exceed_context_size"),
		status == http.StatusRequestEntityTooLarge,
		(status == 0 || status == 400 || status == 422) && has(text, "maximum context length", "context window", "context length", "too many tokens", "prompt is too long"):
		return llm.ClassContextTooLong
	case has(code, "insufficient_quota", "billing_hard_limit_reached", "insufficient_balance", "arrearage"), status == http.StatusPaymentRequired:
		return llm.ClassQuota
	case has(code, "content_filter", "content_policy", "data_inspection_failed", "responsibleaipolicyviolation"):
		return llm.ClassContentPolicy
	case status == http.StatusUnauthorized, status == http.StatusForbidden, has(code, "invalid_api_key", "authentication_error"):
		return llm.ClassAuth
	case status == http.StatusTooManyRequests, has(code, "rate_limit"):
		return llm.ClassRateLimit
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict, has(code, "server_error", "overloaded", "service_unavailable"):
		return llm.ClassOverloaded
	case status >= 400:
		return llm.ClassBadRequest
	case status == 0:
		return llm.ClassOverloaded
	}
	return llm.ClassMalformed
}

// retryAfter reads how long a service asks to wait: milliseconds, seconds or
// a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// keyLike matches what a service may repeat of a key, shortened or not.
var keyLike = regexp.MustCompile(`\b(sk|pk|gsk|xai)-[A-Za-z0-9_*.\-]{4,}`)

// clean takes keys out of an error's message and bounds it.
func (m *Model) clean(err error) error {
	e := llm.AsError(err)
	if e == nil {
		return &llm.Error{Class: llm.ClassNetwork, Message: m.redact(err.Error())}
	}
	out := *e
	out.Message = m.redact(e.Message)
	return &out
}

func (m *Model) redact(s string) string {
	if m.cfg.APIKey != "" {
		s = strings.ReplaceAll(s, m.cfg.APIKey, "[key]")
	}
	s = keyLike.ReplaceAllString(s, "[key]")
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "")
	if len(s) > maxMessage {
		s = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:maxMessage], ""), len(s))
	}
	return s
}
