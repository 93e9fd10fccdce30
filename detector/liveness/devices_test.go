package liveness

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhere/stillhere/schemas"
)

func TestDevicesAreCountedAlikeHoweverMany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u, g, newest := new(user), new(gateways), map[schemas.DeviceID]schemas.Millis{}
		lives := rapid.IntRange(1, 4).Draw(t, "lives")
		for i := range rapid.IntRange(0, 300).Draw(t, "reports") {
			r := report{device: schemas.DeviceID(rapid.IntRange(0, 80).Draw(t, "device")),
				bye:  rapid.Bool().Draw(t, "bye"),
				seen: schemas.Millis(rapid.IntRange(1, 9).Draw(t, "seen")), life: uint16(i % lives)}
			if !r.bye && u.index(r.device, r.life) >= 0 {
				continue
			}
			if u.reports = append(u.reports, r); !r.bye && r.device != 0 {
				newest[r.device] = max(newest[r.device], r.seen)
			}
		}
		n, oldest, seen := u.devices(g, all)
		if at, known := newest[oldest]; n != len(newest) || known != (n > 0) || at != seen {
			t.Fatalf("counted %d devices, the oldest %d at %d, want %d", n, oldest, seen, len(newest))
		}
		for device, at := range newest {
			if at < seen || at == seen && device < oldest {
				t.Fatalf("%d at %d is the oldest, not %d at %d", oldest, seen, device, at)
			}
		}
	})
}
