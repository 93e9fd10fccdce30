package main

import (
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/schemas"
)

// signingFlags say how tokens are signed and which claims they have.
type signingFlags struct {
	AuthSecret     string `help:"Secret that signs tokens (JWT, HS256), at least 32 bytes; better set in STILLHERE_AUTH_SECRET or a file." group:"Authentication:" secret:""`
	AuthSecretFile string `help:"File with the secret." group:"Authentication:" type:"path"`
	AuthIssuer     string `help:"Required issuer (iss) of tokens." group:"Authentication:"`
	AuthAudience   string `help:"Required audience (aud) of tokens." group:"Authentication:"`
}

func (f signingFlags) auth() auth.Config {
	c := auth.Defaults()
	c.Secret, c.Issuer, c.Audience = keys.Secret{Value: f.AuthSecret, File: f.AuthSecretFile}, f.AuthIssuer, f.AuthAudience
	return c
}

// authFlags say which tokens the HTTP server accepts.
type authFlags struct {
	signingFlags
	AuthJWKS      string        `name:"auth-jwks" help:"URL or file of the public keys (JWKS) that verify tokens, instead of a secret." group:"Authentication:"`
	AuthLeeway    time.Duration `help:"Tolerated clock difference." default:"10s" group:"Authentication:"`
	LimitRequests float64       `help:"Maximum requests of one user per second; each beat of a request counts. Bursts of five seconds' worth are allowed. 0: no limit. Gateways are not limited." default:"20" group:"Authentication:"`
	LimitConnects float64       `help:"Maximum new connections of one user per minute; 0: no limit." default:"60" group:"Authentication:"`
}

func (f authFlags) auth() auth.Config {
	c := f.signingFlags.auth()
	c.JWKS, c.Leeway, c.Requests, c.Connects = f.AuthJWKS, f.AuthLeeway, f.LimitRequests, f.LimitConnects
	return c
}

// tokenCommand makes a token without an external issuer.
type tokenCommand struct {
	User    string        `help:"The user that the token is for." env:"-" xor:"who" required:""`
	Gateway string        `help:"The gateway that the token is for; it may send beats of any user." env:"-" xor:"who" required:""`
	Scope   []string      `help:"Scopes of the token: ${enum}." enum:"presence:beat,presence:read,presence:admin" default:"presence:beat,presence:read" env:"-"`
	For     time.Duration `help:"Lifetime of the token." default:"1h" env:"-"`
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
