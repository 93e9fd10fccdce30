package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// Need is what a role must be allowed to do with one resource of Kafka. What the
// roles do is tested with these and with each one taken away, so a Need too many
// fails the tests as one too few does.
type Need struct {
	// Role is one of Grantees, or eachRole.
	Role string
	// Followers says that only a process that tells followers needs it.
	Followers bool
	// One of the three: a topic, everyTopic; a group; the group whose members'
	// transactional ids are meant.
	Topic         schemas.Topic
	Group         string
	Transactional string
	Operations    []string // as Kafka calls them
	For           string   // why, for people
}

const (
	eachRole     = "every role"
	everyTopic   = schemas.Topic("*")
	channelGroup = "stillhere.channel."
)

// Grantees are the users that Kafka may have for Stillhere: the roles, and what is
// beside them.
var Grantees = []string{"ingest", "detector", "lastseen", "fanout", "api", "all", "channel", "gateway", "tools", "topics"}

// onePipeline are the roles that every Need of eachRole is for, "all" being all.
var onePipeline = []string{"ingest", "detector", "lastseen", "fanout", "api"}

// Needs is the list of what must be allowed.
var Needs = []Need{
	{Role: eachRole, Topic: everyTopic, Operations: []string{"Describe", "DescribeConfigs"}, For: "looking at start whether the topics are as they must be"},

	{Role: "ingest", Topic: schemas.Heartbeats, Operations: []string{"Write"}, For: "beats"},
	{Role: "ingest", Group: detectorGroup, Operations: []string{"Describe"}, For: "which policy is in force"},

	{Role: "detector", Topic: schemas.Heartbeats, Operations: []string{"Read", "Write"}, For: "beats; ticks and beats that landed in a wrong partition"},
	{Role: "detector", Topic: schemas.Statuses, Operations: []string{"Read", "Write"}, For: "coming back after a restart"},
	{Role: "detector", Topic: schemas.Transitions, Operations: []string{"Read", "Write"}, For: "changes; the last log epoch where the group has no commit"},
	{Role: "detector", Topic: schemas.DeadLetter, Operations: []string{"Read", "Write"}, For: "records that cannot be read; finding transactions that hang"},
	{Role: "detector", Group: detectorGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "detector", Transactional: detectorGroup, Operations: []string{"Write"}, For: "exactly once"},

	{Role: "lastseen", Topic: schemas.Transitions, Operations: []string{"Read"}, For: "sink and projector"},
	{Role: "lastseen", Topic: schemas.Statuses, Operations: []string{"Read"}, For: "filling a Redis that came back empty"},
	{Role: "lastseen", Topic: schemas.DeadLetter, Operations: []string{"Write"}, For: "records that cannot be read"},
	{Role: "lastseen", Group: sinkGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "lastseen", Group: projectorGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "lastseen", Group: detectorGroup, Operations: []string{"Describe"}, For: "which policy is in force, which log epochs there are, up to when answers are fresh"},

	{Role: "fanout", Topic: schemas.Transitions, Operations: []string{"Read"}, For: "telling who is looking"},
	{Role: "fanout", Topic: schemas.DeadLetter, Operations: []string{"Write"}, For: "records that cannot be read"},
	{Role: "fanout", Group: publishGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "fanout", Group: detectorGroup, Operations: []string{"Describe"}, For: "which policy is in force, and which log epochs there are"},

	{Role: "fanout", Followers: true, Topic: schemas.Statuses, Operations: []string{"Read"}, For: "which followers are here"},
	{Role: "fanout", Followers: true, Topic: schemas.Fanout, Operations: []string{"Read", "Write"}, For: "users with many followers"},
	{Role: "fanout", Followers: true, Topic: schemas.DeadLetter, Operations: []string{"Read"}, For: "finding transactions that hang"},
	{Role: "fanout", Followers: true, Topic: schemas.Deliveries, Operations: []string{"Read", "Write"}, For: "who is told what; finding transactions that hang"},
	{Role: "fanout", Followers: true, Group: plannerGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "fanout", Followers: true, Group: workerGroup, Operations: []string{"Read"}, For: "sharing the partitions"},
	{Role: "fanout", Followers: true, Transactional: plannerGroup, Operations: []string{"Write"}, For: "exactly once"},
	{Role: "fanout", Followers: true, Transactional: workerGroup, Operations: []string{"Write"}, For: "exactly once"},

	{Role: "api", Group: detectorGroup, Operations: []string{"Describe"}, For: "which policy is in force"},

	{Role: "channel", Topic: schemas.Deliveries, Operations: []string{"Read"}, For: "who is told what"},
	{Role: "channel", Topic: schemas.Statuses, Operations: []string{"Read"}, For: "who hides by now"},
	{Role: "channel", Topic: schemas.DeadLetter, Operations: []string{"Write"}, For: "deliveries that nobody takes"},
	{Role: "channel", Topic: schemas.Heartbeats, Operations: []string{"Describe"}, For: "how far the detector is, beyond which nothing can have happened"},
	{Role: "channel", Group: detectorGroup, Operations: []string{"Describe"}, For: "the same"},
	{Role: "channel", Group: channelGroup, Operations: []string{"Read"}, For: "sharing the partitions; of every channel's name"},

	{Role: "gateway", Topic: schemas.Heartbeats, Operations: []string{"Write"}, For: "a gateway that writes to Kafka itself"},

	{Role: "tools", Topic: schemas.Heartbeats, Operations: []string{"Read"}, For: "explain, backtest, record"},
	{Role: "tools", Group: detectorGroup, Operations: []string{"Describe"}, For: "explain, policy show; which log epochs there are"},
	{Role: "tools", Topic: schemas.Transitions, Operations: []string{"Read"}, For: "replay, asof, sessions, explain"},

	{Role: "topics", Topic: everyTopic, Operations: []string{"Create", "Describe", "DescribeConfigs"}, For: "topics apply and topics check"},
}

// NeedsOf is the part of the list that is about a grantee; followers says whether
// it tells followers.
func NeedsOf(grantee string, followers bool) ([]Need, error) {
	if !slices.Contains(Grantees, grantee) {
		return nil, fmt.Errorf("role: there is no %q, only %s", grantee, strings.Join(Grantees, ", "))
	}
	var needs []Need
	for _, n := range Needs {
		everybody := n.Role == eachRole && (grantee == "all" || slices.Contains(onePipeline, grantee))
		own := n.Role == grantee || grantee == "all" && slices.Contains(onePipeline, n.Role)
		if (everybody || own) && (followers || !n.Followers) {
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
	Operation string // as Kafka calls it: Read, Write, Describe, DescribeConfigs, Create
}

// Grants returns what Kafka must grant a grantee of the pipeline whose topics have this prefix.
func Grants(grantee string, followers bool, topicPrefix string) ([]Grant, error) {
	needs, err := NeedsOf(grantee, followers)
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
