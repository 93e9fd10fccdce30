//go:build unix

package kafka_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestEachRoleWorksWithJustWhatItNeedsAndSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	if os.Getenv("STILLHERE_PROCESSES") == "" {
		t.Skip("runs every role some fifty times in real time: STILLHERE_PROCESSES=1")
	}
	guardedStandIn(t).judge(8)
}

// guardedStandIn is an embedded cluster on which nobody may do anything.
func guardedStandIn(t *testing.T) *guarded {
	t.Helper()
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Options: []kfake.Opt{kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("SCRAM-SHA-256", "super", "super")}})
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addrs()...), kgo.SASL(scram.Auth{User: "super", Pass: "super"}.AsSha256Mechanism()))
	must.Do(t, err)
	login := func(c *kafka.Config, user, secret string) {
		c.Security = &kafka.Security{Mechanism: "SCRAM-SHA-256", User: user, Password: secret}
	}
	super := kafka.Config{Brokers: cluster.Addrs()}
	login(&super, "super", "super")
	return newGuarded(t, super, client, login)
}

// judge tries every grantee with all it needs, and without each of it, so many at
// the same time.
func (g *guarded) judge(atOnce int) {
	g.Helper()
	begun := time.Now()
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	trials := 0
	try := func(what string, trial func() string) {
		trials++
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if fault := trial(); fault != "" {
				g.Errorf("%s: %s", what, fault)
			}
		})
	}
	for _, grantee := range app.Grantees {
		tried := map[admin.Grant]bool{}
		for _, use := range []app.Use{{}, {Followers: true}, {Named: true}} {
			grants := must.Get(grantsOf(grantee, use, ""))(g.T)
			if use.Followers && grantee != "fanout" && grantee != "all" {
				continue
			}
			try(fmt.Sprintf("%s with all it needs %+v", grantee, use), func() string { return g.works(grantee, use) })
			if grantee == "all" {
				continue // the sum of the others
			}
			for _, without := range grants {
				if tried[without] {
					continue
				}
				tried[without] = true
				if without.Operation == "DescribeConfigs" && grantee == "topics" {
					continue // AlterConfigs includes it; topics apply --dry-run needs it where AlterConfigs is not granted
				}
				try(fmt.Sprintf("%s without %s %+v", grantee, without, use), func() string { return g.lacks(grantee, use, without) })
			}
		}
	}
	all.Wait()
	g.Logf("%d trials in %s", trials, time.Since(begun).Round(time.Second))
}

// grantsOf are app.Grants as the broker takes them.
func grantsOf(grantee string, use app.Use, prefix string) (all []admin.Grant, err error) {
	grants, err := app.Grants(grantee, use, prefix)
	for _, g := range grants {
		all = append(all, admin.Grant(g))
	}
	return all, err
}

// works tells what is wrong with a subject that has all it needs.
func (g *guarded) works(grantee string, use app.Use) string {
	g.Helper()
	s, err := g.newSubject(grantee, use, nil)
	if err != nil {
		return err.Error()
	}
	signs := s.signs()
	var missing string
	done := s.run(30*time.Second, func() bool {
		if missing = "it does not become ready"; !s.started.Load() {
			return false
		}
		for name, holds := range signs {
			if missing = "there is no sign of " + name; !holds() {
				return false
			}
		}
		return true
	})
	if log := s.log.String(); !done {
		return missing + "; it said last:\n" + testkit.Tail(log, 2000)
	} else if strings.Contains(log, "needs ") {
		return "it lacks something:\n" + testkit.Tail(log, 2000)
	}
	return ""
}

// lacks tells what is wrong with a subject from which one grant was taken.
func (g *guarded) lacks(grantee string, use app.Use, without admin.Grant) string {
	g.Helper()
	s, err := g.newSubject(grantee, use, &without)
	if err != nil {
		return err.Error()
	}
	want := fmt.Sprintf("this user needs %s on %s %s", without.Operation, without.Resource, s.here(without).Name)
	if !s.run(20*time.Second, func() bool { return strings.Contains(s.log.String(), want) }) {
		return fmt.Sprintf("it does not say %q; it said last:\n%s", want, testkit.Tail(s.log.String(), 2000))
	}
	return ""
}

// signs are what shows that a subject did all that it is for.
func (s *subject) signs() map[string]func() bool {
	signs := map[string]func() bool{}
	letters := func(group string) {
		signs["a dead letter by "+group] = func() bool {
			return s.has(schemas.DeadLetter, func(r *schemas.Record) bool {
				return string(r.Header(kafka.HeaderGroup)) == s.config.GroupName(group)
			})
		}
	}
	switch s.grantee {
	case "ingest", "gateway":
		signs["its beat"] = func() bool {
			return s.has(schemas.Heartbeats, func(r *schemas.Record) bool {
				var f schemas.Frame
				return f.Decode(r.Value) == nil && strings.HasPrefix(string(f.Gateway), "gw")
			})
		}
	case "operator":
		signs["a policy"] = func() bool {
			return s.has(schemas.Heartbeats, func(r *schemas.Record) bool {
				var f schemas.Frame
				return f.Decode(r.Value) == nil && f.Policy != nil
			})
		}
	case "detector", "all":
		letters("stillhere.detector")
		signs["a transition"] = func() bool {
			return s.has(schemas.Transitions, func(r *schemas.Record) bool {
				t, err := schemas.DecodeTransition(r.Value)
				return err == nil && t.User > 100
			})
		}
	}
	switch s.grantee {
	case "lastseen", "all":
		letters("stillhere.lastseen.sink")
		letters("stillhere.lastseen.projector")
	case "channel":
		letters("stillhere.channel.webhook")
		letters("stillhere.channel.webhook.transitions")
	}
	if s.grantee == "fanout" || s.grantee == "all" {
		letters("stillhere.fanout.publish")
		letters("stillhere.fanout.graph")
	}
	if s.uses.Followers {
		letters("stillhere.fanout.planner")
		letters("stillhere.fanout.worker")
		letters("stillhere.channel.live")
		signs["a job"] = func() bool {
			return s.has(schemas.Fanout, func(r *schemas.Record) bool { return len(r.Value) > 3 })
		}
		signs["a delivery of a job"] = func() bool {
			return s.has(schemas.Deliveries, func(r *schemas.Record) bool {
				d, err := schemas.DecodeDelivery(r.Value)
				return err == nil && d.Transition.User == 3
			})
		}
	}
	return signs
}

// has reports whether a topic has a record that is committed and like that.
func (s *subject) has(topic schemas.Topic, like func(*schemas.Record) bool) bool {
	found := false
	reader, err := kafka.NewReader(s.super, slog.New(slog.DiscardHandler))
	if err != nil {
		s.Error(err)
		return false
	}
	defer reader.Close()
	err = reader.Read(s.Context(), topic, 0, -1, -1, true, func(r *schemas.Record) error {
		found = found || like(r)
		return nil
	})
	if err != nil && s.Context().Err() == nil {
		s.Error(err)
	}
	return found
}
