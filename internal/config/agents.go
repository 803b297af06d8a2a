package config

import (
	"slices"

	"sgclaw/internal/agent"
	"sgclaw/internal/routing"
)

// MainAgent is the agent there is when none is configured.
const MainAgent = "main"

// Profiles are the agents: those of [[agents]], or else the one named
// [MainAgent], which has the settings of the other sections.
func (c *Config) Profiles() []AgentProfile {
	if len(c.Agents) > 0 {
		return c.Agents
	}
	return []AgentProfile{{ID: MainAgent, Default: true}}
}

// DefaultAgent is the id of the agent for whatever is bound to none: the one
// that says so, else the first.
func (c *Config) DefaultAgent() string {
	all := c.Profiles()
	i := max(0, slices.IndexFunc(all, func(a AgentProfile) bool { return a.Default }))
	return all[i].ID
}

// Profile returns the agent with an id, and whether there is one.
func (c *Config) Profile(id string) (AgentProfile, bool) {
	all := c.Profiles()
	i := slices.IndexFunc(all, func(a AgentProfile) bool { return a.ID == id })
	if i < 0 {
		return AgentProfile{}, false
	}
	return all[i], true
}

// Title is what people read as the agent's name.
func (a AgentProfile) Title() string {
	if a.Name != "" {
		return a.Name
	}
	return a.ID
}

// SettingsFor are the bounds of a run of an agent: Settings, and what the
// agent has of its own. The rules of RulesPath are not among them.
func (c *Config) SettingsFor(a AgentProfile) agent.Settings {
	s := c.Settings()
	s.Agent = a.ID
	s.Model = a.Model
	s.Actions = a.Tools
	s.Context = a.Context.Options()
	return s
}

// Routing is what package routing wants to know of the configuration.
func (c *Config) Routing() routing.Config {
	out := routing.Config{Default: c.DefaultAgent(), Scope: routing.Scope(c.Session.DMScope), MainKey: c.Session.MainKey, Links: c.Session.IdentityLinks}
	for _, a := range c.Profiles() {
		out.Agents = append(out.Agents, a.ID)
	}
	for _, b := range c.Bindings {
		out.Bindings = append(out.Bindings, routing.Binding{
			Agent: b.Agent, Channel: b.Channel, Account: b.Account, Guild: b.Guild, Team: b.Team,
			Peer:   routing.Peer{Kind: b.Peer.Kind, ID: b.Peer.ID},
			Parent: routing.Peer{Kind: b.ParentPeer.Kind, ID: b.ParentPeer.ID},
		})
	}
	return out
}
