package explain

import (
	"fmt"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/schemas"
)

// Rule is the rule of detector/DESIGN.md by which the detector decided.
type Rule struct {
	// Words are the rule as a sentence.
	Words string `json:"words"`
	// Limit is true if only time decided, not a report.
	Limit bool `json:"limit"`
	// Timer is the limit that was reached, where time decided.
	Timer string `json:"timer,omitempty"`
	// Sum is how At came about; empty when it is simply the report's own time, or
	// when the settings are not known.
	Sum []Term `json:"sum,omitempty"`
	// Rest is how much later than the sum the change was, and RestWords why that
	// can be.
	Rest      string `json:"rest,omitempty"`
	RestWords string `json:"rest_words,omitempty"`
	// Noticed is how it came to be decided at that very record.
	Noticed string `json:"noticed,omitempty"`
}

// Term is a part of the sum: the instant it begins with, or a setting added.
type Term struct {
	Name string         `json:"name"`
	At   schemas.Millis `json:"at,omitzero"`
	Add  string         `json:"add,omitempty"`
	add  time.Duration
}

// ruleOf finds it. known says whether s are the settings that were in force.
func ruleOf(t *schemas.Transition, record *Record, s liveness.Settings, known bool) Rule {
	reported := reports(record, t)
	var r Rule
	silence := []Term{{Name: "last beat", At: t.LastSeen}, setting("online_ttl", s.OnlineTTL), setting("offline_debounce", s.OfflineDebounce)}
	switch t.Cause {
	case schemas.FirstBeat:
		r.Words = "a beat of a user who was offline: the user is online now"
		if t.To == schemas.Away {
			r.Words = "a beat of a user who was offline; nobody has touched the device of late, so that makes it away, not online"
		}
	case schemas.ActiveAgain:
		r.Words = "a beat of a device that its person has touched of late makes a user online who was away"
	case schemas.Idle:
		r.Words = "a device is still there, but nobody has touched any of the user's devices for idle_after"
		if !reported {
			r.Limit, r.Sum = true, []Term{{Name: "last touch", At: t.LastActive}, setting("idle_after", s.IdleAfter)}
		}
	case schemas.Silent:
		r.Limit = true
		if t.To == schemas.Offline && s.AwayTTL > s.OnlineTTL+s.OfflineDebounce {
			r.Words = "nothing was heard of a user who was already away, until away_ttl was over"
			r.Sum = []Term{{Name: "last beat", At: t.LastSeen}, setting("away_ttl", s.AwayTTL)}
		} else {
			r.Words = "nothing was heard of any of the user's devices for online_ttl, nor within offline_debounce after that"
			r.Sum = silence
		}
	case schemas.GatewayLost, schemas.GatewayDrained:
		r.Words, r.Limit = "the gateway of the device was lost (it came back as another process, or was silent for gateway_silence), and the device was not heard through any other within reconnect_window", true
		if t.Cause == schemas.GatewayDrained {
			r.Words = "the gateway of the device said that it drains, and the device was not heard through any other within reconnect_window"
		}
		r.Sum = append(silence, setting("reconnect_window", s.ReconnectWindow))
		if t.From == schemas.Away && t.To == schemas.Offline && s.AwayTTL > s.OnlineTTL+s.OfflineDebounce {
			r.Words += "; since then nothing was heard until away_ttl was over, as much later as the device had been let go later"
			r.Sum = []Term{{Name: "last beat", At: t.LastSeen}, setting("away_ttl", s.AwayTTL), setting("reconnect_window", s.ReconnectWindow)}
		}
	case schemas.Bye:
		r.Words = "the user's last device said bye"
		if s.ByeDebounce > 0 {
			r.Limit, r.Sum = true, []Term{{Name: "bye", At: t.LastSeen}, setting("bye_debounce", s.ByeDebounce)}
		}
	case schemas.DeviceEvicted:
		r.Words = "the user has more devices than max_devices: the device with the oldest beat was evicted for another one"
	case schemas.DevicesChanged:
		r.Words = "the user stays " + schemas.StateWord(t.To) + ", but the kinds of its live devices changed"
		r.Limit = !reported
	case schemas.Erased:
		r.Words = "everything about the user was erased on request"
	case schemas.VisibilityChange:
		r.Words = "the user asked to be seen by " + schemas.VisibilityWord(t.Visibility)
	default:
		r.Words = "of a cause that this program does not know"
	}
	if !known {
		r.Sum = nil
	}
	r.Timer = timerOf(t, r.Limit)
	r.balance(t)
	r.notice(record, s, known)
	return r
}

// timerOf is which limit was reached.
func timerOf(t *schemas.Transition, limit bool) string {
	if !limit {
		return ""
	}
	whose := fmt.Sprintf("device %d", t.Device)
	switch t.Cause {
	case schemas.Idle:
		return "the idle time of " + whose
	case schemas.Silent, schemas.GatewayLost, schemas.GatewayDrained, schemas.DevicesChanged:
		switch {
		case t.To == schemas.Offline && t.From == schemas.Away:
			return "the end of away, which " + whose + " began when it left last"
		case t.Cause == schemas.GatewayLost || t.Cause == schemas.GatewayDrained:
			return "the silence of " + whose + ", its gateway's reconnect window and its turn among those who were lost"
		}
		return "the silence of " + whose
	case schemas.Bye:
		return "the wait after the bye of " + whose
	}
	return ""
}

func setting(name string, d time.Duration) Term { return Term{Name: name, Add: d.String(), add: d} }

// reports returns whether the record has rows of the user. Without the record it counts as a
// report if the change happened at the user's last beat.
func reports(record *Record, t *schemas.Transition) bool {
	if record == nil {
		return t.At == t.LastSeen
	}
	return len(record.Rows) > 0
}

// balance works out what is left between the sum and At.
func (r *Rule) balance(t *schemas.Transition) {
	if len(r.Sum) == 0 {
		return
	}
	sum := r.Sum[0].At
	for _, term := range r.Sum {
		sum += schemas.Millis(term.add.Milliseconds())
	}
	switch rest := time.Duration(t.At-sum) * time.Millisecond; {
	case rest > 0 && (t.Cause == schemas.GatewayLost || t.Cause == schemas.GatewayDrained):
		r.Rest, r.RestWords = rest.String(), "the devices of a lost gateway are let go one after the other, at cohort_rate; "+
			"and time in which the log stood still does not count"
	case rest > 0:
		r.Rest, r.RestWords = rest.String(), "the log stood still for more than 5s: no beat could arrive in that time, so it does not count; "+
			"or the device came late to its limit because the user has others"
	case rest < 0:
		r.Rest, r.RestWords = rest.String(), "the device whose limit it was had been heard before the user's last report, "+
			"or before the user showed again: no change after a show names an earlier time"
	}
}

// notice explains why it was decided at this record and no other.
func (r *Rule) notice(record *Record, s liveness.Settings, known bool) {
	if !r.Limit {
		return
	}
	r.Noticed = "limits are looked at whenever a record comes, and at the latest at the next tick"
	if known {
		r.Noticed = fmt.Sprintf("it was the first record whose log time less allowed_lateness (%s) had reached the limit", s.AllowedLateness)
	}
	if record != nil && len(record.Rows) > 0 {
		r.Noticed += ", or that was about this user"
	}
}
