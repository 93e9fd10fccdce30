package main

import (
	"context"
	"errors"
	"os"

	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/explain"
	"github.com/stillhere/stillhere/tools/progress"
)

// explainCommand explains why a transition was published.
type explainCommand struct {
	Event  string `arg:"" name:"event-id" help:"The event_id of the transition."`
	User   string `help:"Its user, if known: then only one partition is searched." env:"-"`
	Output string `help:"Output format: ${enum}." enum:"text,json" default:"text" env:"-"`
	kafkaFlags
	policyFlags `group:"Policy:"`
}

// Run looks it up and prints the explanation.
func (c *explainCommand) Run(ctx context.Context) error {
	var user schemas.UserID
	if c.User != "" {
		var err error
		if user, err = schemas.ParseUserID("--user", c.User); err != nil {
			return misused(err)
		}
	}
	settings := c.settings()
	if err := settings.Validate(); err != nil {
		return err
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	reader, err := c.openReader()
	if err != nil {
		return err
	}
	defer reader.Close()
	line := progress.Stderr()
	checkpoints, err := policy.Checkpoints(ctx, cluster)
	if err != nil {
		return err
	}
	found, err := explain.Explain(ctx, reader, explain.Options{
		Event: c.Event, User: user, Settings: settings, Checkpoints: checkpoints, Prefix: c.Kafka.Prefix,
		Progress: func(records int) { line.Say("looked at %d transitions", records) },
	})
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
