package virtual

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/signing"
	"github.com/stillhere/stillhere/schemas"
)

// trouble draws what goes wrong in a fleet.
type trouble struct {
	*fleet
	random   *rand.Rand
	producer *kafka.Producer // none of the fleet's
	under    sync.WaitGroup  // faults under way
}

// minute lets a fault happen at some time within the minute that begins now, and
// returns at the minute's end. Its effect may last longer.
func (t *trouble) minute() {
	begin := time.Now()
	for range 1 + t.random.IntN(2) {
		wait := time.Duration(t.random.Int64N(int64(30 * time.Second)))
		name, do := t.draw()
		t.count(name, 1)
		time.Sleep(wait)
		t.w.log.Info("FAULT", "name", name)
		t.under.Go(do)
	}
	time.Sleep(time.Until(begin.Add(time.Minute)))
}

// lasting draws a duration of which the shorter ones are as likely as the longer.
func (t *trouble) lasting(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), t.random.Float64()))
}

// draw chooses a fault with all that is random about it.
func (t *trouble) draw() (string, func()) {
	cluster := t.w.kafka.Cluster()
	faults := []struct {
		name string
		make func() func()
	}{
		{"a detector is killed", t.kill("detector")},
		{"a detector is killed", t.kill("detector")},
		{"lastseen is killed", t.kill("lastseen")},
		{"fanout is killed", t.kill("fanout")},
		{"an ingest is killed", t.kill("ingest")},
		{"api is killed", t.kill("api")},
		{"a planned restart", func() func() {
			m, down := t.pick(t.random, ""), t.lasting(10*time.Millisecond, 3*time.Second)
			return func() { m.alone(func() { m.give(order{down: down}) }) }
		}},
		{"a detector is frozen", t.freeze("detector")},
		{"somebody is frozen", t.freeze("")},
		{"the network stands still", func() func() {
			long := t.lasting(time.Second, time.Minute)
			return func() {
				for _, m := range t.members {
					_, wire := m.now()
					wire.freeze()
					defer wire.thaw()
				}
				time.Sleep(long)
			}
		}},
		{"Kafka refuses to write", t.fault(time.Second, time.Minute, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas})},
		{"Kafka refuses transactions", t.fault(time.Second, time.Minute, kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, TopLevel: true, Err: kerr.CoordinatorLoadInProgress})},
		{"Kafka refuses to read", t.fault(time.Second, 30*time.Second, kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.ReplicaNotAvailable})},
		{"ticks are blocked", t.fault(time.Second, 90*time.Second, kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, When: onlyTicks})},
		{"errors at random", func() func() {
			seed, long := t.random.Uint64(), t.lasting(5*time.Second, time.Minute)
			return func() {
				errors := t.w.kafka.ErrorsAtRandom(seed, 40)
				time.Sleep(long)
				errors.Stop()
				t.count("answers that were errors", errors.Count())
			}
		}},
		{"leaders move", func() func() {
			random, long := rand.New(rand.NewPCG(t.random.Uint64(), 0)), t.lasting(500*time.Millisecond, 10*time.Second)
			return func() {
				for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					topic := []schemas.Topic{schemas.Heartbeats, schemas.Transitions, schemas.Statuses}[random.IntN(3)]
					_ = cluster.MoveTopicPartition(topic.Name(schemas.DefaultPrefix), random.Int32N(2), random.Int32N(3))
				}
			}
		}},
		{"coordinators move", func() func() { return cluster.RehashCoordinators }},
		{"Redis comes back empty", func() func() { return t.w.redis.Server().FlushAll }},
		{"Redis is away", func() func() {
			long := t.lasting(time.Second, time.Minute)
			return func() {
				t.w.redis.Server().SetError("ERR away")
				time.Sleep(long)
				t.w.redis.Server().SetError("")
			}
		}},
		{"the brokers' clock steps", func() func() {
			step := time.Duration(t.random.Int64N(int64(6*time.Second))) - 3*time.Second
			return func() { t.w.kafka.SetClock(step) }
		}},
		{"strange records", func() func() {
			value, p := []byte{0xff, byte(t.random.IntN(256))}, t.random.Int32N(2)
			user := schemas.UserID(500 + t.random.IntN(5))
			return func() {
				t.append(p, value)
				wrong := 1 - schemas.PartitionOf(user, 2)
				t.append(wrong, schemas.AppendFrame(nil, schemas.FrameHead{}, []schemas.Beat{{User: user, Device: 1, Kind: schemas.Bot}}))
			}
		}},
		{"visibility changes", func() func() {
			user, v := schemas.UserID(30+t.random.IntN(8)), []schemas.Visibility{schemas.Nobody, schemas.Everyone}[t.random.IntN(2)]
			return func() { t.append(schemas.PartitionOf(user, 2), schemas.AppendVisibility(nil, user, v)) }
		}},
	}
	f := faults[t.random.IntN(len(faults))]
	return f.name, f.make()
}

// alone does something with a member with which no other fault has to do just now.
func (m *member) alone(do func()) {
	if !m.busy.TryLock() {
		return
	}
	defer m.busy.Unlock()
	do()
}

func (t *trouble) kill(role string) func() func() {
	return func() func() {
		m, down := t.pick(t.random, role), t.lasting(10*time.Millisecond, 20*time.Second)
		return func() { m.alone(func() { m.give(order{kill: true, down: down}) }) }
	}
}

func (t *trouble) freeze(role string) func() func() {
	return func() func() {
		m, long := t.pick(t.random, role), t.lasting(200*time.Millisecond, 30*time.Second)
		return func() {
			m.alone(func() {
				_, wire := m.now()
				wire.freeze()
				time.Sleep(long)
				wire.thaw()
			})
		}
	}
}

func (t *trouble) fault(least, most time.Duration, f kfake.Fault) func() func() {
	return func() func() {
		long := t.lasting(least, most)
		return func() {
			f.Count = -1
			handle := t.w.kafka.Cluster().Fault(f)
			time.Sleep(long)
			handle.Remove()
			t.count("answers that were errors", handle.Hits())
		}
	}
}

// signedTick is a tick as any partition has it, but for its sealing time and its MAC, which end it.
func signedTick(tick []byte) []byte {
	return signing.Of([]signing.Master{master}).Sign(tick, schemas.Heartbeats.Name(schemas.DefaultPrefix), 0, schemas.MillisOf(beginnings[0]))
}

var signedTicks = [][]byte{signedTick(schemas.AppendTick(nil)), signedTick(schemas.AppendTickBehind(nil))}

// onlyTicks reports whether a request writes one tick to each of its partitions and nothing else.
func onlyTicks(r kmsg.Request) bool {
	const header, before, after = 61, 6, 1       // of the batch; of the record, in front of its value and behind it
	const sealedAt, mac = 8, 3 + schemas.MACSize // with their tags
	ticks := 0
	for _, topic := range r.(*kmsg.ProduceRequest).Topics {
		for _, partition := range topic.Partitions {
			if !slices.ContainsFunc(signedTicks, func(tick []byte) bool {
				return len(partition.Records) == header+before+len(tick)+after &&
					bytes.HasPrefix(partition.Records[header+before:], tick[:len(tick)-sealedAt-mac])
			}) {
				return false
			}
			ticks++
		}
	}
	return ticks > 0
}

// append writes a record as another producer might.
func (t *trouble) append(partition int32, value []byte) {
	done := make(chan error, 1)
	t.producer.Append(t.w.Context(), schemas.Outgoing{Topic: schemas.Heartbeats, Partition: partition, Value: value}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.count("strange records not written", 1)
	}
}
