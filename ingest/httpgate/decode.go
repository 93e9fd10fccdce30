package httpgate

import (
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// request is a valid POST of heartbeats or of events of connections.
type request struct {
	gateway schemas.GatewayID
	epoch   schemas.Millis
	beats   []schemas.Beat
	names   []schemas.Name // of the beats, with --ids text; they alias the body

	events       bool // of connections
	begins, ends bool // a replacement
	aliveFor     time.Duration
}

// list is the field that has the beats.
func (req *request) list() string {
	if req.events {
		return "events"
	}
	return "beats"
}

// decodeJSON reads a body. Every error is a *schemas.FieldError.
func decodeJSON(body []byte, n naming, maxBeats int) (request, error) {
	var req request
	seen := strictjson.Fields{Known: []string{"gateway_id", "gateway_epoch", "beats"}}
	r := strictjson.NewReader("body", body)
	err := r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		switch field {
		case "gateway_id":
			var id string
			id, err = r.Text(field)
			req.gateway = schemas.GatewayID(id)
		case "gateway_epoch":
			req.epoch, err = epoch(r)
		case "beats":
			err = req.readBeats(r, n, maxBeats)
		}
		return err
	})
	if err != nil {
		return request{}, err
	}
	return req, nil
}

func epoch(r *strictjson.Reader) (schemas.Millis, error) {
	text, err := r.Scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return 0, schemas.Invalid("gateway_epoch", "must be positive, in Unix milliseconds")
	}
	return schemas.Millis(n), nil
}

func (req *request) readBeats(r *strictjson.Reader, n naming, most int) error {
	var over error
	err := r.Array(func(i int) error {
		if i >= most {
			over = tooMany(req.list(), most)
			return over
		}
		req.beats = append(req.beats, schemas.Beat{Kind: schemas.Other})
		beat := &req.beats[i]
		if !req.events {
			called, err := n.readBeat(r, beat, nil)
			if err != nil {
				return err
			}
			return req.resolve(beat, n, &called)
		}
		var e event
		called, err := n.readBeat(r, beat, &e)
		if err == nil {
			err = e.tell(beat, n.oldest)
		}
		if err != nil {
			return err
		}
		return req.resolve(beat, n, &called)
	})
	if over != nil {
		return over
	}
	return r.Within(req.list(), err)
}

// beatFields are the fields of a beat; the last one only with --ids text.
var beatFields = []string{"user_id", "device_id", "device_kind", "bye", "age_ms", "idle_ms", "tenant"}

// readBeat reads one element of beats, or of events if e is not nil, and what it calls its user and device.
func (n naming) readBeat(r *strictjson.Reader, beat *schemas.Beat, e *event) (called texts, err error) {
	seen := strictjson.Fields{Known: beatFields}
	if e != nil {
		seen.Known = eventFields
	}
	if !n.users.Text() {
		seen.Known = seen.Known[:len(seen.Known)-1]
	}
	err = r.Object(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		var text []byte
		var word string
		var n int64
		switch field {
		case "event":
			e.kind, err = r.Text(field)
		case "reason":
			e.reason, err = r.Text(field)
		case "connection_id":
			e.connection, err = r.Text(field)
		case "user_id":
			text, err = r.Scalar()
			called.user = strictjson.Alias(text)
		case "device_id":
			text, err = r.Scalar()
			called.device = strictjson.Alias(text)
		case "tenant":
			if text, err = r.Scalar(); err == nil && text == nil {
				err = schemas.Invalid(field, "must be a string")
			}
			called.tenant, called.hasTenant = strictjson.Alias(text), true
		case "device_kind":
			if word, err = r.Text(field); err == nil {
				beat.Kind, err = schemas.ParseKind(field, word)
			}
		case "bye":
			beat.Bye, err = r.Bool(field)
		case "age_ms":
			n, err = r.Int(field, int64(schemas.MaxAge))
			beat.Age = schemas.Millis(n)
		case "idle_ms":
			n, err = r.Int(field, int64(schemas.MaxIdle))
			if beat.Idle = schemas.Millis(n); e != nil {
				e.hasIdle = true
			}
		}
		return err
	})
	return called, err
}

// check applies the rules that concern more than one field, and the clock.
func (req *request) check(now schemas.Millis) error {
	switch {
	case req.events && req.gateway == "":
		return schemas.Invalid("gateway_id", "must be set: a gateway holds the connections")
	case len(req.gateway) > schemas.MaxGatewayID:
		return schemas.Invalid("gateway_id", "must have at most "+strconv.Itoa(schemas.MaxGatewayID)+" bytes")
	case req.gateway != "" && req.epoch <= 0:
		return schemas.Invalid("gateway_epoch", "must be positive when gateway_id is set")
	case req.gateway == "" && req.epoch != 0:
		return schemas.Invalid("gateway_id", "must be set when gateway_epoch is")
	case req.gateway == "" && len(req.beats) == 0:
		return schemas.Invalid("beats", "must not be empty, except from a gateway")
	case req.gateway == "":
		return nil
	}
	return schemas.CheckEpoch("gateway_epoch", req.epoch, now)
}

func tooMany(list string, most int) error {
	return schemas.Invalid(list, "must have at most "+strconv.Itoa(most)+" elements")
}
