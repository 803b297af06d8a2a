package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is one key and the place in a Config that it sets.
type field struct {
	name  string
	env   []string
	tag   reflect.StructTag
	value reflect.Value
}

// fieldsOf finds the keys of a Config by its struct tags:
//
//	toml   name of the section or key
//	env    a variable besides SGCLAW_<SECTION>_<KEY> (seed 001 §7.2)
//	range  least and most, of numbers
//	oneof  the values that a string may have, separated by |
//	form   what a string must look like; see checkForm
func fieldsOf(c *Config) []field { return walk(reflect.ValueOf(c).Elem(), "") }

func walk(v reflect.Value, prefix string) []field {
	var out []field
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name := sf.Tag.Get("toml")
		if name == "" || name == "-" || isList(sf.Type) {
			continue
		}
		if sf.Type.Kind() == reflect.Struct {
			out = append(out, walk(v.Field(i), prefix+name+".")...)
			continue
		}
		f := field{name: prefix + name, tag: sf.Tag, value: v.Field(i)}
		if sf.Type.Kind() == reflect.Map {
			out = append(out, f)
			continue
		}
		f.env = []string{"SGCLAW_" + strings.ToUpper(strings.ReplaceAll(f.name, ".", "_"))}
		if alias := sf.Tag.Get("env"); alias != "" {
			f.env = append(f.env, alias)
		}
		out = append(out, f)
	}
	return out
}

// list is a list of tables, e.g. [[agents]]. Its elements' keys are found by
// the same tags; they have no variables.
type list struct {
	name  string
	value reflect.Value // a slice of structs
}

func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// listsOf finds the lists of tables of a Config.
func listsOf(c *Config) []list { return lists(reflect.ValueOf(c).Elem(), "") }

func lists(v reflect.Value, prefix string) []list {
	var out []list
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name := sf.Tag.Get("toml")
		switch {
		case name == "" || name == "-":
		case isList(sf.Type):
			out = append(out, list{prefix + name, v.Field(i)})
		case sf.Type.Kind() == reflect.Struct:
			out = append(out, lists(v.Field(i), prefix+name+".")...)
		}
	}
	return out
}

// add appends an empty element.
func (l list) add() { l.value.Set(reflect.Append(l.value, reflect.Zero(l.value.Type().Elem()))) }

// fields are the keys of the last element, or of one that is in no list if
// there is none yet.
func (l list) fields() []field {
	elem := reflect.New(l.value.Type().Elem()).Elem()
	if n := l.value.Len(); n > 0 {
		elem = l.value.Index(n - 1)
	}
	return walk(elem, l.name+".")
}

func (f field) secret() bool { return f.value.Type() == reflect.TypeFor[Secret]() }

// wants names the type of value that the key takes.
func (f field) wants() string {
	switch f.value.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Map:
		return "a table"
	}
	return "a list of strings"
}

// setString, setInt, setFloat and setList store a value if it is in bounds;
// otherwise they return what is wrong with it. base is the directory that a
// relative path stands for, home that of "~".
func (f field) setString(s, base, home string) string {
	if allowed, ok := f.tag.Lookup("oneof"); ok {
		if words := strings.Split(allowed, "|"); !slices.Contains(words, s) {
			words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
			return fmt.Sprintf("must be one of %s, is %q", strings.Join(words, ", "), s)
		}
	}
	form := f.tag.Get("form")
	if s != "" {
		if fault := checkForm(form, s); fault != "" {
			return fault
		}
	}
	switch {
	case s == "":
	case form == "path", form == "command" && strings.ContainsAny(s, `/\`):
		s = resolve(s, base, home)
	}
	f.value.SetString(s)
	return ""
}

func (f field) setInt(n int64) string {
	least, most := f.bounds()
	if float64(n) < least || float64(n) > most {
		return fmt.Sprintf("must be from %v to %v, is %d", plain(least), plain(most), n)
	}
	f.value.SetInt(n)
	return ""
}

func (f field) setFloat(x float64) string {
	least, most := f.bounds()
	if !(x >= least && x <= most) {
		return fmt.Sprintf("must be from %v to %v, is %v", plain(least), plain(most), x)
	}
	f.value.SetFloat(x)
	return ""
}

// bounds reads the range tag; a test makes sure that it is well formed.
func (f field) bounds() (least, most float64) {
	a, b, _ := strings.Cut(f.tag.Get("range"), ",")
	least, _ = strconv.ParseFloat(a, 64)
	most, _ = strconv.ParseFloat(b, 64)
	return least, most
}

func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

var (
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	agentForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
)

// checkForm returns what is wrong with a string, or nothing. It never quotes
// what may hold a password.
func checkForm(form, s string) string {
	switch form {
	case "name":
		if !nameForm.MatchString(s) {
			return "must be 1 to 128 letters, digits, dots, dashes and underscores"
		}
	case "agent":
		if !agentForm.MatchString(s) {
			return fmt.Sprintf("must be 1 to 64 lower-case letters, digits, dashes and underscores, is %q", s)
		}
	case "listen":
		host, port, err := net.SplitHostPort(s)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 || strings.ContainsAny(host, "/ ") {
			return fmt.Sprintf("must be host:port to listen at, e.g. 127.0.0.1:18789, is %q", s)
		}
	case "hostport":
		_, port, err := net.SplitHostPort(s)
		if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
			return fmt.Sprintf("must be host:port, is %q", s)
		}
	case "http", "start", "panel":
		if form == "start" && s == "about:blank" || form == "panel" && s == "built-in" {
			return ""
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "must be an http or https URL"
		}
	case "postgres":
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
			return "must be a URL like postgres://user:password@host:5432/database"
		}
	}
	return ""
}

// resolve makes a path absolute.
func resolve(p, base, home string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(p) || base == "" {
		return p
	}
	return filepath.Join(base, p)
}
