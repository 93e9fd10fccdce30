package deliveries_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/deliveries"
	"github.com/stillhere/stillhere/schemas"
)

// begin starts a server on which followers 2 and 3 are the recipients of a change: user 1 is
// online.
func begin(ctx context.Context) *clienttest.Server {
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	server.Set("1", schemas.Online)
	if err := server.Notify(ctx, "1", "2", "3"); err != nil {
		log.Fatal(err)
	}
	return server
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
	server := begin(ctx) // Kafka in memory
	defer server.Close()

	err := deliveries.Run(ctx, deliveries.Config{
		Kafka: server.Kafka(), Name: "push", Instance: "push-1", FromStart: true, Log: slog.New(slog.DiscardHandler),
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
	server := begin(ctx)
	defer server.Close()

	var ids []string
	err := deliveries.Run(ctx, deliveries.Config{
		Kafka: server.Kafka(), Name: "flaky", Instance: "flaky-1", FromStart: true, FirstWait: time.Millisecond, Log: slog.New(slog.DiscardHandler),
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
