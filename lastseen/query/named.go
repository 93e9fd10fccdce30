package query

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// tenantParameter is the parameter with the tenant of the request's users.
const tenantParameter = "tenant"

// question is what a request asks: its parameters, and how to read what it calls users.
type question struct {
	url.Values
	users  identity.Users
	tenant string
}

// ask reads the query. Unknown parameters are an error, so that a misspelt limit is not ignored.
func (s *Server) ask(request *http.Request, allowed ...string) (q question, err error) {
	q.Values, q.users = request.URL.Query(), s.users
	if strings.Contains(request.URL.RawQuery, ";") {
		return q, schemas.Invalid("query", "must separate parameters by &")
	}
	for name := range q.Values {
		known := s.viewer != nil && name == callerParam || s.tenant != nil && name == tenantParameter
		if !known && !slices.Contains(allowed, name) {
			reason := "is not a parameter of this request"
			if len(allowed) > 0 {
				reason += ", which takes " + strings.Join(allowed, ", ")
			}
			return q, &schemas.FieldError{Code: "unknown_parameter", Field: name, Reason: reason}
		}
	}
	if s.tenant != nil {
		q.tenant, err = s.tenant(request, q.Values[tenantParameter])
	}
	return q, err
}

// user is the user in the path of a request.
func (q question) user(request *http.Request) (schemas.UserID, schemas.Name, error) {
	return q.users.User("user_id", q.tenant, web.UserOf(request))
}

// several are the users of a request, distinct.
type several struct {
	question
	ids   []schemas.UserID
	names []schemas.Name // of ids; empty if there are none to remember
}

// name is the remembered name of the user at i.
func (all several) name(i int) (name schemas.Name) {
	if i < len(all.names) {
		name = all.names[i]
	}
	return name
}

// add adds a user unless met has it.
func (all *several) add(id schemas.UserID, name schemas.Name, met map[schemas.UserID]struct{}) {
	if _, double := met[id]; double {
		return
	}
	met[id] = struct{}{}
	if all.ids = append(all.ids, id); name.Text != "" {
		all.names = append(all.names, name)
	}
}

// listed reads the parameter user_ids of a request that may have another one.
func (s *Server) listed(request *http.Request, other string) (all several, err error) {
	q, err := s.ask(request, idsField, other)
	if err == nil {
		all, err = q.list()
	}
	return all, err
}

// list reads the parameter user_ids.
func (q question) list() (several, error) {
	all := several{question: q}
	texts := q.users.List(q.Values[idsField])
	switch {
	case len(texts) == 0:
		return all, errNoIDs
	case len(texts) > maxIDs:
		return all, tooManyIDs(maxIDs, len(texts))
	}
	all.ids = make([]schemas.UserID, 0, len(texts))
	met := make(map[schemas.UserID]struct{}, len(texts))
	for i, text := range texts {
		id, name, err := q.users.User(idsField, q.tenant, text)
		if err != nil {
			return all, at(err, i)
		}
		all.add(id, name, met)
	}
	return all, nil
}

// decode reads a list of users. A number counts as its decimal text.
func (q question) decode(r *strictjson.Reader) (all several, err error) {
	all.question = q
	met := map[schemas.UserID]struct{}{}
	count := 0
	err = r.Array(func(int) error {
		text, err := r.Scalar()
		if count++; err != nil || count > maxIDs {
			return err // what is too much is only counted
		}
		id, name, err := q.users.User("", q.tenant, string(text))
		if err == nil {
			all.add(id, name, met)
		}
		return err
	})
	if err != nil {
		return several{}, r.Within(idsField, err)
	}
	if count > maxIDs {
		return several{}, tooManyIDs(maxIDs, count)
	}
	return all, nil
}

// strangers are the indexes of answers that are of other users than those asked for: two names have one
// id. names are those remembered of the users; empty: none is. Redis has most names. Where it has none, the
// durable store is asked; a name that is not known there either is no stranger's.
func (r *Reader) strangers(ctx context.Context, names []schemas.Name, answers []answer) (found []int) {
	var unknown []schemas.UserID
	for i, name := range names {
		switch a := &answers[i]; {
		case name == schemas.Name{}:
		case a.name != 0 && a.name != redisview.NameSum(name):
			found = append(found, i)
		case a.seen && a.Visibility != schemas.Nobody && a.name == 0:
			unknown = append(unknown, a.User)
		}
	}
	if len(unknown) == 0 {
		return found
	}
	stored, err := r.durable.Names(ctx, unknown)
	if err != nil {
		return found // a name that cannot be read is not known
	}
	for i, name := range names {
		if n, known := stored[answers[i].User]; known && !slices.Contains(found, i) && n.Name != name {
			found = append(found, i)
		}
	}
	return found
}

// onlyOf makes users look hidden who are strangers, to every viewer.
func (r *Reader) onlyOf(ctx context.Context, names []schemas.Name, answers []answer) {
	for _, i := range r.strangers(ctx, names, answers) {
		a := &answers[i]
		*a = answer{Current: schemas.Current{User: a.User, Visibility: schemas.Nobody}, seen: true, stale: a.stale}
		r.show(Viewer{tenant: names[i].Tenant}, []schemas.UserID{a.User}, answers[i:i+1])
	}
}

// isStranger reports whether the durable store knows a user by another name than the one asked for.
func (s *Server) isStranger(ctx context.Context, user schemas.UserID, name schemas.Name) (bool, error) {
	if name == (schemas.Name{}) {
		return false, nil
	}
	stored, err := s.durable.Names(ctx, []schemas.UserID{user})
	n, known := stored[user]
	return known && n.Name != name, err
}

// shown are users as the answer lists them, which are among all; all is sorted.
func (all several) shown(list []schemas.Presence) []schemas.NamedPresence {
	named := make([]schemas.NamedPresence, len(list))
	for i, p := range list {
		at, _ := slices.BinarySearch(all.ids, p.UserID)
		named[i] = p.Called(all.users.Called(p.UserID, all.name(at)))
	}
	return named
}

// sort orders the users by id.
func (all several) sort() several {
	called := make(map[schemas.UserID]schemas.Name, len(all.names))
	for i, name := range all.names {
		called[all.ids[i]] = name
	}
	slices.Sort(all.ids)
	for i := range all.names {
		all.names[i] = called[all.ids[i]]
	}
	return all
}
