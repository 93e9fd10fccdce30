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

// sampled is the share of traces that are kept unless OTEL_TRACES_SAMPLER or the
// caller says otherwise.
const sampled = 0.01

// enabled spares everybody the work when nothing is exported.
var enabled atomic.Bool

// Process is who the spans are of.
type Process struct{ Role, Instance, Version string }

// Start begins to export, if the environment names an endpoint; told is called for
// every failure to. Close sends what is left, as long as its context allows. There is
// one exporter in a process: the second caller gets the first one's spans.
func Start(ctx context.Context, p Process, told func(error)) (close func(context.Context) error, err error) {
	nothing := func(context.Context) error { return nil }
	if !wanted() || !enabled.CompareAndSwap(false, true) {
		return nothing, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		enabled.Store(false)
		return nothing, fmt.Errorf("traces: %w", err)
	}
	own := resource.NewSchemaless(serviceName.String("stillhere-"+p.Role), serviceVersion.String(p.Version), instance.String(p.Instance))
	described, err := resource.New(ctx, resource.WithAttributes(own.Attributes()...), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		enabled.Store(false)
		return nothing, errors.Join(fmt.Errorf("traces: %w", err), exporter.Shutdown(ctx))
	}
	// The queue is bounded; what does not fit is dropped.
	options := []sdk.TracerProviderOption{sdk.WithBatcher(exporter), sdk.WithResource(described)}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(sampled))))
	}
	provider := sdk.NewTracerProvider(options...)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	tracing.Export(span)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(told))
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

// Handler starts a span for each request to next. route names the span; a request for which it
// is empty has none.
func Handler(next http.Handler, route func(*http.Request) string) http.Handler {
	if !enabled.Load() {
		return next
	}
	return otelhttp.NewHandler(next, "request", otelhttp.WithFilter(func(r *http.Request) bool { return route(r) != "" }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return route(r) }))
}

// span begins a span of a batch.
func span(ctx context.Context, b tracing.Batch) (within context.Context, end func(error)) {
	about := []attribute.KeyValue{system.String("kafka"), operation.String(b.What), destination.String(b.Topic), consumerGroup.String(b.Group), batchSize.Int(b.Records)}
	if b.Partition >= 0 {
		about = append(about, partition.String(strconv.Itoa(int(b.Partition))))
	}
	ctx, span := otel.Tracer("github.com/stillhere/stillhere").Start(ctx, b.What+" "+b.Topic, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about...))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
