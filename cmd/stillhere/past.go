package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/lastseen/replay"
	"github.com/stillhere/stillhere/schemas"
)

// asofCommand prints who was online, away or offline at an instant.
type asofCommand struct {
	Time  string   `arg:"" help:"The instant, in the formats of replay's --from; put -- before one that begins with a minus: asof -- -2h."`
	State []string `help:"Include only users who were in these states: online, away, offline." env:"-" group:"What:"`
	dataFlags
}

// Run prints.
func (c *asofCommand) Run(ctx context.Context) error {
	at, err := c.instant("TIME", c.Time)
	if err != nil {
		return err
	}
	o := replay.Defaults()
	o.Filter.Partitions = c.Partition
	if o.Filter.Users, err = c.users(); err != nil {
		return err
	}
	for _, word := range c.State {
		state, err := schemas.ParseState("--state", word)
		if err != nil {
			return misused(err)
		}
		o.Filter.States = append(o.Filter.States, state)
	}
	sources, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // everything has been read
	out, err := c.create()
	if err != nil {
		return err
	}
	w := replay.States(replay.Format(c.Format), out)
	bar := newBar(0, 0)
	o.Progress = bar.show
	sum, err := replay.AsOf(ctx, sources.Log, sources.Archive, at, &o, w.Write)
	bar.line.Clear()
	err = out.finish(ctx, w, err)
	c.report(sum.Cut, sum.Rows, bar.begun, err)
	return err
}

// report prints what a user of the rows should know.
func (f *dataFlags) report(cut bool, rows int64, begun time.Time, err error) {
	if cut {
		fmt.Fprintln(os.Stderr, "stillhere: the topic does not reach back to the beginning; of users who have not changed since, only the store knows: --postgres URL")
	}
	if err == nil && f.Out != "-" {
		fmt.Fprintf(os.Stderr, "%s rows in %s, in %s\n", grouped(rows), f.Out, time.Since(begun).Round(time.Millisecond))
	}
}

// sessionsCommand prints online sessions.
type sessionsCommand struct {
	From string `help:"First instant, in the formats of replay's --from." required:"" env:"-" group:"What:"`
	To   string `help:"End (exclusive). Default: now." env:"-" group:"What:"`
	Away bool   `help:"Count away as online." env:"-" group:"What:"`
	dataFlags
}

// Run prints.
func (c *sessionsCommand) Run(ctx context.Context) error {
	o := replay.Defaults()
	o.Filter.Partitions = c.Partition
	var err error
	if o.Filter.Users, err = c.users(); err != nil {
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
	sources, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sources.Close() }() // everything has been read
	out, err := c.create()
	if err != nil {
		return err
	}
	w := replay.SessionWriter(replay.Format(c.Format), out)
	bar := newBar(o.Filter.From, o.Filter.To)
	o.Progress = bar.show
	rows := int64(0)
	sum, err := replay.Sessions(ctx, sources.Log, sources.Archive, &o, c.Away, func(s *replay.Session) error {
		rows++
		return w.Write(s)
	})
	bar.line.Clear()
	err = out.finish(ctx, w, err)
	c.report(sum.Cut, rows, bar.begun, err)
	return err
}
