package store

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sgclaw/internal/access"
	"sgclaw/internal/record"
)

func TestTokensAreKept(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var want []access.Token
	for i, name := range []string{"张三的面板", "ci"} {
		_, token, err := access.New(name, access.RoleApprover, time.Duration(i)*time.Hour)
		must(err)
		token.CreatedBy, token.CreatedAt = "root", token.CreatedAt.Truncate(time.Microsecond)
		token.ExpiresAt = token.ExpiresAt.Truncate(time.Microsecond)
		must(s.InsertToken(ctx, token))
		want = append(want, token)
	}
	got, err := s.Tokens(ctx)
	must(err)
	equal(t, "tokens", got, want)
	one, err := s.TokenByHash(ctx, want[1].Hash)
	must(err)
	equal(t, "token", one, want[1])
	if _, err := s.TokenByHash(ctx, []byte("none")); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("unknown hash: %v", err)
	}
	if err := s.InsertToken(ctx, want[0]); err == nil {
		t.Error("a token is kept twice")
	}

	for range 2 {
		must(s.TouchToken(ctx, want[0].ID))
	}
	must(s.RevokeToken(ctx, want[0].ID, "李四"))
	must(s.RevokeToken(ctx, want[0].ID, "somebody later"))
	if err := s.RevokeToken(ctx, "none", "li"); !errors.Is(err, record.ErrNotFound) {
		t.Errorf("revoke none: %v", err)
	}
	one, err = s.TokenByHash(ctx, want[0].Hash)
	must(err)
	if one.RevokedAt.IsZero() || one.RevokedBy != "李四" || one.UsedAt.IsZero() {
		t.Errorf("token is %+v", one)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	lines := []AuditEntry{
		{Who: "李四", Role: access.RoleApprover, Via: ViaGateway, Verb: "confirm", Session: "a", RunID: "r1", Detail: json.RawMessage(`{"approved":true}`)},
		{Who: "root", Via: ViaStarter, Verb: "token.create", Detail: json.RawMessage(`{"b":1,"a":2}`)},
		{Who: "李四", Via: ViaStarter, Verb: "abort", RunID: "r2"},
	}
	for _, l := range lines {
		if err := s.Audit(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Audit(ctx, AuditEntry{Who: "x", Via: "x", Verb: "x", Detail: json.RawMessage(`{`)}); !errors.Is(err, ErrInvalid) {
		t.Errorf("broken detail: %v", err)
	}
	lines[2].Detail = json.RawMessage("{}")
	list := func(f AuditFilter) []AuditEntry {
		t.Helper()
		got, err := s.AuditLog(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := list(AuditFilter{})
	if all[0].ID == 0 || all[0].At.IsZero() {
		t.Errorf("line is %+v", all[0])
	}
	for _, c := range []struct {
		f    AuditFilter
		want []AuditEntry
	}{
		{AuditFilter{}, []AuditEntry{lines[2], lines[1], lines[0]}},
		{AuditFilter{RunID: "r1"}, lines[:1]},
		{AuditFilter{Session: "a"}, lines[:1]},
		{AuditFilter{Who: "李四", Limit: 1}, lines[2:]},
		{AuditFilter{Before: all[0].ID, Limit: 1}, lines[1:2]},
		{AuditFilter{RunID: "none"}, nil},
	} {
		if d := cmp.Diff(c.want, list(c.f), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(AuditEntry{}, "ID", "At")); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.f, d)
		}
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := t.Context()
	beat := func(instance string, conns ...string) {
		t.Helper()
		var list []Presence
		for _, c := range conns {
			list = append(list, Presence{Conn: c, Body: json.RawMessage(`{"of":"` + instance + `"}`)})
		}
		if err := s.Beat(ctx, instance, list); err != nil {
			t.Fatal(err)
		}
	}
	present := func() []string {
		t.Helper()
		list, err := s.Presence(ctx, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range list {
			if want := `{"of":"` + p.Instance + `"}`; string(p.Body) != want || p.Since.IsZero() {
				t.Errorf("presence is %+v, want %s", p, want)
			}
			out = append(out, p.Instance+"/"+p.Conn)
		}
		return out
	}
	beat("g1", "", "c1", "c2")
	beat("g2", "", "c1")
	equal(t, "present", present(), []string{"g1/", "g1/c1", "g1/c2", "g2/", "g2/c1"})
	since, err := s.Presence(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	beat("g1", "", "c2", "c3")
	equal(t, "present", present(), []string{"g1/", "g1/c2", "g2/", "g2/c1", "g1/c3"})
	if list, err := s.Presence(ctx, time.Minute); err != nil || list[0].Since != since[0].Since || !list[0].SeenAt.After(since[0].SeenAt) {
		t.Errorf("after a beat: %+v, %v", list, err)
	}
	// A gateway that died is not shown any more, and soon forgotten.
	old := func(age string) {
		t.Helper()
		if _, err := s.db.ExecContext(ctx, "UPDATE presence SET seen_at = now() - $1::interval WHERE instance = 'g2'", age); err != nil {
			t.Fatal(err)
		}
	}
	old("2 minutes")
	equal(t, "present", present(), []string{"g1/", "g1/c2", "g1/c3"})
	old("2 hours")
	beat("g1", "", "c2", "c3")
	var n int
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM presence").Scan(&n); err != nil || n != 3 {
		t.Errorf("%d rows are left, %v", n, err)
	}
	if err := s.Leave(ctx, "g1"); err != nil {
		t.Fatal(err)
	}
	equal(t, "present", present(), []string(nil))
	beat("g1")
	equal(t, "present", present(), []string(nil))
	if err := s.Beat(ctx, "g1", []Presence{{Conn: "c", Body: json.RawMessage("{")}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("broken body: %v", err)
	}
}

// Gateways that beat at once do not hold each other up.
func TestParallelBeats(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var wg sync.WaitGroup
	for _, instance := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			for range 20 {
				if err := s.Beat(t.Context(), instance, []Presence{{Conn: "1"}, {Conn: "2"}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if list, err := s.Presence(t.Context(), time.Minute); err != nil || len(list) != 8 {
		t.Errorf("%d are present, %v", len(list), err)
	}
}
