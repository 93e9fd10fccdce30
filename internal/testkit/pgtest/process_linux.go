package pgtest

import "syscall"

// runAs makes a process one of who, if not nil.
func runAs(who *account) *syscall.SysProcAttr {
	if who == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.user, Gid: who.group}}
}

// stopsWithTest is runAs for a server that stops when the test is killed.
func stopsWithTest(who *account) *syscall.SysProcAttr {
	a := runAs(who)
	a.Pdeathsig = syscall.SIGQUIT
	return a
}
