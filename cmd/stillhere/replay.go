package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/output"
)

// replayCommand gives out what was published.
type replayCommand struct {
	Users  []string `arg:"" optional:"" name:"user" help:"Include only these users. Default: all."`
	From   string   `help:"Start: 2026-11-20T10:00:00Z, 2026-11-20, 2026-11, -2h, -7d, 10m ago, Unix milliseconds; or an offset of the topic, with --partition. Default: the oldest change." env:"-" group:"What:"`
	To     string   `help:"End (exclusive), an instant or an offset. Default: the current end." env:"-" group:"What:"`
	State  []string `help:"Include only changes to these states: online, away, offline." env:"-" group:"What:"`
	Cause  []string `help:"Include only changes with these causes: first_beat, active_again, idle, silent, bye, gateway_lost, devices, visibility, gateway_drained, device_evicted, erased, override_set, override_over, last_seen, audience." env:"-" group:"What:"`
	Follow bool     `help:"Continue with new changes until interrupted." env:"-" group:"What:"`
	Source string   `help:"Source: ${enum}. auto: the topic, and the store for changes that retention has removed from it." enum:"auto,topic,store" default:"auto" env:"-" group:"Sources:"`
	Resume bool     `help:"Resume after the complete files of an interrupted replay with the same flags; with --rotate-every, --rotate-size or --partition-by." env:"-" group:"Output:"`
	rotateFlags
	dataFlags
}

// Help is shown above the flags.
func (*replayCommand) Help() string {
	return `Examples:

    stillhere replay --from -1h
    stillhere replay 1 2 3 --from 2026-11-20 --to 2026-11-21
    stillhere replay ann --ids text --tenant acme --identity-key-file identity.key
    stillhere replay --from 2026-11 --output parquet --out november.parquet --postgres postgres://…
    stillhere replay --follow --output jsonl
    stillhere replay --follow --output parquet --out changes --rotate-every 10m --rotate-size 128M --partition-by day

A row with the cause erased is an erasure: delete what you have of the user up to its version. Rows from before it are left out. The topic has erasures until all its copies of the user are gone; --source store has none.

With --rotate-every, --rotate-size or --partition-by, --out is a folder. Each of its files is complete from the moment it has its name, changes-000001.parquet and so on. A row is in one file. With --resume the command goes on after them: it reads again what was published in the last 3 minutes, and leaves out what the files have.`
}

// Validate is called by the parser.
func (c *replayCommand) Validate() error {
	switch {
	case c.Follow && c.To != "":
		return errors.New("--follow has no end, so it excludes --to")
	case c.Follow && c.Source == "store":
		return errors.New("--follow reads the topic, so it excludes --source store")
	case c.Resume && !c.rotates():
		return errors.New("--resume needs --rotate-every, --rotate-size or --partition-by, and the folder of the files as --out")
	case c.Source == "store" && c.Postgres == "" && c.SQLite == "":
		return errors.New("--source store needs --postgres or --sqlite")
	case c.rotates() && c.Out == "-":
		return errors.New("--rotate-every, --rotate-size, --partition-by: --out must name the folder of the files")
	case c.Follow && c.format() == dataset.JSON:
		return errors.New("--output: --follow has no end, so no JSON document; use --output jsonl")
	case c.rotates() && !c.divisible():
		return errors.New("--rotate-every, --rotate-size, --partition-by: tables and JSON documents are not divided; use --output jsonl, csv or parquet")
	case c.RotateEvery < 0:
		return errors.New("--rotate-every must not be negative")
	}
	return nil
}

// divisible reports whether rows in the format may be in several files.
func (c *replayCommand) divisible() bool {
	return c.format() != dataset.Table && c.format() != dataset.JSON
}

// options reads the flags.
func (c *replayCommand) options() (*replay.Options, error) {
	o := replay.Defaults()
	o.Erasures = true
	o.Source = replay.Source(c.Source)
	var err error
	if err := c.users(&o.Filter, c.Users); err != nil {
		return nil, err
	}
	o.Filter.Partitions = c.Partition
	for _, word := range c.State {
		state, err := schemas.ParseState("--state", word)
		if err != nil {
			return nil, fmt.Errorf("%w, is %q", err, word)
		}
		o.Filter.States = append(o.Filter.States, state)
	}
	for _, word := range c.Cause {
		cause, err := schemas.ParseCause("--cause", word)
		if err != nil {
			return nil, fmt.Errorf("%w, is %q", err, word)
		}
		o.Filter.Causes = append(o.Filter.Causes, cause)
	}
	if ok, err := c.offsets(&o); ok || err != nil {
		return &o, err
	}
	if o.Filter.From, err = c.instant("--from", c.From); err != nil {
		return nil, err
	}
	if o.Filter.To, err = c.instant("--to", c.To); err != nil {
		return nil, err
	}
	if o.Filter.To != 0 && o.Filter.To <= o.Filter.From {
		return nil, fmt.Errorf("--to: %s must be after --from, which is %s", o.Filter.To, o.Filter.From)
	}
	return &o, nil
}

// offsets reads --from and --to if they are offsets.
func (c *replayCommand) offsets(o *replay.Options) (bool, error) {
	from, fromErr := offset(c.From)
	to, toErr := offset(c.To)
	switch {
	case fromErr != nil && toErr != nil, c.From == "" && c.To == "":
		return false, nil
	case fromErr != nil || toErr != nil:
		if c.From != "" && c.To != "" {
			return false, errors.New("--from, --to: one is a time and the other an offset")
		}
	}
	if c.From == "" && toErr != nil || c.To == "" && fromErr != nil {
		return false, nil
	}
	if len(c.Partition) != 1 {
		return false, errors.New("--partition: offsets are those of one partition, which must be named")
	}
	if c.Source == "store" {
		return false, errors.New("--source: the store knows no offsets")
	}
	o.Offsets = &replay.Offsets{From: from, To: to}
	return true, nil
}

// offset reads an offset: digits alone, fewer than Unix milliseconds have. -1 for none.
func offset(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	if replay.IsMillis(text) {
		return -1, strconv.ErrRange
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	return n, err
}

// Run replays.
func (c *replayCommand) Run(ctx context.Context, parsed *kong.Context, args givenArguments) error {
	o, err := c.options()
	if err != nil {
		return misused(err)
	}
	sources, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // everything has been read
	if err := c.noteBegins(ctx, sources, "--from", o.Filter.From); err != nil {
		return err
	}
	out, w, err := c.begin(o)
	if err != nil {
		return err
	}
	bar := newBar(o.Filter.From, o.Filter.To)
	out.beside(bar)
	o.Progress = bar.show
	unseen := c.unseen()
	sum, err := replay.Run(ctx, sources.Log, sources.Archive, o, func(e *store.Entry) error {
		unseen.see(e.User)
		return w.Write(e)
	})
	bar.line.Clear()
	rows := sum.Rows
	if err == nil && c.Follow {
		rows, err = c.follow(ctx, sources, o, sum, w, bar)
	}
	rows -= out.leftOut
	interrupted := ctx.Err() != nil && !c.Follow
	err = out.finish(ctx, w, err)
	c.report(o, sum)
	if !c.Follow {
		unseen.report(err)
	}
	switch {
	case interrupted && errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted after %s rows, up to %s%s", output.Grouped(rows), sum.Last, c.hint(parsed, args))
	case err == nil && c.Out != "-":
		fmt.Fprintf(os.Stderr, "%s rows in %s, %s rows/s\n", output.Grouped(rows), c.Out, output.Grouped(int64(float64(rows)/max(time.Since(bar.begun).Seconds(), 0.001))))
	}
	return err
}

// begin makes the output, with what is in it already.
func (c *replayCommand) begin(o *replay.Options) (*outputFile, replay.Writer[store.Entry], error) {
	format, columns := c.format(), c.columns(o)
	if c.rotates() {
		return c.beginRotation(o, format, columns)
	}
	out, err := c.create()
	if err != nil {
		return nil, nil, err
	}
	return out, dataset.Changes(columns, format, out), nil
}

// follow writes what comes until ctx ends, and returns how many rows were written in all.
func (c *replayCommand) follow(ctx context.Context, sources *dataset.Sources, o *replay.Options, sum replay.Summary,
	w replay.Writer[store.Entry], bar *bar,
) (rows int64, err error) {
	rows = sum.Rows
	if err := w.Flush(); err != nil {
		return rows, err
	}
	if c.rotates() {
		o.Look = w.Flush // files are completed while nothing comes, too
	}
	err = replay.Follow(ctx, sources.Log, o, sum, func(e *store.Entry) error {
		rows++
		if c.Out != "-" {
			bar.line.Say("following: %s rows  at %s", output.Grouped(rows), e.At)
		}
		return w.Write(e)
	}, w.Flush)
	bar.line.Clear()
	return rows, err
}

// report prints what a user of the rows should know.
func (c *replayCommand) report(o *replay.Options, sum replay.Summary) {
	if o.Filter.From != 0 && o.Filter.From < sum.Begins {
		fmt.Fprintf(os.Stderr, "stillhere: the store keeps changes from %s on; the audit retention has dropped older ones, so the output lacks changes since --from\n", sum.Begins)
	}
	if sum.Cut {
		fmt.Fprintln(os.Stderr, "stillhere: the topic does not reach back to --from; older changes may be in the store: --postgres URL")
	}
	c.reportUnnamed(sum.Unnamed)
	reportForgotten(sum.Forgotten)
	if sum.Unreadable > 0 {
		fmt.Fprintf(os.Stderr, "stillhere: %s records of the topic could not be read and were skipped\n", output.Grouped(sum.Unreadable))
	}
	if sum.Late > 0 {
		fmt.Fprintf(os.Stderr, "stillhere: %s rows were published more than %s late and are out of order\n", output.Grouped(sum.Late), replay.Defaults().Hold)
	}
}

func (c *replayCommand) hint(parsed *kong.Context, args givenArguments) string {
	switch {
	case c.Out == "-":
		return ""
	case !c.rotates():
		return fmt.Sprintf("; %s is valid as far as it goes", c.Out)
	}
	return fmt.Sprintf("; %s is valid as far as it goes, and this continues: %s", c.Out, args.again(parsed, "--resume"))
}
