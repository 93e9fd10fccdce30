package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/tools/output"
)

// topicsACLs prints or applies what a role must be allowed.
type topicsACLs struct {
	Role      []string `help:"Role to grant: ${enum}. all: one process with every role; channel: \"channel webhook\"; gateway: one that writes to Kafka itself; tools: replay, explain and others that read; operator: \"policy set\", \"tenants set\" and erase; topics: \"topics apply\"." enum:"ingest,detector,lastseen,fanout,api,all,channel,gateway,tools,operator,topics" required:"" env:"-" group:"Who:"`
	Principal string   `help:"The Kafka principal, e.g. User:detector; with mutual TLS, User:CN=detector,O=example." required:"" env:"-" group:"Who:"`
	Followers bool     `help:"Include what fanout needs for followers." env:"-" group:"Who:"`

	Apply  bool   `help:"Create the ACLs instead of printing them. The connecting user must be allowed to alter ACLs. Existing ACLs stay." env:"-" group:"What:"`
	Remove bool   `help:"Remove the ACLs." env:"-" group:"What:"`
	Output string `help:"${output} Or commands, for kafka-acls.sh." type:"format" takes:"table,json,jsonl,csv,parquet,commands" default:"table" env:"-" group:"What:"`
	kafkaFlags
}

// Help is printed below the list of flags.
func (*topicsACLs) Help() string {
	return `A broker with an authorizer allows only what was granted. This command lists what each role needs, and nothing more.

Show what the detector needs:

    stillhere topics acls --role detector --principal User:detector

Grant it, as a user who is allowed to; the names of topics, groups and transactional ids follow --topic-prefix:

    stillhere topics acls --role detector --principal User:detector --apply --kafka-brokers cluster:9093 --kafka-tls --kafka-sasl SCRAM-SHA-512 --kafka-user admin --kafka-password-file admin.password

Or give the commands to an administrator:

    stillhere topics acls --role detector --principal User:detector --output commands | sh

With --ids text the list has what names of users need.

--role may be given several times where one user is for several roles. A role that lacks something says in its log which operation on which resource.`
}

// Run prints or applies.
func (c *topicsACLs) Run(ctx context.Context) error {
	use := app.Use{Followers: c.Followers, Named: c.Kafka.IDs == string(identity.Text)}
	c.Kafka.IDs, c.Kafka.IdentityKey, c.Kafka.IdentityKeyFile = "", "", "" // who grants needs no key
	cluster, err := c.cluster()
	if err != nil {
		return err
	}
	if c.Apply && c.Remove {
		return misused(fmt.Errorf("--apply and --remove exclude each other"))
	}
	var grants []admin.Grant
	for _, role := range c.Role {
		more, err := app.Grants(role, use, cluster.Prefix)
		if err != nil {
			return err
		}
		for _, g := range more {
			if !slices.Contains(grants, admin.Grant(g)) {
				grants = append(grants, admin.Grant(g))
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	switch {
	case c.Apply:
		err = admin.ApplyGrants(ctx, cluster, c.Principal, grants)
	case c.Remove:
		err = admin.RevokeGrants(ctx, cluster, c.Principal, grants)
	}
	if err != nil {
		return err
	}
	return c.print(grants)
}

// AfterApply is called by the parser.
func (c *topicsACLs) AfterApply() error { return output.Check(os.Stdout, c.Output) }

var grantColumns = []output.Column[admin.Grant]{
	{Name: "resource", Head: "RESOURCE", Value: func(g admin.Grant) any { return g.Resource }},
	{Name: "name", Head: "NAME", Value: func(g admin.Grant) any { return g.Name }},
	{Name: "prefixed", Head: "PREFIXED", Value: func(g admin.Grant) any { return g.Prefixed }},
	{Name: "operation", Head: "OPERATION", Value: func(g admin.Grant) any { return g.Operation }},
}

func (c *topicsACLs) print(grants []admin.Grant) error {
	if c.Output != "commands" {
		return printRows(c.Output, rowsOf(grants), grantColumns)
	}
	for _, g := range grants {
		fmt.Println(aclCommand(c.Kafka.Brokers, c.Principal, g, c.Remove))
	}
	return nil
}

// aclCommand is the line for the tool that comes with Kafka.
func aclCommand(brokers []string, principal string, g admin.Grant, remove bool) string {
	do, pattern := "--add", "literal"
	if remove {
		do = "--remove --force"
	}
	if g.Prefixed {
		pattern = "prefixed"
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s %s --allow-principal %s --operation %s --%s %s --resource-pattern-type %s",
		strings.Join(brokers, ","), do, quoted(principal), g.Operation, g.Resource, quoted(g.Name), pattern)
}

// quoted is text as one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
