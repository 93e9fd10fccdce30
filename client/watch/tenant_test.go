package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/schemas"
)

// With --ids text users have names within a tenant.
func ExampleConfig_tenant() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	server, err := clienttest.StartNamed()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
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
		fmt.Println(event.User.Tenant, event.User.UserID, *event.User.State)
		if event.User.UserID == "bob@example.com" {
			break
		}
		if *event.User.State == "offline" {
			server.Set("ann", schemas.Away) // another tenant's
			server.Tenant("acme").Set("ann", schemas.Online)
			continue
		}
		if err := w.Add("bob@example.com"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// acme ann offline
	// acme ann online
	// acme bob@example.com offline
}

func TestAWatcherOfNamesYieldsWhatItMissedAndDropsWhomItMayNotWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := clienttest.StartNamed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w, err := watch.New(watch.Config{HTTP: server.HTTP(), FirstWait: time.Millisecond}, "a,b/c é", "users")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for event, err := range w.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		switch event.Kind {
		case watch.Changed:
			if event.User.Tenant != "" {
				t.Errorf("it shows %+v", event.User)
			}
			got = append(got, event.User.UserID+" "+*event.User.State)
			if len(got) == 2 {
				server.DropWatchers()
			}
		case watch.Disconnected:
			server.Set("users", schemas.Online)
			server.Tenant("acme").Set("users", schemas.Online)
			server.Set("users", schemas.Away)
		}
		if len(got) == 4 {
			break
		}
	}
	if want := []string{"a,b/c é offline", "users offline", "users online", "users away"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	messages := []string{hello,
		`{"type":"error","error":{"code":"not_allowed","message":"you may not watch this user","user_id":"bob","tenant":"acme"}}`,
		`{"type":"change","user":{"user_id":"bob","tenant":"acme","state":"online","version":"7"}}`,
		`{"type":"change","user":{"user_id":"ann","tenant":"acme","state":"away","version":"8"}}`}
	if w, err = watch.New(watch.Config{HTTP: client.HTTP{URL: says(t, messages...)}, Tenant: "acme"}, "ann", "bob"); err != nil {
		t.Fatal(err)
	}
	events := first(ctx, t, 3, w.Events)
	var problem *client.ProblemError
	if refused := events[1]; refused.Kind != watch.Refused || !errors.As(refused.Err, &problem) || problem.Code != "not_allowed" || refused.User.UserID != "bob" || refused.User.Tenant != "acme" {
		t.Errorf("it yields %+v", refused)
	}
	if changed := events[2]; changed.Kind != watch.Changed || changed.User.UserID != "ann" || !slices.Equal(w.Users(), []string{"ann"}) {
		t.Errorf("it yields %+v and watches %v", changed, w.Users())
	}
}

func TestWhatCannotBeANameIsRefusedByField(t *testing.T) {
	t.Parallel()
	config := watch.Config{HTTP: client.HTTP{URL: "http://a"}}
	for field, make := range map[string]func() error{
		"watch.tenant": func() error {
			other := config
			other.Tenant = "a/b"
			_, err := watch.New(other, "ann")
			return err
		},
		"users[1]": func() error { _, err := watch.New(config, "ann", ""); return err },
		"users[0]": func() error {
			w, err := watch.New(config, "ann")
			if err != nil {
				return err
			}
			err = w.Add(strings.Repeat("a", schemas.MaxName+1), "bob")
			if !slices.Equal(w.Users(), []string{"ann"}) {
				t.Errorf("it watches %v", w.Users())
			}
			return err
		},
	} {
		if fault := new(schemas.FieldError); !errors.As(make(), &fault) || fault.Field != field {
			t.Errorf("%s: %v", field, fault)
		}
	}
}
