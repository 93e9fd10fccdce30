package auth

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestASecretInAFileIsReadOnceASecondAndAShortOneIsRefused(t *testing.T) {
	t.Parallel()
	file, now := filepath.Join(t.TempDir(), "secret"), time.Unix(1, 0)
	signer := &secretKey{secret: keys.Secret{File: file}, now: func() time.Time { return now }}
	if _, err := signer.key(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	one, two := strings.Repeat("1", minSecret), strings.Repeat("2", minSecret)
	for _, step := range []struct {
		write string
		pass  time.Duration
		want  string
	}{{one, 0, one}, {two, 999 * time.Millisecond, one}, {two, time.Millisecond, two}, {"short", time.Hour, two}, {"", time.Hour, two}} {
		must.Do(t, os.WriteFile(file, []byte(step.write), 0o600))
		now = now.Add(step.pass)
		if got, err := signer.key(nil); err != nil || string(got.([]byte)) != step.want {
			t.Errorf("after %s the key is %s %v, want %s", step.pass, got, err, step.want)
		}
	}
}
