package pipe

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sgclaw/internal/agent"
)

// vectors is docs/schema/vectors.json.
type vectors struct {
	Keys     []keyVector     `json:"keys"`
	Commands []commandVector `json:"commands"`
	Digests  []digestVector  `json:"digests"`
}

type keyVector struct {
	Seed string `json:"hmac_seed"`
	Key  string `json:"key"`
}

type commandVector struct {
	Name      string `json:"name"`
	Seed      string `json:"hmac_seed"`
	Line      string `json:"line"` // as sent
	Canonical string `json:"canonical"`
	HMAC      string `json:"hmac"`
}

type digestVector struct {
	Action  string `json:"action"`
	Params  string `json:"params"` // canonical
	PageID  string `json:"page_id"`
	Domain  string `json:"domain"`
	Role    string `json:"role"`
	Name    string `json:"name"`
	Context string `json:"context"`
	Digest  string `json:"digest"`
}

// given is what the vectors are made of: everything but the results.
func given() vectors {
	const seed2 = "A1b2C3d4E5f60718293a4b5c6d7e8f90A1b2C3d4E5f60718293a4b5c6d7e8f90"
	return vectors{
		Keys: []keyVector{{Seed: goodSeed}, {Seed: seed2}, {Seed: "ffffffffffffffffffffffffffffffffffff"}},
		Commands: []commandVector{
			{Name: "plain", Seed: goodSeed, Line: `{"seq":1,"type":"command","action":"navigate","params":{"url":"https://oa.example.com/approval/pending"},"security":{"expected_domain":"oa.example.com","hmac":"%s"}}`},
			{Name: "order, white space and escapes do not count", Seed: goodSeed, Line: `{ "type":"command", "security":{"hmac":"%s","expected_domain":"oa.example.com"}, "seq":1, "params":{"url":"https:\/\/oa.example.com\/approval\/pending"}, "action":"navi\u0067ate" }`},
			{Name: "Chinese, a surrogate pair and control characters", Seed: seed2, Line: `{"seq":2,"type":"command","action":"type","params":{"selector":"[ref=e12]","text":"同意 \ud83d\ude00\t\"\\\u0001\u007f<b>&\u2028","clear_first":true},"security":{"expected_domain":"xn--55qx2a.xn--fiqs8s","hmac":"%s"}}`},
			{Name: "numbers and nesting (no such parameters; only the form counts)", Seed: goodSeed, Line: `{"seq":3,"type":"command","action":"scrollTo","params":{"z":[1e21,1E20,0.1,-0,-0.0,1.10,1e-7,0.000001,333333333.33333329,9007199254740991,4.50,2e-3],"a":{"é":null,"e":false,"\u20ac":[],"\ud83d\ude00":{},"\ufb33":"1"}},"security":{"expected_domain":"oa.example.com","hmac":"%s"}}`},
			{Name: "a member this version does not know is signed too", Seed: goodSeed, Line: `{"seq":4,"type":"command","action":"getText","params":{"selector":"body"},"page_id":"z1","snapshot_after":true,"future":{"b":1,"a":2},"security":{"expected_domain":"oa.example.com","future":true,"hmac":"%s"}}`},
			{Name: "with a grant", Seed: seed2, Line: `{"seq":5,"type":"command","action":"click","params":{"selector":"[ref=e7]","wait_after":0},"security":{"expected_domain":"oa.example.com","grant":{"id":"0198c0de-0000-7000-8000-000000000001","by":"张三","at":"2026-03-03T10:23:01.5Z","digest":"%s"},"hmac":"%s"}}`},
		},
		Digests: []digestVector{
			{Action: "sessionLogin", Params: `{"domain":"oa.example.com"}`, Domain: "oa.example.com"},
			{Action: "click", Params: `{"selector":"[ref=e7]","wait_after":0}`, Domain: "oa.example.com", Role: "button", Name: "批准", Context: "李四 年假 2 天"},
			{Action: "type", Params: `{"clear_first":true,"selector":"#a","text":"1:2,3"}`, PageID: "z1", Domain: "oa.example.com", Role: "textbox", Name: "意见"},
		},
	}
}

// compute fills in the results.
func compute(t *testing.T, v vectors) vectors {
	t.Helper()
	for i := range v.Keys {
		k := keyOf(t, v.Keys[i].Seed)
		v.Keys[i].Key = hex.EncodeToString(k[:])
	}
	for i := range v.Digests {
		d := &v.Digests[i]
		d.Digest = agent.Digest(d.Action, []byte(d.Params), d.PageID, agent.Subject{Domain: d.Domain, Role: d.Role, Name: d.Name, Context: d.Context})
	}
	for i := range v.Commands {
		c := &v.Commands[i]
		fill := []any{}
		if c.Name == "with a grant" {
			fill = append(fill, v.Digests[1].Digest)
		}
		canonical, _, err := Canonical(fmt.Appendf(nil, c.Line, append(fill, "")...))
		if err != nil {
			t.Fatal(err)
		}
		c.Canonical = string(canonical)
		c.HMAC = mac(canonical, keyOf(t, c.Seed))
		c.Line = fmt.Sprintf(c.Line, append(fill, c.HMAC)...)
	}
	return v
}

func keyOf(t testing.TB, seed string) Key {
	t.Helper()
	b, err := ParseSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	k, err := DeriveKey(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestVectors(t *testing.T) {
	path := filepath.Join(schemaDir, "vectors.json")
	want := compute(t, given())
	if *update {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(want); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got vectors
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("vectors.json (-computed +published):\n%s", d)
	}
	for _, c := range got.Commands {
		if bad := Verify([]byte(c.Line), keyOf(t, c.Seed)); bad != nil {
			t.Errorf("%s: %v", c.Name, bad)
		}
		if _, bad := Decode([]byte(c.Line)); bad != nil {
			t.Errorf("%s: %v", c.Name, bad)
		}
	}
}

func TestSignVerify(t *testing.T) {
	key := keyOf(t, goodSeed)
	c := &Command{
		Seq: 1, Action: "type", Params: json.RawMessage(`{"selector":"#a","text":"<同意> & \u2028"}`), PageID: "z1",
		Security: Security{ExpectedDomain: "oa.example.com", Grant: &agent.Grant{ID: "c", By: "张三", At: time.Unix(1, 5).UTC(), Digest: "d"}},
	}
	if err := Sign(c, key); err != nil {
		t.Fatal(err)
	}
	line, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if bad := Verify(line, key); bad != nil {
		t.Errorf("%s: %v", line, bad)
	}
	if bad := Verify(line, keyOf(t, "ff"+goodSeed[2:])); bad == nil || bad.Code != CodeHMACInvalid {
		t.Errorf("another key: %v", bad)
	}
	for _, change := range [][2]string{
		{`"seq":1`, `"seq":2`}, {"z1", "z2"}, {"同意", "不同意"}, {"oa.example", "ob.example"}, {"张三", "李四"},
		{`"action":"type"`, `"action":"type","more":1`}, {`"hmac":"`, `"hmac":"0`}, {`"hmac":`, `"other":`},
		{`"security":{`, `"security":5,"x":{`}, {`"seq":1`, `"seq":1,"seq":1`}, {c.Security.HMAC, ""},
	} {
		changed := bytes.Replace(line, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, line) {
			t.Fatalf("%q does not occur", change[0])
		}
		if bad := Verify(changed, key); bad == nil || bad.Code != CodeHMACInvalid {
			t.Errorf("%s: %v", changed, bad)
		}
	}
	if s := fmt.Sprintf("%v %s %#v %+v", key, key, key, Handshake{Key: key}.Key); s != "pipe.Key pipe.Key pipe.Key pipe.Key" {
		t.Errorf("the key prints: %s", s)
	}
}

func TestSeqGuard(t *testing.T) {
	var g SeqGuard
	for _, step := range []struct {
		seq  uint64
		want Code
	}{
		{2, CodeSeqOutOfOrder}, {0, CodeSeqDuplicate}, {1, ""}, {1, CodeSeqDuplicate}, {3, CodeSeqOutOfOrder}, {2, ""}, {1, CodeSeqDuplicate}, {3, ""},
	} {
		var got Code
		if bad := g.Accept(step.seq); bad != nil {
			got = bad.Code
		}
		if got != step.want {
			t.Errorf("seq %d after %d: %q, want %q", step.seq, g.Last(), got, step.want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	key := keyOf(f, goodSeed)
	c := &Command{Seq: 1, Action: "click", Params: json.RawMessage(`{"selector":"#a"}`)}
	if err := Sign(c, key); err != nil {
		f.Fatal(err)
	}
	good, err := Encode(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"security":null}`))
	f.Add([]byte(`{"security":{"hmac":5}}`))
	want, _, err := Canonical(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if Verify(line, key) != nil {
			return
		}
		got, _, err := Canonical(line)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("forged: %s", line)
		}
	})
}

func BenchmarkSignVerify(b *testing.B) {
	key := keyOf(b, goodSeed)
	for b.Loop() {
		c := &Command{Seq: 7, Action: "click", Params: json.RawMessage(`{"selector":"[ref=e12]"}`), Security: Security{ExpectedDomain: "oa.example.com"}}
		if err := Sign(c, key); err != nil {
			b.Fatal(err)
		}
		line, err := Encode(c)
		if err != nil {
			b.Fatal(err)
		}
		if bad := Verify(line, key); bad != nil {
			b.Fatal(bad)
		}
	}
}
