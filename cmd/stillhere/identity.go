package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/output"
)

// identityCommand is about the ids of users who are called by names.
type identityCommand struct {
	Show identityShow `cmd:"" help:"Print how the pipeline names users, and the fingerprint of its identity key."`
	ID   identityID   `cmd:"" name:"id" help:"Print the user ids of names."`
}

type identityShow struct {
	DataDir string `help:"Data directory of dev to look at in place of a Kafka; dev must not be running on it." type:"path" env:"-"`
	kafkaFlags
}

// Run prints.
func (c *identityShow) Run(ctx context.Context) error {
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

func (c *identityShow) stored(ctx context.Context) (schemas.PipelineIdentity, error) {
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

type identityID struct {
	Names []string `arg:"" help:"Names of users."`
	linesFlag
	tenantFlag
	keyFlags
}

// identityOf is a row of identity id.
type identityOf struct {
	ID   schemas.UserID `json:"user_id,string"`
	Name string         `json:"name"`
}

// Run prints a line for each name.
func (c *identityID) Run() error {
	users, err := c.users(identity.Text)
	if err != nil {
		return err
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
	}, itself, func(i identityOf) string { return fmt.Sprintf("%d\t%s", i.ID, output.Shown(i.Name)) })
	return errors.Join(append(faults, err)...)
}
