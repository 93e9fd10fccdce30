//go:build !linux

package pgtest

import "syscall"

// goesDownWithUs cannot be had here: after a test that was killed the server goes on.
func goesDownWithUs(a *syscall.SysProcAttr) *syscall.SysProcAttr { return a }
