package redisview

import "github.com/redis/go-redis/v9"

// PoolStats tells what the connections to Redis are doing.
func (v *View) PoolStats() redis.PoolStats { return *v.client.PoolStats() }
