package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// Need is what a role must be allowed to do with one resource of Kafka. Tests run every role
// with its needs, and with each of them taken away, so that a need too many fails as one too
// few does.
type Need struct {
	// Role is one of Grantees, or eachRole.
	Role string
	// Followers restricts the need to processes that write deliveries for followers.
	Followers bool
	// Named restricts the need to pipelines with --ids text.
	Named bool
	// One of the three: a topic or everyTopic; a group; the group whose members'
	// transactional ids are meant.
	Topic         schemas.Topic
	Group         string
	Transactional string
	Operations    []string // as Kafka calls them
	For           string   // the reason, for people
}

const (
	eachRole   = "every role"
	everyTopic = schemas.Topic("*")
)

// Grantees are the users that Kafka may have for Stillhere: the roles and the tools.
var Grantees = []string{"ingest", "detector", "lastseen", "fanout", "api", "all", "channel", "gateway", "tools", "operator", "topics"}

// onePipeline are the roles that every Need of eachRole is for, "all" being all.
var onePipeline = []string{"ingest", "detector", "lastseen", "fanout", "api"}

// Needs is the list of what must be allowed.
var Needs = slices.Concat(
	roleNeeds(eachRole,
		onTopic(everyTopic, "checking the topics' configuration", "Describe", "DescribeConfigs")),
	roleNeeds("ingest",
		onTopic(schemas.Heartbeats, "writing beats", "Write"),
		onTopic(schemas.Gateways, "saying which gateways are there", "Write"),
		onGroup(detectorGroup, "reading the policy in force", "Describe")),
	roleNeeds("detector",
		onTopic(schemas.Heartbeats, "reading beats; writing ticks, and beats that came in a wrong partition", "Read", "Write"),
		onTopic(schemas.Gateways, "reading which gateways are there; writing ticks", "Read", "Write"),
		onTopic(schemas.Snapshots, "writing the state, and reading it after a restart", "Read", "Write"),
		onTopic(schemas.Statuses, "writing who is here; reading it after a restart without a snapshot", "Read", "Write"),
		onTopic(schemas.Transitions, "writing changes; reading the last log epoch if the group has no commit", "Read", "Write"),
		onTopic(schemas.SeenHints, "writing when users were heard last, and how many are present", "Write"),
		onTopic(schemas.DeadLetter, "records that cannot be read; finding hanging transactions", "Read", "Write"),
		onTopic(schemas.Policies, "keeping the settings of every policy", "Read", "Write"),
		onGroup(detectorGroup, "sharing the partitions", "Read"),
		onTransactions(detectorGroup, "exactly-once writes")),
	roleNeeds("lastseen",
		onTopic(schemas.Transitions, "reading changes in the sink and the projector", "Read"),
		onTopic(schemas.Statuses, "reading which users are unsure; rebuilding a Redis that is empty", "Read"),
		onTopic(schemas.SeenHints, "reading when users were heard last", "Read"),
		onTopic(schemas.DeadLetter, "records that cannot be read", "Write"),
		onGroup(sinkGroup, "sharing the partitions", "Read"),
		onGroup(seenGroup, "sharing the partitions", "Read"),
		onGroup(unsureGroup, "sharing the partitions", "Read"),
		onGroup(projectorGroup, "sharing the partitions", "Read"),
		onGroup(detectorGroup, "reading the policy in force, the log epochs and the detector's progress", "Describe")),
	roleNeeds("fanout",
		onTopic(schemas.Transitions, "reading changes for viewers", "Read"),
		onTopic(schemas.DeadLetter, "records that cannot be read", "Write"),
		onTopic(schemas.Graph, "changes of the follower graph, with `--graph-topic`", "Read"),
		onGroup(publishGroup, "sharing the partitions", "Read"),
		onGroup(graphGroup, "sharing the partitions", "Read"),
		onGroup(detectorGroup, "reading the policy in force and the log epochs", "Describe")),
	forFollowers(roleNeeds("fanout",
		onTopic(schemas.Statuses, "reading which followers are present", "Read"),
		onTopic(schemas.Fanout, "jobs for users with many followers", "Read", "Write"),
		onTopic(schemas.DeadLetter, "finding hanging transactions", "Read"),
		onTopic(schemas.Deliveries, "writing deliveries; finding hanging transactions", "Read", "Write"),
		onGroup(plannerGroup, "sharing the partitions", "Read"),
		onGroup(workerGroup, "sharing the partitions", "Read"),
		onGroup(liveGroup, "sharing the partitions of the live deliveries", "Read"),
		onTransactions(plannerGroup, "exactly-once writes"),
		onTransactions(workerGroup, "exactly-once writes"))),
	named(
		roleNeeds(eachRole,
			onTopic(schemas.Pipeline, "reading how users are named, and the settings of tenants", "Read")),
		roleNeeds("ingest",
			onTopic(schemas.Erasures, "writing names again after erasures; saying who was erased over HTTP", "Read", "Write")),
		roleNeeds("detector",
			onTopic(schemas.Names, "writing names of users; finding hanging transactions", "Read", "Write")),
		roleNeeds("lastseen",
			onTopic(schemas.Names, "reading names of users", "Read"),
			onGroup(namesGroup, "sharing the partitions", "Read"))),
	roleNeeds("api",
		onTopic(schemas.Statuses, "exporting what the detector holds of a user", "Read"),
		onGroup(detectorGroup, "reading the policy in force", "Describe")),
	roleNeeds("channel",
		onTopic(schemas.Deliveries, "reading deliveries", "Read"),
		onTopic(schemas.Transitions, "reading transitions, with --of transitions", "Read"),
		onTopic(schemas.Statuses, "reading which users are hidden", "Read"),
		onTopic(schemas.DeadLetter, "deliveries that failed too often", "Write"),
		onTopic(schemas.Heartbeats, "reading the detector's progress", "Describe"),
		onGroup(detectorGroup, "reading the detector's progress", "Describe"),
		onGroup(channelGroup, "sharing the partitions, for channels of any name", "Read")),
	roleNeeds("gateway",
		onTopic(schemas.Heartbeats, "a gateway that writes to Kafka itself", "Write"),
		onTopic(schemas.Gateways, "saying that it is there", "Write"),
		onGroup(detectorGroup, "reading the policy in force", "Describe")),
	named(roleNeeds("gateway",
		onTopic(schemas.Pipeline, "comparing its identity key with the pipeline's; the policies of tenants", "Read"),
		onTopic(schemas.Erasures, "writing names again after erasures", "Read"))),
	roleNeeds("tools",
		onTopic(schemas.Heartbeats, "explain, backtest, record", "Read"),
		onTopic(schemas.Gateways, "the console's list of gateways", "Read"),
		onTopic(schemas.Snapshots, "explain", "Read"),
		onGroup(detectorGroup, "explain, policy show, backtest, canary; reading the log epochs", "Describe"),
		onTopic(schemas.Transitions, "replay, asof, sessions, explain, backtest, canary", "Read"),
		onTopic(schemas.Statuses, "export", "Read"),
		onTopic(schemas.Policies, "policy show, explain, backtest", "Read")),
	named(roleNeeds("tools",
		onTopic(schemas.Pipeline, "reading how users are named, and the policies of tenants", "Read"),
		onTopic(schemas.Names, "reading names of users", "Read"))),
	roleNeeds("operator",
		onTopic(everyTopic, "checking the topics' configuration", "Describe", "DescribeConfigs"),
		onTopic(schemas.Heartbeats, "policy set, erase", "Write"),
		onGroup(detectorGroup, "reading the policy in force, and which heartbeats detectors take", "Describe")),
	named(roleNeeds("operator",
		onTopic(schemas.Pipeline, "tenants set, policy set --tenant", "Read", "Write"),
		onTopic(schemas.Erasures, "erase: saying who was erased", "Write"))),
	roleNeeds("topics",
		onTopic(everyTopic, "topics apply", "Create", "Describe", "DescribeConfigs", "AlterConfigs")),
	named(roleNeeds("topics",
		onTopic(schemas.Pipeline, "topics apply: storing how users are named", "Read", "Write"))),
)

func onTopic(topic schemas.Topic, why string, operations ...string) Need {
	return Need{Topic: topic, Operations: operations, For: why}
}

func onGroup(group, why, operation string) Need {
	return Need{Group: group, Operations: []string{operation}, For: why}
}

func onTransactions(group, why string) Need {
	return Need{Transactional: group, Operations: []string{"Write"}, For: why}
}

func roleNeeds(role string, all ...Need) []Need {
	for i := range all {
		all[i].Role = role
	}
	return all
}

func forFollowers(all []Need) []Need {
	for i := range all {
		all[i].Followers = true
	}
	return all
}

func named(lists ...[]Need) []Need {
	all := slices.Concat(lists...)
	for i := range all {
		all[i].Named = true
	}
	return all
}

// Use says what of Stillhere is used: Followers that deliveries are written for followers, Named that
// the pipeline runs with --ids text.
type Use struct{ Followers, Named bool }

// NeedsOf returns the needs of a grantee.
func NeedsOf(grantee string, use Use) ([]Need, error) {
	if !slices.Contains(Grantees, grantee) {
		return nil, fmt.Errorf("role: there is no %q, only %s", grantee, strings.Join(Grantees, ", "))
	}
	var needs []Need
	for _, n := range Needs {
		shared := n.Role == eachRole && (grantee == "all" || slices.Contains(onePipeline, grantee))
		own := n.Role == grantee || grantee == "all" && slices.Contains(onePipeline, n.Role)
		if (shared || own) && (use.Followers || !n.Followers) && (use.Named || !n.Named) {
			needs = append(needs, n)
		}
	}
	return needs, nil
}

// Grant allows an operation on a resource of Kafka.
type Grant struct {
	Resource string // topic, group or transactional-id
	// Name is the resource's name on the cluster; with Prefixed all resources whose names
	// begin with it are meant.
	Name      string
	Prefixed  bool
	Operation string // as Kafka calls it: Read, Write, Describe, DescribeConfigs, AlterConfigs, Create
}

// Grants returns what Kafka must grant a grantee of the pipeline whose topics have this prefix.
func Grants(grantee string, use Use, topicPrefix string) ([]Grant, error) {
	needs, err := NeedsOf(grantee, use)
	var grants []Grant
	for _, n := range needs {
		for _, g := range n.grants(kafka.Config{Prefix: topicPrefix}) {
			if !slices.Contains(grants, g) {
				grants = append(grants, g)
			}
		}
	}
	return grants, err
}

func (n Need) grants(cluster kafka.Config) []Grant {
	var grants []Grant
	for _, operation := range n.Operations {
		g := Grant(admin.AllTopicsGrant(cluster.Prefix, operation))
		switch {
		case n.Group == channelGroup:
			g.Resource, g.Name = kafka.OfGroup, channelGroup
		case n.Group != "":
			g.Resource, g.Name, g.Prefixed = kafka.OfGroup, cluster.GroupName(n.Group), false
		case n.Transactional != "":
			// One for each process, which has its instance's name at the end.
			g.Resource, g.Name = kafka.OfTransactionalID, cluster.GroupName(n.Transactional)+"."
		case n.Topic != everyTopic:
			g.Name, g.Prefixed = n.Topic.Name(g.Name), false
		}
		grants = append(grants, g)
	}
	return grants
}
