package query

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// userAnswer is the answer to GET /presence/{user_id}.
type userAnswer struct {
	schemas.NamedPresence
	// Coarseness is how far last_seen_at may be behind the newest heartbeat. It is left out if
	// last_seen_at is that of the last change.
	Coarseness int64 `json:"last_seen_coarseness_ms,omitempty"`
}

// userWithDevices is a userAnswer with the devices: null if they are not known, or if the user hides, or does not show
// last seen.
type userWithDevices struct {
	userAnswer
	DeviceList []deviceAnswer `json:"device_list"`
}

type deviceAnswer struct {
	Device   schemas.DeviceID `json:"device_id"`
	Kind     string           `json:"device_kind"`
	State    string           `json:"state"`
	Since    schemas.Millis   `json:"since"`
	LastSeen schemas.Millis   `json:"last_seen_at"`
}

// devicesParameter is the parameter that asks for the devices of a user.
const devicesParameter = "devices"

// wantsDevices reads the parameter and checks that the sender may read the devices.
func (s *Server) wantsDevices(request *http.Request, values []string, id schemas.UserID) (bool, error) {
	switch {
	case len(values) == 0 || slices.Equal(values, []string{"false"}):
		return false, nil
	case !slices.Equal(values, []string{"true"}):
		return false, schemas.Invalid(devicesParameter, "must be true or false, once")
	case s.access != nil && !s.viewerOf(request).seesHidden(id):
		return false, &schemas.FieldError{Code: codeNotAllowed, Field: devicesParameter,
			Reason: "only the user and presence:admin may read the devices of a user"}
	}
	return true, nil
}

// present reports whether others see the user as present.
func (a *answer) present() bool {
	return a.seen && a.Visibility != schemas.Nobody && a.State != schemas.Offline
}

// presentOf returns those of ids whom others see as present.
func presentOf(ids []schemas.UserID, answers []answer) []schemas.UserID {
	present := make([]schemas.UserID, 0, len(ids))
	for i := range answers {
		if answers[i].present() {
			present = append(present, ids[i])
		}
	}
	return present
}

// addUnsure adds since when no gateway can report the users. A newer version of a user than Redis says
// it of has ended it. If Redis does not answer, that is not known, and the answers are stale.
func (r *Reader) addUnsure(ctx context.Context, ids []schemas.UserID, answers []answer) {
	wanted := presentOf(ids, answers)
	if len(wanted) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	defer cancel()
	found, err := r.view.Unsure(within, wanted)
	if err != nil {
		r.lost(ctx)
		r.makeStale(answers)
		return
	}
	for i := range answers {
		if a := &answers[i]; a.present() {
			if found[0].Version >= a.Version {
				a.unsure = found[0].Since
			}
			found = found[1:]
		}
	}
}

// makeStale marks answers of present users as stale since what is known of them.
func (r *Reader) makeStale(answers []answer) {
	now := schemas.MillisOf(time.Now())
	for i := range answers {
		if a := &answers[i]; a.present() && a.stale == 0 {
			a.stale = cmp.Or(a.upTo, now)
			r.metrics.ReadStale.Inc()
		}
	}
}

// seenSince returns when the users were heard last, in their order. Of users who are not present, or
// hide, and if Redis does not answer, nothing is known.
func (r *Reader) seenSince(ctx context.Context, ids []schemas.UserID, answers []answer) []redisview.Seen {
	rows := make([]redisview.Seen, len(ids))
	wanted := presentOf(ids, answers)
	if len(wanted) == 0 {
		return rows
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	defer cancel()
	found, err := r.view.Seen(ctx, wanted)
	if err != nil {
		return rows // last_seen_at is then that of the last change
	}
	for i := range answers {
		if answers[i].present() {
			rows[i], found = found[0], found[1:]
		}
	}
	return rows
}

// userOf adds to what the transitions say when the user was heard since.
func (a *answer) userOf(id schemas.UserID, name schemas.Name, row *redisview.Seen) userAnswer {
	u := userAnswer{NamedPresence: a.presence(id).Called(name)}
	if last := row.LastSeen(); u.LastSeen == "" && last > u.LastSeenAt {
		u.LastSeenAt = last
		u.Coarseness = int64(max(row.Interval, schemas.MillisOf(time.Now())-row.At))
	}
	return u
}

// devicesOf lists the devices; nil if they are not known.
func (a *answer) devicesOf(row *redisview.Seen) []deviceAnswer {
	switch {
	case !a.seen || a.Visibility != schemas.Nobody && a.Kinds == 0: // offline or silent
		return []deviceAnswer{}
	case a.Override.LastSeen != 0: // when the devices were heard is not for others
		return nil
	case row.At == 0 || row.At < a.Since:
		// If the state has changed since, the user may have been offline, and these are the devices of before.
		return nil
	}
	devices := make([]deviceAnswer, len(row.Devices))
	for i, d := range row.Devices {
		devices[i] = deviceAnswer{d.Device, schemas.KindWord(d.Kind), schemas.StateWord(d.State), d.Since, d.At}
	}
	return devices
}
