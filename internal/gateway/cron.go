package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
)

// cronJob is what a schedule keeps of a job: what its client said. The rest
// is made of it.
type cronJob struct {
	Name          string                 `json:"name"`
	Description   string                 `json:"description,omitempty"`
	AgentID       string                 `json:"agentId"`
	SessionKey    string                 `json:"sessionKey,omitempty"`
	SessionTarget string                 `json:"sessionTarget"`
	WakeMode      string                 `json:"wakeMode"`
	Schedule      openclaw.CronSchedule  `json:"schedule"`
	Payload       openclaw.CronPayload   `json:"payload"`
	Delivery      *openclaw.CronDelivery `json:"delivery,omitempty"`
	Overlap       string                 `json:"overlap,omitempty"`
	CatchUpMs     int64                  `json:"catchUpMs,omitempty"`
	Enabled       bool                   `json:"enabled"`
}

// originSchedule is the Origin.Kind of what a schedule asks.
const originSchedule = "schedule"

// Targets of jobs.
const (
	targetMain     = "main"
	targetIsolated = "isolated"
	targetSession  = "session:"
)

// schedule makes of a job what the core keeps; by is who asked.
func (g *Gateway) schedule(j *cronJob, by string) (durable.Schedule, error) {
	var s durable.Schedule
	if err := g.checkJob(j); err != nil {
		return s, err
	}
	a, err := g.agent(j.AgentID)
	if err != nil {
		return s, err
	}
	j.AgentID = a.ID
	switch {
	case j.SessionKey != "":
		if s.Session, err = g.key(j.SessionKey, j.AgentID); err != nil {
			return s, err
		}
	case j.SessionTarget == targetMain:
		s.Session = g.cfg.Router.MainKey(a.ID)
	case j.SessionTarget == targetIsolated:
		s.Fresh = true // CreateSchedule's id is not known yet: see isolate
	default:
		if s.Session, err = g.key(strings.TrimPrefix(j.SessionTarget, targetSession), j.AgentID); err != nil {
			return s, err
		}
	}
	if s.Timing, err = timing(j.Schedule); err != nil {
		return s, err
	}
	text := j.Payload.Message
	if j.Payload.Kind == openclaw.CronEvent {
		text = j.Payload.Text
	}
	s.Message = agent.Message{
		Text: text, Agent: a.ID, Origin: agent.Origin{Kind: originSchedule, Channel: "cron", User: by},
		Settings: agent.Settings{Model: j.Payload.Model, MaxTaskS: g.taskSeconds(time.Duration(j.Payload.TimeoutSeconds * float64(time.Second)))},
	}
	s.Skip, s.Paused, s.Catchup = j.Overlap != "buffer", !j.Enabled, time.Duration(j.CatchUpMs)*time.Millisecond
	s.Definition, err = json.Marshal(j)
	return s, err
}

// isolate gives a schedule that has a session for each firing the beginning
// of their keys.
func isolate(s *durable.Schedule, agentID string) {
	if s.Fresh {
		s.Session = "agent:" + agentID + ":cron:" + s.ID
	}
}

// checkJob refuses what we do not have, by name.
func (g *Gateway) checkJob(j *cronJob) error {
	names := append(under("schedule", openclaw.Given(j.Schedule)), under("payload", openclaw.Given(j.Payload))...)
	// Where to deliver to says nothing as long as nothing is to be delivered.
	if d := j.Delivery; d != nil && d.Mode != "none" {
		names = append(names, under("delivery", openclaw.Given(*d))...)
		if d.Mode != "" {
			names = append(names, "delivery.mode "+d.Mode)
		}
	}
	if k := j.Schedule.Kind; k != openclaw.CronAt && k != openclaw.CronEvery && k != openclaw.CronExpr {
		names = append(names, "schedule.kind "+k)
	}
	if k := j.Payload.Kind; k != openclaw.CronEvent && k != openclaw.CronTurn {
		names = append(names, "payload.kind "+k)
	}
	if j.SessionTarget == "current" {
		names = append(names, "sessionTarget current")
	}
	if j.WakeMode != "now" {
		names = append(names, "wakeMode "+j.WakeMode)
	}
	switch {
	case len(names) > 0:
		return openclaw.Refused(DetailUnsupported, "cron: not supported here: %s", strings.Join(names, ", "))
	case j.SessionTarget != targetMain && j.SessionTarget != targetIsolated && !strings.HasPrefix(j.SessionTarget, targetSession):
		return openclaw.Invalid("sessionTarget must be main, isolated or session:<key>")
	case j.Payload.Kind == openclaw.CronEvent && j.Payload.Text == "", j.Payload.Kind == openclaw.CronTurn && j.Payload.Message == "":
		return openclaw.Invalid("the payload has no text")
	case j.Payload.Model != "" && !slices.Contains(g.models(), j.Payload.Model):
		return openclaw.Refused(DetailModelNotFound, "unknown model %q", clipText(j.Payload.Model, 64))
	}
	return nil
}

func under(name string, given []string) []string {
	out := make([]string, len(given))
	for i, n := range given {
		out[i] = name + "." + n
	}
	return out
}

// timing reads when a job is due.
func timing(s openclaw.CronSchedule) (durable.Timing, error) {
	var t durable.Timing
	switch s.Kind {
	case openclaw.CronAt:
		at, err := time.Parse(time.RFC3339, s.At)
		if err != nil {
			return t, openclaw.Invalid("schedule.at must be a time with its zone, such as 2026-01-02T15:04:05Z")
		}
		if !at.After(time.Now()) {
			return t, openclaw.Invalid("schedule.at is over")
		}
		t.At = at.UTC().Truncate(time.Second)
	case openclaw.CronEvery:
		t.Every = time.Duration(s.EveryMs) * time.Millisecond
		if t.Every == 0 {
			return t, openclaw.Invalid("schedule.everyMs is missing")
		}
		t.Anchor = time.Now().UTC().Truncate(time.Second)
		if s.AnchorMs != nil {
			t.Anchor = time.UnixMilli(*s.AnchorMs).UTC()
		}
	case openclaw.CronExpr:
		if s.Expr == "" {
			return t, openclaw.Invalid("schedule.expr is missing")
		}
		if _, err := time.LoadLocation(s.TZ); err != nil || s.TZ == "Local" {
			return t, openclaw.Invalid("unknown time zone %q", clipText(s.TZ, 64))
		}
		t.Cron, t.TZ, t.Jitter = s.Expr, s.TZ, time.Duration(s.StaggerMs)*time.Millisecond
	}
	return t, nil
}

// job reads a schedule back.
func (g *Gateway) job(ctx context.Context, s durable.Schedule) (openclaw.CronJob, error) {
	var j cronJob
	if err := json.Unmarshal(s.Definition, &j); err != nil {
		return openclaw.CronJob{}, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	out := openclaw.CronJob{
		ID: s.ID, AgentID: j.AgentID, SessionKey: j.SessionKey, Name: j.Name, Description: j.Description, Enabled: !s.Paused,
		CreatedAtMs: millis(s.CreatedAt), UpdatedAtMs: millis(s.UpdatedAt), ConfigRevision: revision(s.Definition),
		Schedule: j.Schedule, SessionTarget: j.SessionTarget, WakeMode: j.WakeMode, Payload: j.Payload, Delivery: j.Delivery,
	}
	out.State.NextRunAtMs, out.NextRunAtMs = millis(s.Next), millis(s.Next)
	for _, f := range slices.Backward(s.Recent) {
		run, over, err := g.firing(ctx, s.ID, j.Name, f)
		if err != nil {
			return out, err
		}
		if !over {
			out.State.RunningAtMs = millis(f.At)
			continue
		}
		out.State.LastRunAtMs, out.State.LastRunStatus, out.State.LastStatus = run.RunAtMs, run.Status, run.Status
		out.State.LastError, out.State.LastDuration = run.Error, run.DurationMs
		out.LastRunAtMs, out.LastRunStatus = run.RunAtMs, run.Status
		break
	}
	return out, nil
}

// firing tells what became of a time that a schedule fired; over is false
// while its run goes on.
func (g *Gateway) firing(ctx context.Context, id, name string, f durable.Firing) (entry openclaw.CronRun, over bool, err error) {
	entry = openclaw.CronRun{
		Ts: millis(f.At), JobID: id, JobName: name, Action: "finished", RunAtMs: millis(f.Due), RunID: f.RunID, SessionKey: f.Session, Status: openclaw.CronSkipped,
	}
	run, err := g.store.Run(ctx, f.RunID)
	switch {
	case errors.Is(err, record.ErrNotFound):
		// It was left out; or it is on its way, if it was just now.
		entry.RunID = ""
		return entry, time.Since(f.At) > 10*time.Second, nil
	case err != nil:
		return entry, false, err
	case !run.Status.Final():
		return entry, false, nil
	}
	entry.Ts, entry.Status, entry.Model = millis(run.EndedAt), openclaw.CronOK, modelOf(run)
	if !run.StartedAt.IsZero() {
		entry.DurationMs = run.EndedAt.Sub(run.StartedAt).Milliseconds()
	}
	if entry.Summary = clipText(run.Summary, 2000); run.Status != agent.StatusDone {
		entry.Status, entry.Error = openclaw.CronError, clipText(endOf(run), 2000)
	}
	return entry, true, nil
}

// revision names a state of something.
func revision(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

func cronAdd(ctx context.Context, g *Gateway, c *Call, p openclaw.CronAddParams) (any, error) {
	if err := unsupported("cron.add", p); err != nil {
		return nil, err
	}
	if p.DeleteAfterRun != nil && *p.DeleteAfterRun && p.Schedule.Kind != openclaw.CronAt {
		return nil, openclaw.Refused(DetailUnsupported, "cron.add: deleteAfterRun is for a schedule of kind at")
	}
	j := &cronJob{
		Name: p.Name, Description: p.Description, AgentID: p.AgentID.Value, SessionKey: p.SessionKey.Value, SessionTarget: p.SessionTarget, WakeMode: p.WakeMode,
		Schedule: p.Schedule, Payload: p.Payload, Delivery: p.Delivery, Overlap: p.Overlap, CatchUpMs: p.CatchUpMs, Enabled: p.Enabled == nil || *p.Enabled,
	}
	s, err := g.schedule(j, c.Who.Name)
	if err != nil {
		return nil, err
	}
	s.ID = uuid.NewString()
	isolate(&s, j.AgentID)
	if err := g.audit(ctx, c, "cron.add", s.Session, "", j); err != nil {
		return nil, err
	}
	if _, err := g.core.CreateSchedule(ctx, s); err != nil {
		return nil, err
	}
	return g.jobOf(ctx, s.ID)
}

func (g *Gateway) jobOf(ctx context.Context, id string) (any, error) {
	s, err := g.scheduleOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.job(ctx, s)
}

// scheduleOf returns a schedule, or CRON_JOB_NOT_FOUND.
func (g *Gateway) scheduleOf(ctx context.Context, id string) (durable.Schedule, error) {
	if id == "" {
		return durable.Schedule{}, openclaw.Invalid("must have required property 'id'")
	}
	s, err := g.core.DescribeSchedule(ctx, id)
	if errors.Is(err, durable.ErrNotFound) {
		err = openclaw.CronJobNotFound(id)
	}
	return s, err
}

func cronGet(ctx context.Context, g *Gateway, _ *Call, p openclaw.CronID) (any, error) {
	return g.jobOf(ctx, p.Job())
}

func cronUpdate(ctx context.Context, g *Gateway, c *Call, p openclaw.CronUpdateParams) (any, error) {
	if err := errors.Join(unsupported("cron.update", p), unsupported("cron.update", p.Patch)); err != nil {
		return nil, err
	}
	was, err := g.scheduleOf(ctx, p.Job())
	if err != nil {
		return nil, err
	}
	if err := g.audit(ctx, c, "cron.update", was.Session, "", struct {
		ID string `json:"id"`
	}{was.ID}); err != nil {
		return nil, err
	}
	err = g.core.UpdateSchedule(ctx, was.ID, func(s *durable.Schedule) error {
		var j cronJob
		if err := json.Unmarshal(s.Definition, &j); err != nil {
			return err
		}
		j.patch(p.Patch)
		next, err := g.schedule(&j, s.Message.Origin.User)
		if err != nil {
			return err
		}
		next.ID = s.ID
		isolate(&next, j.AgentID)
		if p.Patch.Schedule == nil {
			next.Timing = s.Timing
		}
		*s = next
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.jobOf(ctx, was.ID)
}

func (j *cronJob) patch(p openclaw.CronPatch) {
	set(&j.Name, p.Name)
	set(&j.Description, p.Description)
	set(&j.Enabled, p.Enabled)
	set(&j.Schedule, p.Schedule)
	set(&j.SessionTarget, p.SessionTarget)
	set(&j.WakeMode, p.WakeMode)
	set(&j.Overlap, p.Overlap)
	set(&j.CatchUpMs, p.CatchUpMs)
	if p.AgentID.Set {
		j.AgentID = p.AgentID.Value
	}
	if p.SessionKey.Set {
		j.SessionKey = p.SessionKey.Value
	}
	if p.Delivery != nil {
		j.Delivery = p.Delivery
	}
	if n := p.Payload; n != nil && n.Kind == j.Payload.Kind {
		// What is absent stays.
		n.Text, n.Message, n.Model = cmp.Or(n.Text, j.Payload.Text), cmp.Or(n.Message, j.Payload.Message), cmp.Or(n.Model, j.Payload.Model)
		n.TimeoutSeconds = cmp.Or(n.TimeoutSeconds, j.Payload.TimeoutSeconds)
		j.Payload = *n
	} else if n != nil {
		j.Payload = *n
	}
}

func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

func cronRemove(ctx context.Context, g *Gateway, c *Call, p openclaw.CronID) (any, error) {
	s, err := g.scheduleOf(ctx, p.Job())
	if err != nil {
		return nil, err
	}
	if err := g.audit(ctx, c, "cron.remove", s.Session, "", s.Definition); err != nil {
		return nil, err
	}
	if err := g.core.DeleteSchedule(ctx, s.ID); err != nil && !errors.Is(err, durable.ErrNotFound) {
		return nil, err
	}
	return openclaw.CronRemoved{OK: true, Removed: true}, nil
}

func cronRun(ctx context.Context, g *Gateway, c *Call, p openclaw.CronRunParams) (any, error) {
	if err := unsupported("cron.run", p); err != nil {
		return nil, err
	}
	s, err := g.scheduleOf(ctx, p.Job())
	if err != nil {
		return nil, err
	}
	not := func(reason string) (any, error) {
		ran := false
		return openclaw.CronRan{OK: true, Ran: &ran, Reason: reason}, nil
	}
	switch {
	case p.Mode == "due":
		return not("not-due") // what is due fires by itself
	case p.Mode == "if-enabled" && s.Paused:
		return not("disabled")
	}
	if err := g.audit(ctx, c, "cron.run", s.Session, "", struct {
		ID string `json:"id"`
	}{s.ID}); err != nil {
		return nil, err
	}
	f, err := g.core.TriggerSchedule(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	return openclaw.CronRan{OK: true, Enqueued: true, RunID: f.RunID, ProcessInstanceID: g.instance}, nil
}

// jobs returns all jobs.
func (g *Gateway) jobs(ctx context.Context) ([]openclaw.CronJob, error) {
	all, err := g.core.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	jobs := make([]openclaw.CronJob, len(all))
	for i, s := range all {
		if jobs[i], err = g.job(ctx, s); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func cronStatus(ctx context.Context, g *Gateway, _ *Call, _ openclaw.None) (any, error) {
	all, err := g.core.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	out := openclaw.CronStatus{Enabled: true, Jobs: len(all), Storage: "temporal", StorePath: "temporal"}
	for _, s := range all {
		if next := millis(s.Next); next != 0 && (out.NextWakeAtMs == nil || next < *out.NextWakeAtMs) {
			out.NextWakeAtMs = &next
		}
	}
	return out, nil
}

// defaultJobs is how many jobs, and how many firings, a page has.
const defaultJobs = 50

func cronList(ctx context.Context, g *Gateway, _ *Call, p openclaw.CronListParams) (any, error) {
	jobs, err := g.jobs(ctx)
	if err != nil {
		return nil, err
	}
	is := func(filter, value string) bool { return filter == "" || filter == "all" || filter == value }
	query := strings.ToLower(p.Query)
	jobs = slices.DeleteFunc(jobs, func(j openclaw.CronJob) bool {
		enabled := "enabled"
		if !j.Enabled {
			enabled = "disabled"
		}
		return !j.Enabled && p.Enabled == "" && !p.IncludeDisabled || !is(p.Enabled, enabled) || !is(p.ScheduleKind, j.Schedule.Kind) ||
			!is(p.LastRunStatus, cmp.Or(j.LastRunStatus, "unknown")) || !is(p.Trigger, "unconditional") ||
			p.AgentID != "" && p.AgentID != j.AgentID ||
			!strings.Contains(strings.ToLower(j.Name+"\n"+j.Description+"\n"+j.ID), query)
	})
	slices.SortStableFunc(jobs, func(a, b openclaw.CronJob) int {
		var d int
		switch p.SortBy {
		case "name":
			d = strings.Compare(a.Name, b.Name)
		case "updatedAtMs":
			d = cmp.Compare(a.UpdatedAtMs, b.UpdatedAtMs)
		default:
			// Those that are never due come last.
			d = cmp.Compare(uint64(a.NextRunAtMs-1), uint64(b.NextRunAtMs-1))
		}
		if p.SortDir == "desc" {
			return -d
		}
		return d
	})
	raw, err := json.Marshal(jobs)
	if err != nil {
		return nil, err
	}
	out := openclaw.CronJobs{Total: len(jobs), Offset: p.Offset, Limit: cmp.Or(p.Limit, defaultJobs), SnapshotRevision: revision(raw)}
	out.Jobs, out.NextOffset = pageOf(jobs, p.Offset, out.Limit)
	out.HasMore = out.NextOffset != nil
	return out, nil
}

// pageOf cuts a page out of a list, and says where the next one begins.
func pageOf[T any](list []T, offset, limit int) (page []T, next *int) {
	offset = min(offset, len(list))
	end := min(offset+limit, len(list))
	if end < len(list) {
		next = &end
	}
	return append([]T{}, list[offset:end]...), next
}

func cronRuns(ctx context.Context, g *Gateway, _ *Call, p openclaw.CronRunsParams) (any, error) {
	if err := unsupported("cron.runs", p); err != nil {
		return nil, err
	}
	var schedules []durable.Schedule
	if id := p.Job(); id != "" {
		s, err := g.scheduleOf(ctx, id)
		if err != nil {
			return nil, err
		}
		schedules = append(schedules, s)
	} else {
		if p.Scope == "job" {
			return nil, openclaw.Invalid("a job's runs need its id")
		}
		var err error
		if schedules, err = g.core.Schedules(ctx); err != nil {
			return nil, err
		}
	}
	var entries []openclaw.CronRun
	for _, s := range schedules {
		var j cronJob
		if err := json.Unmarshal(s.Definition, &j); err != nil {
			return nil, fmt.Errorf("schedule %s: %w", s.ID, err)
		}
		if p.AgentID != "" && p.AgentID != j.AgentID {
			continue
		}
		for _, f := range s.Recent {
			entry, over, err := g.firing(ctx, s.ID, j.Name, f)
			if err != nil {
				return nil, err
			}
			if over && wanted(p, entry) {
				entries = append(entries, entry)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b openclaw.CronRun) int {
		if p.SortDir == "asc" {
			return cmp.Compare(a.Ts, b.Ts)
		}
		return cmp.Compare(b.Ts, a.Ts)
	})
	out := openclaw.CronRuns{Total: len(entries), Offset: p.Offset, Limit: cmp.Or(p.Limit, defaultJobs)}
	out.Entries, out.NextOffset = pageOf(entries, p.Offset, out.Limit)
	out.HasMore = out.NextOffset != nil
	return out, nil
}

// wanted reports whether a firing is among those asked for.
func wanted(p openclaw.CronRunsParams, r openclaw.CronRun) bool {
	return (p.Status == "" || p.Status == "all" || p.Status == r.Status) && (len(p.Statuses) == 0 || slices.Contains(p.Statuses, r.Status)) &&
		(p.RunID == "" || p.RunID == r.RunID) && strings.Contains(strings.ToLower(r.JobName+"\n"+r.Summary+"\n"+r.Error), strings.ToLower(p.Query))
}
