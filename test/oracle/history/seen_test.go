package history

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

func TestTheCountsAreThoseOfTheStatusesHoweverOftenTheDetectorIsKilled(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 1000) {
		h := fromSeed(seed)
		h.Settings.FlapBurst = 0 // every change is published
		for name, runs := range map[string]Runs{"undisturbed": {}, "killed": killed(seed)} {
			d := runs.run(endingInATick(h))
			var got *schemas.Counts
			for _, s := range d.seen {
				if s.Counts != nil {
					got = s.Counts
				}
			}
			if want := counted(d); got == nil || *got != want {
				t.Fatalf("seed %d, %s: counts are %+v, by the statuses %+v", seed, name, got, want)
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

// counted counts visible present users by the statuses at the end of a run.
func counted(d *run) (c schemas.Counts) {
	newest := map[schemas.UserID]*schemas.Status{}
	for i := range d.statuses {
		if schemas.IsRulesKey(d.statuses[i].Key) {
			continue
		}
		user, err := schemas.UserOfKey(d.statuses[i].Key)
		must(err)
		delete(newest, user)
		if value := d.statuses[i].Value; value != nil {
			newest[user], err = schemas.DecodeStatus(value)
			must(err)
		}
	}
	for _, s := range newest {
		if s.Absent() || s.Visibility == schemas.Nobody {
			continue
		}
		one := schemas.Counts{Online: 1}
		if s.State == schemas.Away {
			one = schemas.Counts{Away: 1}
		}
		for i, kind := range schemas.Kinds {
			if s.Kinds&(1<<kind) != 0 {
				one.ByKind[i] = 1
			}
		}
		c.Add(&one)
	}
	return c
}
