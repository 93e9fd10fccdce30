package presence_test

import (
	"context"
	"fmt"
	"log"

	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

// A backend that keeps the cursor with what it stores gets each change once.
func ExampleClient_Changes() {
	ctx := context.Background()
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	c, err := presence.New(presence.Config{HTTP: server.HTTP()})
	if err != nil {
		log.Fatal(err)
	}

	first, err := c.Changes(ctx, "", "1", "2")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range first.Users { // a resync: the states
		fmt.Println(user.UserID, "is", *user.State)
	}
	server.Set("1", schemas.Online)
	server.Set("1", schemas.Away)
	missed, err := c.Changes(ctx, first.Cursor, "1", "2")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range missed.Changes {
		fmt.Println(user.UserID, "became", *user.State)
	}
	// Output:
	// 1 is offline
	// 2 is offline
	// 1 became online
	// 1 became away
}
