package routing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNormalizeID(t *testing.T) {
	tests := []struct{ id, want string }{
		{"", "main"}, {"  ", "main"}, {"@@@", "main"}, {"___", "main"}, {"客服", "main"},
		{"main", "main"}, {"Main", "main"}, {"SALES", "sales"}, {"support-bot", "support-bot"}, {"agent_1", "agent_1"},
		{"a", "a"}, {"0test", "0test"}, {"Sales Bot", "sales-bot"}, {"agent@123", "agent-123"}, {"foo.bar.baz", "foo-bar-baz"},
		{"--leading", "leading"}, {"--both--", "both"}, {"_both_", "both"}, {"a:b", "a-b"},
		{strings.Repeat("a", 100), strings.Repeat("a", 64)},
	}
	for _, tt := range tests {
		got := NormalizeID(tt.id)
		if got != tt.want {
			t.Errorf("NormalizeID(%q) = %q, want %q", tt.id, got, tt.want)
		}
		if again := NormalizeID(got); again != got {
			t.Errorf("NormalizeID(%q) = %q: not stable", got, again)
		}
	}
	if got := NormalizeAccount(""); got != "default" {
		t.Errorf("no account is %q", got)
	}
}

// The seed's keys, and those in which this package goes its own way.
func TestKey(t *testing.T) {
	links := map[string][]string{
		"john": {"telegram:user123", "discord:john#1234", "555"},
		"Li":   {"WeCom:li"},
	}
	user := Peer{Kind: "direct", ID: "user123"}
	tests := []struct {
		name  string
		agent string
		scope Scope
		m     Message
		want  string
	}{
		{"main", "main", ScopeMain, Message{Channel: "telegram", Peer: user}, "agent:main:main"},
		{"per peer", "main", ScopePerPeer, Message{Channel: "discord", Peer: user}, "agent:main:direct:user123"},
		{"per channel", "main", ScopePerChannelPeer, Message{Channel: "discord", Peer: user}, "agent:main:discord:direct:user123"},
		{"default scope", "main", "", Message{Channel: "discord", Peer: user}, "agent:main:discord:direct:user123"},
		{"per account", "main", ScopePerAccountChannelPeer, Message{Channel: "discord", Account: "Bot1", Peer: user}, "agent:main:discord:bot1:direct:user123"},
		{"per account, none", "main", ScopePerAccountChannelPeer, Message{Channel: "discord", Peer: user}, "agent:main:discord:default:direct:user123"},
		{"agent's name", "Sales Bot", ScopeMain, Message{}, "agent:sales-bot:main"},
		{"no peer", "main", ScopePerPeer, Message{Channel: "telegram"}, "agent:main:main"},
		{"group", "main", ScopePerPeer, Message{Channel: "telegram", Peer: Peer{Kind: "group", ID: "chat456"}}, "agent:main:telegram:group:chat456"},
		{"group in scope main", "main", ScopeMain, Message{Channel: "telegram", Peer: Peer{Kind: "Group", ID: "chat456"}}, "agent:main:telegram:group:chat456"},
		{"channel", "main", ScopeMain, Message{Channel: "slack", Peer: Peer{Kind: "channel", ID: "C001"}}, "agent:main:slack:channel:C001"},
		{"group without id", "main", "", Message{Channel: "telegram", Peer: Peer{Kind: "group"}}, "agent:main:telegram:group:unknown"},
		{"group called unknown", "main", "", Message{Channel: "telegram", Peer: Peer{Kind: "group", ID: "unknown"}}, "agent:main:telegram:group:%_unknown"},
		{"group of no channel", "main", "", Message{Peer: Peer{Kind: "group", ID: "g"}}, "agent:main:unknown:group:g"},
		{"topic", "main", "", Message{Channel: "telegram", Peer: Peer{Kind: "group", ID: "-1001234567890", Topic: "42"}}, "agent:main:telegram:group:-1001234567890:topic:42"},
		{"an id that looks like a topic", "main", "", Message{Channel: "telegram", Peer: Peer{Kind: "group", ID: "-100:topic:42"}}, "agent:main:telegram:group:-100%3atopic%3a42"},
		{"an id that looks like a key", "main", ScopePerPeer, Message{Channel: "irc", Peer: Peer{ID: "x:direct:y"}}, "agent:main:direct:x%3adirect%3ay"},
		{"quotes, spaces, percent, tilde", "main", ScopePerPeer, Message{Channel: "irc", Peer: Peer{ID: "a 'b' %3a ~\u202e"}}, "agent:main:direct:a%20%27b%27%20%253a%20%7e%e2%80%ae"},
		{"Chinese", "main", ScopePerPeer, Message{Channel: "wecom", Peer: Peer{ID: "张三"}}, "agent:main:direct:张三"},
		{"case is kept", "main", ScopePerPeer, Message{Channel: "line", Peer: Peer{ID: "U4af"}}, "agent:main:direct:U4af"},

		{"linked, main", "main", ScopeMain, Message{Channel: "telegram", Peer: user}, "agent:main:main"},
		{"linked, per peer", "main", ScopePerPeer, Message{Channel: "telegram", Peer: user}, "agent:main:direct:john"},
		{"linked, per channel", "main", ScopePerChannelPeer, Message{Channel: "telegram", Peer: user}, "agent:main:direct:john"},
		{"linked, per channel, the other platform", "main", ScopePerChannelPeer, Message{Channel: "Discord", Peer: Peer{ID: "john#1234"}}, "agent:main:direct:john"},
		{"linked, per account", "main", ScopePerAccountChannelPeer, Message{Channel: "telegram", Account: "b", Peer: user}, "agent:main:direct:john"},
		{"linked by a bare id", "main", ScopePerChannelPeer, Message{Channel: "qq", Peer: Peer{ID: "555"}}, "agent:main:direct:john"},
		{"name in capitals", "main", ScopePerChannelPeer, Message{Channel: "wecom", Peer: Peer{ID: "li"}}, "agent:main:direct:li"},
		{"linked id in a group", "main", ScopePerPeer, Message{Channel: "telegram", Peer: Peer{Kind: "group", ID: "user123"}}, "agent:main:telegram:group:user123"},
		{"linked on another channel", "main", ScopePerChannelPeer, Message{Channel: "irc", Peer: user}, "agent:main:irc:direct:user123"},
		{"an id that looks like a link", "main", ScopePerPeer, Message{Channel: "irc", Peer: Peer{ID: "telegram:user123"}}, "agent:main:direct:telegram%3auser123"},
		{"an id that is a person's name", "main", ScopePerPeer, Message{Channel: "irc", Peer: Peer{ID: "john"}}, "agent:main:direct:%_john"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New(Config{Agents: agents, Scope: tt.scope, Links: links})
			got := r.Key(tt.agent, tt.m)
			if got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			if _, err := Parse(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	got, err := Parse("agent:sales:telegram:direct:user123")
	if diff := cmp.Diff(Key{"sales", "telegram:direct:user123"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, key := range []string{"", "foo:bar", "notprefix:sales:main", "agent::main", "agent:sales:", "agent:sales", "agent:Sales:main", "cli:1",
		"agent:sales:" + strings.Repeat("x", MaxKey), "agent:a:b\x00", "agent:a:b\u00a0c"} {
		if got, err := Parse(key); !errors.Is(err, ErrKey) {
			t.Errorf("Parse(%q) = %+v, %v", key, got, err)
		}
	}
}

func TestIsSubagent(t *testing.T) {
	for key, want := range map[string]bool{
		"subagent:task-1": true, "agent:main:subagent:task-1": true,
		"agent:main:main": false, "agent:main:telegram:direct:user123": false, "": false,
	} {
		if got := IsSubagent(key); got != want {
			t.Errorf("IsSubagent(%q) = %v", key, got)
		}
	}
}

func TestExpand(t *testing.T) {
	tests := []struct {
		name, agent, want string
		err               error
	}{
		{"", "", "agent:main:main", nil},
		{"main", "", "agent:main:main", nil},
		{"main", "Sales", "agent:sales:main", nil},
		{"agent:sales:main", "", "agent:sales:main", nil},
		{"agent:Sales:main", "", "agent:sales:main", nil},
		{"agent:sales:x", "sales", "agent:sales:x", nil},
		{"acp1", "", "agent:main:acp1", nil},
		{"subagent:t", "sales", "agent:sales:subagent:t", nil},
		{"cli:run-1", "", "cli:run-1", nil},
		{"agent:sales:x", "support", "", ErrKey},
		{"agent:ghost:main", "", "", ErrAgent},
		{"main", "ghost", "", ErrAgent},
		{"a b", "", "", ErrKey},
		{"agent:sales", "", "", ErrKey},
		{"cli:a b", "", "", ErrKey},
		{strings.Repeat("x", MaxKey), "", "", ErrKey},
	}
	r := New(Config{Agents: agents})
	for _, tt := range tests {
		got, err := r.Expand(tt.name, tt.agent)
		if !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("Expand(%q, %q) = %q, %v; want %q, %v", tt.name, tt.agent, got, err, tt.want, tt.err)
		}
	}
	r = New(Config{Agents: []string{"desk"}, MainKey: "front"})
	for _, name := range []string{"", "main", "front", "agent:desk:main"} {
		if got, err := r.Expand(name, ""); got != "agent:desk:front" || err != nil {
			t.Errorf("Expand(%q) = %q, %v", name, got, err)
		}
	}
}

func TestKind(t *testing.T) {
	r := New(Config{})
	for key, want := range map[string]string{
		"agent:main:main": "main", "agent:main:direct:x": "direct", "agent:main:qq:direct:x": "direct", "agent:main:qq:b:direct:x": "direct",
		"agent:main:qq:group:x": "group", "agent:main:qq:channel:x:topic:1": "channel", "agent:main:subagent:x": "subagent", "agent:main:acp1": "other",
		"agent:main:qq:direct:%zz": "other", "cli:1": "other", "": "other",
	} {
		if got := r.Kind(key); got != want {
			t.Errorf("Kind(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestLongKeys(t *testing.T) {
	r := New(Config{Scope: ScopePerAccountChannelPeer})
	long := strings.Repeat("长", 80)
	seen := make(map[string]string)
	for _, id := range []string{long, long + "1", long[:len(long)-3], long + "~", strings.Repeat(":", 70), strings.Repeat("é", 99), "a" + strings.Repeat("é", 99)} {
		for _, account := range []string{"a", strings.Repeat("b", 64)} {
			key := r.Key(strings.Repeat("x", 64), Message{Channel: strings.Repeat("c", 64), Account: account, Peer: Peer{ID: id}})
			what := fmt.Sprintf("%q of %s", id, account)
			if err := Check(key); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if _, err := Parse(key); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if other, taken := seen[key]; taken {
				t.Errorf("%s and %s share %s", what, other, key)
			}
			seen[key] = what
		}
	}
	if k := r.Key("main", Message{Channel: "c", Peer: Peer{ID: strings.Repeat("x", 151)}}); len(k) > MaxKey || strings.Contains(k, "~") != (len("agent:main:c:default:direct:")+151 > MaxKey) {
		t.Errorf("%d bytes: %s", len(k), k)
	}
}

// FuzzKey: what a key is made of can be read from it again, and two messages
// share a key only if they are of one conversation.
func FuzzKey(f *testing.F) {
	f.Add("telegram", "", "direct", "user123", "", "telegram", "", "direct", "telegram:user123", "", uint8(1))
	f.Add("irc", "a", "group", "x", "1", "irc", "a", "group", "x:topic:1", "", uint8(2))
	f.Add("irc", "", "", "john", "", "telegram", "", "", "1", "", uint8(1))
	f.Add("irc", "", "group", "unknown", "", "irc", "", "group", "", "", uint8(3))
	f.Add("c", "", "direct", strings.Repeat("~", 90), "", "c", "", "direct", strings.Repeat("~", 91), "", uint8(2))
	f.Add("c", "", "direct", "%_john", "", "c", "", "direct", "john", "", uint8(1))
	f.Fuzz(func(t *testing.T, channel1, account1, kind1, id1, topic1, channel2, account2, kind2, id2, topic2 string, scope uint8) {
		scopes := []Scope{ScopeMain, ScopePerPeer, ScopePerChannelPeer, ScopePerAccountChannelPeer}
		r := New(Config{Agents: agents, Scope: scopes[int(scope)%len(scopes)], Links: map[string][]string{"john": {"telegram:1", "2"}, "%_": {"3"}}})
		m1 := Message{Channel: channel1, Account: account1, Peer: Peer{Kind: kind1, ID: id1, Topic: topic1}}
		m2 := Message{Channel: channel2, Account: account2, Peer: Peer{Kind: kind2, ID: id2, Topic: topic2}}
		k1, k2 := r.Key("sales", m1), r.Key("sales", m2)
		for i, k := range []string{k1, k2} {
			m := []Message{m1, m2}[i]
			p, err := Parse(k)
			if err != nil || p.Agent != "sales" || p.String() != k {
				t.Fatalf("%q: %+v, %v", k, p, err)
			}
			if strings.Contains(k, "~") || p.Rest == "main" {
				continue
			}
			place, ok := p.Place()
			want := conversation(r, m)
			if !ok || place != want {
				t.Fatalf("%q: %+v (%v), want %+v", k, place, ok, want)
			}
		}
		if same := conversation(r, m1) == conversation(r, m2) && linkedID(r, m1) == linkedID(r, m2); same != (k1 == k2) {
			t.Fatalf("%+v: %q\n%+v: %q\nshare a session: want %v", m1, k1, m2, k2, same)
		}
		if got := r.Resolve(Message{Channel: channel2, Key: k1}); got.Key != k1 {
			t.Fatalf("a key of ours is not honoured: %q, %+v", k1, got)
		}
	})
}

// conversation is what a session is for, said without keys.
func conversation(r *Router, m Message) Place {
	p := Place{Channel: normalize(m.Channel, "unknown"), Account: NormalizeAccount(m.Account), Peer: Peer{Kind: m.Peer.kind(), ID: m.Peer.ID, Topic: m.Peer.Topic}}
	if p.Peer.Kind != "direct" {
		p.Account = ""
		return p
	}
	p.Peer.Topic = ""
	name := linkedID(r, m)
	switch scope := r.config.Scope; {
	case scope == ScopeMain || m.Peer.ID == "":
		return Place{}
	case name != "":
		return Place{Peer: Peer{Kind: "direct", ID: name}}
	case scope == ScopePerPeer:
		p.Channel, p.Account = "", ""
	case scope == ScopePerChannelPeer:
		p.Account = ""
	}
	return p
}

// linkedID is the name of the person whose id it is by the links of FuzzKey.
func linkedID(r *Router, m Message) string {
	if m.Peer.kind() != "direct" || r.config.Scope == ScopeMain {
		return ""
	}
	switch {
	case normalize(m.Channel, "unknown") == "telegram" && m.Peer.ID == "1", m.Peer.ID == "2":
		return "john"
	case m.Peer.ID == "3":
		return "%_"
	}
	return ""
}
