package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// identityCommand prints how the pipeline names users, or the ids of names.
type identityCommand struct {
	Names   []string `arg:"" optional:"" help:"Names of users whose ids are printed. Default: print how the pipeline names users, and the fingerprint of its identity key."`
	DataDir string   `help:"Data directory of dev to look at in place of a Kafka; dev must not be running on it." type:"path" env:"-"`
	linesFlag
	tenantFlag
	kafkaFlags
}

// Help is shown above the flags.
func (*identityCommand) Help() string {
	return `Ids of names are computed from the identity key alone; how the pipeline names users is read from Kafka:

    stillhere identity --kafka-brokers cluster:9092
    stillhere identity ann bob --tenant acme --identity-key-file identity.key`
}

// Run prints.
func (c *identityCommand) Run(ctx context.Context) error {
	if len(c.Names) > 0 {
		return c.ids()
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	stored, err := c.stored(ctx)
	if err != nil {
		return err
	}
	if stored.IDs == "" {
		fmt.Println("--ids int")
		return nil
	}
	fmt.Printf("--ids %s, identity key with fingerprint %s\n", stored.IDs, stored.Fingerprint)
	return nil
}

func (c *identityCommand) stored(ctx context.Context) (schemas.PipelineIdentity, error) {
	if c.DataDir != "" {
		return app.DevIdentity(ctx, c.DataDir)
	}
	c.Kafka.IDs, c.Kafka.IdentityKey, c.Kafka.IdentityKeyFile = "", "", ""
	cluster, err := c.cluster()
	if err != nil {
		return schemas.PipelineIdentity{}, err
	}
	return admin.Identity(ctx, cluster)
}

// identityOf is a row.
type identityOf struct {
	ID   schemas.UserID `json:"user_id,string"`
	Name string         `json:"name"`
}

// ids prints a line for each name.
func (c *identityCommand) ids() error {
	users, err := identity.Of(identity.Text, keys.Secret{Value: c.Kafka.IdentityKey, File: c.Kafka.IdentityKeyFile})
	if err != nil {
		return misused(err)
	}
	of, err := c.naming(users)
	if err != nil {
		return err
	}
	var faults []error
	var rows []identityOf
	for i, text := range c.Names {
		id, _, err := of.user(fmt.Sprintf("name %d", i+1), text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		rows = append(rows, identityOf{id, text})
	}
	if len(rows) == 0 {
		return errors.Join(faults...)
	}
	err = printLinesOr(c.linesFlag, rowsOf(rows), []output.Column[identityOf]{
		{Name: "user_id", Head: "USER ID", Value: func(i identityOf) any { return i.ID }},
		{Name: "name", Head: "NAME", Value: func(i identityOf) any { return i.Name }},
	}, func(i identityOf) string { return fmt.Sprintf("%d\t%s", i.ID, output.Shown(i.Name)) })
	return errors.Join(append(faults, err)...)
}
