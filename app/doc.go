// Package app is the roof: it alone knows how the rooms are run.
//
// Each role is one short function in roles.go that asks the builder (builder.go) for
// what it needs, Kafka, Redis, the durable store, and adds its services, doors and
// readiness checks. Run starts them and stops them in order: doors first, then
// what holds input that has not been handed on, then the loops (lifecycle.go).
// What may be missing is asked for before anything starts, so that a process
// that cannot work ends with one clear line and nothing half started.
//
// Dev is the same wiring on servers inside the process.
package app
