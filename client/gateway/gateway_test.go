package gateway_test

import (
	"bytes"
	"context"
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

func TestAnEmbeddedGatewayWritesBeatsAndSaysThatItDrains(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	config := kafkatest.Start(t, identity.Users{}, 2)
	var log bytes.Buffer
	g, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: config.Brokers}, ID: "gw-1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	must.Do(t, err)
	reader := kafkatest.Reader(t, config)
	must.Do(t, g.Beat("1", "7", schemas.Mobile, 0))
	for written := false; !written; {
		err := reader.Read(ctx, schemas.Heartbeats, schemas.PartitionOf(1, 2), -1, -1, false, func(*schemas.Record) error {
			written = true
			return nil
		})
		must.Do(t, err)
	}
	must.Do(t, g.Close(ctx))
	beats, draining := 0, false
	err = reader.Read(ctx, schemas.Heartbeats, schemas.PartitionOf(1, 2), -1, -1, false, func(r *schemas.Record) error {
		var f schemas.Frame
		if err := f.Decode(r.Value); err != nil {
			return err
		}
		if string(f.Gateway) != "gw-1" {
			t.Errorf("a frame of gateway %q", f.Gateway)
		}
		beats += f.Rows()
		draining = f.Draining
		return nil
	})
	must.Do(t, err)
	if said := log.String(); !strings.Contains(said, "the gateway has drained") || !strings.Contains(said, "gateway=gw-1") || !strings.Contains(said, "devices=1 partitions=1") {
		t.Errorf("the log says %q, want a line on the drain", said)
	}
	if beats != 1 || !draining {
		t.Errorf("%d beats were written, want 1; the last frame says draining: %v, want true", beats, draining)
	}
}

func TestDialSaysWhichGatewayCouldNotConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := gateway.Dial(ctx, gateway.Config{Kafka: client.Kafka{Brokers: []string{"127.0.0.1:1"}}, ID: "gw-1"}); err == nil {
		t.Fatal("connected to nothing")
	}
}
