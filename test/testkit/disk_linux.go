package testkit

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// SmallDisk mounts a file system in memory of so many bytes at dir, until the test ends. It skips the test
// where that is not allowed.
func SmallDisk(t *testing.T, dir string, size int) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
}
