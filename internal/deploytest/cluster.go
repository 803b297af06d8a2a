package deploytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"sgclaw/internal/postgres"
)

// Token is the gateway's.
const Token = "0123456789abcdef0123456789abcdef"

// Config says where things are.
type Config struct {
	// Root is the project's folder.
	Root string
	// Bin holds worker and gateway; Tools holds temporal-server, temporal-sql-tool,
	// temporal-ui and temporal.
	Bin, Tools string
	// Dir gets data and logs.
	Dir string
	// Over are further compose files, laid over docker-compose.yml.
	Over []string
	// Mounts are folders in place of those that the files mount, by the
	// paths that they have in the containers.
	Mounts map[string]string
}

// Cluster is the compose file's services as processes of this machine.
type Cluster struct {
	cfg   Config
	log   *slog.Logger
	host  host
	pg    *postgres.Server
	env   map[string]string // what .env would hold
	procs map[string]*process
	order []string
}

// Start starts PostgreSQL and Temporal as the compose file has them: the
// schema's script, the server, the namespace's script. StartService starts
// the rest. The caller must call Close.
func Start(ctx context.Context, log *slog.Logger, cfg Config) (_ *Cluster, err error) {
	for _, dir := range []*string{&cfg.Root, &cfg.Bin, &cfg.Tools, &cfg.Dir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, log: log, procs: map[string]*process{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if err := c.startPostgres(ctx); err != nil {
		return nil, err
	}
	if err := c.run(ctx, Schema, 2*time.Minute); err != nil {
		return nil, err
	}
	if err := c.StartService(ctx, Temporal, nil); err != nil {
		return nil, err
	}
	if err := c.run(ctx, Namespace, 2*time.Minute); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends everything, in the opposite order.
func (c *Cluster) Close() {
	for i := len(c.order) - 1; i >= 0; i-- {
		c.procs[c.order[i]].stop()
	}
	if c.pg != nil {
		c.pg.Stop()
	}
}

// Temporal is the address of the Temporal server.
func (c *Cluster) Temporal() string { return c.Address(Temporal, 7233) }

// Database is the URL of the product's database.
func (c *Cluster) Database() string { return c.pg.URL() }

// PIDs are the process ids of Temporal and PostgreSQL, with a space between.
func (c *Cluster) PIDs() string {
	return fmt.Sprintf("%d %d", c.procs[Temporal].cmd.Process.Pid, c.pg.PID())
}

// Address is where a container's port is on this machine.
func (c *Cluster) Address(service string, port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(c.host.ports[fmt.Sprintf("%s:%d", service, port)]))
}

// Log is the file with a service's output.
func (c *Cluster) Log(service string) string { return filepath.Join(c.cfg.Dir, service+".log") }

func (c *Cluster) startPostgres(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	c.pg, err = postgres.Start(ctx, postgres.Config{
		DataDir: filepath.Join(c.cfg.Dir, "postgres"), Port: port, Database: "sgclaw", LogFile: c.Log(Postgres),
	})
	if err != nil {
		return err
	}
	at, err := url.Parse(c.pg.URL())
	if err != nil {
		return err
	}
	password, _ := at.User.Password()
	c.env = map[string]string{"POSTGRES_PASSWORD": password, "SGCLAW_LLM_API_KEY": "none", "SGCLAW_GATEWAY_TOKEN": Token}
	project, err := Load(ctx, c.cfg.Root, c.env, c.cfg.Over...)
	if err != nil {
		return err
	}
	c.host, err = newHost(project, port, c.cfg.Mounts)
	return err
}

// service loads a service, with env added to what .env would hold.
func (c *Cluster) service(ctx context.Context, name string, env map[string]string) (types.ServiceConfig, error) {
	all := maps.Clone(c.env)
	maps.Copy(all, env)
	project, err := Load(ctx, c.cfg.Root, all, c.cfg.Over...)
	if err != nil {
		return types.ServiceConfig{}, err
	}
	return project.GetService(name)
}

// path is the search path of the services.
func (c *Cluster) path() string {
	return strings.Join([]string{c.cfg.Bin, c.cfg.Tools, os.Getenv("PATH")}, string(os.PathListSeparator))
}

// launch starts a service's process.
func (c *Cluster) launch(ctx context.Context, s types.ServiceConfig) (*process, error) {
	env := c.host.environment(s, c.path())
	argv := c.host.command(s)
	dir := c.cfg.Dir
	if len(argv) == 0 {
		var more []string
		var err error
		if argv, more, err = c.imageCommand(ctx, s); err != nil {
			return nil, err
		}
		env = append(env, more...)
	}
	program, err := c.program(argv[0])
	if err != nil {
		return nil, err
	}
	argv[0] = program
	c.log.Info("start", "service", s.Name, "command", strings.Join(argv, " "))
	return spawn(argv, env, dir, c.Log(s.Name))
}

// program finds a program where the images have it.
func (c *Cluster) program(name string) (string, error) {
	for _, dir := range []string{c.cfg.Bin, c.cfg.Tools} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && !filepath.IsAbs(name) {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

// run runs a service that is meant to end, twice: both must succeed, because
// it does so each time the services are brought up.
func (c *Cluster) run(ctx context.Context, name string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := c.service(ctx, name, nil)
	if err != nil {
		return err
	}
	for range 2 {
		p, err := c.launch(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := p.wait(ctx); err != nil {
			return fmt.Errorf("%s: %w%s", name, err, c.ended())
		}
	}
	return nil
}

// ended tells of services that are meant to stay and did not.
func (c *Cluster) ended() string {
	var b strings.Builder
	for _, name := range c.order {
		select {
		case <-c.procs[name].done:
			fmt.Fprintf(&b, "\n%s ended (%v); the end of its log:\n%s", name, c.procs[name].err, tail(c.Log(name)))
		default:
		}
	}
	return b.String()
}

// StartService starts a service that is meant to stay, and waits until it is
// healthy. env is added to what .env would hold.
func (c *Cluster) StartService(ctx context.Context, name string, env map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := c.service(ctx, name, env)
	if err != nil {
		return err
	}
	p, err := c.launch(ctx, s)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.procs[name] = p
	c.order = append(c.order, name)
	if err := p.until(ctx, func(ctx context.Context) error { return c.healthy(ctx, s) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// StopService stops a service, as a container engine does.
func (c *Cluster) StopService(name string) {
	c.procs[name].stop()
	c.order = slices.DeleteFunc(c.order, func(s string) bool { return s == name })
}

// healthy runs a service's health check; without one, it asks whether the
// first port is open.
func (c *Cluster) healthy(ctx context.Context, s types.ServiceConfig) error {
	if s.HealthCheck == nil {
		return dial(ctx, c.Address(s.Name, int(s.Ports[0].Target)))
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	test := slices.Clone(s.HealthCheck.Test)
	if len(test) < 2 || test[0] != "CMD" {
		return fmt.Errorf("health check %q is of a kind that is not known here", test)
	}
	test = test[1:]
	if test[0] == "nc" && len(test) == 4 {
		// The image has it, this machine may not.
		port, err := strconv.Atoi(test[3])
		if err != nil {
			return err
		}
		return dial(ctx, c.Address(s.Name, port))
	}
	for i := range test {
		test[i] = c.host.argument(s.Name, test[i])
	}
	cmd := exec.CommandContext(ctx, test[0], test[1:]...)
	cmd.Env = []string{"PATH=" + c.path()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("health check: %w: %s", err, out)
	}
	return nil
}

func dial(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ErrImage: it is not known what an image runs by itself.
var ErrImage = errors.New("the image's own command is not known")

// imageCommand is what an image runs by itself, and further variables. The
// scripts are the images' own, from the modules they are built from.
func (c *Cluster) imageCommand(ctx context.Context, s types.ServiceConfig) (argv, env []string, err error) {
	name, tag, _ := strings.Cut(s.Image, ":")
	switch name {
	case "temporalio/server":
		src, err := module(ctx, "go.temporal.io/server@v"+tag)
		if err != nil {
			return nil, nil, err
		}
		env, err := c.serverPorts()
		return []string{"bash", filepath.Join(src, "docker", "scripts", "sh", "entrypoint.sh")}, env, err
	case "temporalio/ui":
		src, err := module(ctx, "github.com/temporalio/ui-server/v2@v"+tag)
		if err != nil {
			return nil, nil, err
		}
		// In a container it may listen everywhere; here it may not.
		conf := filepath.Join(c.cfg.Dir, "ui")
		if err := os.MkdirAll(conf, 0o755); err != nil {
			return nil, nil, err
		}
		b, err := os.ReadFile(filepath.Join(src, "config", "docker.yaml"))
		if err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(filepath.Join(conf, "docker.yaml"), append(b, "\nhost: 127.0.0.1\n"...), 0o644); err != nil {
			return nil, nil, err
		}
		_, port, err := net.SplitHostPort(c.Address(UI, 8080))
		return []string{"temporal-ui", "--root", c.cfg.Dir, "--config", "ui", "--env", "docker", "start"},
			[]string{"TEMPORAL_UI_PORT=" + port}, err
	}
	return nil, nil, fmt.Errorf("%s: %w", s.Image, ErrImage)
}

// serverPorts are those that a Temporal server uses inside its container.
func (c *Cluster) serverPorts() ([]string, error) {
	_, port, err := net.SplitHostPort(c.Temporal())
	if err != nil {
		return nil, err
	}
	env := []string{"FRONTEND_GRPC_PORT=" + port}
	for _, name := range []string{
		"FRONTEND_HTTP", "FRONTEND_MEMBERSHIP", "MATCHING_GRPC", "MATCHING_MEMBERSHIP",
		"HISTORY_GRPC", "HISTORY_MEMBERSHIP", "WORKER_GRPC", "WORKER_MEMBERSHIP",
	} {
		p, err := freePort()
		if err != nil {
			return nil, err
		}
		env = append(env, fmt.Sprintf("%s_PORT=%d", name, p))
	}
	return env, nil
}

// module returns the folder of a module's source.
func module(ctx context.Context, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", version)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w: %s", version, err, out)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("download %s: %w", version, err)
	}
	return m.Dir, nil
}

// Get fetches a URL and fails on anything but 200.
func Get(ctx context.Context, at string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s answers %s", at, resp.Status)
	}
	return resp, nil
}
