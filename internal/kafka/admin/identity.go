package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
)

// specs lists the topics of the pipeline.
func specs(cfg kafka.Config) []schemas.TopicSpec {
	if cfg.Users.Text() {
		// First, so that a pipeline whose set-up was cut short does not look like one in int mode.
		return slices.Concat(schemas.TextTopics(), cfg.Retention.Topics())
	}
	return cfg.Retention.Topics()
}

// verifyIdentity refuses users who are named in another way than those of the pipeline. A pipeline
// in int mode has no topic for it, so that pipelines of earlier versions are in int mode.
func verifyIdentity(ctx context.Context, admin *kadm.Client, cfg kafka.Config) error {
	exists, err := pipelineTopicExists(ctx, admin, cfg)
	if err != nil {
		return err
	}
	var stored schemas.PipelineIdentity
	if exists {
		if cfg.Users.Text() { // of a set-up that was cut short
			err = storeIdentity(ctx, cfg)
		}
		if err == nil {
			stored, err = readIdentity(ctx, cfg)
		}
		if err != nil {
			return err
		}
	}
	if asked := cfg.Users.Pipeline(); stored != asked {
		return &OtherIdentity{Prefix: cfg.Prefix, Stored: stored, Asked: asked}
	}
	return nil
}

// OtherIdentity is the error of a program that names users, or computes their ids, otherwise than the
// pipeline whose topics begin with Prefix.
type OtherIdentity struct {
	Prefix        string
	Stored, Asked schemas.PipelineIdentity
}

// Error says what the pipeline has, what the program has, and what to do.
func (e *OtherIdentity) Error() string {
	return fmt.Sprintf("the pipeline %s* %s; give it the pipeline's --ids and --identity-key-file (stillhere identity prints what the pipeline has), "+
		"or begin another pipeline with --topic-prefix", e.Prefix, e.Difference())
}

// Difference says what the pipeline has and what the program has.
func (e *OtherIdentity) Difference() string {
	return fmt.Sprintf("was begun with %s, and this program runs with %s: the ids of users would differ", describe(e.Stored), describe(e.Asked))
}

func describe(p schemas.PipelineIdentity) string {
	if p == (schemas.PipelineIdentity{}) {
		return "--ids int"
	}
	return fmt.Sprintf("--ids %s and the identity key with fingerprint %s", p.IDs, p.Fingerprint)
}

// pipelineTopicExists reports false, too, for users who may not describe the topic: the grants of
// pipelines in int mode do not name it.
func pipelineTopicExists(ctx context.Context, admin *kadm.Client, cfg kafka.Config) (bool, error) {
	name := schemas.Pipeline.Name(cfg.Prefix)
	details, err := admin.ListTopics(ctx, name)
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for topic %s: %w", name, kafka.ExplainConnection(err))
	}
	return details.Has(name) && details[name].Err == nil, nil
}

// Identity is what the pipeline stores of how its users are named; the zero value in int mode.
func Identity(ctx context.Context, cfg kafka.Config) (schemas.PipelineIdentity, error) {
	admin, cfg, err := openAdmin(cfg)
	if err != nil {
		return schemas.PipelineIdentity{}, err
	}
	defer admin.Close()
	if exists, err := pipelineTopicExists(ctx, admin, cfg); err != nil || !exists {
		return schemas.PipelineIdentity{}, err
	}
	return readIdentity(ctx, cfg)
}

// storeIdentity writes how users are named into an empty topic.
func storeIdentity(ctx context.Context, cfg kafka.Config) error {
	stored, err := readIdentity(ctx, cfg)
	if err != nil || stored != (schemas.PipelineIdentity{}) {
		return err
	}
	producer, err := kafka.NewProducer(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	err = producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Pipeline, Key: []byte("identity"), Value: cfg.Users.Pipeline().Encode()})
	return errors.Join(err, producer.Close(ctx))
}

// readIdentity reads the first record of the topic pipeline; the zero value if it is empty.
func readIdentity(ctx context.Context, cfg kafka.Config) (p schemas.PipelineIdentity, err error) {
	reader, err := kafka.NewReader(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return p, err
	}
	defer reader.Close()
	start, end, err := reader.Bounds(ctx, schemas.Pipeline, 0)
	if err == nil && start < end {
		err = reader.Read(ctx, schemas.Pipeline, 0, start, start+1, true, func(r *schemas.Record) error {
			p, err = schemas.DecodePipelineIdentity(r.Value)
			return err
		})
	}
	if err != nil {
		return p, fmt.Errorf("reading how the users of the pipeline are named, from topic %s: %w", schemas.Pipeline.Name(cfg.Prefix), err)
	}
	return p, nil
}
