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
	const batch, hidden = "batch", "a/b, c"
	c, acme := c.Tenant("acme"), server.Tenant("acme")
	before, err := c.Changes(ctx, "", batch, hidden)
	if err != nil {
		t.Fatal(err)
	}
	acme.Set(batch, schemas.Online)
	acme.Set(batch, schemas.Away)
	acme.SetVisibility(hidden, schemas.Nobody)

	users, err := c.Users(ctx, hidden, batch)
	if err != nil || len(users) != 2 || users[0].UserID != hidden || users[0].State != nil || users[1].UserID != batch || *users[1].State != presence.Away {
		t.Errorf("users %+v, %v", users, err)
	}
	one, err := c.One(ctx, batch)
	if err != nil || one.UserID != batch || one.Tenant != "acme" || *one.State != presence.Away {
		t.Errorf("one %+v, %v", one, err)
	}
	if visibility, err := c.Visibility(ctx, hidden); err != nil || visibility != "nobody" {
		t.Errorf("visibility %q, %v", visibility, err)
	}
	var history []string
	for change, err := range c.History(ctx, batch, presence.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, change.To)
	}
	if !slices.Equal(history, []string{"away", "online"}) {
		t.Errorf("history %v", history)
	}
	after, err := c.Changes(ctx, before.Cursor, batch, hidden)
	if err != nil || len(after.Changes) != 3 || after.Changes[0].UserID != batch || after.Changes[2].UserID != hidden {
		t.Errorf("changes %+v, %v", after, err)
	}

	if err := acme.Notify(ctx, batch, "bob", "eve"); err != nil {
		t.Fatal(err)
	}
	ends := deliveries.Run(ctx, deliveries.Config{Kafka: server.Kafka(), Name: "push", Instance: "push-1", FromStart: true,
		Log: slog.New(slog.DiscardHandler)}, deliveries.Func(func(_ context.Context, n schemas.Notice) error {
		names := slices.Sorted(slices.Values(n.Recipients))
		if n.User.Text != batch || !slices.Equal(names, []string{"bob", "eve"}) {
			t.Errorf("delivered %v to %v", n.User, n.Recipients)
		}
		cancel()
		return nil
	}))
	if ends != nil {
		t.Error(ends)
	}
}

func TestATextThatIsNoUserPanics(t *testing.T) {
	t.Parallel()
	server, err := clienttest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	defer func() {
		if recover() == nil {
			t.Error("ann is an integer")
		}
	}()
	server.Set("ann", schemas.Online)
}
