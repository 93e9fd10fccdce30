package publish_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/fanout/publish"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// flaky takes some changes and then fails, as a pipeline that is cut does.
type flaky struct {
	takes    []int // per call: how many before it fails
	versions []schemas.Version
	changes  []fanout.Change
}

var errCut = errors.New("cut")

func (f *flaky) Publish(_ context.Context, changes []fanout.Change) (sent int, err error) {
	take := len(changes)
	if len(f.takes) > 0 {
		take, f.takes = f.takes[0], f.takes[1:]
		err = errCut
	}
	for _, c := range changes[:take] {
		if !slices.Contains(f.versions, c.Transition.Version) {
			f.versions, f.changes = append(f.versions, c.Transition.Version), append(f.changes, c)
			sent++
		}
	}
	return sent, err
}

func batch(ts ...*schemas.Transition) (b stream.Batch[stream.Logged[*schemas.Transition]]) {
	for _, t := range ts {
		b.Items = append(b.Items, stream.Logged[*schemas.Transition]{Message: t})
	}
	return b
}

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	must.Do(t, c.Write(&m))
	return m.Counter.GetValue()
}

func transition(version int64, cause schemas.Cause, visibility schemas.Visibility) *schemas.Transition {
	return &schemas.Transition{User: 1, From: schemas.Online, To: schemas.Away, At: 1, Version: schemas.Version(version),
		Cause: cause, Visibility: visibility}
}

func TestOfAHiddenUserOnlyTheHidingIsPublished(t *testing.T) {
	t.Parallel()
	bus, metrics := &flaky{}, fanout.NewMetrics(nil)
	err := publish.New(bus, fanout.DefaultConfig(), metrics).Apply(t.Context(), batch(
		transition(1, schemas.Idle, schemas.Everyone),
		transition(2, schemas.VisibilityChange, schemas.Nobody),
		transition(3, schemas.ActiveAgain, schemas.Nobody),
		transition(4, schemas.Bye, schemas.Nobody),
		transition(5, schemas.VisibilityChange, schemas.Everyone),
		transition(6, schemas.FirstBeat, schemas.Everyone),
	))
	if err != nil || !slices.Equal(bus.versions, []schemas.Version{1, 2, 5, 6}) {
		t.Fatalf("%v, %v", bus.versions, err)
	}
	if n := value(t, metrics.Withheld); n != 2 {
		t.Errorf("withheld %v", n)
	}
}

// The nodes of viewers need the version of the list, also if it is all that has changed.
func TestAChangeOfTheListOfDeniedViewersIsPublishedWithoutTheList(t *testing.T) {
	t.Parallel()
	set := transition(7, schemas.AudienceSet, schemas.Everyone)
	set.From, set.Override.Audience, set.AudienceBefore = set.To, set.Version, 3
	set.Denies = must.Get(schemas.NewDenies("denies", 1, []schemas.UserID{2}, nil))(t)
	hidden := *set
	hidden.Version, hidden.Visibility = 8, schemas.Nobody
	for _, offline := range []bool{false, true} {
		bus, config := &flaky{}, fanout.DefaultConfig()
		config.HiddenOffline = offline
		must.Do(t, publish.New(bus, config, fanout.NewMetrics(nil)).Apply(t.Context(), batch(set, &hidden)))
		if len(bus.changes) != 1 {
			t.Fatalf("%d changes are published", len(bus.changes))
		}
		want := *set
		want.Denies, want.AudienceBefore = "", 0
		if got := *bus.changes[0].Transition; got != want {
			t.Errorf("published: %+v", got)
		}
	}
}

func TestABatchThatFailedIsPublishedByTryingAgain(t *testing.T) {
	t.Parallel()
	bus, metrics := &flaky{takes: []int{0, 2}}, fanout.NewMetrics(nil)
	h := publish.New(bus, fanout.DefaultConfig(), metrics)
	b := batch(transition(1, schemas.Idle, schemas.Everyone), transition(2, schemas.Idle, schemas.Everyone), transition(3, schemas.Idle, schemas.Everyone))
	for range 2 {
		if err := h.Apply(t.Context(), b); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	must.Do(t, h.Apply(t.Context(), b))
	if !slices.Equal(bus.versions, []schemas.Version{1, 2, 3}) {
		t.Fatalf("%v", bus.versions)
	}
	if p, s := value(t, metrics.Published), value(t, metrics.Superseded); p != 3 || s != 2 {
		t.Errorf("published %v, superseded %v", p, s)
	}
}
