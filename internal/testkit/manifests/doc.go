// Package manifests reads what people deploy Stillhere with, docker-compose.yml,
// the Dockerfile and the files under deploy/, so that tests can check it
// without a Docker engine: against the command line (cmd/stillhere), against the
// repository (here) and against running processes (test/process).
package manifests
