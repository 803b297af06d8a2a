package gateway

import (
	"context"
	"errors"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// Parameters and results of our own methods. They are what the panel uses.
type (
	sessionParams struct {
		SessionKey string `json:"sessionKey" oc:"required,min=1"`
	}
	watchSessionParams struct {
		SessionKey string `json:"sessionKey" oc:"required,min=1"`
		After      *int64 `json:"after" oc:"min=0"`
	}
	watched struct {
		SessionKey string `json:"sessionKey"`
		LastSeq    int64  `json:"lastSeq"`
	}
	sendParams struct {
		SessionKey     string        `json:"sessionKey" oc:"min=1"`
		From           *fromParams   `json:"from"` // instead of SessionKey
		Text           string        `json:"text" oc:"required"`
		Aside          []asideParams `json:"aside" oc:"max=20"` // agent.MaxAside
		IdempotencyKey string        `json:"idempotencyKey" oc:"required,min=1"`
		Browser        string        `json:"browser" oc:"max=128"`
		Mode           agent.Mode    `json:"mode" oc:"oneof=|queue|steer|interrupt"`
	}
	sent struct {
		RunID      string `json:"runId"`
		SessionKey string `json:"sessionKey"`
		Known      bool   `json:"known"`
		Agent      string `json:"agent,omitempty"`
		MatchedBy  string `json:"matchedBy,omitempty"` // of a message that came with From
	}
	queueResult struct {
		Running string       `json:"running,omitempty"`
		Queued  []queuedTask `json:"queued"`
	}
	queuedTask struct {
		RunID string `json:"runId"`
		Task  string `json:"task"`
	}
	browserInfo struct {
		ID     string    `json:"id"`
		Online bool      `json:"online"`
		SeenAt time.Time `json:"seenAt,omitzero"`
		Runs   []string  `json:"runs"`
	}
	browsersResult struct {
		Browsers []browserInfo `json:"browsers"`
	}
	partHealth struct {
		OK    bool   `json:"ok"`
		Error string `json:"error,omitempty"`
	}
	modelHealth struct {
		Configured bool   `json:"configured"`
		Name       string `json:"name,omitempty"`
	}
	browsersHealth struct {
		Online int `json:"online"`
		Total  int `json:"total"`
	}
	healthInfo struct {
		Temporal partHealth     `json:"temporal"`
		Database partHealth     `json:"database"`
		Worker   partHealth     `json:"worker"`
		Model    modelHealth    `json:"model"`
		Browsers browsersHealth `json:"browsers"`
	}
	usageParams struct {
		From     string `json:"from"` // a day, "2006-01-02", or a time, RFC 3339
		To       string `json:"to"`   // the last day, or the time until
		Timezone string `json:"timezone"`
	}
	usageInfo struct {
		PromptTokens     int `json:"promptTokens"`
		CompletionTokens int `json:"completionTokens"`
		TotalTokens      int `json:"totalTokens"`
	}
	usageRow struct {
		Day        string    `json:"day"`
		Agent      string    `json:"agent"`
		Model      string    `json:"model"`
		Browser    string    `json:"browser"`
		Runs       int       `json:"runs"`
		Succeeded  int       `json:"succeeded"`
		Failed     int       `json:"failed"`
		Aborted    int       `json:"aborted"`
		Usage      usageInfo `json:"usage"`
		DurationMs int64     `json:"durationMs"`
		Steps      int       `json:"steps"`
	}
	usageResult struct {
		Rows []usageRow `json:"rows"`
	}
	whoamiResult struct {
		Name    string `json:"name"`
		Role    string `json:"role"`
		Version string `json:"version"`
	}
)

func usageInfoOf(u agent.Usage) usageInfo {
	return usageInfo{u.PromptTokens, u.CompletionTokens, u.TotalTokens}
}

func watch(ctx context.Context, g *Gateway, c *Call, p watchSessionParams) (any, error) {
	key, err := g.key(p.SessionKey, "")
	if err != nil {
		return nil, err
	}
	after := Now
	if p.After != nil {
		after = *p.After
	}
	last, err := g.hub.Watch(ctx, c, key, ToNative, after)
	if err != nil {
		return nil, err
	}
	return watched{key, last}, nil
}

func unwatch(_ context.Context, g *Gateway, c *Call, p sessionParams) (any, error) {
	key, err := g.key(p.SessionKey, "")
	if err != nil {
		return nil, err
	}
	g.hub.Unwatch(c.Conn, key, ToNative)
	return struct {
		SessionKey string `json:"sessionKey"`
	}{key}, nil
}

func send(ctx context.Context, g *Gateway, c *Call, p sendParams) (any, error) {
	to, err := g.place(p.SessionKey, p.From)
	if err != nil {
		return nil, err
	}
	known, _, err := g.submit(ctx, c, message{
		key: to.key, agentID: to.agentID, text: p.Text, id: p.IdempotencyKey, browser: p.Browser, mode: p.Mode, native: true,
		channel: to.channel, aside: asides(p.Aside),
	})
	if err != nil {
		return nil, err
	}
	return sent{RunID: p.IdempotencyKey, SessionKey: to.key, Known: known, Agent: to.agentID, MatchedBy: to.matchedBy}, nil
}

// queue says what a session runs and what waits in it, from the record: no
// worker is needed.
func queue(ctx context.Context, g *Gateway, _ *Call, p sessionParams) (any, error) {
	key, err := g.key(p.SessionKey, "")
	if err != nil {
		return nil, err
	}
	out := queueResult{Queued: []queuedTask{}}
	box, err := g.core.Inbox(ctx, key)
	switch {
	case err == nil:
		out.Running = box.Running
		for i, id := range box.Queued {
			t := queuedTask{RunID: id}
			if i < len(box.Tasks) {
				t.Task = box.Tasks[i]
			}
			out.Queued = append(out.Queued, t)
		}
		return out, nil
	case !errors.Is(err, durable.ErrNotFound) && !errors.Is(err, durable.ErrNoWorker) && !errors.Is(err, durable.ErrUnreachable):
		return nil, err
	}
	s, err := g.store.Session(ctx, key)
	if errors.Is(err, record.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	runs, err := g.store.SearchRuns(ctx, store.RunSearch{Session: key, Status: agent.StatusQueued, Limit: shownQueue})
	if err != nil {
		return nil, err
	}
	out.Running = s.Active
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].ID != s.Active {
			out.Queued = append(out.Queued, queuedTask{runs[i].ID, clipText(runs[i].Task, 200)})
		}
	}
	return out, nil
}

// shownRuns bounds how many runs of browsers are listed.
const shownRuns = 1000

func browsers(ctx context.Context, g *Gateway, _ *Call, _ openclaw.None) (any, error) {
	list, err := g.core.Browsers(ctx)
	if err != nil {
		return nil, err
	}
	runs := map[string][]string{}
	for _, s := range []agent.Status{agent.StatusThinking, agent.StatusActing, agent.StatusWaitingConfirm, agent.StatusBrowserOffline, agent.StatusCooling} {
		found, err := g.store.Runs(ctx, store.Filter{Status: s, Limit: shownRuns})
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			runs[r.Browser] = append(runs[r.Browser], r.ID)
		}
	}
	out := browsersResult{Browsers: []browserInfo{}}
	for _, b := range list {
		info := browserInfo{ID: b.ID, Online: b.Online, SeenAt: b.LastSeen, Runs: runs[b.ID]}
		if info.Runs == nil {
			info.Runs = []string{}
		}
		out.Browsers = append(out.Browsers, info)
	}
	return out, nil
}

func healthOfParts(ctx context.Context, g *Gateway, _ *Call, _ openclaw.None) (any, error) {
	part := func(err error) partHealth {
		if err != nil {
			return partHealth{Error: err.Error()}
		}
		return partHealth{OK: true}
	}
	parts := g.parts(ctx)
	out := healthInfo{
		Temporal: part(parts["temporal"]), Database: part(parts["database"]), Worker: part(parts["worker"]),
		// A worker that runs has a model. Without one the configuration that
		// is known here has to tell.
		Model: modelHealth{parts["worker"] == nil || g.cfg.Model.Usable, g.cfg.Model.Name},
	}
	if !out.Temporal.OK {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	list, err := g.core.Browsers(ctx)
	if err != nil {
		g.log.Warn("browsers", "err", err)
	}
	for _, b := range list {
		out.Browsers.Total++
		if b.Online {
			out.Browsers.Online++
		}
	}
	return out, nil
}

func usage(ctx context.Context, g *Gateway, _ *Call, p usageParams) (any, error) {
	zone, from, to, err := span(p)
	if err != nil {
		return nil, err
	}
	rows, err := g.store.Usage(ctx, from, to, zone)
	if errors.Is(err, record.ErrInvalid) {
		return nil, openclaw.Invalid("unknown time zone %q", clipText(zone, 64))
	}
	if err != nil {
		return nil, err
	}
	out := usageResult{Rows: make([]usageRow, len(rows))}
	for i, r := range rows {
		out.Rows[i] = usageRow{r.Day, r.Agent, r.Model, r.Browser, r.Runs, r.Succeeded, r.Failed, r.Aborted, usageInfoOf(r.Usage), r.DurationMS, r.Steps}
	}
	return out, nil
}

// span reads days or times; nothing is the last 30 days.
func span(p usageParams) (zone string, from, to time.Time, err error) {
	first, firstErr := time.Parse(time.RFC3339, p.From)
	last, lastErr := time.Parse(time.RFC3339, p.To)
	from0, to0 := p.From, p.To
	if firstErr == nil {
		from0 = ""
	}
	if lastErr == nil {
		to0 = ""
	}
	if zone, from, to, err = days(from0, to0, p.Timezone, 30); err != nil {
		return zone, from, to, err
	}
	if firstErr == nil {
		from = first
	}
	if lastErr == nil {
		to = last
	}
	if !from.Before(to) {
		return zone, from, to, openclaw.Invalid("from must be before to")
	}
	return zone, from, to, nil
}

func whoami(_ context.Context, g *Gateway, c *Call, _ openclaw.None) (any, error) {
	return whoamiResult{c.Who.Name, string(c.Who.Role), g.cfg.Version}, nil
}
