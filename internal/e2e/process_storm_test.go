//go:build unix

package e2e_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

// The storm test: the broker in a process, two detectors in theirs, which are
// killed, frozen and stopped at random instants while several hundred users come
// and go. What the detectors have committed in the end must be, record for record,
// what the oracle says of the heartbeats that are in the log.
//
//	STILLHERE_STORM_KILLS   how often a detector is killed [10]
//	STILLHERE_STORM_SEED    for the storm of a run before [random]
//
// The judgement does not depend on when anything happened: a commit covers
// exactly the records before its offset, so the transitions must be those of
// these.
func TestNoKillOfADetectorChangesWhatIsCommitted(t *testing.T) {
	path := binary(t, "stillhere-crashpoints")
	t.Parallel()
	s := newStorm(t)
	s.begun = time.Now()
	loaded := s.loadUntil(s.calm)
	var lives sync.WaitGroup
	for i := range int64(2) {
		d := &detectorProcess{storm: s, path: path, instance: "detector-" + string(rune('a'+i)), random: rand.New(rand.NewPCG(s.seed, 1+uint64(i)))}
		s.detectors = append(s.detectors, d)
		lives.Go(d.live)
	}
	lives.Wait()
	for _, d := range s.detectors {
		until(t, d.instance+" is ready", time.Minute, func() bool { return strings.Contains(d.program.err.String(), `"msg":"ready"`) })
	}
	s.settle()
	close(s.calm)
	<-loaded
	s.settle()
	for _, d := range s.detectors {
		d.program.signal(syscall.SIGTERM)
	}
	for _, d := range s.detectors {
		if code := d.program.wait(20 * time.Second); code != 0 {
			t.Errorf("%s stopped with exit code %d:\n%s", d.instance, code, tail(d.program.err.String(), 2000))
		}
		d.ended()
	}
	s.judge()
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

func policyFlags(s liveness.Settings) []string {
	return []string{
		"--heartbeat-interval=" + s.HeartbeatInterval.String(), "--online-ttl=" + s.OnlineTTL.String(),
		"--offline-debounce=" + s.OfflineDebounce.String(), "--away-ttl=" + s.AwayTTL.String(), "--idle-after=" + s.IdleAfter.String(),
		"--bye-debounce=" + s.ByeDebounce.String(), "--allowed-lateness=" + s.AllowedLateness.String(),
		"--reconnect-window=" + s.ReconnectWindow.String(), "--cohort-rate=" + strconv.Itoa(s.CohortRate),
	}
}

type storm struct {
	*testing.T
	seed      uint64
	policy    liveness.Settings
	config    stream.Config
	reader    *stream.Reader
	producer  *stream.Producer
	admin     *kadm.Client
	detectors []*detectorProcess
	begun     time.Time
	calm      chan struct{} // closed when the load is to end

	left                                     atomic.Int64 // kills to come
	kills, freezes, stops, crashes, restores atomic.Int64
	thrownAway, refused                      atomic.Int64
}

func newStorm(t *testing.T) *storm {
	s := &storm{T: t, seed: uint64(number(t, "STILLHERE_STORM_SEED", rand.Int64N(1_000_000))), policy: stormPolicy(), calm: make(chan struct{})}
	s.left.Store(number(t, "STILLHERE_STORM_KILLS", 10))
	t.Logf("seed %d", s.seed)
	broker := start(t, binary(t, "broker"), nil, "--data-dir", filepath.Join(t.TempDir(), "kafka"))
	until(t, "the broker is ready", 20*time.Second, func() bool { return len(broker.out.lines()) > 0 })
	address := strings.TrimPrefix(broker.out.lines()[0], "ready ")
	s.config = stream.Config{Brokers: []string{address}, InstanceName: "storm"}
	if _, err := stream.ApplyTopics(t.Context(), s.config, stormPartitions, 1); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if s.reader, err = stream.NewReader(s.config, quiet); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.reader.Close)
	if s.producer, err = stream.NewProducer(s.config, quiet, nil); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	s.admin = kadm.NewClient(client)
	t.Cleanup(s.admin.Close)
	return s
}

// number is a whole number from the environment.
func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// detectorProcess is a detector that dies again and again. One goroutine owns it.
type detectorProcess struct {
	*storm
	path, instance string
	random         *rand.Rand
	program        *program
	armed          bool // it is to kill itself somewhere
}

// live lets the detector live and die until all kills of the storm are used up,
// and leaves it running.
func (d *detectorProcess) live() {
	for d.start(d.crash()); d.left.Load() > 0; {
		d.pause(100*time.Millisecond, 2500*time.Millisecond)
		switch n := d.random.IntN(10); {
		case !d.program.running(): // it has killed itself where it was told to
			d.crashes.Add(1)
			d.left.Add(-1)
		case n < 2: // a zombie: it does not know how long it was away
			d.freezes.Add(1)
			d.program.signal(syscall.SIGSTOP)
			if d.random.IntN(2) == 0 {
				d.pause(time.Second, 6*time.Second)
			} else { // longer than the group waits for it
				d.pause(6500*time.Millisecond, 8*time.Second)
			}
			if d.random.IntN(4) > 0 {
				d.program.signal(syscall.SIGCONT)
				continue
			}
			d.kills.Add(1)
			d.left.Add(-1)
			d.program.kill()
		case n < 3: // a planned restart
			d.stop()
		default:
			d.kills.Add(1)
			d.left.Add(-1)
			d.program.kill()
		}
		d.ended()
		d.pause(0, 1200*time.Millisecond)
		d.start(d.crash())
	}
	if d.armed { // it must not die in the calm
		d.program.kill()
		d.ended()
		d.start("")
	}
}

// stop is a planned restart's first half. While the other detector is frozen or
// has just died a stop may find no way to commit what is in hand; then it must say
// so, and the successor does it again.
func (d *detectorProcess) stop() {
	d.Helper()
	d.stops.Add(1)
	d.program.signal(syscall.SIGTERM)
	switch code := d.program.wait(30 * time.Second); {
	case code == 0:
	case code == -1 && !strings.Contains(d.program.err.String(), `"msg":"starting"`): // it could not catch signals yet
		d.kills.Add(1)
		d.left.Add(-1)
	case d.armed && code == -1: // it came to its crash point on the way out
		d.crashes.Add(1)
	case strings.Contains(d.program.err.String(), "stillhere: detector: "):
		d.refused.Add(1)
	default:
		d.Errorf("%s stopped with exit code %d:\n%s", d.instance, code, tail(d.program.err.String(), 2000))
	}
}

// crash says where the next process is to kill itself, if anywhere: the instants
// that a kill from outside seldom hits.
func (d *detectorProcess) crash() string {
	if d.random.IntN(2) == 0 {
		return ""
	}
	points := []string{"handle", "commit.begun", "commit.forwarded", "commit.flushed", "commit.offsets", "commit.ended",
		"restore.begun", "restore.reading", "restore.done"}
	point, most := points[d.random.IntN(len(points))], 30
	if strings.HasPrefix(point, "restore") {
		most = 3
	}
	return fmt.Sprintf("%s:%d", point, 1+d.random.IntN(most))
}

func (d *detectorProcess) start(crash string) {
	d.armed = crash != ""
	d.program = start(d.T, d.path, func(c *exec.Cmd) { c.Env = append(c.Env, "STILLHERE_CRASH="+crash) }, append([]string{"detector", "--instance", d.instance, "--admin=",
		"--kafka-brokers", d.config.Brokers[0]}, policyFlags(d.policy)...)...)
}

// ended counts what a process that has ended had done.
func (d *detectorProcess) ended() {
	log := d.program.err.String()
	d.restores.Add(int64(strings.Count(log, `"msg":"restored"`)))
	d.thrownAway.Add(int64(strings.Count(log, "the session is thrown away")))
	for _, bad := range []string{"panic:", "ALARM", "DATA RACE", "log was cut", "retention has overtaken"} {
		if i := strings.Index(log, bad); i >= 0 {
			d.Errorf("%s said:\n%s", d.instance, tail(log[i:min(len(log), i+2000)], 2000))
		}
	}
}

// pause waits for a random time.
func (d *detectorProcess) pause(least, most time.Duration) {
	<-time.After(least + time.Duration(d.random.Int64N(int64(most-least))))
}

// settle waits until everything that is in the log now has been committed.
func (s *storm) settle() {
	s.Helper()
	ends := s.ends()
	var behind string
	if !within(60*time.Second, func() bool {
		behind = ""
		for p, offset := range s.committed() {
			if offset < ends[p] {
				behind += fmt.Sprintf("partition %d is at %d of %d; ", p, offset, ends[p])
			}
		}
		return behind == ""
	}) {
		for _, d := range s.detectors {
			s.Logf("%s said last:\n%s", d.instance, tail(d.program.err.String(), 3000))
		}
		s.Fatalf("a minute after the last kill some partitions are still behind: %s", behind)
	}
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
	offsets, err := s.admin.FetchOffsets(s.Context(), "stillhere.detector")
	if err != nil {
		s.Fatal(err)
	}
	all := make([]int64, stormPartitions)
	for p := range all {
		offset, known := offsets.Lookup(schemas.Heartbeats.Name(schemas.DefaultPrefix), int32(p))
		if all[p] = offset.At; !known {
			all[p] = -1
		}
	}
	return all
}
