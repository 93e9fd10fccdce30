package expand

import (
	"sync/atomic"
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestDeliveriesOfACelebrityToOneFollowerAreInOnePartitionHoweverTheFollowersAreCut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Deliveries = 9 // four for celebrities
	type place struct {
		partition int32
		chunk     uint32
	}
	first := map[schemas.UserID]place{}
	for _, cut := range []struct{ followers, size int }{{25_000, 1_100}, {25_000, 4_000}, {31_000, 700}, {12_000, 25_000}} {
		s.graph.counts[star], s.Config.JobFollowers = cut.followers, cut.size
		change := s.comes(star)
		deliveries := s.work(t, s.plan(t, change))
		told(t, deliveries) // nobody twice
		n := 0
		used := map[int32]bool{}
		for _, d := range deliveries {
			delivery := must.Get(schemas.DecodeDelivery(d.Value))(t)
			used[d.Partition] = true
			if string(d.Key) != string(schemas.JobKey(star, delivery.Chunk)) || d.Partition != schemas.DeliveryPartition(star, true, delivery.Chunk, 9) {
				t.Fatalf("chunk %d is in partition %d under the key %x", delivery.Chunk, d.Partition, d.Key)
			}
			for _, r := range delivery.Recipients {
				n++
				here := place{d.Partition, delivery.Chunk}
				if before, known := first[r]; known && before != here {
					t.Fatalf("cut into ranges of %d, %d is told in %v, before in %v", cut.size, r, here, before)
				}
				first[r] = here
			}
		}
		if n != len(s.here(star)) || len(used) != 4 {
			t.Errorf("%d are told in partitions %v", n, used)
		}
		if most := cut.followers/cut.size*len(used) + len(used) + n/schemas.MaxRecipients; len(deliveries) > most {
			t.Errorf("%d records for %d recipients in ranges of %d", len(deliveries), n, cut.size)
		}
	}
}

func TestNothingIsWrittenOfAJobThatIsOvertakenWhileAnotherIsDone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.slots = make(chan struct{}, 1) // one job at a time
	older, other := s.comes(star), s.comes(small)
	newer := s.comes(star)
	var jobs []schemas.Record
	for _, c := range []*schemas.Transition{older, other} {
		jobs = append(jobs, schemas.Record{Value: s.job(&schemas.FanoutJob{Kind: schemas.RangeJob, Transition: c, Through: 250_000, Chunks: 1}).Value})
	}
	var pages atomic.Int32
	s.graph.onPage = func(after schemas.UserID) {
		// 25,000 are three pages, 1,500 are one: whichever is first, one job is over by the last.
		if pages.Add(1) == 4 {
			s.know(t, []schemas.Outgoing{s.job(&schemas.FanoutJob{Kind: schemas.SplitJob, Transition: newer})})
		}
	}
	var out stream.Outbox
	must.Do(t, s.worker.HandleBatch(t.Context(), jobs, &out))
	if got := told(t, out.Records); len(got[older.Version]) != 0 || len(got[other.Version]) == 0 {
		t.Errorf("%d are told of what was overtaken, %d of the other", len(got[older.Version]), len(got[other.Version]))
	}
}
