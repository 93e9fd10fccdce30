package auth

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/stillhere/stillhere/internal/faults"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
)

// Config says which tokens are valid. Start from Defaults. The zero value has no authentication.
type Config struct {
	// Secret signs tokens with HS256; at least 32 bytes.
	Secret keys.Secret
	// JWKS is the URL or file of the public keys (JSON Web Key Set) that tokens are
	// signed with; in place of Secret.
	JWKS string
	// Issuer and Audience must be the token's iss and aud; empty: not checked.
	Issuer, Audience string
	// Users are those of the pipeline. They say what sub is.
	Users identity.Users
	// Leeway is the tolerated difference of clocks.
	Leeway time.Duration
	// Requests limits the requests of one user per second; each beat of a request counts.
	// Connects limits the new connections of one user per minute. 0: no limit. Bursts of five
	// seconds' worth are allowed. Gateways are not limited.
	Requests, Connects float64
}

// Defaults are the settings without any key.
func Defaults() Config {
	return Config{Leeway: 10 * time.Second, Requests: 20, Connects: 60}
}

// minSecret is the size that RFC 7518, section 3.2, requires for HS256.
const minSecret = 32

func readSecret(s keys.Secret) (string, error) {
	secret, err := s.Read()
	if err == nil && len(secret) < minSecret {
		err = fmt.Errorf("must be at least %d bytes, is %d", minSecret, len(secret))
	}
	return secret, err
}

// On reports whether authentication is configured.
func (c Config) On() bool { return c.Secret.Given() || c.JWKS != "" }

// verification is what decides which tokens are valid.
func (c Config) verification() Config {
	c.Requests, c.Connects = 0, 0
	return c
}

// fetches reports whether keys come from a URL, again and again.
func (c Config) fetches() bool { return strings.Contains(c.JWKS, "://") }

// Validate reports everything that is wrong, joined, each fault naming its
// setting.
func (c Config) Validate() error {
	var all faults.List
	all.If(c.Secret.Given() && c.JWKS != "", "auth_secret, auth_jwks: only one of the two can sign tokens")
	all.If(!c.On() && (c.Issuer != "" || c.Audience != ""), "auth_issuer, auth_audience: need auth_secret or auth_jwks")
	if c.Secret.Given() {
		_, err := readSecret(c.Secret)
		all.In("auth_secret", err)
	}
	if c.fetches() {
		u, err := url.Parse(c.JWKS)
		all.If(err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http",
			"auth_jwks: must be an http(s) URL or a file")
	}
	all.If(c.Leeway < 0 || c.Leeway > 5*time.Minute, "auth_leeway: must be between 0 and 5m, is %s", c.Leeway)
	all.If(c.Requests < 0, "limit_requests: must not be negative, is %g", c.Requests)
	all.If(c.Connects < 0, "limit_connects: must not be negative, is %g", c.Connects)
	return all.Err()
}
