package httpgate

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stillhere/stillhere/schemas"
	pb "github.com/stillhere/stillhere/schemas/stillherev1"
)

// decodeProtobuf reads a HeartbeatsRequest. Every error is a
// *schemas.FieldError. Unknown fields are skipped, as Protobuf wants.
func decodeProtobuf(body []byte, maxBeats int) (request, error) {
	malformed := &schemas.FieldError{Code: "malformed", Field: "body",
		Reason: "is not a stillhere.v1.HeartbeatsRequest in Protobuf"}
	// Counted before they are decoded: two bytes can become a hundred.
	switch n, ok := countBeats(body); {
	case !ok:
		return request{}, malformed
	case n > maxBeats:
		return request{}, tooMany(maxBeats)
	}
	var message pb.HeartbeatsRequest
	if proto.Unmarshal(body, &message) != nil {
		return request{}, malformed
	}
	if message.GatewayEpoch < 0 {
		return request{}, schemas.Invalid("gateway_epoch", "must be positive, in Unix milliseconds")
	}
	req := request{
		gateway: schemas.GatewayID(message.GatewayId), epoch: schemas.Millis(message.GatewayEpoch),
		beats: make([]schemas.Beat, len(message.Beats)),
	}
	for i, b := range message.Beats {
		if err := checkBeat("beats["+strconv.Itoa(i)+"].", b); err != nil {
			return request{}, err
		}
		req.beats[i] = schemas.Beat{
			User: schemas.UserID(b.UserId), Device: schemas.DeviceID(b.DeviceId), Kind: schemas.KnownKind(b.DeviceKind),
			Bye: b.Bye, Age: schemas.Millis(b.AgeMs), Idle: schemas.Millis(b.IdleMs),
		}
	}
	return req, req.check()
}

func checkBeat(prefix string, b *pb.Beat) error {
	if b.UserId < 1 {
		_, err := schemas.ParseUserID(prefix+"user_id", strconv.FormatInt(b.UserId, 10))
		return err
	}
	if b.DeviceId < 1 {
		_, err := schemas.ParseDeviceID(prefix+"device_id", "0")
		return err
	}
	if schemas.Millis(b.AgeMs) > schemas.MaxAge {
		return schemas.Invalid(prefix+"age_ms",
			"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxAge), 10))
	}
	if schemas.Millis(b.IdleMs) > schemas.MaxIdle {
		return schemas.Invalid(prefix+"idle_ms",
			"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxIdle), 10))
	}
	return nil
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
