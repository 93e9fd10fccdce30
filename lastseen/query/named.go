package query

import (
	"context"
	"net/http"
	"slices"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// tenantParameter is the parameter with the tenant of the request's users, in text mode.
const tenantParameter = "tenant"

// naming resolves what a request calls users.
type naming struct {
	users  identity.Users
	tenant string
}

func (s *Server) namingOf(request *http.Request) (n naming, err error) {
	n.users = s.users
	if s.users.Text() && s.tenant != nil {
		n.tenant, err = s.tenant(request)
	}
	return n, err
}

// userOf is the user in the path of a request.
func (s *Server) userOf(request *http.Request) (schemas.UserID, schemas.Name, error) {
	n, err := s.namingOf(request)
	if err != nil {
		return 0, schemas.Name{}, err
	}
	return n.users.User("user_id", n.tenant, web.UserOf(request))
}

// several are the users of a request, distinct. They have names in text mode alone.
type several struct {
	ids   []schemas.UserID
	names []schemas.Name
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

// usersOf reads the parameter user_ids. In text mode it is repeated, because a name may have commas.
func (s *Server) usersOf(request *http.Request, texts []string) (all several, err error) {
	if !s.users.Text() {
		all.ids, err = parseIDs(texts)
		return all, err
	}
	n, err := s.namingOf(request)
	switch {
	case err != nil:
		return all, err
	case len(texts) == 0:
		return all, errNoIDs
	case len(texts) > maxIDs:
		return all, tooManyIDs(maxIDs, len(texts))
	}
	met := make(map[schemas.UserID]struct{}, len(texts))
	for i, text := range texts {
		id, name, err := n.users.User(idsField, n.tenant, text)
		if err != nil {
			return several{}, at(err, i)
		}
		all.add(id, name, met)
	}
	return all, nil
}

// decode reads a list of users. A number counts as its decimal text.
func (n naming) decode(r *strictjson.Reader) (all several, err error) {
	met := map[schemas.UserID]struct{}{}
	count := 0
	err = r.Array(func(int) error {
		text, err := r.Scalar()
		if count++; err != nil || count > maxIDs {
			return err // what is too much is only counted
		}
		id, name, err := n.users.User("", n.tenant, string(text))
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
// id. names are nil in int mode. Redis has most names. Where it has none, the durable store is asked; a
// name that is not known there either is no stranger's.
func (r *Reader) strangers(ctx context.Context, names []schemas.Name, answers []answer) (found []int) {
	if names == nil {
		return nil
	}
	var unknown []schemas.UserID
	for i := range answers {
		switch a := &answers[i]; {
		case a.name != 0 && a.name != redisview.NameSum(names[i]):
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
	for i := range answers {
		if n, known := stored[answers[i].User]; known && !slices.Contains(found, i) && n.Name != names[i] {
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
		r.show(Viewer{}, []schemas.UserID{a.User}, answers[i:i+1])
	}
}

// isStranger reports whether the durable store knows a user by another name than the one asked for.
func (s *Server) isStranger(ctx context.Context, user schemas.UserID, name schemas.Name) (bool, error) {
	if !s.users.Text() {
		return false, nil
	}
	stored, err := s.durable.Names(ctx, []schemas.UserID{user})
	n, known := stored[user]
	return known && n.Name != name, err
}

// ReadNamed is Read of users by their names, which are in the order of ids. A user whom the stores know
// by another name looks hidden.
func (r *Reader) ReadNamed(ctx context.Context, ids []schemas.UserID, names []schemas.Name) ([]schemas.Presence, error) {
	answers, err := r.readFor(ctx, Viewer{}, ids)
	if err != nil {
		return nil, err
	}
	r.onlyOf(ctx, names, answers)
	return r.presences(ctx, ids, answers), nil
}

// shown are users as the answer lists them, which are among all; all is sorted.
func (all several) shown(list []schemas.Presence) any {
	if all.names == nil || list == nil {
		return list
	}
	named := make([]schemas.NamedPresence, len(list))
	for i, p := range list {
		at, _ := slices.BinarySearch(all.ids, p.UserID)
		named[i] = p.Called(all.names[at])
	}
	return named
}

// sort orders the users by id.
func (all several) sort() several {
	if all.names == nil {
		slices.Sort(all.ids)
		return all
	}
	called := make(map[schemas.UserID]schemas.Name, len(all.ids))
	for i, id := range all.ids {
		called[id] = all.names[i]
	}
	slices.Sort(all.ids)
	for i, id := range all.ids {
		all.names[i] = called[id]
	}
	return all
}

// namedAnswer is a userAnswer in text mode: the outer user_id is the one shown.
type namedAnswer struct {
	schemas.NamedUser
	userAnswer
}

// answerOf is the answer to GET /presence/{user_id}.
func answerOf(name schemas.Name, user userAnswer, devices bool, list []deviceAnswer) []byte {
	switch named := name.Text != ""; {
	case named && devices:
		return mustJSON(struct {
			schemas.NamedUser
			userWithDevices
		}{name.Shown(), userWithDevices{user, list}})
	case named:
		return mustJSON(namedAnswer{name.Shown(), user})
	case devices:
		return mustJSON(userWithDevices{user, list})
	}
	return mustJSON(user)
}

// appendQuoted appends a JSON string.
func appendQuoted(body []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted := mustJSON(text)
			return append(body, quoted[:len(quoted)-1]...)
		}
	}
	return append(append(append(body, '"'), text...), '"')
}
