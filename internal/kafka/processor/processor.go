package processor

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/schemas"
)

// Processor reads the partitions of a topic that its group gives it, hands their records to tasks,
// and commits the output of these together with the consumed offsets, exactly once. See doc.go.
type Processor struct {
	*member.Loop
	outputs  []schemas.Topic
	newTask  func(partition int32) Task
	failures failures
	hints    hints

	partitions  atomic.Int32 // of the input, as the first session found them
	slowBrokers atomic.Bool  // the brokers take long to commit
	limitShift  atomic.Int32 // how often the bound of a transaction has been halved for them
	batches     atomic.Bool  // the tasks are BatchTasks
}

// New prepares a Processor. producer appends ticks and forwards; metrics may be nil.
func New(cfg kafka.Config, group string, input schemas.Topic, newTask func(partition int32) Task,
	producer *kafka.Producer, log *slog.Logger, metrics *kafka.Metrics) *Processor {
	loop := member.NewLoop(cfg, group, input, producer, log, metrics)
	loop.RestartMessage = "the session ended; all its partitions are restored"
	return &Processor{Loop: loop, outputs: []schemas.Topic{schemas.DeadLetter}, newTask: newTask,
		failures: failures{loop: loop, tasks: map[int32]failure{}, stalls: map[int32]failure{}}}
}

// Writes names topics that the tasks write to, so that transactions which Kafka left open in them
// are found. It must be called before Run. The dead-letter topic is among them always.
func (p *Processor) Writes(topics ...schemas.Topic) *Processor {
	p.outputs = append(p.outputs, topics...)
	return p
}

// Run works until ctx ends and returns when everything has stopped. Records in hand have been
// handled and committed by then, or aborted for the next owner to repeat if a rebalance was under
// way; otherwise the error names the reason. After a failure it restores all partitions in a new
// session. If an older process runs under the same instance name, it returns an error. It may be
// called once.
func (p *Processor) Run(ctx context.Context) error {
	return p.RunSessions(ctx, func(ctx context.Context) (bool, error) {
		s := newSession(p)
		err := s.run(ctx)
		switch {
		case ctx.Err() == nil:
			s.shrinkLimit(2) // if its last transaction did not end
		case !s.pending():
			err = nil // nothing was in hand
		case !s.inTxn && rebalanceInterrupted(err):
			p.Log.Warn("stopped during a rebalance; the transaction was aborted and the next owner repeats it", "error", err)
			err = nil
		}
		return s.commits > 0, err
	})
}

// surplus reports whether a partition was added while this process runs to a topic in which every
// user has one partition for ever. The other topics by user do not have that partition, and the
// state of its users is in another one.
func (p *Processor) surplus(partition int32) bool {
	return p.byUser() && partition >= p.partitions.Load()
}

// byUser reports whether every user has one partition of the input for ever.
func (p *Processor) byUser() bool {
	return slices.ContainsFunc(schemas.Topics(), func(s schemas.TopicSpec) bool { return s.Topic == p.Topic && s.ByUser })
}
