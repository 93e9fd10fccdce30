package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/progress"
)

// eraseCommand erases users.
type eraseCommand struct {
	Users []string `arg:"" optional:"" help:"The users."`
	File  string   `help:"File with more users, one a line." type:"existingfile" env:"-"`
	tenantFlag
	kafkaFlags
}

// Help is printed below the list of flags.
func (*eraseCommand) Help() string {
	return `Writes one record for each user to presence.heartbeats and prints a receipt for each, as JSON lines. The running pipeline then drops the user's devices, last seen, history, visibility and edges of the follower graph. The receipt names the first UTC day on which no topic has a copy of older records; backups are yours to handle. A user who sends heartbeats again is a new user, so take away the user's access first. Repeating the command does no harm.`
}

// Run erases.
func (c *eraseCommand) Run(ctx context.Context) error {
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	of, err := c.naming(cluster.Users)
	if err != nil {
		return err
	}
	users, err := c.users(of)
	if err != nil {
		return err
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return err
	}
	partitions, err := admin.CheckTopics(ctx, cluster)
	if err != nil {
		return err
	}
	copies, err := admin.LastCopies(ctx, cluster)
	if err != nil {
		return err
	}
	producer, err := kafka.NewProducer(cluster, errorsOnly(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close(context.WithoutCancel(ctx)) }() // everything was acknowledged
	line, receipts := progress.Stderr(), json.NewEncoder(os.Stdout)
	for i, user := range users {
		receipt, frame := httpgate.NewReceipt(user.id, user.name, time.Now(), copies)
		err := producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(user.id, partitions),
			Key: user.id.Key(), Value: frame})
		if err != nil {
			line.Clear()
			return fmt.Errorf("erasing user %s, the %s of %s: %w", user, grouped(int64(i+1))+"th", grouped(int64(len(users))), err)
		}
		line.Say("%s of %s users erased", grouped(int64(i+1)), grouped(int64(len(users))))
		if err := receipts.Encode(receipt); err != nil {
			return err
		}
	}
	line.Clear()
	return nil
}

// users reads the arguments and the file. Nobody is erased if one of them is bad.
func (c *eraseCommand) users(of naming) (users []namedUser, err error) {
	var faults []error
	add := func(field, text string) {
		id, name, err := of.user(field, text)
		if users = append(users, namedUser{id, name}); err != nil {
			faults = append(faults, err)
		}
	}
	for _, text := range c.Users {
		add(fmt.Sprintf("user %q", text), text)
	}
	if c.File != "" {
		file, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in := bufio.NewScanner(io.Reader(file))
		for n := 1; in.Scan(); n++ {
			text := in.Text()
			if !of.users.Text() { // spaces may belong to a name
				text = strings.TrimSpace(text)
			}
			if text != "" {
				add(fmt.Sprintf("%s line %d", c.File, n), text)
			}
		}
		if err := in.Err(); err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.File, err)
		}
	}
	if len(users) == 0 {
		return nil, misused(errors.New("no user is given: name some, or a --file"))
	}
	return users, errors.Join(faults...)
}
