//go:build unix

package storm_test

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// transactions counts those that ended, by the markers in the topics that the
// detectors write. A producer begins every transaction with another epoch.
func (s *storm) transactions() (committed, aborted int) {
	s.Helper()
	type transaction struct {
		producer int64
		epoch    int16
	}
	ends := map[transaction]bool{} // how each ended
	want := map[string]map[int32]int64{}
	from := map[string]map[int32]kgo.Offset{}
	for _, topic := range []schemas.Topic{schemas.Transitions, schemas.Statuses} {
		name := topic.Name(schemas.DefaultPrefix)
		want[name], from[name] = map[int32]int64{}, map[int32]kgo.Offset{}
		for p := range int32(stormPartitions) {
			_, end, err := s.reader.Bounds(s.Context(), topic, p)
			must.Do(s, err)
			if end > 0 {
				want[name][p], from[name][p] = end, kgo.NewOffset().At(0)
			}
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(s.config.Brokers...), kgo.ConsumePartitions(from), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	must.Do(s, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for left := len(want[schemas.Transitions.Name(schemas.DefaultPrefix)]) + len(want[schemas.Statuses.Name(schemas.DefaultPrefix)]); left > 0; {
		fetches := client.PollFetches(ctx)
		must.Do(s, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsControl() && len(r.Key) >= 4 {
				ends[transaction{r.ProducerID, r.ProducerEpoch}] = int(r.Key[2])<<8|int(r.Key[3]) == 1
			}
			if r.Offset+1 == want[r.Topic][r.Partition] {
				left--
			}
		})
	}
	for _, good := range ends {
		if good {
			committed++
		} else {
			aborted++
		}
	}
	return committed, aborted
}
