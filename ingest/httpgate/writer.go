package httpgate

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/schemas"
)

// maxInFlight is how many shipments of one lane may be unacknowledged. Beats that arrive meanwhile
// share the next one.
const maxInFlight = 16

// writer turns the beats of concurrent requests into frames.
type writer struct {
	now      func() time.Duration
	cfg      ingest.Config
	kafka    beat.Appender
	metrics  *ingest.Metrics
	wake     chan struct{} // gets a value when some lane may send beats
	inFlight sync.WaitGroup

	mu      sync.Mutex // protects the fields below; never held while appending
	lanes   map[laneKey]*lane
	waiting int // unacknowledged rows; bounded by MaxWaiting
	stopped bool
}

func newWriter(now func() time.Duration, cfg ingest.Config, log beat.Appender, metrics *ingest.Metrics) *writer {
	return &writer{now: now, cfg: cfg, kafka: log, metrics: metrics, wake: make(chan struct{}, 1),
		lanes: map[laneKey]*lane{}}
}

// call is one request that waits for its beats. It gets one answer: the first error or, when all
// is written, nil.
type call struct {
	left    atomic.Int32 // lanes that have not answered
	once    sync.Once
	written chan error // buffered, for one answer
}

func (c *call) finishOnce(err error) { c.once.Do(func() { c.written <- err }) }

func (c *call) finish(err error) {
	if left := c.left.Add(-1); err != nil || left == 0 {
		c.finishOnce(err)
	}
}

// write takes the beats of a request that arrived at received; their ages count from then. The channel gives Kafka's
// answer once.
func (w *writer) write(req *request, received time.Duration) (<-chan error, error) {
	c, beats, names := &call{written: make(chan error, 1)}, req.beats, req.names
	id, lanes := laneKey{gateway: req.gateway, epoch: req.epoch}, w.lanes
	replaces := req.begins || req.ends
	if len(beats) == 0 && !replaces {
		c.finishOnce(nil)
		return c.written, nil
	}
	w.mu.Lock()
	if w.stopped || w.waiting+len(beats) > w.cfg.HTTP.MaxWaiting {
		w.mu.Unlock()
		return nil, overloaded("too many beats wait for Kafka")
	}
	var touched []*lane
	if replaces { // lanes of its own, one for each partition
		lanes = map[laneKey]*lane{}
		for id.partition = range w.cfg.Partitions {
			l := &lane{key: id, calls: []*call{c}}
			lanes[id], touched = l, append(touched, l)
		}
	}
	for i := range beats {
		id.partition = schemas.PartitionOf(beats[i].User, w.cfg.Partitions)
		l := lanes[id]
		if l == nil {
			l = &lane{key: id}
			lanes[id] = l
		}
		r := row{beat: beats[i], heard: received - time.Duration(beats[i].Age)*time.Millisecond}
		if names != nil {
			r.name = names[i]
		}
		added, joined := l.add(c, r)
		if joined {
			touched = append(touched, l)
		}
		if added {
			w.waiting++
		} else {
			w.metrics.Coalesced(1)
		}
	}
	c.left.Store(int32(len(touched)))
	var leaving []*shipment
	rest := false
	for _, l := range touched {
		if l.inFlight == 0 {
			leaving = append(leaving, l.seal(w.now(), req.begins, req.ends))
		} else {
			rest = true
		}
	}
	w.inFlight.Add(len(leaving))
	w.mu.Unlock()
	for _, s := range leaving {
		w.send(s)
	}
	if rest {
		w.signal()
	}
	return c.written, nil
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// flush sends what waits in every lane that may send.
func (w *writer) flush() {
	var ready []*shipment
	w.mu.Lock()
	for _, l := range w.lanes {
		if len(l.rows) > 0 && l.inFlight < maxInFlight {
			ready = append(ready, l.seal(w.now(), false, false))
		}
	}
	w.inFlight.Add(len(ready))
	w.mu.Unlock()
	for _, s := range ready {
		w.send(s)
	}
}

// send appends the frames of a shipment.
func (w *writer) send(s *shipment) {
	s.left.Store(int32(len(s.frames)))
	for _, f := range s.frames {
		w.append("beats", f.rows, schemas.Outgoing{Partition: s.lane.key.partition, Value: f.value}, func(err error) {
			if err != nil {
				s.fail(err)
			}
			if s.left.Add(-1) == 0 {
				w.settle(s)
			}
		})
	}
}

// append writes a record to the heartbeats topic, unless it names another one, and counts the answer, which
// done gets on a goroutine of the producer. The producer gives up after its delivery timeout, which app sets
// to AppendTimeout.
func (w *writer) append(kind string, rows int, record schemas.Outgoing, done func(error)) {
	record.Topic = cmp.Or(record.Topic, schemas.Heartbeats)
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.AppendTimeout)
	began := time.Now()
	w.kafka.Append(ctx, record, func(err error) {
		cancel()
		w.metrics.Appended(kind, rows, time.Since(began), err)
		done(err)
	})
}

// settle runs on a goroutine of the log.
func (w *writer) settle(s *shipment) {
	defer w.inFlight.Done()
	err := s.err()
	for _, c := range s.calls {
		c.finish(err)
	}
	w.mu.Lock()
	l := s.lane
	l.inFlight--
	w.waiting -= s.rows
	more := len(l.rows) > 0
	if !more && l.inFlight == 0 && w.lanes[l.key] == l {
		delete(w.lanes, l.key)
	}
	w.mu.Unlock()
	if more {
		w.signal()
	}
}

// stop refuses new beats, sends the waiting ones and returns when all are acknowledged or failed.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	for {
		w.flush()
		w.inFlight.Wait()
		w.mu.Lock()
		left := w.waiting
		w.mu.Unlock()
		if left == 0 {
			return
		}
	}
}
