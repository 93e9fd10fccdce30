package app

import (
	"github.com/stillhere/stillhere/internal/outage"
)

// serverChecks are the checks that ask a server, and the server's name in lines about outages.
func (b *builder) serverChecks() map[string]string {
	servers := map[string]string{"kafka": "kafka", "redis": "redis"}
	if b.config.Store.Postgres != "" {
		servers["store"] = "postgres"
	}
	if b.config.Graph.Postgres != "" {
		servers["follower graph"] = "postgres"
	}
	return servers
}

// dependencies are the servers that this process has checks for.
func (b *builder) dependencies() (all []outage.Dependency) {
	_, postgres := b.config.postgres().Address()
	addresses := map[string][]string{"kafka": b.cluster.Brokers, "redis": b.redis.Addrs, "postgres": postgres}
	servers := b.serverChecks()
	for _, c := range b.checks {
		name := servers[c.name]
		known, ok := addresses[name]
		if !ok {
			continue
		}
		delete(addresses, name) // one check asks for all
		all = append(all, outage.Dependency{Name: name, Addresses: known, Probe: c.ready})
	}
	return all
}
