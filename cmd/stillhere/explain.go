package main

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/explain"
	"github.com/stillhere/stillhere/tools/progress"
)

// explainCommand explains why a transition was published.
type explainCommand struct {
	Event string `arg:"" name:"event-id" help:"The event_id of the transition."`
	Who   string `arg:"" optional:"" name:"user" help:"Its user, if known: then only one partition is searched."`
	User  string `hidden:"" instead:"EVENT-ID USER" env:"-"`
	tenantFlag
	ShowIDs     bool   `name:"show-ids" help:"With --ids text: print the internal id of the user beside the name." env:"-"`
	Output      string `help:"Output format: table or json." type:"format" takes:"table,json" default:"table" env:"-"`
	policyFlags `group:"Policy:"`
	kafkaFlags
}

// Help is shown above the flags.
func (*explainCommand) Help() string {
	return `Examples; "history" and "replay" print event ids:

    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0
    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0 42 --output json
    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0 ann --ids text --tenant acme --identity-key-file identity.key`
}

// Run looks it up and prints the explanation.
func (c *explainCommand) Run(ctx context.Context) error {
	settings := c.settings()
	if err := settings.Validate(); err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	of, err := c.naming(cluster.Users)
	if err != nil {
		return err
	}
	if c.ShowIDs && !of.users.Text() {
		return misused(errNoIDs)
	}
	o := explain.Options{Event: c.Event, Settings: settings, Prefix: c.Kafka.Prefix, ShowIDs: c.ShowIDs}
	if c.Who != "" && c.User != "" {
		return misused(errOneUser)
	}
	if user := cmp.Or(c.Who, c.User); user != "" {
		if o.User, o.Called, err = of.user("<user>", user); err != nil {
			return err
		}
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return err
	}
	reader, err := c.openReader()
	if err != nil {
		return err
	}
	defer reader.Close()
	if of.users.Text() {
		policies, err := policy.OfTenants(ctx, reader)
		if err != nil {
			return err
		}
		for _, p := range policies {
			o.Tenants = append(o.Tenants, p.TenantPolicy)
		}
		names := dataset.NewNames(cluster, reader, nil)
		if o.Names = names; o.User != 0 {
			if err := checkCalled(ctx, names, namedUser{o.User, o.Called}); err != nil {
				return err
			}
		}
	}
	line := progress.Stderr()
	o.Progress = func(records int) { line.Say("looked at %d transitions", records) }
	o.Checkpoints, err = policy.Checkpoints(ctx, cluster)
	if err != nil {
		return err
	}
	found, err := explain.Explain(ctx, reader, o)
	line.Clear()
	var bad *schemas.FieldError
	if errors.As(err, &bad) && bad.Field == "event id" {
		return misused(err)
	}
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(found)
	}
	return found.Write(os.Stdout)
}
