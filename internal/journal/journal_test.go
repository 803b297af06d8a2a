package journal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"sgclaw/internal/agent"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openIn(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), quiet(), dir, "b1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func effect(run string, step int) agent.Effect {
	return agent.Effect{RunID: run, Step: step, CallID: "c", Action: "click"}
}

func newRef() string { return rand.Text()[:13] }

func begin(t testing.TB, j *Journal, e agent.Effect) (prior *agent.Result, fresh bool) {
	t.Helper()
	prior, fresh, err := j.Begin(e)
	if err != nil {
		t.Fatal(err)
	}
	return prior, fresh
}

func TestLifeOfAnEffect(t *testing.T) {
	dir := t.TempDir()
	j := openIn(t, dir)
	e := effect("run", 1)
	if _, found, err := j.Prior(e); found || err != nil {
		t.Fatalf("absent effect: found %v, err %v", found, err)
	}
	if prior, fresh := begin(t, j, e); !fresh || prior != nil {
		t.Fatalf("first Begin: fresh %v, prior %v", fresh, prior)
	}
	if prior, fresh := begin(t, j, e); fresh || prior != nil {
		t.Fatalf("second Begin: fresh %v, prior %v", fresh, prior)
	}
	ref := newRef()
	want := agent.Result{Outcome: agent.OutcomeDone, Text: "done: click", Ref: ref, Page: agent.Page{Domain: "oa.example.com"}}
	body := agent.Body{Text: "全文", Page: agent.Page{URL: "http://oa.example.com/"}, Image: []byte{0xff, 0xd8, 0}, MIME: "image/jpeg"}
	if err := j.Done(e, want, map[string]agent.Body{ref: body}); err != nil {
		t.Fatal(err)
	}
	// A second response to the same effect changes nothing.
	if err := j.Done(e, agent.Result{Outcome: agent.OutcomeFailed}, nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j = openIn(t, dir)
	prior, fresh := begin(t, j, e)
	if fresh || prior == nil {
		t.Fatalf("Begin after reopening: fresh %v, prior %v", fresh, prior)
	}
	if diff := cmp.Diff(want, *prior); diff != "" {
		t.Errorf("recorded result (-want +got):\n%s", diff)
	}
	got, err := j.Body(ref)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(body, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if _, err := j.Body(newRef()); !errors.Is(err, ErrNotFound) {
		t.Errorf("body of an unknown ref: %v", err)
	}
}

func TestVoidMakesAbsent(t *testing.T) {
	j := openIn(t, t.TempDir())
	e := effect("run", 1)
	begin(t, j, e)
	if err := j.Void(e); err != nil {
		t.Fatal(err)
	}
	if _, fresh := begin(t, j, e); !fresh {
		t.Error("voided effect is not fresh")
	}
}

func TestOneOfManyBeginsIsFresh(t *testing.T) {
	j := openIn(t, t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range 8 {
		wg.Go(func() {
			_, fresh, err := j.Begin(effect("run", 1))
			if err != nil {
				t.Error(err)
			}
			if fresh {
				mu.Lock()
				count++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if count != 1 {
		t.Errorf("%d callers may send the effect", count)
	}
}

func TestGrants(t *testing.T) {
	j := openIn(t, t.TempDir())
	ask := effect("run", 3)
	begin(t, j, ask)
	if err := j.Done(ask, agent.Result{Outcome: agent.OutcomeNeedConfirm, Digest: "d1"}, nil); err != nil {
		t.Fatal(err)
	}
	granted := ask
	granted.GrantID = "g1"
	for _, c := range []struct {
		name   string
		e      agent.Effect
		digest string
		want   bool
	}{
		{"the call that asked", granted, "d1", true},
		{"another digest", granted, "d2", false},
		{"another step", agent.Effect{RunID: "run", Step: 4, CallID: "c", GrantID: "g1"}, "d1", false},
		{"another call", agent.Effect{RunID: "run", Step: 3, CallID: "cc", GrantID: "g1"}, "d1", false},
	} {
		if got, err := j.Asked(c.e, c.digest); err != nil || got != c.want {
			t.Errorf("%s: asked %v, err %v, want %v", c.name, got, err, c.want)
		}
	}
	if _, fresh := begin(t, j, granted); !fresh {
		t.Error("the granted effect is not another effect")
	}
	if spent, err := j.Spent(granted); spent || err != nil {
		t.Errorf("grant spent by its own effect: %v, %v", spent, err)
	}
	other := effect("run", 9)
	other.GrantID = "g1"
	if spent, err := j.Spent(other); !spent || err != nil {
		t.Errorf("grant not spent for another effect: %v, %v", spent, err)
	}
}

func TestEffectsOfARun(t *testing.T) {
	j := openIn(t, t.TempDir())
	for _, e := range []agent.Effect{effect("run", 1), effect("run-2", 1), effect("run", 2)} {
		begin(t, j, e)
	}
	got, err := j.Effects("run")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range got {
		keys = append(keys, e.Key)
	}
	if diff := cmp.Diff([]string{"run/1/c/", "run/2/c/"}, keys); diff != "" {
		t.Errorf("effects of the run (-want +got):\n%s", diff)
	}
}

func TestSecondProcessIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	openIn(t, dir)
	began := time.Now()
	_, err := Open(t.Context(), quiet(), dir, "b1")
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("second Open: %v", err)
	}
	if took := time.Since(began); took < LockWait/2 {
		t.Errorf("gave up after %v", took)
	}
	if j, err := Open(t.Context(), quiet(), dir, "b2"); err != nil {
		t.Errorf("journal of another browser: %v", err)
	} else {
		_ = j.Close()
	}
}

func TestOpenWaitsForTheFormerProcess(t *testing.T) {
	dir := t.TempDir()
	former := openIn(t, dir)
	timer := time.AfterFunc(300*time.Millisecond, func() { _ = former.Close() })
	defer timer.Stop()
	openIn(t, dir)
}

func TestOutbox(t *testing.T) {
	dir := t.TempDir()
	j := openIn(t, dir)
	for _, body := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
		if err := j.Post("submit_task", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-j.Posted():
	default:
		t.Error("the reader is not told")
	}
	letters, err := j.Letters(2)
	if err != nil || len(letters) != 2 || string(letters[0].Body) != `{"n":1}` {
		t.Fatalf("letters %v, err %v", letters, err)
	}
	if err := j.Delivered(letters[0].Seq); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	j = openIn(t, dir)
	letters, err = j.Letters(10)
	if err != nil || len(letters) != 2 || string(letters[0].Body) != `{"n":2}` || letters[0].Type != "submit_task" {
		t.Fatalf("letters after reopening %v, err %v", letters, err)
	}
}

func TestPrune(t *testing.T) {
	j := openIn(t, t.TempDir())
	old := time.Now().Add(-EntryAge - time.Hour)
	at := func(when time.Time, f func()) {
		j.now = func() time.Time { return when }
		f()
		j.now = time.Now
	}
	spent := effect("old", 1)
	spent.GrantID = "g"
	inFlight := effect("in flight", 1)
	at(old, func() {
		begin(t, j, spent)
		begin(t, j, inFlight)
		if err := errors.Join(j.Done(spent, agent.Result{Outcome: agent.OutcomeDone}, nil), j.Ask("q-old", "old"), j.Cool("slow.example.com", old)); err != nil {
			t.Fatal(err)
		}
	})
	almost := effect("almost", 1)
	at(time.Now().Add(-EntryAge+time.Hour), func() { begin(t, j, almost) })
	oldRef, newBody := newRef(), newRef()
	at(time.Now().Add(-BodyAge-time.Hour), func() {
		if err := j.Keep(map[string]agent.Body{oldRef: {Text: "x"}}); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(j.Ask("q-new", "new"), j.Keep(map[string]agent.Body{newBody: {Text: "y"}})); err != nil {
		t.Fatal(err)
	}
	if err := j.Post("submit_task", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := j.Prune(); err != nil {
		t.Fatal(err)
	}
	if _, found, _ := j.Prior(spent); found {
		t.Error("old effect is still there")
	}
	if s, _ := j.Spent(effectWith(spent, "other")); s {
		t.Error("grant of an old effect is still there")
	}
	for _, e := range []agent.Effect{almost, inFlight} {
		if _, found, _ := j.Prior(e); !found {
			t.Errorf("effect %s, of which nobody knows the outcome, was pruned", e.RunID)
		}
	}
	if _, err := j.Asker("q-old"); !errors.Is(err, ErrNotFound) {
		t.Errorf("old question: %v", err)
	}
	if run, err := j.Asker("q-new"); run != "new" || err != nil {
		t.Errorf("new question: %q, %v", run, err)
	}
	if _, err := j.Body(oldRef); !errors.Is(err, ErrNotFound) {
		t.Errorf("old body: %v", err)
	}
	if _, err := j.Body(newBody); err != nil {
		t.Errorf("new body: %v", err)
	}
	if l, err := j.Letters(1); len(l) != 1 || err != nil {
		t.Errorf("outbox: %v, %v", l, err)
	}
}

func effectWith(e agent.Effect, call string) agent.Effect {
	e.CallID = call
	return e
}

func TestCooldowns(t *testing.T) {
	j := openIn(t, t.TempDir())
	until := time.Now().Add(time.Minute).Truncate(time.Millisecond).UTC()
	if err := errors.Join(j.Cool("a", until), j.Cool("b", time.Now().Add(-time.Second))); err != nil {
		t.Fatal(err)
	}
	got, err := j.Cooling()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Time{"a": until}, got); diff != "" {
		t.Errorf("cooldowns (-want +got):\n%s", diff)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	j := openIn(t, t.TempDir())
	long, wide := newRef(), newRef()
	if err := j.Keep(map[string]agent.Body{
		long: {Text: strings.Repeat("长", MaxText)},
		wide: {Text: "picture", Image: bytes.Repeat([]byte{1}, MaxImage+1), MIME: "image/png"},
	}); err != nil {
		t.Fatal(err)
	}
	body, err := j.Body(long)
	if err != nil || len(body.Text) > MaxText || !utf8.ValidString(body.Text) || !strings.HasSuffix(body.Text, cutMark) {
		t.Errorf("long text: %d bytes, valid %v, err %v", len(body.Text), utf8.ValidString(body.Text), err)
	}
	body, err = j.Body(wide)
	if err != nil || body.Image != nil || !strings.Contains(body.Text, "too large") {
		t.Errorf("large picture: %d bytes, text %q, err %v", len(body.Image), body.Text, err)
	}
	if err := j.Keep(map[string]agent.Body{"": {}}); err == nil {
		t.Error("an empty ref was taken")
	}
}

func TestBodiesTogetherAreBounded(t *testing.T) {
	j := openIn(t, t.TempDir())
	const size = 1000
	j.room = 10 * (size + 100)
	refs := make([]string, 15)
	begin := time.Now().Add(-time.Hour)
	for i := range refs {
		refs[i] = newRef()
		j.now = func() time.Time { return begin.Add(time.Duration(i) * time.Second) }
		if err := j.Keep(map[string]agent.Body{refs[i]: {Image: bytes.Repeat([]byte{1}, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	j.now = time.Now
	if err := j.Prune(); err != nil {
		t.Fatal(err)
	}
	for i, ref := range refs {
		_, err := j.Body(ref)
		if old := i < 5; errors.Is(err, ErrNotFound) != old && i != 4 {
			t.Errorf("body %d: %v", i, err)
		}
	}
}

func TestDamagedFileIsMovedAside(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"overwritten": func(t *testing.T, path string) {
			write(t, path, bytes.Repeat([]byte("garbage "), 8192))
		},
		"truncated": func(t *testing.T, path string) {
			if err := os.Truncate(path, int64(3*os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		},
		"cut to almost nothing": func(t *testing.T, path string) {
			if err := os.Truncate(path, 100); err != nil {
				t.Fatal(err)
			}
		},
		"pages zeroed": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clear(data[2*os.Getpagesize():])
			write(t, path, data)
		},
		"entry unreadable": func(t *testing.T, path string) {
			db, err := bolt.Open(path, 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if err := db.Update(func(tx *bolt.Tx) error {
				return tx.Bucket(bucketEffects).Put([]byte("run/1/c/"), []byte("{"))
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := openIn(t, dir)
			for step := range 200 {
				begin(t, j, effect("run", step))
			}
			_ = j.Close()
			spoil(t, Path(dir, "b1"))

			var logged bytes.Buffer
			j, err := Open(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), dir, "b1")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = j.Close() }()
			if aside, _ := filepath.Glob(Path(dir, "b1") + ".damaged-*"); len(aside) != 1 {
				t.Errorf("moved aside: %v", aside)
			}
			if !strings.Contains(logged.String(), "journal is damaged") {
				t.Errorf("logged %q", logged.String())
			}
			// Nobody can tell whether this was begun, so it is not sent.
			again := effect("run", 7)
			if prior, fresh := begin(t, j, again); fresh || prior != nil {
				t.Errorf("first effect after the loss: fresh %v, prior %v", fresh, prior)
			}
			if _, fresh := begin(t, j, again); fresh {
				t.Error("first effect after the loss, tried again: fresh")
			}
			// From here on the run's effects are known to be new.
			if _, fresh := begin(t, j, effect("run", 8)); !fresh {
				t.Error("next effect of the run: not fresh")
			}
			// A run that first only looks is met by that.
			if err := j.Meet("reader"); err != nil {
				t.Fatal(err)
			}
			if _, fresh := begin(t, j, effect("reader", 2)); !fresh {
				t.Error("effect of a run that was met: not fresh")
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBrowserIDIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], err = BrowserID(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("ids differ: %v", ids)
		}
	}
	write(t, filepath.Join(dir, "browser_id"), []byte("nonsense"))
	if _, err := BrowserID(dir); err == nil {
		t.Error("nonsense was taken for an id")
	}
}

func TestPathsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a", "A", "a.b", "a:b", "../../etc/passwd", "con", strings.Repeat("x", 128)} {
		p := Path("dir", id)
		if filepath.Dir(p) != "dir" {
			t.Errorf("%q leaves the folder: %s", id, p)
		}
		key := strings.ToLower(p)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q share %s", id, other, p)
		}
		seen[key] = id
	}
}
