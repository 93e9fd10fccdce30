package liveness

import (
	"slices"
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

// deny is the frame by which user 42 denies the viewers from one to another.
func deny(t *testing.T, from, through schemas.UserID) []byte {
	t.Helper()
	var viewers []schemas.UserID
	for viewer := from; viewer <= through; viewer++ {
		viewers = append(viewers, viewer)
	}
	d, err := schemas.NewDenies("", 42, viewers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return schemas.AppendDenies(nil, 42, d, schemas.Name{})
}

func TestAListOfDeniedViewersHasABound(t *testing.T) {
	t.Parallel()
	const at = schemas.Millis(1_763_700_000_000)
	m := private{T: t, Machine: New(Defaults(), 0, 1, 1, 0)}
	for i := range schemas.UserID(10) {
		if s := m.apply(at, deny(t, 1001+1000*i, 2000+1000*i)); len(s) != 1 || s[0].Override.Audience != schemas.NewVersion(1, m.offset-1, 0) {
			t.Fatalf("thousand %d: %+v", i, s)
		}
	}
	bytes := m.Bytes()
	if s := m.apply(at, deny(t, 11_000, 11_001)); len(s) != 0 || m.Counts().DeniesRefused != 1 {
		t.Errorf("the list may have 10,001 viewers: %+v", s)
	}
	if s := m.apply(at, deny(t, 1500, 1700)); len(s) != 0 || m.Counts().DeniesRefused != 1 {
		t.Errorf("viewers of the full list are denied again: %+v", s)
	}
	if n := len(m.denied[42].viewers); n != schemas.MaxDenied || bytes < 8*n {
		t.Errorf("%d viewers in %d bytes", n, bytes)
	}
	m.apply(at, schemas.AppendErasure(nil, 42, schemas.Name{}, at+1, 0, false))
	if len(m.denied) != 0 || len(m.overrides) != 0 {
		t.Errorf("of an erased user %d lists and %d choices are left", len(m.denied), len(m.overrides))
	}
}

// What others see of the user waits because the user changes too often; the denial does not.
func TestADenialDoesNotWaitAndPublishesNothingThatWaits(t *testing.T) {
	t.Parallel()
	const at = schemas.Millis(1_763_700_000_000)
	m := private{T: t, Machine: New(Defaults(), 0, 1, 1, 0)}
	beat := func(now schemas.Millis, bye bool) {
		m.apply(now, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: 42, Device: 7, Kind: schemas.Web, Bye: bye}}))
	}
	var waiting bool
	now := at
	for i := range 200 {
		now += 500
		beat(now, i%2 == 1)
		if v := m.View(42); v != nil && v.Waits && v.State == "online" {
			waiting = true
			break
		}
	}
	if !waiting {
		t.Fatal("no change waits")
	}
	var f schemas.Frame
	if err := f.Decode(deny(t, 7, 8)); err != nil {
		t.Fatal(err)
	}
	var out Output
	m.Apply(m.offset, now, &f, &out)
	if len(out.Transitions) != 1 || !m.View(42).Waits {
		t.Fatalf("the denial publishes %+v", out.Transitions)
	}
	tr := out.Transitions[0]
	add, remove := tr.Denies.Changes()
	if tr.Cause != schemas.AudienceSet || tr.From != schemas.Offline || tr.To != schemas.Offline || tr.Kinds != 0 || tr.LeftOut != 0 ||
		!slices.Equal(add, []schemas.UserID{7, 8}) || len(remove) != 0 || tr.Override.Audience != tr.Version || tr.AudienceBefore != 0 {
		t.Errorf("the denial is %+v", tr)
	}
}
