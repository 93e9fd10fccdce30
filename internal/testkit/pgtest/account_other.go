//go:build !unix

package pgtest

import "syscall"

// runAs leaves a process ours: there is no root who would have to become somebody else.
func runAs(*account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
