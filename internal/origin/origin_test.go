package origin

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// commits are what the detector has committed of partition 0, as Kafka tells of it.
type commits struct {
	offset, settled int64 // settled: with what is being committed
	checkpoint      schemas.Checkpoint
	pending         error
	end             int64 // of the transitions
	asked           int
}

// logTime is that of all commits.
const logTime = schemas.Millis(1_800_000_000_000)

func originOf(c *commits) (o *Origin, pass func(time.Duration)) {
	now := time.Unix(1_800_000_000, 0)
	o = &Origin{looking: make(chan struct{}, 1), judged: map[position]judgment{}, partitions: 1, now: func() time.Time { return now },
		commits: func(_ context.Context, settled bool, _ ...int32) (map[int32]kafka.CommittedOffset, error) {
			c.asked++
			if c.checkpoint.LogEpoch == 0 {
				return nil, nil
			}
			checkpoint, at := c.checkpoint, c.offset
			checkpoint.LogTime = logTime
			if settled {
				if c.pending != nil {
					return nil, c.pending
				}
				at = c.settled
			}
			return map[int32]kafka.CommittedOffset{0: {Offset: at, Metadata: checkpoint.Encode()}}, nil
		},
		settledEnd: func(context.Context, schemas.Topic, int32) (int64, error) { return c.end, nil }}
	return o, func(d time.Duration) { now = now.Add(d) }
}

// check says of a transition at an offset: "" for one that can be of the log, "forged", or
// "later" for one that cannot be judged yet.
func (o *Origin) check(offset int64, v schemas.Version) string {
	at := schemas.MillisOf(o.now())
	err := o.Check(schemas.Transitions, &schemas.Record{Offset: offset, Time: at}, &schemas.Transition{User: 1, Version: v, At: at})
	switch {
	case err == nil:
		return ""
	case schemas.IsInvalid(err):
		return "forged"
	}
	return "later"
}

func TestAVersionIsOfARecordThatTheDetectorHasCommitted(t *testing.T) {
	t.Parallel()
	v := schemas.NewVersion
	for name, c := range map[string]struct {
		commits commits
		version schemas.Version
		want    string
	}{
		"nothing committed":              {commits{end: 9}, v(7, 1<<40, 0), ""},
		"the last record":                {commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 99, 4), ""},
		"the next record":                {commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 100, 0), "forged"},
		"an older epoch":                 {commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(1, 1<<40, 0), ""},
		"the next epoch":                 {commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(3, 0, 0), "forged"},
		"what is being committed":        {commits{offset: 100, settled: 200, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 199, 0), ""},
		"beyond what is being committed": {commits{offset: 100, settled: 200, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 200, 0), "forged"},
		"it cannot be told yet":          {commits{offset: 100, pending: errors.New("unstable"), checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 150, 0), "later"},
		"known without waiting":          {commits{offset: 100, pending: errors.New("unstable"), checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 9}, v(2, 99, 0), ""},
		"the end is behind":              {commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 2}, end: 3}, v(2, 150, 0), "later"},
		"counted from a base": {commits{offset: 1<<41 + 100, settled: 1<<41 + 100, end: 9,
			checkpoint: schemas.Checkpoint{LogEpoch: 2, Bases: []schemas.EpochBase{{LogEpoch: 2, Offset: 1 << 41}}}}, v(2, 99, 0), ""},
		"beyond a base": {commits{offset: 1<<41 + 100, settled: 1<<41 + 100, end: 9,
			checkpoint: schemas.Checkpoint{LogEpoch: 2, Bases: []schemas.EpochBase{{LogEpoch: 2, Offset: 1 << 41}}}}, v(2, 100, 0), "forged"},
	} {
		o, _ := originOf(&c.commits)
		if got := o.check(5, c.version); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestManyForgedRecordsAreJudgedByOneLook(t *testing.T) {
	t.Parallel()
	c := &commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 1}, end: 1_000}
	o, pass := originOf(c)
	for offset := range int64(1_000) {
		pass(time.Millisecond)
		if got := o.check(offset, schemas.NewVersion(1, 1<<30, 0)); got != "forged" {
			t.Fatalf("offset %d: %q", offset, got)
		}
	}
	if c.asked != 2 {
		t.Errorf("the commits were asked for %d times", c.asked)
	}
	// One that comes later is looked up: the detector has gone on.
	c.end, c.offset, c.settled = 1_001, 1<<31, 1<<31
	if got := o.check(1_000, schemas.NewVersion(1, 1<<30, 0)); got != "" {
		t.Errorf("a later record is %q", got)
	}
}

func TestWhatIsSlightlyNewerThanALookIsTakenForAMoment(t *testing.T) {
	t.Parallel()
	c := &commits{offset: 100, settled: 100, checkpoint: schemas.Checkpoint{LogEpoch: 1}, end: 1_000}
	o, pass := originOf(c)
	for _, step := range []struct {
		after  time.Duration
		offset int64
		want   string
	}{{0, 50, ""}, {0, 500, ""}, {0, 2_000, "forged"}, {fresh, 501, "forged"}} {
		pass(step.after)
		if got := o.check(5, schemas.NewVersion(1, step.offset, 0)); got != step.want {
			t.Errorf("record %d: %q, want %q", step.offset, got, step.want)
		}
	}
}

func TestARecordOfAnotherPartitionThanItsUsersIsForged(t *testing.T) {
	t.Parallel()
	o, _ := originOf(&commits{end: 9})
	o.partitions = 4
	other := (schemas.PartitionOf(1, 4) + 1) % 4
	for topic, want := range map[schemas.Topic]bool{schemas.Transitions: true, schemas.Statuses: true, schemas.Fanout: false, schemas.Deliveries: false} {
		err := o.Check(topic, &schemas.Record{Partition: other, Time: 1}, &schemas.Transition{User: 1, Version: 1, At: 1})
		if schemas.IsInvalid(err) != want {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

func TestAnInstantIsNotAfterTheLogTimeOfTheDetectorWhateverClocksShow(t *testing.T) {
	t.Parallel()
	v := schemas.NewVersion
	for _, clock := range []time.Duration{0, -1000 * time.Hour, 1000 * time.Hour} {
		for at, forged := range map[schemas.Millis]bool{0: false, 1: false, logTime: false, logTime + ahead: false, logTime + ahead + 1: true, math.MaxInt64: true} {
			for _, version := range []schemas.Version{v(2, 1, 0), v(1, 1<<40, 0)} {
				o, pass := originOf(&commits{offset: 9, settled: 9, end: 9, checkpoint: schemas.Checkpoint{LogEpoch: 2}})
				pass(clock)
				r := &schemas.Record{Time: logTime + schemas.Millis(clock.Milliseconds())}
				for _, tr := range []schemas.Transition{{At: at}, {LastSeen: at}, {LastActive: at}} {
					tr.User, tr.Version = 1, version
					if err := o.Check(schemas.Transitions, r, &tr); schemas.IsInvalid(err) != forged {
						t.Errorf("clocks %s ahead, %+v: %v", clock, tr, err)
					}
				}
				for _, s := range []schemas.Status{{Since: at}, {UnsureSince: at}} {
					s.User, s.Version = 1, version
					if err := o.CheckStatus(r, &s); schemas.IsInvalid(err) != forged {
						t.Errorf("clocks %s ahead, %+v: %v", clock, s, err)
					}
				}
			}
		}
	}
	o, _ := originOf(&commits{offset: 9, settled: 9, end: 9, checkpoint: schemas.Checkpoint{LogEpoch: 2}})
	for _, since := range []schemas.Millis{-1, math.MinInt64} {
		if err := o.CheckStatus(&schemas.Record{}, &schemas.Status{User: 1, Version: v(2, 1, 0), UnsureSince: since}); !schemas.IsInvalid(err) {
			t.Errorf("unsure since %d: %v", since, err)
		}
	}
}
