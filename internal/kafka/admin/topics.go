package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// TopicReport is what ApplyTopics found and did to one topic.
type TopicReport struct {
	Name       string `json:"name"`
	Created    bool   `json:"created"`
	Partitions int32  `json:"partitions"`
	// Changed are the settings that were changed to the retention asked for.
	Changed []string `json:"changed,omitempty"`
	// Tuned are the settings that differ from ours and may.
	Tuned []string `json:"tuned,omitempty"`
}

// ApplyTopics creates the missing topics and checks all. New topics get as many partitions as the
// existing topics by user have, else partitions. replication -1 is the brokers' default. Of topics that
// exist it changes the retention that cfg.Retention sets and nothing else; the error lists what is
// wrong with them, as that of CheckTopics.
func ApplyTopics(ctx context.Context, cfg kafka.Config, partitions int32, replication int16) ([]TopicReport, error) {
	admin, cfg, found, err := openTopics(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if slices.ContainsFunc(found, func(t clusterTopic) bool { return t.exists }) {
		if err := verifyIdentity(ctx, admin, cfg); err != nil {
			return nil, err
		}
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
	created, changed := map[string]bool{}, map[string][]string{}
	for _, t := range found {
		if t.exists {
			if changed[t.name], err = changeRetention(ctx, admin, t, cfg.Retention); err != nil {
				return nil, err
			}
			continue
		}
		config := map[string]*string{}
		for name, value := range t.spec.Config {
			config[name] = &value
		}
		count := partitions
		if t.spec.Single {
			count = 1
		}
		response, err := admin.CreateTopic(ctx, count, replication, config, t.name)
		if errors.Is(response.Err, kerr.InvalidConfig) { // a broker before Kafka 3.6
			delete(config, schemas.LatestTime)
			response, err = admin.CreateTopic(ctx, count, replication, config, t.name)
		}
		if err == nil {
			err = response.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			err = kafka.WithGrantHint(err, "Create", kafka.OfTopic, t.name)
			return nil, fmt.Errorf("creating topic %s: %w %s", t.name, err, response.ErrMessage)
		}
		created[t.name] = true
		if t.spec.Topic == schemas.Pipeline {
			if err := storeIdentity(ctx, cfg); err != nil {
				return nil, err
			}
		}
	}
	if found, err = listCreated(ctx, cfg); err != nil {
		return nil, err
	}
	var reports []TopicReport
	for _, t := range found {
		reports = append(reports, TopicReport{t.name, created[t.name], t.partitions, changed[t.name], t.tuned})
	}
	_, err = compareTopics(found, cfg)
	return reports, err
}

// appears bounds how long new topics may take until brokers know them: 512 partitions of each take one a minute.
const appears = 5 * time.Minute

// listCreated lists the topics when all brokers know the new ones.
func listCreated(ctx context.Context, cfg kafka.Config) (found []clusterTopic, err error) {
	ctx, cancel := context.WithTimeout(ctx, appears)
	defer cancel()
	for tries := 0; ; tries++ {
		// A new client, because a client caches the topics for a while.
		admin, _, failed := openAdmin(cfg)
		if failed != nil {
			return nil, failed
		}
		found, err = listTopics(ctx, admin, cfg)
		admin.Close()
		missing := slices.ContainsFunc(found, func(t clusterTopic) bool { return !t.exists })
		// Any broker may be asked for settings, also one that has not heard of the topic yet.
		behind := errors.Is(err, kerr.UnknownTopicOrPartition)
		if err != nil && !behind || err == nil && !missing || !kafka.Pause(ctx, kafka.Backoff(tries)) {
			return found, err
		}
	}
}

// CheckTopics returns how many partitions the topics by user have. Its error has a line for each
// fault: the topic, the setting, its value, the required one and the command that corrects it.
func CheckTopics(ctx context.Context, cfg kafka.Config) (partitions int32, err error) {
	admin, cfg, found, err := openTopics(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	if err := verifyIdentity(ctx, admin, cfg); err != nil {
		return 0, err
	}
	return compareTopics(found, cfg)
}

// openTopics opens an admin client and lists the topics of the pipeline, those too that are missing.
func openTopics(ctx context.Context, cfg kafka.Config) (*kadm.Client, kafka.Config, []clusterTopic, error) {
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return nil, cfg, nil, err
	}
	found, err := listTopics(ctx, admin, cfg)
	if err != nil {
		admin.Close()
	}
	return admin, cfg, found, err
}

func openAdmin(cfg kafka.Config) (*kadm.Client, kafka.Config, error) {
	if err := cfg.Validate(); err != nil {
		return nil, cfg, fmt.Errorf("looking at the topics: %w", err)
	}
	cfg = cfg.WithDefaults()
	client, err := kafka.NewClient(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, cfg, err
	}
	return kadm.NewClient(client), cfg, nil
}

// clusterTopic is a topic of schemas.Topics as it is in the cluster.
type clusterTopic struct {
	spec       schemas.TopicSpec
	name       string
	exists     bool
	partitions int32
	settings   map[string]string
	tuned      []string
}

// listTopics returns all topics.
func listTopics(ctx context.Context, admin *kadm.Client, cfg kafka.Config) ([]clusterTopic, error) {
	var found []clusterTopic
	var names []string
	prefix := cfg.Prefix
	for _, spec := range specs(cfg) {
		name := spec.Topic.Name(prefix)
		found = append(found, clusterTopic{spec: spec, name: name, settings: map[string]string{}})
		names = append(names, name)
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		err = kafka.ExplainConnection(kafka.WithGrantHint(err, "Describe", kafka.OfTopic, prefix+"*"))
		return nil, fmt.Errorf("listing topics: %w", err)
	}
	var existing []string
	for i := range found {
		t := &found[i]
		detail, ok := details[t.name]
		switch {
		case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
			continue
		case detail.Err != nil:
			err := kafka.WithGrantHint(detail.Err, "Describe", kafka.OfTopic, t.name)
			return nil, fmt.Errorf("looking at topic %s: %w", t.name, err)
		}
		t.exists, t.partitions = true, int32(len(detail.Partitions))
		existing = append(existing, t.name)
	}
	if len(existing) == 0 {
		return found, nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		err = kafka.ExplainConnection(kafka.WithGrantHint(err, "DescribeConfigs", kafka.OfTopic, prefix+"*"))
		return nil, fmt.Errorf("reading the settings of the topics: %w", err)
	}
	for _, resource := range configs {
		if resource.Err != nil {
			err := kafka.WithGrantHint(resource.Err, "DescribeConfigs", kafka.OfTopic, resource.Name)
			return nil, fmt.Errorf("reading the settings of topic %s: %w", resource.Name, err)
		}
		i := slices.IndexFunc(found, func(t clusterTopic) bool { return t.name == resource.Name })
		if i < 0 {
			continue
		}
		for _, c := range resource.Configs {
			found[i].settings[c.Key] = c.MaybeValue()
		}
		for name, want := range found[i].spec.Config {
			if is, known := found[i].settings[name]; known && is != want && !slices.Contains(found[i].spec.Must, name) {
				found[i].tuned = append(found[i].tuned, fmt.Sprintf("%s=%s (ours: %s)", name, is, want))
			}
		}
		slices.Sort(found[i].tuned)
	}
	return found, nil
}

// compareTopics returns how many partitions the topics by user have, or all that is wrong.
func compareTopics(found []clusterTopic, cfg kafka.Config) (int32, error) {
	var faults []error
	var first *clusterTopic
	broker := cfg.Brokers[0]
	for i := range found {
		t := &found[i]
		if !t.exists {
			faults = append(faults, fmt.Errorf(
				"topic %s does not exist; create it with: stillhere topics apply --kafka-brokers %s", t.name, strings.Join(cfg.Brokers, ",")))
			continue
		}
		if t.spec.ByUser {
			if first == nil {
				first = t
			} else if t.partitions != first.partitions {
				faults = append(faults, fmt.Errorf("topic %s has %d partitions and must have %d, as %s has: "+
					"users would be looked for in the wrong place; "+
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

// DeleteTopics deletes all of Stillhere's topics under cfg.Prefix with their records. It refuses the
// default prefix: it is for topics that were created for a trial.
func DeleteTopics(ctx context.Context, cfg kafka.Config) error {
	if cfg.Prefix == "" || cfg.Prefix == schemas.DefaultPrefix {
		return fmt.Errorf("deleting topics: those of the prefix %q are not to be deleted by a program", cfg.Prefix)
	}
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return err
	}
	defer admin.Close()
	var names []string
	for _, spec := range slices.Concat(schemas.Topics(), schemas.TextTopics()) {
		names = append(names, spec.Topic.Name(cfg.Prefix))
	}
	responses, err := admin.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("deleting topics: %w", err)
	}
	var faults []error
	for _, r := range responses {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			faults = append(faults, fmt.Errorf("deleting topic %s: %w", r.Topic, r.Err))
		}
	}
	return errors.Join(faults...)
}

// ClusterID is the id of the cluster; empty if it has none.
func ClusterID(ctx context.Context, cfg kafka.Config) (string, error) {
	admin, _, err := openAdmin(cfg)
	if err != nil {
		return "", err
	}
	defer admin.Close()
	found, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return "", fmt.Errorf("asking Kafka for the cluster's id: %w", err)
	}
	return found.Cluster, nil
}
