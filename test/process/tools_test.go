//go:build unix

package process_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/embedded"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/lastseen/sqlitestore"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
	"github.com/stillhere/stillhere/test/testkit"
)

func TestEveryToolWorksOnANewPipelineThatDoesNotWarnOfItsRedis(t *testing.T) {
	t.Parallel()
	redis := must.Get(embedded.StartRedis(embedded.RedisConfig{Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(redis.Close)
	h := testkit.NewDev(t, "--redis", redis.Addr())
	h.Up()
	if said := h.Err.String(); strings.Contains(said, "Redis") {
		h.Errorf("a pipeline in which nothing has ever happened warns of its Redis:\n%s", said)
	}
	h.MustSend(testkit.Beat{User: 1, Device: 7, Kind: "mobile"})
	event := h.HistoryOf(1, 1)[0].Event

	kafka := []string{"--kafka-brokers", h.Broker}
	recording := filepath.Join(t.TempDir(), "heartbeats")
	for _, c := range []struct {
		words string
		flags []string
		want  string // on standard output or standard error
	}{
		{"topics apply", kafka, "is there"},
		{"topics apply --dry-run", kafka, "configured correctly"},
		{"replay --from -1h", kafka, event},
		{"replay --source store", append(kafka, "--sqlite", filepath.Join(h.Dir, "stillhere.db")), event},
		{"asof now --output csv", kafka, "1,online,"},
		{"sessions --from=-1h", kafka, `"device_kind":"mobile"`},
		{"explain " + event, kafka, "first_beat"},
		{"record --out " + recording, kafka, "records in"},
		{"backtest --policy default --recording " + recording, nil, "to online"},
		{"backtest --policy default", kafka, "to online"},
		{"rebuild lastseen", append(kafka, "--sqlite", filepath.Join(h.Dir, "stillhere.db")), "are in the store"},
		{"rebuild redis", append(kafka, "--redis", redis.Addr()), "Redis is rebuilt"},
		{"graph edges 1 2 3 --sqlite " + filepath.Join(h.Dir, "graph.db"), nil, "2 added"},
		{"graph followers 1 --table count --sqlite " + filepath.Join(h.Dir, "graph.db"), nil, "2"},
		{"beat 2 --url http://" + h.Listen, nil, "user 2"},
		{"health --ready --admin " + h.Admin, nil, "ready"},
	} {
		tool := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append(strings.Fields(c.words), c.flags...)...)
		code := tool.Wait(time.Minute)
		if said := tool.Out.String() + tool.Err.String(); code != 0 || !strings.Contains(said, c.want) {
			h.Errorf("stillhere %s: code %d, want %q in:\n%s", c.words, code, c.want, said)
		}
	}
	h.AllAre("online", []schemas.UserID{1, 2})
}

// A beat that was taken before its user was published offline, and arrives after that: what goes by instants says
// online, as the API does.
func TestAUserWhoseReturnWasTakenBeforeTheOfflineIsOnlineInThePastToo(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t, "--policy=online_ttl=6s,offline_debounce=3s,away_ttl=0")
	h.Up()
	h.MustSend(testkit.Beat{User: 1, Device: 7})
	h.HistoryOf(1, 1)
	testkit.Until(t, "user 1 is offline", 20*time.Second, func() bool { return h.State(1) == "offline" })
	h.MustSend(testkit.Beat{User: 1, Device: 7, Age: 1500})
	changes := h.HistoryOf(1, 3)
	if len(changes) != 3 || changes[2].At < changes[1].At {
		t.Fatalf("the history is %+v", changes)
	}
	at := changes[2].At.String()
	for _, words := range []string{"asof " + at, "sessions --from=-1h"} {
		command, arguments, _ := strings.Cut(words, " ")
		tool := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, command, arguments, "--kafka-brokers", h.Broker)
		code := tool.Wait(time.Minute)
		said := strings.Split(strings.TrimSpace(tool.Out.String()), "\n")
		if newest := said[len(said)-1]; code != 0 || !strings.Contains(newest, `"state":"online"`) && !strings.Contains(newest, `"still_open":true`) {
			t.Errorf("stillhere %s: code %d, %s%s", words, code, tool.Out.String(), tool.Err.String())
		}
	}
}

func TestWhatTheStoreHasForgottenIsAnErrorThatNamesWhereItsLogBegins(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	config := sqlitestore.Defaults()
	config.Path = filepath.Join(t.TempDir(), "old.db")
	kept, err := sqlitestore.Open(t.Context(), config)
	must.Do(t, err)
	before := func(days int) schemas.Millis {
		return schemas.MillisOf(time.Now().Add(-time.Duration(days) * 24 * time.Hour))
	}
	changes := []*schemas.Transition{
		{User: 1, From: schemas.Offline, To: schemas.Online, At: before(420), Cause: schemas.FirstBeat, Visibility: schemas.Everyone, Version: 1},
		{User: 1, From: schemas.Online, To: schemas.Away, At: before(300), Cause: schemas.Idle, Visibility: schemas.Everyone, Version: 2},
	}
	err = kept.Append(t.Context(), store.Batch{Expected: store.Unknown, Changes: changes})
	err = errors.Join(err, kept.Maintain(t.Context(), time.Now()))
	begins, askErr := kept.LogBegins(t.Context())
	must.Do(t, errors.Join(err, askErr, kept.Close()))
	for _, c := range []struct {
		words string
		known bool
	}{
		{"asof -- -450d", false}, {"asof -- -410d", false}, {"asof -- -350d", true},
		{"sessions --from=-410d", false}, {"sessions --from=-350d", true},
	} {
		out := filepath.Join(t.TempDir(), "out.jsonl")
		command, arguments, _ := strings.Cut(c.words, " ")
		words := append([]string{command, "--kafka-brokers", h.Broker, "--sqlite", config.Path, "--out", out}, strings.Fields(arguments)...)
		tool := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, words...)
		code := tool.Wait(time.Minute)
		_, missing := os.Stat(out)
		said := tool.Err.String()
		if c.known != (code == 0) || c.known != (missing == nil) || c.known == strings.Contains(said, begins.String()) {
			t.Errorf("stillhere %s, of a log from %s on: code %d, a file: %v, and\n%s", c.words, begins, code, missing == nil, said)
		}
	}
}

// Kafka that takes connections and never answers keeps a tool waiting.
func TestAnInterruptedToolFails(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{
		{"erase", "1"}, {"export", "1"}, {"asof", "now"}, {"replay"}, {"topics", "apply", "--dry-run"}, {"record", "--out", "beats"},
	} {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		asked := make(chan net.Conn, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					close(asked)
					return
				}
				defer func() { _ = c.Close() }()
				select {
				case asked <- c:
				default:
				}
			}
		}()
		p := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append(words, "--kafka-brokers", l.Addr().String())...)
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Errorf("%q has not asked Kafka: %s", words, p.Err.String())
		}
		p.Signal(syscall.SIGINT)
		if code := p.Wait(time.Minute); code != 1 || !strings.Contains(p.Err.String(), "interrupted") {
			t.Errorf("%q: code %d, %s%s", words, code, p.Out.String(), p.Err.String())
		}
		_ = l.Close()
		for range asked {
			continue
		}
	}
}

func TestAFollowedReplayCountsItsRowsAndCompletesItsFiles(t *testing.T) {
	t.Parallel()
	h := testkit.NewDev(t)
	h.Up()
	folder := filepath.Join(t.TempDir(), "changes")
	replay := []string{"replay", "--follow", "--out", folder, "--output", "parquet", "--rotate-every", "1s", "--partition-by", "day", "--kafka-brokers", h.Broker}
	rows := 0
	for run, more := range [][]string{nil, {"--resume"}} {
		for range 3 {
			rows++
			h.MustSend(testkit.Beat{User: schemas.UserID(rows), Device: 1, Kind: "mobile"})
		}
		tool := testkit.Start(t, testkit.Binary(t, "stillhere"), nil, append(replay, more...)...)
		complete := func() []string {
			return must.Get(filepath.Glob(filepath.Join(folder, "day=*", "changes-*.parquet")))(t)
		}
		before := len(complete())
		testkit.Until(t, "a file is complete while nothing comes", 30*time.Second, func() bool { return len(complete()) > before || !tool.Running() })
		rows++
		h.MustSend(testkit.Beat{User: schemas.UserID(rows), Device: 1, Kind: "mobile"})
		testkit.Until(t, "another file is complete", 30*time.Second, func() bool { return len(complete()) > before+1 || !tool.Running() })
		tool.Signal(os.Interrupt.(syscall.Signal))
		code := tool.Wait(time.Minute)
		if said := tool.Err.String(); code != 0 || !strings.Contains(said, "4 rows in "+folder) {
			t.Errorf("run %d: code %d, want 4 rows:\n%s", run, code, said)
		}
	}
	if got, err := filepath.Glob(filepath.Join(folder, "*", "*.partial")); err != nil || len(got) > 0 {
		t.Errorf("left over: %v, %v", got, err)
	}
}
