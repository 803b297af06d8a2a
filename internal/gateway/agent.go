package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/durable"
	"sgclaw/internal/feed"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
)

// runAgent answers twice: that the message was taken, and what came of it.
func runAgent(ctx context.Context, g *Gateway, c *Call, p openclaw.AgentParams) (any, error) {
	if len(p.ExtraSystemPrompt) > 0 && string(p.ExtraSystemPrompt) != `""` {
		return nil, openclaw.Refused(DetailUnsupported, "agent: extraSystemPrompt is refused: what a client writes never becomes part of the system prompt; say it in the message")
	}
	if err := unsupported("agent", p); err != nil {
		return nil, err
	}
	if p.SessionID != "" && p.SessionKey == "" {
		return nil, openclaw.Refused(DetailUnsupported, "agent: a sessionId needs its sessionKey")
	}
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	_, over, err := g.submit(ctx, c, message{
		key: key, agentID: g.agentOf(key), sessionID: p.SessionID, text: p.Message, id: p.IdempotencyKey, model: p.Model,
		timeout: time.Duration(p.Timeout) * time.Second,
	})
	if err != nil {
		return nil, err
	}
	if !over {
		c.Early(openclaw.AgentAccepted{
			RunID: p.IdempotencyKey, SessionKey: key, AgentID: g.agentOf(key), Status: openclaw.StatusAccepted, AcceptedAt: time.Now().UnixMilli(),
		})
		if err := g.await(ctx, key, p.IdempotencyKey); err != nil {
			return nil, err
		}
	}
	return g.agentResult(ctx, p.IdempotencyKey)
}

func (g *Gateway) agentResult(ctx context.Context, runID string) (any, error) {
	run, err := g.ended(ctx, runID)
	if err != nil {
		return nil, err
	}
	out := openclaw.AgentResult{RunID: runID, Status: openclaw.StatusOK, Summary: "completed", Result: &openclaw.AgentOutput{
		Payloads: []openclaw.AgentPayload{},
		Meta:     openclaw.AgentMeta{Aborted: run.Status == agent.StatusAborted, AgentMeta: openclaw.AgentMetaCore{Provider: g.cfg.Model.Provider, Model: modelOf(run)}},
	}}
	if !run.StartedAt.IsZero() {
		out.Result.Meta.DurationMs = run.EndedAt.Sub(run.StartedAt).Milliseconds()
	}
	if u := usageOf(run.Usage); u != nil {
		out.Result.Meta.AgentMeta.Usage = *u
	}
	if s, err := g.store.Session(ctx, run.Session); err == nil {
		out.Result.Meta.AgentMeta.SessionID = sessionID(s)
	}
	if run.Summary != "" {
		out.Result.Payloads = append(out.Result.Payloads, openclaw.AgentPayload{Text: run.Summary})
	}
	if run.Status != agent.StatusDone {
		out.Status, out.Summary = openclaw.StatusError, endOf(run)
	}
	return out, nil
}

// modelOf is the model that a run used most.
func modelOf(run record.Run) string {
	best, most := run.Settings.Model, -1
	for name, u := range run.Models {
		if u.TotalTokens > most {
			best, most = name, u.TotalTokens
		}
	}
	return best
}

// endOf says in words why a run ended without success.
func endOf(run record.Run) string {
	if run.Status == agent.StatusAborted {
		return "aborted"
	}
	return ending(agent.TaskResult{Status: run.Status, Reason: run.Reason, Summary: run.Summary})
}

// defaultWait is how long agent.wait waits if it is not told.
const defaultWait = 30 * time.Second

func agentWait(ctx context.Context, g *Gateway, c *Call, p openclaw.AgentWaitParams) (any, error) {
	wait := defaultWait
	if p.TimeoutMs != nil {
		wait = time.Duration(*p.TimeoutMs) * time.Millisecond
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	pending := openclaw.AgentWaitResult{RunID: p.RunID, Status: openclaw.StatusTimeout}
	run, err := g.store.Run(ctx, p.RunID)
	for again := 100 * time.Millisecond; errors.Is(err, record.ErrNotFound); again = min(2*again, 2*time.Second) {
		// A message may still be on its way to its record.
		if sleep(waiting, again) != nil {
			return pending, ctx.Err()
		}
		run, err = g.store.Run(ctx, p.RunID)
	}
	if err != nil {
		return nil, err
	}
	// From here on the client that comes back sees how the run goes on.
	g.follow(ctx, c, run.Session)
	started := millis(run.StartedAt)
	run, err = g.ended(ctx, p.RunID)
	if errors.Is(err, errNotOver) {
		if err := g.await(waiting, run.Session, p.RunID); err != nil {
			if ctx.Err() == nil && waiting.Err() != nil {
				pending.StartedAt = started
				return pending, nil
			}
			return nil, err
		}
		run, err = g.ended(ctx, p.RunID)
	}
	if err != nil {
		return nil, err
	}
	_, text, err := g.said(ctx, p.RunID)
	if err != nil {
		return nil, err
	}
	out := openclaw.AgentWaitResult{RunID: p.RunID, Status: openclaw.StatusOK, StartedAt: millis(run.StartedAt), EndedAt: millis(run.EndedAt)}
	switch run.Status {
	case agent.StatusDone:
		if run.Reason != agent.ReasonSteered {
			out.TerminalReply = openclaw.ReplyOf(text.finish(run.Summary))
		}
	case agent.StatusAborted:
		out.Status, out.Error, out.StopReason = openclaw.StatusError, "aborted", "rpc"
		out.TerminalReply = openclaw.ReplyOf(text.String())
	default:
		out.Status, out.Error, out.StopReason = openclaw.StatusError, endOf(run), "error"
	}
	return out, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// lookAgain is how often a run that says nothing is looked after.
const lookAgain = 10 * time.Second

// await waits until a run is over, for as long as ctx lasts. It watches the
// record, which any gateway can do, whatever becomes of the one that took the
// message.
func (g *Gateway) await(ctx context.Context, session, runID string) error {
	last, err := g.store.LastSeq(ctx, session)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := g.feed.Subscribe(ctx, feed.Query{Session: session, RunID: runID}, last)
	if err != nil {
		return err
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		run, err := g.ended(ctx, runID)
		switch {
		case err == nil && run.Status.Final():
			return nil
		case err != nil && !errors.Is(err, record.ErrNotFound) && !errors.Is(err, errNotOver):
			return err
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-look.C:
				again = true
			case e, ok := <-sub.C:
				if !ok {
					return sub.Err()
				}
				again = e.Kind == agent.EventDone
			}
		}
	}
}

var errNotOver = errors.New("the run is not over")

// ended returns a run that is over. One that an operator ended in Temporal
// could not put that on record itself.
func (g *Gateway) ended(ctx context.Context, runID string) (record.Run, error) {
	run, err := g.store.Run(ctx, runID)
	if err != nil || run.Status.Final() {
		return run, err
	}
	if run.StartedAt.IsZero() {
		return run, errNotOver
	}
	d, err := g.core.Describe(ctx, runID)
	switch {
	case errors.Is(err, durable.ErrNotFound), errors.Is(err, durable.ErrUnreachable), errors.Is(err, durable.ErrNoWorker):
		return run, errNotOver
	case err != nil:
		return run, err
	case d.Status.Final() && !d.EndedAt.IsZero():
		// Its record may have been written just now.
		if again, err := g.store.Run(ctx, runID); err != nil || again.Status.Final() {
			return again, err
		}
		run.Status, run.EndedAt = d.Status, d.EndedAt
		if run.Reason == "" {
			run.Reason = strings.ToUpper(string(d.Status))
		}
		return run, nil
	}
	return run, errNotOver
}
