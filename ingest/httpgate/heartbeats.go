package httpgate

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// form is how a body is read.
type form struct {
	json, protobuf func(body []byte, n naming, most int) (request, error)
}

func (g *Gate) postHeartbeats(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.take(w, r, form{decodeJSON, decodeProtobuf})
}

func (g *Gate) postConnections(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.take(w, r, form{decodeEvents, decodeProtobufEvents})
}

// take accepts all beats of a request or none, except that it leaves out those of tenants who are over a quota.
func (g *Gate) take(w http.ResponseWriter, r *http.Request, f form) (status int, err error) {
	received := g.now() // ages in the body count from about here, not from its last byte
	format, err := formatOf(r)
	if err != nil {
		return 0, err
	}
	naming, err := g.namingOf(r)
	if err != nil {
		return 0, err
	}
	body, err := g.readBody(w, r, g.cfg.HTTP.MaxBody)
	if err != nil {
		return 0, err
	}
	leave, err := enter(g.heartbeatSlots)
	if err != nil {
		return 0, err
	}
	defer leave()
	decode := f.json
	if format == protobufFormat {
		decode = f.protobuf
	}
	req, err := decode(body, naming, g.cfg.HTTP.MaxBeats)
	if err == nil {
		err = req.check(schemas.MillisOf(time.Now()))
	}
	if err != nil {
		return 0, err
	}
	if err := checkCaller(ingest.CallerOf(r.Context()), &req); err != nil {
		return 0, err
	}
	if err := g.checkLimits(ingest.CallerOf(r.Context()), req.beats); err != nil {
		return 0, err
	}
	refused, err := g.admit(r.Context(), &req)
	if err != nil {
		return 0, err
	}
	if req.epoch != 0 {
		if err := g.gateways.record(g.now(), &req); err != nil {
			return 0, err
		}
	}
	written, err := g.writer.write(&req, received)
	if err != nil {
		return 0, err
	}
	if err := g.await(r.Context(), written); err != nil {
		return 0, err
	}
	accept(w, r, len(req.beats), refused)
	return http.StatusAccepted, nil
}

// checkCaller refuses beats that the caller may not send, naming the first.
func checkCaller(caller *ingest.Caller, req *request) error {
	if caller == nil {
		return nil
	}
	if err := caller.CheckGateway("gateway_id", req.gateway); err != nil {
		return err
	}
	for i := range req.beats {
		if err := caller.CheckUser(req.list()+"["+strconv.Itoa(i)+"].user_id", req.beats[i].User); err != nil {
			return err
		}
	}
	if req.gateway == "" && !caller.Any {
		req.gateway = caller.Gateway // of none of its processes, but its byes end no device that came through another
	}
	var err error
	req.gateway, err = caller.GatewayID("gateway_id", req.gateway)
	return err
}

// checkLimits refuses more beats than one user may send. Gateways and administrators have no
// limit.
func (g *Gate) checkLimits(caller *ingest.Caller, beats []schemas.Beat) error {
	if !caller.IsPlainUser() {
		return nil
	}
	var wait time.Duration
	var atOnce int
	if caller.Charge != nil {
		wait, atOnce = caller.Charge(len(beats))
	}
	if most := int(g.maxDevices.Load()); moreDevices(beats, most) {
		return web.Refuse(http.StatusBadRequest, "too_many_devices", "beats", "must be of at most "+strconv.Itoa(most)+
			" devices in a request with the token of their user")
	}
	switch {
	case atOnce > 0:
		return web.Refuse(http.StatusBadRequest, "too_many_beats", "beats", "must have at most "+strconv.Itoa(atOnce)+
			" elements in a request with a user's token: the limit on one user's beats has room for no more at once")
	case wait > 0:
		return web.RefuseFor(wait, http.StatusTooManyRequests, "too_many_requests", "beats",
			"are too many for now: every beat counts as a request of their user")
	}
	return nil
}

func moreDevices(beats []schemas.Beat, most int) bool {
	if len(beats) <= most {
		return false
	}
	seen := make(map[schemas.DeviceID]struct{}, most+1)
	for i := range beats {
		if seen[beats[i].Device] = struct{}{}; len(seen) > most {
			return true
		}
	}
	return false
}

// accept answers in Protobuf if the client asks for it, else in JSON.
func accept(w http.ResponseWriter, r *http.Request, beats int, refused []refusedBeats) {
	kind, _, _ := mime.ParseMediaType(strings.Split(r.Header.Get("Accept"), ",")[0])
	body := []byte(`{"accepted":` + strconv.Itoa(beats) + "}\n")
	switch {
	case isProtobuf(kind):
		answer := &pb.HeartbeatsResponse{Accepted: int32(beats)}
		for _, of := range refused {
			answer.Refused = append(answer.Refused, &pb.RefusedBeats{Tenant: of.Tenant, Quota: of.Quota, Beats: of.Beats, RetryAfterMs: of.RetryAfter})
		}
		// Only text that is not UTF-8 could fail to be encoded.
		body, _ = proto.Marshal(answer)
	case len(refused) > 0:
		// Numbers and text cannot fail to be encoded.
		body, _ = json.Marshal(struct {
			Accepted int            `json:"accepted"`
			Refused  []refusedBeats `json:"refused,omitempty"`
		}{beats, refused})
		body = append(body, '\n')
	}
	if !isProtobuf(kind) {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusAccepted)
	// If this fails the caller has disconnected; Kafka has the beats.
	_, _ = w.Write(body)
}
