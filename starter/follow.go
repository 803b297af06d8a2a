package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/feed"
	"sgclaw/internal/store"
	"sgclaw/workflows"
)

// follow sends a run's events until ctx ends: from the database, which has
// them all from the run's beginning, else from what the run answers when
// asked, which has states, steps and questions. lost is told when the way to
// the events is lost, and with nil when it is back.
func (a *app) follow(ctx context.Context, c *durable.Client, runID string, events chan<- agent.Event, lost func(error)) {
	if db := a.maybeDatabase(ctx); db != nil {
		a.followRecord(ctx, c, db, runID, events, lost)
		return
	}
	p := &poller{client: c, runID: runID, events: events}
	for first := true; ; first = false {
		delay := 300 * time.Millisecond
		if err := p.look(ctx); err != nil {
			if !first && ctx.Err() == nil && p.trouble == nil {
				lost(err)
			}
			p.trouble, delay = err, time.Second
		} else {
			if !first && p.trouble != nil {
				lost(nil)
			}
			p.trouble = nil
		}
		if !sleep(ctx, delay) {
			return
		}
	}
}

// sleep is false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// followRecord sends what the database has of a run, from its beginning, and
// what comes.
func (a *app) followRecord(ctx context.Context, c *durable.Client, db *store.Store, runID string, events chan<- agent.Event, lost func(error)) {
	f := feed.New(a.log(), db, a.cfg.Database.URL.Reveal(), feed.Options{Lost: lost})
	defer func() { _ = f.Close() }() // nothing was left to be read
	var after int64
	for told := false; ctx.Err() == nil; {
		r, err := c.Describe(ctx, runID)
		if err == nil {
			err = a.subscribe(ctx, f, feed.Query{Session: r.Session, RunID: runID}, &after, events)
		}
		if err != nil && ctx.Err() == nil && !told {
			a.note("cannot_look", err)
			told = true
		}
		sleep(ctx, time.Second)
	}
}

// subscribe sends events until ctx or the subscription ends; after is the
// number of the last one.
func (a *app) subscribe(ctx context.Context, f *feed.Feed, q feed.Query, after *int64, events chan<- agent.Event) error {
	sub, err := f.Subscribe(ctx, q, *after)
	if err != nil {
		return err
	}
	for e := range sub.C {
		select {
		case events <- e:
			*after = max(*after, e.Seq)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := sub.Err(); !errors.Is(err, feed.ErrSlow) {
		return err
	}
	return nil
}

// poller makes events out of what a run answers.
type poller struct {
	client  *durable.Client
	runID   string
	events  chan<- agent.Event
	trouble error

	session string
	status  agent.Status
	asked   string // id of the question shown last
	lines   []workflows.Line
}

func (p *poller) look(ctx context.Context) error {
	st, err := p.client.State(ctx, p.runID)
	if errors.Is(err, durable.ErrQueued) {
		st, err = workflows.State{RunID: p.runID, Status: agent.StatusQueued}, nil
	}
	if err != nil {
		return err
	}
	p.session = st.Session
	if st.Status != agent.StatusQueued {
		lines, err := p.client.Transcript(ctx, p.runID)
		if err != nil {
			return err
		}
		for _, l := range fresh(p.lines, lines) {
			p.send(ctx, agent.EventStep, agent.StepEvent{
				Step: l.Step, Call: agent.Call{Action: l.Action}, Outcome: l.Outcome, Code: l.Code, DurationMS: l.MS,
			})
		}
		p.lines = lines
	}
	if st.Status != p.status {
		p.status = st.Status
		if st.Status.Final() {
			p.send(ctx, agent.EventDone, agent.TaskResult{
				RunID: p.runID, Status: st.Status, Success: st.Status == agent.StatusDone, Steps: []agent.Step{}, TokenUsage: st.Usage,
			})
			return nil
		}
		p.send(ctx, agent.EventState, agent.StateEvent{Status: st.Status})
	}
	if st.Confirm != nil && st.Confirm.ID != p.asked {
		p.asked = st.Confirm.ID
		p.send(ctx, agent.EventConfirm, st.Confirm)
	}
	return nil
}

func (p *poller) send(ctx context.Context, kind agent.EventKind, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		return // plain structs: cannot be
	}
	select {
	case p.events <- agent.Event{Session: p.session, RunID: p.runID, Kind: kind, At: time.Now().UTC(), Data: b}:
	case <-ctx.Done():
	}
}

// fresh returns what cur has after prev. A run keeps its last lines only, so
// the beginning of prev may be gone from cur; and after a rewind cur may be
// shorter than prev.
func fresh(prev, cur []workflows.Line) []workflows.Line {
	if len(cur) < len(prev) {
		n := 0
		for n < len(cur) && cur[n] == prev[n] {
			n++
		}
		return cur[n:]
	}
	for gone := range prev {
		if equal(prev[gone:], cur[:len(prev)-gone]) {
			return cur[len(prev)-gone:]
		}
	}
	return cur
}

func equal(a, b []workflows.Line) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
