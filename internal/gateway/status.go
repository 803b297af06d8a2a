package gateway

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/routing"
	"sgclaw/internal/store"
)

// recentSessions is how many sessions health and status list.
const recentSessions = 5

// mainKey is the last part of the key of an agent's main session.
func (g *Gateway) mainKey() string {
	k, err := routing.Parse(g.cfg.Router.MainKey(g.cfg.Router.Default()))
	if err != nil {
		return mainAgent
	}
	return k.Rest
}

func health(ctx context.Context, g *Gateway, _ *Call, _ openclaw.HealthParams) (any, error) {
	began := time.Now()
	out := openclaw.HealthResult{
		OK: true, ChannelOrder: []string{}, DefaultAgentID: g.cfg.Router.Default(), Agents: []openclaw.HealthAgent{},
		Sessions: openclaw.HealthSessions{Path: database, Recent: []openclaw.RecentSession{}}, Parts: map[string]string{},
	}
	for name, err := range g.parts(ctx) {
		out.Parts[name] = "ok"
		if err != nil {
			out.OK, out.Parts[name] = false, err.Error()
		}
	}
	count, recent, err := g.recent(ctx, "")
	if err != nil {
		return nil, err
	}
	out.Sessions.Count, out.Sessions.Recent = count, recent
	if out.Agents, err = g.healthAgents(ctx); err != nil {
		return nil, err
	}
	out.Ts, out.DurationMs = time.Now().UnixMilli(), time.Since(began).Milliseconds()
	return out, nil
}

// Faults of what the gateway depends on, as people are told of them; the log
// has the rest.
var (
	errTemporalAway = errors.New("temporal does not answer")
	errDatabaseAway = errors.New("the database does not answer")
	errNoWorker     = errors.New("no worker asked for work in the last minutes")
)

// partTimeout bounds how long each part is waited for.
const partTimeout = 3 * time.Second

// parts looks at what the gateway depends on.
func (g *Gateway) parts(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, partTimeout)
	defer cancel()
	out := map[string]error{"database": nil, "temporal": nil, "worker": nil}
	if err := g.store.Ping(ctx); err != nil {
		g.log.Warn("database", "err", err)
		out["database"] = errDatabaseAway
	}
	if _, err := g.core.Temporal().CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		g.log.Warn("temporal", "err", err)
		out["temporal"], out["worker"] = errTemporalAway, errNoWorker
		return out
	}
	if workers, err := g.core.Workers(ctx); err != nil || !slices.ContainsFunc(workers, asking) {
		out["worker"] = errNoWorker
	}
	return out
}

// asking reports whether a worker still asks for work: it does so at least
// once a minute, and is remembered for five.
func asking(w durable.Poller) bool { return time.Since(w.LastSeen) < 90*time.Second }

func (g *Gateway) recent(ctx context.Context, agentID string) (int, []openclaw.RecentSession, error) {
	list, total, err := g.store.Sessions(ctx, store.SessionFilter{Agent: agentID, Limit: recentSessions})
	out := []openclaw.RecentSession{}
	for _, s := range list {
		out = append(out, openclaw.RecentSession{Key: s.Key, UpdatedAt: millis(s.UpdatedAt), Age: time.Since(s.UpdatedAt).Milliseconds()})
	}
	return total, out, err
}

func (g *Gateway) healthAgents(ctx context.Context) ([]openclaw.HealthAgent, error) {
	out := make([]openclaw.HealthAgent, len(g.cfg.Agents))
	for i, a := range g.cfg.Agents {
		count, recent, err := g.recent(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		out[i] = openclaw.HealthAgent{
			AgentID: a.ID, Name: a.title(), IsDefault: a.ID == g.cfg.Router.Default(), Heartbeat: openclaw.Heartbeat{Every: "disabled"},
			Sessions: openclaw.HealthSessions{Path: database, Count: count, Recent: recent},
		}
	}
	return out, nil
}

func status(ctx context.Context, g *Gateway, _ *Call, _ openclaw.StatusParams) (any, error) {
	agents, err := g.healthAgents(ctx)
	if err != nil {
		return nil, err
	}
	count, recent, err := g.recent(ctx, "")
	if err != nil {
		return nil, err
	}
	out := openclaw.Status{
		RuntimeVersion: g.cfg.Version, PID: os.Getpid(), ChannelSummary: []string{}, QueuedSystemEvents: []string{},
		Heartbeat: openclaw.StatusHeartbeat{DefaultAgentID: g.cfg.Router.Default(), Agents: agents},
		Tasks:     openclaw.StatusTasks{ByStatus: struct{}{}, ByRuntime: struct{}{}},
		Sessions:  openclaw.StatusSessions{Paths: []string{database}, Count: count, Defaults: g.modelDefaults(), Recent: recent},
	}
	for _, a := range agents {
		out.Sessions.ByAgent = append(out.Sessions.ByAgent, openclaw.AgentSessions{
			AgentID: a.AgentID, Path: database, Count: a.Sessions.Count, Recent: a.Sessions.Recent,
		})
	}
	return out, nil
}

func systemPresence(_ context.Context, g *Gateway, _ *Call, _ openclaw.None) (any, error) {
	return g.Presence(), nil
}

// Bounds of a page of the log.
const (
	defaultLogLines = 500
	defaultLogBytes = 250_000
)

func logsTail(_ context.Context, g *Gateway, _ *Call, p openclaw.LogsTailParams) (any, error) {
	out := openclaw.LogsTail{File: "sgclaw-gateway", Lines: []string{}}
	if g.cfg.Logs == nil {
		return out, nil
	}
	cursor := int64(-1)
	if p.Cursor != nil {
		cursor = *p.Cursor
	}
	if p.Limit == 0 {
		p.Limit = defaultLogLines
	}
	if p.MaxBytes == 0 {
		p.MaxBytes = defaultLogBytes
	}
	page := g.cfg.Logs.tail(cursor, p.Limit, p.MaxBytes)
	out.Cursor, out.Size, out.Lines, out.Truncated, out.Reset = page.cursor, page.end, page.lines, page.truncated, page.reset
	return out, nil
}

func usageStatus(context.Context, *Gateway, *Call, openclaw.None) (any, error) {
	return openclaw.UsageStatus{UpdatedAt: time.Now().UnixMilli(), Providers: []struct{}{}}, nil
}

// ranges are the days of usage.cost's ranges.
var ranges = map[string]int{"": 30, "7d": 7, "30d": 30, "90d": 90, "1y": 365, "all": 3650}

func usageCost(ctx context.Context, g *Gateway, _ *Call, p openclaw.UsageCostParams) (any, error) {
	if err := unsupported("usage.cost", p); err != nil {
		return nil, err
	}
	n := p.Days
	if n == 0 {
		n = ranges[p.Range]
	}
	zone, from, to, err := days(p.StartDate, p.EndDate, p.TimeZone, min(n, 3650))
	if err != nil {
		return nil, err
	}
	agentID := ""
	if p.AgentID != "" {
		a, err := g.agent(p.AgentID)
		if err != nil {
			return nil, err
		}
		agentID = a.ID
	}
	rows, err := g.store.Usage(ctx, from, to, zone)
	if errors.Is(err, record.ErrInvalid) {
		return nil, openclaw.Invalid("unknown time zone %q", clipText(zone, 64))
	}
	if err != nil {
		return nil, err
	}
	out := openclaw.UsageCost{UpdatedAt: time.Now().UnixMilli(), Days: int(to.Sub(from).Hours()/24 + 0.5), Daily: []openclaw.DailyCost{}}
	for _, r := range rows {
		if agentID != "" && r.Agent != agentID {
			continue
		}
		n := len(out.Daily)
		if n == 0 || out.Daily[n-1].Date != r.Day {
			out.Daily, n = append(out.Daily, openclaw.DailyCost{Date: r.Day}), n+1
		}
		for _, t := range []*openclaw.CostTotals{&out.Daily[n-1].CostTotals, &out.Totals} {
			t.Input += r.Usage.PromptTokens
			t.Output += r.Usage.CompletionTokens
			t.TotalTokens += r.Usage.TotalTokens
			t.MissingCostEntries += r.Runs
		}
	}
	return out, nil
}

// days is the span from the beginning of one day to the end of another, in a
// time zone. Without a first day it is the last n.
func days(first, last, zone string, n int) (tz string, from, to time.Time, err error) {
	if zone == "" {
		zone = "UTC"
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || strings.EqualFold(zone, "local") {
		return zone, from, to, openclaw.Invalid("unknown time zone %q", clipText(zone, 64))
	}
	y, m, d := time.Now().In(loc).Date()
	to = time.Date(y, m, d, 0, 0, 0, 0, loc)
	if last != "" {
		if to, err = time.ParseInLocation(time.DateOnly, last, loc); err != nil {
			return zone, from, to, openclaw.Invalid("a day is written 2006-01-02")
		}
	}
	from = to.AddDate(0, 0, 1-n)
	if first != "" {
		if from, err = time.ParseInLocation(time.DateOnly, first, loc); err != nil {
			return zone, from, to, openclaw.Invalid("a day is written 2006-01-02")
		}
	}
	to = to.AddDate(0, 0, 1)
	if !from.Before(to) {
		return zone, from, to, openclaw.Invalid("the first day is after the last")
	}
	return zone, from, to, nil
}
