// Package app assembles the services into processes.
//
// roles.go has the table of roles, and says which parts each of them uses. shared.go makes these
// parts, each once in a process. The constructor of a role returns a component: services to run,
// readiness checks, closers and HTTP routes (component.go). Run starts
// the services and stops them in order: HTTP servers first, then what holds input that it
// has not handed on, then the consumer loops (lifecycle.go). It checks its dependencies
// before anything starts, so that a process that cannot work ends with one clear error.
//
// RunDev is the same wiring on embedded servers.
package app
