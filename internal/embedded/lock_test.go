//go:build unix

package embedded

import (
	"syscall"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestADirectoryIsFreeOnceReleasedAlsoIfAChildThatStartsStillHoldsACopyOfItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock := must.Get(lockDir(dir))(t)
	copied, err := syscall.Dup(int(lock.file.Fd())) // what a child holds between fork and exec
	must.Do(t, err)
	t.Cleanup(func() { _ = syscall.Close(copied) })
	if second, err := lockDir(dir); err == nil {
		second.release()
		t.Fatal("two hold the directory")
	}
	lock.release()
	again := must.Get(lockDir(dir))(t)
	again.release()
}
