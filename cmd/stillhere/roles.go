package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/tools/console"
)

// pipelineFlags are the settings that every way to run the pipeline has.
type pipelineFlags struct {
	HTTP          app.HTTP `embed:"" group:"HTTP server:"`
	Auth          app.Auth `embed:"" group:"Authentication:"`
	policyFlags   `group:"Policy:"`
	SeenInterval  time.Duration `help:"How often the newest heartbeat of a present user is published for last_seen_at and the list of devices; 0: never. For the roles detector, all and dev." default:"1m" group:"Last seen:"`
	FollowersOf   string        `name:"followers" help:"Users whose followers receive changes: ${enum}. listed: users on the list (graph list). For the roles fanout, all and dev. Costs: per change, at most once per user and --fanout-gap, one read of the user's followers and one record of presence.deliveries per 1,000 recipients (100 bytes and 2 to 5 per recipient), which every channel reads; two more consumer groups. Example: 1,000,000 users with 20 changes a day and 200 followers, 30% of them online: 230 records, 14,000 recipients and 52 kB per second." enum:"off,listed,all" default:"${followers}" group:"Followers:"`
	GraphTopic    bool          `help:"Apply the topic presence.graph to the follower graph, for a graph whose source is elsewhere. One more consumer group. For the roles fanout, all and dev." default:"${graph_topic}" group:"Followers:"`
	followerFlags `group:"Followers:"`
	storeFlags    `group:"Retention:"`
	topicFlags    `group:"Retention:"`
}

func (f *pipelineFlags) config() app.Config {
	c := app.Defaults()
	c.Version, c.Commit = version, commit
	c.HTTP, c.Auth, c.Policy = f.HTTP, f.Auth, f.settings()
	c.Expand, c.MayWatch, c.MayReadHistory = f.expand(f.FollowersOf), f.MayWatch, f.MayReadHistory
	c.SeenInterval = f.SeenInterval
	c.HiddenOffline, c.LiveDeliveries, c.GraphTopic = f.ShownAs == "offline", f.LiveDeliveries, f.GraphTopic
	c.Retention, c.Lastseen.AuditRetention, c.Lastseen.RedisRetention = f.retention(), f.AuditRetention, f.RedisRetention
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
func (c *roleCommand) Run(ctx context.Context, name role, parsed *kong.Context, file *configFile, args givenArguments) error {
	config := c.config()
	config.PolicyAsked = c.asked(parsed, file)
	config.Console = console.For(string(name))
	if err := app.Check(string(name), config); err != nil {
		return err
	}
	reloads := newReloader(args, string(name), parsed, c)
	config.Reload = reloads.run
	log := c.loggerAt(&reloads.level)
	redisview.LogTo(log)
	return app.Run(ctx, string(name), config, log, func() { log.Info("ready", "role", string(name), "instance", config.Instance) })
}

func (c *roleCommand) config() app.Config {
	config := c.pipelineFlags.config()
	config.Instance = instanceOf(c.Instance)
	config.Kafka, config.SchemaRegistry, config.Redis, config.Postgres = c.Kafka, c.SchemaRegistry, c.Redis, c.postgres()
	config.Store.Postgres, config.Graph.Postgres = c.Postgres, c.Postgres
	return config
}

// devCommand runs everything in one process.
type devCommand struct {
	DataDir     string `help:"Directory that keeps the data across restarts." default:"stillhere-data" type:"path" group:"Process:"`
	KafkaListen string `help:"Listen address for other Kafka clients, host:port; port 0 takes a free port." default:"127.0.0.1:0" group:"Process:"`
	Partitions  int32  `help:"Partitions of new topics." default:"4" group:"Process:"`
	Users       int    `help:"Number of users to simulate; see stillhere load." default:"0" group:"Process:"`

	IDs             string `name:"ids" help:"How callers name users: ${enum}. int: positive 64-bit integers. text: names, also UUIDs, within tenants. The data directory keeps what it began with." enum:"int,text" default:"int" group:"Process:"`
	IdentityKey     string `name:"identity-key" help:"With --ids text: the key of which ids are computed, 32 hexadecimal digits; better set in STILLHERE_IDENTITY_KEY or a file." secret:"" group:"Process:"`
	IdentityKeyFile string `name:"identity-key-file" help:"With --ids text: file with the identity key. Default: identity.key in the data directory, created if it is missing." type:"path" group:"Process:"`

	Redis string `help:"External Redis to use instead of the embedded one, host:port." env:"-" group:"Process:"`
	registryFlags
	pipelineFlags
	DevLogLevel string `name:"log-level" help:"What to log on standard error: ${enum}." enum:"debug,info,warn,error" default:"warn" group:"Logs:"`
}

// Run runs until ctx ends.
func (c *devCommand) Run(ctx context.Context, parsed *kong.Context, file *configFile) error {
	logs := logFlags{LogFormat: "text"}
	if err := logs.LogLevel.UnmarshalText([]byte(c.DevLogLevel)); err != nil {
		return err
	}
	config := c.config()
	config.Console = console.For("dev")
	config.Instance, config.SchemaRegistry, config.PolicyAsked = "dev", c.SchemaRegistry, c.asked(parsed, file)
	dev := app.Dev{Config: config, DataDir: c.DataDir, KafkaListen: c.KafkaListen, RedisAddr: c.Redis,
		Partitions: c.Partitions}
	dev.Kafka.IDs, dev.Kafka.IdentityKey, dev.Kafka.IdentityKeyFile = c.IDs, c.IdentityKey, c.IdentityKeyFile
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

// greet says where to look and what to try.
func (c *devCommand) greet(at app.DevAddresses) {
	brokers, url, self := at.Kafka, "http://"+at.HTTP, called(os.Args[0])
	try := tried{beat: "user 1    ", user: `"1"`, device: "7", batch: "user_ids=1,2,3", watch: "1 2 3", follow: "1/followers/2      (2 follows 1)"}
	if c.IDs == string(identity.Text) {
		try = tried{beat: "ann       ", user: `"ann"`, device: `"phone"`, batch: "user_ids=ann&user_ids=bob", watch: "ann bob --ids text",
			follow: "users/ann/followers/bob      (bob follows ann)"}
		try.kafka = " --ids text --identity-key-file " + cmp.Or(c.IdentityKeyFile, filepath.Join(c.DataDir, app.IdentityFile))
		if c.IdentityKey != "" {
			try.kafka = " --ids text" // the key is in the environment
		}
	}
	sight := ""
	if c.MayWatch == app.WatchFollowers {
		sight = " --may-watch followers --sqlite " + filepath.Join(c.DataDir, app.GraphFile)
	}
	fmt.Printf(`ready %s

  see who is online         open %s/console/ in a browser
  send a beat of %s curl -d '{"beats":[{"user_id":%s,"device_id":%s,"device_kind":"mobile"}]}' %s/presence/heartbeats
  read the presence         curl '%s/presence/batch?%s'
  watch it change           %s watch %s --url %s
                            (or any WebSocket client: ws://%s/presence/stream, send {"type":"subscribe","user_ids":[%s]})

  read every change         %s replay --kafka-brokers %s%s
  notify followers          curl -X PUT %s/presence/%s
                            %s channel log --kafka-brokers %s%s%s

`, url, url, try.beat, try.user, try.device, url, url, try.batch, self, try.watch, url, at.HTTP, try.user,
		self, brokers, try.kafka, url, try.follow, self, brokers, try.kafka, sight)
	if try.kafka != "" {
		fmt.Printf(`  Users have names, within tenants: ?tenant=acme after any address above names users of acme.
  Ids of users are computed under a key. Programs that ask Kafka need it:%s
  (another key: dev --data-dir NEW --ids text --identity-key-file FILE; stillhere identity new-key makes one).

`, try.kafka)
	}
	fmt.Printf("  Kafka listens at %s; the data is in %s; Ctrl-C stops.\n", brokers, c.DataDir)
}

// tried is what greet says of users.
type tried struct{ beat, user, device, batch, watch, follow, kafka string }

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
