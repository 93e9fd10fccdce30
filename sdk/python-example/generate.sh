#!/usr/bin/env bash
# Makes stillhere/v1 of schemas/proto, and copies how frames are signed. Needs protoc (package protobuf-compiler).
set -euo pipefail
cd "$(dirname "$0")"
rm -rf stillhere
cp ../../schemas/examples/producers/signing.py stillhere_example/
protoc -I ../../schemas/proto --python_out=. ../../schemas/proto/stillhere/v1/*.proto
