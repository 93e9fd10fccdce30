package main

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
	"github.com/stillhere/stillhere/tools/loadtest"
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
func benchReplay(ctx context.Context, o *loadtest.Options, r *loadtest.Result) (err error) {
	rig, err := loadtest.NewRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	rows := int64(o.Users) * rowsPerUser
	if err := publish(ctx, o, rig); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "stillhere-bench-")
	if err != nil {
		return fmt.Errorf("making a folder for the files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var first []byte
	for _, part := range []struct {
		format replay.Format
		target float64
	}{{replay.JSONL, 500_000}, {replay.CSV, 500_000}, {replay.Parquet, 300_000}, {replay.JSONL, 0}} {
		name := filepath.Join(dir, "changes."+string(part.format))
		begun, spent := time.Now(), loadtest.ProcessorTime(os.Getpid())
		if err := o.Measured(func() error { return replayTo(ctx, o, rig, part.format, name, rows) }); err != nil {
			return err
		}
		took, used := time.Since(begun), loadtest.ProcessorTime(os.Getpid())-spent
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
			r.Note("Replayed twice, the files are the same byte for byte.")
			continue
		}
		r.Add("Kafka to "+string(part.format), float64(rows)/took.Seconds(), "rows/s").AtLeast(part.target)
		r.Add("size of a row in "+string(part.format), float64(size.Size())/float64(rows), "B").LessIsBetter()
		if used > 0 {
			r.Add("processor time of a row to "+string(part.format), float64(used.Nanoseconds())/1000/float64(rows), "µs").LessIsBetter()
		}
	}
	begun, users := time.Now(), int64(0)
	err = o.Measured(func() error {
		users, err = asOf(ctx, o, rig, filepath.Join(dir, "states.jsonl"))
		return err
	})
	if err != nil {
		return err
	}
	if users != int64(o.Users) {
		return fmt.Errorf("asof told of %d users of %d", users, o.Users)
	}
	r.Add("asof now, from Kafka to jsonl", time.Since(begun).Seconds(), "s").AtMost(secondsPerMillion * float64(rows) / 1e6)
	r.Note(fmt.Sprintf("%s transitions in %d partitions.", loadtest.Number(float64(rows)), o.Partitions))
	return nil
}

// publish writes what a detector would: users who come and go, a record every thousand of them.
func publish(ctx context.Context, o *loadtest.Options, rig *loadtest.Rig) error {
	start := schemas.MillisOf(time.Now().Add(-time.Hour))
	const piece = 100_000
	outs := make([]schemas.Outgoing, 0, piece)
	for n := range o.Users * rowsPerUser {
		t := loadtest.Change(schemas.UserID(n%o.Users+1), start+schemas.Millis(n), schemas.NewVersion(1, int64(n/1000), 0), n/o.Users%2 == 0)
		if outs = append(outs, loadtest.Record(t, o.Partitions)); len(outs) < piece && n+1 < o.Users*rowsPerUser {
			continue
		}
		if err := rig.Write(ctx, outs); err != nil {
			return err
		}
		outs = outs[:0]
	}
	return nil
}

// replayTo replays everything to a file.
func replayTo(ctx context.Context, run *loadtest.Options, rig *loadtest.Rig, format replay.Format, name string, rows int64) error {
	file, err := replay.Create(name)
	if err != nil {
		return err
	}
	w := replay.Changes(format, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { run.Progress.Say("  to %s: %d of %d rows", format, p.Rows, rows) }
	sum, err := replay.Run(ctx, dataset.Topic{Reader: rig.Reader}, nil, &o, w.Write)
	err = errors.Join(err, w.Close())
	if err == nil && (sum.Rows != rows || sum.Late+sum.Unreadable+sum.Doubles != 0) {
		err = fmt.Errorf("replayed %+v of %d rows", sum, rows)
	}
	return errors.Join(err, file.Commit())
}

// asOf writes what is in force of every user now, to a file.
func asOf(ctx context.Context, run *loadtest.Options, rig *loadtest.Rig, name string) (int64, error) {
	file, err := replay.Create(name)
	if err != nil {
		return 0, err
	}
	w := replay.States(replay.JSONL, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { run.Progress.Say("  as of now: %d of %d records read", p.Read, p.Total) }
	users, err := replay.AsOf(ctx, dataset.Topic{Reader: rig.Reader}, nil, schemas.MillisOf(time.Now()), &o, w.Write)
	return users, errors.Join(errors.Join(err, w.Close()), file.Commit())
}
