package routing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

var agents = []string{"main", "sales", "support"}

// The levels of bindings, one above the other, so that each message shows
// which wins (seed 003; research on the seed's resolver).
func TestResolve(t *testing.T) {
	direct := func(id string) Peer { return Peer{Kind: "direct", ID: id} }
	bindings := []Binding{
		{Agent: "channel", Channel: "discord", Account: "*"},
		{Agent: "account", Channel: "discord", Account: "bot2"},
		{Agent: "no-account", Channel: "discord"},
		{Agent: "team", Channel: "discord", Account: "*", Team: "T1"},
		{Agent: "guild", Channel: "discord", Account: "*", Guild: "guild-1"},
		{Agent: "parent", Channel: "discord", Account: "*", Parent: Peer{Kind: "group", ID: "g2"}},
		{Agent: "peer", Channel: "discord", Account: "*", Peer: direct("vip")},
		{Agent: "second", Channel: "discord", Account: "*", Peer: direct("vip")},
		{Agent: "group", Channel: "discord", Account: "*", Peer: Peer{Kind: "group", ID: "g1"}},
		{Agent: "both", Channel: "discord", Account: "*", Peer: direct("boss"), Guild: "guild-1"},
		{Agent: "within", Channel: "discord", Account: "*", Peer: direct("boss"), Parent: Peer{Kind: "group", ID: "g2"}},
		{Agent: "ghost", Channel: "slack", Account: "*"},
		{Agent: "nobody", Account: "*"},
	}
	config := Config{
		Agents:  []string{"general", "channel", "account", "no-account", "team", "guild", "parent", "peer", "second", "group", "both", "within", "nobody"},
		Default: "general", Bindings: bindings, Scope: ScopePerPeer,
	}
	tests := []struct {
		name    string
		m       Message
		agent   string
		matched string
	}{
		{"peer beats guild, and the first of two", Message{Channel: "discord", Guild: "guild-1", Peer: direct("vip")}, "peer", MatchedPeer},
		{"channel in capitals", Message{Channel: " Discord ", Peer: direct("vip")}, "peer", MatchedPeer},
		{"a peer of another kind", Message{Channel: "discord", Account: "x", Peer: Peer{Kind: "group", ID: "vip"}}, "channel", MatchedChannel},
		{"an id in capitals is another", Message{Channel: "discord", Account: "x", Peer: direct("VIP")}, "channel", MatchedChannel},
		{"dm is direct", Message{Channel: "discord", Peer: Peer{Kind: "dm", ID: "vip"}}, "peer", MatchedPeer},
		{"no kind is direct", Message{Channel: "discord", Peer: Peer{ID: "vip"}}, "peer", MatchedPeer},
		{"peer's binding for the parent", Message{Channel: "discord", Peer: Peer{Kind: "group", ID: "g1:topic:42"}, Parent: Peer{Kind: "group", ID: "g1"}}, "group", MatchedParent},
		{"a topic of the peer", Message{Channel: "discord", Peer: Peer{Kind: "group", ID: "g1", Topic: "42"}}, "group", MatchedPeer},
		{"parent only", Message{Channel: "discord", Guild: "guild-1", Peer: Peer{Kind: "channel", ID: "t"}, Parent: Peer{Kind: "group", ID: "g2"}}, "parent", MatchedParent},
		{"a parent's binding is not for the peer", Message{Channel: "discord", Account: "x", Peer: Peer{Kind: "group", ID: "g2"}}, "channel", MatchedChannel},
		{"guild beats team", Message{Channel: "discord", Guild: "guild-1", Team: "T1", Peer: direct("u")}, "guild", MatchedGuild},
		{"team beats account", Message{Channel: "discord", Account: "bot2", Team: "T1"}, "team", MatchedTeam},
		{"account beats channel", Message{Channel: "discord", Account: "Bot2", Peer: direct("u")}, "account", MatchedAccount},
		{"no account is the default one", Message{Channel: "discord", Peer: direct("u")}, "no-account", MatchedAccount},
		{"any account", Message{Channel: "discord", Account: "bot3", Peer: direct("u")}, "channel", MatchedChannel},
		{"another channel", Message{Channel: "telegram", Peer: direct("vip")}, "general", MatchedDefault},
		{"no channel", Message{Peer: direct("vip")}, "general", MatchedDefault},
		{"peer and guild, both so", Message{Channel: "discord", Guild: "guild-1", Peer: direct("boss")}, "both", MatchedPeer},
		{"peer and guild, one so", Message{Channel: "discord", Guild: "guild-2", Account: "x", Peer: direct("boss")}, "channel", MatchedChannel},
		{"peer and parent", Message{Channel: "discord", Guild: "guild-2", Peer: direct("boss"), Parent: Peer{Kind: "group", ID: "g2"}}, "within", MatchedPeer},
		{"unknown agent", Message{Channel: "slack"}, "general", MatchedChannel},
	}
	r := New(config)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Resolve(tt.m)
			if got.Agent != tt.agent || got.MatchedBy != tt.matched {
				t.Errorf("got %s by %s, want %s by %s", got.Agent, got.MatchedBy, tt.agent, tt.matched)
			}
			if want := "agent:" + tt.agent + ":main"; got.Main != want {
				t.Errorf("main session %q, want %q", got.Main, want)
			}
		})
	}
}

func TestRoute(t *testing.T) {
	r := New(Config{Agents: []string{"ops", "main"}, Bindings: []Binding{{Agent: "Ops", Channel: "telegram", Account: "*", Peer: Peer{Kind: "group", ID: "-100"}}}})
	got := r.Resolve(Message{Channel: "Telegram", Account: "Bot@Home", Peer: Peer{Kind: "group", ID: "-100", Topic: "42"}})
	want := Route{Agent: "ops", Channel: "telegram", Account: "bot-home", Key: "agent:ops:telegram:group:-100:topic:42", Main: "agent:ops:main", MatchedBy: MatchedPeer}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultAgent(t *testing.T) {
	tests := []struct {
		config Config
		want   string
	}{
		{Config{}, "main"},
		{Config{Agents: []string{"alpha", "beta"}, Default: "beta"}, "beta"},
		{Config{Agents: []string{"alpha", "beta"}}, "alpha"},
		{Config{Agents: []string{"alpha", "beta"}, Default: "ghost"}, "alpha"},
		{Config{Agents: []string{"Sales Bot"}, Default: "sales-bot"}, "sales-bot"},
	}
	for _, tt := range tests {
		if got := New(tt.config).Resolve(Message{Channel: "cli"}); got.Agent != tt.want || got.MatchedBy != MatchedDefault {
			t.Errorf("%+v: got %s by %s, want %s", tt.config, got.Agent, got.MatchedBy, tt.want)
		}
	}
}

// A message's own key is honoured only if it is one, of an agent there is.
func TestPresetKey(t *testing.T) {
	r := New(Config{Agents: agents, Bindings: []Binding{{Agent: "support", Channel: "telegram"}}})
	const routed = "agent:support:telegram:direct:u"
	tests := []struct {
		key, want, agent, matched string
	}{
		{"agent:sales:main", "agent:sales:main", "sales", MatchedKey},
		{"agent:Sales:x:y", "agent:sales:x:y", "sales", MatchedKey},
		{"", routed, "support", MatchedAccount},
		{"main", routed, "support", MatchedAccount},
		{"telegram:direct:u2", routed, "support", MatchedAccount},
		{"agent:ghost:main", routed, "support", MatchedAccount},
		{"agent::main", routed, "support", MatchedAccount},
		{"agent:sales:", routed, "support", MatchedAccount},
		{"agent:sales", routed, "support", MatchedAccount},
		{"agent:sales:a b", routed, "support", MatchedAccount},
		{"agent:sales:a'b", routed, "support", MatchedAccount},
		{"agent:sales:\xff", routed, "support", MatchedAccount},
	}
	for _, tt := range tests {
		got := r.Resolve(Message{Channel: "telegram", Peer: Peer{Kind: "direct", ID: "u"}, Key: tt.key})
		if got.Key != tt.want || got.Agent != tt.agent || got.MatchedBy != tt.matched {
			t.Errorf("%q: got %+v, want %s", tt.key, got, tt.want)
		}
	}
}
