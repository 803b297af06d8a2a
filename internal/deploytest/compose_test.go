package deploytest

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"sgclaw/internal/config"
	"sgclaw/internal/devserver"
)

const root = "../.."

// filled is what an operator writes into .env.
var filled = map[string]string{"POSTGRES_PASSWORD": "secret1", "SGCLAW_LLM_API_KEY": "key", "SGCLAW_GATEWAY_TOKEN": Token}

func load(t *testing.T, env map[string]string) *types.Project {
	t.Helper()
	p, err := Load(t.Context(), root, env)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestServices(t *testing.T) {
	p := load(t, filled)
	needs := map[string]string{}
	for name, s := range p.Services {
		var on []string
		for other, d := range s.DependsOn {
			on = append(on, other+" "+d.Condition)
		}
		slices.Sort(on)
		needs[name] = strings.Join(on, ", ")
	}
	want := map[string]string{
		Postgres:  "",
		Schema:    "postgres service_healthy",
		Temporal:  "temporal-schema service_completed_successfully",
		Namespace: "temporal service_healthy",
		UI:        "temporal service_healthy",
		Worker:    "postgres service_healthy, temporal-namespace service_completed_successfully",
		Gateway:   "postgres service_healthy, temporal-namespace service_completed_successfully",
	}
	if d := cmp.Diff(needs, want); d != "" {
		t.Errorf("dependencies (-got +want):\n%s", d)
	}
	for name, s := range p.Services {
		once := name == Schema || name == Namespace
		if want := map[bool]string{true: "no", false: "unless-stopped"}[once]; s.Restart != want {
			t.Errorf("%s: restart %q, want %q", name, s.Restart, want)
		}
		for other, d := range s.DependsOn {
			switch d.Condition {
			case types.ServiceConditionHealthy:
				if p.Services[other].HealthCheck == nil {
					t.Errorf("%s waits for %s to be healthy, which has no health check", name, other)
				}
			case types.ServiceConditionCompletedSuccessfully:
				if p.Services[other].Restart != "no" {
					t.Errorf("%s waits for %s to end, which is restarted", name, other)
				}
			}
		}
	}
	for _, name := range []string{Worker, Gateway} {
		if p.Services[name].HealthCheck == nil {
			t.Errorf("the %s has no health check", name)
		}
	}
	if len(p.Services[Postgres].Volumes) != 1 || p.Services[Postgres].Volumes[0].Type != types.VolumeTypeVolume {
		t.Errorf("the database's files are in no named volume: %+v", p.Services[Postgres].Volumes)
	}
}

// TestOnlyLoopbackIsPublished: a server on the internet must not offer
// Temporal to it because somebody ran `docker compose up`.
func TestOnlyLoopbackIsPublished(t *testing.T) {
	published := func(env map[string]string) map[string][]string {
		out := map[string][]string{}
		for name, s := range load(t, env).Services {
			for _, port := range s.Ports {
				out[name] = append(out[name], fmt.Sprintf("%s:%s>%d", port.HostIP, port.Published, port.Target))
			}
		}
		return out
	}
	want := map[string][]string{
		Temporal: {"127.0.0.1:7233>7233", "127.0.0.1:9091>9091"},
		UI:       {"127.0.0.1:8080>8080"},
		Worker:   {"127.0.0.1:9090>9090"},
		Gateway:  {"127.0.0.1:18789>18789"},
	}
	if d := cmp.Diff(published(filled), want); d != "" {
		t.Errorf("published ports (-got +want):\n%s", d)
	}
	env := maps.Clone(filled)
	env["BIND"] = "10.1.2.3"
	for name, ports := range published(env) {
		for _, p := range ports {
			if !strings.HasPrefix(p, "10.1.2.3:") {
				t.Errorf("%s publishes %s although BIND says otherwise", name, p)
			}
		}
	}
}

func TestRequiredVariables(t *testing.T) {
	for name := range filled {
		env := maps.Clone(filled)
		delete(env, name)
		if _, err := Load(t.Context(), root, env); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v, want an error that names it", name, err)
		}
		env[name] = ""
		if _, err := Load(t.Context(), root, env); err == nil {
			t.Errorf("an empty %s is taken", name)
		}
	}
}

// TestEnvExample: what the file asks for stands in .env.example, and nothing
// stands there that it does not know.
func TestEnvExample(t *testing.T) {
	compose := read(t, "docker-compose.yml")
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)`).FindAllStringSubmatch(compose, -1) {
		used[m[1]] = true
	}
	given := map[string]string{}
	for line := range strings.Lines(read(t, ".env.example")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !used[name] {
			t.Errorf(".env.example has %q, which docker-compose.yml does not read", line)
		}
		given[name] = value
	}
	for name := range filled {
		if value, ok := given[name]; !ok || value != "" {
			t.Errorf(".env.example must have %s, empty", name)
		}
	}
	maps.Copy(given, filled)
	load(t, given)
}

// TestTLS: laid over the other, the file changes variables and mounts only,
// and every certificate it names is one that certs.sh makes.
func TestTLS(t *testing.T) {
	plain := load(t, filled)
	secure, err := Load(t.Context(), root, filled, "deploy/docker-compose.tls.yml")
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{"ca.pem": true}
	for line := range strings.Lines(read(t, "deploy/docker-compose.tls.yml")) {
		if f := strings.Fields(strings.TrimPrefix(line, "#")); strings.HasPrefix(line, "#") && len(f) > 1 && f[0] == "deploy/certs.sh" {
			folder := f[1]
			if folder == "client" {
				folder = f[2]
			}
			made[folder+"/cert.pem"], made[folder+"/key.pem"] = true, true
		}
	}
	documented := read(t, "docs/configuration.md")
	for name, s := range secure.Services {
		was := plain.Services[name]
		for v, value := range s.Environment {
			if file, ok := strings.CutPrefix(*value, "/etc/sgclaw-tls/"); ok && !made[file] {
				t.Errorf("%s: nobody makes %s", v, file)
			}
			if strings.HasPrefix(v, "SGCLAW_") && !strings.Contains(documented, "`"+v+"`") {
				t.Errorf("%s is no variable of internal/config", v)
			}
		}
		for v, value := range was.Environment {
			if got := s.Environment[v]; got == nil || *got != *value {
				t.Errorf("%s: %s changed", name, v)
			}
		}
		s.Environment, s.Volumes = was.Environment, was.Volumes
		if d := cmp.Diff(s, was); d != "" {
			t.Errorf("%s (-with TLS +without):\n%s", name, d)
		}
	}
}

// TestEnvironment: worker and gateway understand what they are given.
func TestEnvironment(t *testing.T) {
	// The page names every variable; internal/config tests that.
	documented := read(t, "docs/configuration.md")
	p := load(t, filled)
	for name, s := range p.Services {
		for v := range s.Environment {
			if strings.HasPrefix(v, "SGCLAW_") && !strings.Contains(documented, "`"+v+"`") {
				t.Errorf("%s: %s is no variable of internal/config", name, v)
			}
		}
	}
	given := func(service string) *config.Config {
		var env []string
		for name, v := range p.Services[service].Environment {
			env = append(env, name+"="+*v)
		}
		c, err := config.Load(config.Options{Env: env, Dirs: []string{t.TempDir()}})
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		if err := c.RequireDatabase(); err != nil {
			t.Errorf("%s: %v", service, err)
		}
		if len(c.Warnings) > 0 {
			t.Errorf("%s: warnings %q", service, c.Warnings)
		}
		return c
	}
	c := given(Gateway)
	if err := c.RequireGateway(); err != nil {
		t.Error(err)
	}
	if _, port, _ := net.SplitHostPort(c.Gateway.Listen); c.GatewayLoopback() || port != fmt.Sprint(p.Services[Gateway].Ports[0].Target) {
		t.Errorf("the gateway listens at %s", c.Gateway.Listen)
	}
	if c.LLM.APIKey != "" {
		t.Error("the gateway is given the model's key")
	}
	c = given(Worker)
	if err := c.RequireModel(); err != nil {
		t.Error(err)
	}
	if c.LLM.BaseURL != "" || c.LLM.Model != "gpt-4o" {
		t.Errorf("without further variables: %+v", c.LLM)
	}
}

// TestDynamicConfig: a server of one's own behaves as the embedded one does.
func TestDynamicConfig(t *testing.T) {
	var file map[string][]struct {
		Value       any
		Constraints map[string]any
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/temporal/dynamicconfig.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, values := range file {
		if len(values) != 1 || len(values[0].Constraints) > 0 {
			t.Errorf("%s: want one value without constraints", name)
			continue
		}
		got[name] = fmt.Sprint(values[0].Value)
	}
	want := map[string]string{}
	for _, kv := range devserver.DynamicConfig() {
		name, value, _ := strings.Cut(kv, "=")
		want[name] = strings.Trim(value, `"`)
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("dynamicconfig.yaml and devserver.DynamicConfig (-file +code):\n%s", d)
	}
	mounted := load(t, filled).Services[Temporal]
	var source string
	for _, v := range mounted.Volumes {
		if rest, ok := strings.CutPrefix(*mounted.Environment["DYNAMIC_CONFIG_FILE_PATH"], v.Target+"/"); ok {
			source = filepath.Join(v.Source, rest)
		}
	}
	if _, err := os.Stat(source); err != nil {
		t.Errorf("the server reads no file of ours: %v", err)
	}
}

// TestScripts: what runs from a mounted folder is there, and readable to any
// user, because the images run as users of their own.
func TestScripts(t *testing.T) {
	p := load(t, filled)
	for _, name := range []string{Schema, Namespace} {
		h := host{mounts: map[string]string{}}
		for _, v := range p.Services[name].Volumes {
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
			h.mounts[v.Target] = v.Source
		}
		argv := h.command(p.Services[name])
		st, err := os.Stat(argv[len(argv)-1])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if st.Mode()&0o004 == 0 {
			t.Errorf("%s: %s is not readable to everybody", name, argv[len(argv)-1])
		}
	}
}

// TestImagesArePinned: by a version, of Temporal's images a whole one, the
// same for the server and its tools.
func TestImagesArePinned(t *testing.T) {
	whole := regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	version := regexp.MustCompile(`^[0-9]+\.[0-9]+`)
	p := load(t, filled)
	for name, s := range p.Services {
		if s.Build != nil {
			continue
		}
		_, tag, _ := strings.Cut(s.Image, ":")
		re := version
		if strings.HasPrefix(s.Image, "temporalio/") {
			re = whole
		}
		if !re.MatchString(tag) {
			t.Errorf("%s: image %s is not pinned", name, s.Image)
		}
	}
	for _, line := range lines(t, "Dockerfile", "FROM ") {
		if !regexp.MustCompile(`^(golang:1\.[0-9]+(\.[0-9]+)?|node:[0-9]+-[a-z]+-slim|debian:[0-9.]+-slim)( AS .*)?$`).MatchString(line) {
			t.Errorf("Dockerfile: FROM %s", line)
		}
	}
	server := load(t, filled).Services[Temporal].Image
	if tools := p.Services[Namespace].Image; strings.TrimPrefix(tools, "temporalio/admin-tools:") != strings.TrimPrefix(server, "temporalio/server:") {
		t.Errorf("%s goes with %s", server, tools)
	}
	// make cluster-tools builds what the images hold.
	makefile := read(t, "Makefile")
	_, ui, _ := strings.Cut(p.Services[UI].Image, ":")
	for _, want := range []string{
		"go.temporal.io/server/cmd/server@v" + strings.TrimPrefix(server, "temporalio/server:") + "\n",
		"go.temporal.io/server/cmd/tools/sql@v" + strings.TrimPrefix(server, "temporalio/server:") + "\n",
		"github.com/temporalio/ui-server/v2/cmd/server@v" + ui + "\n",
	} {
		if !strings.Contains(makefile, want) {
			t.Errorf("the Makefile does not name %s", strings.TrimSpace(want))
		}
	}
}

// TestDockerfile: the image has the programs that its service runs, and is
// built with the Go that the module asks for.
func TestDockerfile(t *testing.T) {
	s := load(t, filled).Services[Worker]
	if s.Build == nil || s.Build.Args["VERSION"] == nil {
		t.Fatalf("the worker's image is not built with a version: %+v", s.Build)
	}
	var built []string
	for _, line := range lines(t, "Dockerfile", "RUN ") {
		if _, after, ok := strings.Cut(line, "go build "); ok {
			for arg := range strings.FieldsSeq(after) {
				if name, ok := strings.CutPrefix(arg, "./"); ok {
					built = append(built, name)
				}
			}
			if !strings.Contains(line, "-o /out/ ") || !strings.Contains(line, "CGO_ENABLED=0") {
				t.Errorf("Dockerfile: %s", line)
			}
		}
	}
	g := load(t, filled).Services[Gateway]
	if d := cmp.Diff(g.Build, s.Build); d != "" || g.Image != s.Image {
		t.Errorf("gateway and worker have different images, %s and %s:\n%s", g.Image, s.Image, d)
	}
	for _, name := range []string{s.Command[0], g.Command[0], "starter"} {
		if !slices.Contains(built, name) {
			t.Errorf("the image has %q, and not %s", built, name)
		}
		if _, err := os.Stat(filepath.Join(root, name, "main.go")); err != nil {
			t.Error(err)
		}
	}
	copies := lines(t, "Dockerfile", "COPY ")
	for _, want := range []string{"--from=build /out/ /usr/local/bin/", "--from=panel /src/panel/dist ./panel/dist"} {
		if !slices.Contains(copies, want) {
			t.Errorf("Dockerfile copies %q, and not %s", copies, want)
		}
	}
	for _, name := range []string{"panel/package.json", "panel/package-lock.json"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if all := slices.Index(copies, ". ."); all < 0 || all > slices.Index(copies, "--from=panel /src/panel/dist ./panel/dist") {
		t.Error("the panel that was built is overwritten by the sources")
	}
	user := lines(t, "Dockerfile", "USER ")
	if len(user) != 1 || user[0] == "root" {
		t.Errorf("the image runs as %q", user)
	}
	wants := regexp.MustCompile(`(?m)^go (1\.[0-9]+)`).FindStringSubmatch(read(t, "go.mod"))
	if from := lines(t, "Dockerfile", "FROM golang:"); len(from) != 1 || wants == nil || !strings.HasPrefix(from[0], wants[1]) {
		t.Errorf("Dockerfile builds with %q, go.mod asks for %q", from, wants)
	}
	ignored := strings.Fields(read(t, ".dockerignore"))
	for _, name := range []string{".env", ".git", ".data", "bin", "panel/dist", "**/node_modules"} {
		if !slices.Contains(ignored, name) {
			t.Errorf(".dockerignore lacks %s", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines returns the rest of the lines that begin with a word.
func lines(t *testing.T, name, word string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(read(t, name)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok {
			out = append(out, rest)
		}
	}
	return out
}

func TestTranslation(t *testing.T) {
	h := host{
		services: []string{Postgres, Temporal, Worker},
		ports:    map[string]int{"postgres:5432": 1111, "temporal:7233": 2222, "temporal:9091": 3333, "worker:9090": 4444},
		mounts:   map[string]string{"/etc/sgclaw": "/src/deploy"},
	}
	for _, tt := range []struct{ service, value, want string }{
		{Worker, "temporal:7233", "127.0.0.1:2222"},
		{Worker, "postgres://sgclaw:5432@postgres:5432/sgclaw?x=1", "postgres://sgclaw:5432@127.0.0.1:1111/sgclaw?x=1"},
		{Worker, "0.0.0.0:9090", "127.0.0.1:4444"},
		{Temporal, "0.0.0.0:9091", "127.0.0.1:3333"},
		{Temporal, "0.0.0.0", "127.0.0.1"},
		{Temporal, "postgres", "127.0.0.1"},
		{Temporal, "postgres12", "postgres12"},
		{Temporal, "/etc/sgclaw/dynamicconfig.yaml", "/src/deploy/dynamicconfig.yaml"},
		{Worker, "http://10.0.0.7:9090/v1", "http://10.0.0.7:9090/v1"},
	} {
		if got := h.value(tt.service, tt.value); got != tt.want {
			t.Errorf("%s: %s becomes %s, want %s", tt.service, tt.value, got, tt.want)
		}
	}
	if got, want := h.argument(Worker, "exec 3<>/dev/tcp/127.0.0.1/9090; x"), "exec 3<>/dev/tcp/127.0.0.1/4444; x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
