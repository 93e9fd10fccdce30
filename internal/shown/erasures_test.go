package shown_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// topic is a follow.Log in memory, and what was heard of it.
type topic struct {
	mu     sync.Mutex // protects what follows
	first  int64
	values [][]byte
	fault  error // of the next calls
	heard  []schemas.UserID
}

func (l *topic) fail(err error) { l.mu.Lock(); defer l.mu.Unlock(); l.fault = err }

func (l *topic) hear(users []schemas.UserID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, users...)
}

// hasHeard is what was heard since the last call.
func (l *topic) hasHeard() []schemas.UserID {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	return heard
}

func (l *topic) add(users ...schemas.UserID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range schemas.ErasureRecords(users) {
		l.values = append(l.values, r.Value)
	}
}

func (l *topic) Bounds(context.Context, schemas.Topic, int32) (start, end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.first + int64(len(l.values)), l.fault
}

func (l *topic) Tail(ctx context.Context, _ schemas.Topic, _ int32, from int64, each func(*schemas.Record) error) error {
	for {
		l.mu.Lock()
		var values [][]byte
		if l.fault == nil {
			values = l.values[from-l.first:]
		}
		err := l.fault
		l.mu.Unlock()
		if err != nil {
			return err
		}
		for _, value := range values {
			if err := each(&schemas.Record{Offset: from, Value: value}); err != nil {
				return err
			}
			from++
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestOnlyErasuresThatComeAfterwardsAreHeardAndEachOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &topic{first: 70}
		log.add(1)
		f := shown.NewErasures(log, slog.New(slog.DiscardHandler))
		must.Do(t, f.Open(t.Context()))
		log.add(2) // before Run
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx, log.hear) }()
		hears := func(when string, want ...schemas.UserID) {
			t.Helper()
			time.Sleep(11 * time.Second)
			if got := log.hasHeard(); !slices.Equal(got, want) {
				t.Errorf("%s: heard of %v, want %v", when, got, want)
			}
		}
		hears("at first", 2)
		log.mu.Lock()
		log.values = append(log.values, []byte{0xff})
		log.mu.Unlock()
		log.add(3, 4)
		hears("after a record that cannot be read", 3, 4)
		log.fail(errors.New("no brokers"))
		log.add(5)
		hears("without Kafka")
		log.fail(nil)
		hears("with Kafka again", 5)
		log.fail(errors.New("no brokers"))
		hears("without Kafka")
		log.mu.Lock()
		log.first, log.values, log.fault = 0, nil, nil
		log.mu.Unlock()
		log.add(6)
		hears("of a recreated topic", 6)
		cancel()
		must.Do(t, <-ended)
	})
}
