package auth

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/keys"
	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

var people = identity.Named(identity.Key{1})

func named(name schemas.Name, until time.Time) Caller {
	return Caller{User: people.ID(name.Tenant, name.Text), Name: name, Tenant: name.Tenant, Scopes: []string{Read}, Until: until}
}

func TestWhatIsIssuedIsTakenForWhoItIsOf(t *testing.T) {
	config := Defaults()
	config.Secret = keys.Secret{Value: strings.Repeat("s", minSecret)}
	config.Issuer, config.Audience = "https://issuer.example.com", "stillhere"
	now := time.Now()
	until := time.Unix(now.Add(time.Hour).Unix(), 0)
	v := must.Get(newVerifier(t.Context(), config, slog.New(slog.DiscardHandler)))(t)
	for _, who := range []Caller{
		{User: 9223372036854775807, Scopes: []string{Beat, Read}, Until: until},
		{Gateway: "gw-1", Scopes: []string{Beat}, Until: until},
		named(schemas.Name{Text: "ann"}, until),
		named(schemas.Name{Tenant: "acme", Text: "9007199254740993"}, until),
		{Gateway: "gw-1", Tenant: "acme", Scopes: []string{Beat}, Until: until},
		{Gateway: "gw-1", AnyTenant: true, Scopes: []string{Beat}, Until: until},
		{Gateway: "gw-1", Tenants: []string{"", "acme", "other-one"}, Scopes: []string{Beat}, Until: until},
	} {
		token := must.Get(Issue(config, who, now))(t)
		v.users = people
		if who.User != 0 && who.Name.Text == "" {
			v.users = identity.Users{}
		}
		got, err := v.verify(t.Context(), token)
		if err != nil || !reflect.DeepEqual(*got, who) {
			t.Errorf("%v, %v; want %v", got, err, who)
		}
	}
	for name, refused := range map[string]func() (string, error){
		"no secret": func() (string, error) { return Issue(Defaults(), Caller{User: 1, Until: until}, now) },
		"of nobody": func() (string, error) { return Issue(config, Caller{Until: until}, now) },
		"of both":   func() (string, error) { return Issue(config, Caller{User: 1, Gateway: "gw-1", Until: until}, now) },
		"too short": func() (string, error) {
			c := config
			c.Secret.Value = "ab"
			return Issue(c, Caller{User: 1, Until: until}, now)
		},
		"no such file": func() (string, error) {
			c := config
			c.Secret = keys.Secret{File: "/nowhere"}
			return Issue(c, Caller{User: 1, Until: until}, now)
		},
	} {
		if token, err := refused(); err == nil {
			t.Errorf("%s: %s", name, token)
		}
	}
}
