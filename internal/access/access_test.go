package access

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRolesCoverWhatWeakerOnesMay(t *testing.T) {
	t.Parallel()
	for i, a := range Roles() {
		for j, b := range Roles() {
			if got, want := a.Covers(b), i >= j; got != want {
				t.Errorf("%s covers %s: %v, want %v", a, b, got, want)
			}
		}
		if a.Covers("root") || Role("root").Covers(a) || Role("").Covers(a) {
			t.Errorf("%s and a role that does not exist cover each other", a)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	secret, token, err := New("li's laptop", RoleUser, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if len(secret) != 47 || !strings.HasPrefix(secret, "sgc_") || token.Role != RoleUser || len(token.ID) != 16 {
		t.Errorf("%d characters, %+v", len(secret), token)
	}
	if shown := fmt.Sprintf("%+v", token); strings.Contains(shown, secret[4:]) {
		t.Error("the token has its secret in it")
	}
	other, second, err := New("another", RoleViewer, 0)
	if err != nil || other == secret || second.ID == token.ID || !second.ExpiresAt.IsZero() {
		t.Errorf("second token: %+v, %v", second, err)
	}
	revoked := token
	revoked.RevokedAt = token.CreatedAt
	end := token.ExpiresAt
	for what, c := range map[string]struct {
		secret string
		token  Token
		now    time.Time
		want   error
	}{
		"the secret":                  {secret, token, end.Add(-1), nil},
		"the secret, at its end":      {secret, token, end, ErrExpired},
		"one that does not end":       {other, second, end.AddDate(100, 0, 0), nil},
		"a revoked one":               {secret, revoked, end.Add(time.Hour), ErrRevoked},
		"another's":                   {other, token, end.Add(-1), ErrUnknown},
		"another's, of a revoked one": {other, revoked, end.Add(time.Hour), ErrUnknown},
		"none":                        {"", token, end, ErrUnknown},
		"without its prefix":          {secret[4:], token, end, ErrUnknown},
		"with a space":                {secret + " ", token, end, ErrUnknown},
		"one character short":         {secret[:46], token, end, ErrUnknown},
		"the hash":                    {string(token.Hash), token, end, ErrUnknown},
		"an empty token":              {secret, Token{}, end, ErrUnknown},
	} {
		if err := Verify(c.secret, c.token, c.now); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	h, err := Hash(secret)
	if err != nil || !bytes.Equal(h, token.Hash) {
		t.Errorf("hash: %v", err)
	}
	if got := token.Identity(); got != (Identity{TokenID: token.ID, Name: "li's laptop", Role: RoleUser}) {
		t.Errorf("identity is %+v", got)
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		name string
		role Role
		ttl  time.Duration
	}{
		"no name":                 {"", RoleUser, 0},
		"only spaces":             {"  ", RoleUser, 0},
		"a long name":             {strings.Repeat("x", MaxName+1), RoleUser, 0},
		"a line break":            {"a\nb", RoleUser, 0},
		"broken UTF-8":            {"\xff", RoleUser, 0},
		"the gateway's own":       {"operator", RoleUser, 0},
		"nearly the gateway's":    {" Operator", RoleOperator, 0},
		"a role that is none":     {"li", "admin", 0},
		"no role":                 {"li", "", 0},
		"an end before its start": {"li", RoleUser, -1},
	} {
		if secret, _, err := New(c.name, c.role, c.ttl); !errors.Is(err, ErrInvalid) || secret != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Who chose the name is told what is wrong with it.
func TestNameOfTheGatewaysToken(t *testing.T) {
	t.Parallel()
	_, _, err := New(OperatorName, RoleOperator, 0)
	if want := `invalid token: the name "operator" is that of the gateway's own token in records; choose another`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, _, err := New("operator of the night shift", RoleOperator, 0); err != nil {
		t.Errorf("a name that only begins so: %v", err)
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"x", "x", true}, {"x", "y", false}, {"x", "xx", false}, {"", "", false}, {"", "x", false}} {
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("Same(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	b := NewBackoff(func() time.Time { return now })
	const a = "192.0.2.1:4711"
	fail := func(want time.Duration) {
		t.Helper()
		if got := b.Failed(a); got != want {
			t.Errorf("after a failure: wait %v, want %v", got, want)
		}
		if got := b.Wait(a); got != want {
			t.Errorf("then: wait %v, want %v", got, want)
		}
	}
	for range 4 {
		fail(0)
	}
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		fail(wait * time.Second)
		now = now.Add(wait*time.Second - 1)
		if b.Wait(a) == 0 {
			t.Errorf("the wait of %v s is over too early", wait)
		}
		now = now.Add(1)
		if b.Wait(a) != 0 {
			t.Errorf("the wait of %v s does not end", wait)
		}
	}
	if b.Wait("192.0.2.2:4711") != 0 {
		t.Error("another address waits")
	}
	// A minute without a failure, and all is forgotten.
	now = now.Add(window)
	for range 4 {
		fail(0)
	}
	fail(time.Second)
	now = now.Add(time.Second + window)
	// Failures that are older than a minute do not count.
	for range 20 {
		now = now.Add(15 * time.Second)
		fail(0)
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ addr, want string }{
		{"192.0.2.1:80", "192.0.2.1"},
		{"192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"},
		{"2001:db8:1:2::7", "2001:db8:1:2::/64"},
		{"[fe80::1%eth0]:80", "fe80::/64"},
		{"@", "@"},
		{"", ""},
	} {
		if got := Network(c.addr); got != c.want {
			t.Errorf("Network(%q) = %q, want %q", c.addr, got, c.want)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	b := NewBackoff(func() time.Time { return now })
	for range freeFailures {
		b.Failed("guesser")
	}
	for i := range 2 * maxAddresses {
		b.Failed(fmt.Sprint("address ", i))
		if i%100 == 0 {
			b.Failed("guesser")
		}
	}
	if len(b.byAddr) != maxAddresses || b.order.Len() != maxAddresses {
		t.Errorf("%d addresses are remembered, in a list of %d", len(b.byAddr), b.order.Len())
	}
	if b.Wait("guesser") == 0 {
		t.Error("who goes on guessing was forgotten")
	}
}

func FuzzHash(f *testing.F) {
	secret, _, err := New("x", RoleViewer, 0)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{secret, "", "sgc_", secret[:46] + "\n", secret[:46] + "_", secret + "=", strings.ToUpper(secret), "sgc_" + strings.Repeat("A", 43), "sgc_" + strings.Repeat("\r", 43)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Hash(s)
		if err != nil {
			if !errors.Is(err, ErrUnknown) || h != nil {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		// A secret is written in one way only.
		b, err := encoding.DecodeString(s[len(prefix):])
		if err != nil || len(b) != secretBytes || prefix+encoding.EncodeToString(b) != s {
			t.Errorf("%q is taken: %v", s, err)
		}
		if Verify(s, Token{Hash: h}, time.Time{}) != nil {
			t.Errorf("%q does not verify", s)
		}
	})
}
