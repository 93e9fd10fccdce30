package beat

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/schemas"
)

// pace is the least time between two rounds of urgent frames. The first urgent
// report leaves at once; those that follow share a frame.
const pace = 5 * time.Millisecond

// sweepEvery is how many flushes there are between two looks for devices that
// have fallen silent.
const sweepEvery = 5

// Run waits until Close is called or ctx ends. Calling it is not needed to send: the
// first report begins that. Close is the way to stop: the end of ctx drops what the
// client holds, like a crash, and every later report is refused with ErrClosed. It
// returns nil, or an error when it was called before.
func (c *Buffer) Run(ctx context.Context) error {
	c.life.Lock()
	if c.ran {
		c.life.Unlock()
		return errors.New("running the presence client: it has been run already")
	}
	c.ran = true
	c.life.Unlock()
	c.begin()
	c.life.Lock()
	running := c.running
	c.life.Unlock()
	if running == nil {
		return nil // closed before
	}
	select {
	case <-running:
	case <-ctx.Done():
		c.takeNoMore()
		c.stopLoop()
		<-running
	}
	return nil
}

// begin starts the loop that sends, unless it runs or the client closes. Close waits
// for the loop.
func (c *Buffer) begin() {
	c.life.Lock()
	defer c.life.Unlock()
	c.started.Store(true)
	if c.running != nil || c.closed.Load() {
		return
	}
	c.running = make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		c.loop()
	}(c.running)
}

// takeNoMore makes every further report fail with ErrClosed.
func (c *Buffer) takeNoMore() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// loop sends what is reported, until Close begins or stopLoop is called.
func (c *Buffer) loop() {
	flush := time.NewTimer(c.untilFlush())
	defer flush.Stop()
	alive := time.NewTicker(aliveCheck)
	defer alive.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	wake := c.wake
	for flushes := 0; ; {
		select {
		case <-c.looping.Done():
			return
		case <-c.closing:
			return
		case <-wake:
			c.sendUrgent()
			wake = nil
			rest.Reset(pace)
		case <-rest.C:
			wake = c.wake
		case <-flush.C:
			flushes++
			c.flush(flushes%sweepEvery == 0)
			flush.Reset(c.untilFlush())
		case <-alive.C:
			c.sendAlive()
		}
	}
}

// untilFlush is the flush interval less up to a fifth.
func (c *Buffer) untilFlush() time.Duration {
	return c.cfg.FlushInterval - rand.N(c.cfg.FlushInterval/5+1)
}

func (c *Buffer) sendUrgent() {
	for i := range c.shards {
		if c.shards[i].hurry.Swap(false) {
			c.sendReady(i)
		}
	}
}

func (c *Buffer) flush(sweep bool) {
	var here, coalesced, shed int
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if sweep {
			s.queue.Sweep(c.now())
		}
		s.queue.Flush()
		n, m := s.queue.Counts()
		here, coalesced, shed = here+s.queue.Here(), coalesced+n, shed+m
		s.mu.Unlock()
		c.sendReady(i)
	}
	c.cfg.Metrics.Devices.Set(float64(here))
	c.cfg.Metrics.Coalesced(coalesced)
	c.cfg.Metrics.Shed(shed)
}

func (c *Buffer) sendAlive() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		b := s.queue.SealAlive(c.now(), c.cfg.AliveInterval)
		s.mu.Unlock()
		if b != nil {
			c.send(i, b)
		}
	}
}

// sendReady sends what may leave from a partition now.
func (c *Buffer) sendReady(partition int) {
	s := &c.shards[partition]
	for {
		s.mu.Lock()
		b := s.queue.Seal(c.now())
		s.mu.Unlock()
		if b == nil {
			return
		}
		c.send(partition, b)
	}
}

// send appends a batch, which it owns until Kafka's answer.
func (c *Buffer) send(partition int, b *coalesce.Batch) {
	b.Value = schemas.AppendFrame(b.Value[:0], schemas.FrameHead{
		Gateway: c.cfg.GatewayID, GatewayEpoch: c.epoch, Sequence: b.Sequence, Draining: b.Draining,
	}, b.Beats)
	record := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(partition), Value: b.Value}
	ctx, cancel := context.WithTimeout(c.base, c.cfg.AppendTimeout)
	sealed := time.Now()
	c.log.Append(ctx, record, func(err error) {
		cancel()
		c.cfg.Metrics.Appended(kindOf(b), len(b.Beats), time.Since(sealed), err)
		c.settle(&c.shards[partition], b, err == nil)
	})
}

func kindOf(b *coalesce.Batch) string {
	switch {
	case b.Draining:
		return "draining"
	case len(b.Beats) == 0:
		return "alive"
	}
	return "beats"
}

// settle runs on whatever goroutine the log answers from.
func (c *Buffer) settle(s *shard, b *coalesce.Batch, written bool) {
	s.mu.Lock()
	s.drained = s.drained || written && b.Draining
	s.queue.Settle(c.now(), b, written)
	more, closed := s.queue.Ready(), s.closed
	s.mu.Unlock()
	if more {
		c.nudge(s)
	}
	if closed {
		if !written {
			c.failed.Store(true)
		}
		c.signal()
	}
}
