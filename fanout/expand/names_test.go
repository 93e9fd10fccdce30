package expand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// calls names every user but 14.
type calls struct{ fail error }

func (c *calls) Names(_ context.Context, users []schemas.UserID) (graph.Names, error) {
	names := graph.Names{}
	for _, user := range users {
		if user != 14 {
			names[user] = schemas.Name{Text: fmt.Sprint("user ", user)}
		}
	}
	return names, c.fail
}

// receivers counts for each recipient the deliveries that have its name.
func receivers(t *testing.T, names Names, everyone bool) map[schemas.UserID]int {
	t.Helper()
	s := newStage(t)
	s.Names, s.Config.Everyone = names, everyone
	got := map[schemas.UserID]int{}
	for _, record := range s.work(t, s.plan(t, s.comes(small), s.comes(star))) {
		d := must.Get(schemas.DecodeDelivery(record.Value))(t)
		for i, id := range d.Recipients {
			if names != nil && d.Names[i] != fmt.Sprint("user ", id) {
				t.Fatalf("%d is called %q", id, d.Names[i])
			}
			got[id]++
		}
	}
	return got
}

func TestDeliveriesHaveTheNamesOfTheirRecipients(t *testing.T) {
	t.Parallel()
	for _, everyone := range []bool{false, true} {
		want := receivers(t, nil, everyone)
		delete(want, 14)
		if got := receivers(t, &calls{}, everyone); len(got) < 1000 || !maps.Equal(got, want) {
			t.Errorf("everyone %t: %d recipients, %d without names", everyone, len(got), len(want))
		}
	}
}

func TestABatchWhoseNamesCannotBeReadIsPlannedWhenItComesAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	names := &calls{fail: errors.New("the store is away")}
	s.Names, s.Config.Gap = names, Defaults().Gap
	change := s.comes(small)
	record := []schemas.Record{{Time: change.At, Key: change.User.Key(), Value: change.Encode()}}
	var out stream.Outbox
	if err := s.planner.HandleBatch(t.Context(), record, &out); !errors.Is(err, names.fail) {
		t.Fatal(err)
	}
	names.fail, out = nil, stream.Outbox{}
	if err := s.planner.HandleBatch(t.Context(), record, &out); err != nil || len(out.Records) == 0 {
		t.Errorf("%d records, %v", len(out.Records), err)
	}
}

func TestFollowersOfAUserWithTheSameIDReceiveNothing(t *testing.T) {
	t.Parallel()
	for _, user := range []schemas.UserID{small, star} {
		for name, want := range map[string]bool{fmt.Sprint("user ", user): true, "eve": false, "": true} {
			s := newStage(t)
			s.Names = &calls{}
			change := s.comes(user)
			change.Name.Text = name
			if got := s.plan(t, change); (len(got) > 0) != want {
				t.Errorf("%d records for user %d when %q has changed", len(got), user, name)
			}
		}
	}
}
