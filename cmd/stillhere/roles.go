package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/console"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// pipelineFlags are the settings that every way to run the pipeline has.
type pipelineFlags struct {
	HTTP app.HTTP `embed:"" group:"HTTP server:"`
	Auth app.Auth `embed:"" group:"Authentication:"`
	policyFlag
	SeenInterval  time.Duration `help:"How often the newest heartbeat of a present user is published for last_seen_at and the list of devices; 0: never. For the roles detector, all and dev." default:"1m" group:"Last seen:"`
	MinLogEpoch   uint32        `help:"The least log epoch that a detector begins whose group was deleted, after Kafka was restored from a copy older than the stores: their ALARM line names it. For the roles detector, all and dev." default:"1" group:"Restored Kafka:"`
	FollowersOf   string        `name:"followers" help:"Users whose followers receive changes: ${enum}. listed: users on the list (graph list). For the roles fanout, all and dev. Costs: per change, at most once per user and --fanout-gap, one read of the user's followers and one record of presence.deliveries per 1,000 recipients (100 bytes and 2 to 5 per recipient), which every channel reads; two more consumer groups. Example: 1,000,000 users with 20 changes a day and 200 followers, 30% of them online: 230 records, 14,000 recipients and 52 kB per second." enum:"off,listed,all" default:"${followers}" group:"Followers:"`
	GraphTopic    bool          `help:"Apply the topic presence.graph to the follower graph, for a graph whose source is elsewhere. One more consumer group. For the roles fanout, all and dev." default:"${graph_topic}" group:"Followers:"`
	followerFlags `group:"Followers:"`
	storeFlags    `group:"Retention:"`
	topicFlags    `group:"Retention:"`
}

func (f *pipelineFlags) config() app.Config {
	c := app.Defaults()
	c.Version, c.Commit = version, commit
	c.HTTP, c.Auth, c.Policy, c.PolicyAsked = f.HTTP, f.Auth, f.settings(), f.Asked.Names
	c.Expand, c.MayWatch, c.MayReadHistory = f.expand(f.FollowersOf), f.MayWatch, f.MayReadHistory
	c.SeenInterval, c.MinLogEpoch = f.SeenInterval, f.MinLogEpoch
	c.HiddenOffline, c.GraphTopic = f.ShownAs == "offline", f.GraphTopic
	c.Retention, c.Lastseen.AuditRetention, c.Lastseen.RedisRetention = f.TopicRetention.asked, f.AuditRetention, f.RedisRetention
	return c
}

// roleCommand runs a role on real servers.
type roleCommand struct {
	Instance string `help:"Stable name of this process: unique within the role, the same after a restart. Default: the host name." group:"Process:"`
	kafkaFlags
	registryFlags
	Redis         app.Redis `embed:"" group:"Redis:"`
	postgresFlags `group:"Postgres:"`
	pipelineFlags
	logFlags
}

// Run runs the role until ctx ends.
func (c *roleCommand) Run(ctx context.Context, name role, parsed *kong.Context, args givenArguments) error {
	config := c.config()
	config.Console = console.For(string(name))
	if err := c.check(name); err != nil {
		return err
	}
	reloads := newReloader(args, string(name), parsed, c)
	config.Reload = reloads.run
	log := c.loggerAt(&reloads.level)
	redisview.LogTo(log)
	return app.Run(ctx, string(name), config, log, func() { log.Info("ready", "role", string(name), "instance", config.Instance) })
}

// check reports everything that is wrong with the settings.
func (c *roleCommand) check(name role) error { return app.Check(string(name), c.config()) }

func (c *roleCommand) config() app.Config {
	config := c.pipelineFlags.config()
	config.Instance, config.TenantQuotas = instanceOf(c.Instance), schemas.DefaultQuotas
	config.Kafka, config.SchemaRegistry, config.Redis, config.Postgres = c.Kafka, c.SchemaRegistry, c.Redis, c.postgres()
	config.Store.Postgres, config.Graph.Postgres = c.Postgres, c.Postgres
	return config
}

// devCommand runs everything in one process.
type devCommand struct {
	DataDir     string `help:"Directory that keeps the data across restarts." default:"stillhere-data" type:"path" group:"Process:"`
	KafkaListen string `help:"Listen address for your own Kafka clients, host:port, without a password; port 0 takes a free port. Default: a free port of the loopback, with the password in kafka-password in the data directory." group:"Process:"`
	Partitions  int32  `help:"Partitions of new topics." default:"4" group:"Process:"`
	Users       int    `help:"Number of users to simulate; see stillhere load." default:"0" group:"Process:"`

	IDs             string `name:"ids" help:"How callers name users: ${enum}. int: positive 64-bit integers. text: names, also UUIDs, within tenants. The data directory keeps what it began with." enum:"int,text" default:"int" group:"Process:"`
	IdentityKey     string `name:"identity-key" secret:"" hidden:"" group:"Process:"`
	IdentityKeyFile string `name:"identity-key-file" help:"With --ids text: file with the key of which ids are computed, 32 hexadecimal digits. Or set STILLHERE_IDENTITY_KEY. Default: identity.key in the data directory, created if it is missing." type:"path" group:"Process:"`
	FrameKeys       string `name:"frame-keys" help:"File with the masters of the keys that sign heartbeats, one a line (stillhere keys master). Default: with authentication frame.keys in the data directory, created if it is missing; without, heartbeats are not signed. A client of --kafka-listen that writes signed heartbeats needs a key (stillhere keys gateway)." type:"path" group:"Process:"`

	Redis string `help:"External Redis to use instead of the embedded one, host:port." env:"-" group:"Process:"`
	registryFlags
	pipelineFlags
	DevLogLevel string `name:"log-level" help:"What to log on standard error: ${enum}." enum:"debug,info,warn,error" default:"warn" group:"Logs:"`
}

// Run runs until ctx ends.
func (c *devCommand) Run(ctx context.Context) error {
	logs := logFlags{LogFormat: "text"}
	if err := logs.LogLevel.UnmarshalText([]byte(c.DevLogLevel)); err != nil {
		return err
	}
	config := c.config()
	config.Console = console.For("dev")
	config.Instance, config.SchemaRegistry = "dev", c.SchemaRegistry
	dev := app.Dev{Config: config, DataDir: c.DataDir, KafkaListen: c.KafkaListen, RedisAddr: c.Redis,
		Partitions: c.Partitions}
	dev.Kafka.IDs, dev.Kafka.IdentityKey, dev.Kafka.IdentityKeyFile, dev.Kafka.FrameKeys = c.IDs, c.IdentityKey, c.IdentityKeyFile, c.FrameKeys
	play, err := c.generateLoad(logs.logger())
	if err != nil {
		return err
	}
	redisview.LogTo(logs.logger())
	var playing sync.WaitGroup
	defer playing.Wait()
	return app.RunDev(ctx, dev, logs.logger(), func(at app.DevAddresses) {
		c.greet(at)
		playing.Go(func() { play(ctx, at.HTTP) })
	})
}

// called is how this program was called, so that what is printed can be pasted.
func called(name string) string {
	if strings.Contains(filepath.ToSlash(name), "/go-build") { // where "go run" puts it
		return "go run ./cmd/stillhere"
	}
	return name
}

// migrateCommand brings the Postgres schema up to date.
type migrateCommand struct {
	postgresFlags `group:"Postgres:"`
}

// Run migrates.
func (c *migrateCommand) Run(ctx context.Context) error {
	config := c.postgres()
	if config.URL == "" {
		return misused(errors.New("--postgres: a URL is needed, e.g. --postgres postgres://user@localhost:5432/stillhere"))
	}
	if err := app.Migrate(ctx, config); err != nil {
		return err
	}
	fmt.Println("the Postgres schema is up to date")
	return nil
}
