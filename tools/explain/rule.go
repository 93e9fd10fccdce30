package explain

import "github.com/stillhere/stillhere/schemas"

// ruleOf is the rule of detector/DESIGN.md that a transition names by its cause, as a sentence.
func ruleOf(t *schemas.Transition) string {
	switch t.Cause {
	case schemas.FirstBeat:
		if t.To == schemas.Away {
			return "a beat of a user who was offline; nobody has touched the device of late, so that makes it away, not online"
		}
		return "a beat of a user who was offline: the user is online now"
	case schemas.ActiveAgain:
		return "a beat of a device that its person has touched of late makes a user online who was away"
	case schemas.Idle:
		return "a device is still there, but nobody has touched any of the user's devices for idle_after"
	case schemas.Silent:
		if t.From == schemas.Away && t.To == schemas.Offline {
			return "nothing was heard of a user who was already away, until away_ttl was over"
		}
		return "nothing was heard of any of the user's devices for online_ttl, nor within offline_debounce after that"
	case schemas.GatewayLost:
		return "the gateway of the device was lost (it came back as another process, or was silent for gateway_silence), and the device was not heard through any other within reconnect_window"
	case schemas.GatewayDrained:
		return "the gateway of the device said that it drains, and the device was not heard through any other within reconnect_window"
	case schemas.Bye:
		return "the user's last device said bye, and nothing else was heard for bye_debounce"
	case schemas.DeviceEvicted:
		return "the user has more devices than max_devices: the device with the oldest beat was evicted for another one"
	case schemas.DevicesChanged:
		return "the user stays " + schemas.StateWord(t.To) +
			", but the kinds of its live devices changed, or which of them are in use"
	case schemas.Erased:
		return "everything about the user was erased on request"
	case schemas.OverrideSet:
		return "the user asked to be shown as " + schemas.OverrideWord(t.Override.State)
	case schemas.OverrideOver:
		return "what the user asked to be shown as ended, or was withdrawn"
	case schemas.LastSeenSet:
		return "the user chose what others learn of last seen: with the policy it is " + schemas.LastSeenWord(t.Override.LastSeen)
	case schemas.AudienceSet:
		return "the user changed to which single viewers it looks hidden"
	case schemas.VisibilityChange:
		return "the user asked to be seen by " + schemas.VisibilityWord(t.Visibility) + ", or invisibility by an override began or ended"
	}
	return "of a cause that this program does not know"
}
