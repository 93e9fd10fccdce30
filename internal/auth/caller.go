package auth

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/schemas"
)

// Scopes are what a token can allow.
const (
	Beat  = "presence:beat"
	Read  = "presence:read"
	Admin = "presence:admin"
)

// Caller is the user or the gateway that a valid token names.
type Caller struct {
	User    schemas.UserID    // 0: not a user
	Gateway schemas.GatewayID // empty: not a gateway
	Scopes  []string
	Until   time.Time // when the token expires
}

// May reports whether the token allows what scope says. Admin allows everything.
func (c *Caller) May(scope string) bool {
	return slices.Contains(c.Scopes, scope) || slices.Contains(c.Scopes, Admin)
}

// name is the key of the caller's limits.
func (c *Caller) name() string {
	if c.Gateway != "" {
		return "gateway " + string(c.Gateway)
	}
	return c.User.String()
}

// claims are the claims of a token that are read.
type claims struct {
	jwt.RegisteredClaims
	Gateway string `json:"gateway_id"`
	Scope   scopes `json:"scope"`
	Scp     scopes `json:"scp"` // some servers' name for it
}

// scopes are separated by spaces (RFC 8693) or a list.
type scopes []string

func (s *scopes) UnmarshalJSON(text []byte) error {
	var words string
	if err := json.Unmarshal(text, &words); err == nil {
		*s = strings.Fields(words)
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return errors.New("scope must be text or a list of texts")
	}
	*s = list
	return nil
}

// errBoth refuses a token for which one part of the pipeline would read the user and another
// the gateway.
var errBoth = errors.New("the token names a user (sub) and a gateway (gateway_id); it must name one")

var errNobody = errors.New("the token names neither a user (sub) nor a gateway (gateway_id)")

func (c *claims) caller() (*Caller, error) {
	who := &Caller{Gateway: schemas.GatewayID(c.Gateway), Scopes: append(c.Scope, c.Scp...), Until: c.ExpiresAt.Time}
	if c.Gateway != "" {
		if _, err := schemas.ParseUserID("sub", c.Subject); err == nil {
			return nil, errBoth
		}
		return who, nil
	}
	if c.Subject == "" {
		return nil, errNobody
	}
	var err error
	if who.User, err = schemas.ParseUserID("sub", c.Subject); err != nil {
		return nil, err
	}
	return who, nil
}
