package kafka_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/deliveries"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/keystest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestAChannelOfTheClientReadsDeliveriesOverTLSAndSASL(t *testing.T) {
	t.Parallel()
	authority := keystest.New(t)
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{Options: []kfake.Opt{
		kfake.TLS(authority.Server(authority.Issue("broker", time.Hour), nil)), kfake.EnableSASL(),
		kfake.User("PLAIN", "push", "secret"), kfake.User("SCRAM-SHA-512", "push", "secret"),
	}})
	must.Do(t, err)
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	files := keys.TLS{CA: authority.CA}
	server := kafka.Config{Brokers: cluster.Addrs(), Dialer: files.Dialer(nil), Security: &kafka.Security{Mechanism: "PLAIN", User: "push", Password: "secret"}}
	must.Get(admin.ApplyTopics(ctx, server, 2, 1))(t)
	producer := kafkatest.Producer(t, server)
	now := schemas.MillisOf(time.Now())
	delivery := schemas.Delivery{Recipients: []schemas.UserID{2}, Transition: &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online,
		At: now, LastSeen: now, LastActive: now, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 1}}
	err = producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Deliveries, Partition: schemas.PartitionOf(1, 2), Key: schemas.UserID(1).Key(), Value: delivery.Encode()})
	must.Do(t, err)
	err = producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Transitions, Partition: schemas.PartitionOf(1, 2), Key: schemas.UserID(1).Key(), Value: delivery.Transition.Encode()})
	must.Do(t, err)
	must.Do(t, producer.Close(ctx))

	with := func(mechanism, password string) client.Kafka {
		return client.Kafka{Brokers: cluster.Addrs(), TLSFiles: &client.TLSFiles{CA: authority.CA}, SASL: mechanism, User: "push", Password: password}
	}
	for name, k := range map[string]client.Kafka{"plain": with("PLAIN", "secret"), "scram": with("SCRAM-SHA-512", "secret")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
			defer stop()
			delivered := 0
			err := deliveries.Run(ctx, deliveries.Config{Kafka: k, Name: name, Instance: "push-1", FromStart: true, Log: quiet},
				deliveries.Func(func(_ context.Context, n schemas.Notice) error {
					delivered += len(n.Recipients)
					stop()
					return nil
				}))
			if err != nil || delivered != 1 {
				t.Errorf("%d deliveries, %v; want 1", delivered, err)
			}
		})
	}
	t.Run("all transitions", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 60*time.Second)
		defer stop()
		var got []schemas.Notice
		err := deliveries.Run(ctx, deliveries.Config{Kafka: with("PLAIN", "secret"), Name: "all", Instance: "push-1", Transitions: true, FromStart: true, Log: quiet},
			deliveries.Func(func(_ context.Context, n schemas.Notice) error {
				got = append(got, n)
				stop()
				return nil
			}))
		if err != nil || len(got) != 1 || got[0].Transition.User != 1 || got[0].Recipients != nil {
			t.Errorf("%+v, %v; want the transition", got, err)
		}
	})
	t.Run("a wrong password", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = deliveries.Run(ctx, deliveries.Config{Kafka: with("PLAIN", "wrong"), Name: "wrong", Instance: "push-1", FromStart: true, Log: quiet},
			deliveries.Func(func(context.Context, schemas.Notice) error {
				t.Error("a delivery although the broker does not know the password")
				return nil
			}))
	})
}
