package query

import (
	"context"
	"net/http"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/lastseen/redisview"
	"github.com/stillhere/stillhere/schemas"
)

// named are the users of a request in text mode, distinct, in its order.
type named struct {
	ids   []schemas.UserID
	names []schemas.Name
}

// useNames replaces the reads whose requests name several users, and those that text mode does not have
// yet.
func (s *Server) useNames(reads map[string]read) {
	reads["GET /presence/batch"], reads["POST /presence/batch"] = s.namedBatch, s.postNamedBatch
	for _, route := range []string{
		"GET /presence/{user_id}/history", "GET /presence/{user_id}/export", "GET /presence/changes", "POST /presence/changes",
	} {
		reads[route] = notWithNames
	}
}

func notWithNames(context.Context, *http.Request, http.Header) ([]byte, error) {
	return nil, refuse(http.StatusNotImplemented, "not_with_text_ids", "", "pipelines with --ids text do not answer this request yet")
}

// add reads a user; i is the index in its list.
func (n *named) add(s *Server, i int, text string, met map[schemas.UserID]struct{}) error {
	id, name, err := s.users.User(idsField, "", text)
	if err != nil {
		return at(err, i)
	}
	if _, double := met[id]; !double {
		met[id] = struct{}{}
		n.ids, n.names = append(n.ids, id), append(n.names, name)
	}
	return nil
}

// namedBatch is batch in text mode: user_ids is repeated, because a name may have commas.
func (s *Server) namedBatch(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	parameters, err := s.parametersOf(request, idsField)
	if err != nil {
		return nil, err
	}
	texts := parameters[idsField]
	switch {
	case len(texts) == 0:
		return nil, errNoIDs
	case len(texts) > maxIDs:
		return nil, tooManyIDs(maxIDs, len(texts))
	}
	var users named
	met := make(map[schemas.UserID]struct{}, len(texts))
	for i, text := range texts {
		if err := users.add(s, i, text, met); err != nil {
			return nil, err
		}
	}
	answers, err := s.charged(ctx, request, users.ids)
	if err != nil {
		return nil, err
	}
	return s.namedStates(users, answers, header), nil
}

// postNamedBatch is postBatch in text mode.
func (s *Server) postNamedBatch(_ context.Context, request *http.Request, header http.Header) ([]byte, error) {
	if _, err := s.parametersOf(request); err != nil {
		return nil, err
	}
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	users, detail, err := s.decodeNamedBatch(body)
	if err != nil {
		return nil, err
	}
	// A slow sender has not used up the time for the read.
	ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
	defer cancel()
	answers, err := s.charged(ctx, request, users.ids)
	if err != nil {
		return nil, err
	}
	if !detail {
		return s.namedStates(users, answers, header), nil
	}
	s.onlyOf(users.names, answers)
	all := struct {
		Users []namedAnswer `json:"users"`
	}{make([]namedAnswer, len(answers))}
	s.reader.addUnsure(ctx, users.ids, answers)
	rows := s.reader.seenSince(ctx, users.ids, answers)
	for i := range answers {
		all.Users[i] = namedAnswer{users.names[i].Shown(), answers[i].userOf(users.ids[i], &rows[i])}
	}
	setStale(header, answers)
	return mustJSON(all), nil
}

// decodeNamedBatch reads {"user_ids":["ann","bob"],"detail":true}. A number counts as its decimal text.
func (s *Server) decodeNamedBatch(body []byte) (users named, detail bool, err error) {
	r := strictjson.NewReader("body", body)
	fields := map[string]bool{}
	err = r.Document(func(key []byte) (err error) {
		field := string(key)
		if fields[field] {
			return strictjson.Twice(key)
		}
		fields[field] = true
		switch field {
		case idsField:
			users, err = s.decodeNames(r)
		case "detail":
			detail, err = r.Bool(field)
		default:
			err = strictjson.Unknown(key)
		}
		return err
	})
	if err == nil && len(users.ids) == 0 {
		err = errNoIDs
	}
	return users, detail, err
}

func (s *Server) decodeNames(r *strictjson.Reader) (named, error) {
	var users named
	met := map[schemas.UserID]struct{}{}
	count := 0
	err := r.Array(func(int) error {
		text, err := r.Scalar()
		if count++; err != nil || count > maxIDs {
			return err // what is too much is only counted
		}
		id, name, err := s.users.User("", "", string(text))
		if _, double := met[id]; err == nil && !double {
			met[id] = struct{}{}
			users.ids, users.names = append(users.ids, id), append(users.names, name)
		}
		return err
	})
	if err != nil {
		return named{}, r.Within(idsField, err)
	}
	if count > maxIDs {
		return named{}, tooManyIDs(maxIDs, count)
	}
	return users, nil
}

// isOf reports whether an answer is of the user with this name, as far as the stores know.
func isOf(name schemas.Name, a *answer) bool { return a.name == 0 || a.name == redisview.NameSum(name) }

// onlyOf hides users whom the stores know by other names than those asked for: two names have one id,
// and nobody may be shown a stranger. The viewer does not matter. In int mode it does nothing.
func (s *Server) onlyOf(names []schemas.Name, answers []answer) {
	if !s.users.Text() {
		return
	}
	for i := range answers {
		if a := &answers[i]; !isOf(names[i], a) {
			*a = answer{Current: schemas.Current{User: a.User, Visibility: schemas.Nobody}, seen: true, stale: a.stale}
			s.reader.show(Viewer{}, []schemas.UserID{a.User}, answers[i:i+1])
		}
	}
}

// namedAnswer is a userAnswer in text mode: the outer user_id is the one shown.
type namedAnswer struct {
	schemas.NamedUser
	userAnswer
}

// namedJSON is the answer to GET /presence/{user_id} in text mode.
func namedJSON(name schemas.Name, user userAnswer, devices bool, list []deviceAnswer) []byte {
	if !devices {
		return mustJSON(namedAnswer{name.Shown(), user})
	}
	return mustJSON(struct {
		schemas.NamedUser
		userWithDevices
	}{name.Shown(), userWithDevices{user, list}})
}

// namedStates is statesOf by names, which are the keys.
func (s *Server) namedStates(users named, answers []answer, header http.Header) []byte {
	s.onlyOf(users.names, answers)
	const usual = 48 // bytes of one user
	body := append(make([]byte, 0, usual*len(answers)), '{')
	for i := range answers {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(appendQuoted(body, users.names[i].Text), ':')
		body = appendState(body, &answers[i])
	}
	setStale(header, answers)
	return append(body, "}\n"...)
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
