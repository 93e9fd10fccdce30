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
	"github.com/stillhere/stillhere/client/watch"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// With --ids text users have names within a tenant.
func ExampleConfig_tenant() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	of := func(user string) string { return strings.Replace(user, "{", `{"tenant":"acme",`, 1) }
	server := script([]string{hello, `? ["ann"]`, snapshot(of(is("ann", "offline", 1))), change(of(is("ann", "online", 2))),
		`? ["a,b/c é"]`, snapshot(of(is("a,b/c é", "offline", 1)))})
	defer server.Close()
	w, err := watch.New(watch.Config{HTTP: client.HTTP{URL: server.URL}, Tenant: "acme"}, "ann")
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
		if event.User.UserID == "a,b/c é" {
			break
		}
		if *event.User.State == "offline" {
			continue
		}
		if err := w.Add("a,b/c é"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// acme ann offline
	// acme ann online
	// acme a,b/c é offline
}

func TestAWatcherDropsWhomItMayNotWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	messages := []string{hello,
		`{"type":"error","error":{"code":"not_allowed","message":"you may not watch this user","user_id":"bob","tenant":"acme"}}`,
		`{"type":"change","user":{"user_id":"bob","tenant":"acme","state":"online","version":"7"}}`,
		`{"type":"change","user":{"user_id":"ann","tenant":"acme","state":"away","version":"8"}}`}
	server := script(messages)
	t.Cleanup(server.Close)
	w := must.Get(watch.New(watch.Config{HTTP: client.HTTP{URL: server.URL}, Tenant: "acme"}, "ann", "bob"))(t)
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
