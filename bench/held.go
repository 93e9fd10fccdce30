package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stillhere/stillhere/detector/liveness"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/kafka"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

// held compares users who beat every 15 s with users whose gateways hold their connections, while nothing changes:
// what gateways write, and what that costs them, the brokers (with --broker-pids) and the detector, each in a process
// of its own, and a restart of the detector. Nobody may change meanwhile.
func (l *lab) held(t *loadtest.T) {
	for _, way := range []string{"beating", "held"} {
		rig := t.Rig()
		d := rig.Detector(liveness.Defaults(), nil)
		d.Assigned()
		g := t.Start("gateways", told{Kafka: rig.Kafka.Brokers, Prefix: rig.Kafka.Prefix,
			Users: t.Users, Gateways: l.Gateways, Partitions: t.Partitions, Held: way == "held"})
		var wrote written
		g.Hear(&wrote)
		t.Until(func() string { return fmt.Sprintf("everybody comes online: %d changes", published(t, rig)) },
			func() bool { return published(t, rig) >= int64(t.Users) })
		rest(t, 20*time.Second) // until everybody has beaten once more, and gateways have their leases

		at := func() (w written, used [3]time.Duration, changed int64) {
			g.Say(struct{}{})
			g.Hear(&w)
			for _, pid := range l.BrokerPIDs {
				used[0] += processorTime(pid)
			}
			return w, [3]time.Duration{used[0], processorTime(os.Getpid()), processorTime(g.PID)}, published(t, rig)
		}
		before, used, changed := at()
		rest(t, t.Length())
		after, usedThen, changedThen := at()
		seconds := t.Length().Seconds()
		t.Add(way+": records", float64(after.Records-before.Records)/seconds, "1/s").LessIsBetter()
		t.Add(way+": bytes", float64(after.Bytes-before.Bytes)/seconds, "B/s").LessIsBetter()
		for i, whose := range []string{"brokers", "detector", "gateways"} {
			took := float64((usedThen[i] - used[i]).Milliseconds())
			t.Add(way+": processor time of the "+whose, took/seconds, "ms/s").LessIsBetter()
		}
		t.Add(way+": changes", float64(changedThen-changed), "").AtMost(0)
		t.Add(way+": users who were said to leave", float64(left(t, rig)), "").AtMost(0)

		began := time.Now()
		t.Check(d.Stop())
		d = rig.Detector(liveness.Defaults(), nil)
		d.Assigned()
		t.Add(way+": restart of the detector", time.Since(began).Seconds(), "s").LessIsBetter()
		rest(t, 20*time.Second) // until everybody would count as gone
		t.Add(way+": users who were said to leave over the restart", float64(left(t, rig)), "").AtMost(0)
		t.Check(g.Close())
		t.Check(d.Stop())
	}
	t.Note(fmt.Sprintf("%d users through %d gateways, %d partitions.", t.Users, l.Gateways, t.Partitions))
}

// published is how many transitions there are.
func published(t *loadtest.T, rig *loadtest.Rig) (n int64) {
	for p := range t.Partitions {
		_, end, err := rig.Reader.Bounds(t.Context(), schemas.Transitions, p)
		t.Check(err)
		n += end // and the markers of transactions, which end when nothing changes
	}
	return n
}

// left is how many transitions say that a user is away or offline.
func left(t *loadtest.T, rig *loadtest.Rig) (n int) {
	for p := range t.Partitions {
		t.Check(rig.Reader.Read(t.Context(), schemas.Transitions, p, 0, -1, true, func(r *schemas.Record) error {
			c, err := schemas.DecodeTransition(r.Value)
			if err == nil && c.To != schemas.Online {
				n++
			}
			return err
		}))
	}
	return n
}

// rest waits.
func rest(t *loadtest.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
	t.Check(t.Context().Err())
}

// told is what a process of gateways is told.
type told struct {
	Kafka      []string
	Prefix     string
	Users      int
	Gateways   int
	Partitions int32
	Held       bool
}

// written is what it has written.
type written struct{ Records, Bytes int64 }

// counting counts what is appended.
type counting struct {
	*kafka.Producer
	records, bytes atomic.Int64
}

func (c *counting) Append(ctx context.Context, out schemas.Outgoing, done func(error)) {
	size := int64(len(out.Value))
	c.Producer.Append(ctx, out, func(err error) {
		if err == nil {
			c.records.Add(1)
			c.bytes.Add(size)
		}
		done(err)
	})
}

// gateways is a process of gateways whose users beat, or are held, until in ends. It answers each further line with
// what it has written.
func gateways(out io.Writer, in io.Reader) error {
	var of told
	lines, err := firstLine(in, &of)
	if err != nil {
		return err
	}
	cluster := kafka.Config{Brokers: of.Kafka, Prefix: of.Prefix}
	producer, err := kafka.NewProducer(cluster, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	log := &counting{Producer: producer}
	var all []*beat.Buffer
	for i := range of.Gateways {
		b, err := beat.New(beat.Config{GatewayID: schemas.GatewayID("gw-" + strconv.Itoa(i)), Partitions: of.Partitions}, log)
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	report := (*beat.Buffer).Beat
	if of.Held {
		report = (*beat.Buffer).Hold
	}
	beats := loadtest.Go(context.Background(), func(ctx context.Context) error {
		const turns = 150 // in 15 s
		for turn := 0; !of.Held || turn < turns; turn++ {
			for i := turn % turns; i < of.Users; i += turns {
				g := all[uint64(i)*0x9e3779b97f4a7c15>>32%uint64(of.Gateways)]
				if err := report(g, schemas.UserID(i+1), nil, device, schemas.Mobile, 0); err != nil {
					return err
				}
			}
			select {
			case <-time.After(15 * time.Second / turns):
			case <-ctx.Done():
				return nil
			}
		}
		<-ctx.Done()
		return nil
	})
	answer := json.NewEncoder(out)
	for err = answer.Encode(written{}); err == nil && lines.Scan(); {
		err = answer.Encode(written{log.records.Load(), log.bytes.Load()})
	}
	if fault := beats.Stop(); err == nil {
		err = fault
	}
	return err
}
