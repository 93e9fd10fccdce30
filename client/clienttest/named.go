package clienttest

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// mustHave panics in the mode that a method is not for: what it changed would be of nobody.
func (s *Server) mustHave(names bool) {
	switch {
	case names && !s.users.Text():
		panic("clienttest: the users of this server are integers; start it with StartNamed")
	case !names && s.users.Text():
		panic("clienttest: the users of this server have names; call the method whose name ends with Of")
	}
}

// known is the id of a user with a name, which it remembers. A name that is none panics. The caller holds the lock.
func (s *Server) known(user schemas.Name) schemas.UserID {
	id, _, err := s.users.User("user", user.Tenant, user.Text)
	if err != nil {
		panic("clienttest: " + err.Error())
	}
	s.names[id] = user
	return id
}

// SetOf is Set of a server of StartNamed.
func (s *Server) SetOf(user schemas.Name, state schemas.State) {
	s.mustHave(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.known(user)
	s.become(id, state, s.current[id].Visibility, schemas.Idle)
}

// SetVisibilityOf is SetVisibility of a server of StartNamed.
func (s *Server) SetVisibilityOf(user schemas.Name, to schemas.Visibility) {
	s.mustHave(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show(s.known(user), to)
}

// NotifyOf is Notify of a server of StartNamed. Recipients are of the user's tenant, in any order.
func (s *Server) NotifyOf(ctx context.Context, user schemas.Name, recipients ...string) error {
	s.mustHave(true)
	type recipient struct {
		id   schemas.UserID
		name string
	}
	s.mu.Lock()
	id := s.known(user)
	all := make([]recipient, len(recipients))
	for i, name := range recipients {
		all[i] = recipient{s.known(schemas.Name{Tenant: user.Tenant, Text: name}), name}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b recipient) int { return cmp.Compare(a.id, b.id) })
	ids, names := make([]schemas.UserID, len(all)), make([]string, len(all))
	for i, r := range all {
		ids[i], names[i] = r.id, r.name
	}
	return s.notify(ctx, id, ids, names)
}

// tenantOf is the tenant of the users that a request names.
func tenantOf(r *http.Request) string { return r.URL.Query().Get("tenant") }

// user reads a user whom a request names.
func (s *Server) user(r *http.Request, field, text string) (schemas.UserID, schemas.Name, error) {
	return s.users.User(field, tenantOf(r), text)
}

// userIn is the user in the path of a request.
func (s *Server) userIn(r *http.Request) (schemas.UserID, schemas.Name, error) {
	return s.user(r, "user_id", web.UserOf(r))
}

// called is p as answers show it to those who ask for the user by this name; the zero Name in int mode.
func called(name schemas.Name, p schemas.Presence) any {
	if name.Text == "" {
		return p
	}
	return p.Called(name)
}

// shown is p as messages about a user who has changed show it. The caller holds the lock.
func (s *Server) shown(user schemas.UserID, p schemas.Presence) any { return called(s.names[user], p) }
