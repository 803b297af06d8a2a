package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
	Deps       []string
}

// packages lists the project's packages.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Doc,Imports,Deps", "sgclaw/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, "sgclaw/")] = p
	}
}

// ours are the project's packages among the imports, without the module's
// name.
func ours(imports []string) []string {
	var out []string
	for _, i := range imports {
		if rest, ok := strings.CutPrefix(i, "sgclaw/"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for path, p := range packages(t) {
		// What sqlc generates has none.
		if p.Doc == "" && path != "internal/store/sqldb" {
			t.Errorf("%s has no package comment", path)
		}
	}
}

// mayImport lists, for packages whose place in the shape matters, all that
// they may import of ours.
var mayImport = map[string][]string{
	"workflows":         {"activities", "internal/agent", "internal/pipe"},
	"activities":        {"internal/action", "internal/agent", "internal/browser", "internal/critic", "internal/history", "internal/journal", "internal/llm", "internal/locale", "internal/pipe", "internal/policy", "internal/prompt", "internal/record", "internal/tokens"},
	"internal/agent":    {},
	"internal/action":   {},
	"internal/child":    {},
	"internal/config":   {"internal/agent", "internal/routing", "internal/spell"},
	"internal/routing":  {},
	"internal/critic":   {"internal/agent"},
	"internal/history":  {"internal/action", "internal/agent", "internal/locale", "internal/prompt", "internal/record"},
	"internal/tokens":   {},
	"internal/llm":      {"internal/agent"},
	"internal/locale":   {"internal/agent"},
	"internal/pipe":     {"internal/action", "internal/agent"},
	"internal/policy":   {"internal/action", "internal/agent", "internal/spell"},
	"internal/prompt":   {"internal/action", "internal/agent", "internal/llm", "internal/locale", "internal/record"},
	"internal/record":   {"internal/agent", "internal/critic"},
	"internal/cdp":      {},
	"internal/chrome":   {"internal/cdp", "internal/child"},
	"internal/page":     {"internal/action", "internal/agent", "internal/cdp", "internal/pipe"},
	"internal/openclaw": {},
	"internal/browser":  {"internal/action", "internal/agent", "internal/pipe"},
	"internal/journal":  {"internal/agent", "internal/pipe"},
	"internal/host":     {"internal/action", "internal/agent", "internal/child", "internal/page", "internal/pipe", "internal/policy"},
	"internal/store":    {"internal/access", "internal/agent", "internal/critic", "internal/record", "internal/store/sqldb", "migrations"},
	"internal/feed":     {"internal/agent", "internal/store"},
	"internal/access":   {},
	"internal/backend":  {"internal/config", "internal/durable", "internal/store", "internal/telemetry"},
	"internal/gateway":  {"internal/access", "internal/action", "internal/agent", "internal/durable", "internal/feed", "internal/locale", "internal/openclaw", "internal/record", "internal/routing", "internal/store", "internal/telemetry", "internal/transcript", "workflows"},
}

func TestImports(t *testing.T) {
	all := packages(t)
	for path, allowed := range mayImport {
		p, ok := all[path]
		if !ok {
			t.Errorf("%s is named here and does not exist", path)
			continue
		}
		for _, i := range ours(p.Imports) {
			if !slices.Contains(allowed, i) {
				t.Errorf("%s must not import %s", path, i)
			}
		}
	}
	for path, p := range all {
		for _, i := range ours(p.Imports) {
			if q := all[i]; q.Name == "main" {
				t.Errorf("%s imports the binary %s", path, i)
			}
		}
	}
}

// TestWorkflowsReachNoOutside: what workflow code is built from opens no
// database, browser or model service.
func TestWorkflowsReachNoOutside(t *testing.T) {
	p := packages(t)["workflows"]
	for _, d := range p.Deps {
		switch d {
		case "database/sql", "sgclaw/internal/store", "sgclaw/internal/cdp", "sgclaw/internal/chrome", "sgclaw/internal/llm/openai", "sgclaw/internal/config":
			t.Errorf("workflows reach %s", d)
		}
	}
}

// TestGatewayHasNoModelAndNoBrowser: it faces the network and has neither the
// model's key nor a page in reach.
func TestGatewayHasNoModelAndNoBrowser(t *testing.T) {
	for _, d := range packages(t)["gateway"].Deps {
		switch d {
		case "sgclaw/internal/llm/openai", "sgclaw/internal/cdp", "sgclaw/internal/chrome", "sgclaw/internal/host":
			t.Errorf("gateway is built with %s", d)
		}
	}
}

// TestUserSideNeedsNoDatabase: pipehost and browserhost run on people's
// machines and reach Temporal only.
func TestUserSideNeedsNoDatabase(t *testing.T) {
	all := packages(t)
	for _, bin := range []string{"pipehost", "browserhost"} {
		for _, d := range all[bin].Deps {
			if d == "github.com/lib/pq" || d == "sgclaw/internal/store" || d == "sgclaw/internal/llm/openai" {
				t.Errorf("%s is built with %s", bin, d)
			}
		}
	}
}
