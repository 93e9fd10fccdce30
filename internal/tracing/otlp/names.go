package otlp

import (
	"go.opentelemetry.io/otel/attribute"
)

// The names of attributes are those of the semantic conventions for messaging,
// which are still in development: here and nowhere else.
const (
	system         = attribute.Key("messaging.system")
	operation      = attribute.Key("messaging.operation.name")
	destination    = attribute.Key("messaging.destination.name")
	partition      = attribute.Key("messaging.destination.partition.id")
	consumerGroup  = attribute.Key("messaging.consumer.group.name")
	batchSize      = attribute.Key("messaging.batch.message_count")
	instance       = attribute.Key("service.instance.id")
	serviceName    = attribute.Key("service.name")
	serviceVersion = attribute.Key("service.version")
)
