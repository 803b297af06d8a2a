package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// Codes in an error's details, beside those in errors.go.
const (
	DetailUnsupported    = "UNSUPPORTED"
	DetailKeyUsed        = "IDEMPOTENCY_KEY_USED"
	DetailSessionChanged = "SESSION_CHANGED"
	DetailModelNotFound  = "MODEL_NOT_FOUND"
)

// unsupported refuses properties that the protocol has and we do not; nil if
// a client gave none of them.
func unsupported(method string, params any) error {
	names := openclaw.Given(params)
	if len(names) == 0 {
		return nil
	}
	return openclaw.Refused(DetailUnsupported, "%s: not supported here: %s", method, strings.Join(names, ", "))
}

// message is what a client hands in, whichever method it used.
type message struct {
	key, agentID string // full key, and the agent of that key
	sessionID    string // if not empty, the session must have this id
	text         string
	id           string // the client's idempotency key
	browser      string
	model        string
	mode         agent.Mode
	timeout      time.Duration // of the run; 0 is the configured
	native       bool          // its client sees events as they are
	channel      string        // that it came by, if not the client's own
	aside        []agent.Aside // what others said before it
}

// submit hands a message to its session, once. known reports whether it was
// handed in before; over, whether its run has ended since.
func (g *Gateway) submit(ctx context.Context, c *Call, m message) (known, over bool, err error) {
	switch {
	case strings.TrimSpace(m.text) == "":
		return false, false, openclaw.Invalid("message or attachment required")
	case len(m.text) > agent.MaxInstruction:
		return false, false, openclaw.Refused(DetailTooLong, "the message has %d bytes, the limit is %d", len(m.text), agent.MaxInstruction)
	case !utf8.ValidString(m.text) || strings.ContainsRune(m.text, 0):
		return false, false, openclaw.Invalid("the message is not text")
	case m.model != "" && !slices.Contains(g.models(), m.model):
		return false, false, openclaw.Refused(DetailModelNotFound, "unknown model %q", clipText(m.model, 64))
	}
	if err := g.sameSession(ctx, m.key, m.sessionID); err != nil {
		return false, false, err
	}
	known, over, err = g.knownMessage(ctx, m)
	if err != nil {
		return false, false, err
	}
	if !m.native {
		g.follow(ctx, c, m.key)
	}
	if known {
		return true, over, nil
	}
	out := agent.Message{
		ID: m.id, Text: m.text, BrowserID: m.browser, Mode: m.mode, Aside: m.aside,
		Origin:   agent.Origin{Kind: originGateway, Channel: cmp.Or(m.channel, c.Conn.Client().ID), User: c.Who.Name},
		Settings: agent.Settings{Model: m.model, MaxTaskS: g.taskSeconds(m.timeout)},
		At:       time.Now().UTC(),
	}
	if strings.HasPrefix(m.key, "agent:") {
		out.Agent = m.agentID
	}
	started, err := g.core.StartTask(ctx, m.key, out)
	if err != nil {
		return false, false, err
	}
	if !started.Known {
		return false, false, nil
	}
	if started.Session != m.key {
		return false, false, keyUsed(m.id)
	}
	// It came just now: only its record tells whether it was the same message.
	for range 10 {
		if known, over, err = g.knownMessage(ctx, m); err != nil || known {
			return true, over, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return true, false, err
		}
	}
	return true, false, nil
}

// originGateway is the Origin.Kind of what comes by a gateway.
const originGateway = "gateway"

func keyUsed(id string) error {
	return openclaw.Refused(DetailKeyUsed, "idempotencyKey %q was used before for something else", clipText(id, 128))
}

// knownMessage looks whether a message is on record, and whether its run is
// over. The record is kept for good, so a key is never run twice.
func (g *Gateway) knownMessage(ctx context.Context, m message) (known, over bool, err error) {
	run, err := g.store.Run(ctx, m.id)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return false, false, nil
	case err != nil:
		return false, false, err
	case run.Session != m.key || run.Task != m.text:
		return false, false, keyUsed(m.id)
	}
	return true, run.Status.Final(), nil
}

// taskSeconds is how long a run may take of which a client says so.
func (g *Gateway) taskSeconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	if g.cfg.MaxTask > 0 {
		d = min(d, g.cfg.MaxTask)
	}
	return int((d + time.Second - 1) / time.Second)
}

// sameSession holds a client to the session that it saw: it must not have
// been reset since.
func (g *Gateway) sameSession(ctx context.Context, key, id string) error {
	if id == "" {
		return nil
	}
	s, err := g.store.Session(ctx, key)
	switch {
	case errors.Is(err, record.ErrNotFound):
	case err != nil:
		return err
	case sessionID(s) == id:
		return nil
	}
	return openclaw.Refused(DetailSessionChanged, "the session is not the one with id %q any more; look again", clipText(id, 64))
}

// sendStatus is OpenClaw's word for what became of a message.
func sendStatus(known, over bool) string {
	switch {
	case over:
		return openclaw.StatusOK
	case known:
		return openclaw.StatusInFlight
	}
	return openclaw.StatusStarted
}

// queueModes are our modes for OpenClaw's.
var queueModes = map[string]agent.Mode{
	"steer": agent.ModeSteer, "interrupt": agent.ModeInterrupt, "followup": agent.ModeQueue, "collect": agent.ModeQueue,
}

func chatSend(ctx context.Context, g *Gateway, c *Call, p openclaw.ChatSendParams) (any, error) {
	if err := unsupported("chat.send", p); err != nil {
		return nil, err
	}
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	known, over, err := g.submit(ctx, c, message{
		key: key, agentID: g.agentOf(key), sessionID: p.SessionID, text: p.Message, id: p.IdempotencyKey,
		mode: queueModes[p.QueueMode], timeout: time.Duration(p.TimeoutMs) * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	return openclaw.ChatSendResult{RunID: p.IdempotencyKey, Status: sendStatus(known, over)}, nil
}

func chatAbort(ctx context.Context, g *Gateway, c *Call, p openclaw.ChatAbortParams) (any, error) {
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	none := openclaw.ChatAbortResult{OK: true, RunIDs: []string{}}
	runID := p.RunID
	if runID == "" {
		s, err := g.store.Session(ctx, key)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
		runID = s.Active
	} else if run, err := g.store.Run(ctx, runID); err != nil && !errors.Is(err, record.ErrNotFound) {
		return nil, err
	} else if err == nil && run.Session != key {
		return none, nil
	}
	if runID == "" {
		return none, nil
	}
	if err := g.audit(ctx, c, "abort", key, runID, nil); err != nil {
		return nil, err
	}
	_, err = g.core.Abort(ctx, runID, workflows.Abort{By: c.Who.Name})
	switch {
	case errors.Is(err, durable.ErrRunOver), errors.Is(err, durable.ErrNotFound):
		return none, nil
	case err != nil:
		return nil, err
	}
	return openclaw.ChatAbortResult{OK: true, Aborted: true, RunIDs: []string{runID}}, nil
}

func chatInject(ctx context.Context, g *Gateway, c *Call, p openclaw.ChatInjectParams) (any, error) {
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	if len(p.Message) > store.MaxEntry || !utf8.ValidString(p.Message) {
		return nil, openclaw.Refused(DetailTooLong, "the message has %d bytes, the limit is %d", len(p.Message), store.MaxEntry)
	}
	id := uuid.NewString()
	if err := g.audit(ctx, c, "inject", key, "", injectDetail{id, p.Label, len(p.Message)}); err != nil {
		return nil, err
	}
	g.follow(ctx, c, key)
	if _, err := g.store.AddEntry(ctx, key, record.Entry{ID: id, Role: "assistant", Label: p.Label, Text: p.Message, By: c.Who.Name}); err != nil {
		return nil, err
	}
	return openclaw.ChatInjectResult{OK: true, MessageID: id}, nil
}

type injectDetail struct {
	EntryID string `json:"entryId"`
	Label   string `json:"label,omitempty"`
	Bytes   int    `json:"bytes"`
}

// Bounds of a page of history, as OpenClaw has them.
const (
	defaultHistory  = 200
	defaultMaxChars = 8000
	maxRowBytes     = 128 << 10
	maxHistoryBytes = 6 << 20
	omitted         = "[chat.history omitted: message too large]"
)

func chatHistory(ctx context.Context, g *Gateway, c *Call, p openclaw.ChatHistoryParams) (any, error) {
	if err := unsupported("chat.history", p); err != nil {
		return nil, err
	}
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	if err := g.sameSession(ctx, key, p.SessionID); err != nil {
		return nil, err
	}
	// Before anything is read, so that nothing is missed.
	g.follow(ctx, c, key)
	s, err := g.store.Session(ctx, key)
	if errors.Is(err, record.ErrNotFound) {
		s, err = record.Session{Key: key}, nil
	}
	if err != nil {
		return nil, err
	}
	info, flight, err := g.sessionInfo(ctx, s)
	if err != nil {
		return nil, err
	}
	cursor := deltaCursor(s)
	if p.Cursor != "" {
		if p.Cursor != cursor {
			return openclaw.ChatHistoryReset{Kind: openclaw.HistoryReset}, nil
		}
		return openclaw.ChatHistoryDelta{
			Kind: openclaw.HistoryDelta, Messages: []openclaw.ChatMessage{}, DeltaCursor: cursor, SessionInfo: info, InFlightRun: flight,
		}, nil
	}
	if p.Limit == 0 {
		p.Limit = defaultHistory
	}
	if p.MaxChars == 0 {
		p.MaxChars = defaultMaxChars
	}
	items, total, err := g.store.History(ctx, key, store.HistoryFilter{Limit: p.Limit, Offset: p.Offset})
	if err != nil {
		return nil, err
	}
	out := openclaw.ChatHistory{
		SessionKey: key, SessionID: info.SessionID, TotalMessages: total, DeltaCursor: cursor,
		Defaults: g.modelDefaults(), SessionInfo: info, InFlightRun: flight,
	}
	shown := len(items)
	if flight != nil {
		// What the run under way said is its text in flight.
		items = slices.DeleteFunc(items, func(it store.HistoryItem) bool { return it.RunID == flight.RunID && it.Role != "user" })
	}
	var left int
	out.Messages, left = historyPage(items, p.MaxChars)
	if read := p.Offset + shown - left; read < total {
		out.HasMore, out.NextOffset = true, &read
	}
	if out.PendingInputs, err = g.pendingInputs(ctx, key); err != nil {
		return nil, err
	}
	out.InputReceipts, err = g.receipts(ctx, p.InputRunIDs)
	return out, err
}

// historyPage makes the messages of a page, the newest as many as fit; left
// is how many do not.
func historyPage(items []store.HistoryItem, maxChars int) (page []openclaw.ChatMessage, left int) {
	page = make([]openclaw.ChatMessage, len(items))
	size := 0
	for i := len(items) - 1; i >= 0; i-- {
		m := itemMessage(items[i], maxChars)
		raw, err := json.Marshal(m)
		if err != nil || len(raw) > maxRowBytes {
			m.Content = openclaw.Text(omitted)
			raw, _ = json.Marshal(m)
		}
		if size += len(raw); size > maxHistoryBytes {
			return page[i+1:], i + 1
		}
		page[i] = m
	}
	return page, 0
}

// deltaCursor names a position in a session's events.
func deltaCursor(s record.Session) string {
	return base64.RawURLEncoding.EncodeToString([]byte(sessionID(s) + "/" + strconv.FormatInt(s.LastSeq, 10)))
}

// sessionInfo tells of a session, and of its run under way if one has begun.
func (g *Gateway) sessionInfo(ctx context.Context, s record.Session) (openclaw.SessionInfo, *openclaw.InFlightRun, error) {
	info := openclaw.SessionInfo{SessionRow: g.row(s), ActiveRunIDs: []string{}}
	if s.CreatedAt.IsZero() {
		info.SessionRow = openclaw.SessionRow{Key: s.Key, Kind: "direct", AgentID: g.agentOf(s.Key)}
	}
	if s.Active == "" {
		return info, nil, nil
	}
	run, text, err := g.said(ctx, s.Active)
	if err != nil {
		return info, nil, err
	}
	info.Status = rowStatus(run.Status)
	if run.Status.Final() {
		return info, nil, nil
	}
	info.HasActiveRun, info.ActiveRunIDs = true, []string{run.ID}
	if run.StartedAt.IsZero() {
		return info, nil, nil
	}
	return info, &openclaw.InFlightRun{
		RunID: run.ID, Text: text.String(), StartedAt: millis(run.StartedAt), Events: []openclaw.AgentEvent{},
	}, nil
}

// shownQueue bounds how many waiting messages are listed.
const shownQueue = 50

func (g *Gateway) pendingInputs(ctx context.Context, key string) (openclaw.PendingInputs, error) {
	runs, err := g.store.SearchRuns(ctx, store.RunSearch{Session: key, Status: agent.StatusQueued, Limit: shownQueue})
	if err != nil {
		return openclaw.PendingInputs{}, err
	}
	slices.Reverse(runs)
	in := openclaw.PendingInputs{Items: make([]openclaw.PendingInput, len(runs)), Total: len(runs)}
	for i, r := range runs {
		in.Items[i] = openclaw.PendingInput{
			ID: r.ID, RunID: r.ID, AcceptedAt: millis(r.CreatedAt), State: "queued",
			Message: openclaw.ChatMessage{Role: openclaw.RoleUser, Content: openclaw.Text(r.Task), Timestamp: millis(r.CreatedAt), Key: r.ID + ":user"},
		}
	}
	return in, nil
}

func (g *Gateway) receipts(ctx context.Context, ids []string) ([]openclaw.InputReceipt, error) {
	var out []openclaw.InputReceipt
	for _, id := range ids {
		run, err := g.store.Run(ctx, id)
		switch {
		case errors.Is(err, record.ErrNotFound):
		case err != nil:
			return nil, err
		case run.Status == agent.StatusQueued:
			out = append(out, openclaw.InputReceipt{RunID: id, State: "pending"})
		default:
			out = append(out, openclaw.InputReceipt{RunID: id, State: "consumed", ConsumedByEventID: id})
		}
	}
	return out, nil
}

// audit writes down what somebody is about to do.
func (g *Gateway) audit(ctx context.Context, c *Call, verb, session, runID string, detail any) error {
	e := store.AuditEntry{Who: c.Who.Name, Role: c.Who.Role, Via: store.ViaGateway, Verb: verb, Session: session, RunID: runID}
	if detail != nil {
		raw, err := json.Marshal(detail)
		if err != nil {
			return fmt.Errorf("audit of %s: %w", verb, err)
		}
		e.Detail = raw
	}
	return g.store.Audit(ctx, e)
}
