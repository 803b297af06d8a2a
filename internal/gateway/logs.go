package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"sync"
)

// Logs keeps the last lines of a process's own log for people who look at it
// from afar. Secrets are taken out before a line is kept. It is safe for
// concurrent use.
type Logs struct {
	mu    sync.Mutex
	most  int
	lines []string
	// end counts the bytes of all lines that ever were, each with a newline.
	end int64
}

// NewLogs keeps at most so many lines.
func NewLogs(lines int) *Logs { return &Logs{most: max(0, lines)} }

// Handler returns a handler that hands records on to next and keeps those
// that next takes.
func (l *Logs) Handler(next slog.Handler) slog.Handler {
	return &logsHandler{next: next, json: slog.NewJSONHandler(lineWriter{l}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: forRing})}
}

// forRing names the fields as OpenClaw's log viewer reads them, and leaves
// out the values of fields that name a secret.
func forRing(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.MessageKey:
		a.Key = "message"
	case secretKey.MatchString(a.Key):
		a.Value = slog.StringValue(redacted)
	}
	return a
}

const redacted = "[redacted]"

var (
	secretKey  = regexp.MustCompile(`(?i)(token|secret|passw|api_?key|authorization|cookie)`)
	secretText = regexp.MustCompile(`(?i)(bearer\s+|://[^\s:/@"]+:|\b(?:token|password|passwd|secret|api[_-]?key)["']?\s*[=:]\s*["']?)[^\s"'&@,}]+`)
	secretForm = regexp.MustCompile(`\b(?:sk|pk|sgc|ghp|xox[a-z])[-_][A-Za-z0-9_-]{16,}\b`)
)

// redact takes secrets out of a line.
func redact(line string) string {
	return secretForm.ReplaceAllString(secretText.ReplaceAllString(line, "${1}"+redacted), redacted)
}

// lineWriter keeps each line that is written to it.
type lineWriter struct{ l *Logs }

func (w lineWriter) Write(p []byte) (int, error) {
	w.l.add(redact(string(bytes.TrimRight(p, "\n"))))
	return len(p), nil
}

func (l *Logs) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += int64(len(line)) + 1
	if l.most == 0 {
		return
	}
	if len(l.lines) == l.most {
		l.lines = append(l.lines[:0:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
}

// logPage is a part of the log.
type logPage struct {
	lines       []string
	cursor, end int64
	truncated   bool // earlier lines were left out
	reset       bool // the cursor is from another life of the process
}

// tail returns what was logged after cursor (-1: the last lines), at most so
// many lines and bytes: the newest.
func (l *Logs) tail(cursor int64, lines, size int) logPage {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := logPage{lines: []string{}, cursor: l.end, end: l.end}
	if cursor > l.end {
		page.reset, cursor = true, -1
	}
	at := l.end
	i := len(l.lines)
	for i > 0 {
		n := int64(len(l.lines[i-1])) + 1
		if cursor >= 0 && at-n < cursor {
			break
		}
		if len(l.lines)-i >= lines || l.end-at+n > int64(size) {
			page.truncated = true
			break
		}
		i--
		at -= n
	}
	page.truncated = page.truncated || cursor >= 0 && at > cursor && i == 0
	page.lines = append(page.lines, l.lines[i:]...)
	return page
}

// logsHandler is a slog.Handler.
type logsHandler struct{ next, json slog.Handler }

// Enabled implements slog.Handler.
func (h *logsHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *logsHandler) Handle(ctx context.Context, r slog.Record) error {
	_ = h.json.Handle(ctx, r.Clone()) // writing to memory does not fail
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *logsHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logsHandler{h.next.WithAttrs(attrs), h.json.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *logsHandler) WithGroup(name string) slog.Handler {
	return &logsHandler{h.next.WithGroup(name), h.json.WithGroup(name)}
}
