package telemetry

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// gatewayInstruments are what a gateway tells.
type gatewayInstruments struct {
	connections metric.Int64UpDownCounter
	requests    metric.Int64Counter
	requestTime metric.Float64Histogram
	delivery    metric.Float64Histogram
	dropped     metric.Int64Counter
}

func (g *gatewayInstruments) make(m metric.Meter) error {
	var errs [5]error
	g.connections, errs[0] = m.Int64UpDownCounter("sgclaw_gateway_connections", metric.WithDescription("clients that are connected"))
	g.requests, errs[1] = m.Int64Counter("sgclaw_gateway_requests", metric.WithDescription("requests by method and code; code ok is success"))
	g.requestTime, errs[2] = m.Float64Histogram("sgclaw_gateway_request_seconds", metric.WithUnit("s"), metric.WithDescription("time from a request to its last response"))
	g.delivery, errs[3] = m.Float64Histogram("sgclaw_gateway_delivery_seconds", metric.WithUnit("s"), metric.WithDescription("time from an event to its delivery to a client's socket"))
	g.dropped, errs[4] = m.Int64Counter("sgclaw_gateway_dropped", metric.WithDescription("clients whose connection the gateway ended, by reason"))
	return errors.Join(errs[:]...)
}

// Connected adds n, which may be negative, to the number of clients.
func (t *Telemetry) Connected(ctx context.Context, n int) { t.gateway.connections.Add(ctx, int64(n)) }

// Request counts a request; code is that of its error, empty for success.
func (t *Telemetry) Request(ctx context.Context, method, code string, took time.Duration) {
	m := attribute.String("method", method)
	t.gateway.requests.Add(ctx, 1, metric.WithAttributes(m, attribute.String("code", cmp.Or(code, "ok"))))
	t.gateway.requestTime.Record(ctx, took.Seconds(), metric.WithAttributes(m))
}

// Delivered counts an event that was written to a client's socket, so long
// after it happened.
func (t *Telemetry) Delivered(ctx context.Context, after time.Duration) {
	t.gateway.delivery.Record(ctx, max(0, after.Seconds()))
}

// Dropped counts a client whose connection the gateway ended: "slow",
// "silent", "refused" and so on.
func (t *Telemetry) Dropped(ctx context.Context, reason string) {
	t.gateway.dropped.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
}
