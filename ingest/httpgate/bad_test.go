package httpgate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/internal/testkit/beattest"
	"github.com/stillhere/stillhere/internal/testkit/must"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// refusal is what an answer says went wrong.
type refusal struct {
	Error struct{ Code, Message, Field string }
}

func TestBadRequestsNameTheFieldAndStoreNothing(t *testing.T) {
	t.Parallel() // scenario 37
	good := `{"user_id":1,"device_id":7}`
	beat := func(text string) string { return `{"beats":[` + good + `,` + good + `,` + good + `,` + text + `]}` }
	const ids = "must be between 1 and 9223372036854775807"
	for body, want := range map[string]struct{ code, field, reason string }{
		beat(`{"user_id":0,"device_id":7}`):                      {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":-1,"device_id":7}`):                     {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":9223372036854775808,"device_id":7}`):    {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":"9223372036854775808","device_id":7}`):  {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":"abc","device_id":7}`):                  {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":1.5,"device_id":7}`):                    {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":null,"device_id":7}`):                   {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":true,"device_id":7}`):                   {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":[1],"device_id":7}`):                    {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"device_id":7}`):                                  {"invalid_user_id", "beats[3].user_id", ids},
		beat(`{"user_id":1}`):                                    {"invalid_device_id", "beats[3].device_id", ""},
		beat(`{"user_id":1,"device_id":0}`):                      {"invalid_device_id", "beats[3].device_id", ""},
		beat(`{"user_id":1,"device_id":4294967296}`):             {"invalid_device_id", "beats[3].device_id", ""},
		beat(`{"user_id":1,"device_id":7,"device_kind":"tv"}`):   {"invalid_argument", "beats[3].device_kind", ""},
		beat(`{"user_id":1,"device_id":7,"device_kind":1}`):      {"invalid_argument", "beats[3].device_kind", ""},
		beat(`{"user_id":1,"device_id":7,"bye":1}`):              {"invalid_argument", "beats[3].bye", ""},
		beat(`{"user_id":1,"device_id":7,"age_ms":-1}`):          {"invalid_argument", "beats[3].age_ms", ""},
		beat(`{"user_id":1,"device_id":7,"age_ms":86400001}`):    {"invalid_argument", "beats[3].age_ms", ""},
		beat(`{"user_id":1,"device_id":7,"idle_ms":2592000001}`): {"invalid_argument", "beats[3].idle_ms", ""},
		beat(`{"user_id":1,"device_id":7,"idle_ms":"soon"}`):     {"invalid_argument", "beats[3].idle_ms", ""},
		beat(`{"user_id":1,"device_id":7,"mood":"fine"}`):        {"unknown_field", "beats[3].mood", ""},
		beat(`{"user_id":1,"user_id":1,"device_id":7}`):          {"repeated_field", "beats[3].user_id", ""},
		beat(`7`):                        {"invalid_argument", "beats[3]", "must be an object"},
		`{"beats":{}}`:                   {"invalid_argument", "beats", "must be an array"},
		`{"beats":[]}`:                   {"invalid_argument", "beats", ""},
		`{}`:                             {"invalid_argument", "beats", ""},
		`{"beats":[` + good + `],"x":1}`: {"unknown_field", "x", ""},
		`{"gateway_id":"gw","beats":[` + good + `]}`:                                     {"invalid_argument", "gateway_epoch", ""},
		`{"gateway_id":"gw","gateway_epoch":0,"beats":[]}`:                               {"invalid_argument", "gateway_epoch", ""},
		`{"gateway_id":"gw","gateway_epoch":"-5","beats":[]}`:                            {"invalid_argument", "gateway_epoch", ""},
		`{"gateway_id":"gw","gateway_epoch":1e99,"beats":[]}`:                            {"invalid_argument", "gateway_epoch", ""},
		`{"gateway_id":"gw","gateway_epoch":946684800,"beats":[]}`:                       {"invalid_argument", "gateway_epoch", "must be when the gateway started, in Unix milliseconds"},
		`{"gateway_id":"gw","gateway_epoch":"100000000000000","beats":[]}`:               {"invalid_argument", "gateway_epoch", "must be when the gateway started, in Unix milliseconds"},
		`{"gateway_id":7,"gateway_epoch":1,"beats":[]}`:                                  {"invalid_argument", "gateway_id", ""},
		`{"gateway_epoch":1,"beats":[` + good + `]}`:                                     {"invalid_argument", "gateway_id", ""},
		`{"gateway_id":"` + strings.Repeat("g", 129) + `","gateway_epoch":1,"beats":[]}`: {"invalid_argument", "gateway_id", ""},
		`{"beats":[` + good:          {"malformed", "body", ""},
		`{"beats":[` + good + `]} x`: {"malformed", "body", ""},
		`{"beats":[` + good + `]}{}`: {"malformed", "body", ""},
		``:                           {"malformed", "body", ""},
		`[]`:                         {"invalid_argument", "body", "must be an object"},
		"\x00\xff":                   {"malformed", "body", ""},
		`{"beats":[` + strings.Repeat(good+",", 10_000) + good + `]}`: {"invalid_argument", "beats", "must have at most 10000 elements"},
	} {
		name := body[:min(len(body), 90)]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config(), func(d endpoint) {
				w := d.post(body)
				var got refusal
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 400 || w.Header().Get("Content-Type") != "application/json" {
					t.Fatalf("got %d %s", w.Code, w.Body)
				}
				if e := got.Error; e.Code != want.code || e.Field != want.field || !strings.HasPrefix(e.Message, want.field+": "+want.reason) {
					t.Errorf("got %+v, want %+v", e, want)
				}
				if d.log.Tried() != 0 {
					t.Error("something was stored")
				}
				d.wants(d.post(twoBeats), 202, "")
			})
		})
	}
}

func TestBadProtobufNamesTheField(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	many := &pb.HeartbeatsRequest{}
	for range 10_001 {
		many.Beats = append(many.Beats, &pb.Beat{UserId: 1, DeviceId: 1})
	}
	for field, message := range map[string]*pb.HeartbeatsRequest{
		"beats[0].user_id":   {Beats: []*pb.Beat{{UserId: -1, DeviceId: 1}}},
		"beats[1].device_id": {Beats: []*pb.Beat{{UserId: 1, DeviceId: 1}, {UserId: 1}}},
		"beats[0].age_ms":    {Beats: []*pb.Beat{{UserId: 1, DeviceId: 1, AgeMs: 86400001}}},
		"beats[0].idle_ms":   {Beats: []*pb.Beat{{UserId: 1, DeviceId: 1, IdleMs: 2592000001}}},
		"gateway_epoch":      {GatewayId: "gw", GatewayEpoch: time.Now().Unix()},
		"beats":              many,
	} {
		body := must.Get(proto.Marshal(message))(t)
		var got refusal
		w := d.post(string(body), "Content-Type", "application/protobuf")
		if json.Unmarshal(w.Body.Bytes(), &got) != nil || w.Code != 400 || got.Error.Field != field {
			t.Errorf("got %d %s, want 400 that names %s", w.Code, w.Body, field)
		}
	}
	d.wants(d.post("\x1a\x7f", "Content-Type", "application/protobuf"), 400, "")
	if d.log.Tried() != 0 {
		t.Error("something was stored")
	}
}

func TestOtherFormatsEncodingsOriginsAndMethodsAreRefused(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	d.wants(d.post(twoBeats, "Content-Type", "text/xml"), 415, "")
	d.wants(d.post(twoBeats, "Content-Encoding", "br"), 415, "")
	d.wants(d.post(twoBeats, "Content-Encoding", "gzip"), 400, "")
	d.wants(d.post(twoBeats, "Content-Encoding", "zstd"), 400, "")
	d.wants(d.post(twoBeats, "Origin", "https://evil.example"), 403, "")
	d.wants(d.post(twoBeats, "Origin", "null"), 403, "")
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
		if w := d.send(method, "/presence/heartbeats", ""); w.Code != 405 || !strings.Contains(w.Header().Get("Allow"), "POST") {
			t.Errorf("%s: got %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	if w := d.send("GET", "/presence/1/visibility", ""); w.Code != 405 || w.Header().Get("Allow") != "PUT" {
		t.Errorf("got %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	if d.log.Tried() != 0 {
		t.Error("something was stored")
	}
}

func TestBombsAreRefusedWithoutUnpackingThem(t *testing.T) {
	t.Parallel()
	d := open(t, config())
	gzipped := func() []byte {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(make([]byte, 100<<20))
		must.Do(t, errors.Join(err, z.Close()))
		return packed.Bytes()
	}
	bomb, liar := gzipped(), gzipped()
	clear(bomb[10 : len(bomb)-8]) // not the header and the length: whoever unpacks it finds it broken
	d.wants(d.post(string(bomb), "Content-Encoding", "gzip"), 413, "")
	clear(liar[len(liar)-4:]) // a length that is too small is not believed
	d.wants(d.post(string(liar), "Content-Encoding", "gzip"), 413, "")
	var packed bytes.Buffer
	e := must.Get(zstd.NewWriter(&packed))(t)
	for range 100 { // so that it does not state its length
		e.Write(make([]byte, 1<<20))
	}
	e.Close()
	d.wants(d.post(packed.String(), "Content-Encoding", "zstd"), 413, "")
}

// counted counts what is read of a body.
type counted struct {
	io.Reader
	n *int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.n += int64(n)
	return n, err
}

func TestLongBodyIs413WithoutReadingIt(t *testing.T) {
	t.Parallel()
	log := &beattest.Log{Partitions: partitions}
	mux, stop := start(t, config(), log)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.Close(); stop() })
	post := func(body io.Reader, length int64) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/presence/heartbeats", body)
		must.Do(t, err)
		r.ContentLength = length
		answer := must.Get(server.Client().Do(r))(t)
		defer answer.Body.Close()
		must.Get(io.Copy(io.Discard, answer.Body))(t)
		return answer.StatusCode
	}
	megabyte := strings.Repeat(" ", 1<<20)
	if got := post(strings.NewReader(megabyte), 1<<20); got != 413 {
		t.Errorf("1 MB: %d, want 413", got)
	}
	if got := post(strings.NewReader(megabyte), -1); got != 413 {
		t.Errorf("1 MB, length unknown: %d, want 413", got)
	}
	if got := post(strings.NewReader(twoBeats), int64(len(twoBeats))); got != 202 {
		t.Errorf("after that: %d, want 202", got)
	}
	// A recorder stands for the server here: what a client has already put on
	// the wire is not what the server has read.
	var n int64
	r := httptest.NewRequest(http.MethodPost, "/presence/heartbeats", counted{strings.NewReader(strings.Repeat(megabyte, 8)), &n})
	r.ContentLength = 8 << 20
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	if w.Code != 413 || n > 0 {
		t.Errorf("8 MB: %d after %d bytes, want 413 after none", w.Code, n)
	}
}

func TestVisibilityIsAnsweredOnceKafkaHasIt(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		for _, word := range []string{"nobody", "everyone"} {
			w := d.send(http.MethodPut, "/presence/9007199254740993/visibility", fmt.Sprintf(`{"visibility":%q}`, word))
			d.wants(w, 200, fmt.Sprintf(`{"user_id":"9007199254740993","visibility":%q}`, word))
		}
		for path, body := range map[string]string{
			"/presence/0/visibility":                   `{"visibility":"nobody"}`,
			"/presence/abc/visibility":                 `{"visibility":"nobody"}`,
			"/presence/9223372036854775808/visibility": `{"visibility":"nobody"}`,
			"/presence/1/visibility":                   `{"visibility":"friends"}`,
			"/presence/2/visibility":                   `{}`,
			"/presence/3/visibility":                   `{"visibility":"nobody"} x`,
			"/presence/4/visibility":                   `{"visibility":"nobody","for":1}`,
			"/presence/5/visibility":                   `{"visibility":1}`,
		} {
			d.wants(d.send(http.MethodPut, path, body), 400, "")
		}
		d.wants(d.send(http.MethodPut, "/presence/1/visibility", strings.Repeat(" ", 5000)), 413, "")
		written := d.log.Written()
		if len(written) != 2 || written[0].Visibility != pb.Visibility_VISIBILITY_NOBODY || written[1].Visibility != pb.Visibility_VISIBILITY_EVERYONE ||
			string(written[0].Key) != string(written[0].User.Key()) || written[0].User != 9007199254740993 {
			t.Errorf("got %+v", written)
		}
		d.log.Away(true)
		w := d.send(http.MethodPut, "/presence/1/visibility", `{"visibility":"nobody"}`)
		if d.wants(w, 503, ""); w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
}
