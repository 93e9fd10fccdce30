package sink_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/schemas"
)

func TestNamesOfTheTopicAreStoredUntilTheirTombstone(t *testing.T) {
	t.Parallel()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "s.db")
	durable := must.Get(sqlitestore.Open(t.Context(), config))(t)
	defer func() { _ = durable.Close() }()
	users := identity.Named(identity.Key{1})
	id, decode := users.ID("acme", "ann"), sink.DecodeName(users)
	named := schemas.UserName{User: id, Name: schemas.Name{Tenant: "acme", Text: "ann"}}
	names := sink.NewNames(durable, lastseen.Defaults())
	for _, step := range []struct {
		value []byte
		known int
	}{{named.Encode(), 1}, {named.Encode(), 1}, {nil, 0}} {
		n := must.Get(decode(&schemas.Record{Key: id.Key(), Value: step.value}))(t)
		must.Do(t, names.Apply(t.Context(), stream.Batch[schemas.UserName]{Items: []schemas.UserName{n}}))
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
