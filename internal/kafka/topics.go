package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/schemas"
)

// TopicReport is what ApplyTopics found and did to one topic.
type TopicReport struct {
	Name       string `json:"name"`
	Created    bool   `json:"created"`
	Partitions int32  `json:"partitions"`
	// Tuned are the settings that differ from ours and may.
	Tuned []string `json:"tuned,omitempty"`
}

// ApplyTopics creates the topics that are missing and checks all. Those ByUser
// get partitions partitions, or as many as the existing ones have; the others
// get partitions as well. replication -1 is the brokers' default. It changes
// nothing about topics that exist; what is wrong with them is the error, as of
// CheckTopics.
func ApplyTopics(ctx context.Context, cfg Config, partitions int32, replication int16) ([]TopicReport, error) {
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	found, err := listTopics(ctx, admin, cfg.Prefix)
	if err != nil {
		return nil, err
	}
	for _, t := range found {
		if t.spec.ByUser && t.exists {
			partitions = t.partitions
			break
		}
	}
	if partitions < 1 {
		return nil, fmt.Errorf("creating topics: partitions must be at least 1, is %d", partitions)
	}
	created := map[string]bool{}
	for _, t := range found {
		if t.exists {
			continue
		}
		config := map[string]*string{}
		for name, value := range t.spec.Config {
			config[name] = &value
		}
		response, err := admin.CreateTopic(ctx, partitions, replication, config, t.name)
		if err == nil {
			err = response.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return nil, fmt.Errorf("creating topic %s: %w %s", t.name, needs(err, "Create", OfTopic, t.name), response.ErrMessage)
		}
		created[t.name] = true
	}
	if found, err = listCreated(ctx, cfg); err != nil {
		return nil, err
	}
	var reports []TopicReport
	for _, t := range found {
		reports = append(reports, TopicReport{Name: t.name, Created: created[t.name], Partitions: t.partitions, Tuned: t.tuned})
	}
	_, err = judge(found, cfg)
	return reports, err
}

// listCreated lists the topics once the brokers have told each other of all.
func listCreated(ctx context.Context, cfg Config) (found []foundTopic, err error) {
	for tries := range 20 {
		// A new client, since one keeps for a while what it knows of the topics.
		admin, _, err := openAdmin(cfg)
		if err != nil {
			return nil, err
		}
		found, err = listTopics(ctx, admin, cfg.Prefix)
		admin.Close()
		if err != nil || !slices.ContainsFunc(found, func(t foundTopic) bool { return !t.exists }) || !pause(ctx, backoff(tries)) {
			return found, err
		}
	}
	return found, err
}

// CheckTopics tells how many partitions the topics keyed by user have. Its error
// says, a line for each fault, which topic and setting is wrong, what it is,
// what it must be and the command that mends it.
func CheckTopics(ctx context.Context, cfg Config) (partitions int32, err error) {
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	found, err := listTopics(ctx, admin, cfg.Prefix)
	if err != nil {
		return 0, err
	}
	return judge(found, cfg)
}

func openAdmin(cfg Config) (*kadm.Client, Config, error) {
	if err := cfg.Validate(); err != nil {
		return nil, cfg, fmt.Errorf("looking at the topics: %w", err)
	}
	cfg = cfg.withDefaults()
	client, err := newClient(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, cfg, err
	}
	return kadm.NewClient(client), cfg, nil
}

// foundTopic is a topic of the table as it is in the cluster.
type foundTopic struct {
	spec       schemas.TopicSpec
	name       string
	exists     bool
	partitions int32
	settings   map[string]string
	tuned      []string
}

func listTopics(ctx context.Context, admin *kadm.Client, prefix string) ([]foundTopic, error) {
	var found []foundTopic
	var names []string
	for _, spec := range schemas.Topics() {
		found = append(found, foundTopic{spec: spec, name: spec.Topic.Name(prefix), settings: map[string]string{}})
		names = append(names, spec.Topic.Name(prefix))
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("listing topics: %w", plainly(needs(err, "Describe", OfTopic, prefix+"*")))
	}
	var existing []string
	for i := range found {
		t := &found[i]
		detail, ok := details[t.name]
		switch {
		case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
			continue
		case detail.Err != nil:
			return nil, fmt.Errorf("looking at topic %s: %w", t.name, needs(detail.Err, "Describe", OfTopic, t.name))
		}
		t.exists, t.partitions = true, int32(len(detail.Partitions))
		existing = append(existing, t.name)
	}
	if len(existing) == 0 {
		return found, nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		return nil, fmt.Errorf("reading the settings of the topics: %w", plainly(needs(err, "DescribeConfigs", OfTopic, prefix+"*")))
	}
	for _, resource := range configs {
		if resource.Err != nil {
			return nil, fmt.Errorf("reading the settings of topic %s: %w", resource.Name, needs(resource.Err, "DescribeConfigs", OfTopic, resource.Name))
		}
		i := slices.IndexFunc(found, func(t foundTopic) bool { return t.name == resource.Name })
		if i < 0 {
			continue
		}
		for _, c := range resource.Configs {
			found[i].settings[c.Key] = c.MaybeValue()
		}
		for name, want := range found[i].spec.Config {
			if is := found[i].settings[name]; is != want && !slices.Contains(found[i].spec.Must, name) {
				found[i].tuned = append(found[i].tuned, fmt.Sprintf("%s=%s (ours: %s)", name, is, want))
			}
		}
		slices.Sort(found[i].tuned)
	}
	return found, nil
}

// judge says what is wrong, and how many partitions the topics by user have.
func judge(found []foundTopic, cfg Config) (int32, error) {
	var faults []error
	var first *foundTopic
	broker := cfg.Brokers[0]
	for i := range found {
		t := &found[i]
		if !t.exists {
			faults = append(faults, fmt.Errorf("topic %s does not exist; create it with: stillhere topics apply --kafka-brokers %s",
				t.name, strings.Join(cfg.Brokers, ",")))
			continue
		}
		if t.spec.ByUser {
			if first == nil {
				first = t
			} else if t.partitions != first.partitions {
				faults = append(faults, fmt.Errorf("topic %s has %d partitions and must have %d, as %s has: users would be looked for in the wrong place; "+
					"delete the wrong one with: kafka-topics.sh --bootstrap-server %s --delete --topic %s, then: stillhere topics apply",
					t.name, t.partitions, first.partitions, first.name, broker, t.name))
			}
		}
		for _, name := range t.spec.Must {
			if is, want := t.settings[name], t.spec.Config[name]; is != want {
				faults = append(faults, fmt.Errorf("topic %s has %s=%s and must have %s; set it with: "+
					"kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
					t.name, name, is, want, broker, t.name, name, want))
			}
		}
	}
	if len(faults) > 0 {
		return 0, errors.Join(faults...)
	}
	return first.partitions, nil
}
