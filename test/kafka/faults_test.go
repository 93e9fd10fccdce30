//go:build unix

package kafka_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

const (
	faultUsers = 150
	// memoryLimit is what no role may take, MiB, whatever it waits for.
	memoryLimit = 400
)

// traffic posts beats, each with a device that no other request has, so that every
// one that was acknowledged can be looked for in the log.
type traffic struct {
	*pipeline
	mu           sync.Mutex
	acknowledged []testkit.Beat
	refused      int
	bare         int // refusals without Retry-After
	slowest      time.Duration
	next         schemas.DeviceID
}

// flow posts beats until quit is closed.
func (f *traffic) flow(quit <-chan struct{}) {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ticker.C:
		}
		f.post()
	}
}

func (f *traffic) post() {
	f.mu.Lock()
	f.next++
	device := f.next%1000 + 1
	f.mu.Unlock()
	// Of two beats of one device in a request only the last is kept, so all differ.
	beats, first := make([]testkit.Beat, 1+rand.IntN(8)), rand.IntN(faultUsers)
	for i := range beats {
		beats[i] = testkit.Beat{User: schemas.UserID(1 + (first+i)%faultUsers), Device: device, Bye: rand.IntN(10) == 0}
	}
	body, err := json.Marshal(map[string]any{"beats": beats})
	if err != nil {
		panic(err) // of a struct of ours
	}
	begun := time.Now()
	response, err := f.Client.Post("http://"+f.In+"/presence/heartbeats", "application/json", bytes.NewReader(body))
	took := time.Since(begun)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slowest = max(f.slowest, took)
	if err != nil {
		f.Errorf("ingest does not answer: %v", err)
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	switch response.StatusCode {
	case http.StatusAccepted:
		f.acknowledged = append(f.acknowledged, beats...)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		f.refused++
		if response.Header.Get("Retry-After") == "" {
			f.bare++
		}
	default:
		f.Errorf("ingest answers %s", response.Status)
	}
}

// allThere checks that the log has what was acknowledged.
func (f *traffic) allThere() {
	f.Helper()
	type pair struct {
		user   schemas.UserID
		device schemas.DeviceID
	}
	have := map[pair]int{}
	reader := f.Reader()
	for p := range int32(testkit.DevPartitions) {
		err := reader.Read(f.Context(), schemas.Heartbeats, p, -1, -1, false, func(r *schemas.Record) error {
			var frame schemas.Frame
			if err := frame.Decode(r.Value); err != nil {
				return err
			}
			rows := frame.Beats()
			for row := (schemas.Beat{}); rows.Next(&row); {
				have[pair{row.User, row.Device}]++
			}
			return nil
		})
		must.Do(f, err)
	}
	lost := 0
	for _, b := range f.acknowledged {
		if have[pair{b.User, b.Device}]--; have[pair{b.User, b.Device}] < 0 {
			lost++
		}
	}
	if lost > 0 {
		f.Errorf("%d of %d acknowledged beats are not in the log", lost, len(f.acknowledged))
	}
}

// suffer lets users beat, injects a fault, ends it, and judges what is left. fault
// returns once it has hit; mend once the servers could work again. The line it logs
// is a row of deploy/FAULTS.md.
func (p *pipeline) suffer(what string, lasts time.Duration, fault, mend func()) {
	p.Helper()
	f, stale := p.bear(what, lasts, fault, mend)
	if f.bare > 0 {
		p.Errorf("%d refusals do not say when to try again", f.bare)
	}
	if lasts >= 8*time.Second && stale == 0 {
		p.Errorf("in %s nobody said that answers are stale", lasts)
	}
	if lasts >= 8*time.Second && f.refused == 0 {
		p.Errorf("no request was refused in %s without Kafka", lasts)
	}
}

// sufferSlowness is suffer of a fault in which Kafka is there all the time: nothing
// has to be refused.
func (p *pipeline) sufferSlowness(what string, lasts time.Duration, fault, mend func()) {
	p.Helper()
	p.bear(what, lasts, fault, mend)
}

// bear is what both are about.
func (p *pipeline) bear(what string, lasts time.Duration, fault, mend func()) (*traffic, time.Duration) {
	p.Helper()
	f := &traffic{pipeline: p}
	quit := make(chan struct{})
	var flows sync.WaitGroup
	end := sync.OnceFunc(func() { close(quit); flows.Wait() })
	defer end() // also when the test fails: its goroutines must not outlive it
	for range 4 {
		flows.Go(func() { f.flow(quit) })
	}
	<-time.After(3 * time.Second)
	fault()
	hit := time.Now()
	stale := time.Duration(0)
	for time.Since(hit) < lasts {
		if user := p.User(1); user.StaleSince != 0 && stale == 0 {
			stale = time.Since(hit)
		}
		<-time.After(100 * time.Millisecond)
	}
	mend()
	mended := time.Now()
	var recovered time.Duration
	newcomer := schemas.UserID(faultUsers + 1 + rand.Int64N(1_000_000))
	testkit.Until(p.T, "a beat makes a user online again", 40*time.Second, func() bool {
		_ = p.Send(testkit.Beat{User: newcomer, Device: 1})
		recovered = time.Since(mended)
		return p.State(newcomer) == "online"
	})
	<-time.After(2 * time.Second)
	end()
	p.stillUp()
	p.allReady(30 * time.Second)
	users := []schemas.UserID{newcomer}
	for user := range schemas.UserID(faultUsers) {
		users = append(users, user+1)
	}
	c := p.judge(users)
	f.allThere()
	memory := p.memory()
	p.Logf("| %s | %d records in, %d beats acknowledged, %d requests refused (the slowest answer after %s) | %d transitions | %d rows | %d doubled | stale said after %s; works again %s after the servers do; %.0f MiB at most |",
		what, c.records, len(f.acknowledged), f.refused, f.slowest.Round(time.Millisecond), c.transitions, c.rows, c.doubled,
		stale.Round(100*time.Millisecond), recovered.Round(10*time.Millisecond), memory)
	if memory > memoryLimit {
		p.Errorf("a role took %.0f MiB, the limit is %d", memory, memoryLimit)
	}
	return f, stale
}

func TestABrokerThatIsKilledOrFrozenCostsNothingThatWasAcknowledged(t *testing.T) {
	p := newPipeline(t)
	kafka := func(action string) func() { return func() { p.servers.Do("kafka-1", action) } }
	p.suffer("broker killed for 10 s", 10*time.Second, kafka("kill"), kafka("start"))
	if os.Getenv("STILLHERE_LONG") == "" {
		return
	}
	p.suffer("broker frozen for 12 s", 12*time.Second, kafka("freeze"), kafka("thaw"))
	p.suffer("broker stopped for 60 s", time.Minute, kafka("stop"), kafka("start"))
}

func TestALeaderThatMovesAndALostMajorityCostNothingThatWasAcknowledged(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	p := newPipeline(t, "--brokers", "3")
	do := func(action string, names ...string) func() {
		return func() {
			for _, name := range names {
				p.servers.Do(name, action)
			}
		}
	}
	p.suffer("one of three brokers stopped for 5 s: its leaders move", 5*time.Second, do("stop", "kafka-2"), do("start", "kafka-2"))
	p.suffer("one of three brokers killed for 5 s", 5*time.Second, do("kill", "kafka-3"), do("start", "kafka-3"))
	p.suffer("two of three brokers killed for 15 s: no majority", 15*time.Second, do("kill", "kafka-2", "kafka-3"), func() {
		do("launch", "kafka-2", "kafka-3")()
		do("wait", "kafka-2", "kafka-3")()
	})
}

func TestAFullDiskOfTheBrokerCostsNothingThatWasAcknowledged(t *testing.T) {
	testkit.NeedKafka(t)
	testkit.NeedLong(t)
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	const size = 160 << 20
	dir := filepath.Join(t.TempDir(), "servers")
	disk := filepath.Join(dir, "kafka-1", "data")
	testkit.SmallDisk(t, disk, size)
	servers := testkit.StartServersIn(t, dir)
	t.Cleanup(func() { servers.Local("down", "--only", "kafka") })
	p := newPipelineOn(t, servers)
	var free func()
	p.suffer("disk of the broker full for 15 s, then space, then the broker started again", 15*time.Second,
		func() { free = testkit.Fill(t, disk) }, func() {
			free()
			p.servers.Do("kafka-1", "start")
		})
}
