package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/internal/delivery"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/lastseen/redisview"
)

// channelCommand brings what followers are told to where they are told it.
type channelCommand struct {
	Log     channelLog     `cmd:"" help:"Print who is told what, a line of JSON for each change and up to 1,000 recipients."`
	Live    channelLive    `cmd:"" help:"Tell those who are connected: followers whose socket asked for deliveries, over Redis, on whichever node they are."`
	Webhook channelWebhook `cmd:"" help:"Post who is told what to a URL, signed, as CloudEvents."`
}

// shownFlags say what may be told of a hidden user. They are those of the fanout.
type shownFlags struct {
	ShownAs string `help:"What others see of a user who hides: ${enum}; offline: a user who went offline when it hid. As for the role fanout." enum:"null,offline" default:"null" group:"Followers:"`
}

// sightFlags say who may be told. They are those of the processes that answer reads.
type sightFlags struct {
	MayWatch string `help:"Who may be told of a user: ${enum}; followers: who still follows it when it is told, by the graph. As for the processes that answer reads." enum:"everyone,followers" default:"everyone" group:"Followers:"`
	SQLite   string `name:"sqlite" help:"File of the graph in place of Postgres, such as stillhere-data/graph.db of dev; for --may-watch followers." type:"path" group:"Followers:"`
	shownFlags
	postgresFlags
}

// apply carries the flags into run.
func (f sightFlags) apply(run *app.ChannelRun) error {
	run.MayWatch, run.Config.HiddenOffline = f.MayWatch, f.ShownAs == "offline"
	if f.MayWatch != app.WatchFollowers {
		return nil
	}
	run.Graph, run.Postgres = app.Store{Postgres: f.Postgres, SQLite: f.SQLite}, f.postgres()
	if f.Postgres == "" && f.SQLite == "" {
		return misused(errors.New("--may-watch followers: needs the follower graph; say --postgres or --sqlite"))
	}
	if f.SQLite != "" {
		if _, err := os.Stat(f.SQLite); err != nil {
			return misused(fmt.Errorf("--sqlite: %w", err))
		}
	}
	return nil
}

// channelLog prints.
type channelLog struct {
	kafkaFlags
	sightFlags
	New bool `help:"Leave out what was told before now." env:"-"`
	logFlags
}

// Run prints until ctx ends.
func (c *channelLog) Run(ctx context.Context) error {
	kafka, err := c.config()
	if err != nil {
		return err
	}
	run := app.ChannelRun{Name: "log", Kafka: kafka, Config: delivery.Defaults(), Channel: channel.NewLog(os.Stdout), FromStart: !c.New, Alone: true}
	if err := c.apply(&run); err != nil {
		return err
	}
	return app.RunChannel(ctx, run, c.logger())
}

// channelLive tells by the sockets of the live stream.
type channelLive struct {
	Instance string        `help:"Stable name of this process, of no other process of the channel; the machine's name when left out." group:"Channel:"`
	Rate     float64       `help:"Deliveries, of up to 1,000 recipients each, a second at most; 0: no bound." default:"0" group:"Channel:"`
	MaxAge   time.Duration `help:"Leave out what followers were to be told longer ago than this, as after the channel was away; 0: nothing." default:"1m" group:"Channel:"`
	Admin    string        `help:"Where health and metrics are, host:port; empty: nowhere." default:"" group:"Channel:"`
	adminFlags
	kafkaFlags
	redisFlags
	shownFlags
	logFlags
}

// Run tells until ctx ends.
func (c *channelLive) Run(ctx context.Context) error {
	kafka, faults := c.config()
	redis, err := c.redis()
	if err := errors.Join(faults, err); err != nil {
		return err
	}
	log := c.logger()
	redisview.LogTo(log)
	run := app.ChannelRun{Name: "live", Instance: c.Instance, Kafka: kafka, Config: delivery.Defaults(), Admin: c.Admin,
		AdminPort: c.admin(), AllowedHosts: c.AllowedHosts}
	if run.Instance == "" {
		run.Instance = app.Defaults().Instance
	}
	run.Config.Rate, run.Config.MaxAge, run.Config.HiddenOffline = c.Rate, c.MaxAge, c.ShownAs == "offline"
	return app.RunLiveChannel(ctx, run, redis, log)
}

// channelWebhook posts.
type channelWebhook struct {
	URL         string        `name:"url" help:"Where to post to, http:// or https://." required:"" group:"Webhook:" secret:"url"`
	LinkLocal   bool          `name:"allow-link-local" help:"Post to link-local addresses and those of clouds' metadata services too, which are refused otherwise, also where a name leads to one." group:"Webhook:"`
	Secret      string        `help:"Key of the signature, of at least 32 bytes; better in STILLHERE_SECRET or a file. Without it nothing is signed, and a warning says so." group:"Webhook:" secret:"" xor:"secret"`
	SecretFile  string        `help:"File with the key." group:"Webhook:" type:"path" xor:"secret"`
	Source      string        `help:"The CloudEvents source." default:"/stillhere" group:"Webhook:"`
	Name        string        `help:"Name of the channel, for its place in the topic and its metrics; one for each URL." default:"webhook" group:"Channel:"`
	Instance    string        `help:"Stable name of this process, of no other process of the channel; the machine's name when left out." group:"Channel:"`
	FromStart   bool          `help:"Begin a new channel with what is kept of the last day, not with now." group:"Channel:"`
	Attempts    int           `help:"How often a delivery is tried before it goes to the dead letter topic." default:"8" group:"Channel:"`
	FirstWait   time.Duration `help:"Pause before the second try; it doubles, with jitter." default:"200ms" group:"Channel:"`
	MaxWait     time.Duration `help:"The longest pause between two tries, also where the receiver asks for a longer one by Retry-After." default:"30s" group:"Channel:"`
	Timeout     time.Duration `help:"The longest a try may take." default:"10s" group:"Channel:"`
	Concurrency int           `help:"Deliveries under way at the same time, in each partition, besides as many that are tried again or take longer than a second." default:"8" group:"Channel:"`
	Queue       int           `help:"Deliveries of a partition in hand: under way, or waiting for another of the same user or for the next try. When it is full the partition is not read on." default:"1000" group:"Channel:"`
	Rate        float64       `help:"Deliveries a second at most; 0: no bound." default:"0" group:"Channel:"`
	MaxAge      time.Duration `help:"Leave out what followers were to be told longer ago than this, as after the channel was away; 0: nothing." default:"0s" group:"Channel:"`
	Remember    int           `help:"Of how many pairs of recipient and user it is known what was told last, 60 bytes each, so that nobody is told twice." default:"1000000" group:"Channel:"`
	Admin       string        `help:"Where health and metrics are, host:port; empty: nowhere." default:"" group:"Channel:"`
	adminFlags
	kafkaFlags
	sightFlags
	logFlags
}

// Run posts until ctx ends.
func (c *channelWebhook) Run(ctx context.Context) error {
	kafka, err := c.config()
	if err != nil {
		return err
	}
	secret, err := keys.Secret{Value: c.Secret, File: c.SecretFile}.Read()
	if err != nil {
		return fmt.Errorf("--secret-file: %w", err)
	}
	log := c.logger()
	hook, err := channel.NewWebhook(channel.WebhookConfig{URL: c.URL, Source: c.Source, Secret: []byte(secret), LinkLocal: c.LinkLocal}, log)
	if err != nil {
		return misused(err)
	}
	config := delivery.Defaults()
	config.Attempts, config.FirstWait, config.MaxWait, config.Timeout = c.Attempts, c.FirstWait, c.MaxWait, c.Timeout
	config.Concurrency, config.Queue, config.Rate, config.MaxAge, config.Remember = c.Concurrency, c.Queue, c.Rate, c.MaxAge, c.Remember
	instance := c.Instance
	if instance == "" {
		instance = app.Defaults().Instance
	}
	run := app.ChannelRun{Name: c.Name, Instance: instance, Kafka: kafka, Config: config, Channel: hook,
		FromStart: c.FromStart, Admin: c.Admin, AdminPort: c.admin(), AllowedHosts: c.AllowedHosts}
	if err := c.apply(&run); err != nil {
		return err
	}
	return app.RunChannel(ctx, run, log)
}
