package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
)

// tenantsSizes prints what the durable store holds of tenants.
type tenantsSizes struct {
	Changes bool   `help:"Count the changes in the log, too, which reads all of it." env:"-"`
	Output  string `help:"Output format: table or json." type:"format" takes:"table,json" default:"table" env:"-"`
	storeCommand
}

// tenantSize is what the command prints as JSON.
type tenantSize struct {
	Tenant  string `json:"tenant"`
	Users   int64  `json:"users"`
	Online  int64  `json:"online"`
	Away    int64  `json:"away"`
	Changes *int64 `json:"changes,omitempty"`
}

// Help is printed below the list of flags.
func (*tenantsSizes) Help() string {
	return `Users are those whose names the store knows. Online and away are visible users, as the store has them: a moment older than GET /presence/count. The figures are read from the tables of all users, which takes seconds for millions; no Kafka is needed.`
}

// Run prints.
func (c *tenantsSizes) Run(ctx context.Context) (err error) {
	from, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	sizes, err := from.TenantSizes(ctx, c.Changes)
	if err != nil {
		return err
	}
	reports := make([]tenantSize, len(sizes))
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "TENANT\tUSERS\tONLINE\tAWAY")
	if c.Changes {
		fmt.Fprint(table, "\tCHANGES")
	}
	fmt.Fprintln(table)
	for i, s := range sizes {
		reports[i] = tenantSize{Tenant: s.Tenant, Users: s.Users, Online: s.Online, Away: s.Away}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d", shownTenant(s.Tenant), s.Users, s.Online, s.Away)
		if c.Changes {
			reports[i].Changes = &sizes[i].Changes
			fmt.Fprintf(table, "\t%d", s.Changes)
		}
		fmt.Fprintln(table)
	}
	if c.Output == "json" {
		return printJSON(reports)
	}
	return table.Flush()
}
