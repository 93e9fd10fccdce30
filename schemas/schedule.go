package schemas

import (
	"strconv"
	"time"
)

// Schedule says when the device of a connection sends heartbeats. Connecting is the first one. If
// all clients follow it, a million that connect at once spread their heartbeats over the interval.
type Schedule struct {
	// Interval is the longest time between two heartbeats.
	Interval time.Duration
	// Jitter is by how much the time between two heartbeats is shorter at most.
	Jitter time.Duration
}

// jitterPart is the part of the interval that the jitter is where no other is set. A tenth mixes clients that some event
// has put into step again within minutes, and costs a twentieth more heartbeats.
const jitterPart = 10

// ScheduleOf returns the schedule of a heartbeat interval; jitter 0 stands for a tenth of it. A jitter of
// another policy than the interval is cut to the interval.
func ScheduleOf(interval, jitter time.Duration) Schedule {
	if jitter == 0 {
		jitter = (interval / jitterPart).Truncate(time.Millisecond)
	}
	return Schedule{interval, min(interval, jitter)}
}

// Schedule returns the schedule that the policy asks devices for.
func (p Policy) Schedule() Schedule { return ScheduleOf(p.HeartbeatInterval, p.HeartbeatJitter) }

// Next returns the time from one heartbeat to the next. random is rand.Float64, or a generator like
// it.
func (s Schedule) Next(random func() float64) time.Duration {
	return s.Interval - time.Duration(random()*float64(s.Jitter))
}

// First returns the time from a hello to the next heartbeat, a random part of Next: then clients
// that connected together do not stay together.
func (s Schedule) First(random func() float64) time.Duration {
	return time.Duration(random() * float64(s.Next(random)))
}

// HelloMessage returns the hello: the first message of a socket and of a live stream, in JSON. It is
// sent again when another policy changes the schedule. maxSubscriptions is how many users one
// connection may watch.
func HelloMessage(s Schedule, maxSubscriptions int) []byte {
	out := strconv.AppendInt([]byte(`{"type":"hello","heartbeat_interval_ms":`), s.Interval.Milliseconds(), 10)
	out = strconv.AppendInt(append(out, `,"heartbeat_jitter_ms":`...), s.Jitter.Milliseconds(), 10)
	out = strconv.AppendInt(append(out, `,"max_subscriptions":`...), int64(maxSubscriptions), 10)
	return append(out, '}')
}
