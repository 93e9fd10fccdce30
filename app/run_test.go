package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// transcript is what was logged so far.
type transcript struct {
	mu   sync.Mutex
	text []byte
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	return len(b), nil
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func TestAProcessThatDoesNotBecomeReadySaysWhyNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged transcript
		var there, started atomic.Bool
		b := &builder{role: Role{needs: []string{"durable store"}}}
		b.log = slog.New(slog.NewTextHandler(&logged, nil))
		_ = b.add(component{checks: []check{{name: "durable store", ready: func(context.Context) error {
			if there.Load() {
				return nil
			}
			return errors.New("no database of that name")
		}}}}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.announce(func() { started.Store(true) }, false)(ctx) }()

		said := func(after time.Duration) int {
			time.Sleep(after)
			synctest.Wait()
			return strings.Count(logged.String(), "durable store: no database of that name")
		}
		if n := said(firstWarning - time.Second); n != 0 {
			t.Errorf("said %d times at once", n)
		}
		if n := said(2 * time.Second); n != 1 {
			t.Errorf("said %d times after %s", n, firstWarning)
		}
		if n := said(2 * warningInterval); n != 3 {
			t.Errorf("said %d times after two minutes more", n)
		}
		there.Store(true)
		if n := said(2 * warningInterval); n != 3 || !started.Load() {
			t.Errorf("said %d times when it was ready; started: %v", n, started.Load())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestUsersWhoHaveNamesNeedAKeyExceptInDev(t *testing.T) {
	t.Parallel()
	for _, role := range Roles {
		config := Defaults()
		config.Kafka.IDs = "text"
		if err := Check(role.Name, config); err == nil || !strings.Contains(err.Error(), "--ids text needs --identity-key-file") {
			t.Errorf("%s: %v", role.Name, err)
		}
	}
	dev := Dev{Config: Defaults(), DataDir: t.TempDir(), Partitions: 1}
	dev.Listen, dev.Admin, dev.KafkaListen = "127.0.0.1:0", "", "127.0.0.1:0"
	dev.Kafka.IDs = "text"
	if err := dev.check(); err != nil {
		t.Errorf("dev: %v", err)
	}
	dev.Kafka.IdentityKey = "short"
	if err := dev.check(); err == nil || !strings.Contains(err.Error(), "--identity-key-file: ") {
		t.Errorf("dev with a key that is none: %v", err)
	}
}

func TestAProcessStopsWithinItsLimit(t *testing.T) {
	t.Parallel()
	// Servers, the gateway's buffer, its producer; or a session that is just starting, then its client.
	if longest := max(shutdownTimeout+2*closeTimeout, kafka.OpenTimeout+closeTimeout); longest > StopLimit {
		t.Errorf("a process may take %s to stop, its limit is %s", longest, StopLimit)
	}
}
