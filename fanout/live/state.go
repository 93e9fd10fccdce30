package live

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/stillhere/stillhere/internal/socket"
	"github.com/stillhere/stillhere/schemas"
)

// state is what is known of one user at one version, and its messages. It is immutable: the entry, the
// queues and the writers share it.
type state struct {
	presence schemas.Presence
	version  int64
	frame    []byte // the whole change message as a WebSocket frame
	change   []byte // the message alone, inside frame
	denied   bool   // of a viewer whom the user denies, or may deny
}

func newState(p schemas.Presence) *state { return encoded(changeHead, p) }

// encoded makes the message that begins with head.
func encoded(head string, p schemas.Presence) *state {
	var shown any = p
	if p.Name != nil {
		shown = p.Called(*p.Name)
	}
	user, err := json.Marshal(shown)
	if err != nil {
		panic(err) // strings and numbers only
	}
	change := make([]byte, 0, len(head)+len(user)+len(changeTail))
	change = append(append(append(change, head...), user...), changeTail...)
	frame := socket.Frame(change)
	return &state{presence: p, version: versionOf(p), frame: frame, change: frame[len(frame)-len(change):]}
}

// versionOf returns the version as a number. A version that is none counts as the oldest.
func versionOf(p schemas.Presence) int64 {
	version, _ := strconv.ParseInt(p.Version, 10, 64)
	return version
}

// user is the USER within the change message.
func (s *state) user() []byte { return s.change[len(changeHead) : len(s.change)-len(changeTail)] }

func (s *state) stale() bool { return s.presence.StaleSince != 0 }

// unsure reports whether another read may improve the state: it may be out of date, or its begin
// (since) is unknown.
func (s *state) unsure() bool {
	p := &s.presence
	return s.stale() || p.State != nil && p.Since == 0 && p.LastSeen == "" && s.version > 0 && !s.erased()
}

// erased reports whether the state is that of a user whom its version erased.
func (s *state) erased() bool {
	p := &s.presence
	return s.version > 0 && p.State != nil && *p.State == schemas.StateWord(schemas.Offline) && p.LastSeenAt == 0 &&
		p.LastActiveAt == 0 && p.LastSeen == ""
}

// corrects reports whether s differs from old at the same version.
func (s *state) corrects(old *state) bool {
	a, b := s.presence, old.presence
	a.StaleSince, b.StaleSince, a.Audience, b.Audience = 0, 0, 0, 0
	return s.version == old.version && !reflect.DeepEqual(a, b)
}

// resembles reports whether viewers see the same in s and later, except for versions and when the user was last here.
func (s *state) resembles(later *state) bool {
	a, b := s.presence, later.presence
	a.Version, a.Audience, a.LastSeenAt, a.LastActiveAt = b.Version, b.Audience, b.LastSeenAt, b.LastActiveAt
	return reflect.DeepEqual(a, b)
}

// withStale returns s as a read shows it that is stale since then.
func (s *state) withStale(since schemas.Millis) *state {
	if s.presence.StaleSince == since {
		return s
	}
	p := s.presence
	p.StaleSince = since
	return newState(p)
}
