package expand

import (
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheNewestJobsOfTheLastHoursAreKnownAndOlderJobsAreSuperseded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	begun := s.comes(star).At
	const minute = schemas.Millis(60_000)
	write := func(user schemas.UserID, at schemas.Millis) *schemas.FanoutJob {
		change := s.comes(user)
		job := &schemas.FanoutJob{Kind: schemas.RangeJob, Transition: change, Through: 1_000, Chunks: 1}
		must.Do(t, s.Newest.Apply(t.Context(), stream.Batch[Written]{Items: []Written{{job, at}}}))
		return job
	}
	first := write(star, begun)
	latest := begun
	for i := range schemas.Millis(20 * 60) { // another celebrity every minute, for twenty hours
		latest = begun + (i+1)*minute
		older := write(star+2*schemas.UserID(i+1), latest)
		newer := write(star+2*schemas.UserID(i+1), latest)
		if !s.Newest.Superseded(older.Transition) || s.Newest.Superseded(newer.Transition) || s.Newest.Expired(latest-119*minute) {
			t.Fatalf("after %d minutes the jobs of the last two hours are not known", i)
		}
	}
	if n := len(s.Newest.versions) + len(s.Newest.old); n > 242 {
		t.Errorf("%d celebrities of twenty hours are kept", n)
	}
	record := func(at schemas.Millis) []schemas.Record { return []schemas.Record{{Time: at, Value: first.Encode()}} }
	var out stream.Outbox
	if err := s.worker.HandleBatch(t.Context(), record(begun), &out); err != nil || len(out.Records) != 0 {
		t.Errorf("of a job of twenty hours ago %d records came, %v", len(out.Records), err)
	}
	if err := s.worker.HandleBatch(t.Context(), record(latest), &out); err != nil || len(out.Records) == 0 {
		t.Errorf("of a job of now nobody is told: %v", err)
	}
}
