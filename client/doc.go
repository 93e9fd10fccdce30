// Package client is the Go API of Stillhere for other programs. It has what its subpackages share:
// how to reach Kafka and the HTTP endpoints, and errors.
//
//	client/gateway      report which devices are connected, directly to Kafka
//	client/presence     read who is online, and the history of a user
//	client/watch        receive changes as they happen
//	client/deliveries   run a notification channel
//
// To test a program against the real service, run "stillhere dev": a whole pipeline in one process.
//
// All of them are used alike: fill in a Config, whose comments have the defaults in brackets.
// Validate reports all its faults, joined, each as a *schemas.FieldError that names the field. Any
// goroutine may use the result. Close or the end of a context stops it.
//
// # Stability
//
// The exported names of these packages and of package schemas are stable: only a new major version
// changes them. Fields and constants may be added, so write struct literals with field names. Do
// not import other packages of this module.
package client
