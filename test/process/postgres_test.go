//go:build unix

package process_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/jackc/pgx/v5"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// postgresFault is something that happens to Postgres while the sink writes.
type postgresFault struct {
	name  string
	hold  time.Duration
	long  bool   // only with STILLHERE_LONG=1
	says  string // what the sink must have logged, if anything
	begin func(w *faultyWorld) (end func())
}

var postgresFaults = []postgresFault{
	{"killed and started again", 3 * time.Second, false, "", (*faultyWorld).killed},
	{"read-only (25006)", 3 * time.Second, false, "25006", (*faultyWorld).readOnly},
	{"no connection left (53300)", 4 * time.Second, false, "53300", (*faultyWorld).crowded},
	{"frozen", 6 * time.Second, true, "", (*faultyWorld).frozen},
	{"away for a minute", time.Minute, true, "", (*faultyWorld).killed},
	{"table locked (55P03)", 8 * time.Second, true, "55P03", (*faultyWorld).locked},
	{"deadlock (40P01)", 4 * time.Second, true, "40P01", (*faultyWorld).deadlocked},
	{"disk full (53100)", 5 * time.Second, true, "53100", (*faultyWorld).full},
}

// faultyWorld is a world with one sink.
type faultyWorld struct {
	*sinkWorld
	sink  *testkit.Program
	admin string // host:port
}

// After every fault the sink must catch up by itself; in the end every transition
// is in Postgres once. With -v the test prints a row of deploy/FAULTS.md a fault.
func TestTheSinkWaitsForPostgresWhateverItSuffersAndGoesOnByItself(t *testing.T) {
	path := testkit.Binary(t, "stillhere")
	t.Parallel()
	w := &faultyWorld{sinkWorld: newSinkWorld(t), admin: testkit.FreePort(t)}
	stop := w.begin(path)
	for _, fault := range postgresFaults {
		if fault.long && os.Getenv("STILLHERE_LONG") == "" {
			t.Logf("%q is left out; STILLHERE_LONG=1 runs it", fault.name)
			continue
		}
		said := len(w.sink.Err.String())
		memory := w.sink.Memory("VmRSS")
		end := fault.begin(w)
		<-time.After(fault.hold)
		if fault.says != "" {
			testkit.Until(t, "the sink has met "+fault.says, 30*time.Second, func() bool { return strings.Contains(w.sink.Err.String()[said:], fault.says) })
		}
		lag := w.lag()
		written := w.written.Load()
		end()
		begun := time.Now()
		testkit.Until(t, "the sink has caught up after "+fault.name, 2*time.Minute, func() bool { return w.rows() >= written })
		t.Logf("| Postgres %s | %d | %d | %.1f s | %.1f s | %.0f → %.0f MB |", fault.name, written, w.rows(), lag, time.Since(begun).Seconds(), memory, w.sink.Memory("VmRSS"))
		if !w.sink.Running() {
			t.Fatalf("the sink has ended: %s", testkit.Tail(w.sink.Err.String(), 2000))
		}
	}
	stop()
	w.caughtUp(60 * time.Second)
	w.judge()
}

// begin starts the sink and lets it write.
func (w *faultyWorld) begin(path string) (stop func()) {
	w.Helper()
	w.sink = testkit.Start(w.T, path, nil, "lastseen", "--instance", "sink", "--admin", w.admin, "--kafka-brokers", w.broker,
		"--redis", w.redis.Addr(), "--postgres", w.database)
	stop = w.load()
	testkit.Until(w.T, "the sink writes", 60*time.Second, func() bool { return w.rows() > 0 })
	return stop
}

// killed ends the server as a crash would.
func (w *faultyWorld) killed() func() {
	must.Do(w, w.cluster.Kill())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		must.Do(w, w.cluster.Launch(ctx))
	}
}

// connect is a connection that may write whatever the server's default is, and
// never times out.
func (w *faultyWorld) connect() (conn *pgx.Conn, do func(sql string)) {
	w.Helper()
	conn = must.Get(pgx.Connect(context.Background(), w.database))(w)
	do = func(sql string) {
		w.Helper()
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			w.Fatalf("%s: %v", sql, err)
		}
	}
	do(`SET default_transaction_read_only = off`)
	return conn, do
}

func (w *faultyWorld) readOnly() func() {
	conn, do := w.connect()
	do(`ALTER SYSTEM SET default_transaction_read_only = on`)
	do(`SELECT pg_reload_conf()`)
	return func() {
		do(`ALTER SYSTEM RESET default_transaction_read_only`)
		do(`SELECT pg_reload_conf()`)
		_ = conn.Close(context.Background())
	}
}

// crowded takes all connections, those of the sink as well.
func (w *faultyWorld) crowded() func() {
	ctx, cancel := context.WithCancel(context.Background())
	conn, do := w.connect()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var held []*pgx.Conn
		for ctx.Err() == nil {
			more, err := pgx.Connect(ctx, w.database)
			if err == nil {
				held = append(held, more)
				continue
			}
			do(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stillhere-lastseen'`)
		}
		for _, c := range append(held, conn) {
			_ = c.Close(context.Background())
		}
	}()
	return func() { cancel(); <-ended }
}

// frozen stops all processes of the server; connections stay open and nothing
// answers.
func (w *faultyWorld) frozen() func() {
	pids := append(children(w.cluster.Pid()), w.cluster.Pid())
	if len(pids) < 2 {
		w.Skip("there is no /proc here to find the server's processes")
	}
	signalAll(pids, true)
	return func() { signalAll(pids, false) }
}

func (w *faultyWorld) locked() func() {
	conn, do := w.connect()
	do(`BEGIN`)
	do(`LOCK TABLE user_presence IN ACCESS EXCLUSIVE MODE`)
	return func() { do(`ROLLBACK`); _ = conn.Close(context.Background()) }
}

// deadlocked takes rows in the other order than the sink, again and again, and
// leaves it to the sink to find that out.
func (w *faultyWorld) deadlocked() func() {
	ctx, cancel := context.WithCancel(context.Background())
	conn, do := w.connect()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do(`SET deadlock_timeout = '1h'`)
		for ctx.Err() == nil {
			do(`BEGIN`)
			do(fmt.Sprintf(`SELECT FROM user_presence WHERE user_id > %d FOR UPDATE`, sinkUsers*4/5))
			<-time.After(500 * time.Millisecond)
			do(fmt.Sprintf(`SELECT FROM user_presence WHERE user_id < %d FOR UPDATE`, sinkUsers/5))
			do(`COMMIT`)
		}
		_ = conn.Close(context.Background())
	}()
	return func() { cancel(); <-ended }
}

// lag is the sink's own figure of how far it is behind, in seconds.
func (w *faultyWorld) lag() float64 {
	w.Helper()
	answer := must.Get(http.Get((&url.URL{Scheme: "http", Host: w.admin, Path: "/metrics"}).String()))(w)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(w)
	most := -1.0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `stillhere_stream_lag_seconds{group="stillhere.lastseen.sink"`) {
			value := must.Get(strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64))(w)
			most = max(most, value)
		}
	}
	return most
}
