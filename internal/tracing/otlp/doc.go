// Package otlp is OpenTelemetry for Stillhere: traces go to an OTLP endpoint
// over HTTP when one is set in the environment, else nothing is done.
//
// The standard variables count: OTEL_EXPORTER_OTLP_ENDPOINT (or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) with their headers, timeouts and
// certificates, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SERVICE_NAME, OTEL_SDK_DISABLED.
//
// # What has a span
//
// A request at a door, but not a socket or a stream, which last for hours. A
// transaction of the exactly-once loop, from its commit's beginning to its end. A
// batch that a follower applies to a store. Never a heartbeat or a record: there are
// a hundred million a second.
//
// Any goroutine may call everything here.
package otlp
