package policy

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"sgclaw/internal/action"
	"sgclaw/internal/spell"
)

// Limits of a rules file. They keep a check cheap and a mistake visible.
const (
	MaxFile     = 1 << 20 // bytes
	maxPattern  = 1000    // bytes of a pattern
	maxWhen     = 200     // entries of confirm_when
	maxPerSec   = 1000
	maxCooldown = 24 * 60 * 60
)

// Fault is one mistake in a rules file.
type Fault struct {
	Path    string // e.g. domains.allowed[2]; empty for the document
	Line    int    // from 1; 0 if unknown
	Message string
}

// FaultsError lists all that is wrong with a rules file.
type FaultsError struct {
	File   string // empty if the rules did not come from a file
	Faults []Fault
}

// Error has a line for each fault, each beginning with file and line.
func (e *FaultsError) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		if e.File != "" {
			b.WriteString(e.File)
		} else {
			b.WriteString("rules")
		}
		if f.Line > 0 {
			b.WriteString(":" + strconv.Itoa(f.Line))
		}
		b.WriteString(": ")
		if f.Path != "" {
			b.WriteString(f.Path + ": ")
		}
		b.WriteString(f.Message)
	}
	return b.String()
}

// Load reads a rules file (seed 001 §2.5, from_rules_file). If the contents
// are wrong the error is a *[FaultsError] with every fault.
func Load(path string) (*Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("rules file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("rules file: %w", err)
	}
	r, err := Parse(data)
	var faults *FaultsError
	if errors.As(err, &faults) {
		faults.File = path
	}
	return r, err
}

// Parse reads the contents of a rules file. The error is a *[FaultsError]
// with every fault.
func Parse(data []byte) (*Rules, error) {
	if len(data) > MaxFile {
		return nil, &FaultsError{Faults: []Fault{{Message: fmt.Sprintf("longer than %d bytes", MaxFile)}}}
	}
	doc, fault := scan(data)
	if fault != nil {
		return nil, &FaultsError{Faults: []Fault{*fault}}
	}
	p := &parser{}
	r := p.rules(doc)
	if len(p.faults) > 0 {
		slices.SortStableFunc(p.faults, func(a, b Fault) int { return a.Line - b.Line })
		return nil, &FaultsError{Faults: p.faults}
	}
	return r, nil
}

// parser turns nodes into rules and collects faults on the way.
type parser struct{ faults []Fault }

func (p *parser) fault(n *node, format string, args ...any) {
	p.faults = append(p.faults, Fault{n.path, n.line, fmt.Sprintf(format, args...)})
}

// object checks that n is an object with no other keys than known and no
// key twice, and returns its members.
func (p *parser) object(n *node, required []string, optional ...string) map[string]*node {
	if !p.is(n, kindObject) {
		return nil
	}
	known := slices.Concat(required, optional)
	got := make(map[string]*node, len(n.members))
	for _, m := range n.members {
		at := &node{path: join(n.path, m.key), line: m.line}
		if !slices.Contains(known, m.key) {
			p.fault(at, "unknown key%s", didYouMean(m.key, known))
			continue
		}
		if _, twice := got[m.key]; twice {
			p.fault(at, "key stands here twice")
			continue
		}
		got[m.key] = m.value
	}
	for _, key := range required {
		if got[key] == nil {
			p.fault(n, "key %q is missing", key)
		}
	}
	return got
}

func (p *parser) is(n *node, k kind) bool {
	if n.kind != k {
		p.fault(n, "must be %s, is %s", k, n.kind)
		return false
	}
	return true
}

// list checks that n is an array of distinct, non-empty strings and calls
// each for every one.
func (p *parser) list(n *node, each func(item *node)) {
	if n == nil || !p.is(n, kindArray) {
		return
	}
	first := make(map[string]int)
	for _, item := range n.items {
		if !p.is(item, kindString) {
			continue
		}
		if item.str == "" {
			p.fault(item, "is empty")
			continue
		}
		if line, twice := first[item.str]; twice {
			p.fault(item, "%q is listed twice, first on line %d", item.str, line)
			continue
		}
		first[item.str] = item.line
		each(item)
	}
}

func (p *parser) integer(n *node, least, most int) int {
	if n == nil || !p.is(n, kindNumber) {
		return least
	}
	v, err := strconv.Atoi(n.str)
	if err != nil || v < least || v > most {
		p.fault(n, "must be a whole number from %d to %d, is %s", least, most, n.str)
		return least
	}
	return v
}

func (p *parser) rules(doc *node) *Rules {
	r := &Rules{
		keyPrefix: DefaultKeyPrefix,
		rate:      DefaultRate,
		allowed:   make(map[string]bool),
		blocked:   make(map[string]bool),
		confirm:   make(map[string]bool),
	}
	top := p.object(doc, []string{"version", "domains", "pipe_actions"},
		"$schema", "storage", "rate_limits", "confirm_when", "native_dialogs")
	if n := top["$schema"]; n != nil {
		p.is(n, kindString)
	}
	if n := top["version"]; n != nil && p.is(n, kindString) {
		r.version = n.str
		if n.str != "1.0" {
			p.fault(n, "version %q is not known; it must be \"1.0\"", n.str)
		}
	}
	if n := top["domains"]; n != nil {
		r.domains = p.domains(p.object(n, []string{"allowed"})["allowed"])
	}
	if n := top["pipe_actions"]; n != nil {
		p.actions(n, r)
	}
	if n := top["storage"]; n != nil {
		p.storage(n, r)
	}
	if n := top["rate_limits"]; n != nil {
		p.rates(n, r)
	}
	if n := top["confirm_when"]; n != nil && p.is(n, kindArray) {
		p.when(n, r)
	}
	if n := top["native_dialogs"]; n != nil {
		p.dialogs(n, r)
	}
	return r
}

func (p *parser) dialogs(n *node, r *Rules) {
	v := p.object(n, nil, "confirm")["confirm"]
	if v == nil || !p.is(v, kindString) {
		return
	}
	switch v.str {
	case "ask":
	case "dismiss":
		r.dismiss = true
	default:
		p.fault(v, "must be \"ask\" or \"dismiss\", is %q", v.str)
	}
}

func (p *parser) actions(n *node, r *Rules) {
	got := p.object(n, []string{"allowed"}, "blocked", "need_confirm")
	into := func(set map[string]bool) func(*node) {
		return func(item *node) {
			p.known(item)
			set[item.str] = true
		}
	}
	// Blocked may name what this version has never heard of.
	p.list(got["blocked"], func(item *node) { r.blocked[item.str] = true })
	p.list(got["allowed"], into(r.allowed))
	p.list(got["need_confirm"], into(r.confirm))
	for _, key := range []string{"allowed", "need_confirm"} {
		if got[key] == nil {
			continue
		}
		for _, item := range got[key].items {
			if item.kind == kindString && r.blocked[item.str] {
				p.fault(item, "%q is blocked too", item.str)
			}
		}
	}
}

// known checks that an item names an action of the catalogue.
func (p *parser) known(item *node) {
	if !slices.Contains(action.Names(), item.str) {
		p.fault(item, "unknown action %q%s", item.str, didYouMean(item.str, action.Names()))
	}
}

func (p *parser) storage(n *node, r *Rules) {
	v := p.object(n, nil, "key_prefix")["key_prefix"]
	if v == nil || !p.is(v, kindString) {
		return
	}
	r.keyPrefix = v.str
	if !strings.HasPrefix(v.str, DefaultKeyPrefix) {
		// The schemas of storageSet and storageGet (seed 001 §5.2) demand it.
		p.fault(v, "must begin with %q, as all storage keys do", DefaultKeyPrefix)
	}
}

func (p *parser) rates(n *node, r *Rules) {
	got := p.object(n, nil, "default", "overrides")
	if d := got["default"]; d != nil {
		r.rate = p.oneRate(d)
	}
	o := got["overrides"]
	if o == nil || !p.is(o, kindObject) {
		return
	}
	r.overrides = hostMap[Rate]{make(map[string]Rate), make(map[string]Rate)}
	for _, m := range o.members {
		rate := p.oneRate(m.value)
		at := &node{path: m.value.path, line: m.line, str: m.key}
		host, ok := p.host(at)
		if !ok {
			continue
		}
		into, key := r.overrides.exact, host
		if suffix, wild := strings.CutPrefix(host, "*."); wild {
			into, key = r.overrides.wild, suffix
		}
		if _, twice := into[key]; twice {
			p.fault(at, "key stands here twice")
		}
		into[key] = rate
		if !r.domains.covers(host) {
			p.fault(at, "no such domain in domains.allowed")
		}
	}
}

func (p *parser) oneRate(n *node) Rate {
	got := p.object(n, []string{"max_per_second", "cooldown_seconds"})
	return Rate{
		MaxPerSecond:    p.integer(got["max_per_second"], 1, maxPerSec),
		CooldownSeconds: p.integer(got["cooldown_seconds"], 0, maxCooldown),
	}
}

func (p *parser) domains(n *node) hostSet {
	set := hostSet{hostMap[bool]{make(map[string]bool), make(map[string]bool)}}
	p.list(n, func(item *node) {
		host, ok := p.host(item)
		if !ok {
			return
		}
		if suffix, wild := strings.CutPrefix(host, "*."); wild {
			set.wild[suffix] = true
		} else {
			set.exact[host] = true
		}
	})
	return set
}

// host reads an exact host name or a wildcard "*.<domain>".
func (p *parser) host(n *node) (string, bool) {
	suffix, wild := strings.CutPrefix(n.str, "*.")
	if strings.Contains(suffix, "*") {
		p.fault(n, "%q: a wildcard is \"*.\" and a domain, e.g. *.example.com", n.str)
		return "", false
	}
	host, err := action.Host(suffix)
	if err != nil {
		p.fault(n, "%v; give the name alone, without scheme, port or path", err)
		return "", false
	}
	if !wild {
		return host, true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		p.fault(n, "%q: a wildcard needs a domain, not an address", n.str)
		return "", false
	}
	public, icann := publicsuffix.PublicSuffix(host)
	if !strings.Contains(host, ".") || icann && public == host {
		p.fault(n, "%q: a wildcard must not cover a whole public suffix", n.str)
		return "", false
	}
	return "*." + host, true
}

func (p *parser) when(n *node, r *Rules) {
	if len(n.items) > maxWhen {
		p.fault(n, "more than %d rules", maxWhen)
		return
	}
	ids := make(map[string]int)
	for _, item := range n.items {
		c, ok := p.oneWhen(item, r)
		if !ok {
			continue
		}
		if line, twice := ids[c.id]; twice && c.id != "" {
			p.fault(item, "id %q is taken by the rule on line %d", c.id, line)
		}
		ids[c.id] = item.line
		r.when = append(r.when, c)
	}
}

var ruleID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (p *parser) oneWhen(n *node, r *Rules) (c confirmRule, ok bool) {
	got := p.object(n, []string{"id"}, "domains", "actions", "role", "name", "url", "link", "form_submit", "text", "prompt")
	if got == nil {
		return c, false
	}
	if id := got["id"]; id != nil && p.is(id, kindString) {
		c.id = id.str
		if !ruleID.MatchString(id.str) {
			p.fault(id, "must be 1 to 64 letters, digits, dots, dashes and underscores")
		}
	}
	criteria := len(got)
	for _, key := range []string{"id", "prompt"} {
		if got[key] != nil {
			criteria--
		}
	}
	if criteria == 0 {
		p.fault(n, "has no condition, so it would ask about everything; to ask about an action by its name, list it in pipe_actions.need_confirm")
	}
	if d := got["domains"]; d != nil {
		set := p.domains(d)
		c.domains = &set
		p.nonEmpty(d)
		for _, h := range set.names() {
			if !r.domains.covers(h) {
				p.fault(d, "%s is not in domains.allowed, so the rule would never apply to it", h)
			}
		}
	}
	if a := got["actions"]; a != nil {
		c.actions = make(map[string]bool)
		p.nonEmpty(a)
		p.list(a, func(item *node) {
			p.known(item)
			c.actions[item.str] = true
		})
	}
	if l := got["role"]; l != nil {
		c.roles = make(map[string]bool)
		p.nonEmpty(l)
		p.list(l, func(item *node) { c.roles[strings.ToLower(item.str)] = true })
	}
	c.name = p.pattern(got["name"])
	c.url = p.pattern(got["url"])
	c.link = p.pattern(got["link"])
	c.text = p.pattern(got["text"])
	if f := got["form_submit"]; f != nil && p.is(f, kindBool) {
		c.formSubmit = &f.flag
	}
	if t := got["prompt"]; t != nil {
		c.prompt = p.prompt(t)
	}
	return c, true
}

func (p *parser) nonEmpty(n *node) {
	if n.kind == kindArray && len(n.items) == 0 {
		p.fault(n, "is empty, so the rule would never apply; leave the key out to mean any")
	}
}

// pattern compiles a regular expression. Case never matters: a rule that
// asks once too often is better than one that APPROVE slips by.
func (p *parser) pattern(n *node) *regexp.Regexp {
	if n == nil || !p.is(n, kindString) {
		return nil
	}
	if n.str == "" || len(n.str) > maxPattern {
		p.fault(n, "must have 1 to %d bytes", maxPattern)
		return nil
	}
	re, err := regexp.Compile("(?i)(?:" + n.str + ")")
	if err != nil {
		// The pattern's own fault, without what was put around it.
		if _, own := regexp.Compile(n.str); own != nil {
			err = own
		}
		p.fault(n, "not a regular expression (RE2): %v", err)
		return nil
	}
	return re
}

// maxPrompt bounds a question, which travels with every confirmation.
const maxPrompt = 500

func (p *parser) prompt(n *node) Prompt {
	got := p.object(n, nil, "zh", "en")
	if got != nil && len(got) == 0 {
		p.fault(n, "needs zh, en or both")
	}
	text := func(n *node) string {
		if n == nil || !p.is(n, kindString) {
			return ""
		}
		if n.str == "" {
			p.fault(n, "is empty")
		}
		if len(n.str) > maxPrompt {
			p.fault(n, "is longer than %d bytes", maxPrompt)
		}
		return n.str
	}
	return Prompt{ZH: text(got["zh"]), EN: text(got["en"])}
}

// didYouMean suggests the nearest known word for a mistyped one.
func didYouMean(word string, known []string) string {
	if best := spell.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}
