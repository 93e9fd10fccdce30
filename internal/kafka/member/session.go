package member

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/kafka"
)

// Partition is what a session has for each partition that the group gave it.
type Partition interface {
	comparable
	Status() kafka.PartitionStatus
}

// Session is one client and the partitions that it reads. Any goroutine may call its methods.
type Session[P Partition] struct {
	*Loop
	// Client is set by the loop that owns the session, before Publish. It is not embedded: the compiler
	// would generate its methods again for each P, which takes half a minute.
	Client *kgo.Client

	Ctx    context.Context // ends with the session, not with the shutdown
	Cancel context.CancelFunc
	Work   sync.WaitGroup // all goroutines of the session

	mu       sync.Mutex
	parts    map[int32]P
	failed   error // the first
	wakeup   atomic.Pointer[context.CancelFunc]
	assigned atomic.Bool // the group has assigned partitions at least once, perhaps none
}

// NewSession returns a session without a client.
func NewSession[P Partition](l *Loop) *Session[P] {
	s := &Session[P]{Loop: l, parts: map[int32]P{}}
	s.Ctx, s.Cancel = context.WithCancel(context.Background())
	return s
}

// Publish makes the session the one that Loop.Status and Loop.Ready report, until withdraw.
func (s *Session[P]) Publish() (withdraw func()) {
	var shown observed = s
	s.current.Store(&shown)
	return func() { s.current.Store(nil) }
}

// GroupOptions make the client a member of the group. The callbacks get partitions of the topic,
// at least one; revoked and lost never run between a poll and AllowRebalance.
func (s *Session[P]) GroupOptions(assigned func(client *kgo.Client, ids []int32),
	revoked func(ctx context.Context, client *kgo.Client, ids []int32), lost func(ids []int32)) []kgo.Opt {
	moved := func(change string, partitions map[string][]int32) []int32 {
		ids := partitions[s.Name]
		s.Metrics.PartitionsMoved(change, len(ids))
		switch {
		case len(ids) == 0:
		case change == "lost":
			s.Log.Error("partitions lost: the group removed this member", "partitions", ids)
		default:
			s.Log.Info("partitions "+change, "partitions", ids)
		}
		return ids
	}
	return []kgo.Opt{
		kgo.ConsumerGroup(s.Group),
		kgo.InstanceID(s.InstanceID()),
		kgo.SessionTimeout(s.Config.SessionTimeout),
		kgo.RebalanceTimeout(s.Config.RebalanceTimeout),
		kgo.HeartbeatInterval(s.Config.SessionTimeout / 12),
		s.instances.Balancer(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, partitions map[string][]int32) {
			s.instances.Joined.Store(true)
			if ids := moved("assigned", partitions); len(ids) > 0 {
				assigned(client, ids)
			}
			s.assigned.Store(true) // after the partitions are known, or there would seem to be none
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if ids := moved("revoked", partitions); len(ids) > 0 {
				revoked(ctx, client, ids)
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			// Without partitions the member was never in the group: the next poll returns why.
			if ids := moved("lost", partitions); len(ids) > 0 {
				lost(ids)
			}
		}),
	}
}

// Poll waits for records, at most as many as most if that is positive, until ctx ends or Wake.
// It does not wait if the session has failed, or if ready is true.
func (s *Session[P]) Poll(ctx context.Context, most int, ready func() bool) kgo.Fetches {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.wakeup.Store(&cancel)
	if s.Failure() != nil || ready() {
		cancel()
	}
	return s.Client.PollRecords(ctx, most)
}

// Wake ends the poll under way. What the loop is to see must have been set before.
func (s *Session[P]) Wake() {
	if cancel := s.wakeup.Load(); cancel != nil {
		(*cancel)()
	}
}

// Fail ends the session: its loop returns the first error that it gets.
func (s *Session[P]) Fail(err error) {
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	s.mu.Unlock()
	s.Wake()
}

// Failure is the error of Fail, nil while the session goes on.
func (s *Session[P]) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Set puts p in the place of a partition.
func (s *Session[P]) Set(id int32, p P) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[id] = p
}

// Remove forgets a partition if it is still p.
func (s *Session[P]) Remove(id int32, p P) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts[id] == p {
		delete(s.parts, id)
	}
}

// Take forgets a partition and returns it, to one caller only; the zero value if this session does
// not have it.
func (s *Session[P]) Take(id int32) P {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[id]
	delete(s.parts, id)
	return p
}

// Part is the partition if this session has it, else the zero value.
func (s *Session[P]) Part(id int32) P {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[id]
}

// Parts is a snapshot of the partitions.
func (s *Session[P]) Parts() []P {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.parts))
}

// Offsets are offsets by topic and partition, as the client's callbacks have them.
type Offsets = map[string]map[int32]kgo.Offset

// Only names one partition to the client.
func (s *Session[P]) Only(id int32) map[string][]int32 { return map[string][]int32{s.Name: {id}} }

// Seek makes the client fetch a partition from next. Only the loop may call it.
func (s *Session[P]) Seek(id int32, next int64) {
	s.Client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.Name: {id: {Epoch: -1, Offset: next}}})
}

// Joined reports whether the group has taken this member and assigned partitions.
func (s *Session[P]) Joined() bool {
	if s.WithoutGroup {
		return true
	}
	_, generation := s.Client.GroupMetadata()
	return generation >= 0 && s.assigned.Load()
}

// Status is a snapshot of the progress of the partitions.
func (s *Session[P]) Status() []kafka.PartitionStatus {
	var all []kafka.PartitionStatus
	for _, p := range s.Parts() {
		all = append(all, p.Status())
	}
	kafka.SortStatus(all)
	return all
}

// FetchError classifies an error of fetching a partition. It is nil when the loop goes on: the
// client fetches again by itself, or the batch is skipped. lost and removed decide about records
// that were lost before they were read and about errors of the group.
func (s *Session[P]) FetchError(topic string, partition int32, err error,
	lost func(*kgo.ErrDataLoss) error, removed func(error) error) error {
	log := s.Log.With("topic", topic, "partition", partition)
	var tooLarge *kgo.ErrDecompressTooLarge
	var loss *kgo.ErrDataLoss
	var group *kgo.ErrGroupSession
	switch {
	case !errors.As(err, &group) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return nil // the poll's
	case errors.As(err, &tooLarge):
		s.Metrics.BatchSkipped()
		log.Error("skipped a batch that exceeds the maximum batch size",
			"offset", tooLarge.Offset, "next", tooLarge.NextOffset)
		next := kgo.EpochOffset{Epoch: tooLarge.Epoch, Offset: tooLarge.NextOffset}
		s.Client.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {partition: next}})
		return nil
	case errors.As(err, &loss):
		if err := lost(loss); err != nil {
			return err
		}
		log.Error("records were lost before they were read", "error", err)
		return nil
	case errors.Is(err, kgo.ErrClientClosed):
		return kafka.SessionErrorf("closed", "the client was closed: %w", err)
	case errors.Is(err, kerr.UnknownTopicID):
		// The client would stay with the topic that was deleted.
		return kafka.SessionErrorf("fetch", "reading %s partition %d: was it deleted and recreated? %w",
			topic, partition, err)
	case errors.As(err, &group):
		return removed(err)
	case kafka.Retriable(err):
		log.Warn("fetching failed; the client retries", "error", err)
		return nil
	}
	return kafka.SessionErrorf("fetch", "fetching %s partition %d: %w", topic, partition,
		kafka.WithGrantHint(err, "Read", kafka.OfTopic, topic))
}
