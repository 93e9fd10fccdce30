package schemas

import "time"

// Bounds of the epoch of a gateway, from the instant at which somebody looks at it.
const (
	oldestEpoch = Millis(10 * 365 * 24 * time.Hour / time.Millisecond)
	newestEpoch = Millis(24 * time.Hour / time.Millisecond)
)

// AnyProcess is the epoch of a gateway that does not tell its processes apart.
const AnyProcess Millis = 1

// CheckEpoch reports an epoch that no gateway has at an instant: one in seconds, or in the far future, which would
// make every later epoch of the gateway an old one. A clock may be wrong by a day.
func CheckEpoch(field string, epoch, at Millis) error {
	if epoch != AnyProcess && (epoch < at-oldestEpoch || epoch > at+newestEpoch) {
		return Invalid(field, "must be when the gateway started, in Unix milliseconds: is "+epoch.String()+" at "+at.String())
	}
	return nil
}

// CheckEpoch is CheckEpoch for a frame that was appended at an instant; nil if it names no process of a gateway.
func (f *Frame) CheckEpoch(at Millis) error {
	if len(f.Gateway) == 0 || f.GatewayEpoch == 0 {
		return nil
	}
	return CheckEpoch("gateway_epoch_ms", f.GatewayEpoch, at)
}
