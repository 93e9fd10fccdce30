package scenarios

import "github.com/stillhere/stillhere/schemas"

// start is when every log begins.
const start = schemas.Millis(1_763_700_000_000)

// The kinds of devices, under short names.
const (
	mobile  = schemas.Mobile
	desktop = schemas.Desktop
	web     = schemas.Web
)

// log builds the records of a partition. Its methods append one record at the
// instant set by at, and return the log.
type log struct {
	records []schemas.Record
	now     schemas.Millis // since start
	head    schemas.FrameHead
	aged    schemas.Millis
}

// at sets the append time of the records that follow.
func (h *log) at(ms schemas.Millis) *log {
	h.now = ms
	return h
}

// via names the gateway of the frames that follow, "" for none.
func (h *log) via(gateway schemas.GatewayID, epoch schemas.Millis) *log {
	h.head = schemas.FrameHead{Gateway: gateway}
	if gateway != "" {
		h.head.GatewayEpoch = start + epoch
	}
	return h
}

// late makes the next report one that came in so long before its append time.
func (h *log) late(age schemas.Millis) *log {
	h.aged = age
	return h
}

func (h *log) append(value []byte) *log {
	h.records = append(h.records, schemas.Record{Offset: int64(len(h.records)), Time: start + h.now, Value: value})
	return h
}

func (h *log) beat(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle schemas.Millis) *log {
	return h.frame(schemas.Beat{User: user, Device: device, Kind: kind, Idle: idle})
}

func (h *log) bye(user schemas.UserID, device schemas.DeviceID) *log {
	return h.frame(schemas.Beat{User: user, Device: device, Bye: true})
}

// frame is a frame of several reports.
func (h *log) frame(rows ...schemas.Beat) *log {
	for i := range rows {
		rows[i].Age += h.aged
	}
	h.aged = 0
	return h.append(schemas.AppendFrame(nil, h.head, rows))
}

// alive is an empty frame of the gateway.
func (h *log) alive(gateway schemas.GatewayID, epoch schemas.Millis) *log {
	return h.append(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: gateway, GatewayEpoch: start + epoch}, nil))
}

func (h *log) draining(gateway schemas.GatewayID, epoch schemas.Millis) *log {
	return h.append(schemas.AppendFrame(nil, schemas.FrameHead{Gateway: gateway, GatewayEpoch: start + epoch, Draining: true}, nil))
}

func (h *log) visibility(user schemas.UserID, v schemas.Visibility) *log {
	return h.append(schemas.AppendVisibility(nil, user, v))
}

func (h *log) override(user schemas.UserID, o schemas.Override) *log {
	return h.append(schemas.AppendOverride(nil, user, o, schemas.Name{}))
}

func (h *log) lastSeen(user schemas.UserID, choice schemas.LastSeen) *log {
	return h.append(schemas.AppendLastSeen(nil, user, choice, schemas.Name{}))
}

func (h *log) erase(user schemas.UserID) *log {
	return h.append(schemas.AppendErasure(nil, user, schemas.Name{}, start, 0, false))
}

func (h *log) tick() *log { return h.append(schemas.AppendTick(nil)) }

// until ticks every 250 ms from now on, up to the instant.
func (h *log) until(ms schemas.Millis) *log {
	for h.now < ms {
		h.at(min(ms, h.now+250)).tick()
	}
	return h
}

// users are active beats of users 1 to n, device 1 each.
func users(n int) []schemas.Beat {
	rows := make([]schemas.Beat, n)
	for i := range rows {
		rows[i] = schemas.Beat{User: schemas.UserID(i + 1), Device: 1, Kind: mobile}
	}
	return rows
}
