package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/graph"
)

// exportCommand writes everything that is stored about a user.
type exportCommand struct {
	User   string `arg:"" help:"The user."`
	Status bool   `help:"Include what the detector holds of the user, which is read from Kafka." default:"true" negatable:"" env:"-"`
	URL    string `help:"URL of the API, which then does it in place of this command on Kafka and a store." placeholder:"URL" group:"Service:"`
	tenantFlag
	tokenFlag `group:"Service:"`
	storeCommand
	kafkaFlags
}

// Help is printed below the list of flags.
func (*exportCommand) Help() string {
	return `With --url, or a context that has one, the API is asked, which needs the token of the user or of an administrator. Else the command reads Kafka and the store:

    stillhere export 42 --url https://presence.example.com --token-file admin.token
    stillhere export ann --context prod
    stillhere export 42 --postgres postgres://… --kafka-brokers cluster:9092

Writes JSON lines to standard output, each with a type. presence: what is known now, hidden or not. erasure: what is left of an erased user. change: a change in the log of changes, oldest first. status: what the detector holds of a user who is present or hides, from presence.status; --no-status leaves it out, and then Kafka is not needed. follower: a user who follows this one. follows: a user whom this one follows. With --sqlite, the follower graph is graph.db in the same directory, as dev keeps it. GET /presence/{user_id}/export answers with the same lines. What Redis and the topics hold besides is the same data, for as long as their retention.`
}

// Run writes.
func (c *exportCommand) Run(ctx context.Context, parsed *kong.Context, file *configFile) (err error) {
	if through, err := throughAPI(parsed, file, "kafka-brokers", "postgres", "sqlite"); err != nil || through {
		if err != nil {
			return err
		}
		return c.throughAPI(ctx)
	}
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	of, err := c.naming(cluster.Users)
	if err != nil {
		return err
	}
	user, name, err := of.user("<user>", c.User)
	if err != nil {
		return err
	}
	if c.Status {
		if err := checkIdentity(ctx, cluster); err != nil {
			return fmt.Errorf("%w (--no-status does not ask Kafka)", err)
		}
	}
	from, closeStore, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if err := checkStored(ctx, from, of, namedUser{user, name}); err != nil {
		return err
	}
	edges, err := c.graph(ctx)
	if err != nil {
		return err
	}
	if edges != nil {
		defer edges.Close()
	}
	export := app.Export{Named: cluster.Users.Text(), Store: from, Graph: edges}
	if c.Status {
		statuses, err := app.OpenStatuses(c.Kafka, errorsOnly())
		if err != nil {
			return err
		}
		defer statuses.Close()
		export.Status = statuses.Of
	}
	out := bufio.NewWriter(os.Stdout)
	lines := &counter{Writer: out}
	defer func() { lines.report(c.User, err) }()
	err = export.Write(ctx, user, name, lines)
	if errors.Is(err, app.ErrStatus) {
		err = fmt.Errorf("%w (--no-status leaves it out)", err)
	}
	return errors.Join(err, out.Flush())
}

// throughAPI copies what the API answers.
func (c *exportCommand) throughAPI(ctx context.Context) (err error) {
	if !c.Status {
		return misused(errors.New("--no-status: the API always has the status"))
	}
	api := apiFlags{URL: c.URL, IDs: c.Kafka.IDs, Tenant: c.Tenant, tokenFlag: c.tokenFlag}
	if err := api.check([]string{c.User}); err != nil {
		return err
	}
	reach, err := api.client(0)
	if err != nil {
		return err
	}
	lines := &counter{Writer: os.Stdout}
	defer func() { lines.report(c.User, err) }()
	return reach.Export(ctx, c.User, lines)
}

// counter counts what is written.
type counter struct {
	io.Writer
	bytes int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += int64(n)
	return n, err
}

// report says on standard error if the export of the user was written without a line.
func (c *counter) report(user string, err error) {
	if err == nil && c.bytes == 0 {
		fmt.Fprintf(os.Stderr, "stillhere: nothing is stored of user %s\n", user)
	}
}

// graph opens the follower graph beside the store; nil: there is none.
func (c *storeCommand) graph(ctx context.Context) (*graph.Store, error) {
	store := app.Store{Postgres: c.Postgres}
	if c.SQLite != "" {
		store.SQLite = filepath.Join(filepath.Dir(c.SQLite), app.GraphFile)
		if _, err := os.Stat(store.SQLite); err != nil {
			return nil, nil //nolint:nilerr,nilnil // a store without a graph
		}
	}
	return app.OpenGraph(ctx, store, c.postgres())
}
