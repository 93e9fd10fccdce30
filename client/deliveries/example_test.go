package deliveries_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/deliveries"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/schemas"
)

// begin starts a Kafka in which followers 2 and 3 are the recipients of a change: user 1 is online.
func begin(ctx context.Context) (at client.Kafka, end func()) {
	config, end, err := kafkatest.Run(ctx, identity.Users{}, 1)
	if err != nil {
		log.Fatal(err)
	}
	producer, err := kafka.NewProducer(config, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		log.Fatal(err)
	}
	now := schemas.MillisOf(time.Now())
	change := schemas.Delivery{Recipients: []schemas.UserID{2, 3}, Transition: &schemas.Transition{User: 1, From: schemas.Offline, To: schemas.Online,
		At: now, LastSeen: now, LastActive: now, Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 1}}
	err = errors.Join(producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Deliveries, Key: schemas.UserID(1).Key(), Value: change.Encode()}),
		producer.Close(ctx))
	if err != nil {
		log.Fatal(err)
	}
	return client.Kafka{Brokers: config.Brokers}, end
}

// push is a channel that would send push notifications.
type push struct{ done func() }

func (p push) Deliver(_ context.Context, n schemas.Notice) error {
	for _, recipient := range n.Recipients {
		fmt.Printf("to %s: user %s is %s\n", recipient, n.User.Text, n.Message().State)
	}
	p.done()
	return nil
}

// A channel runs until its context ends.
func ExampleRun() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at, end := begin(ctx)
	defer end()

	err := deliveries.Run(ctx, deliveries.Config{
		Kafka: at, Name: "push", Instance: "push-1", FromStart: true, Log: slog.New(slog.DiscardHandler),
	}, push{done: cancel})
	fmt.Println(err)
	// Output:
	// to 2: user 1 is online
	// to 3: user 1 is online
	// <nil>
}

// A failed delivery is repeated with the same ID.
func ExampleFunc() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at, end := begin(ctx)
	defer end()

	var ids []string
	err := deliveries.Run(ctx, deliveries.Config{
		Kafka: at, Name: "flaky", Instance: "flaky-1", FromStart: true, FirstWait: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}, deliveries.Func(func(_ context.Context, n schemas.Notice) error {
		if ids = append(ids, n.ID); len(ids) < 3 {
			return errors.New("the push service does not answer")
		}
		cancel()
		return nil
	}))
	fmt.Println(len(ids), ids[0] == ids[2], err)
	// Output: 3 true <nil>
}

func ExampleConfig_Validate() {
	config := deliveries.Config{Name: "my channel", Instance: "a", Attempts: -1}
	fmt.Println(config.Validate())
	// Output:
	// kafka.brokers: must have at least one address, such as localhost:9092
	// deliveries.name: must be 1 to 100 letters, digits, dots, dashes or underscores
	// deliveries.attempts: must be positive
}
