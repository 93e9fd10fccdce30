package detector

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stillhere/stillhere/detector/snapshot"
	"github.com/stillhere/stillhere/internal/crashpoint"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// A snapshot is written in the transactions of the records that are handled meanwhile, so a zombie's is never read.
// The commit of the transaction with its last chunk names it.

// Cadence is when snapshots are written; the zero value stands for the defaults in brackets. It decides nothing else.
type Cadence struct {
	// Factor [5]: the heartbeats since the last snapshot are so many times as large.
	Factor int
	// Least [15s] and Most [5m] bound the log time since the last one began.
	Least, Most time.Duration
	// Step [256] is about how many users one record writes.
	Step int
}

func (c Cadence) withDefaults() Cadence {
	c.Factor, c.Step = cmp.Or(c.Factor, 5), cmp.Or(c.Step, 256)
	c.Least, c.Most = cmp.Or(c.Least, 15*time.Second), cmp.Or(c.Most, schemas.LatestSnapshot)
	return c
}

// maxChunk bounds a chunk: the record that completes one waits for its memory.
const maxChunk = 128 << 10

// maxChunks bounds the chunks of a snapshot: 8 GiB.
const maxChunks = 1 << 16

// snapshots are the snapshots of a partition.
type snapshots struct {
	named schemas.SnapshotName // the last complete one
	size  int                  // of it, in bytes
	at    schemas.Millis       // log time of it
	begun schemas.Millis       // log time at its beginning, or at that of the one under way
	since int                  // bytes of heartbeats since then
	due   bool                 // there is none: write one with the next record
	*capture
}

// capture is a snapshot under way.
type capture struct {
	name  schemas.SnapshotName
	codec snapshot.Codec
	size  int
	sum   hash.Hash
	added int  // bytes of the codec that are in the sum
	users bool // are written
	at    schemas.Millis
	began time.Time
}

// before is called before a record is applied. Without a snapshot it writes one.
func (s *snapshots) before(p *Partition, r *schemas.Record, out *stream.Outbox) {
	if !s.due {
		return
	}
	s.due = false
	defer s.paused(p, p.config.Now())
	s.begin(p)
	s.begun = max(s.begun, r.Time) // the first record has the first time
	s.capture.at = s.begun
	for s.capture != nil {
		s.more(p, 1<<20, out)
	}
}

// after is called after a record was handled.
func (s *snapshots) after(p *Partition, r *schemas.Record, out *stream.Outbox) {
	s.since += len(r.Value)
	if p.frame.Tick {
		p.config.Metrics.snapshot(p.id, p.machine.LogTime()-s.at, s.size)
	}
	if s.capture == nil && !s.isTime(p) {
		return
	}
	defer s.paused(p, p.config.Now())
	if s.capture == nil {
		s.begin(p)
	}
	users := p.config.Snapshots.Step
	if p.frame.Tick {
		// Users who are held send nothing: there may be no other records than ticks, four a second meanwhile. So it is done
		// in minutes.
		users = max(8*users, p.machine.Users()/480)
	}
	s.more(p, users, out)
}

// maxAtStop bounds a snapshot at a stop, by the size of the last one: a larger one would not be written in the
// seconds that a stop has.
const maxAtStop = 128 << 20

// Stop writes a part of a snapshot of the state after the record handled last, so that the next start reads no
// heartbeat again, and reports whether more is to come.
func (p *Partition) Stop(out *stream.Outbox) (more bool) {
	s := &p.snapshots
	switch {
	case s.due || len(p.rejected) > 0 || s.named.Next == p.next || s.size > maxAtStop:
		return false
	case s.capture == nil || s.name.Next != p.next:
		s.begin(p)
	}
	s.more(p, 1<<15, out)
	return s.capture != nil
}

// isTime reports whether the next snapshot begins.
func (s *snapshots) isTime(p *Partition) bool {
	c, age := &p.config.Snapshots, p.machine.LogTime()-s.begun
	over := func(d time.Duration) bool { return age >= schemas.Millis(d.Milliseconds()) }
	return s.named.Chunks == 0 || over(c.Most) || over(c.Least) && s.since >= c.Factor*s.size
}

// paused counts how long a record waited for the work on a snapshot.
func (s *snapshots) paused(p *Partition, since time.Time) {
	p.config.Metrics.SnapshotPause.Observe(p.config.Now().Sub(since).Seconds())
}

// begin begins a snapshot of the state after the record handled last.
func (s *snapshots) begin(p *Partition) {
	c := &capture{name: schemas.SnapshotName{ID: rand.Uint64(), Next: p.next}, sum: sha256.New(), at: p.machine.LogTime(), began: p.config.Now()}
	s.capture, s.begun, s.since = c, p.machine.LogTime(), 0
	crashpoint.At("snapshot.begun")
	p.head(&c.codec)
	p.machine.Capture(&c.codec)
	if p.names != nil {
		p.names.beginCapture()
	}
}

// more writes about so many users.
func (s *snapshots) more(p *Partition, users int, out *stream.Outbox) {
	c := s.capture
	complete := c.write(p, users)
	c.sum.Write(c.codec.Bytes[c.added:])
	c.added = len(c.codec.Bytes)
	for len(c.codec.Bytes) >= maxChunk || complete && len(c.codec.Bytes) > 0 {
		chunk := c.codec.Bytes[:min(maxChunk, len(c.codec.Bytes))]
		c.size += len(chunk)
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Snapshots, Partition: p.id, Key: c.name.Key(c.name.Chunks), Value: chunk})
		c.name.Chunks++
		crashpoint.At("snapshot.chunk")
		c.codec.Bytes = slices.Clone(c.codec.Bytes[len(chunk):]) // the record keeps the array
		c.added = len(c.codec.Bytes)
	}
	if complete {
		copy(c.name.Sum[:], c.sum.Sum(nil))
		out.Records = append(out.Records, manifest(p.id, c.name))
		s.named, s.size, s.at, s.capture = c.name, c.size, c.at, nil
		p.config.Metrics.SnapshotTime.Observe(p.config.Now().Sub(c.began).Seconds())
		crashpoint.At("snapshot.complete")
	}
}

// write adds users to the codec, then names, and reports whether that was all.
func (c *capture) write(p *Partition, n int) (complete bool) {
	if !c.users {
		if c.users = p.machine.CaptureMore(n); !c.users {
			return false
		}
		if p.names != nil {
			c.codec.Length(p.names.capture.count)
		}
	}
	return p.names == nil || p.names.captureMore(&c.codec, n)
}

// loadNamed brings the partition to the state of a snapshot, whose chunks end before the offset end; -1: at the end.
// An error that is errState says why it cannot be used.
func (p *Partition) loadNamed(ctx context.Context, name schemas.SnapshotName, end int64, read stream.ReadFunc) error {
	if name.Chunks < 0 || name.Chunks > maxChunks {
		return fmt.Errorf("%w: it cannot have %d chunks", errState, name.Chunks)
	}
	chunks, found := make([][]byte, name.Chunks), 0
	take := func(r *schemas.Record) error {
		if i, ok := name.Chunk(r.Key); ok && chunks[i] == nil {
			chunks[i] = bytes.Clone(r.Value)
			if found++; found == name.Chunks {
				return errStop
			}
		}
		return nil
	}
	// Each chunk may have a transaction of its own, with a marker. After those of the snapshot come some of the next one.
	near := int64(8*name.Chunks + 64)
	from := stream.Last(near)
	if end >= 0 {
		from = max(0, end-near)
	}
	for _, from := range []int64{from, -1} {
		if found == name.Chunks {
			break
		}
		if err := read(ctx, schemas.Snapshots, from, end, take); err != nil && !errors.Is(err, errStop) {
			return fmt.Errorf("reading the snapshot: %w", err)
		}
	}
	if found < name.Chunks {
		return fmt.Errorf("%w: %d of its %d chunks are there", errState, found, name.Chunks)
	}
	state := slices.Concat(chunks...)
	if sum := sha256.Sum256(state); !bytes.Equal(sum[:len(name.Sum)], name.Sum[:]) {
		return fmt.Errorf("%w: its digest is another one", errState)
	}
	if err := p.load(state); err != nil {
		return err
	}
	if p.next != name.Next {
		return fmt.Errorf("%w: it is of offset %d, not %d", errState, p.next, name.Next)
	}
	p.snapshots = snapshots{named: name, size: len(state), at: p.machine.LogTime(), begun: p.machine.LogTime()}
	return nil
}
