package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
	"sgclaw/internal/record"
	"sgclaw/internal/store"
)

// roleScopes are OpenClaw's scopes of our roles.
var roleScopes = map[access.Role][]string{
	access.RoleViewer:   {openclaw.ScopeRead},
	access.RoleUser:     {openclaw.ScopeRead, openclaw.ScopeWrite},
	access.RoleApprover: {openclaw.ScopeRead, openclaw.ScopeWrite, openclaw.ScopeApprovals},
	access.RoleOperator: {openclaw.ScopeRead, openclaw.ScopeWrite, openclaw.ScopeApprovals, openclaw.ScopeAdmin, openclaw.ScopeQuestions, openclaw.ScopePairing},
}

// scopeOf is the scope that a method needs which a role may call.
func scopeOf(r access.Role) string {
	switch r {
	case access.RoleViewer:
		return openclaw.ScopeRead
	case access.RoleUser:
		return openclaw.ScopeWrite
	case access.RoleApprover:
		return openclaw.ScopeApprovals
	}
	return openclaw.ScopeAdmin
}

// grant returns the scopes that a client gets which has a role and asks for
// some: what it asks for, as far as the role has it. Who asks for nothing, or
// for admin, which includes all, gets all that the role has.
func grant(r access.Role, asked []string) []string {
	all := roleScopes[r]
	if len(asked) == 0 || slices.Contains(asked, openclaw.ScopeAdmin) {
		return slices.Clone(all)
	}
	out := []string{}
	for _, s := range asked {
		if slices.Contains(all, s) && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// covers reports whether scopes suffice for what needs one: admin has all of
// them, and write includes read.
func covers(scopes []string, need string) bool {
	return need == "" || slices.Contains(scopes, need) || slices.Contains(scopes, openclaw.ScopeAdmin) ||
		need == openclaw.ScopeRead && slices.Contains(scopes, openclaw.ScopeWrite)
}

// roleFor is the role that a client acts in: the strongest, at most that of
// its token, whose own scope it was granted.
func roleFor(r access.Role, scopes []string) access.Role {
	best := access.RoleViewer
	for _, other := range access.Roles() {
		if r.Covers(other) && covers(scopes, scopeOf(other)) {
			best = other
		}
	}
	return best
}

// OperatorName is who acts with the gateway's own token.
const OperatorName = access.OperatorName

// doorkeeper checks tokens.
type doorkeeper struct {
	token   string // the gateway's own; empty: none
	store   *store.Store
	backoff *access.Backoff

	mu sync.Mutex
	// known are hashes of secrets that were good once: they need not wait
	// because somebody else at the same address guesses.
	known map[[sha256.Size]byte]struct{}
	// opening are the sockets whose handshake is under way, by network.
	opening map[string]int
}

const (
	maxKnown = 10_000
	// maxOpeningOfOne bounds opening for each network, so that none keeps
	// out everybody else. Behind a proxy all clients are of one network: it
	// must do for all of them that reconnect at once.
	maxOpeningOfOne = maxOpening / 4
)

func newDoorkeeper(token string, s *store.Store) *doorkeeper {
	return &doorkeeper{token: token, store: s, backoff: access.NewBackoff(time.Now), known: map[[sha256.Size]byte]struct{}{}, opening: map[string]int{}}
}

// enter keeps a place for a handshake with an address, unless those of its
// network are all taken; left gives it up.
func (d *doorkeeper) enter(addr string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	network := access.Network(addr)
	if d.opening[network] >= maxOpeningOfOne {
		return false
	}
	d.opening[network]++
	return true
}

func (d *doorkeeper) left(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	network := access.Network(addr)
	if d.opening[network]--; d.opening[network] == 0 {
		delete(d.opening, network)
	}
}

// admit returns who has a secret, and its token as the store has it, empty for
// the gateway's own.
func (d *doorkeeper) admit(ctx context.Context, secret, addr string) (who access.Identity, t access.Token, refused *openclaw.Error) {
	if secret == "" {
		return who, t, openclaw.TokenMissing()
	}
	digest := sha256.Sum256([]byte(secret))
	d.mu.Lock()
	_, known := d.known[digest]
	d.mu.Unlock()
	if wait := d.backoff.Wait(addr); wait > 0 && !known {
		return who, t, openclaw.RateLimited(wait)
	}
	who, t, err := d.identify(ctx, secret)
	switch {
	case err == nil:
		d.mu.Lock()
		if len(d.known) >= maxKnown {
			clear(d.known)
		}
		d.known[digest] = struct{}{}
		d.mu.Unlock()
		return who, t, nil
	case !refusal(err):
		return who, t, openclaw.Unavailable("database", "the token cannot be checked just now: the database is away; retry shortly")
	}
	d.mu.Lock()
	delete(d.known, digest)
	d.mu.Unlock()
	d.backoff.Failed(addr)
	switch {
	case errors.Is(err, access.ErrRevoked), errors.Is(err, access.ErrExpired):
		return who, t, openclaw.TokenMismatch(err.Error())
	}
	return who, t, openclaw.TokenMismatch("it is neither the gateway's nor one that `starter token` made")
}

// identify returns who has a secret, and its token as admit does; an error
// that is a refusal says that nobody has.
func (d *doorkeeper) identify(ctx context.Context, secret string) (access.Identity, access.Token, error) {
	if access.Same(d.token, secret) {
		return access.Identity{Name: OperatorName, Role: access.RoleOperator}, access.Token{}, nil
	}
	hash, err := access.Hash(secret)
	if err != nil {
		return access.Identity{}, access.Token{}, err
	}
	t, err := d.store.TokenByHash(ctx, hash)
	if errors.Is(err, record.ErrNotFound) {
		err = access.ErrUnknown
	}
	if err == nil {
		err = access.Verify(secret, t, time.Now())
	}
	if err != nil {
		return access.Identity{}, access.Token{}, err
	}
	return t.Identity(), t, nil
}

// refusal reports whether an error is about the token, and not about
// checking it.
func refusal(err error) bool {
	return errors.Is(err, access.ErrUnknown) || errors.Is(err, access.ErrRevoked) || errors.Is(err, access.ErrExpired)
}

// stillGood reports whether a token that let somebody in would do so now. If
// that cannot be found out, it would; what is known without the store, that its
// time is over, is for Conn.expired to tell.
func (d *doorkeeper) stillGood(ctx context.Context, hash []byte) bool {
	if hash == nil {
		return true
	}
	t, err := d.store.TokenByHash(ctx, hash)
	if err != nil {
		return !errors.Is(err, record.ErrNotFound)
	}
	return t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || time.Now().Before(t.ExpiresAt))
}
