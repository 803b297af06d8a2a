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
			l, ok := p.list(name)
			if skip = !ok || l.name != name; skip {
				p.fault(line, name, "is not a list of tables")
			} else {
				p.add(l, line)
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
}

type tomlReader struct {
	*loader
	parser unstable.Parser
}

// list returns the list that a name is of: the list's own, or that of
// something in an element.
func (p *tomlReader) list(name string) (list, bool) {
	for _, l := range p.lists {
		if name == l.name || strings.HasPrefix(name, l.name+".") {
			return l, true
		}
	}
	return list{}, false
}

// add begins another element of a list.
func (p *tomlReader) add(l list, line int) {
	p.config.origins[element(l.name, l.value.Len())] = p.file + ":" + strconv.Itoa(line)
	if p.lines == nil {
		p.lines = make(map[string][]int)
	}
	p.lines[l.name] = append(p.lines[l.name], line)
	l.add()
}

// element names an element of a list among the origins.
func element(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// keys are the keys among which a name is looked up.
func (p *tomlReader) keys(name string) []field {
	if l, ok := p.list(name); ok {
		return l.fields()
	}
	return p.fields
}

// find returns the field that a name stands for, and the key in it if it is
// a table of its own.
func (p *tomlReader) find(name string) (f field, key string, ok bool) {
	for _, f := range p.keys(name) {
		if f.name == name {
			return f, "", true
		}
		if rest, ok := strings.CutPrefix(name, f.name+"."); ok && f.value.Kind() == reflect.Map {
			return f, rest, true
		}
	}
	return field{}, "", false
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
	if l, ok := p.list(name); ok {
		if name == l.name {
			p.fault(line, name, "is a list of tables; write [[%s]]", name)
			return false
		}
		if l.value.Len() == 0 {
			p.fault(line, name, "must follow a [[%s]]", l.name)
			return false
		}
	}
	if p.isSection(name) {
		return true
	}
	if f, _, ok := p.find(name); ok {
		if f.name == name && f.value.Kind() == reflect.Map {
			return true
		}
		p.fault(line, name, "is a key, not a section")
		return false
	}
	p.fault(line, name, "unknown section%s", didYouMean(name, p.sections(name)))
	return false
}

func (p *tomlReader) isSection(name string) bool { return slices.Contains(p.sections(name), name) }

// sections are those among which a name is looked up.
func (p *tomlReader) sections(name string) []string {
	var out []string
	l, inList := p.list(name)
	if !inList {
		out = append(out, "mcp")
	}
	for _, f := range p.keys(name) {
		section, _, _ := cutLast(f.name, ".")
		if section != l.name && !slices.Contains(out, section) {
			out = append(out, section)
		}
	}
	return out
}

// set stores the value of one key.
func (p *tomlReader) set(name string, v *unstable.Node, line int) {
	origin := name
	if l, ok := p.list(name); ok {
		switch n := l.value.Len(); {
		case name == l.name:
			p.elements(l, v, line)
			return
		case n == 0:
			p.fault(line, name, "must follow a [[%s]]", l.name)
			return
		default:
			origin = element(l.name, n-1) + strings.TrimPrefix(name, l.name)
		}
	}
	f, key, ok := p.find(name)
	table := p.isSection(name) || ok && key == "" && f.value.Kind() == reflect.Map
	switch {
	case v.Kind == unstable.InlineTable && table:
		p.config.origins[origin] = p.file + ":" + strconv.Itoa(line)
		for it := v.Children(); it.Next(); {
			key, line := p.key(it.Node())
			p.set(name+"."+key, it.Node().Value(), line)
		}
		return
	case !ok:
		p.unknown(name, line)
		return
	}
	p.config.origins[origin] = p.file + ":" + strconv.Itoa(line)
	var msg string
	if key != "" {
		msg = p.entry(f, key, v)
	} else {
		msg = p.value(f, v)
	}
	if msg != "" {
		p.fault(line, name, "%s", msg)
	}
}

// elements reads the form list = [{...}, {...}].
func (p *tomlReader) elements(l list, v *unstable.Node, line int) {
	if v.Kind != unstable.Array {
		p.fault(line, l.name, "must be a list of tables, is %s", describe(v))
		return
	}
	for it := v.Children(); it.Next(); {
		if it.Node().Kind != unstable.InlineTable {
			p.fault(line, l.name, "must be a list of tables, has %s in it", describe(it.Node()))
			continue
		}
		p.add(l, line)
		for kv := it.Node().Children(); kv.Next(); {
			key, line := p.key(kv.Node())
			p.set(l.name+"."+key, kv.Node().Value(), line)
		}
	}
}

// entry stores one entry of a key that is a table of its own. It returns what
// is wrong with the value, or nothing.
func (p *tomlReader) entry(f field, key string, v *unstable.Node) string {
	entry := reflect.New(f.value.Type().Elem()).Elem()
	if msg := p.value(field{value: entry}, v); msg != "" {
		return msg
	}
	if f.value.IsNil() {
		f.value.Set(reflect.MakeMap(f.value.Type()))
	}
	f.value.SetMapIndex(reflect.ValueOf(key), entry)
	return ""
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
	for _, f := range p.keys(name) {
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
	if !ok || f.value.Kind() != reflect.Slice {
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
