package clienttest_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

// friends is what a program would do with package presence.
func friends(ctx context.Context, c *presence.Client, of ...string) (online int) {
	states, err := c.Batch(ctx, of...)
	if err != nil {
		log.Fatal(err)
	}
	for _, state := range states.Of {
		if state == presence.Online {
			online++
		}
	}
	return online
}

// A test of a program that reads presence.
func Example() {
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.Set("1", schemas.Online)
	server.Set("2", schemas.Away)

	c, err := presence.New(presence.Config{HTTP: server.HTTP()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(friends(context.Background(), c, "1", "2", "3"))
	// Output: 1
}

// A test of a program that reports users by name, within a tenant, and reads them.
func ExampleStartNamed() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, err := clienttest.StartNamed()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	g, err := gateway.Dial(ctx, gateway.Config{Kafka: server.Kafka(), IdentityKey: server.IdentityKey(), ID: "gw-1",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	w, err := watch.New(watch.Config{HTTP: server.HTTP(), Tenant: "acme"}, "ann")
	if err != nil {
		log.Fatal(err)
	}
	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind != watch.Changed {
			continue
		}
		fmt.Println(event.User.UserID, *event.User.State)
		if *event.User.State == presence.Online {
			break
		}
		if err := g.Tenant("acme").Beat("ann", "phone", schemas.Mobile, 0); err != nil {
			log.Fatal(err)
		}
	}
	c, err := presence.New(presence.Config{HTTP: server.HTTP()})
	if err != nil {
		log.Fatal(err)
	}
	states, err := c.Tenant("acme").Batch(ctx, "ann")
	if err != nil {
		log.Fatal(err)
	}
	namesakes, err := c.Batch(ctx, "ann") // of the default tenant
	fmt.Println(states.Of, namesakes.Of, err, g.Close(ctx))
	// Output:
	// ann offline
	// ann online
	// map[ann:online] map[ann:offline] <nil> <nil>
}
