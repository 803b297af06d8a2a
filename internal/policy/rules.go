package policy

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"sgclaw/internal/action"
)

// Rules are the contents of a rules file. They do not change once parsed and
// may be used from many goroutines.
type Rules struct {
	version   string
	domains   hostSet
	allowed   map[string]bool
	blocked   map[string]bool
	confirm   map[string]bool
	keyPrefix string
	rate      Rate
	overrides hostMap[Rate]
	when      []confirmRule
	dismiss   bool // a page's confirm() is answered No, and nobody is asked
}

// Rate bounds the accesses to one host (seed 001 §2.5, RateLimit).
type Rate struct {
	MaxPerSecond    int
	CooldownSeconds int
}

// DefaultRate holds when the file has no rate_limits.default; it is that of
// the seed's file.
var DefaultRate = Rate{MaxPerSecond: 10, CooldownSeconds: 30}

// DefaultKeyPrefix holds when the file has no storage.key_prefix.
const DefaultKeyPrefix = "sgclaw."

// Domains returns the host names and wildcards that the rules allow, sorted.
// It is for people to read; use AllowDomain to decide.
func (r *Rules) Domains() []string { return r.domains.names() }

// Actions returns the actions that the rules permit, with a person's consent
// or without, sorted.
func (r *Rules) Actions() []string {
	var out []string
	for _, name := range action.Names() {
		if (r.allowed[name] || r.confirm[name]) && !r.blocked[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Confirmed returns the actions that need a person's consent, sorted.
func (r *Rules) Confirmed() []string {
	return slices.Sorted(maps.Keys(r.confirm))
}

// AsksByElement reports whether there are rules of confirm_when, which only
// a browser host can apply.
func (r *Rules) AsksByElement() bool { return len(r.when) > 0 }

// AsksByDialog reports whether a person is asked when an action makes the
// page ask with confirm(). Otherwise it gets No.
func (r *Rules) AsksByDialog() bool { return !r.dismiss }

// AllowDomain reports whether a host may be acted on (seed 001 §2.5,
// check_domain). The host must be in the form of action.Host; any other
// spelling is not allowed.
func (r *Rules) AllowDomain(host string) bool { return r.domains.has(host) }

// rateFor returns the rate that holds for a host.
func (r *Rules) rateFor(host string) Rate {
	if rate, ok := r.overrides.get(host); ok {
		return rate
	}
	return r.rate
}

// checkAction is the part of the order that both layers begin with: blocked,
// permitted, domain.
func (r *Rules) checkAction(name, domain string) (Verdict, bool) {
	switch {
	case r.blocked[name]:
		return deny(CodeActionBlocked, "Action is blocked: %s", name), false
	case !r.allowed[name] && !r.confirm[name]:
		return deny(CodeActionNotAllowed, "Action not in pipe whitelist: %s", name), false
	case !r.domains.has(domain):
		return deny(CodeDomainNotAllowed, "Domain not in whitelist: %s", domain), false
	}
	return Verdict{}, true
}

// CheckPage is layer 3's check of a command (seed 001 §3.3): expected is the
// command's expected_domain, current the host of the document that is really
// there, both in the form of action.Host. For an action that opens a URL
// (action.Spec.URL) the caller passes the URL's host as current: where the
// browser stood before does not matter to it.
//
//  1. action blocked: deny
//  2. action not permitted: deny
//  3. expected not in the whitelist: deny
//  4. expected is not current: deny with MAC_DOMAIN_MISMATCH
//  5. action in need_confirm: NeedConfirm
//  6. allow
func (r *Rules) CheckPage(name, expected, current string) Verdict {
	if v, ok := r.checkAction(name, expected); !ok {
		return v
	}
	if expected != current {
		return deny(CodeDomainMismatch, "Domain mismatch: expected %s but current is %s", expected, current)
	}
	if r.confirm[name] {
		return needConfirm(name)
	}
	return Verdict{Decision: Allow}
}

// CheckStorageKey denies a key of the page's storage that lacks the rules'
// prefix.
func (r *Rules) CheckStorageKey(key string) Verdict {
	if !strings.HasPrefix(key, r.keyPrefix) {
		return deny(CodeStorageKey, "Storage key must begin with %q", r.keyPrefix)
	}
	return Verdict{Decision: Allow}
}

// AllowURL returns nil if a document may be requested from a URL: http or
// https, no user name in it, its host allowed. Otherwise the error is a
// *[DeniedError] with MAC_DOMAIN_NOT_ALLOWED.
func (r *Rules) AllowURL(rawURL string) error {
	// Browsers read a backslash as a slash, Go does not: what they would
	// disagree about is refused.
	if strings.ContainsRune(rawURL, '\\') {
		return &DeniedError{CodeDomainNotAllowed, "URL with a backslash"}
	}
	host, err := action.URLHost(rawURL)
	if err != nil {
		return &DeniedError{CodeDomainNotAllowed, err.Error()}
	}
	if !r.domains.has(host) {
		return &DeniedError{CodeDomainNotAllowed, "Domain not in whitelist: " + host}
	}
	return nil
}

// Element is what an action is about to act on, as the browser host sees it
// at that moment.
type Element struct {
	// Action is the command's action.
	Action string
	// Domain is the host of the document that the element is in.
	Domain string
	// URL is that of the page.
	URL string
	// Role and Name are the accessible role and name.
	Role string
	Name string
	// LinkURL is where the element leads, absolute, if it is or is within a
	// link.
	LinkURL string
	// FormSubmit says that acting on the element submits a form.
	FormSubmit bool
	// Text is what would be typed, or the option that would be chosen.
	Text string
}

// confirmRule is one entry of confirm_when. Absent criteria are nil.
type confirmRule struct {
	id         string
	domains    *hostSet
	actions    map[string]bool
	roles      map[string]bool
	name       *regexp.Regexp
	url        *regexp.Regexp
	link       *regexp.Regexp
	text       *regexp.Regexp
	formSubmit *bool
	prompt     Prompt
}

// ConfirmWhen reports whether a person must be asked before the element is
// acted on: the id of the first rule that matches, and what to ask. A rule
// without a prompt of its own asks in general words that name the element.
func (r *Rules) ConfirmWhen(e Element) (rule string, prompt Prompt, ask bool) {
	for i := range r.when {
		c := &r.when[i]
		if !c.matches(e) {
			continue
		}
		p := c.prompt
		if p == (Prompt{}) {
			p = elementPrompt(e)
		}
		return c.id, p, true
	}
	return "", Prompt{}, false
}

// OwnPrompt is the question that a rule of confirm_when brings with it, zero
// if it has none.
func (r *Rules) OwnPrompt(rule string) Prompt {
	for i := range r.when {
		if r.when[i].id == rule {
			return r.when[i].prompt
		}
	}
	return Prompt{}
}

func (c *confirmRule) matches(e Element) bool {
	switch {
	case c.actions != nil && !c.actions[e.Action],
		c.domains != nil && !c.domains.has(e.Domain),
		c.roles != nil && !c.roles[strings.ToLower(e.Role)],
		c.formSubmit != nil && *c.formSubmit != e.FormSubmit,
		c.name != nil && !matchesText(c.name, e.Name),
		c.text != nil && !matchesText(c.text, e.Text),
		c.url != nil && !matchesURL(c.url, e.URL),
		c.link != nil && !matchesURL(c.link, e.LinkURL):
		return false
	}
	return true
}

// matchesText tries a pattern on a text as it is and as a person reads it:
// compatibility forms folded, spaces and invisible characters left out. Ant
// Design, for one, writes 批准 on a button as "批 准", and a page that wants
// to slip by could put a zero-width space between.
func matchesText(re *regexp.Regexp, s string) bool {
	if re.MatchString(s) {
		return true
	}
	folded := strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) || unicode.Is(unicode.Cf, c) || unicode.IsControl(c) {
			return -1
		}
		return c
	}, norm.NFKC.String(s))
	return folded != s && re.MatchString(folded)
}

// matchesURL tries a pattern on a URL as it is and with percent-encoding
// undone.
func matchesURL(re *regexp.Regexp, s string) bool {
	if re.MatchString(s) {
		return true
	}
	plain, err := url.PathUnescape(s)
	return err == nil && plain != s && re.MatchString(plain)
}

// elementPrompt asks about an element in general words.
func elementPrompt(e Element) Prompt {
	zh, en := e.Action, e.Action
	if spec, ok := action.Lookup(e.Action); ok {
		zh = spec.DescriptionZH
	}
	if e.Name != "" {
		zh += " “" + e.Name + "”"
		en += " “" + e.Name + "”"
	}
	if e.Domain != "" {
		zh += " (" + e.Domain + ")"
		en += " (" + e.Domain + ")"
	}
	return Prompt{ZH: "操作需要用户确认: " + zh, EN: "The action needs your confirmation: " + en}
}

// Hosts is a set of host names and of wildcards "*.<domain>". The zero value
// is empty.
type Hosts struct{ set hostSet }

// ParseHosts reads host names and wildcards, as domains.allowed of a rules
// file has them. The error is a *[FaultsError].
func ParseHosts(patterns []string) (Hosts, error) {
	list := &node{kind: kindArray}
	for _, s := range patterns {
		list.items = append(list.items, &node{kind: kindString, path: "domains", str: s})
	}
	p := &parser{}
	set := p.domains(list)
	if len(p.faults) > 0 {
		return Hosts{}, &FaultsError{Faults: p.faults}
	}
	return Hosts{set}, nil
}

// Has reports whether a host, in the form of action.Host, is in the set.
func (h Hosts) Has(host string) bool { return h.set.has(host) }

// hostMap finds a value by host name: an exact one, else the longest
// wildcard.
type hostMap[V any] struct {
	exact map[string]V
	wild  map[string]V // by what follows "*."
}

func (m hostMap[V]) get(host string) (V, bool) {
	if v, ok := m.exact[host]; ok {
		return v, true
	}
	if len(m.wild) > 0 {
		rest := host
		for {
			_, after, ok := strings.Cut(rest, ".")
			if !ok {
				break
			}
			if v, ok := m.wild[after]; ok {
				return v, true
			}
			rest = after
		}
	}
	var none V
	return none, false
}

// hostSet is a set of host names and wildcards.
type hostSet struct{ hostMap[bool] }

func (s hostSet) has(host string) bool {
	_, ok := s.get(host)
	return ok
}

func (s hostSet) names() []string {
	out := slices.Collect(maps.Keys(s.exact))
	for w := range s.wild {
		out = append(out, "*."+w)
	}
	slices.Sort(out)
	return out
}

// covers reports whether the set has a host in common with a host name or
// wildcard.
func (s hostSet) covers(pattern string) bool {
	suffix, wild := strings.CutPrefix(pattern, "*.")
	if !wild {
		return s.has(pattern)
	}
	for h := range s.exact {
		if strings.HasSuffix(h, "."+suffix) {
			return true
		}
	}
	for w := range s.wild {
		if w == suffix || strings.HasSuffix(w, "."+suffix) || strings.HasSuffix(suffix, "."+w) {
			return true
		}
	}
	return false
}
