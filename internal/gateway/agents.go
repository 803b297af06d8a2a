package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/routing"
)

// Agent is a configured agent, as far as clients are told of it.
type Agent struct {
	ID   string
	Name string // empty is the ID
	// Model is what it asks; empty is Config.Model.
	Model string
	// Actions are those that it may use; none are all.
	Actions []string
}

// Model is a model, as far as clients are told of it.
type Model struct {
	Name, Provider   string
	MaxContextTokens int // 0 is not known
	// Usable says that this process's configuration has what the model needs,
	// its key above all. A worker does not start without; a gateway does, and
	// need not have it.
	Usable bool
}

// mainAgent is the agent there is when none is configured.
const mainAgent = "main"

// joinHandlers fills what Config leaves to be found, and tells the hub how
// events are told to OpenClaw's clients.
func (g *Gateway) joinHandlers() {
	if len(g.cfg.Agents) == 0 {
		g.cfg.Agents = []Agent{{ID: mainAgent}}
	}
	if g.cfg.Router == nil {
		ids := make([]string, len(g.cfg.Agents))
		for i, a := range g.cfg.Agents {
			ids[i] = a.ID
		}
		g.cfg.Router = routing.New(routing.Config{Agents: ids})
	}
	g.hub.translator = func(session string) Translator { return newTranslator(session, g.begun) }
	g.hub.changed = g.sessionChanged
}

// loadTimeout bounds how long the events of a session wait for what is on
// record of a run.
const loadTimeout = 5 * time.Second

// begun reads what a run said before this gateway looked.
func (g *Gateway) begun(runID string) begun {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	run, text, err := g.said(ctx, runID)
	if err != nil {
		if !errors.Is(err, record.ErrNotFound) {
			g.log.Warn("what a run said cannot be read", "run_id", runID, "err", err)
		}
		return begun{}
	}
	return begun{text: text, started: !run.StartedAt.IsZero()}
}

// said returns a run and what its model said so far.
func (g *Gateway) said(ctx context.Context, runID string) (record.Run, runText, error) {
	run, err := g.store.Run(ctx, runID)
	if err != nil {
		return run, nil, err
	}
	turns, err := g.store.Turns(ctx, runID)
	if err != nil {
		return run, nil, err
	}
	var text runText
	for _, t := range turns {
		if t.Kind == record.TurnThought && t.Thought != nil {
			*text.at(t.Step) = piece{step: t.Step, attempt: t.Thought.Attempt, text: t.Thought.Text, whole: true}
		}
	}
	return run, text, nil
}

// key returns the full key of a session from what a client calls it.
// agentID, if not empty, says whose session it is.
func (g *Gateway) key(name, agentID string) (string, error) {
	key, err := g.cfg.Router.Expand(name, agentID)
	switch {
	case errors.Is(err, routing.ErrAgent):
		return "", openclaw.Refused(DetailAgentNotFound, "%v", err)
	case err != nil:
		return "", openclaw.Invalid("%v", err)
	}
	return key, nil
}

// agentOf is the agent of a session's key; the default one for keys that name
// none.
func (g *Gateway) agentOf(key string) string {
	if k, err := routing.Parse(key); err == nil {
		return k.Agent
	}
	return g.cfg.Router.Default()
}

// agent returns a configured agent. An empty id is the default one.
func (g *Gateway) agent(id string) (Agent, error) {
	if id == "" {
		id = g.cfg.Router.Default()
	}
	i := slices.IndexFunc(g.cfg.Agents, func(a Agent) bool { return a.ID == routing.NormalizeID(id) })
	if i < 0 {
		return Agent{}, openclaw.Refused(DetailAgentNotFound, "unknown agent id %q", clipText(id, 64))
	}
	return g.cfg.Agents[i], nil
}

// models lists the models that are configured, the default one first.
func (g *Gateway) models() []string {
	var names []string
	for _, name := range append([]string{g.cfg.Model.Name}, agentModels(g.cfg.Agents)...) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func agentModels(agents []Agent) []string {
	var names []string
	for _, a := range agents {
		names = append(names, a.Model)
	}
	return names
}

func (g *Gateway) modelDefaults() openclaw.ModelDefaults {
	return openclaw.ModelDefaults{ModelProvider: g.cfg.Model.Provider, Model: g.cfg.Model.Name, ContextTokens: g.cfg.Model.MaxContextTokens}
}

// sessionSpace makes session ids.
var sessionSpace = uuid.MustParse("7b1f5a52-0f0e-5c57-9d55-0d7a4c1e6a21")

// sessionID is OpenClaw's id of a session: another one after each reset.
func sessionID(s record.Session) string {
	return uuid.NewSHA1(sessionSpace, []byte(s.Key+"\n"+s.Since.UTC().Format(time.RFC3339Nano))).String()
}

// row is a session in a list.
func (g *Gateway) row(s record.Session) openclaw.SessionRow {
	row := openclaw.SessionRow{
		Key: s.Key, SessionID: sessionID(s), Kind: "direct", Label: s.Settings.Label, DisplayName: s.Settings.Label,
		DerivedTitle: clipText(s.LastTask, 80), LastMessagePreview: clipText(s.LastText, 200), AgentID: s.Agent,
		UpdatedAt: millis(s.UpdatedAt), CreatedAt: millis(s.CreatedAt), LastActivityAt: millis(s.UpdatedAt), LastInteractionAt: millis(s.UpdatedAt),
		InputTokens: s.Usage.PromptTokens, OutputTokens: s.Usage.CompletionTokens, TotalTokens: s.Usage.TotalTokens,
		Model: s.Settings.Model, HasActiveRun: s.Active != "", ActiveRunID: s.Active, Mode: string(s.Settings.Mode), Browser: s.Settings.Browser,
		Queued: s.Queued, Runs: s.Runs, Seq: s.LastSeq, LastRunID: s.Active,
	}
	if row.AgentID == "" {
		row.AgentID = g.agentOf(s.Key)
	}
	switch kind := g.cfg.Router.Kind(s.Key); kind {
	case routing.KindGroup, routing.KindChannel:
		row.Kind = "group"
	case "main":
		row.IsMain = true
	}
	if s.Active != "" {
		row.Status = openclaw.RowRunning
	} else if s.Runs > 0 {
		row.Status = openclaw.RowDone
	}
	return row
}

// rowStatus is OpenClaw's word for how a run stands.
func rowStatus(s agent.Status) string {
	switch s {
	case agent.StatusQueued:
		return openclaw.RowQueued
	case agent.StatusDone:
		return openclaw.RowDone
	case agent.StatusAborted:
		return openclaw.RowKilled
	case agent.StatusFailed:
		return openclaw.RowFailed
	case agent.StatusRefused:
		return openclaw.RowTimeout
	}
	return openclaw.RowRunning
}

// sessionChanged tells those who watch all sessions that one changed, or that
// any may have.
func (g *Gateway) sessionChanged(ctx context.Context, key string) []*Frame {
	if key == "" {
		return []*Frame{{Event: openclaw.EventSessionsChanged, Payload: openclaw.SessionsChanged{Reason: "unknown", Ts: time.Now().UnixMilli()}, To: ToMessages}}
	}
	changed := openclaw.SessionsChanged{SessionKey: key, AgentID: g.agentOf(key), Reason: "updated", Ts: time.Now().UnixMilli()}
	s, err := g.store.Session(ctx, key)
	switch {
	case errors.Is(err, record.ErrNotFound):
		changed.Reason = "deleted"
	case err != nil:
		g.log.Warn("session cannot be read", "session", key, "err", err)
		return nil
	default:
		row := g.row(s)
		changed.Session = &row
	}
	return []*Frame{{Event: openclaw.EventSessionsChanged, Payload: changed, To: ToMessages}}
}

// follow lets the client of a call see a session which it uses: what its kind
// of client sees anyway. One that uses very many does not see them all.
func (g *Gateway) follow(ctx context.Context, c *Call, key string) {
	if _, err := g.hub.Watch(ctx, c, key, g.audience(c), Now); err != nil && ctx.Err() == nil {
		g.log.Warn("session not followed", "session", key, "conn", c.Conn.ID(), "err", err)
	}
}

// audience is what the client of a call sees of a session that it uses.
func (g *Gateway) audience(c *Call) Audience {
	to := c.Conn.Audience()
	if c.Conn.HasCap(openclaw.CapExecApprovals) || c.Conn.HasCap(openclaw.CapApprovals) {
		to |= ToApprovals
	}
	return to
}
