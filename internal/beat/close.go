package beat

import (
	"context"
	"fmt"
	"time"
)

// closeRetry is how long Close waits before it tries again what Kafka did not
// take.
const closeRetry = 100 * time.Millisecond

// Close ends the gateway in good order: it takes no more reports, waits for
// what it started to end, writes what is held, then tells each partition in which the gateway
// has users, or of late had, that it is draining: the detector takes its silence for
// a drain, not for a death, and its users get time to reconnect elsewhere. One line in
// the log says so.
// It returns when Kafka has all of it or ctx ends; then the error says how many
// reports are not known to be written. Further calls do nothing.
func (c *Buffer) Close(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	defer c.giveUp()
	defer c.stopLoop()
	c.takeNoMore()
	close(c.closing)
	c.life.Lock()
	running := c.running
	c.life.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			c.giveUp() // what the loop may be waiting in
			<-running
			return c.unfinished(ctx)
		}
	}
	devices := c.here()
	for _, step := range []func() (finished bool){c.sendHeld, c.sendDraining} {
		for !step() {
			if !c.answered(ctx) {
				return c.unfinished(ctx)
			}
		}
	}
	c.cfg.Log.Info("the gateway has drained: its devices have the reconnect window to come back through another", "gateway", c.cfg.GatewayID,
		"gateway_epoch", c.epoch, "devices", devices, "partitions", c.drained())
	return nil
}

// sendHeld sends every report that waits. It is finished when all are written.
func (c *Buffer) sendHeld() (finished bool) {
	finished = true
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		finished = finished && s.queue.Unsent() == 0
		s.queue.Flush()
		s.mu.Unlock()
		c.sendReady(i)
	}
	return finished
}

// sendDraining sends the draining frames. It is finished when all are written.
func (c *Buffer) sendDraining() (finished bool) {
	finished = true
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if s.drained || !s.queue.Lives(c.now()) {
			s.mu.Unlock()
			continue
		}
		finished = false
		b := s.queue.SealDraining(c.now())
		s.mu.Unlock()
		c.send(i, b)
	}
	return finished
}

// here is how many devices are here.
func (c *Buffer) here() (devices int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		devices += s.queue.Here()
		s.mu.Unlock()
	}
	return devices
}

// drained is how many partitions have a draining frame.
func (c *Buffer) drained() (partitions int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if s.drained {
			partitions++
		}
		s.mu.Unlock()
	}
	return partitions
}

// answered waits until nothing is in flight, sending what becomes ready, and
// then a moment if something failed. It reports false when ctx ends.
func (c *Buffer) answered(ctx context.Context) bool {
	for {
		flights := 0
		for i := range c.shards {
			s := &c.shards[i]
			c.sendReady(i)
			s.mu.Lock()
			flights += s.queue.Flights()
			s.mu.Unlock()
		}
		if flights == 0 {
			return !c.failed.Swap(false) || pause(ctx, closeRetry)
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return false
		}
	}
}

// pause waits for d; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Buffer) unfinished(ctx context.Context) error {
	reports := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		reports += s.queue.Unsent()
		s.mu.Unlock()
	}
	return fmt.Errorf("closing gateway %s: %d reports and its draining frames are not known to be written: %w",
		c.cfg.GatewayID, reports, ctx.Err())
}
