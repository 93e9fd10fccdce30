package beat

import (
	"context"
	"fmt"
	"time"
)

// closeRetry is how long Close waits before it retries frames that Kafka did not acknowledge.
const closeRetry = 100 * time.Millisecond

// Close stops the gateway in order: it refuses further reports with ErrClosed, writes what is
// held, and then writes a draining frame to each partition in which the gateway has, or recently
// had, users. The detector then takes its silence for a planned stop, and its users get time to
// reconnect elsewhere. One log message confirms it.
//
// Close returns when Kafka has acknowledged everything or ctx ends; then the error says how many
// reports may be lost. Further calls do nothing.
func (b *Buffer) Close(ctx context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	defer b.giveUp()
	b.each(func(s *shard) { s.closed = true })
	close(b.closing)
	b.start.Do(func() { close(b.stopped) }) // nothing was ever reported
	select {
	case <-b.stopped:
	case <-ctx.Done():
		b.giveUp() // run may be waiting in an append
		<-b.stopped
		return b.unfinished(ctx)
	}
	devices := 0
	b.each(func(s *shard) { devices += s.queue.Devices() })
	for _, step := range []func() (finished bool){b.sendHeld, b.sendDraining} {
		for !step() {
			if !b.awaitAnswers(ctx) {
				return b.unfinished(ctx)
			}
		}
	}
	partitions := 0
	b.each(func(s *shard) {
		if s.drained {
			partitions++
		}
	})
	b.cfg.Log.Info("the gateway has drained: its devices have the reconnect window to come back through another",
		"gateway", b.cfg.GatewayID, "gateway_epoch", b.epoch, "devices", devices, "partitions", partitions)
	return nil
}

// sendHeld sends every report that waits. It is finished when all are written.
func (b *Buffer) sendHeld() (finished bool) {
	finished = true
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		finished = finished && s.queue.Unsent() == 0
		s.queue.Flush()
		s.mu.Unlock()
		b.sendReady(i)
	}
	return finished
}

// sendDraining sends the draining frames. It is finished when all are written.
func (b *Buffer) sendDraining() (finished bool) {
	finished = true
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		if s.drained || !s.queue.Alive(b.now()) {
			s.mu.Unlock()
			continue
		}
		finished = false
		batch := s.queue.SealDraining(b.now())
		s.mu.Unlock()
		b.send(i, batch)
	}
	return finished
}

// awaitAnswers waits until nothing is in flight, while it sends what becomes ready. If a frame
// failed, it also waits before the retry. It returns false if ctx ends.
func (b *Buffer) awaitAnswers(ctx context.Context) bool {
	for {
		flights := 0
		for i := range b.shards {
			b.sendReady(i)
		}
		b.each(func(s *shard) { flights += s.queue.Flights() })
		if flights == 0 {
			return !b.failed.Swap(false) || pause(ctx, closeRetry)
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *Buffer) unfinished(ctx context.Context) error {
	reports := 0
	b.each(func(s *shard) { reports += s.queue.Unsent() })
	return fmt.Errorf("closing gateway %s: %d reports and its draining frames are not known to be written: %w",
		b.cfg.GatewayID, reports, ctx.Err())
}
