package gateway_test

import (
	"context"
	"log"
	"time"

	"github.com/stillhere/stillhere/ingest/gateway"
	"github.com/stillhere/stillhere/schemas"
)

// A gateway of one connection: user 42 comes with a browser and leaves.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	g, err := gateway.Dial(ctx, gateway.Config{Brokers: []string{"127.0.0.1:9092"}, ID: "gw-1"})
	if err != nil {
		log.Fatal(err)
	}
	running := make(chan error, 1)
	go func() { running <- g.Run(context.Background()) }() // ends with Close

	const user, device = schemas.UserID(42), schemas.DeviceID(7)
	if err := g.Beat(user, device, schemas.Web, 0); err != nil { // and again every heartbeat interval
		log.Print(err) // an id that no user has, or a client that is closed: trying again is no use
	}
	if err := g.Bye(user, device); err != nil {
		log.Print(err)
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := g.Close(last); err != nil {
		log.Print(err)
	}
	if err := <-running; err != nil {
		log.Print(err)
	}
}
