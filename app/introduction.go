package app

import (
	"cmp"
	"strings"

	"github.com/stillhere/stillhere/internal/faults"
)

// introduction is what the first line of a process says of it, without secrets: what it is, by which
// policy it goes, where it listens, and which servers it uses.
func (b *builder) introduction() []any {
	facts := []any{"version", b.config.Version, "commit", cmp.Or(b.config.Commit, "unknown"), "policy", b.config.Policy.ID(), "partitions", b.partitions,
		"kafka", strings.Join(b.cluster.Brokers, ","), "topic_prefix", b.cluster.WithDefaults().Prefix}
	given := func(name, value string) {
		if value != "" {
			facts = append(facts, name, value)
		}
	}
	if b.role.http {
		given("listen", b.config.Listen)
	}
	given("admin", b.config.Admin)
	given("redis", strings.Join(b.redis.Addrs, ","))
	if b.store != nil || b.graph != nil {
		given("sqlite", b.config.Store.SQLite)
		if url := b.config.Store.Postgres; url != "" {
			at, _ := b.config.postgres().Address()
			given("postgres", at)
		}
	}
	given("schema_registry", faults.URL(b.config.SchemaRegistry))
	given("auth_jwks", faults.URL(b.config.Auth.JWKS))
	return facts
}
