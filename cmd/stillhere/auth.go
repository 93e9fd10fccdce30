package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/app"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/identity"
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
	User    string        `arg:"" optional:"" help:"The user that the token is for: an id, with --ids text a name."`
	Gateway string        `help:"In place of a user: the gateway that the token is for; it may send beats of any user." env:"-"`
	Scope   []string      `help:"Scopes of the token: ${enum}." enum:"presence:beat,presence:read,presence:observe,presence:admin" default:"presence:beat,presence:read" env:"-"`
	For     time.Duration `help:"Lifetime of the token." default:"1h" env:"-"`
	Tenant  *string       `help:"With --ids text: the only tenant that the caller may name (claim tenant), or for a gateway several, separated by commas. '*': any, for gateways, observers and administrators. Default: the default tenant." env:"-"`
	IDs     string        `name:"ids" help:"How callers name users: ${enum}, as the servers have it." enum:"int,text" default:"int"`

	Signing app.Signing `embed:"" group:"Authentication:"`
}

// name puts the user and the tenant into who.
func (c *tokenCommand) name(who *auth.Caller) (err error) {
	if c.IDs != string(identity.Text) {
		if c.Tenant != nil {
			return errors.New("--tenant: only pipelines with --ids text have tenants")
		}
		if c.User != "" {
			who.User, err = schemas.ParseUserID("<user>", c.User)
		}
		return err
	}
	if c.Tenant != nil {
		who.AnyTenant = *c.Tenant == schemas.AllTenants
	}
	if c.Tenant != nil && !who.AnyTenant {
		who.Tenants = strings.Split(*c.Tenant, ",")
		for _, tenant := range who.Tenants {
			if err := schemas.CheckTenant("--tenant", tenant); err != nil {
				return err
			}
		}
		if len(who.Tenants) == 1 {
			who.Tenant, who.Tenants = who.Tenants[0], nil
		} else if c.User != "" {
			return errors.New("--tenant: a user has one tenant; only gateways may have several")
		}
	}
	if c.User == "" {
		return nil
	}
	who.Name = schemas.Name{Tenant: who.Tenant, Text: c.User}
	return schemas.CheckName("<user>", c.User)
}

// Help is shown above the flags.
func (*tokenCommand) Help() string {
	return `Examples:

    stillhere token 1 --auth-secret-file secret
    stillhere token ann --ids text --tenant acme --for 24h --auth-secret-file secret
    stillhere token --gateway gw-1 --scope presence:beat --auth-secret-file secret`
}

// Run prints it.
func (c *tokenCommand) Run(parsed *kong.Context) error {
	if (c.User == "") == (c.Gateway == "") {
		return misused(errors.New("<user>, --gateway: one of the two must be given, and not both"))
	}
	who := auth.Caller{Scopes: c.Scope, Until: time.Now().Add(c.For)}
	if err := c.name(&who); err != nil {
		return misused(err)
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
