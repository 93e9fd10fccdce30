package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/stillhere/stillhere/client"
	"github.com/stillhere/stillhere/client/presence"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// apiFlags say where the API is and how it names users.
type apiFlags struct {
	URL    string  `help:"URL of the service." default:"http://127.0.0.1:8080" group:"Service:"`
	IDs    string  `name:"ids" help:"How callers name users: ${enum}, as the servers have it." enum:"int,text" default:"int" group:"Service:"`
	Tenant *string `help:"With --ids text: the tenant of the users. Default: that of the token, or the default tenant." env:"-" group:"Service:"`

	tokenFlag `group:"Service:"`
}

// text reports whether users have names.
func (f *apiFlags) text() bool { return f.IDs == string(identity.Text) }

// check reports users whom the API cannot have.
func (f *apiFlags) check(texts []string) error {
	if f.Tenant != nil && !f.text() {
		return misused(errTenants)
	}
	var faults []error
	if f.Tenant != nil {
		faults = append(faults, schemas.CheckTenant("--tenant", *f.Tenant))
	}
	for _, text := range texts {
		_, _, err := f.user(fmt.Sprintf("user %q", text), text)
		faults = append(faults, err)
	}
	return misused(errors.Join(faults...))
}

// user reads a user; field names it in errors.
func (f *apiFlags) user(field, text string) (id schemas.UserID, name schemas.Name, err error) {
	if !f.text() {
		if id, err = schemas.ParseUserID(field, text); err != nil {
			err = fmt.Errorf("%w; with --ids text users have names", err)
		}
		return id, name, misused(err)
	}
	name.Text = text
	if f.Tenant != nil {
		name.Tenant = *f.Tenant
	}
	return 0, name, misused(schemas.CheckName(field, text))
}

// client reaches the API; pageSize is that of histories, 0 for any.
func (f *apiFlags) client(pageSize int) (*presence.Client, error) {
	reach := client.HTTP{URL: f.URL}
	switch {
	case f.Token != "" && f.TokenFile != "":
		return nil, misused(errTwoTokens)
	case f.Token != "":
		reach.Token = client.Token(f.Token)
	case f.TokenFile != "":
		reach.Token = client.TokenFile(f.TokenFile)
	}
	c, err := presence.New(presence.Config{HTTP: reach, PageSize: pageSize})
	if err != nil {
		return nil, misused(fmt.Errorf("--url: %q: %s", f.URL, strings.TrimPrefix(err.Error(), "http.url: ")))
	}
	if f.Tenant != nil {
		c = c.Tenant(*f.Tenant)
	}
	return c, nil
}

// errTwoTokens refuses both ways to give a token.
var errTwoTokens = errors.New("--token-file, STILLHERE_TOKEN: only one of the two can be given")

// tokenFlag is the credential for a server with authentication.
type tokenFlag struct {
	Token     string `secret:"" hidden:""`
	TokenFile string `help:"File with the bearer token for a server with authentication, read for each request. Or set STILLHERE_TOKEN." type:"path"`
}

// token is the token, read from its file if there is one.
func (f tokenFlag) token(ctx context.Context) (string, error) {
	switch {
	case f.Token != "" && f.TokenFile != "":
		return "", misused(errTwoTokens)
	case f.TokenFile != "":
		token, err := client.TokenFile(f.TokenFile)(ctx)
		if err != nil {
			err = fmt.Errorf("--token-file: %w", err)
		}
		return token, err
	}
	return f.Token, nil
}

// header is what goes with every request.
func (f tokenFlag) header(ctx context.Context) (http.Header, error) {
	h := http.Header{}
	token, err := f.token(ctx)
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h, err
}

// rank orders origins of settings: 0 nobody gave it, 1 the file, 2 the environment, 3 the command line.
func rank(parsed *kong.Context, file *configFile, name string) int {
	for _, path := range parsed.Path {
		for _, flag := range path.Flags {
			if flag.Name != name {
				continue
			}
			from := origin(parsed, flag, file)
			switch {
			case from == "command line":
				return 3
			case slices.Contains(flag.Envs, from):
				return 2
			case from != byDefault:
				return 1
			}
		}
	}
	return 0
}

// throughAPI reports whether a command that can work through the API or on Kafka and stores does so through the API:
// the one whose address was given nearest to the command, and of two equally near ones the API; with none, Kafka and
// the stores.
func throughAPI(parsed *kong.Context, file *configFile, others ...string) (bool, error) {
	url, other := rank(parsed, file, "url"), 0
	for _, name := range others {
		other = max(other, rank(parsed, file, name))
	}
	if url == 3 && other == 3 {
		return false, misused(errors.New("--url: the API does it, and then no address of Kafka or a store can be given"))
	}
	return url > 0 && url >= other, nil
}
