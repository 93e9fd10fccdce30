package presence_test

import (
	"context"
	"fmt"
	"log"
)

// A backend that keeps the cursor with what it stores gets each change once.
func ExampleClient_Changes() {
	c, end := begin(map[string]string{
		`/presence/changes {"user_ids":["1","2"]}`: `{"resync":true,"reason":"start","cursor":"7",
			"users":[{"user_id":"1","state":"offline"},{"user_id":"2","state":"offline"}]}`,
		`/presence/changes {"user_ids":["1","2"],"since":"7"}`: `{"resync":false,"cursor":"9",
			"changes":[{"user_id":"1","state":"online"},{"user_id":"1","state":"away"}]}`,
	})
	defer end()

	first, err := c.Changes(context.Background(), "", "1", "2")
	if err != nil {
		log.Fatal(err)
	}
	for _, user := range first.Users { // a resync: the states
		fmt.Println(user.UserID, "is", *user.State)
	}
	missed, err := c.Changes(context.Background(), first.Cursor, "1", "2")
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
