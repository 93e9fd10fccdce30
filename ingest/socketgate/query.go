package socketgate

import (
	"net/url"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/devices"
	"github.com/stillhere/stillhere/schemas"
)

// identity is the client of a socket.
type identity struct {
	device devices.Device
	kind   schemas.DeviceKind
	idle   time.Duration // when connecting
	// deliveries asks for deliveries from the beginning, as the stream's message does.
	deliveries bool
}

// parseIdentity reads the query of a connect. Every error is a *schemas.FieldError that names the
// parameter. Unknown parameters are ignored. Without user_id the user is the caller.
func parseIdentity(query string, caller *ingest.Caller) (identity, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return identity{}, schemas.Invalid("query", "is not a valid query string")
	}
	for _, name := range []string{"user_id", "device_id", "device_kind", "idle_ms", "deliveries"} {
		if len(values[name]) > 1 {
			return identity{}, &schemas.FieldError{Code: "repeated_field", Field: name, Reason: "is given twice"}
		}
	}
	who := identity{kind: schemas.Other}
	if caller != nil && caller.User != 0 && !values.Has("user_id") {
		who.device.User = caller.User
	} else if who.device.User, err = schemas.ParseUserID("user_id", values.Get("user_id")); err != nil {
		return identity{}, err
	}
	if who.device.ID, err = schemas.ParseDeviceID("device_id", values.Get("device_id")); err != nil {
		return identity{}, err
	}
	if values.Has("device_kind") {
		if who.kind, err = schemas.ParseKind("device_kind", values.Get("device_kind")); err != nil {
			return identity{}, err
		}
	}
	if values.Has("idle_ms") {
		ms, err := strconv.ParseInt(values.Get("idle_ms"), 10, 64)
		if err != nil || ms < 0 || ms > int64(schemas.MaxIdle) {
			return identity{}, schemas.Invalid("idle_ms",
				"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxIdle), 10))
		}
		who.idle = time.Duration(ms) * time.Millisecond
	}
	if values.Has("deliveries") {
		if who.deliveries, err = strconv.ParseBool(values.Get("deliveries")); err != nil {
			return identity{}, schemas.Invalid("deliveries", "must be true or false")
		}
	}
	return who, nil
}
