package httpgate_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

const (
	twoRowsInJSON = `{"user_id":"9007199254740993","device_id":7,"device_kind":"mobile","age_ms":250,"idle_ms":1000},` +
		`{"user_id":9223372036854775807,"device_id":"4294967295","bye":true}`
	twoBeats = `{"beats":[` + twoRowsInJSON + `]}`
)

var twoRows = map[schemas.UserID]schemas.Beat{
	9007199254740993:    {User: 9007199254740993, Device: 7, Kind: schemas.Mobile, Age: 250, Idle: 1000},
	9223372036854775807: {User: 9223372036854775807, Device: 4294967295, Kind: schemas.Other, Bye: true},
}

func byUser(written []beattest.Written) map[schemas.UserID]schemas.Beat {
	rows := map[schemas.UserID]schemas.Beat{}
	for _, w := range written {
		for _, b := range w.Beats {
			rows[b.User] = b
		}
	}
	return rows
}

func TestBeatsAreAcceptedOnceKafkaHasThem(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.log.Delay = 30 * time.Millisecond
		began := time.Now()
		d.wants(d.post(named("gw-1", 5, twoRowsInJSON)), 202, `{"accepted":2}`)
		if took := time.Since(began); took != 30*time.Millisecond {
			t.Errorf("answered after %s, want Kafka's 30 ms and nothing more", took)
		}
		written := d.log.Written()
		if got := byUser(written); !reflect.DeepEqual(got, twoRows) {
			t.Errorf("got %+v, want %+v", got, twoRows)
		}
		for _, w := range written {
			if w.Gateway != "gw-1" || w.Epoch != epoch(5) || w.Sequence != 0 {
				t.Errorf("got %+v, want the gateway's name and epoch and no sequence", w)
			}
		}
	})
}

func TestProtobufAndCompressedBodiesSayTheSame(t *testing.T) {
	t.Parallel()
	message := must.Get(proto.Marshal(&pb.HeartbeatsRequest{Beats: []*pb.Beat{
		{UserId: 9007199254740993, DeviceId: 7, DeviceKind: schemas.Mobile, AgeMs: 250, IdleMs: 1000},
		{UserId: 9223372036854775807, DeviceId: 4294967295, Bye: true},
	}}))(t)
	var zip bytes.Buffer
	z := gzip.NewWriter(&zip)
	z.Write([]byte(twoBeats))
	z.Close()
	zst := must.Get(zstd.NewWriter(nil))(t)
	defer zst.Close()
	for name, c := range map[string]struct {
		body    string
		headers []string
	}{
		"protobuf":        {string(message), []string{"Content-Type", "application/protobuf"}},
		"x-protobuf":      {string(message), []string{"Content-Type", "application/x-protobuf"}},
		"gzip":            {zip.String(), []string{"Content-Encoding", "gzip"}},
		"zstd":            {string(zst.EncodeAll([]byte(twoBeats), nil)), []string{"Content-Encoding", "zstd"}},
		"zstd protobuf":   {string(zst.EncodeAll(message, nil)), []string{"Content-Encoding", "zstd", "Content-Type", "application/protobuf"}},
		"curl's default":  {twoBeats, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"json in utf-8":   {twoBeats, []string{"Content-Type", "application/json; charset=utf-8"}},
		"an escaped key":  {strings.Replace(twoBeats, `"user_id"`, `"user\u005fid"`, 1), nil},
		"own origin":      {twoBeats, []string{"Origin", "http://example.com"}},
		"an answer in pb": {twoBeats, []string{"Accept", "application/protobuf"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config(), func(d endpoint) {
				w := d.post(c.body, c.headers...)
				d.wants(w, 202, "")
				if name == "an answer in pb" {
					var answer pb.HeartbeatsResponse
					if err := proto.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Accepted != 2 {
						t.Errorf("got %q, want HeartbeatsResponse{2}", w.Body)
					}
				} else {
					d.wants(w, 202, `{"accepted":2}`)
				}
				if got := byUser(d.log.Written()); !reflect.DeepEqual(got, twoRows) {
					t.Errorf("got %+v, want %+v", got, twoRows)
				}
			})
		})
	}
}

func TestConcurrentRequestsShareFrames(t *testing.T) {
	t.Parallel() // scenario 40, for clients without a gateway
	inBubble(t, config(), func(d endpoint) {
		d.log.Delay = 20 * time.Millisecond
		var all sync.WaitGroup
		const requests = 1000
		for i := range requests {
			<-time.After(time.Millisecond)
			all.Go(func() {
				d.wants(d.post(fmt.Sprintf(`{"beats":[{"user_id":1,"device_id":7,"idle_ms":%d}]}`, i)), 202, `{"accepted":1}`)
			})
		}
		all.Wait()
		if n := len(d.log.Written()); n > requests/5+10 {
			t.Errorf("%d frames for 1000 requests in a second, want at most one per 5 ms", n)
		}
		beats := d.log.Beats()
		if last := beats[len(beats)-1]; last.Idle != requests-1 || len(beats) != len(d.log.Written()) {
			t.Errorf("%d rows in %d frames, the last one idle %d: want one row a frame, the newest last",
				len(beats), len(d.log.Written()), last.Idle)
		}
	})
}

func TestNewestOfTwoReportsInOneRequestWins(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.wants(d.post(`{"beats":[{"user_id":1,"device_id":7,"bye":true,"age_ms":10},{"user_id":1,"device_id":7,"age_ms":500}]}`), 202, `{"accepted":2}`)
		if b := d.log.Beats(); len(b) != 1 || !b[0].Bye {
			t.Errorf("got %+v, want the bye, which is newer", b)
		}
	})
}

func TestAgesGrowWhileBeatsWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.log.Delay = 100 * time.Millisecond
		var all sync.WaitGroup
		all.Go(func() { d.post(`{"beats":[{"user_id":1,"device_id":7}]}`) })
		pass(time.Millisecond)
		all.Go(func() { d.post(`{"beats":[{"user_id":1,"device_id":8,"age_ms":86400000}]}`) })
		all.Go(func() { d.post(`{"beats":[{"user_id":1,"device_id":9,"age_ms":10}]}`) })
		all.Wait()
		ages := map[schemas.DeviceID]schemas.Millis{}
		for _, b := range d.log.Beats() {
			ages[b.Device] = b.Age
		}
		if ages[7] != 0 || ages[9] < 13 || ages[9] > 15 || ages[8] != schemas.MaxAge {
			t.Errorf("ages are %v, want 0, 10 and the linger of 5 ms, and the cap", ages)
		}
	})
}

func TestLargeRequestIsCutIntoFrames(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		// All users in one partition, so that its frame would be too long.
		var body strings.Builder
		n := 0
		for user := schemas.UserID(1); n < 9000; user++ {
			if schemas.PartitionOf(user, partitions) == 0 {
				fmt.Fprintf(&body, `,{"user_id":%d,"device_id":1}`, user)
				n++
			}
		}
		d.wants(d.post(`{"beats":[`+body.String()[1:]+`]}`), 202, `{"accepted":9000}`)
		if w := d.log.Written(); len(w) != 3 || len(d.log.Beats()) != 9000 {
			t.Errorf("%d frames with %d beats, want 3 with 9000", len(w), len(d.log.Beats()))
		}
	})
}

func TestKafkaAwayIs503WithinABoundAndSafeToRepeat(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.log.Away(true)
		began := time.Now()
		w := d.post(twoBeats)
		d.wants(w, 503, "")
		if took := time.Since(began); took > 6*time.Second || w.Header().Get("Retry-After") == "" {
			t.Errorf("after %s with Retry-After %q", took, w.Header().Get("Retry-After"))
		}
		if !strings.Contains(w.Body.String(), `"code":"kafka_unavailable"`) {
			t.Errorf("got %s", w.Body)
		}
		d.log.Away(false)
		pass(10 * time.Second)
		d.log.Refuse(errors.New("not leader"))
		d.wants(d.post(twoBeats), 503, "")
		d.log.Refuse(nil)
		d.wants(d.post(twoBeats), 202, "")
	})
}

func TestWaitingBeatsAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HTTP.MaxWaiting, cfg.HTTP.MaxBeats = 10, 10
	inBubble(t, cfg, func(d endpoint) {
		d.log.Away(true)
		var all sync.WaitGroup
		var busy, away int
		var mu sync.Mutex
		for i := range 30 {
			all.Go(func() {
				w := d.post(fmt.Sprintf(`{"beats":[{"user_id":%d,"device_id":7}]}`, i+1))
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(w.Body.String(), "overloaded") {
					busy++
				} else if w.Code == 503 {
					away++
				}
			})
		}
		all.Wait()
		if busy != 20 || away != 10 {
			t.Errorf("%d told overloaded and %d that Kafka is away, want 20 and 10", busy, away)
		}
	})
}

func TestRequestsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.HTTP.MaxRequests = 1
	inBubble(t, cfg, func(d endpoint) {
		d.log.Delay = time.Second
		go d.post(twoBeats)
		synctest.Wait()
		w := d.post(twoBeats)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		d.wants(d.send(http.MethodPut, "/presence/1/visibility", `{"visibility":"nobody"}`), 200, "") // has places of its own
		pass(time.Second)
	})
}

func TestStopAnswersWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.log.Delay = time.Second
		answers := make(chan *httptest.ResponseRecorder, 2)
		go func() { answers <- d.post(`{"beats":[{"user_id":1,"device_id":7}]}`) }()
		synctest.Wait()
		go func() { answers <- d.post(`{"beats":[{"user_id":1,"device_id":8}]}`) }()
		synctest.Wait()
		d.stop()
		d.wants(<-answers, 202, "")
		d.wants(<-answers, 202, "")
		d.wants(d.post(twoBeats), 503, "")
	})
}
