//go:build unix

package pgtest

import "syscall"

// runAs makes a process one of who.
func runAs(who *account) *syscall.SysProcAttr {
	if who == nil {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.user, Gid: who.group}}
}
