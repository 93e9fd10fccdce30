package processor

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// dispatch lets the partitions handle their records, all at the same time. What they add is for the transaction
// that is open, or for the next one, if that is committed meanwhile.
func (s *session) dispatch(next bool) {
	share := s.budgetShare(len(s.batches), next)
	for i := range s.batches {
		s.batches[i].part.work <- workItem{records: s.batches[i].records, budget: share}
	}
	s.dispatched = true
}

// take waits for the partitions that handle records, and writes their output into the transaction. What does not
// fit stays in s.batches. A full transaction is committed before more is written.
func (s *session) take() error {
	if !s.dispatched {
		return nil
	}
	var fatal error
	rest := s.batches[:0]
	for _, b := range s.batches {
		var result handleResult
		select {
		case result = <-b.part.results:
		case <-b.part.ctx.Done():
		}
		if err := s.Ctx.Err(); err != nil {
			return errors.Join(fatal, s.Failure())
		}
		if fatal != nil || s.Part(b.part.ID) != b.part {
			continue
		}
		if result.err != nil {
			s.failPartition(b.part, result.err)
			continue
		}
		if s.transactionFull() {
			fatal = s.commit()
		}
		if fatal == nil {
			fatal = s.produceOutputs(b.part, &result)
		}
		b.records = result.rest
		if len(result.rest) > 0 {
			if !b.held {
				s.Client.PauseFetchPartitions(s.Only(b.part.ID))
				b.held = true
			}
			rest = append(rest, b)
		} else if b.held {
			s.Client.ResumeFetchPartitions(s.Only(b.part.ID))
		}
	}
	clear(s.batches[len(rest):])
	s.batches, s.dispatched = rest, false
	return fatal
}

// slabRecords are allocated together.
const slabRecords = 256

// produceOutputs writes the output of one partition into the transaction.
func (s *session) produceOutputs(p *partition, result *handleResult) error {
	now := time.Now()
	p.progress.Store(now.UnixNano())
	p.handled, p.dirty, p.handledAny = result.handled, true, true
	s.tasksDue = s.tasksDue || !p.handled.due.IsZero()
	s.Metrics.RecordsHandled(result.records)
	if s.offsetSince.IsZero() {
		s.offsetSince = now
	}
	if s.outputSince.IsZero() && len(result.out.Forwards)+len(result.out.Records) > 0 {
		s.outputSince = now
	}
	if len(result.out.Forwards) > 0 {
		s.Metrics.RecordsForwarded(len(result.out.Forwards))
		s.forwards.send(s.Ctx, s.Producer, result.out.Forwards)
	}
	if len(result.out.Hints) > 0 {
		s.Metrics.HintsLost(s.proc.hints.send(s.Ctx, s.Producer, result.out.Hints))
	}
	if len(result.out.Records) == 0 {
		return nil
	}
	s.outputParts += result.parts
	if err := s.begin(); err != nil {
		return err
	}
	var topic schemas.Topic
	var name string
	var head []byte
	for records := result.out.Records; len(records) > 0; {
		slab := make([]kgo.Record, min(len(records), slabRecords))
		for i := range slab {
			if records[i].Topic != topic {
				topic = records[i].Topic
				name, head = topic.Name(s.Config.Prefix), s.Config.ValueHeaders[topic]
			}
			kafka.ToKafka(&slab[i], name, head, &records[i])
			s.outputs = append(s.outputs, &slab[i])
			s.outputBytes += len(slab[i].Key) + len(slab[i].Value)
			s.Client.Produce(s.Ctx, &slab[i], s.produced)
		}
		records = records[len(slab):]
	}
	return nil
}
