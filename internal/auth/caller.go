package auth

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// Scopes are what a token can allow.
const (
	Beat    = "presence:beat"
	Read    = "presence:read"
	Observe = "presence:observe" // the console and the status of the pipeline, and Read
	Admin   = "presence:admin"
)

// Caller is the user or the gateway that a valid token names.
type Caller struct {
	User    schemas.UserID    // 0: not a user
	Name    schemas.Name      // of the user; empty with --ids int
	Gateway schemas.GatewayID // empty: not a gateway
	// Tenant is that of the token's claim; without one it is the default tenant. If the claim is a list of several,
	// they are Tenants, and Tenant is empty; only gateways have them.
	Tenant  string
	Tenants []string
	// AnyTenant: the caller may name any tenant, because its claim is AllTenants. Only gateways, observers and
	// administrators have it. In int mode there are no tenants, and all of these have it.
	AnyTenant bool
	Scopes    []string
	Until     time.Time // when the token expires
}

// May reports whether the token allows what scope says. Admin allows everything, Observe also Read.
func (c *Caller) May(scope string) bool {
	return slices.Contains(c.Scopes, scope) || slices.Contains(c.Scopes, Admin) ||
		scope == Read && slices.Contains(c.Scopes, Observe)
}

// shown is the caller in a message to it.
func (c *Caller) shown() string {
	switch {
	case c.Gateway != "":
		return "gateway " + string(c.Gateway)
	case c.Name.Text != "":
		return c.Name.Text
	}
	return c.User.String()
}

// claims are the claims of a token that are read.
type claims struct {
	jwt.RegisteredClaims
	Gateway string  `json:"gateway_id"`
	Tenant  tenants `json:"tenant"`
	Scope   scopes  `json:"scope"`
	Scp     scopes  `json:"scp"` // some servers' name for it
}

// UnmarshalJSON reads the claims by their exact names. encoding/json would also take Tenant, a claim of
// another meaning, for tenant.
func (c *claims) UnmarshalJSON(text []byte) error {
	if !strictjson.UTF8(text) { // two subjects would become one name
		return errors.New("the claims are not UTF-8")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	read := map[string]json.RawMessage{}
	for _, name := range claimNames {
		if value, ok := given[name]; ok {
			read[name] = value
		}
	}
	exact, err := json.Marshal(read)
	if err != nil {
		return err
	}
	type plain claims
	return json.Unmarshal(exact, (*plain)(c))
}

// claimNames are the names of all fields of claims.
var claimNames = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "gateway_id", "tenant", "scope", "scp"}

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

// tenants are one text or a list; nil: the token does not say.
type tenants []string

func (t *tenants) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*t = tenants{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil || len(list) == 0 {
		return errors.New("tenant must be text or a list of texts")
	}
	*t = slices.Compact(slices.Sorted(slices.Values(list)))
	return nil
}

// errBoth refuses a token for which one part of the pipeline would read the user and another
// the gateway.
var errBoth = errors.New("the token names a user (sub) and a gateway (gateway_id); it must name one")

var errNobody = errors.New("the token names neither a user (sub) nor a gateway (gateway_id)")

// errTenant refuses a token of a tenant in a pipeline without tenants.
var errTenant = errors.New("the token has a tenant (tenant), which pipelines with --ids int do not have")

// errAnyTenant refuses a token of a user who would see every tenant.
var errAnyTenant = errors.New("the token's tenant (tenant) is \"*\", which only gateways (gateway_id), observers " +
	"(presence:observe) and administrators (presence:admin) may have")

// errTenants refuses a token whose user could be one of several.
var errTenants = errors.New("the token of a user (sub) has several tenants (tenant); only gateways (gateway_id) may have them")

func (c *claims) caller(users identity.Users) (*Caller, error) {
	who := &Caller{Gateway: schemas.GatewayID(c.Gateway), Scopes: append(c.Scope, c.Scp...), Until: c.ExpiresAt.Time}
	who.AnyTenant = len(c.Tenant) == 1 && c.Tenant[0] == schemas.AllTenants
	if who.AnyTenant {
		c.Tenant = nil
		switch {
		case !users.Text():
			return nil, errTenant
		case c.Gateway == "" && !who.May(Observe):
			return nil, errAnyTenant
		}
	}
	if !users.Text() {
		who.AnyTenant = c.Gateway != "" || who.May(Observe)
	}
	for _, tenant := range c.Tenant {
		if err := schemas.CheckTenant("tenant", tenant); err != nil {
			return nil, err
		}
		if tenant != "" && !users.Text() {
			return nil, errTenant
		}
	}
	switch len(c.Tenant) {
	case 0:
	case 1:
		who.Tenant = c.Tenant[0]
	default:
		who.Tenants = c.Tenant
	}
	if who.Tenants != nil && c.Gateway == "" {
		return nil, errTenants
	}
	if c.Gateway != "" {
		// Any text can be a name, and issuers put the id of the client into sub. So with --ids text
		// the claim alone decides.
		if _, err := schemas.ParseUserID("sub", c.Subject); err == nil && !users.Text() {
			return nil, errBoth
		}
		return who, nil
	}
	if c.Subject == "" {
		return nil, errNobody
	}
	var err error
	if who.User, who.Name, err = users.User("sub", who.Tenant, c.Subject); err != nil {
		return nil, err
	}
	return who, nil
}
