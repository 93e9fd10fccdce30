package redisview

import (
	"context"
	"fmt"
	"time"

	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/stillhere/stillhere/schemas"
)

// Seen is when a user was heard last, and by which devices. It is a hint from beside the
// transitions: it means something only while the user is present and visible.
type Seen struct {
	User     schemas.UserID
	At       schemas.Millis  // when it was taken, in log time; 0: nothing is known
	Version  schemas.Version // transitions with a greater version are newer
	Interval schemas.Millis  // how often it is taken
	Devices  []Device
}

// Device is one device of a Seen.
type Device struct {
	schemas.SeenDevice
	// Since is the oldest heartbeat known of this stay: the device has been present since then at
	// least.
	Since schemas.Millis
}

// LastSeen is the newest heartbeat; 0: none is known.
func (s *Seen) LastSeen() schemas.Millis {
	var last schemas.Millis
	for i := range s.Devices {
		last = max(last, s.Devices[i].At)
	}
	return last
}

// seenLifetime is how long a Seen stays without a newer one: long enough that last seen does not go
// back while the pipeline stands still for a while, short enough that users who left take little.
const seenLifetime = 15 * time.Minute

// A Seen is stored as text of fixed width, numbers in hexadecimal, like an entry (value.go):
//
//	1 format "2" | 16 version | 12 at | 8 interval
//	| of each device: 8 id | 1 kind | 1 state | 12 since | 12 last heartbeat
const (
	seenAt       = 1 + 16
	seenInterval = seenAt + 12
	seenDevices  = seenInterval + 8
	deviceKind   = 8
	deviceState  = deviceKind + 1
	deviceSince  = deviceState + 1
	deviceLast   = deviceSince + 12
	deviceLength = deviceLast + 12
)

//go:embed seen.lua
var seenLua string

var seenScript = redis.NewScript(seenLua)

// seenKey is in the slot of userKey.
func (v *View) seenKey(user schemas.UserID) string { return v.prefix + "seen:{" + user.String() + "}" }

func appendSeen(dst []byte, s *Seen) []byte {
	dst = append(dst, format)
	dst = appendHex(dst, int64(s.Version), 16)
	dst = appendHex(dst, int64(s.At), 12)
	dst = appendHex(dst, int64(s.Interval), 8)
	for i := range s.Devices {
		d := &s.Devices[i]
		dst = appendHex(dst, int64(d.Device), 8)
		dst = appendHex(dst, int64(d.Kind), 1)
		dst = appendHex(dst, int64(d.State), 1)
		dst = appendHex(dst, int64(d.Since), 12)
		dst = appendHex(dst, int64(d.At), 12)
	}
	return dst
}

// parseSeen reads the stored form. Anything else counts as nothing.
func parseSeen(user schemas.UserID, text []byte) Seen {
	if len(text) < seenDevices || text[0] != format || (len(text)-seenDevices)%deviceLength != 0 {
		return Seen{}
	}
	var bad uint64
	s := Seen{User: user, Version: schemas.Version(hex16(text[1:], &bad)), At: schemas.Millis(hex12(text[seenAt:], &bad)),
		Interval: schemas.Millis(hex8(text[seenInterval:], &bad))}
	for d := text[seenDevices:]; len(d) > 0; d = d[deviceLength:] {
		small := hex8(d[deviceKind:], &bad) >> 24 // two digits: kind, state
		s.Devices = append(s.Devices, Device{Since: schemas.Millis(hex12(d[deviceSince:], &bad)), SeenDevice: schemas.SeenDevice{
			Device: schemas.DeviceID(hex8(d, &bad)), Kind: schemas.KnownKind(schemas.DeviceKind(small >> 4)),
			State: schemas.State(small & 0xf), At: schemas.Millis(hex12(d[deviceLast:], &bad))}})
	}
	if bad != 0 {
		return Seen{}
	}
	return s
}

// WriteSeen writes when users were heard last, unless Redis has something newer of them, and returns
// how many were written. It is idempotent.
func (v *View) WriteSeen(ctx context.Context, users []Seen) (int, error) {
	written, err := writeUsers(ctx, v, seenScript, users, seenLifetime.Milliseconds(), func(c *scriptCall, s *Seen) {
		c.keys = append(c.keys, v.userKey(s.User), v.seenKey(s.User))
		c.arguments = append(c.arguments, appendSeen(nil, s))
	}, nil)
	if err != nil {
		return written, fmt.Errorf("writing to Redis when %d users were heard: %w", len(users), err)
	}
	return written, nil
}

// Seen returns when the users were heard last, in their order.
func (v *View) Seen(ctx context.Context, users []schemas.UserID) ([]Seen, error) {
	all := make([]Seen, len(users))
	err := v.getEach(ctx, len(users), func(i int) string { return v.seenKey(users[i]) },
		func(i int, value string) { all[i] = parseSeen(users[i], []byte(value)) })
	if err != nil {
		return nil, fmt.Errorf("reading from Redis when %d users were heard: %w", len(users), err)
	}
	return all, nil
}
