//go:build unix

package process_test

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/testkit"
)

// judge compares what the topics, Postgres and the reads have with what the rules say of the
// heartbeats before the detectors' commits.
func (w *upgradeWorld) judge(l *upgradeLoad) {
	w.Helper()
	w.stop("detector-a")
	w.stop("detector-b")
	reader := kafkatest.Reader(w.T, kafka.Config{Brokers: []string{w.kafka}})
	commits := must.Get(reader.Commits(w.Context(), "stillhere.detector", schemas.Heartbeats, true))(w.T)
	want, letters, heartbeats := map[schemas.UserID][]schemas.Transition{}, int64(0), 0
	var all []string
	for p := range int32(sinkPartitions) {
		records := w.records(reader, schemas.Heartbeats, p, commits[p].Offset, false)
		heartbeats += len(records)
		due := oracle.Transitions(w.policy, p, sinkPartitions, 1, records)
		var got []schemas.Transition
		for _, r := range w.records(reader, schemas.Transitions, p, -1, true) {
			t := must.Get(schemas.DecodeTransition(r.Value))(w.T)
			got = append(got, *t)
		}
		testkit.Same(w.T, p, got, due)
		for i := range due {
			want[due[i].User] = append(want[due[i].User], due[i])
			all = append(all, due[i].EventID().String())
		}
		_, end, err := reader.Bounds(w.Context(), schemas.DeadLetter, p)
		must.Do(w.T, err)
		letters += end
	}
	w.Logf("%d requests accepted, %d sent again; %d heartbeats records, %d transitions of %d users; %d polls, resyncs %v",
		l.beats.Load(), l.refused.Load(), heartbeats, len(all), len(want), l.polls, l.resyncs)
	if len(all) < 4*upgradeUsers {
		w.Errorf("only %d transitions: the test tested little", len(all))
	}
	if letters != 0 {
		w.Errorf("%d records were sent to the dead-letter topic", letters)
	}
	for user := schemas.UserID(1); user <= upgradeStay; user++ {
		if len(want[user]) != 1 {
			w.Errorf("user %d beat all the time, but went: %d transitions", user, len(want[user]))
		}
	}
	w.rowsAre(all)
	w.pollerSaw(l, want)
	w.viewerSaw(&l.watched, want)
}

// records are those of a partition before an offset.
func (w *upgradeWorld) records(reader *kafka.Reader, topic schemas.Topic, p int32, before int64, committed bool,
) (all []schemas.Record) {
	w.Helper()
	must.Do(w.T, reader.Read(w.Context(), topic, p, -1, before, committed, func(r *schemas.Record) error {
		all = append(all, schemas.Record{Partition: p, Offset: r.Offset, Time: r.Time, Value: bytes.Clone(r.Value)})
		return nil
	}))
	return all
}

// rowsAre checks that Postgres has each of these events once.
func (w *upgradeWorld) rowsAre(want []string) {
	w.Helper()
	slices.Sort(want)
	conn := must.Get(pgx.Connect(w.Context(), w.database))(w.T)
	defer func() { _ = conn.Close(w.Context()) }()
	var got []string
	if !testkit.Within(20*time.Second, func() bool {
		rows, err := conn.Query(w.Context(), `SELECT event_id FROM status_changes ORDER BY event_id COLLATE "C"`)
		must.Do(w.T, err)
		got, err = pgx.CollectRows(rows, pgx.RowTo[string])
		must.Do(w.T, err)
		return slices.Equal(got, want)
	}) {
		w.Errorf("Postgres has %d rows, %d of them once; must have %d", len(got), len(slices.Compact(got)), len(want))
	}
}

// pollerSaw checks that the poller was told every change of the visitors once and in order, and that
// the reads say the last.
func (w *upgradeWorld) pollerSaw(l *upgradeLoad, want map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	if len(l.resyncs) != 1 {
		w.Errorf("the poller lost its place: %v, must be the start alone", l.resyncs)
	}
	var told, due []string
	if !testkit.Within(20*time.Second, func() bool {
		l.pollOnce()
		told, due = nil, nil
		for _, user := range visitors() {
			told = append(told, fmt.Sprint(user, " ", l.seen[user]))
			after := 0 // what the first answer had
			for i, t := range want[user] {
				if t.Version.String() == l.began[user] {
					after = i + 1
				}
			}
			versions := []string(nil)
			for _, t := range want[user][after:] {
				versions = append(versions, t.Version.String())
			}
			due = append(due, fmt.Sprint(user, " ", versions))
		}
		return slices.Equal(told, due)
	}) {
		for i := range told {
			if told[i] != due[i] {
				w.Errorf("the poller was told of user\n  %s\nmust be\n  %s", told[i], due[i])
			}
		}
	}
	for _, user := range visitors() {
		last := want[user][len(want[user])-1]
		if now := w.processes["api"].User(user); now.Version != last.Version.String() || *now.State != schemas.StateWord(last.To) {
			w.Errorf("user %d is read as %+v, must be as after\n  %s", user, now, testkit.InWords(&last))
		}
	}
}

// viewerSaw checks that the stream showed changes that happened, each once and in order, and after
// each resume what was missed: of a user, no change between the first and the last that it showed is
// missing without a resync in its place.
func (w *upgradeWorld) viewerSaw(v *viewed, want map[schemas.UserID][]schemas.Transition) {
	w.Helper()
	w.Logf("the stream: %d connections, %d changes, events %v", v.connections, v.changes, v.kinds)
	if v.connections < 3 || v.kinds["snapshot"] != 1 || v.kinds["resumed"] != v.connections-1 || v.changes < upgradeVisit {
		w.Errorf("the stream must begin with one snapshot and be resumed at each further connection")
	}
	for user, all := range v.shown {
		var changes []int64
		for _, t := range want[user] {
			changes = append(changes, int64(t.Version))
		}
		before := -1
		for i, one := range all {
			now := slices.Index(changes, one.version)
			if now < 0 || i > 0 && now != before+1 && (!one.resync || now < before) {
				w.Errorf("the stream showed of user %d\n  %v\nof\n  %v", user, all, changes)
				break
			}
			before = now
		}
	}
}
