// Package client is the Go API of Stillhere for programs outside this repository. This
// package has what its parts share: how to reach Kafka and the HTTP endpoints, and errors.
//
//	client/gateway      report who is connected, straight to Kafka
//	client/presence     read who is online, and what changed
//	client/watch        receive changes as they happen
//	client/deliveries   run a notification channel
//	client/clienttest   a server in the test's process
//
// All of them are set up alike: fill in a Config, whose comments have the defaults in
// brackets; Validate reports all its faults, joined, each as a *schemas.FieldError that
// names the field. What is set up is used from any goroutine, and ended by Close or by the
// end of a context.
//
// # Stability
//
// The exported names of these packages and of package schemas are stable: they change in a
// new major version alone. Fields and constants may be added, so write struct literals with
// field names. Do not import other packages of this module.
package client
