package beat_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

func TestCloseWritesWhatIsHeldThenDrains(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		other := schemas.UserID(2) // in another partition
		for schemas.PartitionOf(other, partitions) == schemas.PartitionOf(1, partitions) {
			other++
		}
		g.beat(1, 0)
		g.beat(other, 0)
		pass(100 * time.Millisecond)
		must.Do(t, g.Bye(other, 7))
		pass(2 * time.Second)
		g.beat(1, time.Second) // a repeat: would wait for the next flush
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
		defer cancel()
		must.Do(t, g.Close(ctx))
		w := g.log.Written()
		own := slices.DeleteFunc(slices.Clone(w), func(w beattest.Written) bool { return w.Partition != schemas.PartitionOf(1, partitions) })
		last, before := own[len(own)-1], own[len(own)-2]
		if !last.Draining || last.Partition != schemas.PartitionOf(1, partitions) || len(last.Beats) != 0 {
			t.Fatalf("the last frame is %+v, want draining in the partition of user 1", last)
		}
		if len(before.Beats) != 1 || before.Beats[0].Idle != 1000 || last.Sequence != before.Sequence+1 {
			t.Fatalf("before it came %+v, want the beat that was held", before)
		}
		draining := map[int32]int{}
		for _, w := range w {
			if w.Draining {
				draining[w.Partition]++
			}
		}
		if len(draining) != 2 || draining[schemas.PartitionOf(1, partitions)] != 1 || draining[schemas.PartitionOf(other, partitions)] != 1 {
			t.Fatalf("draining frames by partition: %v, want one where user 1 is and one where another was of late", draining)
		}
		if err := g.Beat(1, nil, 7, schemas.Mobile, 0); !errors.Is(err, beat.ErrClosed) {
			t.Fatalf("got %v after Close, want ErrClosed", err)
		}
		if err := g.Close(ctx); err != nil {
			t.Fatalf("second Close: %v", err)
		}
	})
}

func TestCloseWaitsOutAShortOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.beat(1, 0)
		pass(time.Second)
		g.log.Refuse(errors.New("no leader"))
		g.beat(2, 0)
		time.AfterFunc(2*time.Second, func() { g.log.Refuse(nil) })
		ctx, cancel := context.WithTimeout(g.t.Context(), 10*time.Second)
		defer cancel()
		tried := g.log.Tried()
		must.Do(t, g.Close(ctx))
		if n := g.log.Tried() - tried; n > 100 {
			t.Fatalf("%d attempts in 2 s: that is a tight loop", n)
		}
		w := g.log.Written()
		if last := w[len(w)-1]; !last.Draining {
			t.Fatalf("the last frame is %+v, want draining", last)
		}
		if beats := g.log.Beats(); len(beats) != 2 {
			t.Fatalf("%d beats, want 2", len(beats))
		}
	})
}

func TestCloseSaysWhatItCouldNotWrite(t *testing.T) {
	t.Parallel()
	inBubble(t, func(g gateway) {
		g.log.Away(true)
		g.beat(1, 0)
		g.beat(2, 0)
		ctx, cancel := context.WithTimeout(g.t.Context(), 3*time.Second)
		defer cancel()
		err := g.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 reports") {
			t.Fatalf("got %v, want 2 reports not known to be written", err)
		}
	})
}

func TestCloseRightAfterTheReportsWritesThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &beattest.Log{Partitions: partitions, Delay: 20 * time.Millisecond}
		c := must.Get(beat.New(beat.Config{GatewayID: "gw-1", Partitions: partitions}, log))(t)
		const users = 10_000
		for user := range schemas.UserID(users) {
			must.Do(t, c.Beat(user+1, nil, 7, schemas.Web, 0))
		}
		must.Do(t, c.Close(t.Context()))
		if n := len(log.Beats()); n != users {
			t.Fatalf("%d beats, want %d", n, users)
		}
		if err := c.Beat(1, nil, 7, schemas.Web, 0); !errors.Is(err, beat.ErrClosed) {
			t.Errorf("a beat after Close is answered %v, want ErrClosed", err)
		}
	})
}
