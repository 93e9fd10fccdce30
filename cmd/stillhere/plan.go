package main

import (
	"errors"
	"os"
	"time"

	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/plan"
)

// planCommand computes what a deployment needs and costs.
type planCommand struct {
	Users         plan.Quantity `help:"Users who are online at the same time, at the peak, such as 500M." required:"" env:"-"`
	Registered    plan.Quantity `help:"Users who have a last seen; 0: as many as --users." default:"0" env:"-"`
	Heartbeat     time.Duration `help:"Time between two heartbeats of a device." default:"15s" env:"-"`
	Devices       float64       `help:"Devices of a user." default:"1.3" env:"-"`
	ChangesPerDay plan.Quantity `help:"Published changes of a user in a day." default:"20" env:"-"`
	Follows       plan.Quantity `help:"Followers of a user." default:"200" env:"-"`
	ReadsPerDay   plan.Quantity `help:"Batch reads of 50 users, by a user in a day." default:"20" env:"-"`
	Watchers      float64       `help:"How many have a user on their screen, on average." default:"2" env:"-"`
	Present       float64       `help:"Share of followers who are online." default:"0.3" env:"-"`
	Peak          float64       `help:"Rate of changes and reads at the peak, as a multiple of the day's average." default:"3" env:"-"`
	Replication   int           `help:"Replicas of each topic." default:"3" env:"-"`
	LogDays       plan.Quantity `help:"Days for which presence.transitions is kept." default:"30" env:"-"`
	AuditDays     plan.Quantity `help:"Days for which the log of changes in Postgres is kept." default:"400" env:"-"`
	InUse         float64       `help:"Share of processors and memory that may be in use." default:"0.5" env:"-"`
	Units         []byte        `help:"YAML file of unit costs instead of the built-in ones, which the benches measured." type:"filecontent" placeholder:"FILE" env:"-"`
	Prices        []byte        `help:"YAML file of prices instead of the built-in ones." type:"filecontent" placeholder:"FILE" env:"-"`
	Explain       bool          `help:"Print the formula of each line, and where unit costs and prices come from." env:"-"`
	Output        string        `help:"${output} Or helm-values, a file for the chart of deploy/helm." type:"format" takes:"table,json,jsonl,csv,parquet,helm-values" default:"table" env:"-"`
}

// Help is shown above the flags.
func (*planCommand) Help() string {
	return "The plan is arithmetic on unit costs, not a promise: deploy/CAPACITY.md has examples and what they leave out. " +
		"Measure the unit costs on your machines (stillhere bench, go run ./bench) and give them with --units."
}

func (c *planCommand) workload() plan.Workload {
	return plan.Workload{
		Users:         c.Users,
		Registered:    c.Registered,
		Heartbeat:     c.Heartbeat,
		Devices:       c.Devices,
		ChangesPerDay: c.ChangesPerDay,
		Follows:       c.Follows,
		ReadsPerDay:   c.ReadsPerDay,
		Watchers:      c.Watchers,
		Present:       c.Present,
		Peak:          c.Peak,
		Replication:   c.Replication,
		LogDays:       c.LogDays,
		AuditDays:     c.AuditDays,
		InUse:         c.InUse,
	}
}

// Validate is called by the parser.
func (c *planCommand) Validate() error {
	w := c.workload()
	return errors.Join(w.Validate(), output.Check(os.Stdout, c.Output))
}

// Run prints.
func (c *planCommand) Run() error {
	units, err := plan.ReadUnits(c.Units)
	if err != nil {
		return err
	}
	prices, err := plan.ReadPrices(c.Prices)
	if err != nil {
		return err
	}
	p := plan.Compute(c.workload(), units, prices)
	switch c.Output {
	case "helm-values":
		return plan.HelmValues(os.Stdout, p)
	case output.TableFormat:
		return plan.Text(os.Stdout, c.Explain, p)
	}
	return printObject(c.Output, p, rowsOf(p.Lines), []output.Column[plan.Line]{
		{Name: "part", Value: func(l plan.Line) any { return l.Part }},
		{Name: "name", Value: func(l plan.Line) any { return l.Name }},
		{Name: "value", Value: func(l plan.Line) any { return l.Value }},
		{Name: "unit", Value: func(l plan.Line) any { return l.Unit }},
		{Name: "formula", Value: func(l plan.Line) any { return l.Formula }},
	})
}
