package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/member"
	"github.com/stillhere/stillhere/schemas"
)

// session is one Kafka client of a Consumer. Its loop only hands records to the workers, one for
// each partition, which do the work in goroutines of their own.
type session[T any] struct {
	*member.Session[*worker[T]]
	consumer *Consumer[T]
	applied  atomic.Bool // a batch has been applied

	mu     sync.Mutex
	ended  map[int32]<-chan struct{} // by partition: closed when its last worker has ended
	resets []positionReset[T]        // for the loop
}

func (s *session[T]) run(stop context.Context) error {
	defer s.Cancel()
	if err := s.open(stop); err != nil {
		return err
	}
	defer s.Publish()()
	s.consumer.current.Store(s)
	if _, ok := s.consumer.handler.(WatermarkHandler); ok && s.consumer.watermarkGroup != "" {
		s.Work.Go(s.watchUpstream)
	}
	err := s.loop(stop)
	s.close()
	return err
}

// loop hands records to the workers until stop ends.
func (s *session[T]) loop(stop context.Context) error {
	for {
		fetches := s.Poll(stop, 0, s.resetsWait)
		if stop.Err() != nil {
			return nil
		}
		var fatal error
		for _, fetch := range fetches {
			for _, topic := range fetch.Topics {
				for _, p := range topic.Partitions {
					if err := s.dispatch(topic, p); err != nil && fatal == nil {
						fatal = err
					}
				}
			}
		}
		s.applyResets()
		if fatal == nil {
			fatal = s.Failure()
		}
		s.Client.AllowRebalance()
		if fatal != nil {
			return fatal
		}
	}
}

func (s *session[T]) open(stop context.Context) error {
	ctx, cancel := s.OpenContext(stop)
	defer cancel()
	count, err := s.CountPartitions(ctx)
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options, err := s.ClientOptions()
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options = append(options,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Reading some records again does less harm than leaving some out.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if s.WithoutGroup {
		positions, err := s.startAll(ctx, count)
		if err != nil {
			return kafka.SessionErrorf("start", "%w", err)
		}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.Name: positions}))
	} else {
		options = append(options, s.GroupOptions(s.onAssigned, s.onRevoked, s.onLost)...)
		options = append(options,
			kgo.ConsumeTopics(s.Name),
			kgo.AutoCommitMarks(),
			kgo.AutoCommitInterval(s.Config.IdleCommitInterval),
			kgo.AdjustFetchOffsetsFn(s.onAdjustOffsets),
		)
	}
	if s.Client, err = kgo.NewClient(options...); err != nil {
		return kafka.SessionErrorf("start", "setting up a Kafka client for %v: %w", s.Config.Brokers, err)
	}
	return nil
}

func (s *session[T]) onAssigned(client *kgo.Client, ids []int32) {
	// A partition may have been paused when this process had it before.
	client.ResumeFetchPartitions(map[string][]int32{s.Name: ids})
	for _, id := range ids {
		s.start(id)
	}
}

// onRevoked finishes what is in hand, so that the next owner does not do it again.
func (s *session[T]) onRevoked(ctx context.Context, client *kgo.Client, ids []int32) {
	s.stopWorkers(ids, s.Config.RebalanceTimeout/3)
	s.commit(ctx, client)
}

func (s *session[T]) onLost(ids []int32) { s.stopWorkers(ids, 0) }

// start starts a worker, which begins when the last one of the partition has ended.
func (s *session[T]) start(id int32) *worker[T] {
	w := newWorker(s, id)
	s.mu.Lock()
	w.predecessor, s.ended[id] = s.ended[id], w.done
	s.mu.Unlock()
	s.Set(id, w)
	s.Work.Go(w.run)
	return w
}

// stopWorkers stops the workers of these partitions, with some time to finish what is in hand.
func (s *session[T]) stopWorkers(ids []int32, grace time.Duration) {
	var ending []*worker[T]
	for _, id := range ids {
		// The loop and a callback of the client may stop the same worker at once.
		if w := s.Take(id); w != nil {
			close(w.stop)
			ending = append(ending, w)
		}
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, w := range ending {
		select {
		case <-w.done:
		case <-timer.C:
			timer.Reset(0)
		}
		w.cancel()
	}
	if stopped, ok := any(s.consumer.handler).(StoppedHandler); ok {
		for _, w := range ending {
			stopped.Stop(w.ID)
		}
	}
}

func (s *session[T]) commit(ctx context.Context, client *kgo.Client) {
	if s.WithoutGroup {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Config.RebalanceTimeout/3)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		s.Log.Warn("committing offsets failed; some batches may be delivered again",
			"error", kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.Group))
	}
}

// close is the graceful stop.
func (s *session[T]) close() {
	var all []int32
	for _, w := range s.Parts() {
		all = append(all, w.ID)
	}
	s.stopWorkers(all, s.Config.StopTimeout)
	s.commit(context.Background(), s.Client)
	s.Cancel()
	s.Client.CloseAllowingRebalance()
	s.Work.Wait()
}

// dispatch hands what was fetched of a partition to its worker.
func (s *session[T]) dispatch(topic kgo.FetchTopic, p kgo.FetchPartition) error {
	var fatal error
	if p.Err != nil {
		fatal = s.FetchError(topic.Topic, p.Partition, p.Err, s.onDataLoss, s.onGroupError)
	}
	w := s.Part(p.Partition)
	if len(p.Records) == 0 || w == nil {
		return fatal
	}
	if !w.matchesTopic(topic.TopicID) {
		// The broker that was asked for the position knew another topic of this name.
		return kafka.SessionErrorf("fetch",
			"consuming %s partition %d: it was deleted and recreated: the stored offset belongs to another topic than %s",
			topic.Topic, p.Partition, schemas.TopicID(topic.TopicID))
	}
	w.enqueue(p.Records, p.HighWatermark)
	return fatal
}

func (s *session[T]) onDataLoss(*kgo.ErrDataLoss) error {
	s.Metrics.GapFound()
	return nil
}

func (s *session[T]) onGroupError(err error) error {
	if errors.Is(err, kerr.FencedInstanceID) {
		// The client would join again at once, and fence the other process.
		return kafka.SessionErrorf("fenced",
			"another process has taken the instance name %s, or the group removed this one: %w", s.Config.InstanceName, err)
	}
	s.Log.Warn("the consumer group failed; the client retries",
		"error", kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.Group))
	return nil
}
