package scenarios

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/oracle"
	"github.com/stillhere/stillhere/test/oracle/history"
)

// One user's beats of ever new devices must not hold up a partition. Each looks at all devices that the policy
// allows; comparing each with each would make four times as many cost sixteen times as much.
func TestABeatOfAUserWithTooManyDevicesCostsInProportionToTheAllowedOnes(t *testing.T) {
	cost := func(allowed int) (least time.Duration) {
		settings := liveness.Defaults()
		settings.MaxDevices = allowed
		var h log
		beats := make([]schemas.Beat, 1000)
		for frame := range 10 {
			for i := range beats {
				beats[i] = schemas.Beat{User: 1, Device: schemas.DeviceID(1000*frame + i + 1), Kind: schemas.Web}
			}
			h.append(schemas.AppendFrame(nil, schemas.FrameHead{}, beats))
		}
		for try := range 5 {
			begun := time.Now()
			history.Machine(oracle.Log{Policy: settings, Partitions: 1, LogEpoch: 1, Records: h.records})
			if took := time.Since(begun); try == 0 || took < least {
				least = took
			}
		}
		return least
	}
	if few, many := cost(16), cost(64); many > 5*few {
		t.Errorf("10,000 beats of a user with 16 devices take %s, with 64 %s", few, many)
	}
}
