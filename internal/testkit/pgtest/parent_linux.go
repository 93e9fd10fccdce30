package pgtest

import "syscall"

// goesDownWithUs has the server stop when a test is killed.
func goesDownWithUs(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	a.Pdeathsig = syscall.SIGQUIT
	return a
}
