package virtual

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
)

// Three pipelines use one Redis, one after the other: another prefix of the topics, another
// database. No key and no channel is used by two of them. Each serves the same users.
func TestNoKeyAndNoChannelOfRedisIsUsedByTwoPipelines(t *testing.T) {
	long(t)
	inWorld(t, size{partitions: 2}, func(w *world) {
		pipelines := []struct {
			name   string
			change func(*app.Config)
		}{
			{"the first", func(*app.Config) {}},
			{"of other topics", func(c *app.Config) { c.Kafka.Prefix = "eu.presence." }},
			{"of topics without a dot", func(c *app.Config) { c.Kafka.Prefix = "presence" }},
			{"of another database", func(c *app.Config) { c.Kafka.Prefix, c.Redis.DB = "us.", 1; c.Redis.Prefix = "presence:" }},
		}
		used := map[string]string{} // name → pipeline
		for i, of := range pipelines {
			config := w.config
			of.change(&config)
			named := namesUsed{names: map[string]bool{}, faults: map[string]bool{}, database: config.Redis.DB}
			must.Get(admin.ApplyTopics(w.Context(), clusterOf(config), 2, 1))(w)
			w.redis.Server().Server().SetPreHook(named.hook)
			store := w.TempDir() + "/" + strconv.Itoa(i) + ".db"
			p := w.start("all", "all", func(c *app.Config) {
				of.change(c)
				c.Store.SQLite = store
			})
			viewer := w.connect(p.base, 7, 1, "web")
			viewer.say(`{"type":"subscribe","user_ids":["1","2"]}`)
			for user := 1; user <= 20; user++ {
				w.ask("POST", p.base+"/presence/heartbeats", map[string]any{"beats": []map[string]any{{"user_id": user, "device_id": 1}}})
			}
			time.Sleep(5 * time.Second)
			w.ask("GET", p.base+"/presence/batch?user_ids=1,2,3", nil)
			viewer.leave()
			time.Sleep(3 * time.Minute)
			p.stop()
			w.redis.Server().Server().SetPreHook(nil)
			named.mu.Lock()
			if len(named.names) < 20 {
				w.Errorf("%s: only %d names were seen", of.name, len(named.names))
			}
			for fault := range named.faults {
				w.Errorf("%s: %s", of.name, fault)
			}
			for name := range named.names {
				if other := used[name]; other != "" {
					w.Errorf("%s is used by the pipeline %s and by the one %s", name, other, of.name)
				}
				used[name] = of.name
			}
			named.mu.Unlock()
		}
	})
}

// namesUsed collects the keys and channels of commands.
type namesUsed struct {
	mu            sync.Mutex
	names, faults map[string]bool
	database      int
}

func (n *namesUsed) hook(_ *server.Peer, command string, arguments ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var keys []string
	channels := false
	switch command = strings.ToUpper(command); command {
	case "PING", "HELLO", "CLIENT", "INFO", "CONFIG", "SCRIPT", "AUTH", "SELECT", "MULTI", "EXEC", "COMMAND", "TIME", "ROLE", "QUIT", "CLUSTER":
		return false
	case "EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO":
		count, err := strconv.Atoi(arguments[1])
		if err != nil || count == 0 {
			n.faults[command+" without keys"] = true
			return false
		}
		keys = arguments[2 : 2+count]
	case "SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE":
		keys, channels = arguments, true
	case "PUBLISH", "SPUBLISH":
		keys, channels = arguments[:1], true
	case "MGET", "DEL", "UNLINK", "EXISTS", "TOUCH", "WATCH":
		keys = arguments
	case "MSET":
		for i := 0; i < len(arguments); i += 2 {
			keys = append(keys, arguments[i])
		}
	case "GET", "GETRANGE", "SET", "SETNX", "GETEX", "EXPIRE", "PEXPIRE", "TTL", "PTTL", "INCR", "HSET", "HGET", "HGETALL", "HMGET", "HDEL", "SADD", "SPOP", "SMEMBERS", "SREM", "ZADD", "ZRANGE":
		keys = arguments[:1]
	default:
		n.faults[fmt.Sprintf("it is not known which names %s %q has", command, arguments)] = true
	}
	for _, key := range keys {
		if channels {
			n.names["channel "+key] = true // of all databases
		} else {
			n.names[fmt.Sprintf("key %s of database %d", key, n.database)] = true
		}
	}
	return false
}
