package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/tools/output"
)

// topicsCommand creates and checks the topics.
type topicsCommand struct {
	Apply topicsApply `cmd:"" help:"Create missing topics, change retentions that are given, check the topics, and register their schemas with a Schema Registry that is given; or only check them."`
	ACLs  topicsACLs  `cmd:"" name:"acls" help:"Print or apply the ACLs that a role needs, on brokers that have an authorizer."`
}

type topicsApply struct {
	kafkaFlags
	registryFlags
	Partitions  int32 `help:"Partitions of new topics. You cannot change the number later: users would move to other partitions. If topics exist with another number, it is an error." default:"64"`
	Replication int16 `help:"Replicas of each partition; -1: the cluster's default." default:"-1"`
	DryRun      bool  `help:"Change nothing; only check that the topics are configured correctly, and have --partitions if it is given." env:"-"`
	topicFlags  `group:"Retention:"`
	outputFlag
}

// Validate is called by the parser.
func (c *topicsApply) Validate() error {
	if c.Partitions < 1 {
		return fmt.Errorf("--partitions: must be at least 1, is %d", c.Partitions)
	}
	if c.Replication != -1 && c.Replication < 1 {
		return fmt.Errorf("--replication: must be at least 1, or -1, is %d", c.Replication)
	}
	return nil
}

// setUpTimeout bounds commands that only talk to Kafka for a moment.
const setUpTimeout = 30 * time.Second

// Run creates and checks.
func (c *topicsApply) Run(ctx context.Context, parsed *kong.Context, file *configFile) error {
	config, err := c.cluster()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	config.Retention = c.TopicRetention.asked
	if err := config.Retention.Validate(); err != nil {
		return err
	}
	if c.DryRun && c.TopicRetention.text != "" {
		return misused(errors.New("--dry-run: changes no retention; leave --retention out"))
	}
	if isGiven(parsed, file, "partitions") { // the default is only for new topics
		if err := admin.CheckPartitions(ctx, config, c.Partitions); err != nil {
			return err
		}
	}
	if c.DryRun {
		return checkTopics(ctx, config)
	}
	reports, err := admin.ApplyTopics(ctx, config, c.Partitions, c.Replication)
	if err != nil && len(reports) == 0 {
		return err
	}
	return errors.Join(err, c.print(reports), c.register(ctx, config.WithDefaults().Prefix))
}

var topicColumns = []output.Column[admin.TopicReport]{
	{Name: "name", Value: func(r admin.TopicReport) any { return r.Name }},
	{Name: "created", Value: func(r admin.TopicReport) any { return r.Created }},
	{Name: "partitions", Value: func(r admin.TopicReport) any { return r.Partitions }},
	{Name: "changed", Value: func(r admin.TopicReport) any { return r.Changed }},
	{Name: "tuned", Value: func(r admin.TopicReport) any { return r.Tuned }},
}

func (c *topicsApply) print(reports []admin.TopicReport) error {
	if c.Output != output.TableFormat {
		return printRows(c.Output, rowsOf(reports), topicColumns)
	}
	for _, r := range reports {
		what := "is there"
		if r.Created {
			what = "created"
		}
		fmt.Printf("%-28s %3d partitions  %s\n", r.Name, r.Partitions, what)
		for _, changed := range r.Changed {
			fmt.Printf("%-28s changed: %s\n", "", changed)
		}
		for _, tuned := range r.Tuned {
			fmt.Printf("%-28s %s\n", "", tuned)
		}
	}
	return nil
}

func checkTopics(ctx context.Context, cluster kafka.Config) error {
	partitions, err := admin.CheckTopics(ctx, cluster)
	if err == nil {
		err = admin.CheckRetention(ctx, cluster)
	}
	if err == nil {
		fmt.Printf("all topics are configured correctly; users are spread over %d partitions\n", partitions)
	}
	return err
}
