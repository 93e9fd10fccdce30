package looptest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/internal/kafka/admin"
	"github.com/stillhere/stillhere/internal/kafka/processor"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/internal/testkit/kafkatest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// sink is a task that only looks at the frames, and publishes something for one
// in every so many.
type sink struct {
	frames *atomic.Int64
	frame  schemas.Frame
	every  int
}

func (s *sink) Restore(context.Context, stream.Assignment, stream.ReadFunc) error { return nil }

func (s *sink) Handle(r *schemas.Record, out *stream.Outbox) error {
	if err := s.frame.Decode(r.Value); err != nil {
		return err
	}
	if n := int(s.frames.Add(1)); s.every > 0 && n%s.every == 0 {
		out.Records = append(out.Records, schemas.Outgoing{Topic: schemas.Transitions, Partition: r.Partition, Value: make([]byte, 60)})
	}
	return nil
}

func (s *sink) Checkpoint() string { return (&schemas.Checkpoint{LogEpoch: 1}).Encode() }

// BenchmarkProcessor drains frames of 1,000 beats that wait in four partitions
// of the stand-in, which shares the machine.
func BenchmarkProcessor(b *testing.B) {
	const frames, partitions = 8000, 4
	broker := must.Get(embedded.StartKafka(embedded.KafkaConfig{}))(b)
	defer broker.Close()
	log := slog.New(slog.DiscardHandler)
	cfg := kafka.Config{Brokers: broker.Addrs(), InstanceName: "bench"}
	must.Get(admin.ApplyTopics(b.Context(), cfg, partitions, 1))(b)
	producer := kafkatest.Producer(b, cfg)
	beats := make([]schemas.Beat, 1000)
	for i := range beats {
		beats[i] = schemas.Beat{User: schemas.UserID(1 + i*7919), Device: schemas.DeviceID(i + 1), Kind: 1, Age: schemas.Millis(i % 900), Idle: schemas.Millis(i % 60000)}
	}
	value := schemas.AppendFrame(nil, schemas.FrameHead{}, beats)
	begun := time.Now()
	var outs []schemas.Outgoing
	for i := range frames {
		outs = append(outs, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: int32(i % partitions), Value: value})
		if len(outs) == 1000 {
			must.Do(b, producer.AppendSync(b.Context(), outs...))
			outs = outs[:0]
		}
	}
	b.ReportMetric(frames/time.Since(begun).Seconds(), "appended-frames/s")
	for n := 0; b.Loop(); n++ {
		var seen atomic.Int64
		ctx, cancel := context.WithCancel(b.Context())
		group := "bench" + string(rune('a'+n))
		transform := processor.New(cfg, group, schemas.Heartbeats, func(int32) processor.Task { return &sink{frames: &seen, every: 100} }, producer, log, nil)
		ended := make(chan error, 1)
		go func() { ended <- transform.Run(ctx) }()
		for seen.Load() == 0 {
			time.Sleep(time.Millisecond) // a benchmark may
		}
		first := time.Now()
		for seen.Load() < frames {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(frames/time.Since(first).Seconds(), "frames/s")
		b.ReportMetric(float64(len(value)), "bytes/frame")
		cancel()
		must.Do(b, <-ended)
	}
}
