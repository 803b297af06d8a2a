// Package routing says which agent a message is for and in which session it
// belongs (seed 003, sessions and routing). It is pure: what is configured
// and what came with the message decide, nothing else.
//
// A session's key has one of these forms; <agent>, <channel>, <account> and
// <kind> are normalised by [NormalizeID], <id> and <topic> are as the channel
// gave them, escaped:
//
//	agent:<agent>:main                               an agent's main session
//	agent:<agent>:direct:<id>                        a person, scope per-peer
//	agent:<agent>:<channel>:direct:<id>              a person, scope per-channel-peer
//	agent:<agent>:<channel>:<account>:direct:<id>    a person, scope per-account-channel-peer
//	agent:<agent>:<channel>:<kind>:<id>              a group or channel, whatever the scope
//	agent:<agent>:<channel>:<kind>:<id>:topic:<topic>
//	agent:<agent>:direct:<name>                      a person with linked ids, every scope but main
//	agent:<agent>:subagent:<task>                    an agent's helper
//	cli:<run>                                        a session of one task
//
// The seed keeps channel and account in the key of a person with linked ids,
// so that under two of its scopes links join nothing. Here such a person has
// the one key agent:<agent>:direct:<name>, from every platform.
//
// No id makes the key of another: what has a meaning in a key is escaped in
// an id, case is kept, and an id that happens to be the name of a linked
// person is told apart from it.
package routing

import (
	"slices"
	"strings"
)

// Scope says which direct messages share a session (seed 003, DMScope).
type Scope string

// The scopes. Empty is [ScopePerChannelPeer].
const (
	ScopeMain                  Scope = "main"                     // all of an agent
	ScopePerPeer               Scope = "per-peer"                 // those with one id
	ScopePerChannelPeer        Scope = "per-channel-peer"         // and one channel
	ScopePerAccountChannelPeer Scope = "per-account-channel-peer" // and one account of the channel
)

// How a message found its agent (seed 003, MatchedBy), the most special
// first.
const (
	MatchedKey     = "key" // the message named its session
	MatchedPeer    = "binding.peer"
	MatchedParent  = "binding.peer.parent"
	MatchedGuild   = "binding.guild"
	MatchedTeam    = "binding.team"
	MatchedAccount = "binding.account"
	MatchedChannel = "binding.channel"
	MatchedDefault = "default"
)

// bySpeciality are the levels of bindings.
var bySpeciality = []string{MatchedPeer, MatchedParent, MatchedGuild, MatchedTeam, MatchedAccount, MatchedChannel}

// The kinds of peers. A channel may have further ones, e.g. "room".
const (
	KindDirect  = "direct"
	KindGroup   = "group"
	KindChannel = "channel"
)

// Peer is the other end of a conversation. The zero value is none.
type Peer struct {
	Kind string // empty is KindDirect
	ID   string // as the channel gives it; case matters
	// Topic is the thread in a group or channel, if it has such; empty is
	// none. It is ignored for KindDirect.
	Topic string
}

// kind is the normalised Kind. "dm" is an old name for direct.
func (p Peer) kind() string {
	switch k := normalize(p.Kind, KindDirect); k {
	case "dm":
		return KindDirect
	default:
		return k
	}
}

// is reports whether two peers are the same place; topics do not matter.
func (p Peer) is(q Peer) bool { return p.ID != "" && p.ID == q.ID && p.kind() == q.kind() }

// Message is what routing wants to know of a message.
type Message struct {
	Channel string // e.g. "telegram"
	Account string // the channel's account that it came to; empty is "default"
	Peer    Peer   // whom or where it came from
	// Parent is what Peer is a part of, e.g. the group of a thread.
	Parent      Peer
	Guild, Team string // e.g. of Discord and of Slack
	// Key is the session that the sender names. It is honoured if it begins
	// with "agent:", is well formed and names an agent there is.
	Key string
}

// Binding gives the messages for which all that it names is so to an agent.
type Binding struct {
	Agent   string
	Channel string
	// Account: empty is the account "default", "*" is any.
	Account string
	// Peer matches a message's peer or, less specially, its parent.
	Peer Peer
	// Parent matches a message's parent only.
	Parent      Peer
	Guild, Team string
}

// Config is what a Router goes by.
type Config struct {
	// Agents are the ids of the agents there are; none is the one "main".
	Agents []string
	// Default is the agent for messages that are bound to none. Empty, or
	// none of Agents: the first.
	Default  string
	Bindings []Binding
	Scope    Scope
	// MainKey is the last part of the key of an agent's main session; empty
	// is "main".
	MainKey string
	// Links are people's ids by their name: "channel:id", or an id alone
	// that holds for every channel. An id with a colon in it needs its
	// channel. A name in capitals is the same as without.
	Links map[string][]string
}

// Router finds agents and sessions. It is safe for concurrent use.
type Router struct {
	config Config
	names  map[string]bool   // of linked people, escaped
	person map[string]string // their escaped names by their links
}

// New returns a router. What is wrong with c is for package config to say;
// here a binding to an agent that is not there is one to the default agent,
// and of two people with one id it is the first, by name.
func New(c Config) *Router {
	c.Agents = slices.Clone(c.Agents)
	for i, id := range c.Agents {
		c.Agents[i] = NormalizeID(id)
	}
	if len(c.Agents) == 0 {
		c.Agents = []string{mainAgent}
	}
	if c.Default = NormalizeID(c.Default); !slices.Contains(c.Agents, c.Default) {
		c.Default = c.Agents[0]
	}
	if c.Scope == "" {
		c.Scope = ScopePerChannelPeer
	}
	c.MainKey = normalize(c.MainKey, mainKey)
	r := &Router{config: c, names: make(map[string]bool), person: make(map[string]string)}
	for _, name := range sortedKeys(c.Links) {
		folded := strings.ToLower(strings.TrimSpace(name))
		if folded == "" {
			continue
		}
		escaped := escape(folded)
		r.names[escaped] = true
		for _, link := range c.Links[name] {
			if channel, id, scoped := strings.Cut(link, ":"); scoped {
				link = normalize(channel, unknown) + ":" + id
			}
			if _, taken := r.person[link]; !taken {
				r.person[link] = escaped
			}
		}
	}
	return r
}

// Default is the id of the default agent.
func (r *Router) Default() string { return r.config.Default }

// Known reports whether there is an agent with a normalised id.
func (r *Router) Known(agent string) bool { return slices.Contains(r.config.Agents, agent) }

// Route is where a message goes.
type Route struct {
	Agent   string
	Channel string // normalised
	Account string // normalised
	Key     string // of the session
	Main    string // key of the agent's main session
	// MatchedBy is one of the Matched constants.
	MatchedBy string
}

// Resolve finds the agent and the session of a message.
func (r *Router) Resolve(m Message) Route {
	m.Channel, m.Account = normalize(m.Channel, unknown), NormalizeAccount(m.Account)
	route := Route{Channel: m.Channel, Account: m.Account, MatchedBy: MatchedDefault, Agent: r.config.Default}
	if key, err := parseLoose(m.Key); err == nil && r.Known(key.Agent) {
		route.Agent, route.MatchedBy, route.Key = key.Agent, MatchedKey, key.String()
		route.Main = r.MainKey(route.Agent)
		return route
	}
	best := len(bySpeciality)
	for _, b := range r.config.Bindings {
		if level := slices.Index(bySpeciality, b.match(m)); level >= 0 && level < best {
			best, route.Agent, route.MatchedBy = level, NormalizeID(b.Agent), bySpeciality[level]
		}
	}
	if !r.Known(route.Agent) {
		route.Agent = r.config.Default
	}
	route.Main = r.MainKey(route.Agent)
	route.Key = r.Key(route.Agent, m)
	return route
}

// match returns how special a match the binding is for a message whose
// channel and account are normalised, or "" if it is none.
func (b Binding) match(m Message) string {
	switch {
	case b.Channel == "" || normalize(b.Channel, unknown) != m.Channel,
		b.Account != "*" && NormalizeAccount(b.Account) != m.Account,
		b.Guild != "" && b.Guild != m.Guild,
		b.Team != "" && b.Team != m.Team,
		b.Parent != Peer{} && !b.Parent.is(m.Parent):
		return ""
	case b.Peer.is(m.Peer):
		return MatchedPeer
	case b.Peer != Peer{}:
		if b.Parent == (Peer{}) && b.Peer.is(m.Parent) {
			return MatchedParent
		}
		return ""
	case b.Parent != Peer{}:
		return MatchedParent
	case b.Guild != "":
		return MatchedGuild
	case b.Team != "":
		return MatchedTeam
	case b.Account != "*":
		return MatchedAccount
	}
	return MatchedChannel
}
