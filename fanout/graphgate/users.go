package graphgate

import (
	"net/http"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// users reads the users of one request, all of one tenant: an edge between tenants cannot be named.
type users struct {
	identity.Users
	tenant string
	names  graph.Names // those remembered of the users read
}

// usersOf returns the users whom a request with these parameters may name.
func (s *Server) usersOf(r *http.Request, given map[string]string) (users, error) {
	if asked, ok := given["tenant"]; ok {
		if err := schemas.CheckTenant("tenant", asked); err != nil {
			return users{}, err
		}
	}
	of := users{Users: s.Users, names: graph.Names{}}
	if s.Tenant == nil {
		return of, nil
	}
	var err error
	of.tenant, err = s.Tenant(r)
	return of, err
}

// parse reads a user; field names it in the error.
func (u users) parse(field, text string) (schemas.UserID, error) {
	id, name, err := u.User(field, u.tenant, text)
	if err == nil && name.Text != "" {
		err = u.names.Add(id, name)
	}
	return id, err
}
