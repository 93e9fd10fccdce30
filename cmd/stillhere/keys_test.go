package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/signing"
)

func TestAPrintedKeyIsAFileThatRolesTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "frame.keys")
	for _, mode := range []os.FileMode{0o644, 0o640} {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, mode)
		if err == nil {
			err = printKey(file, signing.NewMaster().Hex())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := signing.ReadMasters(path); err != nil || len(all) != 2 {
		t.Errorf("read are %v, %v", all, err)
	}
}
