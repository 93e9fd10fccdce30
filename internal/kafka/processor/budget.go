package processor

import (
	"time"

	"github.com/stillhere/stillhere/internal/stream"
)

// Brokers abort a transaction that takes longer than its timeout, and a retry that is as large would
// be aborted again. So a transaction is bounded by what is written in it, and by less while the
// brokers are slow. Where a transaction ends changes nothing in what is written: a task has the same
// output after the same records.

// budget is how much output is allowed still.
type budget struct {
	records, bytes int
	counted        int // records of the outbox
	parts          int // how often spend found new ones
}

func (b *budget) exhausted() bool { return b.records <= 0 || b.bytes <= 0 }

// spend counts what was added to the outbox since the last call.
func (b *budget) spend(out *stream.Outbox) {
	for i := b.counted; i < len(out.Records); i++ {
		b.bytes -= len(out.Records[i].Key) + len(out.Records[i].Value)
	}
	if n := len(out.Records); n > b.counted {
		b.records -= n - b.counted
		b.counted = n
		b.parts++
	}
}

// maxLimitShift is where halving ends: 24 halvings make a byte of 16 MiB.
const maxLimitShift = 24

// transactionLimit is how much one transaction may hold. The output of one record is
// written even if it is larger.
func (p *Processor) transactionLimit() budget {
	shift := p.limitShift.Load()
	return budget{
		records: max(p.Config.MaxTransactionRecords>>shift, 1),
		bytes:   max(p.Config.MaxTransactionBytes>>shift, 1),
	}
}

// transactionFull reports whether the transaction holds as much as it may.
func (s *session) transactionFull() bool {
	limit := s.proc.transactionLimit()
	return len(s.outputs) >= limit.records || s.outputBytes >= limit.bytes
}

// budgetShare is the budget of each of so many partitions, in the next transaction or in the one that is open.
func (s *session) budgetShare(partitions int, next bool) budget {
	left := s.proc.transactionLimit()
	if !next {
		left.records, left.bytes = left.records-len(s.outputs), left.bytes-s.outputBytes
	}
	partitions = max(partitions, 1)
	return budget{
		records: max(left.records/partitions, 1),
		bytes:   max(left.bytes/partitions, 1),
	}
}

// nearLimit reports whether the transaction held at least half of what it might.
func (s *session) nearLimit() bool {
	limit := s.proc.transactionLimit()
	return len(s.outputs) >= max(limit.records/2, 1) || s.outputBytes >= max(limit.bytes/2, 1)
}

// adjustLimit sets how much the next transaction may hold by how long the last one took.
func (s *session) adjustLimit(took time.Duration) {
	switch {
	case took > s.Config.SessionTimeout/2:
		s.shrinkLimit(1)
	case took < s.Config.SessionTimeout/6 && s.nearLimit() && s.proc.limitShift.Load() > 0:
		s.proc.limitShift.Add(-1)
	}
}

// shrinkLimit halves what a transaction may hold, after one that was too slow or did not end, unless
// that one could not have been smaller.
func (s *session) shrinkLimit(times int32) {
	if !s.nearLimit() || s.outputParts < 2 {
		return
	}
	to := min(s.proc.limitShift.Load()+times, maxLimitShift)
	if s.proc.limitShift.Swap(to) != to {
		limit := s.proc.transactionLimit()
		s.Log.Warn("the brokers are slow; transactions get smaller", "records", limit.records, "bytes", limit.bytes)
	}
}

// transactionTimeout is how long the brokers leave a transaction open that nobody ends: as long as
// the group waits for a silent member, so that a dead member's transaction is over when its
// successor starts. After a commit that took almost as long, the next session gets twice that:
// brokers so slow would abort every transaction.
func (p *Processor) transactionTimeout() time.Duration {
	if p.slowBrokers.Load() {
		return 2 * p.Config.SessionTimeout
	}
	return p.Config.SessionTimeout
}

// adjustTimeout sets slowBrokers by how long a transaction took, whether it was committed or not.
func (s *session) adjustTimeout(took time.Duration) {
	switch timeout := s.Config.SessionTimeout; {
	case took > timeout*2/3 && !s.proc.slowBrokers.Swap(true):
		s.Log.Warn("a transaction took almost as long as its timeout; the next session doubles the timeout", "took", took)
	case took < timeout/6:
		s.proc.slowBrokers.Store(false)
	}
}
