package gateway

import (
	"time"

	"sgclaw/internal/agent"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/routing"
)

// Where a message came from, for a program that brings those of a chat
// platform: bindings, DM scope and linked ids find the agent and the session
// (package routing).
type (
	fromParams struct {
		Channel string     `json:"channel" oc:"required,min=1,max=64"`
		Account string     `json:"account" oc:"max=64"`
		Peer    peerParams `json:"peer"`
		Parent  peerParams `json:"parent"` // what peer is a part of
		Guild   string     `json:"guild" oc:"max=128"`
		Team    string     `json:"team" oc:"max=128"`
	}
	peerParams struct {
		Kind  string `json:"kind" oc:"max=64"`
		ID    string `json:"id" oc:"max=256"`
		Topic string `json:"topic" oc:"max=256"`
	}
	asideParams struct {
		Sender string `json:"sender" oc:"required,max=200"`
		Text   string `json:"text" oc:"required"`
		AtMs   int64  `json:"atMs" oc:"min=0"`
	}
)

// place is where a message goes.
type place struct {
	key, agentID, channel string
	matchedBy             string // empty if the client named the session
}

// place finds where a message goes: to the session that the client names, or
// where one that came from there belongs.
func (g *Gateway) place(name string, from *fromParams) (place, error) {
	if from == nil {
		if name == "" {
			return place{}, openclaw.InvalidParams("sgclaw.send", "must have required property 'sessionKey' or 'from'")
		}
		key, err := g.key(name, "")
		return place{key: key, agentID: g.agentOf(key)}, err
	}
	if name != "" {
		return place{}, openclaw.InvalidParams("sgclaw.send", "must have either 'sessionKey' or 'from'")
	}
	r := g.cfg.Router.Resolve(routing.Message{
		Channel: from.Channel, Account: from.Account, Peer: routing.Peer(from.Peer), Parent: routing.Peer(from.Parent),
		Guild: from.Guild, Team: from.Team,
	})
	if err := routing.Check(r.Key); err != nil {
		return place{}, openclaw.Invalid("%v", err)
	}
	return place{key: r.Key, agentID: r.Agent, channel: r.Channel, matchedBy: r.MatchedBy}, nil
}

// asides are what others said before a message.
func asides(in []asideParams) []agent.Aside {
	var out []agent.Aside
	for _, a := range in {
		said := agent.Aside{Sender: a.Sender, Text: a.Text}
		if a.AtMs > 0 {
			said.At = time.UnixMilli(a.AtMs).UTC()
		}
		out = append(out, said)
	}
	return out
}
