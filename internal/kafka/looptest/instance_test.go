//go:build synctests

package looptest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// one runs a transform under the name a; its end is told by the channel.
func (w *world) one(ctx context.Context, cfg kafka.Config, id string) (*processor.Processor, chan error) {
	cfg.InstanceName, cfg.ClientID = "a", id
	t := w.transform(cfg, func(c *copier) processor.Task { return c })
	ended := make(chan error, 1)
	go func() { ended <- t.Run(ctx) }()
	return t, ended
}

func TestOfTwoProcessesWithOneInstanceNameTheYoungerEnds(t *testing.T) {
	onEach(t, 2, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		elder, younger := w.cfg, w.cfg
		elder.Stamp, younger.Stamp = kafka.ProcessStamp{Started: 1, ID: 7}, kafka.ProcessStamp{Started: 2, ID: 3}
		a, aEnded := w.one(ctx, elder, "elder")
		w.has("ready", a, 2)
		stopBeats, beating := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-time.After(100 * time.Millisecond):
					w.beat(0, "x")
					n++
				case <-stopBeats:
					beating <- n
					return
				}
			}
		}()
		w.pass(3 * time.Second)
		_, bEnded := w.one(ctx, younger, "younger")
		select {
		case err := <-bEnded:
			if err == nil || !strings.Contains(err.Error(), `client id "elder" at `) || !strings.Contains(err.Error(), "detector") {
				w.Errorf("it says %v", err)
			}
		case <-time.After(15 * time.Second):
			w.Fatal("after 15 s both still run")
		}
		w.pass(10 * time.Second)
		close(stopBeats)
		sent := <-beating
		w.until("all copied", 15*time.Second, func() bool { return w.counts()["x"] == sent })
		var beats, copies []schemas.Millis
		for _, r := range w.read(schemas.Heartbeats) {
			if r.Key != nil {
				beats = append(beats, r.Time)
			}
		}
		for _, r := range w.read(schemas.Transitions) {
			copies = append(copies, r.Time)
		}
		worst := schemas.Millis(0)
		for i := range copies {
			worst = max(worst, copies[i]-beats[i])
		}
		if worst > 10_000 {
			w.Errorf("a record waited %d ms", worst)
		}
		w.Logf("the longest that a record waited: %d ms", worst)
		select {
		case err := <-aEnded:
			w.Errorf("the elder ended as well: %v", err)
		default:
		}
		cancel()
		must.Do(w, <-aEnded)
	})
}

func TestALoneProcessThatIsFencedDoesNotEnd(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"producer": {Keys: []kmsg.Key{kmsg.EndTxn}, TxnID: "detector.a", TopLevel: true, Err: kerr.ProducerFenced, Count: 1},
		"member":   {Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "detector", TopLevel: true, Err: kerr.FencedInstanceID, Count: 1},
		"join":     {Keys: []kmsg.Key{kmsg.JoinGroup}, Group: "detector", TopLevel: true, Err: kerr.FencedInstanceID, Count: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				// Its predecessor is dead and still a member, and older.
				old := w.cfg
				old.Stamp = kafka.ProcessStamp{Started: 1, ID: 1}
				stop, before := w.memberWith("a", old)
				w.until("ready", 30*time.Second, func() bool { return before.Ready() == nil })
				must.Do(w, stop())
				handle := w.kafka.Cluster().Fault(fault)
				_, after := w.member("a")
				w.beat(0, "x")
				w.until("fenced", 30*time.Second, func() bool { return handle.Hits() > 0 })
				w.until("ready again", time.Minute, func() bool { return after.Ready() == nil && w.counts()["x"] == 1 })
			})
		})
	}
}

func TestOfTwoFollowersWithOneInstanceNameTheYoungerEnds(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		follow := func(id string, s kafka.ProcessStamp) chan error {
			cfg, k := w.cfg, newKeeper()
			cfg.InstanceName, cfg.ClientID, cfg.Stamp = "f", id, s
			f := consumer.New(cfg, "follower", schemas.Transitions, decodeKey, k, w.producer, w.log.With("member", id), w.metrics)
			ended := make(chan error, 1)
			go func() { ended <- f.Run(ctx) }()
			w.until("following", 30*time.Second, func() bool { return f.Ready() == nil || len(ended) > 0 })
			return ended
		}
		a := follow("elder", kafka.ProcessStamp{Started: 1, ID: 7})
		b := follow("younger", kafka.ProcessStamp{Started: 2, ID: 3})
		select {
		case err := <-b:
			if err == nil || !strings.Contains(err.Error(), `client id "elder" at `) {
				w.Errorf("it says %v", err)
			}
		case <-time.After(15 * time.Second):
			w.Fatal("after 15 s both still run")
		}
		time.Sleep(10 * time.Second)
		cancel()
		must.Do(w, <-a)
	})
}
