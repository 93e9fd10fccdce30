package processor

import (
	"time"

	"github.com/stillhere/stillhere/internal/stream"
)

// A transaction has a time limit at the brokers, and one that is aborted would be tried
// with as much or more. So it is bounded by what is written in it, and by less
// where the brokers were slow. Where a transaction ends changes nothing in what is
// written: a task puts out the same after the same records.

// budget is how much may still be put out.
type budget struct {
	records, bytes int
	counted        int // of the outbox
	parts          int // how often something has come to it
}

func (r *budget) exhausted() bool { return r.records <= 0 || r.bytes <= 0 }

// spend counts what has come to the outbox since the last call.
func (r *budget) spend(out *stream.Outbox) {
	for i := r.counted; i < len(out.Records); i++ {
		r.bytes -= len(out.Records[i].Key) + len(out.Records[i].Value)
	}
	if n := len(out.Records); n > r.counted {
		r.records -= n - r.counted
		r.counted = n
		r.parts++
	}
}

// maxLimitShift is where halving ends.
const maxLimitShift = 24 // halves 16 MiB to a byte

// transactionLimit is how much one transaction may hold. Whatever one record, or one slice of it,
// leads to is written all the same.
func (p *Processor) transactionLimit() budget {
	narrow := p.limitShift.Load()
	return budget{records: max(p.cfg.MaxTransactionRecords>>narrow, 1), bytes: max(p.cfg.MaxTransactionBytes>>narrow, 1)}
}

// transactionFull tells whether the transaction holds as much as it may.
func (s *session) transactionFull() bool {
	limit := s.proc.transactionLimit()
	return len(s.outputs) >= limit.records || s.outputBytes >= limit.bytes
}

// budgetShare is the room of each of so many partitions.
func (s *session) budgetShare(partitions int) budget {
	limit := s.proc.transactionLimit()
	partitions = max(partitions, 1)
	return budget{records: max((limit.records-len(s.outputs))/partitions, 1), bytes: max((limit.bytes-s.outputBytes)/partitions, 1)}
}

// nearLimit tells whether the transaction held about as much as it might.
func (s *session) nearLimit() bool {
	limit := s.proc.transactionLimit()
	return len(s.outputs) >= max(limit.records/2, 1) || s.outputBytes >= max(limit.bytes/2, 1)
}

// adjustLimit learns from how long a transaction took how much the next may hold.
func (s *session) adjustLimit(took time.Duration) {
	switch {
	case took > s.proc.cfg.SessionTimeout/2:
		s.shrinkLimit(1)
	case took < s.proc.cfg.SessionTimeout/6 && s.nearLimit() && s.proc.limitShift.Load() > 0:
		s.proc.limitShift.Add(-1)
	}
}

// shrinkLimit halves what a transaction may hold, after one that was too slow or did not
// end, unless that one could not have been smaller.
func (s *session) shrinkLimit(times int32) {
	if !s.nearLimit() || s.outputParts < 2 {
		return
	}
	t := s.proc
	to := min(t.limitShift.Load()+times, maxLimitShift)
	if t.limitShift.Swap(to) != to {
		limit := t.transactionLimit()
		t.log.Warn("the brokers are slow; transactions get smaller", "records", limit.records, "bytes", limit.bytes)
	}
}
