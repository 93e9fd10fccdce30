package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

// begin starts a server and a watcher.
func begin(users ...string) (*clienttest.Server, *watch.Watcher) {
	server, err := clienttest.Start()
	if err != nil {
		log.Fatal(err)
	}
	w, err := watch.New(watch.Config{HTTP: server.HTTP(), FirstWait: time.Millisecond}, users...)
	if err != nil {
		log.Fatal(err)
	}
	return server, w
}

func ExampleWatcher_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, w := begin("1") // watch.New, with a server in memory
	defer server.Close()

	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind != watch.Changed {
			continue
		}
		fmt.Println(event.User.UserID, *event.User.State)
		if *event.User.State == "online" {
			break
		}
		server.Set("1", schemas.Online)
	}
	// Output:
	// 1 offline
	// 1 online
}

// Add and Remove change the users of an open connection.
func ExampleWatcher_Add() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, w := begin("1")
	defer server.Close()

	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Kind != watch.Changed {
			continue
		}
		fmt.Println(event.User.UserID)
		if event.User.UserID == "2" {
			break
		}
		w.Remove("1")
		_ = w.Add("2") // it can be a name
	}
	fmt.Println(w.Users())
	// Output:
	// 1
	// 2
	// [2]
}

// After a lost connection only newer versions are yielded.
func ExampleWatcher_Events_reconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, w := begin("1", "2")
	defer server.Close()

	users := 0
	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case watch.Changed:
			fmt.Println(event.User.UserID, *event.User.State)
			if users++; users == 2 {
				server.DropWatchers()
			}
		case watch.Disconnected:
			fmt.Println("disconnected")
			server.Set("2", schemas.Online)
		}
		if users == 3 {
			break
		}
	}
	// Output:
	// 1 offline
	// 2 offline
	// disconnected
	// 2 online
}

// A server that refuses permanently ends the loop.
func ExampleWatcher_Events_refused() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":"unauthenticated","message":"the token has expired"}}`)
	}))
	defer server.Close()

	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: server.URL, Token: client.Token("old")}}, "1")
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range w.Events(context.Background()) {
		if problem := (*client.ProblemError)(nil); errors.As(err, &problem) {
			fmt.Println(problem.Status, problem.Message)
		}
	}
	// Output: 401 the token has expired
}
