package clienttest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

// friends is what a program would do with package presence.
func friends(ctx context.Context, c *presence.Client, of ...schemas.UserID) (online int) {
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
	server.Set(1, schemas.Online)
	server.Set(2, schemas.Away)

	c, err := presence.New(presence.Config{HTTP: server.HTTP()})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(friends(context.Background(), c, 1, 2, 3))
	// Output: 1
}
