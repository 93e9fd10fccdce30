package main

import (
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
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

// roleCommand runs a role on real servers.
type roleCommand struct {
	Instance string `help:"Stable name of this process: unique within the role, the same after a restart. Default: the host name." group:"Process:"`
	kafkaFlags
	registryFlags
	storeFlags
	listenFlags
	webFlags
	authFlags
	policyFlags
	FollowersOf string `name:"followers" help:"Users whose followers receive changes: ${enum}. listed: users on the list (graph list). For the roles fanout and all." enum:"off,listed,all" default:"off" group:"Followers:"`
	followerFlags
	logFlags
}

// Run runs the role until ctx ends.
func (c *roleCommand) Run(ctx context.Context, name role, parsed *kong.Context, file *configFile) error {
	config, err := c.config()
	config.PolicyAsked = c.asked(parsed, file)
	if err := errors.Join(err, app.Check(string(name), config)); err != nil {
		return err
	}
	log := c.logger()
	redisview.LogTo(log)
	return app.Run(ctx, string(name), config, log, func() { log.Info("ready", "role", string(name), "instance", config.Instance) })
}

func (c *roleCommand) config() (app.Config, error) {
	config := app.Defaults()
	if c.Instance != "" {
		config.Instance = c.Instance
	}
	var cluster, redis error
	config.Kafka, cluster = c.kafkaFlags.config()
	config.Redis, redis = c.redis()
	config.Version, config.SchemaRegistry = version, c.SchemaRegistry
	config.Store = app.Store{Postgres: c.Postgres}
	config.Postgres = c.postgres()
	config.Listen, config.Admin, config.AllowUnauthenticated = c.Listen, c.Admin, c.AllowUnauthenticated
	config.AdminPort, config.AllowedHosts = c.admin(), c.AllowedHosts
	c.apply(&config)
	config.Auth = c.auth()
	config.Policy = c.settings()
	config.Expand, config.MayWatch, config.MayReadHistory = c.expand(c.FollowersOf), c.MayWatch, c.MayReadHistory
	config.HiddenOffline = c.ShownAs == "offline"
	config.Graph = app.Store{Postgres: c.Postgres}
	return config, errors.Join(cluster, redis)
}

// devCommand runs everything in one process.
type devCommand struct {
	DataDir     string `help:"Directory that keeps the data across restarts." default:"stillhere-data" type:"path" group:"Process:"`
	KafkaListen string `help:"Listen address for other Kafka clients, host:port; port 0 takes a free port." default:"127.0.0.1:0" group:"Process:"`
	Partitions  int32  `help:"Partitions of new topics." default:"4" group:"Process:"`
	Users       int    `help:"Number of users to simulate; see stillhere load." default:"0" group:"Process:"`

	AcceptDataLoss bool `help:"Start although files in the data directory are damaged, with the data that is intact; damaged files are renamed to end in .damaged." env:"-" group:"Process:"`

	Redis string `help:"External Redis to use instead of the embedded one, host:port." env:"-" group:"Process:"`

	Listen               string `help:"Listen address for clients, host:port." default:"127.0.0.1:8080" group:"HTTP server:"`
	Admin                string `help:"Listen address for health and metrics, host:port; empty: none." default:"" group:"HTTP server:"`
	AllowUnauthenticated bool   `help:"Listen on non-loopback addresses without authentication." group:"HTTP server:"`
	adminFlags
	registryFlags
	webFlags
	authFlags
	policyFlags
	FollowersOf string `name:"followers" help:"Users whose followers receive changes: ${enum}. listed: users on the list (graph list)." enum:"off,listed,all" default:"all" group:"Followers:"`
	followerFlags
	DevLogLevel string `name:"log-level" help:"What to log on standard error: ${enum}." enum:"debug,info,warn,error" default:"warn" group:"Logs:"`
}

// Run runs until ctx ends.
func (c *devCommand) Run(ctx context.Context, parsed *kong.Context, file *configFile) error {
	logs := logFlags{LogFormat: "text"}
	if err := logs.LogLevel.UnmarshalText([]byte(c.DevLogLevel)); err != nil {
		return err
	}
	config := app.Defaults()
	config.Instance, config.Version, config.SchemaRegistry = "dev", version, c.SchemaRegistry
	config.Listen, config.Admin, config.AllowUnauthenticated = c.Listen, c.Admin, c.AllowUnauthenticated
	config.AdminPort, config.AllowedHosts = c.admin(), c.AllowedHosts
	c.apply(&config)
	config.Auth = c.auth()
	config.Policy, config.PolicyAsked = c.settings(), c.asked(parsed, file)
	config.Expand, config.MayWatch, config.MayReadHistory = c.expand(c.FollowersOf), c.MayWatch, c.MayReadHistory
	config.HiddenOffline = c.ShownAs == "offline"
	dev := app.Dev{Config: config, DataDir: c.DataDir, KafkaListen: c.KafkaListen, RedisAddr: c.Redis, Partitions: c.Partitions, AcceptDataLoss: c.AcceptDataLoss}
	play, err := c.generateLoad(config.Policy.HeartbeatInterval, logs.logger())
	if err != nil {
		return err
	}
	redisview.LogTo(logs.logger())
	var playing sync.WaitGroup
	defer playing.Wait()
	return app.RunDev(ctx, dev, logs.logger(), func(cluster string) {
		c.greet(cluster)
		playing.Go(func() { play(ctx) })
	})
}

// greet says where to look and what to try.
func (c *devCommand) greet(brokers string) {
	url, self := "http://"+c.Listen, called(os.Args[0])
	sight := ""
	if c.MayWatch == app.WatchFollowers {
		sight = " --may-watch followers --sqlite " + filepath.Join(c.DataDir, app.GraphFile)
	}
	fmt.Printf(`ready %s

  see who is online         open %s in a browser
  send a beat of user 1     curl -d '{"beats":[{"user_id":"1","device_id":7,"device_kind":"mobile"}]}' %s/presence/heartbeats
  read the presence         curl '%s/presence/batch?user_ids=1,2,3'
  watch it change           %s watch 1 2 3 --url %s
                            (or any WebSocket client: ws://%s/presence/stream, send {"type":"subscribe","user_ids":["1"]})

  read every change         %s replay --kafka-brokers %s
  notify followers          %s graph add 1 2 3 --sqlite %s      (2 and 3 follow 1)
                            %s channel log --kafka-brokers %s%s

  Kafka listens at %s; the data is in %s; Ctrl-C stops.
`, url, url, url, url, self, url, c.Listen, self, brokers, self, filepath.Join(c.DataDir, app.GraphFile), self, brokers, sight, brokers, c.DataDir)
}

// called is how this program was called, so that what is printed can be pasted.
func called(name string) string {
	if strings.Contains(filepath.ToSlash(name), "/go-build") { // where "go run" puts it
		return "go run ./cmd/stillhere"
	}
	return name
}

// topicsCommand creates and checks the topics.
type topicsCommand struct {
	Apply topicsApply `cmd:"" help:"Create missing topics and check the others."`
	Check topicsCheck `cmd:"" help:"Check that the topics are configured correctly."`
	ACLs  topicsACLs  `cmd:"" name:"acls" help:"Print or apply the ACLs that a role needs, on brokers that have an authorizer."`

	Register topicsRegister `cmd:"" help:"Register the message schemas of the topics with a Schema Registry."`
}

type topicsApply struct {
	kafkaFlags
	Partitions  int32 `help:"Partitions of new topics. You cannot change the number later: users would move to other partitions." default:"64"`
	Replication int16 `help:"Replicas of each partition; -1: the cluster's default." default:"-1"`
}

// Validate is called by the parser.
func (c *topicsApply) Validate() error {
	if c.Partitions < 1 {
		return fmt.Errorf("--partitions: must be at least 1, is %d", c.Partitions)
	}
	if c.Replication != -1 && c.Replication < 1 {
		return fmt.Errorf("--replication: must be at least 1, or -1, is %d", c.Replication)
	}
	return nil
}

// setUpTimeout bounds commands that only talk to Kafka for a moment.
const setUpTimeout = 30 * time.Second

// Run creates and checks.
func (c *topicsApply) Run(ctx context.Context) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	reports, err := admin.ApplyTopics(ctx, config, c.Partitions, c.Replication)
	for _, r := range reports {
		what := "is there"
		if r.Created {
			what = "created"
		}
		fmt.Printf("%-28s %3d partitions  %s\n", r.Name, r.Partitions, what)
		for _, tuned := range r.Tuned {
			fmt.Printf("%-28s %s\n", "", tuned)
		}
	}
	return err
}

type topicsCheck struct{ kafkaFlags }

// Run checks.
func (c *topicsCheck) Run(ctx context.Context) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	partitions, err := admin.CheckTopics(ctx, config)
	if err == nil {
		fmt.Printf("all topics are configured correctly; users are spread over %d partitions\n", partitions)
	}
	return err
}

// migrateCommand brings the Postgres schema up to date.
type migrateCommand struct{ postgresFlags }

// Run migrates.
func (c *migrateCommand) Run(ctx context.Context) error {
	config := c.postgres()
	if config.URL == "" {
		return errors.New("postgres: a URL is needed, e.g. --postgres postgres://user@localhost:5432/stillhere")
	}
	if err := app.Migrate(ctx, config); err != nil {
		return err
	}
	fmt.Println("the Postgres schema is up to date")
	return nil
}
