package outage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
)

// refused is the error of a server that is away.
func refused(address string) error {
	at, _ := net.ResolveTCPAddr("tcp", address)
	return fmt.Errorf("writing: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: syscall.ECONNREFUSED})
}

// process has a Watch over two servers, and a log.
type process struct {
	*testing.T
	kafka, redis atomic.Bool // away
	mu           sync.Mutex
	text         bytes.Buffer
	watch        *Watch
	log          *slog.Logger
}

const kafkaAt, redisAt = "127.0.0.1:9092", "127.0.0.1:6379"

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// said returns the messages that were logged since the last call.
func (p *process) said() (messages []string) {
	p.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		var of map[string]any
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			p.Fatalf("%v: %s", err, line)
		}
		messages = append(messages, of["msg"].(string))
	}
	p.text.Reset()
	return messages
}

func (p *process) wants(what string, messages ...string) {
	p.Helper()
	if said := p.said(); !slices.EqualFunc(said, messages, strings.HasPrefix) {
		p.Errorf("%s: the log says %q, want %q", what, said, messages)
	}
}

// inBubble runs test on a process whose Watch runs.
func inBubble(t *testing.T, level slog.Level, test func(p *process)) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{T: t}
		p.watch = New(slog.NewJSONHandler(p, &slog.HandlerOptions{Level: level}))
		p.log = slog.New(p.watch.Handler())
		probe := func(gone *atomic.Bool, address string) func(context.Context) error {
			return func(context.Context) error {
				if gone.Load() {
					return refused(address)
				}
				return nil
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.watch.Run(ctx, []Dependency{{"kafka", []string{kafkaAt}, probe(&p.kafka, kafkaAt)}, {"redis", []string{redisAt}, probe(&p.redis, redisAt)}})
		}()
		synctest.Wait()
		test(p)
		stop()
		must.Do(t, <-ended)
	})
}

// wait lets time pass, and calls each at every 100 ms of it.
func wait(d time.Duration, each func()) {
	for range d / (100 * time.Millisecond) {
		each()
		time.Sleep(100 * time.Millisecond)
	}
}

func nothing() {}

func TestAnOutageHasALineAtItsBeginOneAMinuteAndOneAtItsEnd(t *testing.T) {
	inBubble(t, slog.LevelInfo, func(p *process) {
		p.kafka.Store(true)
		fail := func() {
			p.log.Warn("unable to open connection", "error", refused(kafkaAt))
			p.log.Error("the group failed", "error", io.EOF)
		}
		wait(40*time.Second, fail)
		p.wants("40 s", "kafka does not answer")
		wait(90*time.Second, fail)
		p.wants("130 s", "kafka still does not answer", "kafka still does not answer")
		p.kafka.Store(false)
		wait(10*time.Second, nothing)
		synctest.Wait()
		for _, part := range []string{`"msg":"kafka answers again"`, `"dependency":"kafka"`, `"away_for":13`, `"failures":27`, `"last_error":`, "connection refused"} {
			if p.mu.Lock(); !strings.Contains(p.text.String(), part) {
				t.Errorf("the last line lacks %s: %s", part, &p.text)
			}
			p.mu.Unlock()
		}
		p.wants("the end", "kafka answers again")
		wait(time.Minute, nothing)
		p.wants("afterwards")
	})
}

func TestAnOutageWithoutALineIsFoundByItsProbe(t *testing.T) {
	inBubble(t, slog.LevelInfo, func(p *process) {
		p.redis.Store(true)
		p.watch.Failed("redis")
		wait(10*time.Second, nothing)
		p.wants("the begin", "redis does not answer")
		p.redis.Store(false)
		wait(10*time.Second, nothing)
		p.wants("the end", "redis answers again")
	})
}

func TestAServerThatRefusesIsNotSaidToBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{T: t}
		p.watch = New(slog.NewJSONHandler(p, nil))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		refuses := func(context.Context) error { return errors.New("too many clients") }
		go func() { ended <- p.watch.Run(ctx, []Dependency{{Name: "postgres", Probe: refuses}}) }()
		synctest.Wait()
		p.watch.Failed("postgres")
		p.wants("the begin", "postgres cannot be used")
		stop()
		<-ended
	})
}

func TestFailuresWhileAllServersAnswerAreLoggedOnceAndCounted(t *testing.T) {
	inBubble(t, slog.LevelInfo, func(p *process) {
		p.log.Warn("a connection broke", "error", io.EOF)
		p.wants("one", "a connection broke")
		wait(2*time.Minute, nothing)
		p.wants("no report of one")
		wait(100*time.Second, func() { p.log.Warn("a broker is away", "dependency", "kafka", "error", refused("127.0.0.1:9093")) })
		p.wants("one of several brokers is away", "a broker is away", "requests to kafka fail now and then")
		wait(2*time.Minute, nothing)
		p.wants("it is back", "requests to kafka fail now and then", "requests to kafka no longer fail")
	})
}

func TestEveryDifferentEventOfAnOutageIsLoggedOnceAndAlarmsAlways(t *testing.T) {
	inBubble(t, slog.LevelInfo, func(p *process) {
		p.kafka.Store(true)
		p.watch.Failed("kafka")
		wait(time.Second, nothing)
		p.wants("the begin", "kafka does not answer")
		for partition := range 4 {
			p.log.Info("restored", "partition", partition, "group", fmt.Sprint("group-", partition))
			p.log.Warn("gateway lost", "partition", partition, "gateway", fmt.Sprint("gw-", partition%2))
			p.log.Error("ALARM: records were lost", "partition", partition)
			p.log.Error("a task failed", "partition", partition, "error", errors.New("of its own"))
		}
		for partition := range 4 {
			p.log.Warn("a batch failed", "partition", partition, "error", fmt.Errorf("partition %d: read-only", partition))
			p.log.Warn("a batch failed", "partition", partition, "error", fmt.Errorf("partition %d: disk full", partition))
		}
		const alarm = "ALARM: records were lost"
		p.wants("events", "restored", "gateway lost", alarm, "a task failed", "gateway lost", alarm, alarm, alarm,
			"a batch failed", "a batch failed")
	})
}

func TestAnErrorIsCountedForTheServerThatItNames(t *testing.T) {
	inBubble(t, slog.LevelInfo, func(p *process) {
		p.kafka.Store(true)
		p.log.Warn("one", "error", refused(kafkaAt))
		p.wants("kafka", "kafka does not answer")
		p.log.Warn("two", "error", refused(redisAt))
		wait(2*time.Second, nothing)
		p.wants("an error of a server that answers", "two")
		p.redis.Store(true)
		p.log.Warn("three", "error", refused(redisAt))
		wait(2*time.Second, nothing)
		p.wants("redis as well", "redis does not answer")
	})
}

func TestLevelDebugShowsEverything(t *testing.T) {
	inBubble(t, slog.LevelDebug, func(p *process) {
		p.kafka.Store(true)
		for range 3 {
			p.log.Warn("failed", "error", refused(kafkaAt))
		}
		p.wants("debug", "failed", "failed", "failed")
	})
}

func TestHeldLinesAreWrittenWhenTheProcessStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{T: t}
		p.watch = New(slog.NewJSONHandler(p, nil))
		log := slog.New(p.watch.Handler())
		log.Warn("before Run", "error", io.EOF)
		p.wants("before Run", "before Run")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		go func() { ended <- p.watch.Run(ctx, []Dependency{{Name: "kafka", Probe: hangs}}) }()
		synctest.Wait()
		log.Warn("held", "error", io.EOF)
		synctest.Wait()
		log.Warn("held later", "error", io.EOF)
		stop()
		<-ended
		p.wants("stopped", "held", "held later")
	})
}

func TestALineHasNoKeyTwice(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(New(slog.NewJSONHandler(&text, nil)).Handler()).With("group", "g", "ids", []int32{1})
	log.With("group", "g").Info("repeated", "group", "g", "group", "h", "msg", "again", "ids", []int32{1})
	got := text.String()[strings.Index(text.String(), `"msg"`):]
	if want := `"msg":"repeated","group":"g","ids":[1],"group_2":"h","msg_2":"again","ids_2":[1]}` + "\n"; got != want {
		t.Errorf("the line is %s, want %s", got, want)
	}
}
