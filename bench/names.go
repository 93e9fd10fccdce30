package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/detector"
	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// namedOnceIn is which part of the beats has a name: devices beat every 15 s, and gateways repeat a name
// every five minutes.
const namedOnceIn = 20

// names measures what names cost: a detector's partition in memory, with integer ids and with names in
// turns, each user online with one device. Names are UUIDs (36 bytes). Rates are beats per second of
// processor time, so that other work on the machine counts little. Kafka is left out.
func names(t *loadtest.T) {
	users := identity.Named(identity.Key{1, 2, 3})
	modes := []*namesMode{newNamesMode(t, "integers", identity.Users{}, nil), newNamesMode(t, "names", users, uuids)}
	texts := newNamesMode(t, "texts", users, addresses).memory
	for begun := time.Now(); time.Since(begun) < t.Length()*2; {
		for _, m := range modes {
			t.Check(t.Context().Err())
			m.round()
			t.Progress.Say("  %s: %d rounds", m.name, m.rounds)
		}
	}
	in, text := modes[0], modes[1]
	for _, m := range modes {
		t.Add(m.name+": size of a beat in a frame", float64(m.raw)/float64(m.beats), "B").LessIsBetter()
		t.Add(m.name+": size of a beat, compressed (Snappy)", float64(m.packed)/float64(m.beats), "B").LessIsBetter()
		t.Add(m.name+": first beats, one second of a processor", m.first/1e6, "M beats/s")
		t.Add(m.name+": beats, one second of a processor", m.rate()/1e6, "M beats/s")
		t.Add(m.name+": memory as the heap has it", m.memory, "B/user").LessIsBetter()
	}
	t.Add("names: memory besides the name, a UUID", text.memory-uuidSize, "B/user").LessIsBetter()
	t.Add("names: memory besides the name, an e-mail address", texts-addressSize, "B/user").LessIsBetter()
	t.Add("beats with names, of those with integers", text.rate()/in.rate(), "×")
	some := make([]string, 1000)
	for i := range some {
		some[i] = uuids(uint64(i))
	}
	var sum schemas.UserID
	took := processorTime(func() {
		for i := range 1_000_000 {
			sum += users.ID("acme", some[i%len(some)])
		}
	})
	t.Add("computing the id of a name", float64(took.Nanoseconds())/1e6, "ns").LessIsBetter()
	t.Note(fmt.Sprintf("One beat in %d has a name. %d users.", namedOnceIn, t.Users))
	runtime.KeepAlive(sum)
}

// namesMode is a partition of users who have integers or names.
type namesMode struct {
	name        string
	text        func(uint64) string // the names; nil: integers
	partition   *detector.Partition
	offset      int64
	now, each   schemas.Millis // each: between two frames
	frames      [][]byte
	rounds      int
	beats       int // of the frames
	raw, packed int // bytes of the frames
	took        time.Duration
	first       float64 // beats per second of those that bring the users
	memory      float64 // bytes per user
}

func newNamesMode(t *loadtest.T, name string, users identity.Users, text func(uint64) string) *namesMode {
	heap := heapBytes()
	m := &namesMode{name: name, text: text, now: schemas.MillisOf(time.Now()), each: max(1, schemas.Millis(15_000*loadtest.BeatsPerFrame/t.Users))}
	m.partition = detector.NewPartition(detector.Config{Settings: liveness.Defaults(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Metrics: detector.NewMetrics(prometheus.NewRegistry()), Now: time.Now, Users: users}, 0)
	nothing := func(context.Context, schemas.Topic, int64, int64, func(*schemas.Record) error) error { return nil }
	t.Check(m.partition.Restore(t.Context(), stream.Assignment{Partitions: 1, Offset: -1}, nothing))
	var took time.Duration
	m.eachFrame(t.Users, users, 1, func(frame []byte) { took += processorTime(func() { m.handle(frame) }) })
	m.first = float64(t.Users) / took.Seconds()
	m.memory = float64(heapBytes()-heap) / float64(t.Users)
	m.eachFrame(t.Users, users, namedOnceIn, func(frame []byte) {
		m.frames, m.raw, m.packed = append(m.frames, frame), m.raw+len(frame), m.packed+len(s2.EncodeSnappy(nil, frame))
	})
	m.beats = t.Users
	return m
}

// eachFrame makes frames of all users, of whom one in named has a name in text mode.
func (m *namesMode) eachFrame(count int, users identity.Users, named int, each func([]byte)) {
	beats, random := make([]schemas.Beat, loadtest.BeatsPerFrame), rand.New(rand.NewPCG(3, 4))
	for first := 0; first < count; first += len(beats) {
		for i := range beats {
			id := schemas.UserID(first + i + 1)
			if users.Text() {
				id = users.ID("acme", m.text(uint64(id)))
			}
			beats[i] = schemas.Beat{User: id, Device: schemas.DeviceID(random.Uint32() | 1), Kind: schemas.Mobile, Age: schemas.Millis(i % 100), Idle: schemas.Millis(i * 7919 % 60_000)}
		}
		frame := schemas.AppendFrame(nil, schemas.FrameHead{}, beats)
		for i := 0; users.Text() && i < len(beats); i++ {
			if i%named == 0 {
				frame = schemas.AppendNamedRow(frame, i, schemas.Name{Tenant: "acme", Text: m.text(uint64(first + i + 1))})
			}
		}
		each(frame)
	}
}

const uuidSize, addressSize = 36, 20

// addresses are texts of the length of an e-mail address.
func addresses(i uint64) string { return fmt.Sprintf("%08d@example.com", i) }

// uuids are texts of the length of UUIDs.
func uuids(i uint64) string {
	const digits = "0123456789abcdef"
	var text [uuidSize]byte
	for k, bits := 0, i*0x9e3779b97f4a7c15; k < len(text); k++ {
		if text[k] = digits[bits>>60]; k == 8 || k == 13 || k == 18 || k == 23 {
			text[k] = '-'
		}
		if bits = bits<<4 | bits>>60; k == 16 {
			bits = i * 0xd1342543de82ef95
		}
	}
	return string(text[:])
}

func (m *namesMode) handle(frame []byte) {
	var out stream.Outbox
	if err := m.partition.Handle(&schemas.Record{Offset: m.offset, Time: m.now, Value: frame}, &out); err != nil {
		panic(err) // we have written it ourselves
	}
	for m.partition.Pending() {
		out = stream.Outbox{}
		if err := m.partition.Continue(&out); err != nil {
			panic(err)
		}
	}
	m.offset++
	m.now += m.each
}

// round applies all frames once.
func (m *namesMode) round() {
	m.rounds++
	m.took += processorTime(func() {
		for _, frame := range m.frames {
			m.handle(frame)
		}
	})
}

func (m *namesMode) rate() float64 { return float64(m.rounds*m.beats) / m.took.Seconds() }

// processorTime is how long processors worked for this process while part ran.
func processorTime(part func()) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	part()
	return used() - before
}
