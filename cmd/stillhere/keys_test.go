package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestAPrintedKeyIsAFileThatRolesTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "frame.keys")
	for _, mode := range []os.FileMode{0o644, 0o640} {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode)
		if err == nil {
			err = printKey(file, signing.NewMaster().Hex())
		}
		must.Do(t, err)
		must.Do(t, file.Close())
	}
	if all, err := signing.ReadMasters(path); err != nil || len(all) != 2 {
		t.Errorf("read are %v, %v", all, err)
	}
}
