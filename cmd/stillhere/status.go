package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/status"
)

// statusFlags say of which pipeline the status is.
type statusFlags struct {
	URL    string  `help:"URL of a process of the role api or all, or of dev." default:"http://127.0.0.1:8080" aliases:"api" group:"Service:"`
	Tenant *string `help:"With --ids text: count the users of this tenant only, and show its policy." env:"-" group:"Service:"`

	tokenFlag `group:"Service:"`
}

func (f *statusFlags) source() (status.Source, error) {
	if f.Token != "" && f.TokenFile != "" {
		return status.Source{}, misused(errTwoTokens)
	}
	if f.Tenant != nil {
		if err := schemas.CheckTenant("--tenant", *f.Tenant); err != nil {
			return status.Source{}, misused(err)
		}
	}
	return status.Source{URL: f.URL, Header: f.header, Tenant: f.Tenant}, nil
}

// statusCommand prints how the pipeline does.
type statusCommand struct {
	outputFlag
	Table string        `help:"Print only this table: ${enum}. csv and parquet need one." enum:"all,instances,partitions,groups,gateways" default:"all" env:"-"`
	Watch bool          `help:"Print it again and again, until an interrupt." env:"-"`
	Every time.Duration `help:"With --watch: the time between two." default:"2s" env:"-"`
	statusFlags
}

// Help is shown above the flags.
func (*statusCommand) Help() string {
	return `Asks the API of a running pipeline, which needs the scope presence:admin: how many users are present, beats and changes a second, the policy in force, processes with their versions, partitions with owners and lag, consumer groups, gateways and servers; first what is wrong. The JSON is that of GET /console/api/overview, and jsonl has the same on a line. With --table both have the rows of the table, each with the instant:

    stillhere status
    stillhere status --table partitions --output csv
    stillhere status --table gateways --output jsonl --watch

"top" shows the same as a screen.`
}

// Run prints.
func (c *statusCommand) Run(ctx context.Context) error {
	source, err := c.source()
	if err != nil {
		return err
	}
	if c.Every < time.Second {
		return misused(fmt.Errorf("--every: must be at least 1s, is %s", c.Every))
	}
	if err := c.checkTable(); err != nil {
		return misused(err)
	}
	print, end, err := c.printer()
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		o, err := source.Read(ctx)
		if err == nil {
			err = print(o, first)
		} else if c.Watch && !first && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "stillhere: %v\n", err)
			err = nil
		}
		if err != nil {
			return err
		}
		if !c.Watch {
			return end()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// allTables is --table for the whole overview.
const allTables = "all"

// checkTable refuses formats that cannot have what is asked for.
func (c *statusCommand) checkTable() error {
	switch {
	case c.Table == allTables && (c.Output == output.CSV || c.Output == output.Parquet):
		return fmt.Errorf("--table: --output %s has one table, which must be named: instances, partitions, groups or gateways", c.Output)
	case c.Watch && c.Output == output.Parquet, c.Watch && c.Output == output.JSON && c.Table != allTables:
		return fmt.Errorf("--output: --watch has no end, so no %s document; use --output jsonl or csv", c.Output)
	}
	return nil
}

// printer returns what prints an overview, and what ends the output.
func (c *statusCommand) printer() (print func(o *status.Overview, first bool) error, end func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case c.Output == output.TableFormat:
		return c.printText, nothing, nil
	case c.Table != allTables:
		rows, err := status.NewRows(os.Stdout, c.Output, c.Table)
		if err != nil {
			return nil, nil, err
		}
		return func(o *status.Overview, _ bool) error { return errors.Join(rows.Write(o), rows.Flush()) }, rows.Close, nil
	case c.Output == output.JSONL || c.Watch:
		return func(o *status.Overview, _ bool) error { return json.NewEncoder(os.Stdout).Encode(o) }, nothing, nil
	}
	return func(o *status.Overview, _ bool) error { return printJSON(o) }, nothing, nil
}

func (c *statusCommand) printText(o *status.Overview, first bool) error {
	if !first {
		fmt.Println()
	}
	if c.Watch {
		fmt.Printf("%s\n", o.At)
	}
	if c.Table != allTables {
		return status.WriteTable(os.Stdout, o, c.Table)
	}
	return status.WriteText(os.Stdout, o)
}

// topCommand shows how the pipeline does on a terminal.
type topCommand struct{ statusFlags }

// Help is shown above the flags.
func (*topCommand) Help() string {
	return `Keys: p partitions, g gateways, i instances, c consumer groups, Tab the next of them; s sorts by the next column, r the other way round; arrows, space and b scroll; q quits. It needs the scope presence:admin.`
}

// Run shows it until the user quits.
func (c *topCommand) Run(ctx context.Context, parsed *kong.Context, args givenArguments) error {
	source, err := c.source()
	if err != nil {
		return err
	}
	tty, err := openTerminal()
	if err == nil {
		err = status.Top(ctx, source, tty)
	}
	if errors.Is(err, status.ErrNoTerminal) {
		instead := slices.Clone(args)
		if i := slices.Index(instead, "top"); i >= 0 {
			instead = slices.Replace(instead, i, i+1, "status", "--watch")
		}
		err = fmt.Errorf("%w; without one: %s (with --output jsonl for programs)", err, instead.again(parsed))
	}
	return err
}

// openTerminal opens the terminal that standard output is, for reading, too: standard input may be something else.
func openTerminal() (*os.File, error) {
	if !isTerminal(os.Stdout) {
		return nil, status.ErrNoTerminal
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil { // the process has no controlling terminal
		tty, err = os.OpenFile("/dev/stdout", os.O_RDWR, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", status.ErrNoTerminal, err)
	}
	return tty, nil
}
