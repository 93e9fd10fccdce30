//go:build synctests

package looptest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestATailHearsRecordsAsTheyComeUntilTheTopicIsRecreated(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		put := func(value string) {
			w.Helper()
			must.Do(w, w.producer.AppendSync(w.Context(), schemas.Outgoing{Topic: schemas.Transitions, Value: []byte(value)}))
		}
		put("before")
		put("first")
		reader := kafkatest.Reader(w, w.cfg)
		heard := make(chan string, 10)
		tail := func(ctx context.Context, from int64) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- reader.Tail(ctx, schemas.Transitions, 0, from, func(r *schemas.Record) error {
					heard <- string(r.Value)
					return nil
				})
			}()
			return ended
		}
		hears := func(want string) {
			w.Helper()
			began := time.Now()
			select {
			case got := <-heard:
				if took := time.Since(began); got != want || took > 100*time.Millisecond {
					w.Errorf("heard %q after %s, want %q", got, took, want)
				}
			case <-time.After(time.Minute):
				w.Fatalf("%q is not heard", want)
			}
		}
		ctx, cancel := context.WithCancel(w.Context())
		ended := tail(ctx, 1)
		hears("first")
		time.Sleep(time.Minute + 2*time.Second)
		put("second")
		hears("second")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("it ends with %v", err)
		}

		ended = tail(w.Context(), 2)
		hears("second")
		w.remake(schemas.Transitions)
		put("of another topic")
		select {
		case err := <-ended:
			if err == nil || kafka.Retriable(err) || len(heard) > 0 {
				w.Errorf("after the topic was recreated it ends with %v and has heard %d records", err, len(heard))
			}
		case <-time.After(time.Minute):
			w.Error("it goes on after the topic was recreated")
		}
		stop := errors.New("enough")
		if err := reader.Tail(w.Context(), schemas.Transitions, 0, 0, func(*schemas.Record) error { return stop }); !errors.Is(err, stop) {
			w.Errorf("it ends with %v", err)
		}
	})
}
