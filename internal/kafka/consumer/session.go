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
	"github.com/stillhere/stillhere/schemas"
)

// session is one consumer of a Follower. Its loop only hands records to the
// feeds, one for each partition, which do the work in goroutines of their own.
type session[T any] struct {
	consumer *Consumer[T]
	topic    string // of the topic
	*kgo.Client

	ctx            context.Context // ends with the following
	cancel         context.CancelFunc
	work           sync.WaitGroup
	applied        atomic.Bool
	assignmentSeen atomic.Bool // the group has said at least once which partitions are ours

	wakeup atomic.Pointer[context.CancelFunc] // of the poll under way

	mu       sync.Mutex
	workers  map[int32]*worker[T]
	previous map[int32]<-chan struct{} // closed when the last feed of a partition has ended
	resets   []positionReset[T]        // for the loop
	failed   error
}

func newSession[T any](f *Consumer[T]) *session[T] {
	s := &session[T]{consumer: f, topic: f.topic.Name(f.cfg.Prefix), workers: map[int32]*worker[T]{}, previous: map[int32]<-chan struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session[T]) run(stop context.Context) error {
	defer s.cancel()
	if err := s.open(stop); err != nil {
		return err
	}
	s.consumer.current.Store(s)
	defer s.consumer.current.Store(nil)
	if _, ok := s.consumer.handler.(WatermarkHandler); ok && s.consumer.options.watermarkGroup != "" {
		s.work.Go(s.watchUpstream)
	}
	err := s.loop(stop)
	s.close()
	return err
}

// loop hands out records until stop ends.
func (s *session[T]) loop(stop context.Context) error {
	for {
		fetches := s.poll(stop)
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
		if err := s.applyResets(); err != nil && fatal == nil {
			fatal = err
		}
		s.AllowRebalance()
		if fatal != nil {
			return fatal
		}
	}
}

func (s *session[T]) open(stop context.Context) error {
	cfg := s.consumer.cfg
	ctx, cancel := context.WithTimeout(stop, max(cfg.StopTimeout, kafka.OpenTimeout))
	defer cancel()
	var err error
	if s.consumer.deadLetters, err = kafka.PartitionCount(ctx, s.consumer.reader.Client, schemas.DeadLetter.Name(cfg.Prefix), "Write"); err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	count, err := s.consumer.reader.Partitions(ctx, s.consumer.topic)
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options, err := kafka.ClientOptions(cfg, s.consumer.log)
	if err != nil {
		return kafka.SessionErrorf("start", "%w", err)
	}
	options = append(options, kafka.FetchOptions(cfg)...)
	options = append(options, s.consumer.metrics.ClientHooks(s.consumer.group)...)
	options = append(options,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Markers show how far one has read where records were aborted.
		kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// Reading some records again does less harm than leaving some out.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if s.consumer.options.withoutGroup {
		positions, err := s.startAll(ctx, count)
		if err != nil {
			return kafka.SessionErrorf("start", "%w", err)
		}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: positions}))
	} else {
		options = append(options, s.groupOptions()...)
	}
	if s.Client, err = kgo.NewClient(options...); err != nil {
		return kafka.SessionErrorf("start", "setting up a Kafka client for %v: %w", cfg.Brokers, err)
	}
	return nil
}

func (s *session[T]) groupOptions() []kgo.Opt {
	cfg := s.consumer.cfg
	return []kgo.Opt{
		kgo.ConsumerGroup(s.consumer.group),
		kgo.ConsumeTopics(s.topic),
		kgo.InstanceID(s.consumer.group + "." + cfg.InstanceName),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(cfg.SessionTimeout / 12),
		s.consumer.instances.Balancer(),
		kgo.BlockRebalanceOnPoll(),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(cfg.IdleCommitInterval),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(s.onLost),
		kgo.AdjustFetchOffsetsFn(s.onAdjustOffsets),
	}
}

func (s *session[T]) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	ids := assigned[s.topic]
	// After the partitions are known, or they would seem to be none.
	defer s.assignmentSeen.Store(true)
	s.consumer.instances.Joined.Store(true)
	if len(ids) == 0 {
		return
	}
	s.consumer.metrics.PartitionsMoved("assigned", len(ids))
	s.consumer.log.Info("partitions assigned", "partitions", ids)
	// It may have been paused when we had it before.
	client.ResumeFetchPartitions(map[string][]int32{s.topic: ids})
	for _, id := range ids {
		s.start(id)
	}
}

func (s *session[T]) start(id int32) *worker[T] {
	feed := newWorker(s, id)
	s.mu.Lock()
	feed.predecessor = s.previous[id]
	s.workers[id] = feed
	s.mu.Unlock()
	s.work.Go(feed.run)
	return feed
}

// onRevoked finishes what is in hand, so that the next owner does not do it
// again.
func (s *session[T]) onRevoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	ids := revoked[s.topic]
	if len(ids) == 0 {
		return
	}
	s.consumer.metrics.PartitionsMoved("revoked", len(ids))
	s.consumer.log.Info("partitions revoked", "partitions", ids)
	s.stopWorkers(ids, s.consumer.cfg.RebalanceTimeout/3)
	s.commit(ctx, client)
}

func (s *session[T]) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	ids := lost[s.topic]
	if len(ids) == 0 {
		return // never let in: the next poll tells why
	}
	s.consumer.metrics.PartitionsMoved("lost", len(ids))
	s.consumer.log.Error("partitions lost: the group removed this member", "partitions", ids)
	s.stopWorkers(ids, 0)
}

// stopWorkers stops the feeds of these partitions, leaving them some time to finish what
// they hold.
func (s *session[T]) stopWorkers(ids []int32, grace time.Duration) {
	var ending []*worker[T]
	s.mu.Lock()
	for _, id := range ids {
		if feed := s.workers[id]; feed != nil {
			ending = append(ending, feed)
			delete(s.workers, id)
			s.previous[id] = feed.done
		}
	}
	s.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for _, feed := range ending {
		close(feed.stop)
	}
	for _, feed := range ending {
		select {
		case <-feed.done:
		case <-timer.C:
			timer.Reset(0)
		}
		feed.cancel()
	}
}

func (s *session[T]) commit(ctx context.Context, client *kgo.Client) {
	if s.consumer.options.withoutGroup {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.consumer.cfg.RebalanceTimeout/3)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		s.consumer.log.Warn("committing offsets failed; some batches may be delivered again", "error", kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.consumer.group))
	}
}

// close is the graceful stop.
func (s *session[T]) close() {
	var all []int32
	s.mu.Lock()
	for id := range s.workers {
		all = append(all, id)
	}
	s.mu.Unlock()
	s.stopWorkers(all, s.consumer.cfg.StopTimeout)
	s.commit(context.Background(), s.Client)
	s.cancel()
	s.CloseAllowingRebalance()
	s.work.Wait()
}

func (s *session[T]) worker(id int32) *worker[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[id]
}

func (s *session[T]) allWorkers() []*worker[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*worker[T], 0, len(s.workers))
	for _, f := range s.workers {
		all = append(all, f)
	}
	return all
}

func (s *session[T]) joined() bool {
	if s.consumer.options.withoutGroup {
		return true
	}
	_, generation := s.GroupMetadata()
	return generation >= 0 && s.assignmentSeen.Load()
}

func (s *session[T]) status() []kafka.PartitionStatus {
	var all []kafka.PartitionStatus
	for _, f := range s.allWorkers() {
		all = append(all, f.status())
	}
	kafka.SortStatus(all)
	return all
}

// dispatch gives what was fetched of a partition to its feed.
func (s *session[T]) dispatch(topic kgo.FetchTopic, p kgo.FetchPartition) error {
	var fatal error
	if p.Err != nil {
		fatal = s.classifyFetchError(topic.Topic, p.Partition, p.Err)
	}
	feed := s.worker(p.Partition)
	if len(p.Records) == 0 || feed == nil {
		return fatal
	}
	if !feed.matchesTopic(topic.TopicID) {
		// Where to start was asked of a broker that did not know the new topic yet, or knew it already.
		return kafka.SessionErrorf("fetch", "consuming %s partition %d: it was deleted and recreated: the stored offset belongs to another topic than %s",
			topic.Topic, p.Partition, schemas.TopicID(topic.TopicID))
	}
	feed.enqueue(p.Records, p.HighWatermark)
	return fatal
}

func (s *session[T]) classifyFetchError(topic string, partition int32, err error) error {
	var tooLarge *kgo.ErrDecompressTooLarge
	var loss *kgo.ErrDataLoss
	var group *kgo.ErrGroupSession
	switch {
	case errors.Is(err, context.Canceled): // woken
	case errors.As(err, &tooLarge):
		s.consumer.metrics.BatchSkipped()
		s.consumer.log.Error("skipped a batch that exceeds the maximum batch size", "topic", topic, "partition", partition,
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		s.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: tooLarge.Epoch, Offset: tooLarge.NextOffset}}})
	case errors.As(err, &loss):
		s.consumer.metrics.GapFound()
		s.consumer.log.Error("records were lost before they were read", "topic", topic, "partition", partition, "error", err)
	case errors.Is(err, kerr.UnknownTopicID):
		// The client would stay with the topic that is gone.
		return kafka.SessionErrorf("fetch", "consuming %s partition %d: was it deleted and recreated? %w", topic, partition, err)
	case errors.As(err, &group) && errors.Is(err, kerr.FencedInstanceID):
		// The client would try again at once and throw the other out.
		return kafka.SessionErrorf("fenced", "another process has taken the instance name %s, or the group took this one for dead: %w", s.consumer.cfg.InstanceName, err)
	case errors.As(err, &group), kafka.Retriable(err) && !errors.Is(err, kgo.ErrClientClosed):
		// The client goes on by itself.
		s.consumer.log.Warn("fetching failed; the client retries", "topic", topic, "partition", partition, "error", kafka.WithGrantHint(err, "Read", kafka.OfGroup, s.consumer.group))
	default:
		return kafka.SessionErrorf("fetch", "fetching %s partition %d: %w", topic, partition, kafka.WithGrantHint(err, "Read", kafka.OfTopic, topic))
	}
	return nil
}
