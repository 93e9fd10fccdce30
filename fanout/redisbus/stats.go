package redisbus

import "github.com/redis/go-redis/v9"

// PoolStats tells what the connections to Redis are doing, but for the
// subscribing one.
func (b *Bus) PoolStats() redis.PoolStats { return *b.client.PoolStats() }
