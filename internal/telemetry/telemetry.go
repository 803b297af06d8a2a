// Package telemetry tells operators how a process is doing: metrics for
// Prometheus, health for load balancers, and traces where a collector is
// configured. It holds no page text and no secrets: labels are names from
// fixed lists only.
//
// Traces cost bytes in every run's history, so they are off unless
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"sgclaw/internal/agent"
)

// Config says what to tell and where.
type Config struct {
	Service string // e.g. "worker"
	// Addr serves /metrics, /healthz and /readyz; empty serves nothing.
	Addr string
	// Ready is asked for /readyz: nil means ready.
	Ready func(ctx context.Context) error
	// Getenv reads OTEL_* variables.
	Getenv func(string) string
}

// Telemetry is what a process tells. Its methods are safe for concurrent
// use.
type Telemetry struct {
	log      *slog.Logger
	metrics  *sdkmetric.MeterProvider
	registry *prometheus.Registry
	traces   *sdktrace.TracerProvider
	handler  client.MetricsHandler
	server   *http.Server
	actions  metric.Int64Counter
	actionMS metric.Float64Histogram
	tokens   metric.Int64Counter
	modelMS  metric.Float64Histogram
	runs     metric.Int64Counter
	asked    metric.Int64Counter
	gateway  gatewayInstruments
}

// Start starts telling. The caller must call Close.
func Start(ctx context.Context, log *slog.Logger, cfg Config) (*Telemetry, error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(reg), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	res := resource.NewSchemaless(attribute.String("service.name", "sgclaw-"+cfg.Service))
	t := &Telemetry{log: log, registry: reg, metrics: sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(exporter), sdkmetric.WithResource(res), sdkmetric.WithView(seconds()))}
	t.handler = opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{Meter: t.metrics.Meter("temporal")})
	if err := errors.Join(t.instruments(), t.gateway.make(t.metrics.Meter("sgclaw"))); err != nil {
		return nil, err
	}
	if cfg.Getenv != nil && (cfg.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || cfg.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") {
		exp, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("traces: %w", err)
		}
		t.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp), sdktrace.WithResource(res))
	}
	if cfg.Addr != "" {
		if err := t.serve(cfg); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// seconds gives every histogram, Temporal's too, buckets from a millisecond
// to ten minutes: what is measured here are all durations in seconds, while
// the library's own buckets are meant for milliseconds.
func seconds() sdkmetric.View {
	return sdkmetric.NewView(
		sdkmetric.Instrument{Name: "*", Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{
			Boundaries: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 600},
		}},
	)
}

func (t *Telemetry) instruments() error {
	m := t.metrics.Meter("sgclaw")
	var errs [6]error
	t.actions, errs[0] = m.Int64Counter("sgclaw_actions", metric.WithDescription("browser actions by what came of them"))
	t.actionMS, errs[1] = m.Float64Histogram("sgclaw_action_seconds", metric.WithUnit("s"), metric.WithDescription("time from a reply's call to its recorded observation"))
	t.tokens, errs[2] = m.Int64Counter("sgclaw_model_tokens", metric.WithDescription("tokens by model and kind"))
	t.modelMS, errs[3] = m.Float64Histogram("sgclaw_model_seconds", metric.WithUnit("s"), metric.WithDescription("duration of model calls that succeeded"))
	t.runs, errs[4] = m.Int64Counter("sgclaw_runs", metric.WithDescription("runs that ended, by how"))
	t.asked, errs[5] = m.Int64Counter("sgclaw_confirmations", metric.WithDescription("questions to people, by answer"))
	return errors.Join(errs[:]...)
}

// Metrics serves the metrics, for a process that has a server of its own.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

func (t *Telemetry) serve(cfg Config) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Metrics())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if cfg.Ready != nil {
			if err := cfg.Ready(ctx); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("metrics address: %w", err)
	}
	t.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := t.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.log.Error("metrics server", "err", err)
		}
	}()
	return nil
}

// MetricsHandler gives Temporal's own metrics a place.
func (t *Telemetry) MetricsHandler() client.MetricsHandler { return t.handler }

// Interceptors trace workflows and activities; none when traces are off.
func (t *Telemetry) Interceptors() ([]interceptor.ClientInterceptor, error) {
	if t.traces == nil {
		return nil, nil
	}
	i, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: t.traces.Tracer("temporal")})
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return []interceptor.ClientInterceptor{i}, nil
}

// Close stops telling; what is not yet sent is sent, five seconds at most.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	errs := []error{t.metrics.Shutdown(ctx)}
	if t.traces != nil {
		errs = append(errs, t.traces.Shutdown(ctx))
	}
	if t.server != nil {
		errs = append(errs, t.server.Shutdown(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		t.log.Warn("telemetry shutdown", "err", err)
	}
}

// Action counts a browser action and what came of it.
func (t *Telemetry) Action(ctx context.Context, action string, o agent.Outcome, code string, took time.Duration) {
	attrs := metric.WithAttributes(attribute.String("action", action), attribute.String("outcome", string(o)), attribute.String("code", code))
	t.actions.Add(ctx, 1, attrs)
	t.actionMS.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("action", action)))
}

// Reply counts a model's reply.
func (t *Telemetry) Reply(ctx context.Context, model string, u agent.Usage, took time.Duration) {
	m := attribute.String("model", model)
	t.tokens.Add(ctx, int64(u.PromptTokens), metric.WithAttributes(m, attribute.String("kind", "prompt")))
	t.tokens.Add(ctx, int64(u.CompletionTokens), metric.WithAttributes(m, attribute.String("kind", "completion")))
	t.modelMS.Record(ctx, took.Seconds(), metric.WithAttributes(m))
}

// Ended counts a run that ended.
func (t *Telemetry) Ended(ctx context.Context, s agent.Status, reason string) {
	t.runs.Add(ctx, 1, metric.WithAttributes(attribute.String("status", string(s)), attribute.String("reason", reason)))
}

// Decided counts a question to a person and what became of it.
func (t *Telemetry) Decided(ctx context.Context, decision string) {
	t.asked.Add(ctx, 1, metric.WithAttributes(attribute.String("decision", decision)))
}
