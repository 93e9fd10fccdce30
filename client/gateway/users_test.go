package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// allocations is the least of several counts: the gateway's own goroutines, which write what is due, may allocate
// during some of them. A beat that allocates does so in all.
func allocations(beat func()) float64 {
	least := testing.AllocsPerRun(100, beat)
	for try := 1; try < 20 && least > 0; try++ {
		least = min(least, testing.AllocsPerRun(100, beat))
	}
	return least
}

// Not parallel: it counts allocations.
func TestAGatewayReportsUsersByNameWithTheKeyOfThePipelineAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	key := identity.NewKey()
	people := identity.Named(key)
	topics := kafkatest.Start(t, people, 1)
	dial := func(key string) (*gateway.Gateway, error) {
		return gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: topics.Brokers}, ID: "gw-1", IdentityKey: key})
	}
	for what, key := range map[string]string{"no key": "", "another key": identity.NewKey().Hex(), "no hexadecimals": "x"} {
		if _, err := dial(key); err == nil || !strings.Contains(err.Error(), "identity_key: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	g := must.Get(dial(key.Hex()))(t)
	acme := g.Tenant("acme")
	if err := acme.Beat("ann", "phone", schemas.Mobile, 0); err != nil {
		t.Error(err)
	}
	tab, err := g.Connect("bob", "tab 1", schemas.Web, 0)
	must.Do(t, err)
	if err := errors.Join(tab.Close(), acme.Bye("ann", "phone")); err != nil {
		t.Error(err)
	}
	if n := allocations(func() { _ = acme.Beat("ann", "tablet", schemas.Mobile, 0) }); n != 0 {
		t.Errorf("%v allocations in a beat", n)
	}
	for field, err := range map[string]error{
		"user: ":   g.Beat("", "phone", schemas.Mobile, 0),
		"tenant: ": g.Tenant("a/b").Beat("ann", "phone", schemas.Mobile, 0),
		"device: ": acme.Beat("ann", "", schemas.Mobile, 0),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s%v", field, err)
		}
	}
	must.Do(t, g.Close(ctx))
	reader := kafkatest.Reader(t, topics)
	named := map[schemas.Name]schemas.UserID{}
	err = reader.Read(ctx, schemas.Heartbeats, 0, -1, -1, false, func(r *schemas.Record) error {
		var f schemas.Frame
		if err := f.Decode(r.Value); err != nil {
			return err
		}
		var users []schemas.UserID
		rows := f.Beats()
		for beat := (schemas.Beat{}); rows.Next(&beat); {
			users = append(users, beat.User)
		}
		names := f.Names()
		for row := (schemas.NamedRow{}); names.Next(&row); {
			named[schemas.Name{Tenant: string(row.Tenant), Text: string(row.Name)}] = users[row.Row]
		}
		return nil
	})
	must.Do(t, err)
	if named[schemas.Name{Tenant: "acme", Text: "ann"}] != people.ID("acme", "ann") {
		t.Errorf("the names are %v", named)
	}
}

func TestWithoutAKeyUsersAreIntegersWithoutTenants(t *testing.T) { // not parallel: it counts allocations
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	topics := kafkatest.Start(t, identity.Users{}, 1)
	g, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: topics.Brokers}, ID: "gw-1", Log: slog.New(slog.DiscardHandler)})
	must.Do(t, err)
	for field, err := range map[string]error{
		"user: ":   g.Beat("ann", "7", schemas.Mobile, 0),
		"user:":    g.Bye("07", "7"),
		"device: ": g.Beat("42", "phone", schemas.Mobile, 0),
		"tenant: ": g.Tenant("acme").Bye("42", "7"),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s%v", field, err)
		}
	}
	if err := g.Beat("42", "7", schemas.Mobile, 0); err != nil {
		t.Error(err)
	}
	if n := allocations(func() { _ = g.Beat("42", "7", schemas.Mobile, 0) }); n != 0 {
		t.Errorf("%v allocations in a beat", n)
	}
	if err := g.Close(ctx); err != nil {
		t.Error(err)
	}
}
