package httpgate

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// decodeProtobuf reads a HeartbeatsRequest. Every error is a
// *schemas.FieldError. Unknown fields are skipped, as Protobuf wants.
func decodeProtobuf(body []byte, n naming, maxBeats int) (request, error) {
	var message pb.HeartbeatsRequest
	if err := unmarshal(body, &message, "beats", maxBeats); err != nil {
		return request{}, err
	}
	if message.GatewayEpoch < 0 {
		return request{}, schemas.Invalid("gateway_epoch", "must be positive, in Unix milliseconds")
	}
	req := request{
		gateway: schemas.GatewayID(message.GatewayId), epoch: schemas.Millis(message.GatewayEpoch),
		beats: make([]schemas.Beat, len(message.Beats)),
	}
	for i, b := range message.Beats {
		req.beats[i] = beatOf(b)
		if err := req.checkBeat(&req.beats[i], b, n); err != nil {
			return request{}, strictjson.Within("beats["+strconv.Itoa(i)+"]", err)
		}
	}
	return req, nil
}

func beatOf(b *pb.Beat) schemas.Beat {
	return schemas.Beat{
		User: schemas.UserID(b.UserId), Device: schemas.DeviceID(b.DeviceId), Kind: schemas.KnownKind(b.DeviceKind),
		Bye: b.Bye, Age: schemas.Millis(b.AgeMs), Idle: schemas.Millis(b.IdleMs),
	}
}

// checkBeat checks a beat and, with --ids text, resolves its names.
func (req *request) checkBeat(beat *schemas.Beat, b *pb.Beat, n naming) error {
	switch {
	case n.users.Text():
		if err := req.resolve(beat, n, textsOf(b)); err != nil {
			return err
		}
	case b.UserId < 1:
		_, err := schemas.ParseUserID("user_id", strconv.FormatInt(b.UserId, 10))
		return err
	case b.DeviceId < 1:
		_, err := schemas.ParseDeviceID("device_id", "0")
		return err
	case b.Tenant != "" || b.Name != "" || b.Device != "":
		return &schemas.FieldError{Code: "names_need_text_ids", Field: "name",
			Reason: "must not be set, nor tenant nor device: they are for pipelines with --ids text"}
	}
	if schemas.Millis(b.AgeMs) > schemas.MaxAge {
		return schemas.Invalid("age_ms",
			"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxAge), 10))
	}
	if schemas.Millis(b.IdleMs) > schemas.MaxIdle {
		return schemas.Invalid("idle_ms",
			"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxIdle), 10))
	}
	return nil
}

// textsOf never takes user_id, which would address users by their internal ids.
func textsOf(b *pb.Beat) *texts {
	called := texts{tenant: b.Tenant, user: b.Name, device: b.Device, hasTenant: b.Tenant != ""}
	if called.device == "" && b.DeviceId != 0 {
		called.device = strconv.FormatUint(uint64(b.DeviceId), 10)
	}
	return &called
}

// countBeats counts the elements of HeartbeatsRequest.beats; false when body is
// no Protobuf.
func countBeats(body []byte) (n int, ok bool) {
	const beatsField = 3
	for len(body) > 0 {
		number, kind, size := protowire.ConsumeTag(body)
		if size < 0 {
			return 0, false
		}
		body = body[size:]
		if size = protowire.ConsumeFieldValue(number, kind, body); size < 0 {
			return 0, false
		}
		body = body[size:]
		if number == beatsField {
			n++
		}
	}
	return n, true
}
