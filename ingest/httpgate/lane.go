package httpgate

import (
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// laneKey is a gateway and a partition.
type laneKey struct {
	gateway   schemas.GatewayID // empty: no gateway
	epoch     schemas.Millis
	partition int32
}

// lane collects the beats of the next frames. The writer's lock protects it.
type lane struct {
	key      laneKey
	rows     []row
	index    map[device]int // into rows
	calls    []*call        // of the rows, each once
	inFlight int            // unacknowledged shipments
}

type device struct {
	user schemas.UserID
	id   schemas.DeviceID
}

type row struct {
	beat  schemas.Beat
	name  schemas.Name  // of the user, with --ids text
	heard time.Duration // when the device reported it
}

// add adds a beat, unless the lane has a newer report of the device. added tells whether there is a
// new row, joined whether the call is new to this lane.
func (l *lane) add(c *call, r row) (added, joined bool) {
	if n := len(l.calls); n == 0 || l.calls[n-1] != c {
		l.calls = append(l.calls, c)
		joined = true
	}
	if l.index == nil {
		l.index = make(map[device]int)
	}
	d := device{r.beat.User, r.beat.Device}
	i, known := l.index[d]
	if r.beat.Connection != 0 { // each event counts
		l.rows = append(l.rows, r)
		return true, joined
	}
	if !known {
		l.index[d] = len(l.rows)
		l.rows = append(l.rows, r)
	} else if r.heard >= l.rows[i].heard {
		l.rows[i] = r
	}
	return !known, joined
}

// frame is one record to be written.
type frame struct {
	value []byte
	rows  int
}

// shipment is what is sent from a lane at one time, usually one frame.
type shipment struct {
	lane   *lane
	frames []frame
	rows   int
	calls  []*call
	left   atomic.Int32 // unacknowledged frames
	failed atomic.Pointer[error]
}

// seal takes everything out of the lane, with the ages at now. Its frames begin and end a replacement if they are to. A
// request has no session whose names the detector would
// know, so each row has its name, with --ids text. A bye has none: it must not bring back that of an erased user.
func (l *lane) seal(now time.Duration, begins, ends bool) *shipment {
	s := &shipment{lane: l, rows: len(l.rows), calls: l.calls}
	head := schemas.FrameHead{Gateway: l.key.gateway, GatewayEpoch: l.key.epoch}
	beats := make([]schemas.Beat, 0, min(len(l.rows), schemas.MaxFrameRows))
	for rest := l.rows; len(rest) > 0 || begins || ends && len(s.frames) == 0; begins = false {
		n := min(len(rest), schemas.MaxFrameRows)
		head.Begins, head.Ends = begins, ends && n == len(rest)
		beats = beats[:0]
		for _, r := range rest[:n] {
			r.beat.Age = min(schemas.Millis((now-r.heard)/time.Millisecond), schemas.MaxAge)
			beats = append(beats, r.beat)
		}
		value := schemas.AppendFrame(nil, head, beats)
		for i, r := range rest[:n] {
			if !r.beat.Bye && !r.beat.Lost && r.name.Text != "" {
				value = schemas.AppendNamedRow(value, i, r.name)
			}
		}
		s.frames = append(s.frames, frame{value: value, rows: n})
		rest = rest[n:]
	}
	l.rows, l.index, l.calls = nil, nil, nil
	l.inFlight++
	return s
}

func (s *shipment) fail(err error) { s.failed.CompareAndSwap(nil, &err) }

func (s *shipment) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}
