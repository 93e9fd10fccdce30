package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/output"
)

// asofCommand prints who was online, away or offline at an instant.
type asofCommand struct {
	Time  string   `arg:"" optional:"" help:"The instant, in the formats of replay's --from: asof -2h."`
	Users []string `arg:"" optional:"" name:"user" help:"Include only these users. Default: all."`
	At    string   `help:"The instant, in place of the first argument; all arguments are users then." env:"-" group:"What:"`
	State []string `help:"Include only users who were in these states: online, away, offline." env:"-" group:"What:"`
	dataFlags
}

// Help is shown above the flags.
func (*asofCommand) Help() string {
	return `Examples:

    stillhere asof -2h
    stillhere asof 2026-11-20T10:00+01:00 1 2 3
    stillhere asof --at -10m ann bob --ids text --tenant acme --identity-key-file identity.key
    stillhere asof "10m ago" --state online --output csv --out online.csv`
}

// Run prints.
func (c *asofCommand) Run(ctx context.Context, args givenArguments) error {
	if err := args.checkInstants(c.Time); err != nil {
		return err
	}
	named, instant := "<time>", c.Time
	switch {
	case c.At != "":
		if named, instant = "--at", c.At; c.Time != "" {
			c.Users = append([]string{c.Time}, c.Users...)
		}
	case instant == "":
		return misused(errors.New("<time>: an instant must be given, such as -2h"))
	}
	at, err := c.instant(named, instant)
	if err != nil {
		return err
	}
	o := replay.Defaults()
	o.Filter.Partitions = c.Partition
	if err := c.users(&o.Filter, c.Users); err != nil {
		return err
	}
	for _, word := range c.State {
		state, err := schemas.ParseState("--state", word)
		if err != nil {
			return misused(fmt.Errorf("%w, is %q", err, word))
		}
		o.Filter.States = append(o.Filter.States, state)
	}
	sources, err := c.open(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // everything has been read
	if err := c.noteBegins(ctx, sources, named, at); err != nil {
		return err
	}
	out, err := c.create()
	if err != nil {
		return err
	}
	w := dataset.States(c.columns(&o), c.format(), out)
	bar := newBar(0, 0)
	out.beside(bar)
	o.Progress = bar.show
	unseen := c.unseen()
	sum, err := replay.AsOf(ctx, sources.Log, sources.Archive, at, &o, func(e *store.Entry) error {
		unseen.see(e.User)
		return w.Write(e)
	})
	bar.line.Clear()
	err = out.end(ctx, w, sum.Rows, err)
	c.report(sum, sum.Rows, bar.begun, err)
	unseen.report(err)
	return err
}

// report prints what a user of the rows should know.
func (f *dataFlags) report(sum replay.Summary, rows int64, begun time.Time, err error) {
	f.reportUnnamed(sum.Unnamed)
	reportForgotten(sum.Forgotten)
	if sum.Cut {
		fmt.Fprintln(os.Stderr, "stillhere: the topic does not reach back to the beginning; of users who have not changed since, only the store knows: --postgres URL")
	}
	if err == nil && f.Out != "-" {
		fmt.Fprintf(os.Stderr, "%s rows in %s, in %s\n", output.Grouped(rows), f.Out, time.Since(begun).Round(time.Millisecond))
	}
}

// forgottenShown bounds how many tenants a tool names.
const forgottenShown = 5

// reportForgotten prints of which tenants older changes are missing.
func reportForgotten(tenants store.Edges) {
	for i, tenant := range slices.Sorted(maps.Keys(tenants)) {
		if i == forgottenShown {
			fmt.Fprintf(os.Stderr, "stillhere: and %d more tenants\n", len(tenants)-i)
			return
		}
		fmt.Fprintf(os.Stderr, "stillhere: of tenant %q the store keeps changes from %s on (its history_days), so the output lacks what was before\n", tenant, tenants[tenant])
	}
}

// reportUnnamed prints how many changes have no name.
func (f *dataFlags) reportUnnamed(changes int64) {
	switch {
	case changes == 0:
	case f.Tenant != nil && len(f.asked) == 0:
		fmt.Fprintf(os.Stderr, "stillhere: %s changes were left out: the names of their users are not known, or two names have one id, so they are of no tenant\n", output.Grouped(changes))
	default:
		fmt.Fprintf(os.Stderr, "stillhere: %s changes are of users whose names are not known, or of two names with one id\n", output.Grouped(changes))
	}
}

// sessionsCommand prints online sessions.
type sessionsCommand struct {
	Users []string `arg:"" optional:"" name:"user" help:"Include only these users. Default: all."`
	From  string   `help:"First instant, in the formats of replay's --from." required:"" env:"-" group:"What:"`
	To    string   `help:"End (exclusive). Default: now." env:"-" group:"What:"`
	Away  bool     `help:"Count away as online." env:"-" group:"What:"`
	dataFlags
}

// Help is shown above the flags.
func (*sessionsCommand) Help() string {
	return `Examples:

    stillhere sessions --from -1d
    stillhere sessions 1 --from 2026-11-20 --to 2026-11-21 --away
    stillhere sessions ann --from -7d --ids text --tenant acme --identity-key-file identity.key
    stillhere sessions --from 2026-11 --output parquet --out november.parquet --postgres postgres://…`
}

// Run prints.
func (c *sessionsCommand) Run(ctx context.Context) error {
	o := replay.Defaults()
	o.Filter.Partitions = c.Partition
	var err error
	if err := c.users(&o.Filter, c.Users); err != nil {
		return err
	}
	if o.Filter.From, err = c.instant("--from", c.From); err != nil {
		return err
	}
	if c.To == "" {
		c.To = "now"
	}
	if o.Filter.To, err = c.instant("--to", c.To); err != nil {
		return err
	}
	if o.Filter.To <= o.Filter.From {
		return misused(errors.New("--to must be after --from"))
	}
	sources, err := c.open(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // everything has been read
	if err := c.noteBegins(ctx, sources, "--from", o.Filter.From); err != nil {
		return err
	}
	out, err := c.create()
	if err != nil {
		return err
	}
	w := dataset.Sessions(c.columns(&o), c.format(), out)
	bar := newBar(o.Filter.From, o.Filter.To)
	out.beside(bar)
	o.Progress = bar.show
	rows, unseen := int64(0), c.unseen()
	sum, err := replay.Sessions(ctx, sources.Log, sources.Archive, &o, c.Away, func(s *replay.Session) error {
		rows++
		unseen.see(s.User)
		return w.Write(s)
	})
	bar.line.Clear()
	err = out.end(ctx, w, rows, err)
	c.report(sum, rows, bar.begun, err)
	unseen.report(err)
	return err
}
