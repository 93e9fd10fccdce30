//go:build !linux

package pgtest

import "syscall"

// Elsewhere tests do not run as root, and the server of a killed test goes on.
func runAs(*account) *syscall.SysProcAttr         { return &syscall.SysProcAttr{} }
func stopsWithTest(*account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
