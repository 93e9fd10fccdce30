package clienttest_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client/clienttest"
	"github.com/stillhere/stillhere/client/deliveries"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/schemas"
)

func TestEveryReadAndDeliveryOfANamedServerHasNames(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, err := clienttest.StartNamed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c, err := presence.New(presence.Config{HTTP: server.HTTP()})
	if err != nil {
		t.Fatal(err)
	}
	batch, hidden := schemas.Name{Tenant: "acme", Text: "batch"}, schemas.Name{Tenant: "acme", Text: "a/b, c"}
	before, err := c.ChangesOf(ctx, "", "acme", "batch", "a/b, c")
	if err != nil {
		t.Fatal(err)
	}
	server.SetOf(batch, schemas.Online)
	server.SetOf(batch, schemas.Away)
	server.SetVisibilityOf(hidden, schemas.Nobody)

	users, err := c.UsersOf(ctx, hidden, batch)
	if err != nil || len(users) != 2 || *users[0].Name != hidden || users[0].State != nil || *users[1].Name != batch || *users[1].State != presence.Away {
		t.Errorf("users %+v, %v", users, err)
	}
	one, err := c.OneOf(ctx, batch)
	if err != nil || *one.Name != batch || *one.State != presence.Away {
		t.Errorf("one %+v, %v", one, err)
	}
	if visibility, err := c.VisibilityOf(ctx, hidden); err != nil || visibility != "nobody" {
		t.Errorf("visibility %q, %v", visibility, err)
	}
	var history []string
	for change, err := range c.HistoryOf(ctx, batch, presence.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, change.To)
	}
	if !slices.Equal(history, []string{"away", "online"}) {
		t.Errorf("history %v", history)
	}
	after, err := c.ChangesOf(ctx, before.Cursor, "acme", "batch", "a/b, c")
	if err != nil || len(after.Changes) != 3 || *after.Changes[0].Name != batch || *after.Changes[2].Name != hidden {
		t.Errorf("changes %+v, %v", after, err)
	}

	if err := server.NotifyOf(ctx, batch, "bob", "eve"); err != nil {
		t.Fatal(err)
	}
	ends := deliveries.Run(ctx, deliveries.Config{Kafka: server.Kafka(), Name: "push", Instance: "push-1", FromStart: true,
		Log: slog.New(slog.DiscardHandler)}, deliveries.Func(func(_ context.Context, n schemas.Notice) error {
		names := slices.Sorted(slices.Values(n.Names))
		if n.Transition.Name != batch || !slices.Equal(names, []string{"bob", "eve"}) {
			t.Errorf("delivered %v to %v", n.Transition.Name, n.Names)
		}
		cancel()
		return nil
	}))
	if ends != nil {
		t.Error(ends)
	}
}

func TestAMethodOfTheOtherModePanics(t *testing.T) {
	t.Parallel()
	panics := func(do func()) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		do()
		return false
	}
	for what, start := range map[string]func() (*clienttest.Server, error){"ids": clienttest.Start, "names": clienttest.StartNamed} {
		server, err := start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		if byID := panics(func() { server.Set(1, schemas.Online) }); byID != (what == "names") {
			t.Errorf("%s: Set panics: %v", what, byID)
		}
		if byName := panics(func() { server.SetOf(schemas.Name{Text: "ann"}, schemas.Online) }); byName != (what == "ids") {
			t.Errorf("%s: SetOf panics: %v", what, byName)
		}
	}
}
