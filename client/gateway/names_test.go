package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/schemas"
)

// Not parallel: it counts allocations.
func TestAGatewayReportsUsersByNameWithTheKeyOfThePipelineAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cluster, err := embedded.StartKafka(embedded.KafkaConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	key := identity.NewKey()
	people := identity.Named(key)
	topics := kafka.Config{Brokers: cluster.Addrs(), Users: people}
	if _, err := admin.ApplyTopics(ctx, topics, 1, 1); err != nil {
		t.Fatal(err)
	}
	dial := func(key string) (*gateway.Gateway, error) {
		return gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: cluster.Addrs()}, ID: "gw-1", IdentityKey: key})
	}
	for what, key := range map[string]string{"no key": "", "another key": identity.NewKey().Hex(), "no hexadecimals": "x"} {
		if _, err := dial(key); err == nil || !strings.Contains(err.Error(), "identity_key: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	g, err := dial(key.Hex())
	if err != nil {
		t.Fatal(err)
	}
	ann := schemas.Name{Tenant: "acme", Text: "ann"}
	if err := g.BeatAs(ann, "phone", schemas.Mobile, 0); err != nil {
		t.Error(err)
	}
	tab, err := g.ConnectAs(schemas.Name{Text: "bob"}, "tab 1", schemas.Web, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tab.Bye(), g.ByeAs(ann, "phone")); err != nil {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = g.BeatAs(ann, "tablet", schemas.Mobile, 0) }); n > 1 {
		t.Errorf("%v allocations in a beat", n)
	}
	for field, err := range map[string]error{
		"user: ":   g.Beat(1, 7, schemas.Mobile, 0),
		"user:":    g.BeatAs(schemas.Name{}, "phone", schemas.Mobile, 0),
		"tenant: ": g.BeatAs(schemas.Name{Tenant: "a/b", Text: "ann"}, "phone", schemas.Mobile, 0),
		"device: ": g.BeatAs(ann, "", schemas.Mobile, 0),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s%v", field, err)
		}
	}
	if err := g.Close(ctx); err != nil {
		t.Fatal(err)
	}
	reader, err := kafka.NewReader(topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
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
	if err != nil {
		t.Fatal(err)
	}
	if named[ann] != people.ID("acme", "ann") {
		t.Errorf("the names are %v", named)
	}
}

func TestWithoutAKeyAGatewayKnowsNoNames(t *testing.T) {
	t.Parallel()
	var g gateway.Gateway
	for what, err := range map[string]error{"beat": g.BeatAs(schemas.Name{Text: "ann"}, "a", schemas.Mobile, 0), "bye": g.ByeAs(schemas.Name{Text: "ann"}, "a")} {
		if err == nil || !strings.HasPrefix(err.Error(), "user: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
