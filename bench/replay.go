package main

import (
	"bytes"
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
func benchReplay(t *loadtest.T) {
	rig := t.Rig()
	rows := int64(t.Users) * rowsPerUser
	publish(t, rig)
	dir := t.TempDir()
	var first []byte
	for _, part := range []struct {
		format replay.Format
		target float64
	}{{replay.JSONL, 500_000}, {replay.CSV, 500_000}, {replay.Parquet, 300_000}, {replay.JSONL, 0}} {
		name := filepath.Join(dir, "changes."+string(part.format))
		spent := processorTime(os.Getpid())
		took := t.Measured(func() { t.Check(replayTo(t, rig, part.format, name, rows)) })
		used := processorTime(os.Getpid()) - spent
		if part.format == replay.JSONL {
			text, err := os.ReadFile(name)
			t.Check(err)
			if part.target == 0 {
				if !bytes.Equal(first, text) {
					t.Fatalf("the same transitions replayed twice give different files")
				}
				t.Note("Replayed twice, the files are the same byte for byte.")
				continue
			}
			first = text
		}
		size, err := os.Stat(name)
		t.Check(err)
		t.Add("Kafka to "+string(part.format), float64(rows)/took.Seconds(), "rows/s").AtLeast(part.target)
		t.Add("size of a row in "+string(part.format), float64(size.Size())/float64(rows), "B").LessIsBetter()
		if used > 0 {
			t.Add("processor time of a row to "+string(part.format), float64(used.Nanoseconds())/1000/float64(rows), "µs").LessIsBetter()
		}
	}
	var users int64
	took := t.Measured(func() {
		var err error
		users, err = asOf(t, rig, filepath.Join(dir, "states.jsonl"))
		t.Check(err)
	})
	if users != int64(t.Users) {
		t.Fatalf("asof wrote %d users of %d", users, t.Users)
	}
	t.Add("asof now, from Kafka to jsonl", took.Seconds(), "s").AtMost(secondsPerMillion * float64(rows) / 1e6)
	t.Note(fmt.Sprintf("%s transitions in %d partitions.", loadtest.Number(float64(rows)), t.Partitions))
}

// publish writes what a detector would: users who come and go, a record every thousand of them.
func publish(t *loadtest.T, rig *loadtest.Rig) {
	start := schemas.MillisOf(time.Now().Add(-time.Hour))
	const piece = 100_000
	for rows, n := t.Users*rowsPerUser, 0; n < rows; {
		var outs []schemas.Outgoing
		for ; n < rows && len(outs) < piece; n++ {
			change := changeOf(schemas.UserID(n%t.Users+1), start+schemas.Millis(n), schemas.NewVersion(1, int64(n/1000), 0), n/t.Users%2 == 0)
			outs = append(outs, recordOf(change, t.Partitions))
		}
		writeAll(t, rig, outs)
	}
}

// replayTo replays everything to a file.
func replayTo(t *loadtest.T, rig *loadtest.Rig, format replay.Format, name string, rows int64) error {
	file, err := replay.Create(name)
	if err != nil {
		return err
	}
	w := replay.Changes(format, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { t.Progress.Say("  to %s: %d of %d rows", format, p.Rows, rows) }
	sum, err := replay.Run(t.Context(), dataset.Topic{Reader: rig.Reader}, nil, &o, w.Write)
	err = errors.Join(err, w.Close())
	if err == nil && (sum.Rows != rows || sum.Late+sum.Unreadable+sum.Doubles != 0) {
		err = fmt.Errorf("replayed %+v of %d rows", sum, rows)
	}
	return errors.Join(err, file.Commit())
}

// asOf writes what is in force of every user now, to a file.
func asOf(t *loadtest.T, rig *loadtest.Rig, name string) (int64, error) {
	file, err := replay.Create(name)
	if err != nil {
		return 0, err
	}
	w := replay.States(replay.JSONL, file)
	o := replay.Defaults()
	o.Progress = func(p replay.Progress) { t.Progress.Say("  as of now: %d of %d records read", p.Read, p.Total) }
	sum, err := replay.AsOf(t.Context(), dataset.Topic{Reader: rig.Reader}, nil, schemas.MillisOf(time.Now()), &o, w.Write)
	return sum.Rows, errors.Join(err, w.Close(), file.Commit())
}
