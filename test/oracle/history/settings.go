package history

import (
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
)

// grid is what most times are multiples of, milliseconds.
const grid = 250

// Settings are random valid settings. The same seed gives the same settings.
func Settings(seed uint64) liveness.Settings {
	return settings(&source{bytes: ofSeed(seed, seedBytes(seed))})
}

// settings are valid, and mostly so short that much happens.
func settings(s *source) liveness.Settings {
	set := liveness.Defaults()
	set.AnnounceDevices = !s.chance(4)
	if s.chance(5) {
		return set
	}
	steps := func(from, to int) time.Duration {
		return time.Duration(from+s.below(to-from+1)) * grid * time.Millisecond
	}
	set.HeartbeatInterval = grid * time.Millisecond
	set.OnlineTTL = steps(2, 12)
	set.OfflineDebounce = steps(0, 6)
	set.AwayTTL = one(s, 0, set.OnlineTTL+steps(0, 24))
	set.IdleAfter = one(s, 0, steps(1, 16))
	set.ByeDebounce = one(s, 0, 0, steps(1, 32))
	set.AllowedLateness = one(s, 250*time.Millisecond, 0, 1000*time.Millisecond)
	set.GatewaySilence = steps(2, 12)
	set.ReconnectWindow = steps(0, 16)
	set.CohortRate = one(s, 1, 2, 3, 7, 2000, 600_000)
	set.CohortTotalRate = one(s, 100_000, 100_000, 2)
	set.MaxDevices = one(s, 32, 1, 2, 3)
	set.FlapBurst = one(s, 20, 0, 1, 2, 3)
	set.FlapInterval = steps(1, 12)
	set.BreakerPercent = one(s, 30, 0)
	set.BreakerLimit = steps(4, 400)
	set.CoarseLastSeen = s.chance(6)
	return set
}
