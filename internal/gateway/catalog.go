package gateway

import (
	"context"
	"slices"

	"sgclaw/internal/action"
	"sgclaw/internal/openclaw"
)

func agentsList(_ context.Context, g *Gateway, _ *Call, _ openclaw.None) (any, error) {
	out := openclaw.AgentsList{DefaultID: g.cfg.Router.Default(), MainKey: g.mainKey(), Scope: "per-sender"}
	for _, a := range g.cfg.Agents {
		s := openclaw.AgentSummary{ID: a.ID, Name: a.title()}
		if model := g.modelOfAgent(a); model != "" {
			s.Model = &openclaw.AgentModel{Primary: model}
		}
		out.Agents = append(out.Agents, s)
	}
	return out, nil
}

func (a Agent) title() string {
	if a.Name != "" {
		return a.Name
	}
	return a.ID
}

func (g *Gateway) modelOfAgent(a Agent) string {
	if a.Model != "" {
		return a.Model
	}
	return g.cfg.Model.Name
}

func modelsList(_ context.Context, g *Gateway, _ *Call, p openclaw.ModelsListParams) (any, error) {
	out := openclaw.ModelsList{Models: []openclaw.ModelChoice{}}
	names := g.models()
	if p.AgentID != "" {
		a, err := g.agent(p.AgentID)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc([]string{g.modelOfAgent(a)}, func(s string) bool { return s == "" })
	}
	provider := g.cfg.Model.Provider
	if provider == "" {
		provider = "openai"
	}
	for _, name := range names {
		m := openclaw.ModelChoice{ID: name, Name: name, Provider: provider, Available: true, SupportsTools: true}
		if name == g.cfg.Model.Name {
			m.ContextWindow = g.cfg.Model.MaxContextTokens
		}
		out.Models = append(out.Models, m)
	}
	return out, nil
}

// tools lists the actions that an agent may use, reads and effects apart.
func (a Agent) tools(tool func(action.Spec) openclaw.Tool) (reads, effects []openclaw.Tool) {
	for _, s := range action.All() {
		switch {
		case len(a.Actions) > 0 && !slices.Contains(a.Actions, s.Name):
		case s.Effect:
			effects = append(effects, tool(s))
		default:
			reads = append(reads, tool(s))
		}
	}
	return reads, effects
}

func risk(s action.Spec) string {
	if s.Effect {
		return "medium"
	}
	return "low"
}

func toolsCatalog(_ context.Context, g *Gateway, _ *Call, p openclaw.ToolsCatalogParams) (any, error) {
	a, err := g.agent(p.AgentID)
	if err != nil {
		return nil, err
	}
	reads, effects := a.tools(func(s action.Spec) openclaw.Tool {
		return openclaw.Tool{
			ID: s.Name, Label: s.Name, Description: s.Description, Source: "core", Risk: risk(s), DefaultProfiles: []string{"full"},
		}
	})
	out := openclaw.ToolsCatalog{AgentID: a.ID, Profiles: []openclaw.ToolProfile{{ID: "full", Label: "Full"}}, Groups: []openclaw.ToolGroup{}}
	for _, group := range []openclaw.ToolGroup{
		{ID: "browser-read", Label: "Look at pages", Source: "core", Tools: reads},
		{ID: "browser-act", Label: "Act on pages", Source: "core", Tools: effects},
	} {
		if len(group.Tools) > 0 {
			out.Groups = append(out.Groups, group)
		}
	}
	return out, nil
}

func toolsEffective(ctx context.Context, g *Gateway, _ *Call, p openclaw.ToolsEffectiveParams) (any, error) {
	key, err := g.key(p.SessionKey, p.AgentID)
	if err != nil {
		return nil, err
	}
	id := g.agentOf(key)
	if s, err := g.store.Session(ctx, key); err == nil && s.Agent != "" {
		id = s.Agent
	}
	a, err := g.agent(id)
	if err != nil {
		return nil, err
	}
	reads, effects := a.tools(func(s action.Spec) openclaw.Tool {
		return openclaw.Tool{ID: s.Name, Label: s.Name, Description: s.Description, RawDescription: &s.Description, Source: "core", Risk: risk(s)}
	})
	return openclaw.ToolsEffective{AgentID: a.ID, Profile: "full", Groups: []openclaw.ToolGroup{
		{ID: "core", Label: "Browser", Source: "core", Tools: append(reads, effects...)},
	}}, nil
}

func skillsStatus(_ context.Context, g *Gateway, _ *Call, p openclaw.AgentOnly) (any, error) {
	if _, err := g.agent(p.AgentID); err != nil {
		return nil, err
	}
	return openclaw.SkillsStatus{Skills: []struct{}{}}, nil
}

func commandsList(context.Context, *Gateway, *Call, openclaw.CommandsListParams) (any, error) {
	return openclaw.CommandsList{Commands: []struct{}{}}, nil
}

// noApprovals answers for the kinds of approvals that there are none of.
func noApprovals(context.Context, *Gateway, *Call, openclaw.None) (any, error) {
	return []struct{}{}, nil
}

func questionList(context.Context, *Gateway, *Call, openclaw.None) (any, error) {
	return openclaw.Questions{Questions: []struct{}{}}, nil
}

func taskSuggestionsList(context.Context, *Gateway, *Call, openclaw.AgentOnly) (any, error) {
	return openclaw.TaskSuggestions{Suggestions: []struct{}{}}, nil
}
