package bench

import (
	"errors"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
)

// everybody are settings under which nobody leaves while frames are being written:
// those of the design but for longer limits, which cost the same.
func everybody() liveness.Settings {
	s := liveness.Defaults()
	s.OnlineTTL, s.AwayTTL, s.IdleAfter = 10*time.Minute, 20*time.Minute, time.Hour
	return s
}

// leaving are settings under which a silent user is offline after the given time.
func leaving(after time.Duration) liveness.Settings {
	s := liveness.Defaults()
	s.OnlineTTL = (after * 2 / 3).Truncate(time.Millisecond)
	s.OfflineDebounce = after.Truncate(time.Millisecond) - s.OnlineTTL
	s.HeartbeatInterval = (s.OnlineTTL / 2).Truncate(time.Millisecond)
	s.AwayTTL = 0
	return s
}

// joined is errors.Join that leaves a single error as it is.
func joined(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	return errors.Join(err, other)
}
