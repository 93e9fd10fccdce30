package kafka

import (
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// A transaction has a time limit at the brokers, and one that is aborted would be tried
// with as much or more. So it is bounded by what is written in it, and by less
// where the brokers were slow. Where a transaction ends changes nothing in what is
// written: a task puts out the same after the same records.

// room is how much may still be put out.
type room struct {
	records, bytes int
	counted        int // of the outbox
	parts          int // how often something has come to it
}

func (r *room) full() bool { return r.records <= 0 || r.bytes <= 0 }

// take counts what has come to the outbox since the last call.
func (r *room) take(out *schemas.Outbox) {
	for i := r.counted; i < len(out.Records); i++ {
		r.bytes -= len(out.Records[i].Key) + len(out.Records[i].Value)
	}
	if n := len(out.Records); n > r.counted {
		r.records -= n - r.counted
		r.counted = n
		r.parts++
	}
}

// maxNarrow is where halving ends.
const maxNarrow = 24 // halves 16 MiB to a byte

// limit is how much one transaction may hold. Whatever one record, or one slice of it,
// leads to is written all the same.
func (t *Transform) limit() room {
	narrow := t.narrow.Load()
	return room{records: max(t.cfg.MaxTransactionRecords>>narrow, 1), bytes: max(t.cfg.MaxTransactionBytes>>narrow, 1)}
}

// full tells whether the transaction holds as much as it may.
func (s *session) full() bool {
	limit := s.t.limit()
	return len(s.outputs) >= limit.records || s.outputBytes >= limit.bytes
}

// share is the room of each of so many partitions.
func (s *session) share(partitions int) room {
	limit := s.t.limit()
	partitions = max(partitions, 1)
	return room{records: max((limit.records-len(s.outputs))/partitions, 1), bytes: max((limit.bytes-s.outputBytes)/partitions, 1)}
}

// large tells whether the transaction held about as much as it might.
func (s *session) large() bool {
	limit := s.t.limit()
	return len(s.outputs) >= max(limit.records/2, 1) || s.outputBytes >= max(limit.bytes/2, 1)
}

// noteSize learns from how long a transaction took how much the next may hold.
func (s *session) noteSize(took time.Duration) {
	switch {
	case took > s.t.cfg.SessionTimeout/2:
		s.narrower(1)
	case took < s.t.cfg.SessionTimeout/6 && s.large() && s.t.narrow.Load() > 0:
		s.t.narrow.Add(-1)
	}
}

// narrower halves what a transaction may hold, after one that was too slow or did not
// end, unless that one could not have been smaller.
func (s *session) narrower(times int32) {
	if !s.large() || s.outputParts < 2 {
		return
	}
	t := s.t
	to := min(t.narrow.Load()+times, maxNarrow)
	if t.narrow.Swap(to) != to {
		limit := t.limit()
		t.log.Warn("the brokers are slow; less is written in one transaction from now on", "records", limit.records, "bytes", limit.bytes)
	}
}
