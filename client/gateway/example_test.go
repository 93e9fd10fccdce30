package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

const user, device = "42", "7"

// begin starts a server and a gateway, and returns a function that waits for the next
// change of the user.
func begin(ctx context.Context) (g *gateway.Gateway, next func() string, end func()) {
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	g, err = gateway.Dial(ctx, gateway.Config{Kafka: server.Kafka(), ID: "gw-1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	w, err := watch.New(watch.Config{HTTP: server.HTTP()}, user)
	if err != nil {
		log.Fatal(err)
	}
	watching, cancel := context.WithCancel(ctx)
	states, done := make(chan string, 10), make(chan struct{})
	go func() {
		defer close(done)
		for event, err := range w.Events(watching) {
			if err != nil {
				log.Fatal(err)
			}
			if event.Kind == watch.Changed {
				states <- *event.User.State
			}
		}
	}()
	<-states // as it was before
	return g, func() string { return <-states }, func() { cancel(); <-done; server.Close() }
}

// A gateway of one connection: user 42 comes with a browser and leaves.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, next, end := begin(ctx) // gateway.Dial, with Kafka in memory
	defer end()

	tab, err := g.Connect(user, device, schemas.Web, 0)
	if err != nil {
		log.Fatal(err) // what no user can be called, or a gateway that is closed
	}
	fmt.Println(next())
	if err := tab.Beat(0); err != nil { // every heartbeat interval
		log.Print(err)
	}
	if err := tab.Bye(); err != nil { // or Drop, when the connection was lost
		log.Print(err)
	}
	fmt.Println(next())
	if err := g.Close(ctx); err != nil {
		log.Print(err)
	}
	// Output:
	// online
	// offline
}

// A device with two connections leaves when the last one says bye.
func ExampleGateway_Connect() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	g, next, end := begin(ctx)
	defer end()

	first, _ := g.Connect(user, device, schemas.Web, 0)
	second, _ := g.Connect(user, device, schemas.Web, 0)
	fmt.Println(next())
	_ = first.Bye() // the second tab is still open
	_ = second.Bye()
	fmt.Println(next())
	fmt.Println(g.Close(ctx))
	// Output:
	// online
	// offline
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
