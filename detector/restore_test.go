package detector

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestAStatusThatCannotBeTrueIsADeadLetter(t *testing.T) {
	t.Parallel()
	const user, victim = schemas.UserID(1), schemas.UserID(2)
	for name, forge := range map[string]func(good []byte) []byte{
		"garbage":       func([]byte) []byte { return []byte{0xff} },
		"in the future": func(good []byte) []byte { return forged(t, good, func(s *schemas.Status) { s.Since += 1 << 40 }) },
		"unsure since the future": func(good []byte) []byte {
			return forged(t, good, func(s *schemas.Status) { s.UnsureSince = s.Since + 1<<40 })
		},
		"of another user": func(good []byte) []byte { return forged(t, good, func(s *schemas.Status) { s.User = 77 }) },
		"of a record that is still to come": func(good []byte) []byte {
			return forged(t, good, func(s *schemas.Status) { s.Version = 1<<63 - 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := freshLog(t, 0, 1)
			l.write(start, beat(user, 0))
			l.write(start+10, beat(victim, 0))
			l.write(start+20, schemas.AppendTick(nil))
			last, bad := l.statuses[len(l.statuses)-1], int64(len(l.statuses))
			l.statuses = append(l.statuses, schemas.Record{Time: start + 20, Offset: bad, Key: last.Key, Value: forge(last.Value)})
			l.snapshots = nil
			l.restore(int64(len(l.heartbeats)), l.p.Checkpoint())
			l.write(start+100, schemas.AppendTick(nil))
			if len(l.out.Rejected) != 1 || l.out.Rejected[0].Topic != schemas.Statuses || l.out.Rejected[0].Record.Offset != bad {
				t.Fatalf("rejected is %v", l.out.Rejected)
			}
			if strings.Count(l.warnings.String(), "level=ERROR") != 1 { // of the snapshot that is gone
				t.Errorf("alarms: %s", l.warnings.String())
			}
			// The others go on: the user of the good status leaves in time, and once.
			left := 0
			for at := start + 1000; at <= start+60_000; at += 1000 {
				l.write(at, schemas.AppendTick(nil))
				for _, tr := range l.transitions() {
					if tr.User == user && tr.To == schemas.Away {
						left++
					}
				}
			}
			if left != 1 {
				t.Errorf("the user left %d times", left)
			}
		})
	}
}

// Brokers stamp heartbeats, detectors stamp what comes of them.
func TestClocksThatDifferRefuseNoStatusAndLeaveNobodyOnline(t *testing.T) {
	t.Parallel()
	for _, skew := range []schemas.Millis{-300_000, 300_000} {
		for _, lost := range []bool{false, true} {
			l := freshLog(t, 0, 1)
			l.write(start, beat(1, 0))
			for _, records := range [][]schemas.Record{l.statuses, l.published} {
				for i := range records {
					records[i].Time += skew
				}
			}
			committed, metadata := l.p.Next(), l.p.Checkpoint()
			if l.snapshots = nil; lost {
				committed, metadata = -1, ""
			}
			l.restore(committed, metadata)
			left := 0
			for at := start + 1000; at <= start+600_000; at += 1000 {
				if l.write(at, schemas.AppendTick(nil)); len(l.out.Rejected) > 0 {
					t.Errorf("skew %d, commit lost %v: %v", skew, lost, l.out.Rejected[0].Reason)
				}
				for _, tr := range l.transitions() {
					if tr.To == schemas.Offline {
						left++
					}
				}
			}
			if left != 1 {
				t.Errorf("skew %d, commit lost %v: the user left %d times", skew, lost, left)
			}
		}
	}
}

// The dates are on both sides of the wraps that shorter fields have, and the last has run ahead of its broker.
func TestAStatusIsUnsureSinceAnInstantOfItsLogWhateverTheDate(t *testing.T) {
	t.Parallel()
	const user = schemas.UserID(1)
	for _, date := range []schemas.Millis{maxAhead, 1<<31*1000 - 1, 1<<31*1000 + 1, 1<<32*1000 + 1, 1 << 41, 1<<44 + 1} {
		for name, b := range map[string]bounds{
			"the commit is known":                    {checkpoint: &schemas.Checkpoint{LogTime: date, LogEpoch: 2}, committed: 9, partitions: 1},
			"it is lost, the status another epoch's": {partitions: 1},
		} {
			for since, valid := range map[schemas.Millis]bool{0: true, 1: true, date: true, date + maxAhead: true, date + maxAhead + 1: false,
				-1: false, -date: false, math.MaxInt64: false, math.MinInt64: false} {
				s := schemas.Status{User: user, State: schemas.Online, Version: schemas.NewVersion(1, 5, 0), UnsureSince: since}
				_, got, err := b.status(&schemas.Record{Time: date, Key: user.Key(), Value: s.Encode()})
				if (err == nil) != valid || valid && got.UnsureSince != since || !valid && !strings.Contains(err.Error(), "unsure_since_ms") {
					t.Errorf("%s, at %d: unsure since %d: %+v, %v", name, date, since, got, err)
				}
			}
		}
	}
}

// forged is the status in value with something changed.
func forged(t *testing.T, value []byte, change func(*schemas.Status)) []byte {
	t.Helper()
	s := must.Get(schemas.DecodeStatus(value))(t)
	change(s)
	return s.Append(nil)
}

// Offsets that a tool has set have no metadata: the policy is looked for in all records
// before them.
func TestAPolicyBeforeACommitWithoutMetadataStaysInForce(t *testing.T) {
	t.Parallel()
	l := freshLog(t, 0, 1)
	l.write(start, beat(1, 0))
	l.write(start+1000, schemas.AppendTick(nil))
	policy := l.settings
	policy.OnlineTTL = 3 * policy.OnlineTTL
	l.write(start+2000, schemas.AppendPolicy(nil, policy))
	l.write(start+3000, schemas.AppendTick(nil))
	// Retention has taken the beat, the only record that led to a transition.
	p := NewPartition(l.p.config, 0)
	if err := p.Restore(context.Background(), stream.Assignment{Partitions: 1, Offset: 4, LogStart: 1, LogEnd: 4, TopicID: l.topicID}, l.read); err != nil {
		t.Fatal(err)
	}
	if got := p.machine.Policy().Policy; got != policy {
		t.Errorf("in force is %+v, want %+v", got, policy)
	}
	if at := p.LogTime(); at != start+3000 {
		t.Errorf("log time is %v, want that of the record before the commit, %v", at, start+3000)
	}
}

func TestReadingAStatusOfARestoreAllocatesNothing(t *testing.T) {
	s := schemas.Status{User: 1, State: schemas.Online, Since: start, LastSeen: start, Kinds: schemas.KindSet(0).With(schemas.Web), Version: schemas.NewVersion(1, 5, 0)}
	b := bounds{checkpoint: &schemas.Checkpoint{LogTime: start, LogEpoch: 1}, committed: 9, partitions: 1}
	r := &schemas.Record{Time: start, Key: s.User.Key(), Value: s.Encode()}
	allocs := testing.AllocsPerRun(100, func() {
		if _, _, err := b.status(r); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
