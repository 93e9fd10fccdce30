//go:build unix

package storm_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// The storms: the broker in a process, detectors in theirs, which are killed,
// frozen and stopped while several hundred users come and go, and a third that
// joins the group and leaves it again and again. What the detectors have committed
// in the end must be, record for record, what the oracle says of the heartbeats
// that are in the log.
//
//	STILLHERE_STORM_KILLS    how often a detector is killed [10]
//	STILLHERE_STORM_ERRORS   and while the broker answers with errors [6]
//	STILLHERE_STORM_POINTS   how often a detector crashes at each crash point [1]
//	STILLHERE_STORM_FREEZES  how often a detector is frozen [3]
//	STILLHERE_STORM_SEED     for the storm of a run before [random]
//
// Half of everything happens to users with integers, and half to users with names of three tenants.
//
// The judgement does not depend on when anything happened: a commit covers
// exactly the records before its offset, so the transitions must be those of
// these.

func TestNoKillOfADetectorChangesWhatIsCommitted(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		s := newStorm(t, m)
		s.fates = s.kills(half(testkit.Number(t, "STILLHERE_STORM_KILLS", 10)))
		s.blow(true)
	})
}

func TestNoErrorOfTheBrokerChangesWhatIsCommitted(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		s := newStorm(t, m, "-errors=60")
		s.fates = s.kills(half(testkit.Number(t, "STILLHERE_STORM_ERRORS", 6)))
		s.blow(true)
		if s.errors < len(s.fates) {
			t.Errorf("only %d requests were answered with errors", s.errors)
		}
	})
}

func TestNoCrashPointChangesWhatIsCommitted(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		s := newStorm(t, m)
		times := int(half(testkit.Number(t, "STILLHERE_STORM_POINTS", 1)))
		s.fates = s.crashes(times)
		s.blow(false)
		s.diedAtAll(times)
	})
}

// diedAtAll checks that detectors have died so often at each crash point.
func (s *storm) diedAtAll(times int) {
	s.Helper()
	for _, point := range s.points {
		s.Logf("%-17s %4d deaths there", point, s.counts["at "+point])
		if s.counts["at "+point] < times {
			s.Errorf("only %d deaths at %s, there must be %d", s.counts["at "+point], point, times)
		}
	}
}

func TestNoFrozenDetectorChangesWhatIsCommitted(t *testing.T) {
	testkit.InBothModes(t, func(t *testing.T, m testkit.Mode) {
		s := newStorm(t, m)
		s.fates = s.freezes(int(half(testkit.Number(t, "STILLHERE_STORM_FREEZES", 3))))
		s.commitFirst = true
		s.blow(false)
	})
}

const stormPartitions = 6

// stormPolicy is so short that in half a minute everything happens that can.
func stormPolicy() liveness.Settings {
	s := liveness.Defaults()
	s.HeartbeatInterval, s.OnlineTTL, s.OfflineDebounce = 700*time.Millisecond, 1500*time.Millisecond, 500*time.Millisecond
	s.AwayTTL, s.IdleAfter, s.ByeDebounce = 4*time.Second, 3*time.Second, 300*time.Millisecond
	s.ReconnectWindow, s.CohortRate = 2*time.Second, 20
	return s
}

type storm struct {
	*testing.T
	mode     testkit.Mode
	people   map[schemas.UserID]schemas.Name // nil in int mode
	path     string                          // of the detector's binary
	flags    []string                        // that say what users are called
	seed     uint64
	policy   liveness.Settings
	config   kafka.Config
	reader   *kafka.Reader
	producer *kafka.Producer
	admin    *kadm.Client
	broker   *testkit.Program
	begun    time.Time
	calm     chan struct{}   // closed when the load is to end
	through  []string        // addresses by which detectors reach Kafka; nil: its own
	until    <-chan struct{} // closed when nothing else will happen to the brokers; nil: nothing does

	points []string // crash points at which detectors may crash
	// commitFirst lets the detectors commit in every partition before anything happens. One that
	// is frozen in its first restore would take what another has published since for a
	// history without a commit, and raise an alarm, before it is told that the partition is
	// not its own any more.
	commitFirst       bool
	wrap, environment []string           // how detectors are started
	expected          []string           // what detectors may say here, though it is an alarm elsewhere
	hungry            []*testkit.Program // take the processors until the storm is over
	errors            int                // that the broker answered with, known after the storm

	mu     sync.Mutex // protects what follows
	fates  []fate     // to come
	counts map[string]int
}

func newStorm(t *testing.T, m testkit.Mode, brokerFlags ...string) *storm {
	s := emptyStorm(t, m)
	s.environment = manySnapshots
	var address string
	s.broker, address = testkit.Broker(t, append(brokerFlags, "-seed", fmt.Sprint(s.seed))...)
	s.connect(address)
	return s
}

func emptyStorm(t *testing.T, m testkit.Mode) *storm {
	s := &storm{T: t, mode: m, flags: m.Flags(t), path: testkit.Binary(t, "stillhere-crashpoints"), seed: uint64(testkit.Number(t, "STILLHERE_STORM_SEED", rand.Int64N(1_000_000))),
		policy: stormPolicy(), calm: make(chan struct{}), counts: map[string]int{}, points: crashPoints, environment: manySnapshots[:1]}
	t.Logf("seed %d", s.seed)
	return s
}

// connect makes the topics and what the storm itself needs.
func (s *storm) connect(brokers ...string) {
	s.Helper()
	t := s.T
	s.config = kafka.Config{Brokers: brokers, InstanceName: "storm", DeliveryTimeout: time.Minute, Users: s.mode.Users()}
	must.Get(admin.ApplyTopics(t.Context(), s.config, stormPartitions, -1))(t)
	s.reader = kafkatest.Reader(t, s.config)
	s.producer = kafkatest.Producer(t, s.config)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(brokers...)))(t)
	s.admin = kadm.NewClient(client)
	t.Cleanup(s.admin.Close)
	// The oracle must see all of a storm that lasts longer than heartbeats are kept.
	day := "86400000"
	must.Get(s.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "retention.ms", Value: &day}}, schemas.Heartbeats.Name(schemas.DefaultPrefix)))(t)
}

// blow lets the storm happen and judges what is left. With a guest, a third
// detector comes and goes.
func (s *storm) blow(guest bool) {
	s.Helper()
	s.begun = time.Now()
	loaded := s.loadUntil(s.calm)
	var running, visits sync.WaitGroup
	var residents []*detectorProcess
	for i, name := range []string{"detector-a", "detector-b"} {
		d := s.detector(name, uint64(i))
		residents = append(residents, d)
	}
	if s.commitFirst {
		for _, d := range residents {
			d.start("")
		}
		s.ready(residents)
		testkit.Until(s.T, "every partition has a commit", time.Minute, func() bool { return !slices.Contains(s.committed(), -1) })
	}
	for _, d := range residents {
		running.Go(d.live)
	}
	over := make(chan struct{})
	if guest {
		visits.Go(func() { s.detector("detector-c", 2).visit(over) })
	}
	running.Wait()
	if s.until != nil {
		<-s.until
		for _, d := range residents {
			d.startAgain()
		}
	}
	close(over)
	visits.Wait()
	for _, p := range s.hungry {
		p.Kill()
	}
	s.quiet()
	s.ready(residents)
	s.settle(residents)
	close(s.calm)
	<-loaded
	s.settle(residents)
	s.end(residents)
	s.judge()
}

// end stops the detectors.
func (s *storm) end(residents []*detectorProcess) {
	s.Helper()
	for _, d := range residents {
		d.stop()
		d.ended()
	}
}

// ready waits until the detectors are.
func (s *storm) ready(detectors []*detectorProcess) {
	s.Helper()
	for _, d := range detectors {
		testkit.Until(s.T, d.instance+" is ready", time.Minute, func() bool { return strings.Contains(d.program.Err.String(), `"msg":"ready"`) })
	}
}

// quiet ends the errors of the broker.
func (s *storm) quiet() {
	s.Helper()
	if s.broker == nil {
		return
	}
	must.Get(io.WriteString(s.broker.Stdin, "calm\n"))(s)
	if !strings.Contains(s.broker.Command.String(), "-errors=") {
		return
	}
	testkit.Until(s.T, "the broker is calm", 10*time.Second, func() bool { return len(s.broker.Out.Lines()) > 1 })
	must.Get(fmt.Sscanf(s.broker.Out.Lines()[1], "calm %d", &s.errors))(s)
}

// settle waits until everything that is in the log now has been committed.
func (s *storm) settle(detectors []*detectorProcess) {
	s.Helper()
	ends := s.ends()
	var behind string
	if testkit.Within(60*time.Second, func() bool {
		behind = ""
		for p, offset := range s.committed() {
			if offset < ends[p] {
				behind += fmt.Sprintf("partition %d is at %d of %d; ", p, offset, ends[p])
			}
		}
		return behind == ""
	}) {
		return
	}
	for _, d := range detectors {
		s.Logf("%s said last:\n%s", d.instance, testkit.Tail(d.program.Err.String(), 3000))
	}
	s.Fatalf("a minute after the last kill some partitions are still behind: %s", behind)
}

// ends are the offsets after the last heartbeats.
func (s *storm) ends() []int64 {
	s.Helper()
	all := make([]int64, stormPartitions)
	for p := range all {
		var err error
		if _, all[p], err = s.reader.Bounds(s.Context(), schemas.Heartbeats, int32(p)); err != nil {
			s.Fatal(err)
		}
	}
	return all
}

// committed are the offsets up to which the detectors have committed, -1 where
// they never have.
func (s *storm) committed() []int64 {
	s.Helper()
	offsets := s.offsets()
	all := make([]int64, stormPartitions)
	for p := range all {
		offset, known := offsets.Lookup(schemas.Heartbeats.Name(schemas.DefaultPrefix), int32(p))
		if all[p] = offset.At; !known {
			all[p] = -1
		}
	}
	return all
}

// offsets are what the detectors have committed. It waits for commits that are under
// way: a broker answers that a transaction is committed before the group's coordinator,
// which may be another broker, has been told.
func (s *storm) offsets() (offsets kadm.OffsetResponses) {
	s.Helper()
	testkit.Until(s.T, "what the detectors have committed is stable", 30*time.Second, func() bool {
		var err error
		if offsets, err = s.admin.FetchOffsets(kadm.RequireStable(s.Context()), "stillhere.detector"); err == nil {
			err = offsets.Error()
		}
		// A broker that was frozen or restarted has closed connections.
		if err != nil && !kerr.IsRetriable(err) && !errors.Is(err, io.EOF) && !errors.As(err, new(*net.OpError)) {
			s.Fatal(err)
		}
		return err == nil
	})
	return offsets
}

// count notes that something happened.
func (s *storm) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what] += n
}
