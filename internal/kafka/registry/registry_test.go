package registry

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestTheSchemasOfAllTopicsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	t.Cleanup(fake.Close)
	first := must.Get(Register(t.Context(), fake.URL(), "presence."))(t)
	again, err := Register(t.Context(), fake.URL(), "presence.")
	if err != nil || !slices.Equal(first, again) {
		t.Errorf("registered again: %v (%v), want %v", again, err, first)
	}
	client := must.Get(sr.NewClient(sr.URLs(fake.URL())))(t)
	for _, subject := range []string{"presence.heartbeats-value", "presence.transitions-value", "presence.status-value", "presence.deliveries-value"} {
		kept, err := client.SchemaByVersion(t.Context(), subject, -1)
		if err != nil || kept.Type != sr.TypeProtobuf || !strings.Contains(kept.Schema.Schema, "package stillhere.v1;") {
			t.Errorf("%s: %v, %+v", subject, err, kept.Type)
		}
	}
}

func TestWhatAClientOfTheRegistryFramesIsRead(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	t.Cleanup(fake.Close)
	registered := must.Get(Register(t.Context(), fake.URL(), "presence."))(t)
	i := slices.IndexFunc(registered, func(r Registered) bool { return r.Subject == "presence.transitions-value" })
	change := schemas.Transition{User: 42, From: schemas.Offline, To: schemas.Online, At: 5, Visibility: schemas.Everyone, Version: 7}
	for _, path := range [][]int{{0}, {1}, {2, 1}} { // the first message has a short form
		var head sr.ConfluentHeader
		value := must.Get(head.AppendEncode(nil, registered[i].ID, path))(t)
		if id := binary.BigEndian.Uint32(value[1:]); int(id) != registered[i].ID {
			t.Errorf("id %d", id)
		}
		got, err := schemas.DecodeTransition(append(value, change.Encode()...))
		if err != nil || *got != change {
			t.Errorf("path %v: %+v (%v)", path, got, err)
		}
	}
}

func TestARegistryThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	url := fake.URL()
	fake.Close()
	if _, err := Register(t.Context(), url, "presence."); err == nil || !strings.HasPrefix(err.Error(), "schema registry: registering stillhere/v1/frame.proto") {
		t.Errorf("error %v", err)
	}
}

func TestHeadsAreThoseOfWhatWasRegisteredAndNothingIsRegisteredForThem(t *testing.T) {
	t.Parallel()
	fake := srfake.New()
	t.Cleanup(fake.Close)
	if _, err := ValueHeaders(t.Context(), fake.URL(), "presence."); err == nil || !strings.Contains(err.Error(), `run "stillhere topics apply --schema-registry URL" first`) {
		t.Errorf("before: %v", err)
	}
	registered := must.Get(Register(t.Context(), fake.URL(), "presence."))(t)
	heads := must.Get(ValueHeaders(t.Context(), fake.URL(), "presence."))(t)
	// The golden part: Transition is the first message of its file, Status the second,
	// Delivery the second of its own; paths are zigzag with their length before them.
	paths := map[schemas.Topic]string{schemas.Transitions: "\x00", schemas.Statuses: "\x02\x02", schemas.Deliveries: "\x02\x02"}
	for topic, path := range paths {
		i := slices.IndexFunc(registered, func(r Registered) bool { return r.Subject == topic.Name("presence.")+"-value" })
		want := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(registered[i].ID))) + path
		if got := string(heads[topic]); got != want {
			t.Errorf("%s: %x, want %x", topic, got, want)
		}
	}
	if len(heads) != len(paths) {
		t.Errorf("there are %d heads", len(heads))
	}
	status := schemas.Status{User: 42, State: schemas.Online, Visibility: schemas.Everyone, Version: 7}
	got, err := schemas.DecodeStatus(append(heads[schemas.Statuses], status.Encode()...))
	if err != nil || got.User != 42 {
		t.Errorf("read: %+v (%v)", got, err)
	}
}

func TestAnAddressThatIsNoURLIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"registry:8081", "ftp://registry", "http://", "%"} {
		if _, err := ValueHeaders(t.Context(), address, "presence."); err == nil || !strings.Contains(err.Error(), "must be like https://") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
