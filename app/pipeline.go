package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/redis"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// redisPrefix is the default prefix of keys and channels: a different one for each prefix of
// topics, and presence: for presence. (a topic's name cannot have a colon).
func redisPrefix(topics string) string {
	topics = cmp.Or(topics, schemas.DefaultPrefix)
	if name, dotted := strings.CutSuffix(topics, "."); dotted {
		return name + ":"
	}
	return topics + "::"
}

// ownNames match names that a pipeline appends to its prefix. With prefix presence:recent: a
// second pipeline would use keys of the pipeline with prefix presence:.
var ownNames = regexp.MustCompile(`:(recent|live|deliveries|witness|pipeline|marks|rebuilds|seen|counts|processes|cursors|db[0-9]+)(:|$)`)

var prefixOfRedis = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,250}$`)

// checkRedisPrefix refuses prefixes whose keys could be those of another pipeline, or would all
// be in one slot of a Redis Cluster.
func checkRedisPrefix(prefix string) error {
	if !prefixOfRedis.MatchString(prefix) {
		return fmt.Errorf("redis_prefix: %q must be at most 250 letters, digits, dots, colons, hyphens and underscores (braces would put all keys into one slot of a cluster); an example is %q", prefix, "eu.presence:")
	}
	if name := ownNames.FindStringSubmatch(prefix); name != nil {
		return fmt.Errorf("redis_prefix: %q must not have %q behind a colon: the pipeline whose prefix comes before that may have keys or channels of this name, and the two would mix", prefix, name[1])
	}
	return nil
}

// errNotOurs says that another pipeline owns the keys of Redis.
var errNotOurs = errors.New("they belong to another pipeline")

// redisClaim records in Redis which pipeline owns the keys.
type redisClaim struct {
	view   *redisview.View
	prefix string
	self   string
}

// claimTimeout bounds one attempt.
const claimTimeout = 5 * time.Second

// openRedisClaim prepares the claim. It does not need Redis yet.
func openRedisClaim(ctx context.Context, cluster kafka.Config, redis redis.Options) (*redisClaim, error) {
	id, err := admin.ClusterID(ctx, cluster)
	if err != nil {
		return nil, err
	}
	redis.PoolSize = 1
	view, err := redisview.Open(redis, time.Hour)
	if err != nil {
		return nil, err
	}
	self := fmt.Sprintf("topics %s* of the Kafka cluster %q", cluster.WithDefaults().Prefix, id)
	return &redisClaim{view: view, prefix: redis.Prefix, self: self}, nil
}

// claim is errNotOurs if another pipeline owns the keys; any other error may pass.
func (m *redisClaim) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	owner, err := m.view.Claim(ctx, m.self)
	if err == nil && owner != m.self {
		err = fmt.Errorf("redis_prefix: the keys %s* of Redis: %w: they belong to the %s, this is the %s; "+
			"set another --redis-prefix (or --topic-prefix, or Redis), or, if the other pipeline no longer exists, delete the key %spipeline",
			m.prefix, errNotOurs, owner, m.self, m.prefix)
	}
	return err
}

// newRedisClaim refuses to start on the keys of another pipeline. If Redis does not answer
// yet, the process ends as soon as Redis reports another owner. A running process writes the
// claim again after Redis has lost it.
func newRedisClaim(ctx context.Context, p base) (component, error) {
	m, err := openRedisClaim(ctx, p.cluster, p.redis)
	if err != nil {
		return component{}, err
	}
	c := component{closers: []closer{{"Redis claim", func(context.Context) error { return m.view.Close() }}}}
	first := m.claim(ctx)
	if errors.Is(first, errNotOurs) {
		return c, first
	}
	c.services = []service{{"Redis claim", loops, func(ctx context.Context) error {
		settled := first == nil
		for {
			wait := time.Second
			if settled {
				wait = p.config.TopicsEvery
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			switch err := m.claim(ctx); {
			case err == nil:
				settled = true
			case errors.Is(err, errNotOurs) && !settled:
				return err
			case errors.Is(err, errNotOurs):
				p.log.Error("another pipeline has taken the keys in Redis", "error", err)
			}
		}
	}}}
	return c, nil
}

// checkRedisClaim is newRedisClaim for a command: Redis has to answer.
func checkRedisClaim(ctx context.Context, cluster kafka.Config, redis redis.Options) error {
	m, err := openRedisClaim(ctx, cluster, redis)
	if err != nil {
		return err
	}
	return errors.Join(m.claim(ctx), m.view.Close())
}
