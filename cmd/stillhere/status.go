package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/console/status"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// statusFlags say of which pipeline the status is.
type statusFlags struct {
	URL    string  `help:"URL of a process of the role api or all, or of dev." default:"http://127.0.0.1:8080" group:"Service:"`
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
	Table string `help:"Print only this table: ${enum}. csv and parquet need one." enum:"all,instances,partitions,groups,gateways" default:"all" env:"-"`
	Watch bool   `help:"Print it every 2s until an interrupt. On a terminal each table replaces the last." env:"-"`
	statusFlags
}

// Help is shown above the flags.
func (*statusCommand) Help() string {
	return `Asks the API of a running pipeline, which needs the scope presence:observe: how many users are present, beats and changes a second, the policy in force, processes with their versions, partitions with owners and lag, consumer groups, gateways and servers; first what is wrong. The JSON is that of GET /console/api/overview, and jsonl has the same on a line. With --table both have the rows of the table, each with the instant:

    stillhere status
    stillhere status --table partitions --output csv
    stillhere status --table gateways --output jsonl --watch`
}

// Run prints.
func (c *statusCommand) Run(ctx context.Context) error {
	source, err := c.source()
	if err != nil {
		return err
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
		case <-time.After(watchInterval):
		}
	}
}

// watchInterval is the time between two readings of --watch.
const watchInterval = 2 * time.Second

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
	switch {
	case c.Watch && isTerminal(os.Stdout):
		fmt.Print("\x1b[H\x1b[2J") // ECMA-48: home, and clear the screen
	case !first:
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
