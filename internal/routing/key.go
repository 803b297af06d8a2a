package routing

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 200

const (
	mainAgent      = "main"
	mainKey        = "main"
	defaultAccount = "default"
	unknown        = "unknown" // a channel or group that has no name
	maxID          = 64
)

var (
	// ErrKey is the error of a key that is not well formed.
	ErrKey = errors.New("not a session key")
	// ErrAgent is the error of a key of an agent that is not there.
	ErrAgent = errors.New("no such agent")
)

var (
	idForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	idOthers = regexp.MustCompile(`[^a-z0-9_-]+`)
)

// NormalizeID returns an agent's id as it stands in keys (seed 003): lower
// case, other characters than a-z 0-9 _ - replaced by dashes, at most 64
// bytes; "main" if nothing is left.
func NormalizeID(id string) string { return normalize(id, mainAgent) }

// NormalizeAccount does so for an account; an empty one is "default".
func NormalizeAccount(id string) string { return normalize(id, defaultAccount) }

func normalize(id, empty string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	if idForm.MatchString(id) {
		return id
	}
	id = strings.Trim(idOthers.ReplaceAllString(id, "-"), "-_")
	if len(id) > maxID {
		id = id[:maxID]
	}
	if id == "" {
		return empty
	}
	return id
}

// Key is a session's key in its two parts, agent:<agent>:<rest>.
type Key struct{ Agent, Rest string }

// String returns the key itself.
func (k Key) String() string { return "agent:" + k.Agent + ":" + k.Rest }

// Parse takes a key apart. Keys of other forms, cli:<run> among them, and
// such as could not be kept give [ErrKey].
func Parse(key string) (Key, error) {
	k, err := parseLoose(key)
	if err == nil && k.String() != key {
		err = fmt.Errorf("%w: %q must begin %q", ErrKey, key, "agent:"+k.Agent)
	}
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

// parseLoose normalises the agent on the way.
func parseLoose(key string) (Key, error) {
	rest, ok := strings.CutPrefix(key, "agent:")
	id, rest, cut := strings.Cut(rest, ":")
	if !ok || !cut || strings.TrimSpace(id) == "" || rest == "" {
		return Key{}, fmt.Errorf("%w: %q must be agent:<id>:<rest>", ErrKey, key)
	}
	k := Key{NormalizeID(id), rest}
	return k, Check(k.String())
}

// Check reports with [ErrKey] what cannot be a session's key of any form: it
// must have 1 to [MaxKey] bytes of printable text without spaces, quotes and
// backslashes.
func Check(key string) error {
	ok := key != "" && len(key) <= MaxKey && utf8.ValidString(key)
	for _, c := range key {
		ok = ok && printable(c)
	}
	if !ok {
		return fmt.Errorf("%w: %q must have 1 to %d bytes, without spaces, quotes and backslashes", ErrKey, key, MaxKey)
	}
	return nil
}

func printable(c rune) bool {
	return unicode.IsGraphic(c) && !unicode.IsSpace(c) && !strings.ContainsRune("'\"`\\", c)
}

// IsSubagent reports whether a key is that of an agent's helper.
func IsSubagent(key string) bool {
	if k, err := Parse(key); err == nil {
		key = k.Rest
	}
	return strings.HasPrefix(key, "subagent:")
}

// MainKey is the key of an agent's main session.
func (r *Router) MainKey(agent string) string {
	return Key{NormalizeID(agent), r.config.MainKey}.String()
}

// Expand returns the full key for what a client calls a session: "main" or
// nothing for the main session of the default agent, and any other word for
// one of its sessions; keys that begin with "agent:" or "cli:" stay as they
// are. agent, if it is not empty, stands for the default agent. The error is
// [ErrKey] or, for a key of an agent that is not there, [ErrAgent].
func (r *Router) Expand(name, agent string) (string, error) {
	k := Key{r.config.Default, name}
	if agent != "" {
		k.Agent = NormalizeID(agent)
	}
	switch {
	case strings.HasPrefix(name, "cli:"):
		return name, Check(name)
	case name == "" || name == mainKey:
		k.Rest = r.config.MainKey
	case strings.HasPrefix(name, "agent:"):
		named, err := parseLoose(name)
		if err != nil {
			return "", err
		}
		if agent != "" && named.Agent != k.Agent {
			return "", fmt.Errorf("%w: %q is not a key of agent %q", ErrKey, name, agent)
		}
		// The alias that every client knows.
		if k = named; k.Rest == mainKey {
			k.Rest = r.config.MainKey
		}
	}
	if !r.Known(k.Agent) {
		return "", fmt.Errorf("%w: %q", ErrAgent, k.Agent)
	}
	if err := Check(k.String()); err != nil {
		return "", err
	}
	return k.String(), nil
}

// Key is the key of the session of a message to an agent. If it would be
// longer than [MaxKey], its end is replaced by "~" and a hash of the whole.
func (r *Router) Key(agent string, m Message) string {
	return shorten(Key{NormalizeID(agent), r.rest(m)})
}

// rest is what follows the agent in the key of a message's session.
func (r *Router) rest(m Message) string {
	channel, account, kind := normalize(m.Channel, unknown), NormalizeAccount(m.Account), m.Peer.kind()
	if kind != KindDirect {
		id := escape(m.Peer.ID)
		switch id {
		case "":
			id = unknown
		case unknown:
			id = apart(id)
		}
		parts := []string{channel, kind, id}
		if m.Peer.Topic != "" {
			parts = append(parts, "topic", escape(m.Peer.Topic))
		}
		return strings.Join(parts, ":")
	}
	if m.Peer.ID == "" || r.config.Scope == ScopeMain {
		return r.config.MainKey
	}
	if name, ok := r.linked(channel, m.Peer.ID); ok {
		return KindDirect + ":" + name
	}
	id := escape(m.Peer.ID)
	switch r.config.Scope {
	case ScopePerPeer:
		if r.names[id] {
			id = apart(id)
		}
		return KindDirect + ":" + id
	case ScopePerAccountChannelPeer:
		return strings.Join([]string{channel, account, KindDirect, id}, ":")
	}
	return strings.Join([]string{channel, KindDirect, id}, ":")
}

// linked returns the escaped name of the person that an id is linked to.
func (r *Router) linked(channel, id string) (string, bool) {
	if name, ok := r.person[channel+":"+id]; ok {
		return name, true
	}
	// An id with a colon could be made to look like that of another channel.
	if strings.Contains(id, ":") {
		return "", false
	}
	name, ok := r.person[id]
	return name, ok
}

// Place is what the key of a conversation tells of it.
type Place struct {
	Channel string // empty for a person with linked ids, and in scope per-peer
	Account string // scope per-account-channel-peer only
	Peer    Peer
}

// Place returns what the key tells of the conversation, and false for keys of
// other sessions and for shortened ones.
func (k Key) Place() (Place, bool) {
	p := strings.Split(k.Rest, ":")
	var out Place
	switch n := len(p); {
	case strings.Contains(k.Rest, "~"):
		return Place{}, false
	case n == 2 && p[0] == KindDirect:
		out = Place{Peer: Peer{Kind: KindDirect, ID: p[1]}}
	case n == 3:
		out = Place{Channel: p[0], Peer: Peer{Kind: p[1], ID: p[2]}}
		if p[1] != KindDirect && p[2] == unknown {
			out.Peer.ID = ""
		}
	case n == 4 && p[2] == KindDirect:
		out = Place{Channel: p[0], Account: p[1], Peer: Peer{Kind: KindDirect, ID: p[3]}}
	case n == 5 && p[3] == "topic":
		out = Place{Channel: p[0], Peer: Peer{Kind: p[1], ID: p[2], Topic: p[4]}}
		if p[2] == unknown {
			out.Peer.ID = ""
		}
	default:
		return Place{}, false
	}
	id, ok := unescape(out.Peer.ID)
	topic, ok2 := unescape(out.Peer.Topic)
	out.Peer.ID, out.Peer.Topic = id, topic
	return out, ok && ok2
}

// Kind is "main", "direct", "group" and so on, as clients sort sessions; what
// is none of these is "other".
func (r *Router) Kind(key string) string {
	k, err := Parse(key)
	switch {
	case err != nil:
		return "other"
	case k.Rest == r.config.MainKey:
		return "main"
	case IsSubagent(key):
		return "subagent"
	}
	if p, ok := k.Place(); ok {
		return p.Peer.Kind
	}
	return "other"
}

// escape makes an id part of a key: what has a meaning there, and what no key
// may contain, becomes %xx, byte by byte.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		if c == utf8.RuneError && n == 1 || !printable(c) || strings.ContainsRune(":%~", c) {
			for _, x := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "%%%02x", x)
			}
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// apart makes a key of its own for an id that looks like a word with a
// meaning. No escaped id begins like this.
func apart(escaped string) string { return "%_" + escaped }

func unescape(s string) (string, bool) {
	s = strings.TrimPrefix(s, "%_")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		x, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(x[0])
		i += 2
	}
	return b.String(), true
}

// hashEncoding has no character that a key could not have.
var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// shorten brings a key down to MaxKey bytes. "~" is in no id unescaped, so
// that a shortened key is never that of another session.
func shorten(k Key) string {
	key := k.String()
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(k.Rest))
	tail := "~" + hashEncoding.EncodeToString(sum[:20])
	head := key[:MaxKey-len(tail)]
	for !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return head + tail
}

func sortedKeys(m map[string][]string) []string { return slices.Sorted(maps.Keys(m)) }
