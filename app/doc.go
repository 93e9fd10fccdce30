// Package app assembles the services into processes.
//
// roles.go has the table of roles. The constructor of a role takes a struct of dependencies
// and returns a component: services to run, readiness checks, closers and HTTP routes
// (component.go). shared.go has the parts that several roles of one process use. Run starts
// the services and stops them in order: HTTP servers first, then what holds input that it
// has not handed on, then the consumer loops (lifecycle.go). It checks its dependencies
// before anything starts, so that a process that cannot work ends with one clear error.
//
// RunDev is the same wiring on embedded servers.
package app
