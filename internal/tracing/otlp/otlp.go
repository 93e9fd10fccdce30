package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stillhere/stillhere/internal/tracing"
)

// sampled is the share of traces that are sampled, unless OTEL_TRACES_SAMPLER is set or the caller
// has decided.
const sampled = 0.01

// enabled is set while traces are exported.
var enabled atomic.Bool

// Process describes the process that begins the spans.
type Process struct{ Role, Instance, Version string }

// Start begins to export, if the environment names an endpoint; failed is called for every failure.
// close sends the remaining spans, as long as its context allows. A process has one exporter: a
// second call starts none.
func Start(ctx context.Context, p Process, failed func(error)) (close func(context.Context) error, err error) {
	nothing := func(context.Context) error { return nil }
	if !wanted() || !enabled.CompareAndSwap(false, true) {
		return nothing, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		enabled.Store(false)
		return nothing, fmt.Errorf("traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(serviceName.String("stillhere-"+p.Role), serviceVersion.String(p.Version),
			instance.String(p.Instance)), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		enabled.Store(false)
		return nothing, errors.Join(fmt.Errorf("traces: %w", err), exporter.Shutdown(ctx))
	}
	// The queue is bounded; further spans are dropped.
	options := []sdk.TracerProviderOption{sdk.WithBatcher(exporter), sdk.WithResource(described)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(sampled))))
	}
	provider := sdk.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	tracing.Export(span)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	return func(ctx context.Context) error {
		enabled.Store(false)
		tracing.Export(nil)
		if err := provider.Shutdown(ctx); err != nil {
			return fmt.Errorf("sending the last traces: %w", err)
		}
		return nil
	}, nil
}

func wanted() bool {
	if disabled, _ := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); disabled {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Handler begins a span for each request to next. route returns the span's name; empty: no span.
func Handler(next http.Handler, route func(*http.Request) string) http.Handler {
	if !enabled.Load() {
		return next
	}
	return otelhttp.NewHandler(next, "request",
		otelhttp.WithFilter(func(r *http.Request) bool { return route(r) != "" }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return route(r) }))
}

// span begins a span of a batch.
func span(ctx context.Context, b tracing.Batch) (within context.Context, end func(error)) {
	about := []attribute.KeyValue{system.String("kafka"), operation.String(b.What), destination.String(b.Topic),
		consumerGroup.String(b.Group), batchSize.Int(b.Records)}
	if b.Partition >= 0 {
		about = append(about, partition.String(strconv.Itoa(int(b.Partition))))
	}
	ctx, span := otel.Tracer("github.com/stillhere/stillhere").Start(ctx, b.What+" "+b.Topic,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
