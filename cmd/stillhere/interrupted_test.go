package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/replay"
)

type closed struct{ io.Writer }

func (closed) Close() error { return nil }

func TestAnInterruptedCommandWritesNoFileAndFails(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "states.csv")
	for _, of := range []struct {
		interrupt bool
		err       error
		want      string
	}{
		{true, context.Canceled, "interrupted after 1,234 rows: --out is not written"},
		{false, errors.New("the topic is gone"), "the topic is gone"},
	} {
		file, err := replay.Create(name)
		must.Do(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		if of.interrupt {
			cancel()
		}
		out := &outputFile{Writer: file, file: file}
		err = out.end(ctx, closed{file}, 1234, of.err)
		cancel()
		if err == nil || !strings.Contains(err.Error(), of.want) || errors.Is(err, context.Canceled) {
			t.Errorf("the command ends with %v, want %q", err, of.want)
		}
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file is there: %v", err)
		}
	}
	out := &outputFile{Writer: io.Discard}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := out.end(ctx, closed{io.Discard}, 2, context.Canceled); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("the command ends with %v", err)
	}
}
