// Package keys reads certificates, passwords and tokens again for every connection: renewed files
// are used without a restart, and open connections stay open.
//
// It knows no server: the wiring passes its dialers and functions to the Kafka, Redis and other
// clients.
package keys
