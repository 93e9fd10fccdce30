package beat

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stillhere/stillhere/internal/coalesce"
	"github.com/stillhere/stillhere/schemas"
)

// pace is the shortest time between two rounds of urgent frames. The first urgent report is sent
// at once; those that follow share a frame.
const pace = 5 * time.Millisecond

// sweepEvery is how many flushes there are between two searches for devices that have fallen
// silent.
const sweepEvery = 5

// run sends what is reported until Close begins.
func (b *Buffer) run() {
	defer close(b.stopped)
	flush := time.NewTimer(b.untilFlush())
	defer flush.Stop()
	alive := time.NewTicker(aliveCheck)
	defer alive.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	wake := b.wake
	for flushes := 0; ; {
		select {
		case <-b.closing:
			return
		case <-wake:
			b.sendUrgent()
			wake = nil
			rest.Reset(pace)
		case <-rest.C:
			wake = b.wake
		case <-flush.C:
			flushes++
			b.flush(flushes%sweepEvery == 0)
			flush.Reset(b.untilFlush())
		case <-alive.C:
			b.sendAlive()
		}
	}
}

// untilFlush is the flush interval less up to a fifth.
func (b *Buffer) untilFlush() time.Duration {
	return b.cfg.FlushInterval - rand.N(b.cfg.FlushInterval/5+1)
}

func (b *Buffer) sendUrgent() {
	for i := range b.shards {
		if b.shards[i].hurry.Swap(false) {
			b.sendReady(i)
		}
	}
}

func (b *Buffer) flush(sweep bool) {
	var devices, coalesced, dropped int
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		if sweep {
			s.queue.Sweep(b.now())
		}
		s.queue.Flush()
		n, m := s.queue.Counts()
		devices, coalesced, dropped = devices+s.queue.Devices(), coalesced+n, dropped+m
		s.mu.Unlock()
		b.sendReady(i)
	}
	b.cfg.Metrics.Devices.Set(float64(devices))
	b.cfg.Metrics.Coalesced(coalesced)
	b.cfg.Metrics.dropped.Add(float64(dropped))
}

// sendAlive says that the gateway is there, where all detectors read it, while it has devices.
func (b *Buffer) sendAlive() {
	now := b.now()
	if now-b.aliveSent < b.cfg.AliveInterval || !b.hasDevices() || b.aliveInFlight.Swap(true) {
		return
	}
	b.aliveSent = now
	ctx, cancel := context.WithTimeout(b.base, b.cfg.AppendTimeout)
	value := schemas.AppendFrame(nil, schemas.FrameHead{Gateway: b.cfg.GatewayID, GatewayEpoch: b.epoch}, nil)
	b.log.Append(ctx, schemas.Outgoing{Topic: schemas.Gateways, Value: value}, func(err error) {
		cancel()
		b.cfg.Metrics.Appended("alive", 0, b.now()-now, err)
		if err == nil {
			b.settleAlive(now)
		}
		b.aliveInFlight.Store(false)
	})
}

func (b *Buffer) hasDevices() (has bool) {
	for i := 0; i < len(b.shards) && !has; i++ {
		s := &b.shards[i]
		s.mu.Lock()
		has = s.queue.Devices() > 0
		s.mu.Unlock()
	}
	return has
}

// settleAlive takes Kafka's answer to a frame that was sent at an instant. Between the frames before and after a gap
// there may be more time than between their answers.
func (b *Buffer) settleAlive(sent time.Duration) {
	now := b.now()
	if before := time.Duration(b.aliveWritten.Swap(int64(sent))); now-before > time.Duration(b.reportAgain.Load()) {
		b.each(func(s *shard) { s.queue.ReportAgain(now) })
	}
}

// sendReady sends the reports of a partition that may leave now.
func (b *Buffer) sendReady(partition int) {
	s := &b.shards[partition]
	for {
		s.mu.Lock()
		batch := s.queue.Seal(b.now())
		s.mu.Unlock()
		if batch == nil {
			return
		}
		b.send(partition, batch)
	}
}

// send appends a batch, which it owns until Kafka's answer.
func (b *Buffer) send(partition int, batch *coalesce.Batch) {
	batch.Value = schemas.AppendFrame(batch.Value[:0], schemas.FrameHead{
		Gateway: b.cfg.GatewayID, GatewayEpoch: b.epoch, Sequence: batch.Sequence, Draining: batch.Draining,
	}, batch.Beats)
	for _, row := range batch.Names {
		batch.Value = schemas.AppendNamedRow(batch.Value, row.Row, *row.Name)
	}
	record := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(partition), Value: batch.Value}
	ctx, cancel := context.WithTimeout(b.base, b.cfg.AppendTimeout)
	sealed := time.Now()
	b.log.Append(ctx, record, func(err error) {
		cancel()
		b.cfg.Metrics.Appended(kindOf(batch), len(batch.Beats), time.Since(sealed), err)
		b.settle(&b.shards[partition], batch, err == nil)
	})
}

func kindOf(batch *coalesce.Batch) string {
	if batch.Draining {
		return "draining"
	}
	return "beats"
}

// settle runs on a goroutine of the log.
func (b *Buffer) settle(s *shard, batch *coalesce.Batch, written bool) {
	s.mu.Lock()
	s.drained = s.drained || written && batch.Draining
	s.queue.Settle(b.now(), batch, written)
	more, closed := s.queue.Ready(), s.closed
	s.mu.Unlock()
	if more {
		b.hurry(s)
	}
	if closed {
		if !written {
			b.failed.Store(true)
		}
		b.signal()
	}
}
