package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
)

const (
	// rowsPerUser is how many transitions of each user there are.
	rowsPerUser = 2
	// secondsPerMillion is what asof may take for a million transitions.
	secondsPerMillion = 2
)

// benchReplay measures how fast the transitions come out of Kafka into a file, in
// each format: read committed, put in order, written. They are written to the
// topic beforehand, in the order in which a detector would. The broker shares the
// machine, in a process of its own.
func benchReplay(ctx context.Context, o *Options, r *Result) (err error) {
	rig, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, rig.close()) }()
	rows := int64(o.Users) * rowsPerUser
	if err := rig.publish(ctx, o.Users); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stillhere-bench-")
	if err != nil {
		return fmt.Errorf("making a folder for the files: %w", err)
	}
	defer func() { err = joined(err, os.RemoveAll(dir)) }()
	var first []byte
	for _, part := range []struct {
		format replay.Format
		target float64
	}{{replay.JSONL, 500_000}, {replay.CSV, 500_000}, {replay.Parquet, 300_000}, {replay.JSONL, 0}} {
		name := filepath.Join(dir, "changes."+string(part.format))
		begun, spent := time.Now(), processorTime(os.Getpid())
		if err := o.measured(func() error { return rig.replay(ctx, part.format, name, rows) }); err != nil {
			return err
		}
		took, used := time.Since(begun), processorTime(os.Getpid())-spent
		size, err := os.Stat(name)
		if err != nil {
			return err
		}
		if part.format == replay.JSONL {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if first == nil {
				first = text
			} else if !bytes.Equal(first, text) {
				return errors.New("the same transitions replayed twice give different files")
			}
		}
		if part.target == 0 {
			r.note("Replayed twice, the files are the same byte for byte.")
			continue
		}
		r.add("Kafka to "+string(part.format), float64(rows)/took.Seconds(), "rows/s").atLeast(part.target)
		r.add("size of a row in "+string(part.format), float64(size.Size())/float64(rows), "B").lessIsBetter()
		if used > 0 {
			r.add("processor time of a row to "+string(part.format), float64(used.Nanoseconds())/1000/float64(rows), "µs").lessIsBetter()
		}
	}
	begun, users := time.Now(), int64(0)
	err = o.measured(func() error {
		users, err = rig.asOf(ctx, filepath.Join(dir, "states.jsonl"))
		return err
	})
	if err != nil {
		return err
	}
	if users != int64(o.Users) {
		return fmt.Errorf("asof told of %d users of %d", users, o.Users)
	}
	r.add("asof now, from Kafka to jsonl", time.Since(begun).Seconds(), "s").atMost(secondsPerMillion * float64(rows) / 1e6)
	r.note(fmt.Sprintf("%s transitions in %d partitions.", number(float64(rows)), o.Partitions))
	return nil
}

// publish writes what a detector would: users who come and go, a record every
// thousand of them.
func (r *rig) publish(ctx context.Context, users int) error {
	start := schemas.MillisOf(time.Now().Add(-time.Hour))
	const piece = 100_000
	outs := make([]schemas.Outgoing, 0, piece)
	for round := range rowsPerUser {
		for i := range users {
			n := round*users + i
			id := schemas.UserID(i + 1)
			at := start + schemas.Millis(n)
			t := schemas.Transition{
				User: id, From: schemas.Offline, To: schemas.Online, At: at, LastSeen: at, LastActive: at, Cause: schemas.FirstBeat,
				Device: schemas.DeviceID(1 + i%3), Kinds: schemas.SetOfKinds(schemas.DeviceKind(1 + i%3)), Visibility: schemas.Everyone,
				Version: schemas.NewVersion(1, int64(n/1000), 0), Policy: "0123456789ab",
			}
			if round%2 == 1 {
				t.From, t.To, t.Cause, t.Kinds = schemas.Online, schemas.Offline, schemas.Silent, 0
			}
			outs = append(outs, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(id, r.o.Partitions),
				Key: id.Key(), Value: t.Encode()})
			if len(outs) < piece && n+1 < users*rowsPerUser {
				continue
			}
			if err := r.write(ctx, outs); err != nil {
				return err
			}
			outs = outs[:0]
		}
	}
	return nil
}

// replay replays everything to a file.
func (r *rig) replay(ctx context.Context, format replay.Format, name string, rows int64) error {
	file, err := replay.Create(name)
	if err != nil {
		return err
	}
	w := replay.Changes(format, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { r.o.Progress.Say("  to %s: %d of %d rows", format, p.Rows, rows) }
	sum, err := replay.Run(ctx, dataset.Topic{Reader: r.reader}, nil, &o, w.Write)
	err = joined(err, w.Close())
	if err == nil && (sum.Rows != rows || sum.Late+sum.Unreadable+sum.Doubles != 0) {
		err = fmt.Errorf("replayed %+v of %d rows", sum, rows)
	}
	return joined(err, file.Commit())
}

// asOf writes what is in force of every user now, to a file.
func (r *rig) asOf(ctx context.Context, name string) (int64, error) {
	file, err := replay.Create(name)
	if err != nil {
		return 0, err
	}
	w := replay.States(replay.JSONL, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { r.o.Progress.Say("  as of now: %d of %d records read", p.Read, p.Total) }
	users, err := replay.AsOf(ctx, dataset.Topic{Reader: r.reader}, nil, schemas.MillisOf(time.Now()), &o, w.Write)
	return users, joined(joined(err, w.Close()), file.Commit())
}
