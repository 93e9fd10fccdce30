package contexts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestContextsThatAreAddedAtOnceAreAllKept(t *testing.T) {
	t.Parallel()
	const commands = 12
	path := filepath.Join(t.TempDir(), "folder", "contexts.yaml")
	var all sync.WaitGroup
	for i := range commands {
		all.Go(func() {
			err := Change(t.Context(), path, func(f *File) error {
				f.Contexts[fmt.Sprint("t", i)] = Settings{"url": "http://127.0.0.1:1"}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f, err := Read(path)
	if err != nil || len(f.Contexts) != commands {
		t.Errorf("%d of %d contexts are kept, %v", len(f.Contexts), commands, err)
	}
}

func TestAChangeThatFailsLeavesTheFileAndTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	no := errors.New("no")
	err := Change(t.Context(), path, func(f *File) error { f.Contexts["a"] = Settings{}; return no })
	if !errors.Is(err, no) {
		t.Error(err)
	}
	if err := Change(t.Context(), path, func(f *File) error { f.Contexts["b"] = Settings{}; return nil }); err != nil {
		t.Error(err)
	}
	if f, err := Read(path); err != nil || len(f.Contexts) != 1 {
		t.Errorf("%v, %v: want b alone", f, err)
	}
}

func TestAChangeWaitsForAnotherNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	err := Change(t.Context(), path, func(*File) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrBusy)
		return Change(ctx, path, func(*File) error { return nil })
	})
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), path+lockSuffix) {
		t.Errorf("got %v", err)
	}
}
