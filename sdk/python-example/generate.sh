#!/usr/bin/env bash
# Makes stillhere/v1 of schemas/proto. Needs protoc (package protobuf-compiler).
set -euo pipefail
cd "$(dirname "$0")"
rm -rf stillhere
protoc -I ../../schemas/proto --python_out=. ../../schemas/proto/stillhere/v1/*.proto
