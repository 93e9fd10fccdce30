//go:build unix && !linux

package testkit

import "testing"

// SmallDisk skips the test.
func SmallDisk(t *testing.T, _ string, _ int) {
	t.Helper()
	t.Skip("a small file system can be mounted on Linux only")
}
