//go:build unix

package storm_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// A storm in which heartbeats are deleted and the detector's group loses its offsets. What a
// detector can know then is not what the oracle knows, so the judge holds what is committed
// to laws:
//
//   - Who goes on beating is told to come, and never to go.
//   - Who falls silent is told to be away and offline, after their last beat, and not to be back.
//   - The changes of a user link up, their versions grow, and changes of state never go
//     back in time; every change is there once.
//   - The last status of a user is that of their last change.
//   - Nobody is called by a name that is not theirs, and nobody who was named loses the name.
//
//	STILLHERE_STORM_LOSSES  how often something is lost, in each mode [6]

// losses are what is lost, one after the other.
var losses = []struct {
	name string
	// said is what a detector says of it; empty: it may have noticed nothing.
	said string
	lose func(*lossyStorm)
}{
	{"heartbeats before the commit", "retention has taken heartbeats that a restart needs", func(l *lossyStorm) { l.behind(5) }},
	{"heartbeats up to the commit", "retention has taken heartbeats that a restart needs", func(l *lossyStorm) { l.behind(0) }},
	{"heartbeats beyond the commit", "retention has overtaken the detector", (*lossyStorm).beyond},
	{"the group's offsets", "the group's committed offset is gone", func(l *lossyStorm) { l.reset(false) }},
	{"heartbeats under running detectors", "", func(l *lossyStorm) { l.remove(l.ends()) }},
	{"the group's offsets, and heartbeats", "the group's committed offset is gone", func(l *lossyStorm) { l.reset(true) }},
}

func TestNoLossOfHeartbeatsInAStormReportsAnybodyFalselyAsGone(t *testing.T) {
	testkit.InBothModes(t, lossyStormOf)
}

func lossyStormOf(t *testing.T, m testkit.Mode) {
	s := newStorm(t, m)
	// A gap in the log counts as 5 s at most, and nobody beats in it.
	s.policy.HeartbeatInterval, s.policy.OnlineTTL, s.policy.AwayTTL = time.Second, 10*time.Second, 14*time.Second
	s.policy.IdleAfter = s.policy.OnlineTTL // a gap leaves nobody idle either
	s.expected = []string{"retention removed records before they were handled", "records are missing"}
	for _, loss := range losses {
		s.expected = append(s.expected, loss.said)
	}
	l := &lossyStorm{storm: s, said: map[string]int{}}
	l.begun = time.Now()
	chaos := s.loadUntil(s.calm)
	l.ids, s.people = m.People(afterSilent - 1)
	beating := l.beatUntil(s.calm)
	for i, name := range []string{"detector-a", "detector-b"} {
		l.residents = append(l.residents, s.detector(name, uint64(i)))
	}
	random := s.draw()
	for i := range testkit.Number(t, "STILLHERE_STORM_LOSSES", int64(len(losses))) {
		for _, d := range l.residents {
			if d.program == nil {
				d.start(visitPoint(random, s.points[random.IntN(len(s.points))]))
			}
		}
		l.work()
		losses[int(i)%len(losses)].lose(l)
		for n, d := range l.residents {
			if d.program == nil { // it dies at its first record, which writes a snapshot
				d.start(snapshotPoints[(int(i)+n)%len(snapshotPoints)] + ":1")
			}
		}
		s.count("losses", 1)
	}
	l.work()
	close(l.hush)
	testkit.Until(t, "everybody who is silent is offline", time.Minute, func() bool {
		l.supervise()
		return l.allSilent()
	})
	s.end(l.residents)
	close(s.calm)
	<-chaos
	<-beating
	l.judge()
}

// lossyStorm is a storm that loses what a restart needs. The test's goroutine owns it.
type lossyStorm struct {
	*storm
	residents []*detectorProcess
	said      map[string]int   // what the detectors have said of losses
	ids       []schemas.UserID // of all users; user n is the one before n

	hush chan struct{} // closed when the silent are to fall silent
	mu   sync.Mutex    // protects what follows
	last time.Time     // when one of the silent beat last
}

const (
	firstSteady = stormUsers + 1 // users from here on never stop beating ...
	firstSilent = firstSteady + 60
	afterSilent = firstSilent + 60 // ... those from firstSilent to here do, when they are told to
	steadyEvery = 250 * time.Millisecond
	namedEvery  = 8 // of these beats are with the user's name
)

// beatUntil lets the steady and the silent beat, every other of them through a gateway.
func (l *lossyStorm) beatUntil(calm <-chan struct{}) <-chan struct{} {
	l.hush = make(chan struct{})
	done := make(chan struct{})
	epoch := schemas.MillisOf(time.Now())
	go func() {
		defer close(done)
		ticker := time.NewTicker(steadyEvery)
		defer ticker.Stop()
		var acknowledged sync.WaitGroup
		defer acknowledged.Wait()
		for sequence := uint64(1); ; sequence++ {
			users := afterSilent
			select {
			case <-l.hush:
				users = firstSilent
			default:
			}
			for p := range int32(stormPartitions) {
				var rows [2][]schemas.Beat
				for user := firstSteady; user < users; user++ {
					if id := l.ids[user-1]; schemas.PartitionOf(id, stormPartitions) == p {
						rows[user%2] = append(rows[user%2], schemas.Beat{User: id, Device: 1, Kind: schemas.Web})
					}
				}
				for i, head := range []schemas.FrameHead{{}, {Gateway: "gw-steady", GatewayEpoch: epoch, Sequence: sequence}} {
					acknowledged.Add(1)
					out := schemas.Outgoing{Topic: schemas.Heartbeats, Partition: p, Value: schemas.AppendFrame(nil, head, rows[i])}
					if l.people != nil && sequence%namedEvery == 1 {
						for row, beat := range rows[i] {
							out.Value = schemas.AppendNamedRow(out.Value, row, l.people[beat.User])
						}
					}
					l.producer.Append(context.Background(), out, func(err error) {
						if err != nil {
							l.Errorf("writing heartbeats: %v", err)
						}
						acknowledged.Done()
					})
				}
			}
			if users > firstSilent {
				l.mu.Lock()
				l.last = time.Now()
				l.mu.Unlock()
			}
			select {
			case <-ticker.C:
			case <-calm:
				return
			}
		}
	}()
	return done
}

// supervise starts detectors that have crashed.
func (l *lossyStorm) supervise() {
	l.Helper()
	for _, d := range l.residents {
		if d.program == nil || !d.program.Running() {
			l.bury(d)
			d.start("")
		}
	}
}

// bury notes what a detector that has ended did.
func (l *lossyStorm) bury(d *detectorProcess) {
	l.Helper()
	if d.program == nil {
		return
	}
	d.program.Kill()
	d.count("kills", 1)
	if point, ok := d.point(); ok {
		d.count("crashes", 1)
		d.count("at "+point, 1)
		if strings.HasPrefix(point, "snapshot.") && l.saysOfALoss(d.program.Err.String()) {
			d.count("at first records", 1)
		}
	}
	l.listen(d)
	d.ended()
}

// saysOfALoss reports whether a log is of a lossy restart.
func (l *lossyStorm) saysOfALoss(log string) bool {
	return slices.ContainsFunc(l.expected[2:], func(said string) bool { return said != "" && strings.Contains(log, said) })
}

// listen counts what a detector has said of losses.
func (l *lossyStorm) listen(d *detectorProcess) {
	log := d.program.Err.String()
	for _, said := range l.expected {
		if said != "" && strings.Contains(log, said) {
			l.said[said]++
		}
	}
}

// work lets the detectors handle two seconds of heartbeats, the losses before included.
func (l *lossyStorm) work() {
	l.Helper()
	<-time.After(2 * time.Second)
	ends := l.ends()
	testkit.Until(l.T, "the detectors have come over what was lost", time.Minute, func() bool {
		l.supervise()
		for _, d := range l.residents {
			if !strings.Contains(d.program.Err.String(), `"msg":"partitions assigned"`) {
				return false
			}
		}
		for p, offset := range l.committed() {
			if offset < ends[p] {
				return false
			}
		}
		return true
	})
}

// remove deletes the heartbeats before these offsets.
func (l *lossyStorm) remove(before []int64) {
	l.Helper()
	offsets := kadm.Offsets{}
	for p, offset := range before {
		offsets.Add(kadm.Offset{Topic: schemas.Heartbeats.Name(schemas.DefaultPrefix), Partition: int32(p), At: max(offset, 0), LeaderEpoch: -1})
	}
	must.Do(l, must.Get(l.admin.DeleteRecords(l.Context(), offsets))(l).Error())
}

// killAll kills the detectors.
func (l *lossyStorm) killAll() {
	l.Helper()
	for _, d := range l.residents {
		l.bury(d)
	}
}

// behind deletes heartbeats before the commit, all but a few.
func (l *lossyStorm) behind(but int64) {
	l.Helper()
	l.killAll()
	offsets := l.committed()
	for p := range offsets {
		offsets[p] -= but
	}
	l.remove(offsets)
}

// beyond deletes a second of heartbeats that nobody has handled.
func (l *lossyStorm) beyond() {
	l.Helper()
	l.killAll()
	<-time.After(time.Second)
	l.remove(l.ends())
}

// reset takes the group's offsets, and with more half of the heartbeats that are left.
func (l *lossyStorm) reset(more bool) {
	l.Helper()
	l.killAll()
	for _, d := range l.residents {
		d.leave()
	}
	topics := kadm.TopicsSet{}
	for p := range int32(stormPartitions) {
		topics.Add(schemas.Heartbeats.Name(schemas.DefaultPrefix), p)
	}
	must.Do(l, must.Get(l.admin.DeleteOffsets(l.Context(), "stillhere.detector", topics))(l).Error())
	if !more {
		return
	}
	middle := l.ends()
	for p := range middle {
		start, end, err := l.reader.Bounds(l.Context(), schemas.Heartbeats, int32(p))
		must.Do(l, err)
		middle[p] = (start + end) / 2
	}
	l.remove(middle)
}

// changes are those that are committed, in the order of each partition.
func (l *lossyStorm) changes(p int32) []schemas.Transition {
	l.Helper()
	var all []schemas.Transition
	err := l.reader.Read(l.Context(), schemas.Transitions, p, -1, -1, true, func(r *schemas.Record) error {
		t, err := schemas.DecodeTransition(r.Value)
		if err != nil {
			return fmt.Errorf("record %d of the transitions, partition %d: %w", r.Offset, p, err)
		}
		if !bytes.Contains(r.Value, []byte(t.EventID().String())) {
			return fmt.Errorf("record %d of the transitions, partition %d, has not the event id %s", r.Offset, p, t.EventID())
		}
		all = append(all, *t)
		return nil
	})
	must.Do(l, err)
	return all
}

// allSilent reports whether all who are silent are offline.
func (l *lossyStorm) allSilent() bool {
	l.Helper()
	offline := map[schemas.UserID]bool{}
	for p := range int32(stormPartitions) {
		for _, t := range l.changes(p) {
			offline[t.User] = t.To == schemas.Offline
		}
	}
	for _, user := range l.ids[firstSilent-1:] {
		if !offline[user] {
			return false
		}
	}
	return true
}

func (l *lossyStorm) judge() {
	l.Helper()
	j := l.judgement()
	l.saysAll(j)
	users := map[schemas.UserID][]schemas.Transition{}
	events := map[string]bool{}
	for p := range int32(stormPartitions) {
		for _, t := range l.changes(p) {
			if id := t.EventID().String(); events[id] {
				l.Errorf("this change is there twice: %s", testkit.InWords(&t))
			} else {
				events[id] = true
			}
			j.isCalled("a change", t.User, t.Name)
			users[t.User] = append(users[t.User], t)
			j.take(&t)
		}
		j.statuses(p)
		if l.people != nil {
			j.namesTopic(p)
		}
	}
	for _, list := range users {
		l.linksUp(list)
	}
	for _, user := range l.ids[firstSteady-1 : firstSilent-1] {
		if list := users[user]; len(list) == 0 || slices.ContainsFunc(list, func(t schemas.Transition) bool { return t.To != schemas.Online }) {
			l.Errorf("user %d never stopped beating, and went away or offline:\n%s", user, inLines(list))
		}
	}
	for _, user := range l.ids[firstSilent-1:] {
		list := users[user]
		gone := slices.IndexFunc(list, func(t schemas.Transition) bool { return t.To != schemas.Online })
		switch {
		case gone < 0 || list[len(list)-1].To != schemas.Offline:
			l.Errorf("user %d fell silent, and is not offline:\n%s", user, inLines(list))
		case list[gone].At < schemas.MillisOf(l.last):
			l.Errorf("user %d went away or offline before their last beat at %d:\n%s", user, schemas.MillisOf(l.last), inLines(list))
		case slices.ContainsFunc(list[gone:], func(t schemas.Transition) bool { return t.To == schemas.Online }):
			l.Errorf("user %d fell silent, and came back online:\n%s", user, inLines(list))
		case list[len(list)-1].Name != l.people[user]:
			l.Errorf("user %d is called %s all the time, and the last change has the name %q", user, l.people[user], list[len(list)-1].Name)
		}
	}
	l.Logf("%d losses, %d kills, %d of them at crash points, %d of these at the first record after a loss, %d restores; %d changes of %d users in %s, names written %d times; said: %v",
		l.counts["losses"], l.counts["kills"], l.counts["crashes"], l.counts["at first records"], l.counts["restores"], len(events), len(users), time.Since(l.begun).Round(time.Second),
		j.named, l.said)
	if l.counts["at first records"] < l.counts["losses"]/2 { // one was under running detectors
		l.Errorf("only %d deaths at the first record after a loss", l.counts["at first records"])
	}
	for _, loss := range losses[:min(l.counts["losses"], len(losses))] {
		if loss.said != "" && l.said[loss.said] == 0 {
			l.Errorf("no detector has said %q after a loss of %s", loss.said, loss.name)
		}
	}
}

// saysAll notes that those who never stop beating, and those who fall silent, are named. Of the others the records
// that say so may be lost.
func (l *lossyStorm) saysAll(j *judgement) {
	for p := range j.saidIn {
		j.saidIn[p] = map[schemas.UserID]bool{}
	}
	if l.people == nil {
		return
	}
	for _, user := range l.ids[firstSteady-1:] {
		j.saidIn[schemas.PartitionOf(user, stormPartitions)][user] = true
	}
}

// linksUp checks what holds of the changes of any user.
func (l *lossyStorm) linksUp(list []schemas.Transition) {
	l.Helper()
	before, moved := schemas.Transition{To: schemas.Offline}, schemas.Millis(0)
	for _, t := range list {
		fault := ""
		switch {
		case t.From != before.To:
			fault = "does not follow on"
		case t.Version <= before.Version:
			fault = "has a version that does not grow"
		case t.From != t.To && t.At < moved:
			fault = "goes back in time"
		}
		if fault != "" {
			l.Errorf("this change %s: %s\nof\n%s", fault, testkit.InWords(&t), inLines(list))
			return
		}
		if before = t; t.From != t.To {
			moved = t.At
		}
	}
}

// inLines are changes for people.
func inLines(list []schemas.Transition) string {
	lines := make([]string, len(list))
	for i := range list {
		lines[i] = "  " + testkit.InWords(&list[i])
	}
	return strings.Join(lines, "\n")
}
