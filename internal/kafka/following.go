package kafka

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/schemas"
)

// following is one consumer of a Follower. Its loop only hands records to the
// feeds, one for each partition, which do the work in goroutines of their own.
type following[T any] struct {
	f    *Follower[T]
	name string // of the topic
	*kgo.Client

	ctx     context.Context // ends with the following
	cancel  context.CancelFunc
	work    sync.WaitGroup
	applied atomic.Bool
	told    atomic.Bool // the group has said at least once which partitions are ours

	wakeup atomic.Pointer[context.CancelFunc] // of the poll under way

	mu       sync.Mutex
	feeds    map[int32]*feed[T]
	former   map[int32]<-chan struct{} // closed when the last feed of a partition has ended
	renewals []renewal[T]              // for the loop
	failed   error
}

func newFollowing[T any](f *Follower[T]) *following[T] {
	s := &following[T]{f: f, name: f.topic.Name(f.cfg.Prefix), feeds: map[int32]*feed[T]{}, former: map[int32]<-chan struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *following[T]) run(stop context.Context) error {
	defer s.cancel()
	if err := s.open(stop); err != nil {
		return err
	}
	s.f.current.Store(s)
	defer s.f.current.Store(nil)
	if _, ok := s.f.handler.(Watermarker); ok && s.f.options.watermarkGroup != "" {
		s.work.Go(s.watermarks)
	}
	err := s.loop(stop)
	s.close()
	return err
}

// loop hands out records until stop ends.
func (s *following[T]) loop(stop context.Context) error {
	for {
		fetches := s.poll(stop)
		if stop.Err() != nil {
			return nil
		}
		var fatal error
		for _, fetch := range fetches {
			for _, topic := range fetch.Topics {
				for _, p := range topic.Partitions {
					if err := s.hand(topic, p); err != nil && fatal == nil {
						fatal = err
					}
				}
			}
		}
		if err := s.renew(); err != nil && fatal == nil {
			fatal = err
		}
		s.AllowRebalance()
		if fatal != nil {
			return fatal
		}
	}
}

func (s *following[T]) open(stop context.Context) error {
	cfg := s.f.cfg
	ctx, cancel := context.WithTimeout(stop, max(cfg.StopTimeout, openTimeout))
	defer cancel()
	var err error
	if s.f.deadLetters, err = partitionCount(ctx, s.f.reader.client, schemas.DeadLetter.Name(cfg.Prefix), "Write"); err != nil {
		return broken("start", "%w", err)
	}
	count, err := s.f.reader.Partitions(ctx, s.f.topic)
	if err != nil {
		return broken("start", "%w", err)
	}
	options, err := clientOptions(cfg, s.f.log)
	if err != nil {
		return broken("start", "%w", err)
	}
	options = append(options, fetchOptions(cfg)...)
	options = append(options, s.f.metrics.clientMetrics(s.f.group)...)
	options = append(options,
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Markers show how far one has read where records were aborted.
		kgo.KeepControlRecords(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		// Reading some records again does less harm than leaving some out.
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if s.f.options.alone {
		positions, err := s.allPositions(ctx, count)
		if err != nil {
			return broken("start", "%w", err)
		}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.name: positions}))
	} else {
		options = append(options, s.groupOptions()...)
	}
	if s.Client, err = kgo.NewClient(options...); err != nil {
		return broken("start", "setting up a Kafka client for %v: %w", cfg.Brokers, err)
	}
	return nil
}

func (s *following[T]) groupOptions() []kgo.Opt {
	cfg := s.f.cfg
	return []kgo.Opt{
		kgo.ConsumerGroup(s.f.group),
		kgo.ConsumeTopics(s.name),
		kgo.InstanceID(s.f.group + "." + cfg.InstanceName),
		kgo.SessionTimeout(cfg.SessionTimeout),
		kgo.RebalanceTimeout(cfg.RebalanceTimeout),
		kgo.HeartbeatInterval(cfg.SessionTimeout / 12),
		s.f.twins.balancer(),
		kgo.BlockRebalanceOnPoll(),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(cfg.IdleCommitInterval),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(s.onLost),
		kgo.AdjustFetchOffsetsFn(s.onPositions),
	}
}

func (s *following[T]) onAssigned(_ context.Context, client *kgo.Client, assigned map[string][]int32) {
	ids := assigned[s.name]
	// After the partitions are known, or they would seem to be none.
	defer s.told.Store(true)
	s.f.twins.wasIn.Store(true)
	if len(ids) == 0 {
		return
	}
	s.f.metrics.rebalance("assigned", len(ids))
	s.f.log.Info("partitions assigned", "partitions", ids)
	// It may have been paused when we had it before.
	client.ResumeFetchPartitions(map[string][]int32{s.name: ids})
	for _, id := range ids {
		s.start(id)
	}
}

func (s *following[T]) start(id int32) *feed[T] {
	feed := newFeed(s, id)
	s.mu.Lock()
	feed.after = s.former[id]
	s.feeds[id] = feed
	s.mu.Unlock()
	s.work.Go(feed.run)
	return feed
}

// onRevoked finishes what is in hand, so that the next owner does not do it
// again.
func (s *following[T]) onRevoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	ids := revoked[s.name]
	if len(ids) == 0 {
		return
	}
	s.f.metrics.rebalance("revoked", len(ids))
	s.f.log.Info("partitions revoked", "partitions", ids)
	s.end(ids, s.f.cfg.RebalanceTimeout/3)
	s.commit(ctx, client)
}

func (s *following[T]) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	ids := lost[s.name]
	if len(ids) == 0 {
		return // never let in: the next poll tells why
	}
	s.f.metrics.rebalance("lost", len(ids))
	s.f.log.Error("partitions lost: the group went on without us", "partitions", ids)
	s.end(ids, 0)
}

// end stops the feeds of these partitions, leaving them some time to finish what
// they hold.
func (s *following[T]) end(ids []int32, grace time.Duration) {
	var ending []*feed[T]
	s.mu.Lock()
	for _, id := range ids {
		if feed := s.feeds[id]; feed != nil {
			ending = append(ending, feed)
			delete(s.feeds, id)
			s.former[id] = feed.done
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

func (s *following[T]) commit(ctx context.Context, client *kgo.Client) {
	if s.f.options.alone {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.f.cfg.RebalanceTimeout/3)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		s.f.log.Warn("committing offsets; some batches may come again", "error", needs(err, "Read", OfGroup, s.f.group))
	}
}

// close is the graceful stop.
func (s *following[T]) close() {
	var all []int32
	s.mu.Lock()
	for id := range s.feeds {
		all = append(all, id)
	}
	s.mu.Unlock()
	s.end(all, s.f.cfg.StopTimeout)
	s.commit(context.Background(), s.Client)
	s.cancel()
	s.CloseAllowingRebalance()
	s.work.Wait()
}

func (s *following[T]) feed(id int32) *feed[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds[id]
}

func (s *following[T]) all() []*feed[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*feed[T], 0, len(s.feeds))
	for _, f := range s.feeds {
		all = append(all, f)
	}
	return all
}

func (s *following[T]) joined() bool {
	if s.f.options.alone {
		return true
	}
	_, generation := s.GroupMetadata()
	return generation >= 0 && s.told.Load()
}

func (s *following[T]) status() []PartitionStatus {
	var all []PartitionStatus
	for _, f := range s.all() {
		all = append(all, f.status())
	}
	sortStatus(all)
	return all
}
