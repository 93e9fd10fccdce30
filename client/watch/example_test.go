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
	"github.com/stillhere/stillhere/client/watch"
)

func ExampleWatcher_Events() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, end := watching([]string{"1"}, // watch.New
		[]string{hello, snapshot(is("1", "offline", 1)), change(is("1", "online", 2))})
	defer end()

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
	}
	// Output:
	// 1 offline
	// 1 online
}

// Add and Remove change the users of an open connection.
func ExampleWatcher_Add() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, end := watching([]string{"1"},
		[]string{hello, `? ["1"]`, snapshot(is("1", "offline", 1)), `? ["2"]`, snapshot(is("2", "offline", 1))})
	defer end()

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

// After a lost connection the watcher yields every change that it missed.
func ExampleWatcher_Events_missed() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, end := watching([]string{"1"},
		[]string{hello, snapshot(is("1", "offline", 1))},
		[]string{hello, `? "since":"c"`, change(is("1", "online", 2)), change(is("1", "away", 3)), resumed})
	defer end()

	for event, err := range w.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		switch event.Kind {
		case watch.Changed:
			fmt.Println(*event.User.State)
		case watch.Disconnected:
			fmt.Println("disconnected")
		}
		if event.Kind == watch.Changed && *event.User.State == "away" {
			break
		}
	}
	// Output:
	// offline
	// disconnected
	// online
	// away
}

// After a resync only newer versions are yielded.
func ExampleWatcher_Events_resync() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, end := watching([]string{"1", "2"},
		[]string{hello, snapshot(is("1", "offline", 1), is("2", "offline", 1))},
		[]string{hello, snapshot(is("1", "offline", 1), is("2", "online", 2))})
	defer end()

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
	}
	// Output:
	// 1 offline
	// 2 offline
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
