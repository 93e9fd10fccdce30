//go:build unix

package storm_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
	"github.com/stillhere/stillhere/test/oracle"
)

// place is where a record is in the heartbeats topic.
type place struct {
	partition int32
	offset    int64
}

// beatOf names a beat in a wrong partition, whose device beats once.
type beatOf struct {
	user   schemas.UserID
	device schemas.DeviceID
}

// judgement is what the topics say when all detectors have stopped.
type judgement struct {
	*storm
	garbage   map[place]bool // heartbeats that cannot be read, before the commits
	misrouted map[beatOf]bool
	forwarded map[beatOf]int

	saidIn [stormPartitions]map[schemas.UserID]bool // whom the heartbeats name
	named  int                                      // times that a name was written

	ticks, compared, differences, aborted int
	latest                                map[schemas.UserID]schemas.Transition
	shown                                 map[schemas.UserID]schemas.Millis // when who had hidden showed again
	hash                                  hash.Hash                         // of the event ids, by partition, in order
}

func (s *storm) judgement() *judgement {
	return &judgement{storm: s, garbage: map[place]bool{}, misrouted: map[beatOf]bool{}, forwarded: map[beatOf]int{},
		latest: map[schemas.UserID]schemas.Transition{}, shown: map[schemas.UserID]schemas.Millis{}, hash: sha256.New()}
}

// take notes what statuses must say after a transition.
func (j *judgement) take(t *schemas.Transition) {
	j.latest[t.User] = *t
	if t.Visibility == schemas.Nobody {
		delete(j.shown, t.User)
	} else if t.Cause == schemas.VisibilityChange {
		j.shown[t.User] = t.At
	}
}

// judge holds everything that was committed to what is in the heartbeats.
func (s *storm) judge() {
	s.Helper()
	j := s.judgement()
	var heartbeats int
	for p, committed := range s.committed() {
		records := j.heartbeats(int32(p), committed)
		heartbeats += len(records)
		j.transitions(int32(p), oracle.Run(oracle.Log{Policy: s.policy, Partition: int32(p), Partitions: stormPartitions, LogEpoch: 1,
			Records: records, Users: s.mode.Users()}))
		j.statuses(int32(p))
		if s.people != nil {
			j.namesTopic(int32(p))
		}
	}
	letters := j.deadLetters()
	again := j.forwards()
	committed, aborted := s.transactions()
	c := s.counts
	s.Logf("%d kills, %d of them at crash points, %d freezes, %d planned restarts (%d could not commit at the end), %d requests answered with errors",
		c["kills"], c["crashes"], c["freezes"], c["planned restarts"], c["stops without a commit"], s.errors)
	s.Logf("%d joins and %d leaves of a third detector, %d revocations, %d restores, %d sessions ended; %d transactions committed, %d aborted (%d records)",
		c["joins"], c["leaves"], c["revocations"], c["restores"], c["sessions ended"], committed, aborted, j.aborted)
	s.Logf("%d heartbeats records in %s, %d of them ticks; %d beats forwarded, %d of them more than once; %d dead letters",
		heartbeats, time.Since(s.begun).Round(time.Second), j.ticks, len(j.misrouted), again, letters)
	s.Logf("%d transitions of %d users compared, event ids and names (written %d times) included: %d differences; hash of all event ids %x",
		j.compared, len(j.latest), j.named, j.differences, j.hash.Sum(nil)[:8])
	if s.people != nil && j.named == 0 {
		s.Errorf("no name was written")
	}
	if j.compared < 10*s.counts["kills"] {
		s.Errorf("only %d transitions were made: the storm tested little", j.compared)
	}
}

// heartbeats are the records of a partition before an offset. On the way it notes
// what must have become of some of them.
func (j *judgement) heartbeats(p int32, before int64) []schemas.Record {
	j.Helper()
	var records []schemas.Record
	j.saidIn[p] = map[schemas.UserID]bool{}
	err := j.reader.Read(j.Context(), schemas.Heartbeats, p, -1, -1, false, func(r *schemas.Record) error {
		var f schemas.Frame
		unreadable := f.Decode(r.Value) != nil
		bad := unreadable || j.forged(&f)
		if r.Offset < before {
			records = append(records, schemas.Record{Partition: p, Offset: r.Offset, Time: r.Time, Value: bytes.Clone(r.Value)})
			if bad {
				j.garbage[place{p, r.Offset}] = true
			}
		}
		if unreadable {
			return nil
		}
		if r.Offset < before {
			j.says(p, &f)
		}
		if f.Tick {
			j.ticks++
		}
		rows := f.Beats()
		for row := (schemas.Beat{}); rows.Next(&row); {
			switch {
			case row.Device <= firstStrange:
			case f.Forwarded:
				j.forwarded[beatOf{row.User, row.Device}]++
			case r.Offset < before:
				j.misrouted[beatOf{row.User, row.Device}] = true
			}
		}
		return nil
	})
	must.Do(j, err)
	return records
}

// transitions compares those that were committed with those that the rules want.
func (j *judgement) transitions(p int32, want []schemas.Transition) {
	j.Helper()
	var got []schemas.Transition
	each := func(r *schemas.Record) error {
		t, err := schemas.DecodeTransition(r.Value)
		if err != nil {
			return fmt.Errorf("record %d of the transitions, partition %d: %w", r.Offset, p, err)
		}
		var message pb.Transition
		if err := proto.Unmarshal(r.Value, &message); err != nil {
			return err
		}
		if message.EventId != t.EventID().String() {
			return fmt.Errorf("record %d of the transitions, partition %d, has the event id %s, must be %s", r.Offset, p, message.EventId, t.EventID())
		}
		j.isCalled(fmt.Sprintf("record %d of the transitions, partition %d,", r.Offset, p), t.User, t.Name)
		got = append(got, *t)
		return nil
	}
	must.Do(j, j.reader.Read(j.Context(), schemas.Transitions, p, -1, -1, true, each))
	written := map[schemas.Transition]int{}
	must.Do(j, j.reader.Read(j.Context(), schemas.Transitions, p, -1, -1, false, func(r *schemas.Record) error {
		if t, err := schemas.DecodeTransition(r.Value); err == nil {
			written[*t]++
		}
		j.aborted++
		return nil
	}))
	j.aborted -= len(got)
	j.compared += max(len(got), len(want))
	for i := range got {
		j.take(&got[i])
		id := got[i].EventID()
		j.hash.Write(id[:])
	}
	if !testkit.Same(j.T, p, got, want) {
		j.differences += j.differ(got, want, written)
	}
}

// differ counts what is missing and what is too much, and says what that is; where it is only the order, 1.
func (j *judgement) differ(got, want []schemas.Transition, written map[schemas.Transition]int) (n int) {
	j.Helper()
	balance := map[schemas.Transition]int{}
	for i := range got {
		balance[got[i]]++
	}
	for i := range want {
		balance[want[i]]--
	}
	for t, surplus := range balance {
		if n += max(surplus, -surplus); surplus != 0 && n <= 20 {
			j.Logf("%+d, written %d times, aborted transactions included: %s", surplus, written[t], testkit.InWords(&t))
		}
	}
	return max(n, 1)
}

// statuses checks that the last status of every user belongs to its last transition, and says when a user who had
// hidden showed again.
func (j *judgement) statuses(p int32) {
	j.Helper()
	last := map[schemas.UserID]schemas.Status{} // a tombstone is none
	must.Do(j, j.reader.Read(j.Context(), schemas.Statuses, p, -1, -1, true, func(r *schemas.Record) error {
		if schemas.IsRulesKey(r.Key) {
			return nil
		}
		user, err := schemas.UserOfKey(r.Key)
		if err != nil {
			return err
		}
		if delete(last, user); r.Value != nil {
			status, err := schemas.DecodeStatus(r.Value)
			if err != nil {
				return err
			}
			last[user] = *status
			j.isCalled(fmt.Sprintf("record %d of the statuses, partition %d,", r.Offset, p), user, status.Name)
		}
		return nil
	}))
	for user, t := range j.latest {
		if schemas.PartitionOf(user, stormPartitions) != p {
			continue
		}
		status, want := last[user], t.Version
		if t.To == schemas.Offline && t.Visibility != schemas.Nobody && status.NamedUntil == 0 && j.shown[user] == 0 {
			// The tombstone of a user with a name, or who has shown, comes later.
			want = 0
		}
		if got := status.Version; got != want && (want == 0 || got < want || !withoutTransition(got)) {
			j.Errorf("the status of user %d has version %d, must have %d (0: a tombstone) after\n  %s",
				user, got, want, testkit.InWords(&t))
		}
		if status.ShownAt != j.shown[user] {
			j.Errorf("the status of user %d says a show at %d, must say %d (0: none)", user, status.ShownAt, j.shown[user])
		}
	}
}

// deadLetters checks that every record that cannot be read was sent to the dead-letter topic once.
func (j *judgement) deadLetters() int {
	j.Helper()
	seen := map[place]int{}
	for p := range int32(stormPartitions) {
		err := j.reader.Read(j.Context(), schemas.DeadLetter, p, -1, -1, true, func(r *schemas.Record) error {
			partition, err := strconv.ParseInt(string(r.Header(kafka.HeaderOriginPartition)), 10, 32)
			if err != nil {
				return err
			}
			offset, err := strconv.ParseInt(string(r.Header(kafka.HeaderOriginOffset)), 10, 64)
			seen[place{int32(partition), offset}]++
			return err
		})
		must.Do(j, err)
	}
	for at := range j.garbage {
		if seen[at] != 1 {
			j.Errorf("the heartbeats record %d of partition %d cannot be read and was sent to the dead-letter topic %d times, must be once", at.offset, at.partition, seen[at])
		}
	}
	for at := range seen {
		if !j.garbage[at] {
			j.Errorf("the heartbeats record %d of partition %d was sent to the dead-letter topic although nothing is wrong with it", at.offset, at.partition)
		}
	}
	return len(seen)
}

// forwards checks that no beat in a wrong partition is lost; a kill between the
// forward and the commit forwards it again.
func (j *judgement) forwards() (again int) {
	j.Helper()
	for beat := range j.misrouted {
		switch n := j.forwarded[beat]; {
		case n == 0:
			j.Errorf("the beat of device %d of user %d in a wrong partition was not forwarded", beat.device, beat.user)
		case n > 1:
			again++
		}
	}
	return again
}

// withoutTransition reports whether a status was written without a transition: its
// version lies between those of two records' transitions.
func withoutTransition(v schemas.Version) bool { return (v + 1).Ordinal() == 0 }
