package main

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// signingFlags say what is in tokens, and what they are signed with.
type signingFlags struct {
	AuthSecret     string `help:"Secret that tokens (JWT, HS256) are signed with, at least 32 bytes; better in STILLHERE_AUTH_SECRET or a file." group:"Authentication:" secret:""`
	AuthSecretFile string `help:"File with the secret." group:"Authentication:" type:"path"`
	AuthIssuer     string `help:"What the iss of tokens must be." group:"Authentication:"`
	AuthAudience   string `help:"What the aud of tokens must name." group:"Authentication:"`
}

func (f signingFlags) auth() auth.Config {
	c := auth.Defaults()
	c.Secret, c.Issuer, c.Audience = keys.Secret{Value: f.AuthSecret, File: f.AuthSecretFile}, f.AuthIssuer, f.AuthAudience
	return c
}

// authFlags say whose tokens the doors take.
type authFlags struct {
	signingFlags
	AuthJWKS      string        `name:"auth-jwks" help:"URL or file of the public keys that tokens are signed with (JWKS), in place of a secret." group:"Authentication:"`
	AuthLeeway    time.Duration `help:"How far clocks may differ." default:"10s" group:"Authentication:"`
	LimitRequests float64       `help:"Requests that one user may make a second, a request with several beats counting as so many; 0: any number. Five seconds of it may come at once. Gateways are not counted." default:"20" group:"Authentication:"`
	LimitConnects float64       `help:"Connections that one user may open a minute; 0: any number." default:"60" group:"Authentication:"`
}

func (f authFlags) auth() auth.Config {
	c := f.signingFlags.auth()
	c.JWKS, c.Leeway, c.Requests, c.Connects = f.AuthJWKS, f.AuthLeeway, f.LimitRequests, f.LimitConnects
	return c
}

// tokenCommand makes a token, for those who have no issuer at hand.
type tokenCommand struct {
	User    string        `help:"The user whose token it is." env:"-" xor:"who" required:""`
	Gateway string        `help:"The gateway whose token it is, which beats for any user." env:"-" xor:"who" required:""`
	Scope   []string      `help:"What it allows: ${enum}." enum:"presence:beat,presence:read,presence:admin" default:"presence:beat,presence:read" env:"-"`
	For     time.Duration `help:"How long it is good." default:"1h" env:"-"`
	signingFlags
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
	token, err := auth.Issue(c.auth(), who, time.Now())
	if err != nil {
		return misused(err)
	}
	_, err = fmt.Fprintln(parsed.Stdout, token)
	return err
}
