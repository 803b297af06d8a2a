package config

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkServers finds MCP servers without what they need.
func (l *loader) checkServers() {
	lines := make(map[string]int)
	for i, s := range l.config.MCP.Servers {
		at, line := element("mcp.servers", i), l.lines["mcp.servers"][i]
		if s.Name == "" && l.missing(at+".name") {
			l.faultAt(at, "needs a name")
		} else if first, twice := lines[s.Name]; twice && s.Name != "" {
			l.faultAt(at, "name %q is taken by the server on line %d", s.Name, first)
		}
		lines[s.Name] = line
		if s.Command == "" && l.missing(at+".command") {
			l.faultAt(at, "needs a command")
		}
	}
}

// checkAgents finds agents without an id, two with one id, two defaults, and
// actions that do not exist.
func (l *loader) checkAgents() {
	lines := make(map[string]int)
	byDefault := 0
	for i, a := range l.config.Agents {
		at, line := element("agents", i), l.lines["agents"][i]
		if a.ID == "" {
			if l.missing(at + ".id") {
				l.faultAt(at, "needs an id")
			}
		} else if first, twice := lines[a.ID]; twice {
			l.faultAt(at+".id", "%q is taken by the agent on line %d", a.ID, first)
		} else {
			lines[a.ID] = line
		}
		if a.Default {
			if byDefault > 0 {
				l.faultAt(at+".default", "the agent on line %d is the default already; there can be one", byDefault)
			} else {
				byDefault = line
			}
		}
		l.checkActions(at+".tools", a.Tools)
		l.checkActions(at+".context.include_tools", a.Context.IncludeTools)
		l.checkActions(at+".context.exclude_tools", a.Context.ExcludeTools)
		if a.Context.Strategy == "custom" {
			continue
		}
		for _, key := range []string{"include_history", "include_runtime", "include_tools", "exclude_tools"} {
			if l.config.origins[at+".context."+key] != "" {
				l.faultAt(at+".context."+key, `has an effect with strategy = "custom" only`)
			}
		}
	}
}

// checkBindings finds bindings that can never match and such as name an
// agent that is not there.
func (l *loader) checkBindings() {
	var ids []string
	for _, a := range l.config.Profiles() {
		ids = append(ids, a.ID)
	}
	for i, b := range l.config.Bindings {
		at := element("bindings", i)
		if b.Agent == "" {
			if l.missing(at + ".agent") {
				l.faultAt(at, "needs an agent")
			}
		} else if !slices.Contains(ids, b.Agent) {
			l.faultAt(at+".agent", "no agent %q in [[agents]]%s", b.Agent, didYouMean(b.Agent, ids))
		}
		if b.Channel == "" && l.missing(at+".channel") {
			l.faultAt(at, "needs a channel")
		}
		l.checkPeer(at+".peer", b.Peer)
		l.checkPeer(at+".parent_peer", b.ParentPeer)
	}
}

func (l *loader) checkPeer(at string, p BindingPeer) {
	if (p.Kind == "") != (p.ID == "") && l.missing(at+".kind") {
		l.faultAt(at, "needs both kind and id")
	}
}

// missing is true of a key that has no value, unless it is because of a fault
// in what it was given.
func (l *loader) missing(key string) bool {
	origin := l.config.origins[key]
	_, line, _ := cutLast(origin, ":")
	return !slices.ContainsFunc(l.faults, func(f Fault) bool {
		return origin != "" && f.Key == elementIndex.ReplaceAllString(key, "") && strconv.Itoa(f.Line) == line
	})
}

// checkSession finds people with two names and ids with two people.
func (l *loader) checkSession() {
	c := l.config
	if c.Session.MainKey == "" {
		l.faultAt("session.main_key", "is empty")
	}
	names, owners := make(map[string]string), make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(c.Session.IdentityLinks)) {
		key := "session.identity_links." + name
		folded := strings.ToLower(strings.TrimSpace(name))
		if folded == "" {
			l.faultAt(key, "is a name for nobody")
		}
		if other, taken := names[folded]; taken {
			l.faultAt(key, "is the same name as %q", other)
		}
		names[folded] = name
		for _, id := range c.Session.IdentityLinks[name] {
			channel, rest, scoped := strings.Cut(id, ":")
			if scoped {
				id = strings.ToLower(channel) + ":" + rest
			}
			if id == "" || scoped && (!agentForm.MatchString(strings.ToLower(channel)) || rest == "") {
				l.faultAt(key, `%q must be "channel:id", or an id alone`, id)
			}
			if owner, taken := owners[id]; taken && owner != name {
				l.faultAt(key, "%q is linked to %q already", id, owner)
			}
			owners[id] = name
		}
	}
}

// checkGateway finds what is wrong with the gateway's keys in any case; what
// matters only when one is started is for RequireGateway.
func (l *loader) checkGateway() {
	g := l.config.Gateway
	if g.Listen == "" {
		l.faultAt("gateway.listen", "is empty")
	}
	l.checkPair("gateway", g.TLSCertFile, g.TLSKeyFile)
	if g.MaxBufferedBytes < g.MaxFrameBytes {
		l.faultAt("gateway.max_buffered_bytes", "must not be less than max_frame_bytes, which is %d", g.MaxFrameBytes)
	}
	for _, o := range g.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
			l.faultAt("gateway.origins", "must be origins like https://office.example.com or chrome-extension://id, has %q", o)
		}
	}
	for _, h := range g.Hosts {
		if h == "" || strings.ContainsAny(h, "/:@ *") && !strings.HasPrefix(h, "[") {
			l.faultAt("gateway.hosts", "must be names of hosts without scheme and port, has %q", h)
		}
	}
}

// checkPair finds a certificate without its key and the other way round.
func (l *loader) checkPair(section, cert, key string) {
	switch {
	case cert != "" && key == "":
		l.faultAt(section+".tls_cert_file", "needs tls_key_file too")
	case cert == "" && key != "":
		l.faultAt(section+".tls_key_file", "needs tls_cert_file too")
	}
}

// checkActions finds names that no action has.
func (l *loader) checkActions(key string, names []string) {
	for _, name := range names {
		if l.actions != nil && !slices.Contains(l.actions, name) {
			l.faultAt(key, "unknown action %q%s", name, didYouMean(name, l.actions))
		}
	}
}
