package redisview

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/internal/testkit/redistest"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

func device(id schemas.DeviceID, at schemas.Millis) Device {
	return Device{SeenDevice: schemas.SeenDevice{Device: id, Kind: schemas.Mobile, State: schemas.Online, At: at}, Since: at}
}

func seenOf(tb testing.TB, v *View, user schemas.UserID) Seen {
	tb.Helper()
	all := must.Get(v.Seen(tb.Context(), []schemas.UserID{999, user}))(tb)
	return all[1]
}

func TestOfTwoRowsOfAUserTheNewerStaysWhateverTheirOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		older := Seen{User: 1, At: 1000, Version: 1 << 12, Interval: 60_000, Devices: []Device{device(7, 900)}}
		newer := Seen{User: 1, At: 2000, Version: 2 << 12, Interval: 60_000, Devices: []Device{device(8, 1900)}}
		for i, write := range []struct {
			row     Seen
			written int
		}{{newer, 1}, {older, 0}, {newer, 0}} {
			written := must.Get(v.WriteSeen(t.Context(), []Seen{write.row}))(t)
			got := seenOf(t, v, 1)
			if written != write.written || !reflect.DeepEqual(got, newer) {
				t.Errorf("write %d: %d written, Redis has %+v, want %+v", i, written, got, newer)
			}
		}
	})
}

func TestADeviceIsPresentSinceItsFirstRow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		for _, row := range []Seen{
			{User: 1, At: 1000, Version: 1, Devices: []Device{device(7, 900), device(8, 950)}},
			{User: 1, At: 2000, Version: 2, Devices: []Device{device(6, 1700), device(8, 1800), device(7, 1900)}},
		} {
			must.Get(v.WriteSeen(t.Context(), []Seen{row}))(t)
		}
		got := seenOf(t, v, 1)
		since := map[schemas.DeviceID]schemas.Millis{}
		for _, d := range got.Devices {
			since[d.Device] = d.Since
		}
		if want := (map[schemas.DeviceID]schemas.Millis{6: 1700, 7: 900, 8: 950}); !reflect.DeepEqual(since, want) || got.LastSeen() != 1900 {
			t.Errorf("since %v, want %v; last seen %d", since, want, got.LastSeen())
		}
	})
}

func TestARowOfAUserWhoIsOfflineOrHiddenByANewerVersionIsNotWritten(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		row := Seen{At: 1000, Version: 5, Devices: []Device{device(7, 900)}}
		for i, c := range []struct {
			entry   schemas.Current
			written int
		}{
			{schemas.Current{State: schemas.Offline, Visibility: schemas.Everyone, Version: 6}, 0},
			{schemas.Current{State: schemas.Online, Visibility: schemas.Nobody, Version: 6, Hidden: 6}, 0},
			{schemas.Current{State: schemas.Online, Visibility: schemas.Everyone, Version: 6}, 1},
			{schemas.Current{State: schemas.Offline, Visibility: schemas.Everyone, Version: 4}, 1},
		} {
			c.entry.User, c.entry.Since, row.User = schemas.UserID(i+1), 1, schemas.UserID(i+1)
			_, err := v.Write(t.Context(), 1, []store.Update{{Current: c.entry, SinceKnown: true, HiddenKnown: true, TimesKnown: true}})
			must.Do(t, err)
			written := must.Get(v.WriteSeen(t.Context(), []Seen{row}))(t)
			if written != c.written {
				t.Errorf("%+v: %d written, want %d", c.entry, written, c.written)
			}
		}
	})
}

func TestAnErasureTakesTheRowOfTheUserAndRefusesOlderOnes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		row := Seen{User: 7, At: 1000, Version: 5, Devices: []Device{device(7, 900)}}
		erased := &schemas.Transition{User: 7, From: schemas.Online, To: schemas.Offline, At: 2000, Cause: schemas.Erased,
			Visibility: schemas.Everyone, Version: 6, ErasedUntil: 3000}
		for _, want := range []int{1, 0} { // before and after
			written := must.Get(v.WriteSeen(t.Context(), []Seen{row}))(t)
			if written != want {
				t.Errorf("%d rows written, want %d", written, want)
			}
			must.Get(v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{erased})))(t)
			left := must.Get(v.Seen(t.Context(), []schemas.UserID{7}))(t)
			if left[0].At != 0 || len(left[0].Devices) != 0 {
				t.Errorf("after the erasure there is %+v", left[0])
			}
		}
	})
}

func TestARowComesBackFromItsStoredForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		instant := rapid.Custom(func(t *rapid.T) schemas.Millis { return schemas.Millis(rapid.Int64Range(1, 1<<47-1).Draw(t, "ms")) })
		want := Seen{User: 5, At: instant.Draw(t, "at"), Version: schemas.Version(rapid.Int64Min(1).Draw(t, "version")),
			Interval: schemas.Millis(rapid.Int64Range(0, 1<<32-1).Draw(t, "interval"))}
		for range rapid.IntRange(0, 4).Draw(t, "devices") {
			want.Devices = append(want.Devices, Device{Since: instant.Draw(t, "since"), SeenDevice: schemas.SeenDevice{
				Device: schemas.DeviceID(rapid.Uint32().Draw(t, "id")), Kind: rapid.SampledFrom(schemas.Kinds[:]).Draw(t, "kind"),
				State: rapid.SampledFrom(schemas.States[:]).Draw(t, "state"), At: instant.Draw(t, "seen")}})
		}
		if got := parseSeen(5, appendSeen(nil, &want)); !reflect.DeepEqual(got, want) {
			t.Fatalf("read as %+v, want %+v", got, want)
		}
	})
}

func FuzzParseSeen(f *testing.F) {
	f.Add([]byte("1"))
	f.Add(appendSeen(nil, &Seen{User: 5, At: 1000, Version: 1, Devices: []Device{device(7, 900)}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s := parseSeen(5, text); s.User != 0 && !reflect.DeepEqual(parseSeen(5, appendSeen(nil, &s)), s) {
			t.Errorf("%q is read as %+v", text, s)
		}
	})
}

func TestOlderCountsOfAPartitionDoNotReplaceNewerOnes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		newer := PartitionCounts{At: 2000, Counts: schemas.Counts{Online: 10, Away: 3, ByKind: [5]int64{1, 2, 3, 4, 5}}}
		older := PartitionCounts{At: 1000, Counts: schemas.Counts{Online: 7}}
		for _, c := range []PartitionCounts{newer, older} {
			must.Do(t, v.WriteCounts(t.Context(), 3, c))
		}
		must.Do(t, v.WriteCounts(t.Context(), 4, older))
		got := must.Get(v.Counts(t.Context()))(t)
		if want := (map[int32]PartitionCounts{3: newer, 4: older}); !reflect.DeepEqual(got, want) {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	})
}

func TestTheCountsOfATenantAreTheNewestOfEachPartitionAndUnknownBeyondTheLargest(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		v := open(t, server)
		acme := schemas.Counts{Online: 10, Away: 3, ByKind: [5]int64{1, 2, 3, 4, 5}}
		own := schemas.Counts{Online: 1}
		newer := TenantCounts{At: 2000, Tenants: []schemas.TenantCounts{{Tenant: "acme", Counts: acme}, {Tenant: "", Counts: own}}}
		older := TenantCounts{At: 1000, Tenants: []schemas.TenantCounts{{Tenant: "old", Counts: acme}}}
		more := TenantCounts{At: 3000, Others: &schemas.Counts{Away: 7}, Tenants: []schemas.TenantCounts{{Tenant: "acme", Counts: own}}}
		must.Do(t, v.WriteTenantCounts(t.Context(), 0, older)) // "old" has no users any more by the newer one
		must.Do(t, v.WriteTenantCounts(t.Context(), 0, newer))
		must.Do(t, v.WriteTenantCounts(t.Context(), 0, older))
		must.Do(t, v.WriteTenantCounts(t.Context(), 1, more))
		must.Do(t, v.WriteTenantCounts(t.Context(), 2, TenantCounts{At: 4000}))
		for tenant, want := range map[string]map[int32]PartitionCounts{
			"acme": {0: {At: 2000, Counts: acme}, 1: {At: 3000, Counts: own}, 2: {At: 4000}},
			"":     {0: {At: 2000, Counts: own}, 2: {At: 4000}},
			"old":  {0: {At: 2000}, 2: {At: 4000}},
		} {
			got, err := v.CountsOfTenant(t.Context(), tenant, 4)
			if must.Do(t, err); !reflect.DeepEqual(got, want) {
				t.Errorf("tenant %q: %+v, want %+v", tenant, got, want)
			}
		}
		got := must.Get(v.TenantCounts(t.Context(), 4))(t)
		for _, c := range got {
			slices.SortFunc(c.Tenants, func(a, b schemas.TenantCounts) int { return strings.Compare(b.Tenant, a.Tenant) })
		}
		if want := (map[int32]TenantCounts{0: newer, 1: more, 2: {At: 4000}}); !reflect.DeepEqual(got, want) {
			t.Errorf("all are %+v, want %+v", got, want)
		}
	})
}

func TestADeviceThatCameBackIsNotPresentSinceBeforeItsUserWasOffline(t *testing.T) {
	t.Parallel()
	v := open(t, redistest.Mini(t))
	const start schemas.Millis = 1795168800000
	change := func(from, to schemas.State, version schemas.Version, at schemas.Millis) {
		_, err := v.Write(t.Context(), 1, store.Fold([]*schemas.Transition{{User: 1, From: from, To: to, At: at, LastSeen: at, LastActive: at,
			Cause: schemas.FirstBeat, Device: 7, Kinds: schemas.SetOfKinds(schemas.Mobile), Visibility: schemas.Everyone, Version: version, Policy: "p-1"}}))
		must.Do(t, err)
	}
	row := func(version schemas.Version, at schemas.Millis) {
		_, err := v.WriteSeen(t.Context(), []Seen{{User: 1, At: at, Version: version, Interval: 60_000, Devices: []Device{device(7, at)}}})
		must.Do(t, err)
	}
	change(schemas.Offline, schemas.Online, 1<<12, start)
	row(2<<12, start+1000)
	change(schemas.Online, schemas.Offline, 3<<12, start+60_000)
	change(schemas.Offline, schemas.Online, 4<<12, start+600_000)
	row(5<<12, start+601_000)
	if got := seenOf(t, v, 1); len(got.Devices) != 1 || got.Devices[0].Since != start+601_000 {
		t.Errorf("the device is present since %s, but its user was offline from %s to %s", got.Devices[0].Since, start+60_000, start+600_000)
	}
}
