#!/usr/bin/env bash
# Regenerates schemas/stillherev1 and sdk/python-example/stillhere from schemas/proto. Needs protoc (package
# protobuf-compiler); the Go plugin is built at the version named in go.mod.
set -euo pipefail
cd "$(dirname "$0")"
plugin=$(mktemp -d)
trap 'rm -rf "$plugin"' EXIT
go build -o "$plugin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
protoc --plugin="$plugin/protoc-gen-go" -I proto \
  --go_out=.. --go_opt=module=github.com/stillhere/stillhere \
  proto/stillhere/v1/*.proto
../sdk/python-example/generate.sh
