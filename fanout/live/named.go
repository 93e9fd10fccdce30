package live

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/stillhere/stillhere/fanout"
	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// naming resolves what a viewer calls users.
type naming struct {
	users    identity.Users
	tenant   string
	maxUsers int
}

// naming is that of the streams of a tenant.
func (s *Server) naming(tenant string) naming {
	return naming{users: s.hub.Users, tenant: tenant, maxUsers: s.hub.limits.Load().MaxSubscriptions}
}

// tenantOf is the tenant of a stream's users.
func (s *Server) tenantOf(r *http.Request) (string, error) {
	if s.hub.Tenant == nil {
		return "", nil
	}
	return s.hub.Tenant(r)
}

// asked are users as a request names them, distinct, in its order, with what has to be remembered of their
// names: in int mode nil.
type asked struct {
	ids   []schemas.UserID
	names map[schemas.UserID]*schemas.Name
}

// list reads a list of users, each a string or a number, dropping repeats.
func (n naming) list(list json.RawMessage) (asked, error) {
	var items []json.RawMessage
	if len(list) == 0 || json.Unmarshal(list, &items) != nil {
		return asked{}, schemas.Invalid("user_ids", "must be a list of user ids")
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = textOf(item)
	}
	return n.distinct(texts)
}

// textOf is the text of a string or a number; "", which names nobody, of anything else.
func textOf(item json.RawMessage) (text string) {
	switch c := item[0]; {
	case !strictjson.UTF8(item):
	case c == '"':
		_ = json.Unmarshal(item, &text) // what is not read names nobody
	case c == '-' || c >= '0' && c <= '9':
		text = string(item)
	}
	return text
}

func (n naming) distinct(texts []string) (asked, error) {
	if len(texts) == 0 {
		return asked{}, schemas.Invalid("user_ids", "must name at least one user")
	}
	room := min(len(texts), n.maxUsers)
	all := asked{ids: make([]schemas.UserID, 0, room), names: make(map[schemas.UserID]*schemas.Name, room)}
	for i, text := range texts {
		id, name, err := n.users.User("user_ids["+strconv.Itoa(i)+"]", n.tenant, text)
		if err != nil {
			return asked{}, err
		}
		if _, repeated := all.names[id]; repeated {
			continue
		}
		all.names[id] = name.Kept()
		if all.ids = append(all.ids, id); len(all.ids) > n.maxUsers {
			return asked{}, tooMany(n.maxUsers)
		}
	}
	return all, nil
}

// nameOf is the remembered name of a user whom the viewer watches or asks for.
func (v *viewer) nameOf(user schemas.UserID) *schemas.Name {
	if s := v.subs[user]; s != nil {
		return s.entry.name
	}
	return v.called[user]
}

// namesOf are the remembered names of ids, which the viewer watches or asks for.
func (v *viewer) namesOf(ids []schemas.UserID) []*schemas.Name {
	names := make([]*schemas.Name, len(ids))
	for i, id := range ids {
		names[i] = v.nameOf(id)
	}
	return names
}

// named are those of users of whom the hub has entries, with their remembered names.
func (h *hub) named(users []schemas.UserID) (ids []schemas.UserID, names []*schemas.Name) {
	for _, id := range users {
		sh := h.shardOf(id)
		sh.mu.Lock()
		if e := sh.users[id]; e != nil {
			ids, names = append(ids, id), append(names, e.name)
		}
		sh.mu.Unlock()
	}
	return ids, names
}

// isOf reports whether a change is of the user with a name, as far as it says. Another name means that
// two names have one id.
func isOf(c fanout.Change, name *schemas.Name) bool {
	return name == nil || c.Transition.Name == (schemas.Name{}) || c.Transition.Name == *name
}

// hiding is the hide of a user whose change must not be shown.
func hiding(t *schemas.Transition) fanout.Change {
	return fanout.Change{Transition: &schemas.Transition{User: t.User, From: schemas.Offline, To: schemas.Offline, At: t.At,
		Cause: schemas.VisibilityChange, Visibility: schemas.Nobody, Version: t.Version}}
}

// hidden is how a user looks whom viewers of this node watch by another name.
func (h *hub) hidden(user schemas.UserID, name *schemas.Name) *state {
	p := schemas.PresenceOf(schemas.Current{User: user, Visibility: schemas.Nobody}, 0, 0)
	if h.cfg.HiddenOffline {
		p = schemas.NeverSeen(user, 0)
	}
	p.Name = name
	return newState(p)
}
