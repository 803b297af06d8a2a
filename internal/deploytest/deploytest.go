// Package deploytest holds docker-compose.yml to what it promises, on
// machines without a container engine: it loads the file with the compose
// library, and runs the very programs of its services, with their commands,
// their environment and the mounted scripts, as plain processes. Names,
// ports and paths of the containers are replaced by this machine's; nothing
// else is. It is a module of its own so that the compose library does not
// become a dependency of the product.
package deploytest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// The services of docker-compose.yml.
const (
	Postgres  = "postgres"
	Schema    = "temporal-schema"
	Temporal  = "temporal"
	Namespace = "temporal-namespace"
	UI        = "temporal-ui"
	Worker    = "worker"
	Gateway   = "gateway"
)

// Load loads the project's docker-compose.yml, and further files over it,
// with env as the environment and nothing of this process's. A variable that
// the file requires and env lacks is an error.
func Load(ctx context.Context, root string, env map[string]string, over ...string) (*types.Project, error) {
	files := []string{filepath.Join(root, "docker-compose.yml")}
	for _, name := range over {
		files = append(files, filepath.Join(root, name))
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	opts, err := cli.NewProjectOptions(files,
		cli.WithWorkingDirectory(root), cli.WithEnv(list), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, fmt.Errorf("compose file: %w", err)
	}
	project, err := opts.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("compose file: %w", err)
	}
	return project, nil
}

// host translates what a service says inside its container to this machine.
type host struct {
	services []string       // names that resolve inside the containers' network
	ports    map[string]int // by "service:port"
	mounts   map[string]string
}

// endpoint matches "name:port" where a URL or a setting has it, and
// "127.0.0.1/port" where bash's name for a connection does.
var endpoint = regexp.MustCompile(`([a-z0-9.-]+:|127\.0\.0\.1/)([0-9]+)\b`)

// value translates one value of service's environment.
func (h host) value(service, v string) string {
	if slices.Contains(h.services, v) || v == "0.0.0.0" {
		return "127.0.0.1"
	}
	return h.argument(service, v)
}

// argument translates one argument of service's commands.
func (h host) argument(service, v string) string {
	for target, source := range h.mounts {
		if v == target || strings.HasPrefix(v, target+"/") {
			return source + strings.TrimPrefix(v, target)
		}
	}
	return endpoint.ReplaceAllStringFunc(v, func(s string) string {
		m := endpoint.FindStringSubmatch(s)
		name, sep, port := m[1][:len(m[1])-1], m[1][len(m[1])-1:], m[2]
		if name == "0.0.0.0" || name == "127.0.0.1" {
			name = service
		}
		if p, ok := h.ports[name+":"+port]; ok {
			return "127.0.0.1" + sep + strconv.Itoa(p)
		}
		return s
	})
}

// port translates a port that stands alone in a variable, of service itself
// or, as there are databases only, of the database.
func (h host) port(v string) string {
	if p, ok := h.ports[Postgres+":"+v]; ok {
		return strconv.Itoa(p)
	}
	return v
}

// environment is what a service's process gets. Of this process's
// environment it gets the search path and the home.
func (h host) environment(s types.ServiceConfig, path string) []string {
	env := map[string]string{"PATH": path, "HOME": os.Getenv("HOME")}
	for name, v := range s.Environment {
		if v == nil {
			continue
		}
		env[name] = h.value(s.Name, *v)
		if strings.HasSuffix(name, "PORT") {
			env[name] = h.port(*v)
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// command is what a service runs, by its entrypoint and command; empty if it
// leaves that to its image.
func (h host) command(s types.ServiceConfig) []string {
	var out []string
	for _, arg := range slices.Concat(s.Entrypoint, s.Command) {
		out = append(out, h.argument(s.Name, arg))
	}
	return out
}

// newHost chooses a free port for each port of a service, except for the
// database, which runs already. mounts take the place of folders that the
// file mounts.
func newHost(project *types.Project, postgresPort int, mounts map[string]string) (host, error) {
	h := host{services: project.ServiceNames(), ports: map[string]int{Postgres + ":5432": postgresPort}, mounts: map[string]string{}}
	for name, s := range project.Services {
		for _, p := range s.Ports {
			port, err := freePort()
			if err != nil {
				return h, err
			}
			h.ports[fmt.Sprintf("%s:%d", name, p.Target)] = port
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				h.mounts[v.Target] = v.Source
			}
		}
	}
	maps.Copy(h.mounts, mounts)
	return h, nil
}

// freePort returns a port that is free now. Temporal keeps its servers'
// ports in columns that end at 32767.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}
