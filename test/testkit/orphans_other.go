//go:build unix && !linux

package testkit

import "syscall"

// attributes: only Linux ends a process together with the one that started it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
