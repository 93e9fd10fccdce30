package watch_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

// After a lost connection the watcher yields every change that it missed.
func ExampleWatcher_Events_missed() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, w := begin("1")
	defer server.Close()

	changes := 0
	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case watch.Changed:
			fmt.Println(*event.User.State)
			if changes++; changes == 1 {
				server.DropWatchers()
			}
		case watch.Disconnected:
			fmt.Println("disconnected")
			server.Set("1", schemas.Online)
			server.Set("1", schemas.Away)
			server.Set("1", schemas.Online)
		}
		if changes == 4 {
			break
		}
	}
	// Output:
	// offline
	// disconnected
	// online
	// away
	// online
}
