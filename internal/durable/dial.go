package durable

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"sgclaw/activities"
	"sgclaw/workflows"
)

// Config says where Temporal is. Address and Namespace are required.
type Config struct {
	Address   string // host:port
	Namespace string
	// APIKey authenticates, and implies TLS.
	APIKey string
	// TLS encrypts the connection; any file below implies it.
	TLS        bool
	CAFile     string // PEM; empty: the system's
	CertFile   string // PEM, for client authentication, with KeyFile
	KeyFile    string
	ServerName string // when the certificate's differs from Address
	// Identity appears in every event of a history, so it is kept short:
	// "<host name>.<pid>", cut, if empty.
	Identity string
}

// answerTimeout is how long a worker may take to answer a query or an
// update. They are answered in milliseconds, so this is only about noticing
// that no worker is there.
const answerTimeout = 5 * time.Second

// connectTimeout bounds how long Dial waits for a server that does not
// answer at all.
const connectTimeout = 5 * time.Second

// Client talks to the durable core. It is safe for concurrent use.
type Client struct {
	tc  client.Client
	ns  string
	log *slog.Logger
}

// Dial connects to Temporal; ErrUnreachable if it does not answer within
// five seconds. The caller closes the client.
func Dial(ctx context.Context, log *slog.Logger, cfg Config) (*Client, error) {
	opts, err := Options(log, cfg)
	if err != nil {
		return nil, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	tc, err := client.DialContext(dialCtx, opts)
	if err != nil {
		if ctx.Err() == nil && (dialCtx.Err() != nil || classify(err) == nil) {
			return nil, fmt.Errorf("dial %s: %w: %w", cfg.Address, ErrUnreachable, err)
		}
		return nil, fault(ctx, "dial "+cfg.Address, err)
	}
	return New(log, tc, cfg.Namespace), nil
}

// New makes a client over a connection that stays its caller's; Close closes
// it all the same.
func New(log *slog.Logger, tc client.Client, namespace string) *Client {
	return &Client{tc: tc, ns: namespace, log: log}
}

// Close closes the connection.
func (c *Client) Close() { c.tc.Close() }

// Temporal returns the connection, for workers.
func (c *Client) Temporal() client.Client { return c.tc }

// Options returns the client options that every process of ours uses. A
// worker that must outlive the server's absence passes them to
// client.NewLazyClient.
func Options(log *slog.Logger, cfg Config) (client.Options, error) {
	opts := client.Options{
		HostPort:  cfg.Address,
		Namespace: cfg.Namespace,
		Logger:    slog.New(quiet{log.Handler()}),
		Identity:  cfg.Identity,
		ConnectionOptions: client.ConnectionOptions{
			// Messages are small; packing them costs both ends more than it
			// saves.
			GrpcCompression:      &client.GrpcCompressionNone{},
			KeepAliveTime:        15 * time.Second,
			KeepAliveTimeout:     10 * time.Second,
			GetSystemInfoTimeout: connectTimeout,
		},
	}
	if opts.Identity == "" {
		opts.Identity = identity()
	}
	if cfg.APIKey != "" {
		opts.Credentials = client.NewAPIKeyStaticCredentials(cfg.APIKey)
	}
	if cfg.TLS || cfg.APIKey != "" || cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.ServerName != "" {
		t, err := tlsConfig(cfg)
		if err != nil {
			return opts, err
		}
		opts.ConnectionOptions.TLS = t
	}
	return opts, nil
}

func tlsConfig(cfg Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("temporal CA: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("temporal CA %s: no certificate in it", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		cert, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("temporal client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%.12s.%d", host, os.Getpid())
}

// WorkerOptions returns the options of a worker on workflows.AgentQueue.
// StickyScheduleToStartTimeout bounds how long a dead worker holds up the
// runs in its cache; the throttle lets a cancellation reach an activity
// within its heartbeats even where the server cannot push it.
func WorkerOptions() worker.Options {
	return worker.Options{
		// Stands in most events of a history; by default it is the binary's
		// checksum, 32 bytes.
		BuildID:                          "sgclaw", //nolint:staticcheck // its successor turns worker versioning on
		MaxConcurrentWorkflowTaskPollers: 5,
		// Not more than can be done within workflows.TaskTimeout when a
		// worker has to read everything again.
		MaxConcurrentWorkflowTaskExecutionSize: 40,
		MaxConcurrentActivityTaskPollers:       5,
		StickyScheduleToStartTimeout:           time.Second,
		WorkerStopTimeout:                      10 * time.Second,
		MaxHeartbeatThrottleInterval:           200 * time.Millisecond,
		DefaultHeartbeatThrottleInterval:       200 * time.Millisecond,
		Interceptors:                           []interceptor.WorkerInterceptor{activities.Heartbeats()},
	}
}

// StickyCacheSize is how many workflows a worker keeps in memory, at some
// 60 KB each. A run has two, its own and its session's. Those that wait
// longest are dropped when there are more; they are replayed when somebody
// answers, in milliseconds. It bounds the memory, and should be above the
// number of runs that one worker carries out at once. Workers pass it to
// worker.SetStickyWorkflowCacheSize before the first one starts.
const StickyCacheSize = 800

// searchAttributes are what the workflows set.
func searchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		workflows.AttrState:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.AttrUser:    enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.AttrBrowser: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.AttrSession: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
}

// MissingSearchAttributes returns the search attributes that the namespace
// lacks.
func (c *Client) MissingSearchAttributes(ctx context.Context) ([]string, error) {
	have, err := c.tc.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: c.ns})
	if err != nil {
		return nil, fault(ctx, "list search attributes", err)
	}
	var missing []string
	for _, name := range []string{workflows.AttrState, workflows.AttrUser, workflows.AttrBrowser, workflows.AttrSession} {
		if _, ok := have.GetCustomAttributes()[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// EnsureSearchAttributes creates the search attributes that the namespace
// lacks, and returns when the server accepts them, which may be ten seconds
// later: it reads its namespaces that often. A worker calls it before it
// polls.
func (c *Client) EnsureSearchAttributes(ctx context.Context) error {
	missing, err := c.MissingSearchAttributes(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		add := map[string]enumspb.IndexedValueType{}
		for _, name := range missing {
			add[name] = searchAttributes()[name]
		}
		_, err = c.tc.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: c.ns, SearchAttributes: add})
		var exists *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &exists) {
			return fault(ctx, "add search attributes", err)
		}
	}
	var terms []string
	for name := range searchAttributes() {
		terms = append(terms, name+` = "none"`)
	}
	query := &workflowservice.CountWorkflowExecutionsRequest{Namespace: c.ns, Query: strings.Join(terms, " AND ")}
	for {
		_, err := c.tc.CountWorkflow(ctx, query)
		var unknown *serviceerror.InvalidArgument
		if !errors.As(err, &unknown) {
			return fault(ctx, "search attributes", err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// quiet hands the SDK's log on, with what it calls information as detail:
// it tells of every poller and every connection. So is that an activity ended
// because its run was stopped, which the SDK calls an error.
type quiet struct{ next slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return q.next.Enabled(ctx, lower(level))
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = lower(r.Level)
	if stopped(r) {
		if r.Level = slog.LevelDebug; !q.next.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.next.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.next.WithGroup(name)} }

// stopped reports whether a record is about work that nobody waits for any
// more: its activity was cancelled, or its workflow is over.
func stopped(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		var gone *serviceerror.NotFound
		is = err != nil && (temporal.IsCanceledError(err) || errors.Is(err, context.Canceled) || errors.As(err, &gone) && r.Level < slog.LevelError)
		return !is
	})
	return is
}

func lower(level slog.Level) slog.Level {
	if level == slog.LevelInfo {
		return slog.LevelDebug
	}
	return level
}
