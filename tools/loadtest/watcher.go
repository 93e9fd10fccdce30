package loadtest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// Watcher is a consumer of transitions that reads committed. It counts those of all partitions,
// whose handlers run at the same time.
type Watcher struct {
	Online, Offline atomic.Int64
	Late            LockedSpread // how late each Offline was seen
	seen            func(*schemas.Transition, time.Time)
}

// Watch starts one. seen, if not nil, is called for each transition.
func (r *Rig) Watch(seen func(*schemas.Transition, time.Time)) *Watcher {
	w := &Watcher{seen: seen}
	r.t.Go(consumer.New(r.Kafka, r.Kafka.Prefix+"watch", schemas.Transitions, stream.DecodeTransition, w, r.Producer,
		slog.New(slog.DiscardHandler), nil, consumer.WithoutGroup()).Run)
	return w
}

// Apply notes what has been published.
func (w *Watcher) Apply(_ context.Context, batch stream.Batch[stream.Logged[*schemas.Transition]]) error {
	now := time.Now()
	var late Spread
	var online int64
	for _, l := range batch.Items {
		switch l.Message.To {
		case schemas.Online:
			online++
		case schemas.Offline:
			late = append(late, now.Sub(l.Message.At.Time()))
		}
		if w.seen != nil {
			w.seen(l.Message, now)
		}
	}
	w.Late.Add(late)
	w.Online.Add(online)
	w.Offline.Add(int64(len(late)))
	return nil
}
