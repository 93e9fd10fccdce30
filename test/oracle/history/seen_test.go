package history

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

func TestTheCountsAreThoseOfTheOracleHoweverOftenTheDetectorIsKilled(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 1000) {
		log := endingInATick(fromSeed(seed))
		want := oracle.RunCounts(log)
		for name, runs := range map[string]Runs{"undisturbed": {}, "killed": killed(seed)} {
			d := runs.run(log)
			var got *schemas.Counts
			for _, s := range d.seen {
				if s.Counts != nil {
					got = s.Counts
				}
			}
			if got == nil || *got != want {
				t.Fatalf("seed %d, %s: counts are %+v, by the rules %+v", seed, name, got, want)
			}
		}
	}
}

func TestNoHiddenUserIsInTheSeenTopic(t *testing.T) {
	t.Parallel()
	users := 0
	for seed := range seeds(t, 1000) {
		d := killed(seed).run(endingInATick(fromSeed(seed)))
		next, hidden := 0, map[schemas.UserID]bool{}
		for _, s := range d.seen {
			for ; next < len(d.transitions) && d.transitions[next].Version.Record() <= s.Version.Record(); next++ {
				hidden[d.transitions[next].User] = d.transitions[next].Visibility == schemas.Nobody
			}
			for _, u := range s.Users {
				if users++; hidden[u.User] {
					t.Fatalf("seed %d: user %d is in a record of version %d", seed, u.User, s.Version)
				}
			}
		}
	}
	if users == 0 {
		t.Fatal("nobody was ever written")
	}
}

// endingInATick is the log of h and a tick, late enough that counts are due at it.
func endingInATick(h *History) oracle.Log {
	l := h.Log()
	last := l.Records[len(l.Records)-1]
	latest := last.Time
	for i := range l.Records {
		latest = max(latest, l.Records[i].Time)
	}
	l.Records = append(l.Records, schemas.Record{Partition: l.Partition, Offset: last.Offset + 1, Time: latest + 1500,
		Value: schemas.AppendTick(nil)})
	return l
}
