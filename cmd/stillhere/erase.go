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

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/erasure"
	"github.com/stillhere/stillhere/tools/output"
	"github.com/stillhere/stillhere/tools/progress"
)

// eraseCommand erases users.
type eraseCommand struct {
	Users []string `arg:"" optional:"" help:"The users."`
	File  string   `help:"File with more users, one a line." type:"existingfile" env:"-"`
	All   bool     `help:"Erase all users of --tenant, then its settings and its policy. Needs the store, which lists them." env:"-"`
	Yes   bool     `help:"Do not ask. Needed with --all where nobody can be asked." env:"-"`
	URL   string   `help:"URL of the API, which then does it in place of this command on Kafka." placeholder:"URL" group:"Service:"`
	tenantFlag
	tokenFlag `group:"Service:"`
	storeCommand
	kafkaFlags
}

// Help is printed below the list of flags.
func (*eraseCommand) Help() string {
	return `With --url, or a context that has one, the API erases, which needs the token of the user or of an administrator. Else the command itself does, on Kafka:

    stillhere erase 42 --url https://presence.example.com --token-file admin.token
    stillhere erase ann bob --context prod --yes
    stillhere erase --file users.txt --kafka-brokers cluster:9092
    stillhere erase --all --tenant acme --postgres postgres://… --kafka-brokers cluster:9092 --ids text --identity-key-file KEY

On a terminal it asks before; --yes answers. It prints a receipt for each user, as JSON lines. An erasure is one record in presence.heartbeats. The running pipeline then drops the user's devices, last seen, history, visibility and edges of the follower graph. The receipt names the first UTC day on which no topic has a copy of older records; backups are yours to handle. A user who sends heartbeats again is a new user, so take away the user's access first. Repeating the command does no harm.

--all erases 1,000 users a second. It lists them by the names in the store and in the follower graph, and waits until none is listed any more: users whose names come while it runs are found by another pass. If it is interrupted, start it again. Then "tenants show TENANT --table users" has no row, and GET /presence/count?tenant=TENANT is 0. With --sqlite, the follower graph is graph.db in the same directory, as dev keeps it.`
}

// erasureSays is what an erasure does, for who has to confirm it.
const erasureSays = "devices, last seen, history, visibility and edges of the follower graph are dropped for good, and a later heartbeat makes a new user"

// Run erases.
func (c *eraseCommand) Run(ctx context.Context, parsed *kong.Context, file *configFile) error {
	through, err := throughAPI(parsed, file, "kafka-brokers")
	switch {
	case err != nil:
		return err
	case c.All && rank(parsed, file, "url") > rank(parsed, file, "kafka-brokers"):
		return misused(errors.New("--all: works on Kafka, not through the API: give --kafka-brokers instead of --url"))
	case c.All && rank(parsed, file, "tenant") < 3:
		return misused(errors.New("--tenant: is needed with --all, on the command line; \"\" is the default tenant"))
	case c.All:
		return c.tenant(ctx)
	case through:
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
	users, err := c.users(of.user)
	if err != nil {
		return err
	}
	if err := confirm(c.Yes, fmt.Sprintf("Erase %s? Their %s.", list(users), erasureSays)); err != nil {
		return err
	}
	if err := checkIdentity(ctx, cluster); err != nil {
		return err
	}
	writer, err := erasure.OpenWriter(ctx, cluster, errorsOnly())
	if err != nil {
		return err
	}
	defer writer.Close(ctx)
	line := progress.Stderr()
	defer warnUnspread(writer)
	defer line.Clear()
	receipts := json.NewEncoder(line.Writer(os.Stdout))
	for i, user := range users {
		given, err := writer.Erase(ctx, schemas.UserName{User: user.id, Name: user.name})
		if err != nil {
			return fmt.Errorf("erasing user %s, the %s of %s: %w", user, output.Grouped(int64(i+1))+"th", output.Grouped(int64(len(users))), err)
		}
		line.Say("%s of %s users erased", output.Grouped(int64(i+1)), output.Grouped(int64(len(users))))
		if err := receipts.Encode(given[0]); err != nil {
			return err
		}
	}
	return nil
}

// warnUnspread says that processes do not know of erasures.
func warnUnspread(w *erasure.Writer) {
	if err := w.Unspread(); err != nil {
		fmt.Fprintln(os.Stderr, "warning:", err)
	}
}

// throughAPI has the API erase.
func (c *eraseCommand) throughAPI(ctx context.Context) error {
	api := apiFlags{URL: c.URL, IDs: c.Kafka.IDs, Tenant: c.Tenant, tokenFlag: c.tokenFlag}
	if err := api.check(nil); err != nil {
		return err
	}
	users, err := c.users(api.user)
	if err != nil {
		return err
	}
	reach, err := api.client(0)
	if err != nil {
		return err
	}
	if err := confirm(c.Yes, fmt.Sprintf("Erase %s at %s? Their %s.", list(users), concealText(c.URL), erasureSays)); err != nil {
		return err
	}
	line := progress.Stderr()
	receipts := json.NewEncoder(line.Writer(os.Stdout))
	defer line.Clear()
	for i, user := range users {
		receipt, err := reach.Erase(ctx, user.text())
		if err != nil {
			line.Clear()
			return fmt.Errorf("%w (%s of %s users were erased before)", err, output.Grouped(int64(i)), output.Grouped(int64(len(users))))
		}
		line.Say("%s of %s users erased", output.Grouped(int64(i+1)), output.Grouped(int64(len(users))))
		if err := receipts.Encode(receipt); err != nil {
			return err
		}
	}
	return nil
}

// list names users for people.
func list(users []namedUser) string {
	const most = 5
	var names []string
	for _, user := range users[:min(len(users), most)] {
		names = append(names, user.String())
	}
	text := strings.Join(names, ", ")
	if more := len(users) - most; more > 0 {
		text += fmt.Sprintf(" and %s more", output.Grouped(int64(more)))
	}
	if len(users) == 1 {
		return "user " + text
	}
	return fmt.Sprintf("%s users: %s", output.Grouped(int64(len(users))), text)
}

// users reads the arguments and the file. Nobody is erased if one of them is bad.
func (c *eraseCommand) users(read func(field, text string) (schemas.UserID, schemas.Name, error)) (users []namedUser, err error) {
	var faults []error
	add := func(field, text string) {
		id, name, err := read(field, text)
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
			if c.Kafka.IDs != string(identity.Text) { // spaces may belong to a name
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
		return nil, misused(errors.New("no user is given: name some, a --file, or --all"))
	}
	return users, errors.Join(faults...)
}
