package clienttest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Users are the users of one tenant. With Start they are integers, given in decimal; with StartNamed they have
// names. A text that is neither panics.
type Users struct {
	server *Server
	tenant string
}

// Tenant are the users of a tenant, with StartNamed; "" is the default tenant.
func (s *Server) Tenant(tenant string) Users { return Users{s, tenant} }

// Set makes a user online, away or offline.
func (u Users) Set(user string, state schemas.State) {
	u.server.mu.Lock()
	defer u.server.mu.Unlock()
	id := u.known(user)
	u.server.become(id, state, u.server.current[id].Visibility, schemas.Idle)
}

// SetVisibility hides a user (schemas.Nobody) or shows it again (schemas.Everyone).
func (u Users) SetVisibility(user string, to schemas.Visibility) {
	u.server.mu.Lock()
	defer u.server.mu.Unlock()
	id := u.known(user)
	state := u.server.current[id].State
	if u.server.current[id].Version == 0 {
		state = schemas.Offline
	}
	u.server.become(id, state, to, schemas.VisibilityChange)
}

// Notify writes a delivery of the last change of user to recipients, in any order. It returns when Kafka has
// acknowledged it.
func (u Users) Notify(ctx context.Context, user string, recipients ...string) error {
	s := u.server
	s.mu.Lock()
	id, called := u.known(user), map[schemas.UserID]string{}
	for _, name := range recipients {
		called[u.known(name)] = name
	}
	log := s.log[id]
	s.mu.Unlock()
	if len(log) == 0 {
		return errors.New("notifying: the user has not changed")
	}
	d := schemas.Delivery{Transition: log[len(log)-1], Recipients: slices.Sorted(maps.Keys(called))}
	if s.users.Text() {
		for _, recipient := range d.Recipients {
			d.Names = append(d.Names, called[recipient])
		}
	}
	return s.producer.AppendSync(ctx, schemas.Outgoing{Topic: schemas.Deliveries,
		Partition: schemas.PartitionOf(id, partitions), Key: id.Key(), Value: d.Encode()})
}

// known is the id of a user, whose name it remembers. The caller holds the lock.
func (u Users) known(user string) schemas.UserID {
	id, name, err := u.server.users.User("user", u.tenant, user)
	if err != nil {
		panic("clienttest: " + err.Error())
	}
	u.server.names[id] = name
	return id
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

// called is p as answers show it to those who ask for the user by this name.
func (s *Server) called(user schemas.UserID, name schemas.Name, p schemas.Presence) schemas.NamedPresence {
	return p.Called(s.users.Called(user, name))
}
