package sink_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/schemas"
)

func TestNamesOfTheTopicAreStoredUntilTheirTombstone(t *testing.T) {
	t.Parallel()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	durable, err := sqlitestore.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = durable.Close() }()
	users := identity.Named(identity.Key{1})
	id, decode := users.ID("acme", "ann"), sink.DecodeName(users)
	named := schemas.UserName{User: id, Name: schemas.Name{Tenant: "acme", Text: "ann"}}
	names := sink.NewNames(durable, lastseen.Defaults(), nil)
	for _, step := range []struct {
		value []byte
		known int
	}{{named.Encode(), 1}, {named.Encode(), 1}, {nil, 0}} {
		n, err := decode(&schemas.Record{Key: id.Key(), Value: step.value})
		if err != nil {
			t.Fatal(err)
		}
		if err := names.Apply(t.Context(), stream.Batch[schemas.UserName]{Items: []schemas.UserName{n}}); err != nil {
			t.Fatal(err)
		}
		if known, err := durable.Names(t.Context(), []schemas.UserID{id}); err != nil || len(known) != step.known || step.known == 1 && known[id] != named {
			t.Fatalf("after %q: %v, %v", step.value, known, err)
		}
	}
	other := named
	other.Name.Text = "eve"
	for want, r := range map[string]schemas.Record{
		"id_mismatch":      {Key: id.Key(), Value: other.Encode()},
		"invalid_argument": {Key: users.ID("", "eve").Key(), Value: named.Encode()},
	} {
		var bad *schemas.FieldError
		if _, err := decode(&r); !errors.As(err, &bad) || bad.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestASecondNameIsReportedUnlessTheDetectorKnows(t *testing.T) {
	t.Parallel()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	durable, err := sqlitestore.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = durable.Close() }()
	away := errors.New("Kafka is away")
	var reported []schemas.UserName
	fails := error(nil)
	names := sink.NewNames(durable, lastseen.Defaults(), func(_ context.Context, n schemas.UserName) error {
		reported = append(reported, n)
		return fails
	})
	ann, bob := schemas.Name{Tenant: "acme", Text: "ann"}, schemas.Name{Text: "bob"}
	apply := func(want int, records ...schemas.UserName) {
		t.Helper()
		reported = nil
		if err := names.Apply(t.Context(), stream.Batch[schemas.UserName]{Items: records}); !errors.Is(err, fails) {
			t.Error(err)
		}
		if len(reported) != want || want == 1 && reported[0] != (schemas.UserName{User: 7, Name: ann, Collided: true, Other: bob}) {
			t.Errorf("reported %v, want %d", reported, want)
		}
	}
	apply(0, schemas.UserName{User: 7, Name: ann}, schemas.UserName{User: 8, Name: bob})
	fails = away
	apply(1, schemas.UserName{User: 7, Name: bob})
	fails = nil
	apply(1, schemas.UserName{User: 7, Name: bob}) // as the consumer repeats it
	apply(0, schemas.UserName{User: 7, Name: ann, Collided: true, Other: bob})
	apply(0, schemas.UserName{User: 7}, schemas.UserName{User: 7, Name: bob})
	apply(0)
	hides := sink.Hides(schemas.UserName{User: 7, Name: ann, Other: bob}, 8)
	for i, name := range []schemas.Name{ann, bob} {
		var f schemas.Frame
		if err := f.Decode(hides[i].Value); err != nil || f.VisibilityUser != 7 || f.VisibilityName != name || f.Visibility != schemas.Nobody || hides[i].Partition != schemas.PartitionOf(7, 8) {
			t.Errorf("%+v, %v", f, err)
		}
	}
}
