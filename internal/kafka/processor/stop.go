package processor

import (
	"fmt"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
)

// finish lets the tasks add their last output when the process stops. Everything handled is committed, so this may
// end at any point: with half of the time for a rebalance, which waits meanwhile, when one comes, and with an error.
//
// A revocation has nothing like it: the new owner waits while the old one writes, and reads sooner than that.
func (s *session) finish() error {
	until := time.Now().Add(s.Config.RebalanceTimeout / 2)
	hurry := func() bool { return time.Now().After(until) || s.rebalanceWaiting.Load() || s.rebalanced.Load() }
	for _, p := range s.Parts() {
		for more := p.fetching; more && !hurry(); {
			result, err := s.stopTask(p)
			if err != nil {
				return err
			}
			if more = result.more; len(result.out.Records) == 0 {
				continue
			}
			if err := s.produceOutputs(p, &result); err != nil {
				return err
			}
			if s.transactionFull() {
				if err := s.commit(); err != nil {
					return err
				}
			}
		}
	}
	if !s.pending() {
		return nil
	}
	return s.commit()
}

// stopTask lets the goroutine of a partition call Stop once.
func (s *session) stopTask(p *partition) (result handleResult, err error) {
	p.work <- workItem{stop: true}
	select {
	case result = <-p.results:
		return result, result.err
	case <-s.Ctx.Done():
		return result, s.Failure()
	}
}

// stop calls the task's Stop.
func (p *partition) stop() handleResult {
	p.resetOutbox()
	result := handleResult{out: &p.outbox}
	task, ok := p.task.(StoppingTask)
	if !ok {
		return result
	}
	result.err = kafka.CatchPanic(func() error {
		result.more = task.Stop(&p.outbox)
		result.checkpoint = task.Checkpoint()
		return nil
	})
	if result.err != nil {
		result.err = fmt.Errorf("stopping the task of %s: %w", p, result.err)
	}
	result.next = p.Next.Load()
	return result
}
