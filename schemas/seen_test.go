package schemas

import (
	"errors"
	"testing"
)

func anySeen() *Seen {
	const at = Millis(1_763_700_100_000)
	return &Seen{At: at, Version: NewVersion(1, 1000, 0), Interval: 60_000,
		Counts:  &Counts{Online: 900, Away: 100, ByKind: [len(Kinds)]int64{0: 600, 2: 450}},
		Users:   []SeenUser{{User: 42, Devices: 1}, {User: 1<<63 - 1, Devices: 2}},
		Devices: []SeenDevice{{7, Mobile, Online, at - 2000}, {8, Web, Away, at}, {1<<32 - 1, Other, Online, at - 59_000}},
	}
}

func seenOfTenants() *Seen {
	s := anySeen()
	s.Tenants = []TenantCounts{{Tenant: "", Counts: Counts{Online: 500, ByKind: [len(Kinds)]int64{1: 500}}},
		{Tenant: "acme", Counts: Counts{Online: 200, Away: 100, ByKind: [len(Kinds)]int64{0: 300}}}}
	s.OtherTenants = &Counts{Online: 200, ByKind: [len(Kinds)]int64{2: 200}}
	return s
}

func TestCountsOfTenantsAreHeldToTheRules(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*Seen){
		"tenants[1]":        func(s *Seen) { s.Tenants[1].Tenant = "" },
		"tenants[1].tenant": func(s *Seen) { s.Tenants[1].Tenant = "a\x00b" },
		"tenants[0].counts": func(s *Seen) { s.Tenants[0].Away = -1 },
		"other_tenants":     func(s *Seen) { s.OtherTenants.Online = -1 },
		"tenants":           func(s *Seen) { s.Tenants = make([]TenantCounts, MaxSeenTenants+1) },
	} {
		s := seenOfTenants()
		spoil(s)
		_, err := DecodeSeen(s.Encode())
		var bad *FieldError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestADeviceIsNeverWrittenAsSeenLaterThanItWas(t *testing.T) {
	t.Parallel()
	for age := Millis(0); age < 3000; age += 7 {
		s := anySeen()
		for i := range s.Devices {
			s.Devices[i].At = s.At - age
		}
		got, err := DecodeSeen(s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if late := got.Devices[0].At - s.Devices[0].At; late > 0 || late <= -1000 {
			t.Fatalf("a heartbeat %d ms ago is read %d ms later", age, late)
		}
	}
}
