//go:build unix

package process_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestAPipelineWithASchemaRegistryWritesItsHeadAndReadsItselfAlsoAfterASwitch(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	t.Cleanup(fake.Close)
	h := testkit.NewDev(t)
	h.Up()
	h.MustSend(testkit.Beat{User: 1, Device: 7})
	h.AllAre("online", []schemas.UserID{1}) // its transition has been written
	h.Stop()

	h.Flags = []string{"--schema-registry", fake.URL()}
	h.Up()
	h.AllAre("online", []schemas.UserID{1}) // restored from status records without a head
	h.MustSend(testkit.Beat{User: 2, Device: 7})
	h.AllAre("online", []schemas.UserID{2})
	client := must.Get(sr.NewClient(sr.URLs(fake.URL())))(t)
	for _, topic := range []schemas.Topic{schemas.Transitions, schemas.Statuses} {
		value := lastOf(h, topic, 2)
		schema := must.Get(client.SchemaByVersion(t.Context(), topic.Name(schemas.DefaultPrefix)+"-value", -1))(t)
		var head sr.ConfluentHeader
		id, rest, err := head.DecodeID(value)
		if err != nil || id != schema.ID {
			t.Errorf("%s: %x has id %d (%v), want %d", topic, value, id, err, schema.ID)
			continue
		}
		if path, _, err := head.DecodeIndex(rest, 3); err != nil || len(path) != 1 {
			t.Errorf("%s: the path in its file is %v (%v)", topic, path, err)
		}
		// A zero byte, the id, a 0 for the first message of the file; then the version of the message.
		want := fmt.Sprintf("00%08x000801", id)
		if topic == schemas.Transitions && !strings.HasPrefix(hex.EncodeToString(value), want) {
			t.Errorf("a transition is %x, want %s…", value, want)
		}
	}
	if value := lastOf(h, schemas.Heartbeats, 2); value[0] == 0 {
		t.Errorf("a frame has a head: %x", value)
	}
	if value := lastOf(h, schemas.Transitions, 1); value[0] == 0 {
		t.Errorf("what was written before has a head: %x", value)
	}
	h.Stop()

	h.Flags = nil
	h.Up()
	h.AllAre("online", []schemas.UserID{2}) // restored from status records with a head
	h.MustSend(testkit.Beat{User: 2, Device: 7, Bye: true})
	h.AllAre("offline", []schemas.UserID{2})
}

// lastOf is the last value of a user on a topic; of heartbeats, of anybody's beats.
func lastOf(h *testkit.Dev, topic schemas.Topic, user schemas.UserID) (value []byte) {
	h.Helper()
	err := h.Reader().Read(h.Context(), topic, schemas.PartitionOf(user, testkit.DevPartitions), -1, -1, true, func(r *schemas.Record) error {
		if topic == schemas.Heartbeats || string(r.Key) == string(user.Key()) {
			value = append(value[:0], r.Value...)
		}
		return nil
	})
	if err != nil || len(value) == 0 {
		h.Fatalf("%s has %x of user %d (%v)", topic, value, user, err)
	}
	return value
}
