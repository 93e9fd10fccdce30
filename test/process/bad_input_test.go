//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/test/testkit"

	"github.com/coder/websocket"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// bystander beats in many bad requests, correctly: all or nothing means nothing.
const bystander = 900

func TestBadInputIsAnsweredWithTheFieldAndNothingOfItIsStored(t *testing.T) {
	t.Parallel() // scenario 37
	h := testkit.NewDev(t)
	h.Up()
	badRequests(h)
	badMessages(h)
	// Of all that only the socket's own beats may be in Kafka.
	reader := h.Reader()
	for p := range int32(testkit.DevPartitions) {
		err := reader.Read(t.Context(), schemas.Heartbeats, p, -1, -1, false, func(r *schemas.Record) error {
			var f schemas.Frame
			if err := f.Decode(r.Value); err != nil {
				return err
			}
			if f.VisibilityUser != 0 {
				t.Errorf("a change of visibility of user %d was stored", f.VisibilityUser)
			}
			rows := f.Beats()
			for row := (schemas.Beat{}); rows.Next(&row); {
				if row.User != socketUser {
					t.Errorf("a beat of user %d was stored", row.User)
				}
			}
			return nil
		})
		must.Do(t, err)
	}
	if state := h.State(bystander); state != "offline" {
		t.Errorf("the user who beat in bad requests is %s", state)
	}
}

// badRequests makes those that HTTP must refuse.
func badRequests(h *testkit.Dev) {
	h.Helper()
	good := fmt.Sprintf(`{"user_id":"%d","device_id":7}`, bystander)
	beats := func(bad string) string { return `{"beats":[` + good + `,` + bad + `]}` }
	var many []string
	for id := range 1001 {
		many = append(many, fmt.Sprint(id+1))
	}
	const batch, heartbeats, visibility = "/presence/batch?user_ids=", "/presence/heartbeats", "/presence/901/visibility"
	for _, b := range []struct {
		method, path, kind, body string
		status                   int
		field                    string
	}{
		{"POST", heartbeats, "", beats(`{"user_id":0,"device_id":7}`), 400, "beats[1].user_id"},
		{"POST", heartbeats, "", beats(`{"user_id":-1,"device_id":7}`), 400, "beats[1].user_id"},
		{"POST", heartbeats, "", beats(`{"user_id":9223372036854775808,"device_id":7}`), 400, "beats[1].user_id"},
		{"POST", heartbeats, "", beats(`{"user_id":"abc","device_id":7}`), 400, "beats[1].user_id"},
		{"POST", heartbeats, "", beats(`{"user_id":1,"device_id":0}`), 400, "beats[1].device_id"},
		{"POST", heartbeats, "", beats(`{"user_id":1,"device_id":7,"mood":"fine"}`), 400, "beats[1].mood"},
		{"POST", heartbeats, "", `{"beats":[]}`, 400, "beats"},
		{"POST", heartbeats, "", `{"beats":[` + good + `],"colour":1}`, 400, "colour"},
		{"POST", heartbeats, "", `{"beats":[` + good + `,{"user_id`, 400, "body"},
		{"POST", heartbeats, "", ``, 400, "body"},
		{"POST", heartbeats, "application/protobuf", "\xff\xff\xff", 400, "body"},
		{"POST", heartbeats, "text/html", `{"beats":[` + good + `]}`, 415, "Content-Type"},
		{"POST", heartbeats, "", beats(good + strings.Repeat(" ", 1_000_001)), 413, "body"},
		{"POST", heartbeats, "", beats(good + strings.Repeat(" ", 5_000_000)), 413, "body"},
		{"POST", heartbeats, "", `{"beats":[` + strings.Repeat(good+",", 10_000) + good + `]}`, 400, "beats"},
		{"PUT", "/presence/0/visibility", "", `{"visibility":"nobody"}`, 400, "user_id"},
		{"PUT", "/presence/abc/visibility", "", `{"visibility":"nobody"}`, 400, "user_id"},
		{"PUT", visibility, "", `{"visibility":"friends"}`, 400, "visibility"},
		{"PUT", visibility, "", `{"visibility":"nobody"`, 400, "body"},
		{"PUT", visibility, "", `{"visibility":"nobody","until":1}`, 400, "until"},
		{"PUT", visibility, "", `{"visibility":"nobody"` + strings.Repeat(" ", 1_000_001) + `}`, 413, "body"},
		{"GET", batch, "", "", 400, "user_ids"},
		{"GET", "/presence/batch", "", "", 400, "user_ids"},
		{"GET", batch + "1,0", "", "", 400, "user_ids[1]"},
		{"GET", batch + "-1", "", "", 400, "user_ids[0]"},
		{"GET", batch + "9223372036854775808", "", "", 400, "user_ids[0]"},
		{"GET", batch + "1,2,abc", "", "", 400, "user_ids[2]"},
		{"GET", batch + strings.Join(many, ","), "", "", 400, "user_ids"},
		{"GET", "/presence/0", "", "", 400, "user_id"},
		{"GET", "/presence/abc", "", "", 400, "user_id"},
		{"GET", "/presence/9223372036854775808", "", "", 400, "user_id"},
		{"GET", "/presence/0/history", "", "", 400, "user_id"},
		{"GET", "/presence/1/history?limit=0", "", "", 400, "limit"},
		{"GET", "/presence/1/history?cursor=x", "", "", 400, "cursor"},
		{"GET", "/presence/connect?user_id=0&device_id=7", "", "", 400, "user_id"},
		{"GET", "/presence/connect?user_id=abc&device_id=7", "", "", 400, "user_id"},
		{"GET", "/presence/connect?user_id=1", "", "", 400, "device_id"},
		{"GET", "/presence/stream?user_ids=0", "", "", 400, "user_ids[0]"},
	} {
		name := b.method + " " + b.path[:min(len(b.path), 60)] + " " + b.body[:min(len(b.body), 80)]
		status, answer, err := h.Ask(b.method, b.path, b.kind, strings.NewReader(b.body))
		var said struct{ Error problem }
		if err == nil {
			err = json.Unmarshal(answer, &said)
		}
		if err != nil || status != b.status || said.Error.Field != b.field || said.Error.Code == "" || !strings.Contains(said.Error.Message, b.field) {
			h.Errorf("%s\n  is answered %d %s (%v), must be %d and name %s", name, status, answer, err, b.status, b.field)
		}
	}
}

// socketUser is whose socket bad messages come through.
const socketUser = 50

// badMessages says what sockets must refuse, and that they must survive it.
func badMessages(h *testkit.Dev) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://%s/presence/connect?user_id=%d&device_id=7", h.Listen, socketUser), nil)
	must.Do(h, err)
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	exchange := func(text, want string) message {
		if text != "" {
			if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
				h.Fatalf("the socket did not survive up to %s: %v", text[:min(len(text), 80)], err)
			}
		}
		_, answer, err := conn.Read(ctx)
		if err != nil {
			h.Fatalf("the socket did not survive %s: %v", text[:min(len(text), 80)], err)
		}
		var m message
		if err := json.Unmarshal(answer, &m); err != nil || m.Type != want {
			h.Errorf("%s is answered %s, must be of type %s", text[:min(len(text), 80)], answer, want)
		}
		return m
	}
	exchange("", "hello")
	var many []string
	for id := range 1001 {
		many = append(many, fmt.Sprintf(`"%d"`, id+1000))
	}
	for text, field := range map[string]string{
		`{"type":"subscribe","user_ids":["0"]}`:                             "user_ids[0]",
		`{"type":"subscribe","user_ids":["1","-1"]}`:                        "user_ids[1]",
		`{"type":"subscribe","user_ids":["9223372036854775808"]}`:           "user_ids[0]",
		`{"type":"subscribe","user_ids":["abc"]}`:                           "user_ids[0]",
		`{"type":"subscribe","user_ids":[]}`:                                "user_ids",
		`{"type":"subscribe"}`:                                              "user_ids",
		`{"type":"subscribe","user_ids":["1"],"colour":1}`:                  "colour",
		`{"type":"subscribe","user_ids":[` + strings.Join(many, ",") + `]}`: "user_ids",
		`{"type":"subscribe","user_ids":["1"`:                               "message",
		`{"type":"dance"}`:                                                  "type",
		`{"typ":"bye"}`:                                                     "type",
		`{}`:                                                                "type",
		`garbage`:                                                           "message",
		`{"type":"activity"}`:                                               "idle_ms",
		`{"type":"activity","idle_ms":-1}`:                                  "idle_ms",
		`{"type":"activity","idle_ms":1,"x":1}`:                             "x",
		`{"type":"bye","x":1}`:                                              "x",
		`{"type":"activity","idle_ms":1` + strings.Repeat(" ", 1_000_001) + `}`:       "message",
		`{"type":"subscribe","user_ids":["1"]` + strings.Repeat(" ", 1_000_001) + `}`: "message",
	} {
		if m := exchange(text, "error"); m.Error.Field != field || m.Error.Code == "" || !strings.Contains(m.Error.Message, field) {
			h.Errorf("%s is answered %+v, must name %s", text[:min(len(text), 80)], m.Error, field)
		}
	}
	// It still does what it is for.
	m := exchange(fmt.Sprintf(`{"type":"subscribe","user_ids":["%d"]}`, bystander), "snapshot")
	if len(m.Users) != 1 {
		h.Fatalf("after all that a subscription is answered %+v", m)
	}
	if p, err := h.Presence(m.Users[0]); err != nil || p.UserID != bystander || *p.State != "offline" {
		h.Errorf("after all that the snapshot has %+v, %v", p, err)
	}
	h.AllAre("online", []schemas.UserID{socketUser}) // which may take longer than all that
}
