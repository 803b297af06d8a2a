package gateway

import (
	"context"
	"sync/atomic"
	"testing"

	"sgclaw/internal/access"
	"sgclaw/internal/openclaw"
)

// TestWhoIsSentAwayCanDoNoMore: a client whose token was revoked may take long
// to read what is left for it, and say goodbye late or never. What it asks for
// meanwhile is not done.
func TestWhoIsSentAwayCanDoNoMore(t *testing.T) {
	t.Parallel()
	var done atomic.Int32
	g := &Gateway{cfg: Config{MaxInFlight: 1}, table: map[string]Method{"do": {
		Name: "do", Role: access.RoleViewer, Timeout: -1, Handle: func(context.Context, *Gateway, *Call) (any, error) {
			done.Add(1)
			return struct{}{}, nil
		},
	}}}
	c := &Conn{g: g, out: newOutbox(1 << 10), scopes: []string{openclaw.ScopeRead}, holds: access.RoleViewer}
	ask := func() int32 {
		c.request(t.Context(), []byte(`{"type":"req","id":"1","method":"do"}`))
		c.running.Wait()
		return done.Load()
	}
	if n := ask(); n != 1 {
		t.Fatalf("before: done %d times", n)
	}
	c.end(openclaw.ClosePolicy, "the token is no longer good", true)
	if n := ask(); n != 1 {
		t.Errorf("after: done %d times", n)
	}
}

// TestKeyUsedAgainAtOnce: the same key with other words is refused although
// the record of the first message is only being written.
func TestKeyUsedAgainAtOnce(t *testing.T) {
	p := newPlay(t)
	c := p.open().connect(testToken)
	for _, key := range []string{"k-1", "k-2", "k-3"} {
		send := func(text string) object {
			return object{"sessionKey": "agent:main:again", "text": "WORDS say:" + text, "idempotencyKey": key}
		}
		if got := want[sent](c, "sgclaw.send", send("one")); got.Known {
			t.Errorf("%s: %+v", key, got)
		}
		if code := refused(c, "sgclaw.send", send("two")); code != DetailKeyUsed {
			t.Errorf("%s with other words: %s", key, code)
		}
		if got := want[sent](c, "sgclaw.send", send("one")); !got.Known {
			t.Errorf("%s again: %+v", key, got)
		}
	}
}
