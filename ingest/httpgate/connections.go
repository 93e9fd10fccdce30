package httpgate

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// maxAliveFor is how long a gateway may count as heard after one request.
const maxAliveFor = 5 * time.Minute

// eventFields are the fields of an event; the last one only with --ids text.
var eventFields = []string{"event", "connection_id", "reason", "user_id", "device_id", "device_kind", "age_ms", "idle_ms",
	"tenant"}

// event is what an element of events has besides a beat.
type event struct {
	kind, reason, connection string
	hasIdle                  bool
}

// tell makes the beat say what happened. An open connection is not told of later than oldest after it was open: the
// detector could not tell it from one that has ended since.
func (e *event) tell(beat *schemas.Beat, oldest time.Duration) error {
	if e.connection == "" || len(e.connection) > schemas.MaxName {
		return schemas.Invalid("connection_id", "must have 1 to "+strconv.Itoa(schemas.MaxName)+" bytes")
	}
	beat.Connection = schemas.ConnectionOf(e.connection)
	open := e.kind != "disconnected"
	switch {
	case open && e.reason != "":
		return schemas.Invalid("reason", "goes with disconnected")
	case open && time.Duration(beat.Age)*time.Millisecond > oldest:
		return schemas.Invalid("age_ms", "must be at most "+strconv.FormatInt(oldest.Milliseconds(), 10)+
			" where the connection is open: after a longer outage tell of all open connections, with replace")
	case e.hasIdle && e.kind != "connected" && e.kind != "idle":
		return schemas.Invalid("idle_ms", "goes with connected and idle")
	}
	switch e.kind {
	case "connected", "active":
	case "idle":
		if !e.hasIdle {
			beat.Idle = schemas.MaxIdle // nobody knows since when
		} else if beat.Idle == 0 {
			return schemas.Invalid("idle_ms", "must be positive where the person is idle")
		}
	case "disconnected":
		switch e.reason {
		case "closed":
			beat.Bye = true
		case "lost":
			beat.Lost = true
		default:
			return schemas.Invalid("reason", "must be closed or lost")
		}
	default:
		return schemas.Invalid("event", "must be connected, active, idle or disconnected")
	}
	return nil
}

// decodeEvents reads a body. Every error is a *schemas.FieldError.
func decodeEvents(body []byte, n naming, most int) (request, error) {
	req := request{events: true, epoch: schemas.AnyProcess}
	seen := strictjson.Fields{Known: []string{"gateway_id", "gateway_epoch", "events", "replace", "replace_begins",
		"replace_ends", "alive_for_ms"}}
	r := strictjson.NewReader("body", body)
	err := r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		var on bool
		switch field {
		case "gateway_id":
			var id string
			id, err = r.Text(field)
			req.gateway = schemas.GatewayID(id)
		case "gateway_epoch":
			req.epoch, err = epoch(r)
		case "events":
			err = req.readBeats(r, n, most)
		case "alive_for_ms":
			var ms int64
			ms, err = r.Int(field, maxAliveFor.Milliseconds())
			req.aliveFor = time.Duration(ms) * time.Millisecond
		default:
			on, err = r.Bool(field)
			req.begins = req.begins || on && field != "replace_ends"
			req.ends = req.ends || on && field != "replace_begins"
		}
		return err
	})
	return req, err
}

// kinds are the events of Protobuf.
var kinds = map[pb.ConnectionEventKind]event{
	pb.ConnectionEventKind_CONNECTION_EVENT_KIND_CONNECTED: {kind: "connected"},
	pb.ConnectionEventKind_CONNECTION_EVENT_KIND_ACTIVE:    {kind: "active"},
	pb.ConnectionEventKind_CONNECTION_EVENT_KIND_IDLE:      {kind: "idle"},
	pb.ConnectionEventKind_CONNECTION_EVENT_KIND_CLOSED:    {kind: "disconnected", reason: "closed"},
	pb.ConnectionEventKind_CONNECTION_EVENT_KIND_LOST:      {kind: "disconnected", reason: "lost"},
}

// decodeProtobufEvents reads a ConnectionsRequest. Every error is a *schemas.FieldError.
func decodeProtobufEvents(body []byte, n naming, most int) (request, error) {
	var message pb.ConnectionsRequest
	if err := unmarshal(body, &message, "events", most); err != nil {
		return request{}, err
	}
	req := request{events: true, gateway: schemas.GatewayID(message.GatewayId), epoch: schemas.Millis(message.GatewayEpoch),
		begins: message.ReplaceBegins, ends: message.ReplaceEnds,
		aliveFor: time.Duration(message.AliveForMs) * time.Millisecond,
		beats:    make([]schemas.Beat, len(message.Events))}
	switch {
	case req.epoch == 0:
		req.epoch = schemas.AnyProcess
	case req.epoch < 0:
		return request{}, schemas.Invalid("gateway_epoch", "must be positive, in Unix milliseconds")
	}
	if req.aliveFor > maxAliveFor {
		return request{}, schemas.Invalid("alive_for_ms", "must be a whole number between 0 and "+
			strconv.FormatInt(maxAliveFor.Milliseconds(), 10))
	}
	for i, told := range message.Events {
		e, beat, b := kinds[told.Kind], &req.beats[i], told.Beat
		if b == nil {
			b = &pb.Beat{}
		}
		*beat = beatOf(b)
		e.connection, e.hasIdle = told.ConnectionId, b.IdleMs != 0
		var err error = schemas.Invalid("beat.bye", "must not be set: kind says what happened")
		if !b.Bye {
			if err = e.tell(beat, n.oldest); err == nil {
				err = strictjson.Within("beat", req.checkBeat(beat, b, n))
			}
		}
		if err != nil {
			return request{}, strictjson.Within("events["+strconv.Itoa(i)+"]", err)
		}
	}
	return req, nil
}

// unmarshal reads a message whose field 3 has at most most elements, and is called list.
func unmarshal(body []byte, message proto.Message, list string, most int) error {
	malformed := &schemas.FieldError{Code: "malformed", Field: "body",
		Reason: "is not a " + string(message.ProtoReflect().Descriptor().FullName()) + " in Protobuf"}
	// Counted before they are decoded: two bytes can become a hundred.
	switch n, ok := countBeats(body); {
	case !ok || proto.Unmarshal(body, message) != nil && n <= most:
		return malformed
	case n > most:
		return tooMany(list, most)
	}
	return nil
}
