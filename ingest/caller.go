package ingest

import (
	"context"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/schemas"
)

// Caller is who sends a request, as far as that is known. Authentication, which
// stands before the doors, puts it into the request's context; a request without
// one is from somebody who may do everything, because authentication is off.
type Caller struct {
	// User is who the caller is; 0: not a user.
	User schemas.UserID
	// Gateway is set of gateways and servers, which beat for any user, under this
	// name or none.
	Gateway schemas.GatewayID
	// Any is set of administrators, who may speak for anybody.
	Any bool
	// MayWatch tells whether a socket may watch others.
	MayWatch bool
	// Refused is told of what is refused for who it is from; may be nil.
	Refused func()
	// Charge takes the beats of a user's request from what that user may send. wait is
	// after how long the request may come again; most is not 0 when it never may,
	// because the limit has room for only so many beats at once. nil: no limit.
	Charge func(beats int) (wait time.Duration, most int)
}

// OnlyUser tells that the caller is a user and may speak for nobody else.
func (c *Caller) OnlyUser() bool { return c != nil && !c.Any && c.Gateway == "" }

type callerKey struct{}

// WithCaller is ctx with who sends the request.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is who sends the request; nil where authentication is off.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// MaySpeakFor reports, as a *schemas.FieldError about field, that the caller may
// not change what user's presence is.
func (c *Caller) MaySpeakFor(field string, user schemas.UserID) error {
	if c == nil || c.Any || c.Gateway != "" || c.User == user {
		return nil
	}
	return c.refuse(field, "is not the user of the token, "+c.User.String())
}

// MayBe reports that the caller may not send as gateway; empty stands for none.
func (c *Caller) MayBe(field string, gateway schemas.GatewayID) error {
	if c == nil || c.Any || gateway == "" || c.Gateway == gateway {
		return nil
	}
	if c.Gateway == "" {
		return c.refuse(field, "is for gateways: the token is of a user")
	}
	return c.refuse(field, "is not the gateway of the token, "+strconv.Quote(string(c.Gateway)))
}

// MayHide reports that the caller may not change the visibility of user: that is
// for the user and for administrators, not for gateways.
func (c *Caller) MayHide(field string, user schemas.UserID) error {
	if c == nil || c.Any || c.User == user && c.User != 0 {
		return nil
	}
	return c.refuse(field, "is not the user of the token")
}

func (c *Caller) refuse(field, reason string) error {
	if c.Refused != nil {
		c.Refused()
	}
	return &schemas.FieldError{Code: "forbidden", Field: field, Reason: reason}
}
