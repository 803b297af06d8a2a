// Package devserver finds and runs a Temporal development server: the
// official `temporal` command with its web UI and an SQLite file, set up for
// agents. It serves the embedded stack and the tests. It is not for more
// than one machine; there a Temporal cluster takes its place, with the same
// dynamic configuration (DynamicConfig).
package devserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	namespacepb "go.temporal.io/api/namespace/v1"

	"sgclaw/internal/child"
)

// Env names the environment variable that says where the temporal command
// is.
const Env = "SGCLAW_TEMPORAL"

// ErrNoCLI is the error of Find when there is no temporal command.
var ErrNoCLI = errors.New("no temporal command found: run `make temporal` in the project, or put the Temporal CLI into PATH, or set " + Env + " to its path")

// DynamicConfig returns the server settings that an agent's sequential work
// needs, as KEY=VALUE. Temporal's defaults cost such work up to 50 ms a
// dispatch and a second a timer; these also let a cancellation reach an
// activity at once. Keys that an older server does not know are ignored by
// it.
func DynamicConfig() []string {
	return []string{
		"history.transferProcessorMaxPollRPS=2000",
		"history.timerProcessorMaxPollRPS=2000",
		`history.timerProcessorMaxTimeShift="20ms"`,
		"system.enableActivityEagerExecution=true",
		"system.enableCancelActivityWorkerCommand=true",
		"frontend.WorkerCommandsEnabled=true",
		"matching.numTaskqueueReadPartitions=1",
		"matching.numTaskqueueWritePartitions=1",
	}
}

// Config says what to run. The zero value runs a server in memory on free
// ports of the loopback interface, without a UI, found as Find("") does.
type Config struct {
	// Path of the temporal command; empty lets Find look.
	Path string
	// DBFile is the SQLite file; empty keeps everything in memory.
	DBFile string
	// IP to listen on; 127.0.0.1 if empty.
	IP string
	// Port of the gRPC front end; 0 takes a free one.
	Port int
	// UIPort of the web UI; 0 means no UI, -1 takes a free port.
	UIPort int
	// LogFile gets the server's output, appended; empty drops it.
	LogFile string
	// Namespaces are created when missing, beside "default".
	Namespaces []string
	// Keywords are search attributes of type Keyword to create in them.
	Keywords []string
	// Retention of closed workflows in Namespaces; 0 keeps the server's
	// default of a day.
	Retention time.Duration
}

// Server is a running server.
type Server struct {
	address, ui string
	pid         int
	proc        *os.Process
	done        chan struct{}
	err         error // of Wait; read after done is closed
	stop        sync.Once
}

// Find returns the path of the temporal command: explicit if given, else the
// one in PATH, else bin/temporal of the project that the working directory
// is in, else one beside this program.
func Find(explicit string) (string, error) {
	if explicit != "" {
		path, err := exec.LookPath(explicit)
		if err != nil {
			return "", fmt.Errorf("temporal command %s: %w", explicit, err)
		}
		return path, nil
	}
	name := "temporal"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	var places []string
	if dir, err := os.Getwd(); err == nil {
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				places = append(places, filepath.Join(dir, "bin", name))
				break
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), name))
	}
	for _, place := range places {
		if path, err := exec.LookPath(place); err == nil {
			return path, nil
		}
	}
	return "", ErrNoCLI
}

// Start runs a server and returns when it answers and its namespaces exist.
// ctx bounds the start only; the server runs until Stop, or until this
// process ends (on Linux also when it is killed). The caller must call Stop.
func Start(ctx context.Context, log *slog.Logger, cfg Config) (*Server, error) {
	path, err := Find(cfg.Path)
	if err != nil {
		return nil, err
	}
	if cfg.IP == "" {
		cfg.IP = "127.0.0.1"
	}
	// A free port may be taken by somebody else before the server listens
	// on it, so a start on chosen ports is tried more than once.
	tries := 1
	if cfg.Port == 0 || cfg.UIPort < 0 {
		tries = 3
	}
	for {
		tries--
		s, err := start(path, cfg)
		if err != nil {
			return nil, err
		}
		err = s.ready(ctx, cfg)
		if err == nil {
			log.Debug("temporal server ready", "address", s.address, "ui", s.ui, "pid", s.pid)
			return s, nil
		}
		s.Stop()
		if tries == 0 || !errors.Is(err, errExited) || ctx.Err() != nil {
			return nil, err
		}
	}
}

var errExited = errors.New("temporal server ended")

func start(path string, cfg Config) (*Server, error) {
	port, err := freePort(cfg.IP, cfg.Port)
	if err != nil {
		return nil, err
	}
	s := &Server{address: net.JoinHostPort(cfg.IP, strconv.Itoa(port)), done: make(chan struct{})}
	args := []string{"server", "start-dev", "--ip", cfg.IP, "--port", strconv.Itoa(port), "--log-level", "warn", "--color", "never"}
	if cfg.UIPort == 0 {
		args = append(args, "--headless")
	} else {
		uiPort, err := freePort(cfg.IP, max(cfg.UIPort, 0))
		if err != nil {
			return nil, err
		}
		s.ui = "http://" + net.JoinHostPort(cfg.IP, strconv.Itoa(uiPort))
		args = append(args, "--ui-port", strconv.Itoa(uiPort))
	}
	if cfg.DBFile != "" {
		if err := os.MkdirAll(filepath.Dir(cfg.DBFile), 0o700); err != nil {
			return nil, err
		}
		args = append(args, "--db-filename", cfg.DBFile, "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=2")
	}
	for _, ns := range cfg.Namespaces {
		if ns != "default" {
			args = append(args, "--namespace", ns)
		}
	}
	for _, kw := range cfg.Keywords {
		args = append(args, "--search-attribute", kw+"=Keyword")
	}
	for _, kv := range DynamicConfig() {
		args = append(args, "--dynamic-config-value", kv)
	}

	cmd := exec.Command(path, args...)
	if cfg.LogFile != "" {
		if err := os.MkdirAll(filepath.Dir(cfg.LogFile), 0o700); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(cfg.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close() // the server has its own copy
		cmd.Stdout, cmd.Stderr = f, f
	}

	if err := child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	s.proc, s.pid = cmd.Process, cmd.Process.Pid
	return s, nil
}

// freePort returns want, or a port that is free now if want is 0.
func freePort(ip string, want int) (int, error) {
	if want != 0 {
		return want, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// ready waits until the server answers and its namespaces are usable.
func (s *Server) ready(ctx context.Context, cfg Config) error {
	c, err := client.NewLazyClient(client.Options{HostPort: s.address, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer c.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = probe(ctx, c, cfg.Namespaces); last == nil {
			return s.retain(ctx, c, cfg)
		}
		select {
		case <-s.done:
			where := "its output was not kept"
			if cfg.LogFile != "" {
				where = "see " + cfg.LogFile
			}
			return fmt.Errorf("%w before it was ready (%w); %s", errExited, s.err, where)
		case <-ctx.Done():
			return fmt.Errorf("temporal server not ready: %w (last answer: %w)", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func probe(ctx context.Context, c client.Client, namespaces []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return err
	}
	for _, ns := range slices.Concat([]string{"default"}, namespaces) {
		if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: ns}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) retain(ctx context.Context, c client.Client, cfg Config) error {
	if cfg.Retention == 0 {
		return nil
	}
	for _, ns := range cfg.Namespaces {
		_, err := c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
			Namespace: ns,
			Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(cfg.Retention)},
		})
		if err != nil {
			return fmt.Errorf("retention of namespace %s: %w", ns, err)
		}
	}
	return nil
}

// Address is the host and port of the gRPC front end.
func (s *Server) Address() string { return s.address }

// UI is the address of the web UI, empty if there is none.
func (s *Server) UI() string { return s.ui }

// PID is the server's process id.
func (s *Server) PID() int { return s.pid }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends the server and waits until it has: an interrupt first, after
// five seconds a kill. It may be called twice.
func (s *Server) Stop() {
	s.stop.Do(func() {
		if child.Interrupt(s.proc) == nil {
			timer := time.NewTimer(5 * time.Second)
			defer timer.Stop()
			select {
			case <-s.done:
				return
			case <-timer.C:
			}
		}
		_ = s.proc.Kill()
	})
	<-s.done
}
