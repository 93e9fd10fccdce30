package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/stillhere/stillhere/tools/output"
)

// tenantsSizes prints what the durable store holds of tenants.
type tenantsSizes struct {
	Changes bool `help:"Count the changes in the log, too, which reads all of it." env:"-"`
	outputFlag
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

// columns are those of sizes; changes are among them if they are counted.
func (c *tenantsSizes) columns() []output.Column[tenantSize] {
	all := []output.Column[tenantSize]{
		{Name: "tenant", Value: func(s tenantSize) any { return s.Tenant }},
		{Name: "users", Value: func(s tenantSize) any { return s.Users }},
		{Name: "online", Value: func(s tenantSize) any { return s.Online }},
		{Name: "away", Value: func(s tenantSize) any { return s.Away }},
	}
	if c.Changes {
		all = append(all, output.Column[tenantSize]{Name: "changes", Value: func(s tenantSize) any { return s.Changes }})
	}
	return all
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
	if c.Output != output.TableFormat {
		return printRows(c.Output, rowsOf(reports), c.columns(), itself)
	}
	return table.Flush()
}
