package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/erasure"
	"github.com/stillhere/stillhere/tools/progress"
)

// tenantsErase erases all users of a tenant.
type tenantsErase struct {
	Tenant   string `arg:"" help:"The tenant; \"\" is the default tenant."`
	Yes      bool   `help:"Erase. Without it nothing is changed, and the command says how many users it would erase." env:"-"`
	DryRun   bool   `help:"Only say how many users would be erased." env:"-"`
	Rate     int    `help:"Users to erase a second." default:"1000" env:"-"`
	Receipts string `help:"File for a receipt of each user, as JSON lines; a file that exists is continued." type:"path" env:"-"`
	storeCommand
	kafkaFlags
}

// Help is printed below the list of flags.
func (*tenantsErase) Help() string {
	return `Lists the users of the tenant by the names in the durable store and in the follower graph, and writes an erasure for each to presence.heartbeats, as the command erase does. The running pipeline then drops devices, last seen, history, visibility, names and edges. Users whose names come while it runs are found by another pass. At the end the settings of the tenant and its policy are removed.

Take away the tenant's access first: revoke its tokens and keys. A user who sends heartbeats again is a new user, who is listed by name again: another run finds the user.

The command waits until no user of the tenant is listed any more. It may be interrupted and started again: it continues with the users who are left. To check: "tenants sizes" does not list the tenant, and GET /presence/count?tenant=NAME is 0. The command prints the first UTC day on which no topic has a copy; backups are yours to handle. With --sqlite, the follower graph is graph.db in the same directory, as dev keeps it.

    stillhere tenants erase acme --dry-run --postgres postgres://… --kafka-brokers cluster:9092 --ids text --identity-key-file KEY
    stillhere tenants erase acme --yes --receipts acme.jsonl --postgres postgres://… --kafka-brokers cluster:9092 --ids text --identity-key-file KEY`
}

// Run erases.
func (c *tenantsErase) Run(ctx context.Context, parsed *kong.Context, args givenArguments) (err error) {
	cluster, err := c.cluster()
	switch {
	case err != nil:
		return err
	case !cluster.Users.Text():
		return misused(errors.New("--ids: only pipelines with --ids text have tenants"))
	case c.Rate < 1:
		return misused(fmt.Errorf("--rate: must be at least 1, is %d", c.Rate))
	}
	if err := misused(schemas.CheckTenant("tenant", c.Tenant)); err != nil {
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
	o.Tenant, o.Rate, o.Sources = c.Tenant, c.Rate, []erasure.Source{from}
	edges, err := c.graph(ctx)
	if err != nil {
		return err
	}
	if edges != nil {
		defer edges.Close()
		o.Sources = append(o.Sources, edges)
	}
	users, err := erasure.Count(ctx, c.Tenant, o.Sources)
	if err != nil {
		return err
	}
	settings, policy, err := c.hasOwn(ctx, cluster)
	if err != nil {
		return err
	}
	if c.DryRun || !c.Yes {
		fmt.Printf("tenant %s has %s users, settings of its own: %v, a policy of its own: %v\n", shownTenant(c.Tenant), grouped(users), settings, policy)
		if !c.DryRun {
			return misused(fmt.Errorf("--yes: nothing was erased; this erases all of them for good: %s", args.again(parsed, "--yes")))
		}
		return nil
	}
	goneOn, err := c.erase(ctx, cluster, o)
	if err != nil {
		return err
	}
	if settings {
		if err := tenants.Unset(ctx, cluster, c.Tenant, errorsOnly()); err != nil {
			return err
		}
		fmt.Println("the settings of the tenant are removed")
	}
	if policy {
		if err := changeTenant(ctx, cluster, schemas.TenantPolicy{Tenant: c.Tenant}, setUpTimeout); err != nil {
			return err
		}
	}
	if goneOn != "" {
		fmt.Printf("no topic has a copy from %s on\n", goneOn)
	}
	return nil
}

// hasOwn reports whether the tenant has settings and a policy of its own.
func (c *tenantsErase) hasOwn(ctx context.Context, cluster kafka.Config) (settings, policy bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, err := tenants.Read(ctx, cluster, errorsOnly())
	if err != nil {
		return false, false, err
	}
	_, _, settings = recordsOf(d, c.Tenant)
	return settings, d.Policies()[c.Tenant] != nil, nil
}

// erase erases the users, and returns the first UTC day on which no topic has a copy; empty if there were
// none.
func (c *tenantsErase) erase(ctx context.Context, cluster kafka.Config, o erasure.Options) (goneOn string, err error) {
	writer, err := erasure.OpenWriter(ctx, cluster, errorsOnly())
	if err != nil {
		return "", err
	}
	defer writer.Close(ctx)
	receipts := io.Discard
	if c.Receipts != "" {
		file, err := os.OpenFile(c.Receipts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", fmt.Errorf("--receipts: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		receipts = file
	}
	lines := json.NewEncoder(receipts)
	o.Erase = func(ctx context.Context, users []schemas.UserName) error {
		given, err := writer.Erase(ctx, users...)
		if err != nil {
			return fmt.Errorf("erasing %d users: %w", len(users), err)
		}
		goneOn = given[len(given)-1].GoneOn
		for i := range given {
			if err := lines.Encode(&given[i]); err != nil {
				return fmt.Errorf("--receipts: %w", err)
			}
		}
		return nil
	}
	line := progress.Stderr()
	o.Progress = func(erased int64) { line.Say("%s users erased", grouped(erased)) }
	done, err := erasure.Run(ctx, o)
	line.Clear()
	warnUnspread(writer)
	fmt.Printf("tenant %s: %s erasures written; passes: %d\n", shownTenant(c.Tenant), grouped(done.Erased), done.Passes)
	switch {
	case err != nil:
		return goneOn, fmt.Errorf("erasing tenant %s (run the command again to continue): %w", shownTenant(c.Tenant), err)
	case done.Left > 0:
		return goneOn, fmt.Errorf("%s users of tenant %s are still listed: does the pipeline run, and are its users without access? Run the command again to continue",
			grouped(done.Left), shownTenant(c.Tenant))
	}
	return goneOn, nil
}
