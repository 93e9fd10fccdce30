package main

import (
	"time"

	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
)

// authFlags say whose tokens the doors take.
type authFlags struct {
	AuthSecret     string        `help:"Secret that tokens (JWT, HS256) are signed with, at least 32 bytes; better in STILLHERE_AUTH_SECRET or a file." group:"Authentication:" secret:""`
	AuthSecretFile string        `help:"File with the secret." group:"Authentication:" type:"path"`
	AuthJWKS       string        `name:"auth-jwks" help:"URL or file of the public keys that tokens are signed with (JWKS), in place of a secret." group:"Authentication:"`
	AuthIssuer     string        `help:"What the iss of tokens must be." group:"Authentication:"`
	AuthAudience   string        `help:"What the aud of tokens must name." group:"Authentication:"`
	AuthLeeway     time.Duration `help:"How far clocks may differ." default:"10s" group:"Authentication:"`
	LimitRequests  float64       `help:"Requests that one user may make a second; 0: any number. Gateways are not counted." default:"20" group:"Authentication:"`
	LimitConnects  float64       `help:"Connections that one user may open a minute; 0: any number." default:"60" group:"Authentication:"`
}

func (f authFlags) auth() auth.Config {
	return auth.Config{
		Secret: keys.Secret{Value: f.AuthSecret, File: f.AuthSecretFile}, JWKS: f.AuthJWKS, Issuer: f.AuthIssuer, Audience: f.AuthAudience,
		Leeway: f.AuthLeeway, Requests: f.LimitRequests, Connects: f.LimitConnects,
	}
}
