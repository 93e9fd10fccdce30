package liveness

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/schemas"
)

func TestDevicesAreCountedAlikeHoweverMany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u, g := new(user), new(gateways)
		for range rapid.IntRange(0, 128).Draw(t, "reports") {
			u.reports = append(u.reports, report{device: schemas.DeviceID(rapid.IntRange(0, 80).Draw(t, "device")),
				bye: rapid.Bool().Draw(t, "bye"), seen: schemas.Millis(rapid.IntRange(1, 9).Draw(t, "seen"))})
		}
		n, oldest, seen := u.devices(g, all)
		if wantN, wantOldest, wantSeen := u.manyDevices(g, all); n != wantN || oldest != wantOldest || seen != wantSeen {
			t.Fatalf("counted %d, %d at %d, want %d, %d at %d", n, oldest, seen, wantN, wantOldest, wantSeen)
		}
	})
}
