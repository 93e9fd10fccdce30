package gateway_test

import (
	"context"
	"log"
	"time"

	"github.com/stillhere/stillhere/client/gateway"
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

	const user, device = schemas.UserID(42), schemas.DeviceID(7)
	tab, err := g.Connect(user, device, schemas.Web, 0)
	if err != nil {
		log.Fatal(err) // an id that no user has, or a client that is closed: trying again is no use
	}
	if err := tab.Beat(0); err != nil { // every heartbeat interval
		log.Print(err)
	}
	if err := tab.Bye(); err != nil { // or Drop, when the connection was lost
		log.Print(err)
	}

	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := g.Close(last); err != nil {
		log.Print(err)
	}
}
