package socketgate

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

// client is the client of a socket.
type client struct {
	device beat.Device
	name   *schemas.Name // of the user, with --ids text; else nil
	kind   schemas.DeviceKind
	idle   time.Duration // when connecting
	// deliveries asks for deliveries from the beginning, as the stream's message does.
	deliveries bool
}

// tenant is that of the user; empty with --ids int.
func (c *client) tenant() string {
	if c.name == nil {
		return ""
	}
	return c.name.Tenant
}

// admit counts the connection and its first beat, unless the tenant is over a quota.
func (c *client) admit(ctx context.Context, account *tenants.Account) *tenants.OverQuota {
	if over := account.Connect(); over != nil {
		return over
	}
	over := account.Beats(1)
	if over == nil && account.Full() {
		_, over = account.Newcomers(ctx, []schemas.UserID{c.device.User})
	}
	if over != nil {
		account.Disconnect()
	}
	return over
}

// parseClient reads the query of a connect. Every error is a *schemas.FieldError that names the
// parameter. Unknown parameters are ignored. Without user_id the user is the caller.
func parseClient(r *http.Request, users identity.Users) (client, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return client{}, schemas.Invalid("query", "is not a valid query string")
	}
	for _, name := range []string{"user_id", "device_id", "device_kind", "idle_ms", "deliveries"} {
		if len(values[name]) > 1 {
			return client{}, &schemas.FieldError{Code: "repeated_field", Field: name, Reason: "is given twice"}
		}
	}
	tenant, err := ingest.TenantOf(r, users)
	if err != nil {
		return client{}, err
	}
	who := client{kind: schemas.Other}
	var name schemas.Name
	caller := ingest.CallerOf(r.Context())
	if caller != nil && caller.User != 0 && tenant == caller.Tenant && !values.Has("user_id") {
		who.device.User, name = caller.User, caller.Name
	} else if who.device.User, name, err = users.User("user_id", tenant, values.Get("user_id")); err != nil {
		return client{}, err
	}
	if who.device.ID, err = users.Device("device_id", name, values.Get("device_id")); err != nil {
		return client{}, err
	}
	who.name = name.Kept() // the texts are parts of the whole query
	if values.Has("device_kind") {
		if who.kind, err = schemas.ParseKind("device_kind", values.Get("device_kind")); err != nil {
			return client{}, err
		}
	}
	if values.Has("idle_ms") {
		ms, err := strconv.ParseInt(values.Get("idle_ms"), 10, 64)
		if err != nil || ms < 0 || ms > int64(schemas.MaxIdle) {
			return client{}, schemas.Invalid("idle_ms",
				"must be a whole number between 0 and "+strconv.FormatInt(int64(schemas.MaxIdle), 10))
		}
		who.idle = time.Duration(ms) * time.Millisecond
	}
	if values.Has("deliveries") {
		if who.deliveries, err = strconv.ParseBool(values.Get("deliveries")); err != nil {
			return client{}, schemas.Invalid("deliveries", "must be true or false")
		}
	}
	return who, nil
}
