package deploytest

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/lib/pq"

	"sgclaw/internal/stack"
)

// toolsEnv names the folder with temporal-server, temporal-sql-tool,
// temporal-ui and temporal. They take minutes to build, so that `make test`
// leaves them and this test out; `make test-cluster` is for it.
const toolsEnv = "SGCLAW_CLUSTER_TOOLS"

// TestCluster brings up what docker-compose.yml describes and runs the main
// job on it.
func TestCluster(t *testing.T) {
	tools, dir := begin(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	image := buildImage(ctx, t)
	c, err := Start(ctx, log, Config{Root: root, Bin: image, Tools: tools, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	settings(ctx, t, c)

	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	desk, err := stack.Start(ctx, log, stack.Config{
		Dir: filepath.Join(dir, "desk"), Bin: bin, Headless: true, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")},
		Temporal: c.Temporal(), Database: c.Database(), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	err = c.StartService(ctx, Worker, map[string]string{
		"SGCLAW_LLM_API_KEY": "scripted", "SGCLAW_LLM_BASE_URL": desk.ModelURL(), "SGCLAW_LLM_MODEL": "scripted", "SGCLAW_LOCALE": "zh",
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := desk.Demo(ctx, stack.Terminal{In: strings.NewReader(""), Out: &out, Err: t.Output(), Lang: "zh"}); err != nil {
		t.Errorf("%v\n%s\nthe worker said:\n%s", err, out.String(), tail(c.Log(Worker)))
	}
	t.Log(out.String())

	if err := c.StartService(ctx, Gateway, nil); err != nil {
		t.Fatal(err)
	}
	metrics(ctx, t, "http://"+c.Address(Gateway, 18789)+"/readyz", "ok")
	metrics(ctx, t, "http://"+c.Address(Worker, 9090)+"/metrics", "sgclaw_runs_total{", "sgclaw_actions_total{", "sgclaw_confirmations_total{", "temporal_")
	metrics(ctx, t, "http://"+c.Address(Temporal, 9091)+"/metrics", "service_requests{", "persistence_requests{")
	if err := c.StartService(ctx, UI, nil); err != nil {
		t.Fatal(err)
	}
	metrics(ctx, t, "http://"+c.Address(UI, 8080)+"/api/v1/namespaces/default/workflows", `"run/`, `"browser/local"`)

	for name, most := range map[string]time.Duration{Worker: 15 * time.Second, Gateway: 5 * time.Second} {
		began := time.Now()
		c.StopService(name)
		if took := time.Since(began); took > most {
			t.Errorf("the %s took %s to stop, want %s at most", name, took, most)
		}
	}
}

// begin returns where the tools are and a folder that PostgreSQL's user can
// reach.
func begin(t *testing.T) (tools, dir string) {
	t.Helper()
	tools = os.Getenv(toolsEnv)
	if tools == "" {
		t.Skip("no " + toolsEnv + ": run `make test-cluster`")
	}
	dir, err := os.MkdirTemp("", "sgclaw-cluster")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return tools, dir
}

// TestClusterTLS brings up the same with TLS, and looks who gets in.
func TestClusterTLS(t *testing.T) {
	tools, dir := begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	certs := filepath.Join(dir, "tls")
	for _, args := range [][]string{{"server", "temporal.example.com"}, {"client", "operator"}, {"client", "worker"}, {"client", "gateway"}, {"client", "desk-1"}} {
		cmd := exec.CommandContext(ctx, "sh", append([]string{filepath.Join(root, "deploy", "certs.sh")}, args...)...)
		cmd.Env = append(os.Environ(), "DIR="+certs, "CA="+filepath.Join(dir, "tls-ca"))
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("certs.sh: %v\n%s", err, b)
		}
	}
	image := buildImage(ctx, t)
	c, err := Start(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)), Config{
		Root: root, Bin: image, Tools: tools, Dir: dir,
		Over: []string{"deploy/docker-compose.tls.yml"}, Mounts: map[string]string{"/etc/sgclaw-tls": certs},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{Worker, Gateway, UI} {
		if err := c.StartService(ctx, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	metrics(ctx, t, "http://"+c.Address(UI, 8080)+"/api/v1/namespaces/default/workflows", "{")
	list := func(more ...string) (int, string) {
		cmd := exec.CommandContext(ctx, filepath.Join(image, "starter"), "list", "--no-db")
		cmd.Env = append([]string{"HOME=" + dir, "SGCLAW_LOCALE=en", "SGCLAW_TEMPORAL_ADDRESS=" + c.Temporal()}, more...)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	ca := "SGCLAW_TEMPORAL_TLS_CA_FILE=" + filepath.Join(certs, "ca.pem")
	cert := "SGCLAW_TEMPORAL_TLS_CERT_FILE=" + filepath.Join(certs, "desk-1", "cert.pem")
	key := "SGCLAW_TEMPORAL_TLS_KEY_FILE=" + filepath.Join(certs, "desk-1", "key.pem")
	name := "SGCLAW_TEMPORAL_TLS_SERVER_NAME=temporal.example.com"
	if code, out := list(ca, cert, key, name); code != 0 {
		t.Errorf("with its certificate a desk gets %d: %s", code, out)
	}
	const unreachable = 6
	for what, env := range map[string][]string{
		"without TLS":           nil,
		"without a certificate": {ca, name},
		"without the authority": {cert, key, name},
		"by another name":       {ca, cert, key, "SGCLAW_TEMPORAL_TLS_SERVER_NAME=elsewhere.example.com"},
	} {
		if code, out := list(env...); code != unreachable {
			t.Errorf("%s a desk gets %d, want %d: %s", what, code, unreachable, out)
		}
	}
}

// buildImage carries out the Dockerfile's build step and returns where its
// programs are.
func buildImage(ctx context.Context, t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	for _, line := range lines(t, "Dockerfile", "RUN ") {
		if !strings.Contains(line, "go build ") {
			continue
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(line, "/out/", out+"/"))
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "VERSION=test")
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("Dockerfile: %s: %v\n%s", line, err, b)
		}
	}
	for _, name := range []string{Worker, Gateway} {
		b, err := exec.CommandContext(ctx, filepath.Join(out, name), "--version").Output()
		if err != nil || strings.TrimSpace(string(b)) != "sgclaw "+name+" test" {
			t.Errorf("the image's %s says %q, %v", name, b, err)
		}
	}
	return out
}

// settings: the database runs here as it does in its container, and its
// health check says that it is well.
func settings(ctx context.Context, t *testing.T, c *Cluster) {
	t.Helper()
	s, err := c.service(ctx, Postgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("postgres", c.Database())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, arg := range s.Command {
		if arg != "-c" {
			continue
		}
		name, want, _ := strings.Cut(s.Command[i+1], "=")
		var got string
		if err := db.QueryRowContext(ctx, "SELECT setting FROM pg_settings WHERE name = $1", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; the file has %s", name, got, err, want)
		}
	}
	var user, database string
	if err := db.QueryRowContext(ctx, "SELECT current_user, current_database()").Scan(&user, &database); err != nil {
		t.Fatal(err)
	}
	if user != *s.Environment["POSTGRES_USER"] || database != *s.Environment["POSTGRES_DB"] {
		t.Errorf("user %s, database %s; the file has %s, %s", user, database, *s.Environment["POSTGRES_USER"], *s.Environment["POSTGRES_DB"])
	}
}

// metrics: a page is there and has these words.
func metrics(ctx context.Context, t *testing.T, at string, words ...string) {
	t.Helper()
	resp, err := Get(ctx, at)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	for _, w := range words {
		if !bytes.Contains(b, []byte(w)) {
			t.Errorf("%s lacks %q", at, w)
		}
	}
}
