package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stillhere/stillhere/internal/kafka/consumer"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/pgstore"
	"github.com/stillhere/stillhere/lastseen/sink"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/tools/loadtest"
)

const (
	// sinkRounds is how often both write; each round is a day of the log.
	sinkRounds = 4
	// usersPerRow makes a round of a tenth of all users.
	usersPerRow = 10
)

// sink measures transitions from the topic into Postgres, by the production
// loop and sink, against psql, which copies the same rows into the same tables of
// another database of the same server and then moves the users on by one
// statement. They take turns, so that both see the same machine. All users are
// known beforehand. What psql does not do: read Kafka, store its offsets, or lose
// nothing when it is killed.
func (l *lab) sink(t *loadtest.T) {
	server := startPostgres(t, l.Postgres)
	rig := t.Rig()
	ours, theirs := server.tables(t.Users), server.tables(t.Users)
	config := pgstore.Defaults()
	config.URL = ours
	writer, err := pgstore.Open(t.Context(), config)
	t.Check(err)
	t.Cleanup(func() error { writer.Close(); return nil })

	var took struct{ sink, psqlCopy, psqlUpsert time.Duration }
	changes := changesOf(t.Users)
	for round := range sinkRounds {
		from := time.Now().UTC().Truncate(day).Add(time.Duration(round) * day)
		log := changes(from)
		outs := make([]schemas.Outgoing, len(log))
		for i, change := range log {
			outs[i] = recordOf(change, t.Partitions)
		}
		writeAll(t, rig, outs)
		// Who goes second finds the server warm, or busy with what the first left.
		turns := []func(){
			func() { took.sink += sinkRound(t, rig, round, writer, len(log)) },
			func() {
				c, u := server.psqlRound(theirs, from, log)
				took.psqlCopy, took.psqlUpsert = took.psqlCopy+c, took.psqlUpsert+u
			},
		}
		for turn := range turns {
			turns[(round+turn)%2]()
		}
	}
	rows := float64(sinkRounds * (t.Users / usersPerRow))
	rate := func(d time.Duration) float64 { return rows / d.Seconds() }
	reference := rate(took.psqlCopy + took.psqlUpsert)
	t.Add("topic to Postgres, by the sink", rate(took.sink), "rows/s").AtLeast(100_000)
	t.Add("the same rows by psql: COPY, then one upsert", reference, "rows/s")
	t.Add("of these, COPY", rate(took.psqlCopy), "rows/s")
	t.Add("sink, of psql's rate", 100*rate(took.sink)/reference, "%").AtLeast(70)
	t.Note(fmt.Sprintf("%d rounds of %d rows in turns; %d partitions, up to %d rows in a transaction; Postgres %s.",
		sinkRounds, t.Users/usersPerRow, t.Partitions, lastseen.Defaults().SinkRows, server.what))
	server.same(ours, theirs)
}

const day = 24 * time.Hour

// changesOf makes the changes of a day: random users come and go.
func changesOf(users int) func(from time.Time) []*schemas.Transition {
	random := rand.New(rand.NewPCG(1, 2))
	online, offset := make([]bool, users), int64(0)
	return func(from time.Time) []*schemas.Transition {
		log := make([]*schemas.Transition, users/usersPerRow)
		for i := range log {
			user := random.IntN(users)
			offset++
			online[user] = !online[user]
			log[i] = changeOf(schemas.UserID(user+1), schemas.MillisOf(from)+schemas.Millis(i), schemas.NewVersion(1, offset, 0), online[user])
		}
		return log
	}
}

// gatedSink is a sink that does not say where to start before the gate is open,
// so that nothing is fetched before; and counts what is written.
type gatedSink struct {
	*sink.Sink
	waiting chan<- struct{}
	gate    <-chan struct{}
}

// Start waits for the gate.
func (g gatedSink) Start(ctx context.Context, at stream.Assignment) (stream.StoredOffset, error) {
	select {
	case g.waiting <- struct{}{}:
	default:
	}
	select {
	case <-g.gate:
	case <-ctx.Done():
		return stream.StoredOffset{}, ctx.Err()
	}
	return g.Sink.Start(ctx, at)
}

// countedWriter counts the rows that are written, and closes done after the last.
type countedWriter struct {
	store.Writer
	left atomic.Int64
	done chan struct{}
}

// Append counts.
func (c *countedWriter) Append(ctx context.Context, b store.Batch) error {
	err := c.Writer.Append(ctx, b)
	if err == nil && len(b.Changes) > 0 && c.left.Add(-int64(len(b.Changes))) == 0 {
		close(c.done)
	}
	return err
}

// sinkRound lets the sink write what is new in the topic. The clock runs from
// when the loop knows its partitions to the last commit.
func sinkRound(t *loadtest.T, r *loadtest.Rig, round int, to store.Writer, rows int) time.Duration {
	writer := &countedWriter{Writer: to, done: make(chan struct{})}
	writer.left.Store(int64(rows))
	config := lastseen.Defaults()
	waiting, gate := make(chan struct{}, 1), make(chan struct{})
	handler := gatedSink{sink.New(writer, config, lastseen.NewMetrics(prometheus.NewRegistry())), waiting, gate}
	cluster := r.Kafka
	cluster.MaxPollRecords = config.SinkRows
	loop := t.Go(consumer.New(cluster, fmt.Sprintf("%ssink-%d", r.Kafka.Prefix, round), schemas.Transitions, stream.DecodeTransition,
		handler, r.Producer, r.Log, nil, consumer.MinBatchInterval(config.SinkEvery)).Run)
	t.Until(func() string { return "waiting for the loop to get its partitions" }, func() bool { return len(waiting) > 0 })
	took := t.Measured(func() {
		close(gate)
		t.Until(func() string {
			return fmt.Sprintf("round %d: the sink has %d rows to write", round+1, writer.left.Load())
		}, func() bool {
			select {
			case <-writer.done:
				return true
			default:
				return false
			}
		})
	})
	t.Check(loop.Stop())
	return took
}

// errNoPsql says what the reference needs.
var errNoPsql = errors.New("psql, by which the reference is measured, is not installed")
