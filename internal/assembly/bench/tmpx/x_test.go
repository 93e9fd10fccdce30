package tmpx

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
	"os"
	"runtime/pprof"

	"github.com/stillhere/stillhere/internal/standin"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/schemas"
)

type h struct{ n, calls atomic.Int64 }

func (x *h) Apply(_ context.Context, b schemas.Batch[schemas.Logged[*schemas.Transition]]) error {
	x.n.Add(int64(len(b.Items))); x.calls.Add(1)
	return nil
}

func TestX(t *testing.T) {
	kafka, _ := standin.StartKafka(standin.KafkaConfig{})
	defer kafka.Close()
	log := slog.New(slog.DiscardHandler)
	cfg := stream.Config{Brokers: kafka.Addrs(), InstanceName: "x"}
	stream.ApplyTopics(t.Context(), cfg, 1, 1)
	p, _ := stream.NewProducer(cfg, log, nil)
	const n = 400_000
	outs := make([]schemas.Outgoing, 0, 5000)
	for i := 1; i <= n; i++ {
		tr := schemas.Transition{User: schemas.UserID(i * 7919), To: schemas.Online, At: 1763700000000, LastSeen: 1763700000000, Cause: 1, Version: schemas.NewVersion(1, int64(i), 0), Policy: "abcdef", Kinds: 2}
		outs = append(outs, schemas.Outgoing{Topic: schemas.Transitions, Partition: 0, Key: tr.User.Key(), Value: tr.Encode()})
		if len(outs) == 5000 {
			if err := p.AppendSync(t.Context(), outs...); err != nil { t.Fatal(err) }
			outs = outs[:0]
		}
	}
	r, _ := stream.NewReader(cfg, log)
	begun := time.Now()
	c := 0
	r.Read(t.Context(), schemas.Transitions, 0, -1, -1, true, func(rec *schemas.Record) error { schemas.DecodeLoggedTransition(rec); c++; return nil })
	fmt.Println("reader", c, time.Since(begun))
	ff, _ := os.Create("/tmp/fol.prof"); pprof.StartCPUProfile(ff)
	var x h
	ctx, cancel := context.WithCancel(t.Context())
	f := stream.Follow(cfg, "g", schemas.Transitions, schemas.DecodeLoggedTransition, &x, p, log, nil, stream.Alone())
	begun = time.Now()
	go f.Run(ctx)
	for x.n.Load() < n { time.Sleep(time.Millisecond) }
	fmt.Println("follower", x.n.Load(), "calls", x.calls.Load(), time.Since(begun))
	pprof.StopCPUProfile()
	cancel()
}
