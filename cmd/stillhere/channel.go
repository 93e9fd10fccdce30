package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/internal/keys"
)

// channelCommand delivers changes.
type channelCommand struct {
	Log     channelLog     `cmd:"" help:"Print deliveries, one line of JSON per change and up to 1,000 recipients, or all transitions."`
	Webhook channelWebhook `cmd:"" help:"Post deliveries, or all transitions, to a URL as signed CloudEvents."`
}

// shownFlags say how a hidden user appears to others. They must match those of the fanout.
type shownFlags struct {
	ShownAs string `help:"How a hidden user appears to others: ${enum}. offline: as a user who went offline when it hid. Must match the role fanout." enum:"null,offline" default:"null"`
}

// tenantFlags say whose changes are sent.
type tenantFlags struct {
	Tenant       []string `name:"tenant" help:"With --ids text: send only changes of users of these tenants. A channel of its own for a tenant (--name) has its own offsets, tries and rate, so no other tenant's receiver delays it." placeholder:"acme,..." group:"Channel:"`
	ExceptTenant []string `name:"except-tenant" help:"With --ids text: send changes of users of all tenants but these, such as those that have channels of their own." placeholder:"acme,..." group:"Channel:"`
}

// apply carries the flags into run.
func (f tenantFlags) apply(run *app.ChannelRun) {
	run.Tenants, run.ExceptTenants = f.Tenant, f.ExceptTenant
}

// accessFlags say what is sent, and who may receive it. They must match those of the role api.
type accessFlags struct {
	Of            string `help:"What to send: ${enum}. deliveries: changes with the followers to notify. transitions: every change of every user; of users who hide only that they do." enum:"deliveries,transitions" default:"deliveries" group:"Channel:"`
	MayWatch      string `help:"Who may receive deliveries about a user: ${enum}. followers: those who still follow the user at delivery time. Must match the role api." enum:"everyone,followers" default:"everyone" group:"Followers:"`
	SQLite        string `name:"sqlite" help:"SQLite file of the follower graph instead of Postgres, such as stillhere-data/graph.db of dev; for --may-watch followers." type:"path" group:"Followers:"`
	shownFlags    `group:"Followers:"`
	postgresFlags `group:"Postgres:"`
}

// apply carries the flags into run.
func (f accessFlags) apply(run *app.ChannelRun) error {
	run.MayWatch, run.Config.HiddenOffline = f.MayWatch, f.ShownAs == "offline"
	run.Transitions = f.Of == "transitions"
	if run.Transitions || f.MayWatch != app.WatchFollowers {
		return nil
	}
	run.Graph, run.Postgres = app.Store{Postgres: f.Postgres, SQLite: f.SQLite}, f.postgres()
	if f.Postgres == "" && f.SQLite == "" {
		return misused(errors.New("--may-watch followers: needs the follower graph; set --postgres or --sqlite"))
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
	accessFlags
	tenantFlags
	FromStart bool `help:"Start at the beginning of the topic instead of now." env:"-"`
	logFlags
}

// Run prints until ctx ends.
func (c *channelLog) Run(ctx context.Context) error {
	run := app.ChannelRun{Name: "log", Kafka: c.Kafka, Config: app.DefaultDeliveries(), Channel: channel.NewLog(os.Stdout),
		FromStart: c.FromStart, WithoutGroup: true}
	c.tenantFlags.apply(&run)
	if err := c.accessFlags.apply(&run); err != nil {
		return err
	}
	return app.RunChannel(ctx, run, c.logger())
}

// channelWebhook posts.
type channelWebhook struct {
	URL        string          `name:"url" help:"URL to post to, http:// or https://." required:"" group:"Webhook:" secret:"url"`
	LinkLocal  bool            `name:"allow-link-local" help:"Allow link-local addresses and cloud metadata services, also as the result of a name lookup; they are refused otherwise." group:"Webhook:"`
	Private    bool            `name:"allow-private" help:"With --tenant: allow private and loopback addresses. They are refused otherwise, because the tenant chooses the URL; without --tenant they are allowed." group:"Webhook:"`
	Secret     string          `group:"Webhook:" secret:"" hidden:"" xor:"secret"`
	SecretFile string          `help:"File with the key of the signature, at least 32 bytes. Or set STILLHERE_SECRET. Without a key requests are unsigned, and a warning is logged." group:"Webhook:" type:"path" xor:"secret"`
	Source     string          `help:"The CloudEvents source." default:"/stillhere" group:"Webhook:"`
	Name       string          `help:"Name of the channel, for its consumer group and its metrics; use one per URL." default:"webhook" group:"Channel:"`
	Instance   string          `help:"Stable name of this process, unique within the channel. Default: the host name." group:"Channel:"`
	FromStart  bool            `help:"Start a new channel at the beginning of the topic instead of now." group:"Channel:"`
	Deliveries app.Deliveries  `embed:"" group:"Channel:"`
	Server     app.AdminServer `embed:"" group:"HTTP server:"`
	kafkaFlags
	accessFlags
	tenantFlags
	logFlags
}

// Run posts until ctx ends.
func (c *channelWebhook) Run(ctx context.Context) error {
	secret, err := keys.Secret{Value: c.Secret, File: c.SecretFile}.Read()
	if err != nil {
		return fmt.Errorf("--secret-file: %w", err)
	}
	log := c.logger()
	hook, err := channel.NewWebhook(channel.WebhookConfig{URL: c.URL, Source: c.Source, Secret: []byte(secret), LinkLocal: c.LinkLocal, Private: c.Private || len(c.Tenant) == 0}, log)
	if err != nil {
		return misused(err)
	}
	usual := app.DefaultDeliveries()
	c.Deliveries.FirstWait, c.Deliveries.MaxWait, c.Deliveries.Remember = usual.FirstWait, usual.MaxWait, usual.Remember
	c.Deliveries.Concurrency, c.Deliveries.Attempts = usual.Concurrency, usual.Attempts
	run := app.ChannelRun{Name: c.Name, Instance: instanceOf(c.Instance), Kafka: c.Kafka, Config: c.Deliveries, Channel: hook,
		FromStart: c.FromStart, AdminServer: c.Server}
	c.tenantFlags.apply(&run)
	if err := c.accessFlags.apply(&run); err != nil {
		return err
	}
	return app.RunChannel(ctx, run, log)
}
