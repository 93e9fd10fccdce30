package main

import (
	"errors"
	"os"

	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/plan"
)

// planCommand computes what a deployment needs and costs.
type planCommand struct {
	Users  plan.Quantity     `help:"Users who are online at the same time, at the peak, such as 500M." required:"" env:"-"`
	Set    map[string]string `help:"Another number of the workload, such as devices=1.5; may be repeated. The help has all." placeholder:"NAME=VALUE" env:"-"`
	Units  []byte            `help:"YAML file of unit costs instead of the built-in ones, which the benches measured." type:"filecontent" placeholder:"FILE" env:"-"`
	Prices []byte            `help:"YAML file of prices instead of the built-in ones." type:"filecontent" placeholder:"FILE" env:"-"`
	Output string            `help:"${output} Or helm-values, a file for the chart of deploy/helm." type:"format" takes:"table,json,jsonl,csv,parquet,helm-values" default:"table" env:"-"`
}

// Help is shown above the flags.
func (*planCommand) Help() string {
	return "The plan is arithmetic on unit costs, not a promise: deploy/CAPACITY.md has examples and what they leave out. " +
		"Measure the unit costs on your machines (stillhere bench, go run ./bench) and give them with --units.\n\nWhat --set can change, with the default:\n\n" + plan.Names()
}

func (c *planCommand) workload() (plan.Workload, error) {
	w := plan.Usual(c.Users)
	return w, errors.Join(w.Set(c.Set), w.Validate())
}

// Validate is called by the parser.
func (c *planCommand) Validate() error {
	_, err := c.workload()
	return errors.Join(err, output.Check(os.Stdout, c.Output))
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
	workload, err := c.workload()
	if err != nil {
		return err
	}
	p := plan.Compute(workload, units, prices)
	switch c.Output {
	case "helm-values":
		return plan.HelmValues(os.Stdout, p)
	case output.TableFormat:
		return plan.Text(os.Stdout, p)
	}
	return printObject(c.Output, p, rowsOf(p.Lines), []output.Column[plan.Line]{
		{Name: "part", Value: func(l plan.Line) any { return l.Part }},
		{Name: "name", Value: func(l plan.Line) any { return l.Name }},
		{Name: "value", Value: func(l plan.Line) any { return l.Value }},
		{Name: "unit", Value: func(l plan.Line) any { return l.Unit }},
		{Name: "formula", Value: func(l plan.Line) any { return l.Formula }},
	})
}
