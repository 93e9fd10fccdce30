package testkit

import "syscall"

// attributes make sure that no process outlives a test binary that was itself
// killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
