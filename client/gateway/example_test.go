package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/schemas"
)

const user, device = "42", "7"

// begin starts a gateway, and returns a function that waits until "beat" or "bye" is in Kafka.
func begin(ctx context.Context) (g *gateway.Gateway, await func(kind string) string, end func()) {
	config, stop, err := kafkatest.Run(ctx, identity.Users{}, 1)
	if err != nil {
		log.Fatal(err)
	}
	g, err = gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: config.Brokers}, ID: "gw-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	reader, err := kafka.NewReader(config, nil)
	if err != nil {
		log.Fatal(err)
	}
	var next int64
	await = func(kind string) (last string) {
		for last != kind {
			err := reader.Read(ctx, schemas.Heartbeats, 0, next, -1, false, func(r *schemas.Record) error {
				var frame schemas.Frame
				next = r.Offset + 1
				if err := frame.Decode(r.Value); err != nil {
					return err
				}
				rows := frame.Beats()
				for beat := (schemas.Beat{}); rows.Next(&beat); {
					last = "beat"
					if beat.Bye {
						last = "bye"
					}
				}
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		}
		return last
	}
	return g, await, func() { reader.Close(); stop() }
}

// A gateway of one connection: user 42 comes with a browser and leaves.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, await, end := begin(ctx) // gateway.Dial
	defer end()

	tab, err := g.Connect(user, device, schemas.Web, 0)
	if err != nil {
		log.Fatal(err) // what no user can be called, or a gateway that is closed
	}
	fmt.Println(await("beat"))
	if err := tab.Idle(10 * time.Minute); err != nil { // or Active, when the person is back
		log.Print(err)
	}
	if err := tab.Close(); err != nil { // or Lost, when the connection broke
		log.Print(err)
	}
	fmt.Println(await("bye"))
	if err := g.Close(ctx); err != nil {
		log.Print(err)
	}
	// Output:
	// beat
	// bye
}

// A device with two connections leaves when the last one is closed.
func ExampleGateway_Connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, await, end := begin(ctx)
	defer end()

	first, _ := g.Connect(user, device, schemas.Web, 0)
	second, _ := g.Connect(user, device, schemas.Web, 0)
	fmt.Println(await("beat"))
	_ = first.Close() // the second tab is still open
	_ = second.Close()
	fmt.Println(await("bye"))
	fmt.Println(g.Close(ctx))
	// Output:
	// beat
	// bye
	// <nil>
}

// Validate names every field that is wrong.
func ExampleConfig_Validate() {
	fmt.Println(gateway.Config{Kafka: client.Kafka{Brokers: []string{"kafka"}, SASL: "PLAIN"}}.Validate())
	// Output:
	// kafka.brokers: must be host:port
	// kafka.user: must be set for PLAIN
	// gateway.gateway_id: must be set
}

// After Close every report fails with ErrClosed.
func ExampleGateway_Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, _, end := begin(ctx)
	defer end()

	fmt.Println(g.Close(ctx))
	fmt.Println(errors.Is(g.Beat(user, device, schemas.Mobile, 0), gateway.ErrClosed))
	// Output:
	// <nil>
	// true
}
