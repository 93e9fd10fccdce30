package schemas

import "embed"

// The documents of what others may count on; the roles with doors serve them at
// /openapi.yaml and /asyncapi.yaml.
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
