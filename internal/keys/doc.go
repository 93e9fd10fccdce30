// Package keys reads certificates, passwords and tokens from where operators put
// them, and reads them again for every connection: what is renewed is used
// without a restart, and connections that are open stay as they are.
//
// It knows no server: the wiring hands its dialers and functions to the Kafka,
// Redis and other clients.
package keys
