package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/erasure"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// tenant erases all users of a tenant, its settings and its policy.
func (c *eraseCommand) tenant(ctx context.Context) (err error) {
	if !c.Yes && !asks() {
		return misused(errors.New("--yes: is needed with --all where nobody can be asked"))
	}
	cluster, err := c.cluster()
	switch {
	case err != nil:
		return err
	case !cluster.Users.Text():
		return misused(errors.New("--ids: only pipelines with --ids text have tenants"))
	case len(c.Users) > 0 || c.File != "":
		return misused(errors.New("--all: erases every user of the tenant, so no user can be given"))
	}
	if err := misused(schemas.CheckTenant("tenant", *c.Tenant)); err != nil {
		return err
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return err
	}
	from, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	o := erasure.Defaults()
	o.Tenant, o.Sources = *c.Tenant, []erasure.Source{from}
	edges, err := c.graph(ctx)
	if err != nil {
		return err
	}
	if edges != nil {
		defer edges.Close()
		o.Sources = append(o.Sources, edges)
	}
	users, err := erasure.Count(ctx, o.Tenant, o.Sources)
	if err != nil {
		return err
	}
	settings, policy, err := hasOwn(ctx, cluster, o.Tenant)
	if err != nil {
		return err
	}
	if err := confirm(c.Yes, fmt.Sprintf("Erase all %s users of tenant %s, its settings and its policy? The users' %s.", output.Grouped(users), shownTenant(o.Tenant), erasureSays)); err != nil {
		return err
	}
	if err := eraseAll(ctx, cluster, o); err != nil {
		return err
	}
	if settings {
		if err := tenants.Unset(ctx, cluster, o.Tenant, errorsOnly()); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "the settings of the tenant are removed")
	}
	if policy {
		return changeTenant(ctx, os.Stderr, cluster, schemas.TenantPolicy{Tenant: o.Tenant}, setUpTimeout)
	}
	return nil
}

// hasOwn reports whether the tenant has settings and a policy of its own.
func hasOwn(ctx context.Context, cluster kafka.Config, tenant string) (settings, policy bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, err := tenants.Read(ctx, cluster, errorsOnly())
	if err != nil {
		return false, false, err
	}
	_, _, settings = recordsOf(d, tenant)
	return settings, d.Policies()[tenant] != nil, nil
}

// eraseAll erases the users, and prints their receipts.
func eraseAll(ctx context.Context, cluster kafka.Config, o erasure.Options) error {
	writer, err := erasure.OpenWriter(ctx, cluster, errorsOnly())
	if err != nil {
		return err
	}
	defer writer.Close(ctx)
	line := progress.Stderr()
	receipts := json.NewEncoder(line.Writer(os.Stdout))
	o.Erase = func(ctx context.Context, users []schemas.UserName) error {
		given, err := writer.Erase(ctx, users...)
		if err != nil {
			return fmt.Errorf("erasing %d users: %w", len(users), err)
		}
		for i := range given {
			if err := receipts.Encode(&given[i]); err != nil {
				return err
			}
		}
		return nil
	}
	o.Progress = func(erased int64) { line.Say("%s users erased", output.Grouped(erased)) }
	done, err := erasure.Run(ctx, o)
	line.Clear()
	warnUnspread(writer)
	fmt.Fprintf(os.Stderr, "tenant %s: %s erasures written; passes: %d\n", shownTenant(o.Tenant), output.Grouped(done.Erased), done.Passes)
	switch {
	case err != nil:
		return fmt.Errorf("erasing tenant %s (run the command again to continue): %w", shownTenant(o.Tenant), err)
	case done.Left > 0:
		return fmt.Errorf("%s users of tenant %s are still listed: does the pipeline run, and are its users without access? Run the command again to continue",
			output.Grouped(done.Left), shownTenant(o.Tenant))
	}
	return nil
}
