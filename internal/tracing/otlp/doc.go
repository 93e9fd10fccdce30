// Package otlp sends OpenTelemetry traces to an OTLP endpoint over HTTP, if the environment sets
// one.
//
// The standard variables apply: OTEL_EXPORTER_OTLP_ENDPOINT (or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) with their headers, timeouts and
// certificates, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME, OTEL_SDK_DISABLED.
//
// # What has a span
//
// An HTTP request, but not a socket or a stream, which last for hours. A transaction of the
// exactly-once loop, from the beginning to the end of its commit. A batch that a consumer applies
// to a store. Never a heartbeat or a record: there are millions a second.
//
// Any goroutine may call every function.
package otlp
