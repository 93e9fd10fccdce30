//go:build unix

package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/fanout/channel"
	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/policy"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/dataset"
	"github.com/stillhere/stillhere/tools/erasure"
)

// guarded is a cluster on which nobody may do anything that was not granted. Every
// subject works in a pipeline of its own, under a prefix of its own.
type guarded struct {
	*testing.T
	super kafka.Config                               // of somebody who may do everything
	login func(c *kafka.Config, user, secret string) // makes c that of a user
	kafka *kadm.Client                               // as super
	redis *embedded.Redis
	tls   *tls.Config // nil: none; of the gateway, which opens its connections itself
	names atomic.Int64
}

func newGuarded(t *testing.T, super kafka.Config, cluster *kgo.Client, login func(*kafka.Config, string, string)) *guarded {
	t.Helper()
	redis := must.Get(embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(func() { redis.Close() })
	g := &guarded{T: t, super: super, login: login, kafka: kadm.NewClient(cluster), redis: redis}
	t.Cleanup(g.kafka.Close)
	return g
}

// identityKey is that of pipelines whose users have names.
var identityKey = identity.Key{1}

// subject is a role, or what is beside the roles, with a user of its own.
type subject struct {
	*guarded
	grantee  string
	uses     app.Use
	user     string
	super    kafka.Config // for its prefix
	config   kafka.Config // as the user
	producer *kafka.Producer
	graph    string
	store    string
	log      testkit.Transcript
	started  atomic.Bool
	base     atomic.Pointer[string]
	version  atomic.Int64
}

// newSubject makes topics with something in them, and a user with all that the
// grantee needs but for one grant.
func (g *guarded) newSubject(grantee string, use app.Use, without *admin.Grant) (*subject, error) {
	s := &subject{guarded: g, grantee: grantee, uses: use, user: fmt.Sprintf("%s%d", grantee, g.names.Add(1))}
	s.super = g.super
	s.super.Prefix, s.super.InstanceName = s.user+".", "super"
	if use.Named {
		s.super.Users = identity.Named(identityKey)
	}
	s.config = s.super
	s.config.InstanceName = "one"
	g.login(&s.config, s.user, "secret of "+s.user)
	grants, err := grantsOf(grantee, use, s.config.Prefix)
	if err != nil {
		return nil, err
	}
	if without != nil {
		all := len(grants)
		grants = slices.DeleteFunc(grants, func(grant admin.Grant) bool { return grant == s.here(*without) })
		if len(grants) != all-1 {
			return nil, fmt.Errorf("%s is not among what %s needs", without, grantee)
		}
	}
	s.producer, err = kafka.NewProducer(s.super, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.addUser(), admin.ApplyGrants(g.Context(), s.super, "User:"+s.user, grants), s.fill())
}

func (s *subject) addUser() error {
	altered, err := s.kafka.AlterUserSCRAMs(s.Context(), nil, []kadm.UpsertSCRAM{{User: s.user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret of " + s.user}})
	if err == nil {
		err = altered.Error()
	}
	return err
}

// fill makes what a subject finds when it comes.
func (s *subject) fill() error {
	if s.grantee == "topics" {
		return nil
	}
	if _, err := admin.ApplyTopics(s.Context(), s.super, 1, 1); err != nil {
		return err
	}
	if s.grantee == "operator" { // a detector has run, and takes unsigned heartbeats
		var at kadm.Offsets
		at.Add(kadm.Offset{Topic: schemas.Heartbeats.Name(s.super.Prefix), LeaderEpoch: -1, Metadata: (&schemas.Checkpoint{LogEpoch: 1}).Encode()})
		if err := s.kafka.CommitAllOffsets(s.Context(), s.super.GroupName("stillhere.detector"), at); err != nil {
			return err
		}
	}
	status := schemas.Status{User: 1, State: schemas.Online, Visibility: schemas.Everyone, Version: 1}
	was := schemas.PolicyRecord{Policy: schemas.DefaultPolicy()}
	was.Policy.AwayTTL = time.Hour
	err := s.producer.AppendSync(s.Context(), schemas.Outgoing{Topic: schemas.Statuses, Key: schemas.UserID(1).Key(), Value: status.Encode()},
		schemas.Outgoing{Topic: schemas.Policies, Key: was.Key(), Value: was.Encode()})
	if err != nil {
		return err
	}
	s.feed()
	s.graph = filepath.Join(s.TempDir(), s.user+".db")
	s.store = filepath.Join(s.TempDir(), s.user+"-store.db")
	store, err := app.OpenGraph(s.Context(), app.Store{SQLite: s.graph}, pgstore.Defaults())
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Add(s.Context(), []graph.Edge{{User: 1, Follower: 2}, {User: 3, Follower: 4}, {User: 3, Follower: 5}, {User: 3, Follower: 6}})
	return err
}

// here is a grant of the default prefix in this subject's pipeline.
func (s *subject) here(g admin.Grant) admin.Grant {
	switch {
	case g.Resource == kafka.OfTopic:
		g.Name = s.config.Prefix + strings.TrimPrefix(g.Name, schemas.DefaultPrefix)
	case g.Name == "stillhere.channel.": // of channels of any name
	case g.Resource == kafka.OfTransactionalID:
		g.Name = s.config.GroupName(strings.TrimSuffix(g.Name, ".")) + "."
	default:
		g.Name = s.config.GroupName(g.Name)
	}
	return g
}

// feed writes something that can be read and something that cannot to every topic.
func (s *subject) feed() {
	var outs []schemas.Outgoing
	v := schemas.Version(s.version.Add(1))
	for _, user := range []schemas.UserID{1, 3} {
		change := schemas.Transition{User: user, From: schemas.Offline, To: schemas.Online, At: schemas.MillisOf(time.Now()), Cause: schemas.FirstBeat,
			Visibility: schemas.Everyone, Version: v}
		outs = append(outs, schemas.Outgoing{Topic: schemas.Transitions, Key: user.Key(), Value: change.Encode()})
	}
	beat := schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: schemas.UserID(100 + v), Device: 1, Kind: schemas.Web}})
	outs = append(outs, schemas.Outgoing{Topic: schemas.Heartbeats, Value: beat})
	for _, topic := range []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Fanout, schemas.Deliveries, schemas.Graph} {
		outs = append(outs, schemas.Outgoing{Topic: topic, Key: schemas.UserID(1).Key(), Value: []byte{0xff, 1, 0xff}})
	}
	if s.uses.Named {
		ann := schemas.Name{Tenant: "acme", Text: fmt.Sprint("ann", v)}
		user := s.super.Users.ID(ann.Tenant, ann.Text)
		beat := schemas.AppendNamedRow(schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 1, Kind: schemas.Web}}), 0, ann)
		outs = append(outs, schemas.Outgoing{Topic: schemas.Heartbeats, Value: beat},
			schemas.Outgoing{Topic: schemas.Names, Key: schemas.UserID(1).Key(), Value: []byte{0xff, 1, 0xff}})
	}
	if err := s.producer.AppendSync(s.Context(), outs...); err != nil && s.Context().Err() == nil {
		s.Error(err)
	}
}

// run lets the subject do what it is for until holds, or the limit has passed;
// false in the latter case. A subject that ends is run again, as a supervisor would.
func (s *subject) run(limit time.Duration, holds func() bool) bool {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer func() { _ = s.producer.Close(context.WithoutCancel(ctx)) }() // of its records none is missed
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	log := slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	working.Go(func() {
		for ctx.Err() == nil {
			if err := s.act(ctx, log); err != nil {
				log.Error("ended", "error", err)
			}
			wait(ctx, 100*time.Millisecond)
		}
	})
	working.Go(func() {
		for wait(ctx, 200*time.Millisecond) {
			if s.started.Load() && s.grantee != "topics" {
				s.feed()
			}
			s.use(ctx, log)
		}
	})
	for ctx.Err() == nil {
		if holds() {
			return true
		}
		wait(ctx, 20*time.Millisecond)
	}
	return holds()
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// act is the subject's program, until ctx ends.
func (s *subject) act(ctx context.Context, log *slog.Logger) error {
	switch s.grantee {
	case "topics":
		_, err := admin.ApplyTopics(ctx, s.config, 1, 1)
		if err == nil { // of topics that exist it reads the settings and changes those that are given
			longer := s.config
			longer.Retention.Transitions = 1000 * time.Hour
			_, err = admin.ApplyTopics(ctx, longer, 1, 1)
		}
		s.started.Store(err == nil)
		return err
	case "tools":
		sources, err := dataset.Open(ctx, s.config, app.Store{}, pgstore.Defaults(), log)
		if err != nil {
			return err
		}
		defer func() { must.Do(s.T, sources.Close()) }()
		nothing := func(*schemas.Record) error { return nil }
		topics := []schemas.Topic{schemas.Heartbeats, schemas.Gateways, schemas.Statuses, schemas.Snapshots}
		if s.uses.Named {
			topics = append(topics, schemas.Pipeline, schemas.Names)
		}
		for _, topic := range topics {
			if err := sources.Reader.Read(ctx, topic, 0, -1, -1, true, nothing); err != nil {
				return err
			}
		}
		start, end, err := sources.Log.Bounds(ctx, 0)
		if err == nil {
			err = sources.Log.Read(ctx, 0, start, end, nothing)
		}
		if err == nil {
			_, err = policy.Load(ctx, s.config, sources.Reader, s.uses.Named)
		}
		if err != nil {
			return err
		}
		s.started.Store(true)
		return nil
	case "operator":
		return s.operate(ctx, log)
	case "channel":
		s.started.Store(true)
		both, running := errgroup.WithContext(ctx)
		for _, transitions := range []bool{false, true} {
			both.Go(func() error {
				return app.RunChannel(running, app.ChannelRun{Name: "webhook", Instance: "one", Kafka: s.settings().Kafka, Config: app.DefaultDeliveries(),
					Transitions: transitions, Channel: channel.NewLog(io.Discard), FromStart: true}, log)
			})
		}
		return both.Wait()
	case "gateway":
		return s.actAsGateway(ctx, log)
	}
	return app.Run(ctx, s.grantee, s.settings(), log, func() { s.started.Store(true) })
}

// operate does what the commands do that change the pipeline.
func (s *subject) operate(ctx context.Context, log *slog.Logger) error {
	if _, err := admin.CheckTopics(ctx, s.config); err != nil {
		return err
	}
	if _, err := admin.LastCopies(ctx, s.config); err != nil {
		return err
	}
	if _, err := policy.InForce(ctx, s.config); err != nil {
		return err
	}
	if err := policy.Set(ctx, s.config, schemas.DefaultPolicy(), log); err != nil {
		return err
	}
	if s.uses.Named {
		if err := tenants.Set(ctx, s.config, schemas.Tenant{Name: "acme", Note: "set"}, log); err != nil {
			return err
		}
		if err := s.erase(ctx, log); err != nil {
			return err
		}
	}
	s.started.Store(true)
	return nil
}

// erase erases a user as the commands do.
func (s *subject) erase(ctx context.Context, log *slog.Logger) error {
	w, err := erasure.OpenWriter(ctx, s.config, log)
	if err != nil {
		return err
	}
	defer w.Close(ctx)
	_, err = w.Erase(ctx, schemas.UserName{User: s.config.Users.ID("acme", "ann"), Name: schemas.Name{Tenant: "acme", Text: "ann"}})
	return errors.Join(err, w.Unspread())
}

func (s *subject) actAsGateway(ctx context.Context, log *slog.Logger) error {
	config := gateway.Config{Kafka: client.Kafka{Brokers: s.config.Brokers, TopicPrefix: s.config.Prefix, TLS: s.tls,
		SASL: s.config.Security.Mechanism, User: s.config.Security.User, Password: s.config.Security.Password}, ID: "gw", Log: log}
	if s.uses.Named {
		config.IdentityKey = identityKey.Hex()
	}
	g, err := gateway.Dial(ctx, config)
	if err != nil {
		return err
	}
	s.started.Store(true)
	err = g.Beat("1", "1", schemas.Web, 0)
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = g.Close(closing) // what it could not write is not of interest here
	return err
}

func (s *subject) settings() app.Config {
	c := app.Defaults()
	c.Instance = "one"
	c.Kafka.Brokers, c.Kafka.Prefix, c.Kafka.Dialer = s.config.Brokers, s.config.Prefix, s.config.Dialer
	c.Kafka.SASL, c.Kafka.User, c.Kafka.Password = s.config.Security.Mechanism, s.config.Security.User, s.config.Security.Password
	if s.uses.Named {
		c.Kafka.IDs, c.Kafka.IdentityKey = string(identity.Text), identityKey.Hex()
	}
	c.Listen, c.Admin = "127.0.0.1:0", ""
	c.Listener = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err == nil {
			base := "http://" + l.Addr().String()
			s.base.Store(&base)
		}
		return l, err
	}
	c.Redis.Addrs, c.Redis.Prefix = []string{s.redis.Addr()}, s.user+":"
	c.Store = app.Store{SQLite: s.store}
	c.Ingest.AppendTimeout = 2 * time.Second
	c.Graph, c.GraphTopic = app.Store{SQLite: s.graph}, true
	if s.uses.Followers {
		c.Expand.Mode, c.Expand.HighFollower, c.Expand.Everyone = "all", 2, true
	}
	return c
}

// use comes through the endpoints, where there are some.
func (s *subject) use(ctx context.Context, log *slog.Logger) {
	base := s.base.Load()
	if base == nil {
		return
	}
	if s.grantee == "api" {
		// It is not ready before a projector has told it that its answers are fresh.
		answered := true
		for _, path := range []string{"/presence/7", "/presence/7/export"} {
			response, err := http.Get(*base + path)
			if err != nil {
				return // the role is about to end
			}
			answered = answered && response.StatusCode == http.StatusOK
			response.Body.Close()
		}
		s.started.Store(answered)
	}
	if s.grantee != "ingest" && s.grantee != "all" {
		return
	}
	if s.uses.Named {
		request, err := http.NewRequestWithContext(ctx, http.MethodDelete, *base+"/presence/users/ann", nil)
		if err != nil {
			s.Error(err)
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return // the role is about to end
		}
		response.Body.Close()
	}
	body := fmt.Sprintf(`{"gateway_id":"gw-1","gateway_epoch":"%d","beats":[{"user_id":"7","device_id":7}]}`, time.Now().UnixMilli())
	if s.uses.Named {
		body = strings.Replace(body, `"device_id":7`, `"device_id":"phone"`, 1)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, *base+"/presence/heartbeats", bytes.NewReader([]byte(body)))
	if err != nil {
		s.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // the role is about to end
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		said, _ := io.ReadAll(response.Body)
		log.Error("a beat was refused", "status", response.Status, "answer", string(said))
	}
}
