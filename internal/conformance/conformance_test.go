package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain is also the stand-in agent and the fakes that are played against.
func TestMain(m *testing.M) {
	if code, ok := AgentProxyMain(); ok {
		os.Exit(code)
	}
	switch os.Getenv("FAKE") {
	case "agent":
		os.Exit(fakeAgent(os.Getenv("FAULT")))
	case "host":
		os.Exit(fakeHost(os.Getenv("FAULT"), os.Args[1:]))
	}
	os.Exit(m.Run())
}

func failed(r Report) []string {
	out := []string{}
	for _, r := range r.Results {
		if r.Status == Fail {
			out = append(out, r.ID)
		}
	}
	return out
}

func TestPlayBrowser(t *testing.T) {
	for _, tt := range []struct {
		fault string
		only  []string // empty: all
		want  []string // ids of the rules that fail
	}{
		{"", nil, []string{}},
		{"fixed-id", []string{"B01", "B02"}, []string{"B02"}},
		{"early-word", []string{"B03"}, []string{"B03"}},
		{"no-limit", []string{"B04", "B05"}, []string{"B04"}},
		{"any-version", []string{"B05", "B06"}, []string{"B05"}},
		{"any-seed", []string{"B05", "B06", "B07", "B08", "B09"}, []string{"B06", "B07", "B08"}},
		{"twice", []string{"B12", "B13", "B14"}, []string{"B13"}},
		{"short-lines", []string{"B15", "B16", "B17"}, []string{"B16"}},
		{"answers-errors", []string{"B22", "B23", "B24"}, []string{"B23"}},
		{"deaf", []string{"B25", "B28", "B29"}, []string{"B25", "B28"}},
		{"unsigned", []string{"B25", "B26"}, []string{"B26"}},
		{"wrong-count", []string{"B26"}, []string{"B26"}},
		{"eof-1", []string{"B29", "B30", "B31", "B32"}, []string{"B30", "B31"}},
		{"no-sigterm", []string{"B29", "B32"}, []string{"B32"}},
		{"last-word", []string{"B29", "B30"}, []string{"B29"}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			r, err := PlayBrowser(t.Context(), Config{
				Command: []string{os.Args[0]}, Env: []string{"FAKE=agent", "FAULT=" + tt.fault}, Only: tt.only, Log: &log,
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, failed(r)); d != "" {
				t.Errorf("failed (-want +got):\n%s\n%s", d, log.String())
			}
			if (r.ExitCode() == 0) != (len(tt.want) == 0) {
				t.Errorf("exit code %d", r.ExitCode())
			}
		})
	}
}

func TestPlayAgent(t *testing.T) {
	for _, tt := range []struct {
		fault string
		only  []string
		want  []string
	}{
		{"", nil, []string{}},
		{"holds", []string{"A35", "A36", "A37"}, []string{}},
		{"fixed-seed", []string{"A01", "A02"}, []string{"A02"}},
		{"any-ack", []string{"A03", "A04", "A06"}, []string{"A03", "A04"}},
		{"no-limit", []string{"A05"}, []string{"A05"}},
		{"signs-what-it-knows", []string{"A07", "A08"}, []string{"A08"}},
		{"no-guard", []string{"A07", "A09", "A10"}, []string{"A09", "A10"}},
		{"follows", []string{"A21", "A23"}, []string{"A23"}},
		{"no-stale", []string{"A30"}, []string{"A30"}},
		{"no-mark", []string{"A26", "A33"}, []string{"A33"}},
		{"any-grant", []string{"A35", "A36", "A37"}, []string{"A36"}},
		{"says-ok", []string{"A42"}, []string{"A42"}},
		{"grant-twice", []string{"A35", "A36", "A37"}, []string{"A37"}},
		{"kills-at-once", []string{"A38", "A39"}, []string{"A39"}},
		{"restarts", []string{"A40"}, []string{"A40"}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			r, err := PlayAgent(t.Context(), Config{
				Command: []string{os.Args[0], "--agent", "{agent}", "--rules", "{rules}"},
				Env:     []string{"FAKE=host", "FAULT=" + tt.fault}, Only: tt.only, Log: &log,
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, failed(r)); d != "" {
				t.Errorf("failed (-want +got):\n%s\n%s", d, log.String())
			}
		})
	}
}

func TestChoose(t *testing.T) {
	if _, err := PlayBrowser(t.Context(), Config{Command: []string{"x"}, Only: []string{"B99"}}); err == nil {
		t.Error("played a rule that does not exist")
	}
	if _, err := PlayBrowser(t.Context(), Config{}); err == nil {
		t.Error("played against nothing")
	}
	r, err := PlayBrowser(t.Context(), Config{Command: []string{"/does/not/exist"}, Only: []string{"init-ack"}})
	if err != nil || r.OK() {
		t.Errorf("a program that does not exist: %v, %+v", err, r)
	}
	for _, rules := range [][]Rule{BrowserRules(), AgentRules()} {
		var ids []string
		for _, r := range rules {
			ids = append(ids, r.ID, r.Name)
		}
		slices.Sort(ids)
		if n := len(slices.Compact(ids)); n != 2*len(rules) {
			t.Errorf("%d names for %d rules", n, len(rules))
		}
	}
}

// TestDoc holds the list of rules in docs/pipe.md against the code.
func TestDoc(t *testing.T) {
	raw, err := os.ReadFile("../../docs/pipe.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(BrowserRules(), AgentRules()) {
		if row := "| " + r.ID + " " + r.Name + " | " + r.Demands + " |\n"; !strings.Contains(string(raw), row) {
			t.Errorf("docs/pipe.md lacks %s", row)
		}
	}
}
