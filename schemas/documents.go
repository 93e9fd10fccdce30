package schemas

import "embed"

// The public contract. Every role with an HTTP API serves it at /openapi.yaml and /asyncapi.yaml.
var (
	//go:embed openapi.yaml
	OpenAPI []byte
	//go:embed asyncapi.yaml
	AsyncAPI []byte
)

// Definitions are the files of the messages, under proto/.
//
//go:embed proto
var Definitions embed.FS
