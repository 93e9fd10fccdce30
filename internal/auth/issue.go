package auth

import (
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/schemas"
)

// Issue makes a token of who, signed with the secret of c, that processes with this Config
// accept until who.Until. It is for tests and for servers that have no issuer. A user with a name
// needs no id.
func Issue(c Config, who Caller, now time.Time) (string, error) {
	if !c.Secret.Given() {
		return "", errors.New("auth_secret: is needed to sign a token; with auth_jwks, the issuer makes them")
	}
	if err := c.Validate(); err != nil {
		return "", err
	}
	if isUser := who.User != 0 || who.Name.Text != ""; isUser == (who.Gateway != "") {
		return "", errors.New("a token must name a user or a gateway")
	}
	secret, err := c.Secret.Read()
	if err != nil {
		return "", err
	}
	all := jwt.MapClaims{"iat": now.Unix(), "exp": who.Until.Unix(), "scope": strings.Join(who.Scopes, " ")}
	switch {
	case who.Gateway != "":
		all["gateway_id"] = string(who.Gateway)
	case who.Name.Text != "":
		all["sub"] = who.Name.Text
	default:
		all["sub"] = who.User.String()
	}
	switch {
	case len(who.Tenants) > 0:
		all["tenant"] = who.Tenants
	case who.AnyTenant:
		all["tenant"] = schemas.AllTenants
	case who.Tenant != "":
		all["tenant"] = who.Tenant
	}
	if c.Issuer != "" {
		all["iss"] = c.Issuer
	}
	if c.Audience != "" {
		all["aud"] = c.Audience
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, all).SignedString([]byte(secret))
}
