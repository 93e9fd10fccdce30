package httpgate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/ingest/httpgate"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

func (d endpoint) events(body string, headers ...string) *httptest.ResponseRecorder {
	return d.send(http.MethodPost, "/presence/connections", body, headers...)
}

func TestEventsOfConnectionsAreAcceptedOnceKafkaHasThem(t *testing.T) {
	t.Parallel()
	type kind = pb.ConnectionEventKind
	told := func(k kind, user int64, idle, age uint32) *pb.ConnectionEvent {
		return &pb.ConnectionEvent{Kind: k, ConnectionId: "c1",
			Beat: &pb.Beat{UserId: user, DeviceId: 7, DeviceKind: schemas.Web, IdleMs: idle, AgeMs: age}}
	}
	message := string(must.Get(proto.Marshal(&pb.ConnectionsRequest{GatewayId: "mqtt-1", Events: []*pb.ConnectionEvent{
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_CONNECTED, 1, 0, 20),
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_IDLE, 2, 60_000, 0),
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_IDLE, 3, 0, 0),
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_ACTIVE, 4, 0, 0),
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_CLOSED, 5, 0, 0),
		told(pb.ConnectionEventKind_CONNECTION_EVENT_KIND_LOST, 6, 0, 3_600_000),
	}}))(t))
	const device = `"connection_id":"c1","device_id":7,"device_kind":"web"`
	text := `{"gateway_id":"mqtt-1","events":[
		{"event":"connected","user_id":"1","age_ms":20,` + device + `},
		{"event":"idle","user_id":"2","idle_ms":60000,` + device + `},
		{"event":"idle","user_id":"3",` + device + `},
		{"event":"active","user_id":"4",` + device + `},
		{"event":"disconnected","reason":"closed","user_id":"5",` + device + `},
		{"event":"disconnected","reason":"lost","user_id":"6","age_ms":3600000,` + device + `}]}`
	c1 := schemas.Beat{Device: 7, Kind: schemas.Web, Connection: schemas.ConnectionOf("c1")}
	want := map[schemas.UserID]schemas.Beat{}
	for user, change := range map[schemas.UserID]func(b *schemas.Beat){
		1: func(b *schemas.Beat) { b.Age = 20 }, 2: func(b *schemas.Beat) { b.Idle = 60_000 },
		3: func(b *schemas.Beat) { b.Idle = schemas.MaxIdle }, 4: func(*schemas.Beat) {},
		5: func(b *schemas.Beat) { b.Bye = true }, 6: func(b *schemas.Beat) { b.Lost, b.Age = true, 3_600_000 },
	} {
		b := c1
		b.User = user
		change(&b)
		want[user] = b
	}
	for body, kind := range map[string]string{text: "application/json", message: "application/x-protobuf"} {
		inBubble(t, config(), func(d endpoint) {
			d.wants(d.events(body, "Content-Type", kind), 202, `{"accepted":6}`)
			written := d.log.Written()
			if got := byUser(written); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v", kind, got, want)
			}
			for _, w := range written {
				if w.Gateway != "mqtt-1" || w.Epoch != schemas.AnyProcess || w.Begins || w.Ends {
					t.Errorf("%s: got %+v", kind, w)
				}
			}
		})
	}
}

func TestEventsOfOneDeviceShareAFrameInTheirOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		d.wants(d.events(`{"gateway_id":"g","events":[
			{"event":"connected","user_id":"1","device_id":7,"connection_id":"a"},
			{"event":"connected","user_id":"1","device_id":7,"connection_id":"b"},
			{"event":"disconnected","reason":"lost","user_id":"1","device_id":7,"connection_id":"a"}]}`), 202, `{"accepted":3}`)
		rows := d.log.Written()[0].Beats
		a, b := schemas.ConnectionOf("a"), schemas.ConnectionOf("b")
		if len(rows) != 3 || rows[0].Connection != a || rows[1].Connection != b || rows[2].Connection != a || !rows[2].Lost {
			t.Errorf("got %+v", rows)
		}
	})
}

func TestBadEventsNameTheField(t *testing.T) {
	t.Parallel()
	one := func(event string) string {
		return `{"gateway_id":"g","events":[{"user_id":"1","device_id":7,"connection_id":"c",` + event + `}]}`
	}
	inBubble(t, config(), func(d endpoint) {
		for body, field := range map[string]string{
			`{"events":[]}`:                            "gateway_id",
			`{"gateway_id":"g","beats":[]}`:            "beats",
			`{"gateway_id":"g","replace":"yes"}`:       "replace",
			`{"gateway_id":"g","alive_for_ms":300001}`: "alive_for_ms",
			`{"gateway_id":"g","gateway_epoch":2}`:     "gateway_epoch",
			`{"gateway_id":"g","events":[{"event":"connected","user_id":"1","device_id":7}]}`: "events[0].connection_id",
			`{"gateway_id":"g","events":[{"event":"connected","connection_id":"c"}]}`:         "events[0].user_id",
			one(`"event":"gone"`):                                        "events[0].event",
			one(`"event":"disconnected"`):                                "events[0].reason",
			one(`"event":"disconnected","reason":"lost","idle_ms":1`):    "events[0].idle_ms",
			one(`"event":"connected","reason":"lost"`):                   "events[0].reason",
			one(`"event":"connected","bye":true`):                        "events[0].bye",
			one(`"event":"idle","idle_ms":0`):                            "events[0].idle_ms",
			one(`"event":"active","idle_ms":0`):                          "events[0].idle_ms",
			one(`"event":"connected","age_ms":60000`):                    "events[0].age_ms",
			one(`"event":"disconnected","reason":"lost","age_ms":1e9`):   "events[0].age_ms",
			one(`"event":"connected","device_kind":"tv"`):                "events[0].device_kind",
			`{"gateway_id":"g","events":[1]}`:                            "events[0]",
			`{"gateway_id":"g","events":{}}`:                             "events",
			`{"gateway_id":"g","replace_begins":true,"replace_ends":1}`:  "replace_ends",
			`{"gateway_id":"g","alive_for_ms":5000,"alive_for_ms":5000}`: "alive_for_ms",
		} {
			w := d.events(body)
			var got refusal
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 400 || got.Error.Field != field {
				t.Errorf("%s: got %d %s, want the field %s", body, w.Code, w.Body, field)
			}
		}
		if n := len(d.log.Written()); n != 0 {
			t.Errorf("%d records of bad requests", n)
		}
	})
}

func TestAReplacementComesToEveryPartition(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		connected := `{"event":"connected","user_id":"1","device_id":7,"connection_id":"c"}`
		d.wants(d.events(`{"gateway_id":"g","replace":true,"events":[`+connected+`]}`), 202, `{"accepted":1}`)
		d.wants(d.events(`{"gateway_id":"g","replace_begins":true}`), 202, `{"accepted":0}`)
		d.wants(d.events(`{"gateway_id":"g","replace_ends":true,"events":[`+connected+`]}`), 202, `{"accepted":1}`)
		frames := map[int32]string{}
		for _, w := range d.log.Written() {
			if w.Begins || w.Ends {
				frames[w.Partition] += fmt.Sprintf("%v %v %d; ", w.Begins, w.Ends, len(w.Beats))
			}
		}
		for p := range int32(partitions) {
			want := "true true 0; true false 0; false true 0; "
			if p == schemas.PartitionOf(1, partitions) {
				want = "true true 1; true false 0; false true 1; "
			}
			if frames[p] != want {
				t.Errorf("partition %d: got %q, want %q", p, frames[p], want)
			}
		}
	})
}

func TestAGatewayIsHeardForAsLongAsItSays(t *testing.T) {
	t.Parallel()
	inBubble(t, config(), func(d endpoint) {
		for _, c := range []struct {
			body        string
			least, most time.Duration
		}{
			{`{"gateway_id":"g"}`, 8 * time.Second, 11 * time.Second},
			{`{"gateway_id":"g","alive_for_ms":200000}`, 197 * time.Second, 200 * time.Second},
		} {
			since := time.Now()
			d.wants(d.events(c.body), 202, `{"accepted":0}`)
			pass(10 * time.Minute)
			alive := d.log.Alive()
			if last := alive[len(alive)-1].At.Sub(since); last < c.least || last > c.most {
				t.Errorf("%s: the last frame came %s after the request, want %s to %s", c.body, last, c.least, c.most)
			}
		}
	})
}

func TestAGatewayIsAskedOnceForAllItsConnectionsAfterDetectorsLostThem(t *testing.T) {
	t.Parallel()
	var gate *httpgate.Gate
	inBubble(t, config(), func(d endpoint) {
		const refusal = `{"error":{"code":"conflict","message":"the detectors have lost which connections are open: ` +
			"tell of all that are, with replace or replace_begins; nothing of this request was taken\"}}"
		const says, all = `{"gateway_id":"%s","events":[]}`, `{"gateway_id":"%s","events":[],"replace":true}`
		tell := func(body, gateway string, status int) {
			t.Helper()
			d.wants(d.events(fmt.Sprintf(body, gateway)), status, map[int]string{409: refusal}[status])
		}
		gate.Restarted(map[int32]schemas.Millis{0: 1000})
		tell(says, "b", 202)
		d.post(named("beats", 5, `{"user_id":1,"device_id":7}`))
		gate.Restarted(map[int32]schemas.Millis{0: 1000, 1: 0})
		tell(says, "a", 202)
		pass(time.Second)
		gate.Restarted(map[int32]schemas.Millis{0: 1000, 1: 2000})
		frames := len(d.log.Written())
		tell(says, "a", 409)
		if n := len(d.log.Written()) - frames; n != 0 {
			t.Errorf("%d records of a request that was refused", n)
		}
		tell(all, "a", 202)
		tell(says, "a", 202)
		tell(`{"gateway_id":"%s","replace_begins":true}`, "b", 202) // of itself
		tell(says, "b", 202)
		tell(says, "c", 202) // is new: begins with all
		d.wants(d.post(named("beats", 5, `{"user_id":1,"device_id":7}`)), 202, "")
		pass(time.Second)
		gate.Restarted(map[int32]schemas.Millis{0: 3000})
		tell(says, "b", 409)
		tell(says, "b", 202) // a gateway that does not know replace goes on
	}, func(g *httpgate.Gate) { gate = g })
}
