package main

import (
	"context"
	"errors"
	"slices"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/tools/output"
)

// tenantSize is what tenants show --table users and changes print as JSON.
type tenantSize struct {
	Tenant  string `json:"tenant"`
	Users   int64  `json:"users"`
	Online  int64  `json:"online"`
	Away    int64  `json:"away"`
	Changes *int64 `json:"changes,omitempty"`
}

// sizeColumns are those of sizes; changes are among them if they are counted.
func sizeColumns(changes bool) []output.Column[tenantSize] {
	all := []output.Column[tenantSize]{
		{Name: "tenant", Value: func(s tenantSize) any { return s.Tenant }},
		{Head: "TENANT", Value: func(s tenantSize) any { return shownTenant(s.Tenant) }},
		{Name: "users", Head: "USERS", Value: func(s tenantSize) any { return s.Users }},
		{Name: "online", Head: "ONLINE", Value: func(s tenantSize) any { return s.Online }},
		{Name: "away", Head: "AWAY", Value: func(s tenantSize) any { return s.Away }},
	}
	if changes {
		all = append(all, output.Column[tenantSize]{Name: "changes", Head: "CHANGES", Value: func(s tenantSize) any { return s.Changes }})
	}
	return all
}

// sizes prints what the durable store holds of tenants.
func (c *tenantsShow) sizes(ctx context.Context) (err error) {
	from, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	changes := c.Table == "changes"
	sizes, err := from.TenantSizes(ctx, changes)
	if err != nil {
		return err
	}
	if c.Tenant != nil {
		sizes = slices.DeleteFunc(sizes, func(s store.TenantSize) bool { return s.Tenant != *c.Tenant })
	}
	reports := make([]tenantSize, len(sizes))
	for i, s := range sizes {
		reports[i] = tenantSize{Tenant: s.Tenant, Users: s.Users, Online: s.Online, Away: s.Away}
		if changes {
			reports[i].Changes = &sizes[i].Changes
		}
	}
	return printRows(c.Output, rowsOf(reports), sizeColumns(changes))
}
