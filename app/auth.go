package app

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/auth"
	"github.com/stillhere/stillhere/internal/keys"
)

// Auth says which tokens the HTTP server accepts; the zero value has no authentication. The
// tags describe the flags of the command line that set the fields.
type Auth struct {
	Signing
	JWKS   string        `name:"auth-jwks" help:"URL or file of the public keys (JWKS) that verify tokens, instead of a secret."`
	Leeway time.Duration `name:"auth-leeway" help:"Tolerated clock difference." default:"10s"`

	Requests float64 `name:"limit-requests" help:"Maximum requests of one user per second; each beat of a request counts, and every 50 ids of a batch read. Bursts of five seconds' worth are allowed. 0: no limit. Gateways are not limited." default:"20"`
	Connects float64 `name:"limit-connects" help:"Maximum new connections of one user per minute; 0: no limit." default:"60"`
}

// Signing says how tokens are signed and which claims they have.
type Signing struct {
	Secret     string `name:"auth-secret" secret:"" hidden:""`
	SecretFile string `name:"auth-secret-file" help:"File with the secret that signs tokens (JWT, HS256), at least 32 bytes. Or set STILLHERE_AUTH_SECRET." type:"path"`
	Issuer     string `name:"auth-issuer" help:"Required issuer (iss) of tokens."`
	Audience   string `name:"auth-audience" help:"Required audience (aud) of tokens."`
}

// On reports whether authentication is configured.
func (a Auth) On() bool { return a.config().On() }

func (a Auth) config() auth.Config {
	return auth.Config{
		Secret: keys.Secret{Value: a.Secret, File: a.SecretFile}, Issuer: a.Issuer, Audience: a.Audience,
		JWKS: a.JWKS, Leeway: a.Leeway, Requests: a.Requests, Connects: a.Connects,
	}
}

// exampleSecret is in every secret that this repository shows.
const exampleSecret = "change-me"

// validate reports everything that is wrong. Where other machines can reach listen, it also
// refuses the secret of the documentation.
func (a Auth) validate(listen string) error {
	c := a.config()
	if err := c.Validate(); err != nil || !c.Secret.Given() || onLoopback(listen) {
		return err
	}
	if secret, err := c.Secret.Read(); err != nil || !strings.Contains(secret, exampleSecret) {
		return err
	}
	return fmt.Errorf("auth_secret: is the example of the documentation, with which anyone can make tokens, "+
		"and other machines can reach %s; make one, e.g. with: openssl rand -hex 32", listen)
}

// newGuard puts authentication, if it is configured, before the endpoints. The endpoints
// find the caller in the request's context.
func newGuard(ctx context.Context, p base, endpoints *http.ServeMux) (http.Handler, component, error) {
	if !p.config.Auth.On() {
		return endpoints, component{}, nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	config := p.config.Auth.config()
	config.Users = p.cluster.Users
	guard, err := auth.New(ctx, config, p.registry, p.log)
	if err != nil {
		stop()
		return nil, component{}, err
	}
	c := closing("keys for tokens", func() { stop(); guard.Wait() })
	c.checks = []check{{name: "auth", ready: guard.Ready}}
	c.onReload = []func(Config) (func(), error){func(c Config) (func(), error) { return guard.Reload(c.Auth.config()) }}
	tenants := p.cluster.Users.Text() // else nobody is bound to one
	return guard.Protect(endpoints, needOf(endpoints), func(ctx context.Context, who *auth.Caller) context.Context {
		return ingest.WithCaller(ctx, &ingest.Caller{
			User: who.User, Name: who.Name, Gateway: who.Gateway, Tenant: who.Tenant, Tenants: who.Tenants, Bound: tenants && !who.AnyTenant,
			Until: who.Until, Any: who.May(auth.Admin), MayWatch: who.May(auth.Read),
			OnRefused: func() { guard.Refused("not_own") },
			Charge:    func(beats int) (time.Duration, int) { return guard.Charge(who, beats) },
		})
	}), c, nil
}
