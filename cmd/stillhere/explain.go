package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/explain"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// explainCommand explains why a transition was published.
type explainCommand struct {
	Event string `arg:"" optional:"" name:"event-id" help:"The event_id of the transition; with --at the user."`
	User  string `arg:"" optional:"" help:"Its user, if known: then only one partition is searched."`
	At    string `help:"Explain the last change of the user at or before this instant, and what the user was then: 2026-11-20T10:00, -2h, 10m ago, as replay's --from." env:"-"`
	tenantFlag
	Output string `help:"Output format: table, json (one document) or jsonl (the same on a line). Tables are for people, with times in UTC." type:"format" takes:"table,json,jsonl" why:"an explanation is no row; \"history\" and \"replay\" have rows" default:"table" env:"-"`
	kafkaFlags
}

// Help is shown above the flags.
func (*explainCommand) Help() string {
	return `Examples; "history" and "replay" print event ids:

    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0
    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0 42 --output json
    stillhere explain 2gVCcZ6TqUq5bkKTo7CqEYvyHr0 ann --ids text --tenant acme --identity-key-file identity.key
    stillhere explain 42 --at 2026-11-20T12:03
    stillhere explain ann --at -10m --ids text --tenant acme --identity-key-file identity.key

The detector's rules run again, from a snapshot of its state up to the record that caused the change. So they say what was known of the user before and after it. That needs the heartbeats since the snapshot, which are kept for minutes; of an older change only the transition is explained. With --frame-keys heartbeats count that detectors with these masters take; without, all.

What was published of the user's partition since then is read up to now: if the user was erased meanwhile, nothing is explained. Of weeks ago this takes a while; the progress says how far it has come.`
}

// given are the id and the user of the arguments.
func (c *explainCommand) given() (event, user string, err error) {
	event, user = c.Event, c.User
	switch {
	case c.At == "" && event == "":
		return "", "", misused(errors.New("<event-id>: must be given, or a user and --at"))
	case c.At == "":
		return event, user, nil
	case event != "" && user != "":
		return "", "", misused(errors.New("--at: the change is found by the user and the instant; leave the event id out"))
	case event == "" && user == "":
		return "", "", misused(errors.New("--at: the user must be given"))
	}
	return "", cmp.Or(event, user), nil
}

// Run looks it up and prints the explanation.
func (c *explainCommand) Run(ctx context.Context, args givenArguments) error {
	if err := args.checkInstants(""); err != nil {
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
	event, user, err := c.given()
	if err != nil {
		return err
	}
	o := explain.Options{Event: event}
	if c.At != "" {
		if o.At, err = instant("--at", c.At); err != nil {
			return err
		}
		o.At = min(o.At, schemas.MillisOf(time.Now())) // nobody knows more
	}
	if user != "" {
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
	if err := noteBegins(ctx, reader, schemas.Transitions, "--at", o.At); err != nil {
		return err
	}
	if of.users.Text() {
		names := dataset.NewNames(cluster, reader, nil)
		if o.Names = names; o.User != 0 {
			if err := checkCalled(ctx, names, namedUser{o.User, o.Called}); err != nil {
				return err
			}
		}
	}
	line := progress.Stderr()
	o.Progress = func(records int, reached schemas.Millis) {
		line.Say("looked at %d transitions  up to %s", records, output.Instant(reached))
	}
	found, err := explain.Explain(ctx, cluster, reader, o)
	line.Clear()
	var bad *schemas.FieldError
	if errors.As(err, &bad) && bad.Field == "event id" {
		return misused(schemas.Invalid("<event-id>", bad.Reason))
	}
	if err != nil {
		return err
	}
	switch c.Output {
	case output.JSON:
		return printJSON(found)
	case output.JSONL:
		return json.NewEncoder(os.Stdout).Encode(found)
	}
	return found.Write(os.Stdout)
}
