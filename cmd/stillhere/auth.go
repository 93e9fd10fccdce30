package main

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// issuer returns what signs tokens that servers with the same flags accept.
func issuer(s app.Signing) auth.Config {
	c := auth.Defaults()
	c.Secret, c.Issuer, c.Audience = keys.Secret{Value: s.Secret, File: s.SecretFile}, s.Issuer, s.Audience
	return c
}

// tokenCommand makes a token without an external issuer.
type tokenCommand struct {
	User    string        `help:"The user that the token is for." env:"-" xor:"who" required:""`
	Gateway string        `help:"The gateway that the token is for; it may send beats of any user." env:"-" xor:"who" required:""`
	Scope   []string      `help:"Scopes of the token: ${enum}." enum:"presence:beat,presence:read,presence:admin" default:"presence:beat,presence:read" env:"-"`
	For     time.Duration `help:"Lifetime of the token." default:"1h" env:"-"`

	Signing app.Signing `embed:"" group:"Authentication:"`
}

// Run prints it.
func (c *tokenCommand) Run(parsed *kong.Context) error {
	who := auth.Caller{Scopes: c.Scope, Until: time.Now().Add(c.For)}
	if c.User != "" {
		var err error
		if who.User, err = schemas.ParseUserID("--user", c.User); err != nil {
			return misused(err)
		}
	}
	if who.Gateway = schemas.GatewayID(c.Gateway); len(who.Gateway) > schemas.MaxGatewayID {
		return misused(fmt.Errorf("--gateway: must be at most %d bytes, is %d", schemas.MaxGatewayID, len(who.Gateway)))
	}
	if c.For <= 0 {
		return misused(fmt.Errorf("--for: must be positive, is %s", c.For))
	}
	token, err := auth.Issue(issuer(c.Signing), who, time.Now())
	if err != nil {
		return misused(err)
	}
	_, err = fmt.Fprintln(parsed.Stdout, token)
	return err
}
