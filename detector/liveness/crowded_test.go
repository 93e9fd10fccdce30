package liveness

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// One user's beats of ever new devices must not hold up a partition. Each looks at all devices that the policy
// allows; comparing each with each would make four times as many cost sixteen times as much.
func TestABeatOfAUserWithTooManyDevicesCostsInProportionToTheAllowedOnes(t *testing.T) {
	cost := func(allowed int) (least time.Duration) {
		s := Defaults()
		s.MaxDevices = allowed
		w := newWorld(t, s)
		beats := make([]schemas.Beat, 1000)
		device := schemas.DeviceID(0)
		for round := range 12 {
			for i := range beats {
				device++
				beats[i] = schemas.Beat{User: 1, Device: device, Kind: schemas.Web}
			}
			begun := time.Now()
			w.beats(beats...)
			if took := time.Since(begun); round == 1 || round > 1 && took < least { // the first fills the places
				least = took
			}
			w.out.Reset()
		}
		return least
	}
	few, many := cost(16), cost(64)
	t.Logf("a thousand beats of a user with 16 devices take %s, with 64 %s", few, many)
	if many > 5*few {
		t.Errorf("with four times the devices a thousand beats take %s instead of %s", many, few)
	}
}
