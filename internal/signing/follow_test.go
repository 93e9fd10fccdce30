package signing

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

func TestKeysFollowTheirFileOnceItStaysAsItIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "frame.keys")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	first, second := masterOf(1), masterOf(2)
	write(first.Hex())
	synctest.Test(t, func(t *testing.T) {
		keys := must.Get(Open(path))(t)
		write(second.Hex()) // before Follow looks
		var warnings bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go keys.Follow(ctx, time.Second, slog.New(slog.NewTextHandler(&warnings, nil)))
		after := func(looks int, want string) {
			t.Helper()
			time.Sleep(time.Duration(looks) * time.Second)
			synctest.Wait()
			if got := keys.Fingerprints(); got != want {
				t.Errorf("after %d looks the masters are %s, want %s", looks, got, want)
			}
		}
		after(2, second.Fingerprint())
		write(first.Hex())
		after(3, first.Fingerprint())
		write(first.Hex() + "\n" + second.Hex()[:20])
		after(3, first.Fingerprint())
		if !strings.Contains(warnings.String(), "is not used") {
			t.Errorf("the log says %s", warnings.String())
		}
		write(second.Hex() + "\n")
		after(1, first.Fingerprint()) // it may still be written
		write(second.Hex() + "\n" + first.Hex())
		after(1, first.Fingerprint())
		after(1, second.Fingerprint()+" "+first.Fingerprint())
	})
}
