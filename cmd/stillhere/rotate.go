package main

import (
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/tools/plan"
)

// rotateFlags divide the output into files.
type rotateFlags struct {
	RotateEvery time.Duration `help:"Begin another file so long after the first row of one; --out is then a folder." env:"-" group:"Output:"`
	RotateSize  plan.Quantity `help:"Begin another file when one has so many bytes, such as 128M. Parquet files are looked at after each 65,536 rows." env:"-" group:"Output:"`
	PartitionBy string        `help:"Divide files into folders: ${enum}. day: day=2026-11-23 and so on, by the UTC day of changed_at." enum:"none,day" default:"none" env:"-" group:"Output:"`
}

func (f *rotateFlags) rotates() bool {
	return f.RotateEvery != 0 || f.RotateSize != 0 || f.PartitionBy == "day"
}

// beginRotation makes the folder of files, with what is in it already.
func (c *replayCommand) beginRotation(o *replay.Options, format replay.Format, columns replay.Columns) (*outputFile, replay.Writer[store.Entry], error) {
	how := replay.Rotation{Folder: c.Out, Every: c.RotateEvery, Bytes: int64(c.RotateSize), ByDay: c.PartitionBy == "day"}
	w, have, from, err := replay.Rotate(columns, format, how, c.Resume, o.Hold+time.Minute)
	if err != nil {
		return nil, nil, fmt.Errorf("--out: %w", err)
	}
	if from > o.Filter.From {
		o.Filter.From = from
		fmt.Fprintf(os.Stderr, "going on after %s\n", from)
	}
	out := &outputFile{rotated: w}
	if len(have) == 0 {
		return out, w, nil
	}
	return out, &resumed{w, have, &out.leftOut}, nil
}

// resumed writes rows that are not in files yet.
type resumed struct {
	*replay.Rotated
	have    map[store.EventText]bool
	leftOut *int64
}

// Write takes a row.
func (r *resumed) Write(e *store.Entry) error {
	if r.have[e.Event] {
		delete(r.have, e.Event) // each comes once
		*r.leftOut++
		return nil
	}
	return r.Rotated.Write(e)
}
