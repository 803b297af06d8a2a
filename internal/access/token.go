package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Why a token does not let somebody in.
var (
	// ErrUnknown: it is not a token, or none that there is.
	ErrUnknown = errors.New("unknown token")
	// ErrRevoked: it was taken back.
	ErrRevoked = errors.New("the token was revoked")
	// ErrExpired: its time is over.
	ErrExpired = errors.New("the token has expired")
)

// ErrInvalid says that there can be no token like this, and why.
var ErrInvalid = errors.New("invalid token")

// MaxName bounds a token's name, in bytes.
const MaxName = 100

// OperatorName is how records name who acts with the gateway's own token. No
// other token may have this name.
const OperatorName = "operator"

// prefix lets people, and scanners of leaked secrets, tell what a secret is
// for.
const prefix = "sgc_"

const secretBytes = 32

var encoding = base64.RawURLEncoding.Strict()

// Token is what is kept of a token. The secret is not in it.
type Token struct {
	ID   string // of 16 hex digits, no secret
	Name string
	Role Role
	// Hash is the SHA-256 of the secret. The secret is 32 random bytes, which
	// nobody finds by trying, so a hash that is slow to compute, as passwords
	// need, would only slow down each connection.
	Hash      []byte
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time // zero if never
	RevokedAt time.Time // zero if it was not
	RevokedBy string
	UsedAt    time.Time // about when it was last used; zero if never
}

// New makes a token that is good for ttl, or for ever if that is 0. secret is
// what its owner shows; it is nowhere else, and cannot be had again. The
// caller fills CreatedBy.
func New(name string, role Role, ttl time.Duration) (secret string, t Token, err error) {
	switch {
	case strings.TrimSpace(name) == "":
		return "", t, fmt.Errorf("%w: it has no name", ErrInvalid)
	case len(name) > MaxName:
		return "", t, fmt.Errorf("%w: name of %d bytes, at most %d are allowed", ErrInvalid, len(name), MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", t, fmt.Errorf("%w: name with control characters or broken UTF-8", ErrInvalid)
	case strings.EqualFold(strings.TrimSpace(name), OperatorName):
		return "", t, fmt.Errorf("%w: the name %q is that of the gateway's own token in records; choose another", ErrInvalid, OperatorName)
	case !role.Valid():
		return "", t, fmt.Errorf("%w: there is no role %q", ErrInvalid, role)
	case ttl < 0:
		return "", t, fmt.Errorf("%w: it would have expired", ErrInvalid)
	}
	var b [secretBytes]byte
	var id [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", t, fmt.Errorf("random secret: %w", err)
	}
	if _, err := rand.Read(id[:]); err != nil {
		return "", t, fmt.Errorf("random id: %w", err)
	}
	secret = prefix + encoding.EncodeToString(b[:])
	t = Token{ID: fmt.Sprintf("%x", id), Name: name, Role: role, Hash: hash(secret), CreatedAt: time.Now().UTC()}
	if ttl > 0 {
		t.ExpiresAt = t.CreatedAt.Add(ttl)
	}
	return secret, t, nil
}

func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Hash returns by what the store finds a secret's token. What cannot be a
// secret is ErrUnknown.
func Hash(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, prefix)
	if !ok || len(text) != encoding.EncodedLen(secretBytes) {
		return nil, ErrUnknown
	}
	if b, err := encoding.DecodeString(text); err != nil || len(b) != secretBytes {
		return nil, ErrUnknown
	}
	return hash(secret), nil
}

// Verify checks a secret against a token. Whoever does not have the secret
// is told ErrUnknown whatever else is the matter.
func Verify(secret string, t Token, now time.Time) error {
	h, err := Hash(secret)
	switch {
	case err != nil:
		return err
	case subtle.ConstantTimeCompare(h, t.Hash) != 1:
		return ErrUnknown
	case !t.RevokedAt.IsZero():
		return ErrRevoked
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return ErrExpired
	}
	return nil
}

// Same compares two secrets of any form in a time that tells nothing of
// them. An empty one is the same as none.
func Same(a, b string) bool {
	return subtle.ConstantTimeCompare(hash(a), hash(b)) == 1 && a != ""
}

// Identity is who has shown the token's secret.
func (t Token) Identity() Identity {
	return Identity{TokenID: t.ID, Name: t.Name, Role: t.Role}
}
