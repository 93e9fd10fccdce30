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
			f.versions = append(f.versions, c.Transition.Version)
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
