package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// mcpServers is the one list of tables.
const mcpServers = "mcp.servers"

// parse applies the file. Whether it is TOML at all the library's decoder
// says, which knows all the rules about keys that stand twice; where each
// value stands only its parser says.
func (l *loader) parse(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var doc map[string]any
	if err := toml.Unmarshal(data, &doc); err != nil {
		line := 0
		var de *toml.DecodeError
		if errors.As(err, &de) {
			line, _ = de.Position()
		}
		l.fault(line, "", "not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
		return
	}
	p := &tomlReader{loader: l}
	p.parser.Reset(data)
	var table string
	skip := false // the table is not known, which has been said
	for p.parser.NextExpression() {
		e := p.parser.Expression()
		name, line := p.key(e)
		switch e.Kind {
		case unstable.Table:
			table = name
			skip = !p.table(name, line)
		case unstable.ArrayTable:
			table = name
			skip = name != mcpServers
			if skip {
				p.fault(line, name, "is not a list of tables")
			} else {
				p.server(line)
			}
		case unstable.KeyValue:
			if !skip {
				if table != "" {
					name = table + "." + name
				}
				p.set(name, e.Value(), line)
			}
		}
	}
	if err := p.parser.Error(); err != nil {
		l.fault(0, "", "not TOML: %v", err)
	}
	p.checkServers()
}

type tomlReader struct {
	*loader
	parser  unstable.Parser
	servers []int // the line of each server
}

// key returns the dotted name of an expression's key and its line.
func (p *tomlReader) key(e *unstable.Node) (name string, line int) {
	var parts []string
	for it := e.Key(); it.Next(); {
		if line == 0 {
			line = p.parser.Shape(it.Node().Raw).Start.Line
		}
		parts = append(parts, string(it.Node().Data))
	}
	return strings.Join(parts, "."), line
}

// table reports whether a table is known, and says so if it is not.
func (p *tomlReader) table(name string, line int) bool {
	if name == mcpServers {
		p.fault(line, name, "is a list of tables; write [[%s]]", name)
		return false
	}
	if name == mcpServers+".env" {
		if len(p.servers) == 0 {
			p.fault(line, name, "must follow a [[%s]]", mcpServers)
			return false
		}
		return true
	}
	if p.isSection(name) {
		return true
	}
	if _, ok := p.field(name); ok {
		p.fault(line, name, "is a key, not a section")
		return false
	}
	p.fault(line, name, "unknown section%s", didYouMean(name, p.sections()))
	return false
}

func (p *tomlReader) isSection(name string) bool { return slices.Contains(p.sections(), name) }

func (p *tomlReader) sections() []string {
	out := []string{"mcp"}
	for _, f := range p.fields {
		section, _, _ := cutLast(f.name, ".")
		if !slices.Contains(out, section) {
			out = append(out, section)
		}
	}
	return out
}

// set stores the value of one key.
func (p *tomlReader) set(name string, v *unstable.Node, line int) {
	switch {
	case name == mcpServers:
		p.serverList(v, line)
		return
	case strings.HasPrefix(name, mcpServers+"."):
		p.serverKey(strings.TrimPrefix(name, mcpServers+"."), v, line)
		return
	case v.Kind == unstable.InlineTable:
		if !p.isSection(name) {
			p.unknown(name, line)
			return
		}
		for it := v.Children(); it.Next(); {
			key, line := p.key(it.Node())
			p.set(name+"."+key, it.Node().Value(), line)
		}
		return
	}
	f, ok := p.field(name)
	if !ok {
		p.unknown(name, line)
		return
	}
	p.config.origins[name] = p.file + ":" + strconv.Itoa(line)
	if msg := p.value(f, v); msg != "" {
		p.fault(line, name, "%s", msg)
	}
}

func (p *tomlReader) unknown(name string, line int) {
	if p.isSection(name) {
		p.fault(line, name, "is a section, not a key")
		return
	}
	section, key, nested := cutLast(name, ".")
	if !nested {
		section, key = "", name
	}
	var here, everywhere []string
	for _, f := range p.fields {
		s, k, _ := cutLast(f.name, ".")
		if s == section {
			here = append(here, k)
		}
		if k == key {
			everywhere = append(everywhere, f.name)
		}
	}
	hint := didYouMean(key, here)
	if hint == "" && len(everywhere) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", strings.Join(everywhere, " or "))
	}
	p.fault(line, name, "unknown key%s", hint)
}

// value returns what is wrong with a value, or nothing.
func (p *tomlReader) value(f field, v *unstable.Node) string {
	wrong := fmt.Sprintf("must be %s, is %s", f.wants(), describe(v))
	switch f.value.Kind() {
	case reflect.String:
		if v.Kind != unstable.String {
			return wrong
		}
		return f.setString(string(v.Data), p.base, p.home)
	case reflect.Bool:
		if v.Kind != unstable.Bool {
			return wrong
		}
		f.value.SetBool(string(v.Data) == "true")
		return ""
	case reflect.Int:
		if v.Kind != unstable.Integer {
			return wrong
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(string(v.Data), "+"), 0, 64)
		if err != nil {
			return wrong
		}
		return f.setInt(n)
	case reflect.Float64:
		if v.Kind != unstable.Float && v.Kind != unstable.Integer {
			return wrong
		}
		x, err := strconv.ParseFloat(strings.ReplaceAll(string(v.Data), "_", ""), 64)
		if err != nil {
			return wrong
		}
		return f.setFloat(x)
	}
	list, ok := stringList(v)
	if !ok {
		return wrong
	}
	f.value.Set(reflect.ValueOf(list))
	return ""
}

func stringList(v *unstable.Node) ([]string, bool) {
	if v.Kind != unstable.Array {
		return nil, false
	}
	var list []string
	for it := v.Children(); it.Next(); {
		if it.Node().Kind != unstable.String {
			return nil, false
		}
		list = append(list, string(it.Node().Data))
	}
	return list, true
}

// describe names the type of a value as wants does.
func describe(v *unstable.Node) string {
	switch v.Kind {
	case unstable.String:
		return "a string"
	case unstable.Bool:
		return string(v.Data)
	case unstable.Integer, unstable.Float:
		return string(v.Data)
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	}
	return "a date or time"
}

// server begins another [[mcp.servers]].
func (p *tomlReader) server(line int) {
	p.servers = append(p.servers, line)
	p.config.MCP.Servers = append(p.config.MCP.Servers, MCPServer{})
}

// serverList reads the form servers = [{...}, {...}].
func (p *tomlReader) serverList(v *unstable.Node, line int) {
	if v.Kind != unstable.Array {
		p.fault(line, mcpServers, "must be a list of tables, is %s", describe(v))
		return
	}
	for it := v.Children(); it.Next(); {
		if it.Node().Kind != unstable.InlineTable {
			p.fault(line, mcpServers, "must be a list of tables, has %s in it", describe(it.Node()))
			continue
		}
		p.server(line)
		for kv := it.Node().Children(); kv.Next(); {
			key, line := p.key(kv.Node())
			p.serverKey(key, kv.Node().Value(), line)
		}
	}
}

func (p *tomlReader) serverKey(key string, v *unstable.Node, line int) {
	name := mcpServers + "." + key
	if len(p.servers) == 0 {
		p.fault(line, name, "must follow a [[%s]]", mcpServers)
		return
	}
	s := &p.config.MCP.Servers[len(p.servers)-1]
	if env, ok := strings.CutPrefix(key, "env."); ok {
		if v.Kind != unstable.String {
			p.fault(line, name, "must be a string, is %s", describe(v))
			return
		}
		if s.Env == nil {
			s.Env = make(map[string]Secret)
		}
		s.Env[env] = Secret(v.Data)
		return
	}
	switch key {
	case "name", "command":
		if v.Kind != unstable.String || len(v.Data) == 0 {
			p.fault(line, name, "must be a string that is not empty")
			return
		}
		if key == "name" {
			s.Name = string(v.Data)
		} else {
			s.Command = string(v.Data)
		}
	case "args":
		args, ok := stringList(v)
		if !ok {
			p.fault(line, name, "must be a list of strings")
		}
		s.Args = args
	case "env":
		if v.Kind != unstable.InlineTable {
			p.fault(line, name, "must be a table, is %s", describe(v))
			return
		}
		for it := v.Children(); it.Next(); {
			k, line := p.key(it.Node())
			p.serverKey("env."+k, it.Node().Value(), line)
		}
	default:
		p.fault(line, name, "unknown key%s", didYouMean(key, []string{"name", "command", "args", "env"}))
	}
}

// checkServers finds servers without what they need.
func (p *tomlReader) checkServers() {
	lines := make(map[string]int)
	for i, s := range p.config.MCP.Servers {
		line := p.servers[i]
		if s.Name == "" {
			p.fault(line, mcpServers, "needs a name")
		} else if first, twice := lines[s.Name]; twice {
			p.fault(line, mcpServers, "name %q is taken by the server on line %d", s.Name, first)
		}
		lines[s.Name] = line
		if s.Command == "" {
			p.fault(line, mcpServers, "needs a command")
		}
	}
}
