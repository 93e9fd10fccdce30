//go:build unix

package kafka_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// absence is for how long no detector runs at least, as STILLHERE_ABSENCE says; it need not
// be long for what is tested.
func absence(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("STILLHERE_ABSENCE")
	if text == "" {
		return 0
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestAnAbsenceLongerThanTheHeartbeatsAreKept stops the detector, deletes all heartbeats and
// starts it again: those who fell silent go by their limits, and nobody else does.
func TestAnAbsenceLongerThanTheHeartbeatsAreKeptTakesTheSilentAlongAndNobodyElseOnRealServers(t *testing.T) {
	testkit.InBothModes(t, absentDetector)
}

func absentDetector(t *testing.T, m testkit.Mode) {
	const silent, all = 20, 40 // users up to silent fall silent, the others go on
	o := newTopicsIn(t, m)
	users, names := m.People(all)
	policy := []string{"--policy=heartbeat_interval=2s,online_ttl=6s,offline_debounce=2s,away_ttl=12s"}
	const present, away = 8000, 12_000
	cluster := kafka.Config{Brokers: strings.Split(os.Getenv("STILLHERE_TEST_KAFKA"), ","), Prefix: o.prefix}
	producer := kafkatest.Producer(t, cluster)
	reader := kafkatest.Reader(t, cluster)
	beat := func(some []schemas.UserID) error {
		var beats []schemas.Outgoing
		for _, user := range some {
			frame := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 1, Kind: schemas.Web}})
			if m.Text() {
				frame = schemas.AppendNamedRow(frame, 0, names[user])
			}
			beats = append(beats, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user, 2), Value: frame})
		}
		return producer.AppendSync(t.Context(), beats...)
	}
	changes := func() map[schemas.UserID][]*schemas.Transition {
		found := map[schemas.UserID][]*schemas.Transition{}
		for partition := range int32(2) {
			must.Do(t, reader.Read(t.Context(), schemas.Transitions, partition, -1, -1, true, func(r *schemas.Record) error {
				tr, err := schemas.DecodeTransition(r.Value)
				if err == nil {
					found[tr.User] = append(found[tr.User], tr)
				}
				return err
			}))
		}
		return found
	}

	d := o.detector(policy...)
	must.Do(t, beat(users))
	testkit.Until(t, "everybody is online", 20*time.Second, func() bool { return len(changes()) == all })
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			if err := beat(users[silent:]); err != nil {
				t.Errorf("a beat is lost: %v", err)
			}
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	defer beating.Wait()
	defer close(done)
	d.Stop()
	var ends kadm.ListedOffsets
	written := func() (n int64) {
		var err error
		ends, err = o.admin.ListEndOffsets(t.Context(), o.name(schemas.Heartbeats))
		must.Do(t, err)
		ends.Each(func(l kadm.ListedOffset) { n += l.Offset })
		return n
	}
	left, before, least := time.Now(), written(), absence(t)
	testkit.Until(t, "the others have beaten five times without a detector", least+time.Minute, func() bool {
		return written() >= before+5*(all-silent) && time.Since(left) >= least
	})
	deleted, err := o.admin.DeleteRecords(t.Context(), ends.Offsets())
	if err == nil {
		err = deleted.Error()
	}
	must.Do(t, err)

	back := schemas.MillisOf(time.Now())
	d = o.detector() // by the policy in force
	testkit.Until(t, "the silent are offline", time.Minute, func() bool {
		gone := 0
		for user, list := range changes() {
			if slices.Contains(users[:silent], user) && list[len(list)-1].To == schemas.Offline {
				gone++
			}
		}
		return gone == silent
	})
	for user, list := range changes() {
		if called := list[len(list)-1].Name; called != names[user] {
			t.Errorf("the last change of %s has the name %q", names[user], called)
		}
		goesOn := slices.Contains(users[silent:], user)
		switch {
		case goesOn && len(list) != 1:
			t.Errorf("user %d, who was never silent, has %d changes; the second is %s", user, len(list), testkit.InWords(list[1]))
		case goesOn:
		case len(list) != 3 || list[1].To != schemas.Away || list[2].To != schemas.Offline:
			t.Errorf("user %d, who fell silent, has %d changes", user, len(list))
		case list[1].Cause != schemas.Silent || list[2].At-list[1].At != away-present:
			t.Errorf("user %d went\n  %s\n  %s", user, testkit.InWords(list[1]), testkit.InWords(list[2]))
		case list[1].At < back:
			t.Errorf("user %d left before anybody could know: %s", user, testkit.InWords(list[1]))
		}
	}
	o.namesOnly(names)
	if log := d.Err.String(); !strings.Contains(log, "retention has overtaken the detector") {
		t.Errorf("the detector does not say that heartbeats were lost; it said last:\n%s", testkit.Tail(log, 2000))
	}
}

// namesOnly replays everything, as a person does who sees names and no ids.
func (o *topicsOf) namesOnly(names map[schemas.UserID]schemas.Name) {
	o.Helper()
	code, said := o.stillhere("replay")
	for user, name := range names {
		if code != 0 || strings.Contains(said, user.String()) || !strings.Contains(said, fmt.Sprintf(`"tenant":%q,"name":%q`, name.Tenant, name.Text)) {
			o.Fatalf("a replay ends with %d and shows %s, whose id is %d, as in\n%s", code, name, user, testkit.Tail(said, 2000))
		}
	}
}
