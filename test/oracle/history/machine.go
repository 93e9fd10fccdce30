package history

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
)

// Machine is the fast implementation, as the detector runs it.
func Machine(log oracle.Log) []schemas.Transition { return Runs{}.Run(log) }

// Restarted is the fast implementation, killed and restored before the records of h with Restart
// set. Its argument must be the log of h.
func Restarted(h *History) Impl {
	return Runs{Restart: func(i int) bool { return h.Records[i].Restart }}.Run
}

// RestartedAt is the fast implementation, killed and restored before the records for which at is
// true.
func RestartedAt(at func(index int) bool) Impl { return Runs{Restart: at}.Run }

// Runs configures how the detector is run over a log.
type Runs struct {
	// Restart is true for records before which the detector is killed and restored.
	Restart func(index int) bool
	// Snapshots are when snapshots are written; zero: one after the other, a user with each record.
	Snapshots detector.Cadence
	// Key is that of the detector's index.
	Key uint64
}

// Run is an Impl. What the detector commits is encoded and decoded.
func (r Runs) Run(l oracle.Log) []schemas.Transition { return r.run(l).transitions }

func (r Runs) run(l oracle.Log) *run {
	d := &run{Runs: r, log: l, unsureSince: map[schemas.UserID]schemas.Millis{}, commit: stream.Assignment{Partition: l.Partition, Partitions: l.Partitions, Offset: -1,
		TopicID: schemas.TopicID{1}}}
	if r.Snapshots == (detector.Cadence{}) {
		d.Snapshots = detector.Cadence{Least: time.Millisecond, Most: time.Millisecond, Step: 1}
	}
	d.config = detector.Config{Settings: l.Policy,
		Log:     slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		Metrics: detector.NewMetrics(prometheus.NewRegistry()), Now: func() time.Time { return time.Time{} }, Key: r.Key,
		Snapshots: d.Snapshots, SeenInterval: 4 * time.Second, Users: l.Users, MostDue: l.MostDue}
	if len(l.Records) > 0 {
		d.start = l.Records[0].Offset
	}
	d.restore()
	losses := l.Losses
	for i := 0; i < len(l.Records); i++ {
		for len(losses) > 0 && losses[0].Before <= i {
			d.lose(losses[0])
			i += losses[0].Skip
			losses = losses[1:]
		}
		if i >= len(l.Records) {
			break
		}
		if i > 0 && r.Restart != nil && r.Restart(i) {
			d.restore()
		}
		d.live = append(d.live, l.Records[i])
		d.handle(&l.Records[i])
	}
	return d
}

// run is a detector, what it has published, and its topics.
type run struct {
	Runs
	log         oracle.Log
	config      detector.Config
	partition   *detector.Partition
	commit      stream.Assignment
	start       int64            // of the heartbeats log
	live        []schemas.Record // that still exist
	published   []schemas.Record
	statuses    []schemas.Record
	snapshots   []schemas.Record
	written     []schemas.Record // statuses, also those that were compacted
	names       []schemas.Record
	transitions []schemas.Transition
	unsure      []oracle.Unsure
	unsureSince map[schemas.UserID]schemas.Millis // by the newest statuses
	seen        []*schemas.Seen
	rejected    map[string]int // by the offsets of heartbeats and the reasons
	outbox      stream.Outbox
	now         schemas.Millis // greatest append time
	handled     bool           // a record, since the last restart
	begun       int            // detectors
	quietUntil  schemas.Millis // before that, no tick may have an effect
	quiet       int            // ticks before it
}

// handle passes a record to the detector and commits its effect.
func (d *run) handle(r *schemas.Record) {
	d.now = max(d.now, r.Time)
	written := len(d.written)
	check(d.partition.Handle(r, &d.outbox))
	d.flush(r.Offset, r.Offset+1)
	if d.now < d.quietUntil && slices.Equal(r.Value, tick) {
		d.quiet++
		if len(d.written) > written && !schemas.IsRulesKey(d.written[written].Key) {
			panic(fmt.Sprintf("the tick at offset %d changes a user, %d ms before anything is due", r.Offset, d.quietUntil-d.now))
		}
	}
	if d.quietUntil = 0; d.partition.DueIn() > time.Millisecond {
		d.quietUntil = d.partition.LogTime() + schemas.Millis(d.partition.DueIn().Milliseconds())
	}
}

var tick = schemas.AppendTick(nil)

// flush commits what the detector has appended to the outbox because of the record at an offset.
func (d *run) flush(offset, next int64) {
	for _, o := range d.outbox.Records {
		r := schemas.Record{Partition: d.log.Partition, Time: d.now, Key: o.Key, Value: o.Value, Headers: o.Headers}
		switch o.Topic {
		case schemas.Transitions:
			t, err := schemas.DecodeTransition(o.Value)
			check(err)
			d.transitions, d.published = append(d.transitions, *t), append(d.published, r)
		case schemas.Statuses:
			d.statuses, d.written = append(d.statuses, r), append(d.written, r)
			d.noteUnsure(offset, &r)
		case schemas.Snapshots:
			r.Offset = int64(len(d.snapshots))
			d.snapshots = append(d.snapshots, r)
		case schemas.Names:
			d.names = append(d.names, r)
		}
	}
	for _, o := range d.outbox.Hints {
		seen, err := schemas.DecodeSeen(o.Value)
		check(err)
		d.seen = append(d.seen, seen)
	}
	for _, r := range d.outbox.Rejected {
		if r.Topic == schemas.Statuses {
			panic(fmt.Sprintf("a status of its own is rejected: %v", r.Reason))
		}
		if d.rejected == nil {
			d.rejected = map[string]int{}
		}
		d.rejected[fmt.Sprint(r.Record.Offset, ": ", r.Reason)]++
	}
	d.outbox = stream.Outbox{}
	d.commit.Offset, d.handled = next, true
}

// noteUnsure notes whether the status of a user says something else than the one before.
func (d *run) noteUnsure(offset int64, r *schemas.Record) {
	if schemas.IsRulesKey(r.Key) {
		return
	}
	user, err := schemas.UserOfKey(r.Key)
	check(err)
	status := &schemas.Status{}
	before := d.unsureSince[user]
	if r.Value != nil {
		status, err = schemas.DecodeStatus(r.Value)
		check(err)
		switch {
		case status.State != schemas.Offline && status.UnsureEnded != (before != 0 && status.UnsureSince == 0):
			panic(fmt.Sprintf("unsure since %d before, and the status of user %d is %+v", before, user, status))
		case status.UnsureSince != 0 && (status.Visibility == schemas.Nobody || status.State == schemas.Offline):
			panic(fmt.Sprintf("a hidden or offline user is unsure: %+v", status))
		}
	}
	if status.UnsureSince != before {
		d.unsure = append(d.unsure, oracle.Unsure{User: user, Offset: offset, Since: status.UnsureSince})
	}
	d.unsureSince[user] = status.UnsureSince
}

// Unsure is Run for what the statuses say of unsure users.
func (r Runs) Unsure(l oracle.Log) []oracle.Unsure { return r.run(l).unsure }

// restore kills the detector and starts it again.
func (d *run) restore() {
	d.checkpoint()
	d.begin()
}

// checkpoint completes the commit with the detector's checkpoint.
func (d *run) checkpoint() {
	if d.handled {
		d.commit.Metadata = d.partition.Checkpoint()
	}
}

// begin starts a detector at the commit.
func (d *run) begin() {
	d.quietUntil = 0
	d.commit.LogStart, d.commit.LogEnd = d.start, d.start
	if n := len(d.live); n > 0 {
		d.commit.LogStart, d.commit.LogEnd = d.live[0].Offset, d.live[n-1].Offset+1
	}
	if d.begun++; d.begun%2 == 0 {
		d.compact()
	}
	d.outbox, d.handled = stream.Outbox{}, false
	d.partition = detector.NewPartition(d.config, d.log.Partition)
	check(d.partition.Restore(context.Background(), d.commit, d.read))
}

// compact drops records that have newer ones, and tombstones, as the broker does now and then.
func (d *run) compact() {
	newest := map[string]int{}
	for i, r := range d.statuses {
		newest[string(r.Key)] = i
	}
	n := 0
	for i, r := range d.statuses {
		if newest[string(r.Key)] == i && r.Value != nil {
			d.statuses[n] = r
			n++
		}
	}
	d.statuses = d.statuses[:n]
}

// lose restarts the detector without some of what it needs.
func (d *run) lose(loss oracle.Loss) {
	d.checkpoint()
	if loss.Commit {
		d.commit.Offset, d.commit.Metadata = -1, ""
	}
	d.snapshots = nil
	d.live = nil
	for _, i := range loss.Kept {
		d.live = append(d.live, d.log.Records[i])
	}
	if len(loss.Kept) == 0 {
		switch {
		case loss.Epoch:
			d.start = 0
			d.commit.TopicID[0]++
		case loss.Before+loss.Skip < len(d.log.Records):
			d.start = d.log.Records[loss.Before+loss.Skip].Offset
		case d.commit.Offset >= 0:
			d.start = d.commit.Offset + int64(loss.Skip)
		}
	}
	d.begin()
	for i := range d.live {
		if d.live[i].Offset >= d.partition.Next() {
			d.handle(&d.live[i])
		}
	}
}

// read is a detector.Read.
func (d *run) read(_ context.Context, topic schemas.Topic, from, to int64, each func(*schemas.Record) error) error {
	records := map[schemas.Topic][]schemas.Record{schemas.Heartbeats: d.live, schemas.Statuses: d.statuses,
		schemas.Transitions: d.published, schemas.Snapshots: d.snapshots}[topic]
	for i := range records {
		if topic == schemas.Heartbeats && (records[i].Offset < from || to >= 0 && records[i].Offset >= to) {
			continue
		}
		if err := each(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
