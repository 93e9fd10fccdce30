package ingest

import (
	"context"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Caller is the sender of a request. Authentication, which runs before the handlers, puts it into
// the request's context; without authentication there is none, and everything is allowed.
type Caller struct {
	// User is the caller's user; 0 if it is not a user.
	User schemas.UserID
	// Name is what the user is called, with --ids text.
	Name schemas.Name
	// Tenant is the only one that the caller may name, if it is Bound; with Tenants it has to name one of
	// these.
	Tenant  string
	Tenants []string
	Bound   bool
	// Gateway is set for gateways and servers, which send beats of any user, under this name or
	// none.
	Gateway schemas.GatewayID
	// Any is set for administrators, who may act for everybody.
	Any      bool
	MayWatch bool
	// Until is when the caller's token expires.
	Until time.Time
	// OnRefused, unless nil, is called when a request is refused because of its sender.
	OnRefused func()
	// Charge takes the beats of a request from the user's limit. wait is the time until the request
	// may be repeated; most is not 0 if it never may, because the limit allows only so many beats
	// at once. nil: no limit.
	Charge func(beats int) (wait time.Duration, most int)
}

// IsPlainUser reports whether the caller may act only for its own user.
func (c *Caller) IsPlainUser() bool { return c != nil && !c.Any && c.Gateway == "" }

type callerKey struct{}

func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the sender of a request; nil without authentication.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// CheckUser returns a *schemas.FieldError about field if the caller may not change user's
// presence.
func (c *Caller) CheckUser(field string, user schemas.UserID) error {
	if c == nil || c.Any || c.Gateway != "" || c.User == user {
		return nil
	}
	shown := c.User.String()
	if c.Name.Text != "" {
		shown = strconv.Quote(c.Name.Text)
	}
	return c.refuse("forbidden", field, "is not the user of the token, "+shown)
}

// CheckSocketOf fails if the caller may not open a socket of a device of user: only the user and administrators may.
// A socket's beats are of the ingest process, so a gateway's byes would end devices of other sockets.
func (c *Caller) CheckSocketOf(field string, user schemas.UserID) error {
	if c != nil && !c.Any && c.Gateway != "" {
		return c.refuse("forbidden", "", "a gateway's token opens no sockets of devices; send their beats to /presence/heartbeats")
	}
	return c.CheckUser(field, user)
}

// CheckGateway fails if the caller may not send as gateway; empty is no gateway.
func (c *Caller) CheckGateway(field string, gateway schemas.GatewayID) error {
	if c == nil || c.Any || gateway == "" || c.Gateway == gateway {
		return nil
	}
	if c.Gateway == "" {
		return c.refuse("forbidden", field, "is for gateways: the token is of a user")
	}
	return c.refuse("forbidden", field, "is not the gateway of the token, "+strconv.Quote(string(c.Gateway)))
}

// CheckVisibilityOf fails if the caller may not change what user shows to whom, or erase it: only the user and
// administrators may, not gateways.
func (c *Caller) CheckVisibilityOf(field string, user schemas.UserID) error {
	if c == nil || c.Any || c.User == user && c.User != 0 {
		return nil
	}
	return c.refuse("forbidden", field, "is not the user of the token")
}

func (c *Caller) refuse(code, field, reason string) error {
	if c.OnRefused != nil {
		c.OnRefused()
	}
	return &schemas.FieldError{Code: code, Field: field, Reason: reason}
}
