package graphgate

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// Bounds of a page of followers.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

func (s *Server) put(ctx context.Context, _ http.ResponseWriter, r *http.Request) ([]byte, error) {
	e, users, err := s.edgeOf(r)
	if err == nil {
		_, _, err = s.change(ctx, users, []graph.Edge{e}, nil)
	}
	return nil, err
}

func (s *Server) delete(ctx context.Context, _ http.ResponseWriter, r *http.Request) ([]byte, error) {
	e, users, err := s.edgeOf(r)
	if err == nil {
		users.names = nil // whoever is not followed any more needs none
		_, _, err = s.change(ctx, users, nil, []graph.Edge{e})
	}
	return nil, err
}

func (s *Server) edgeOf(r *http.Request) (e graph.Edge, of users, err error) {
	given, err := s.parameters(r)
	if err != nil {
		return e, of, err
	}
	if of, err = s.usersOf(r, given); err != nil {
		return e, of, err
	}
	if e.User, err = of.parse("user_id", web.UserOf(r)); err != nil {
		return e, of, err
	}
	if e.Follower, err = of.parse("follower_id", r.PathValue("follower_id")); err != nil {
		return e, of, err
	}
	return e, of, checkEdge(e)
}

// change adds and removes edges of users, unless that is over the quota of their tenant.
func (s *Server) change(ctx context.Context, of users, add, remove []graph.Edge) (added, removed int64, err error) {
	if over := s.Tenants.Of(of.tenant).Change(tenants.Edges, len(add)+len(remove)); over != nil {
		return 0, 0, over
	}
	leave, err := s.enter()
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	return s.Store.Change(ctx, add, remove, of.names)
}

// post changes many edges in one transaction.
func (s *Server) post(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	given, err := s.parameters(r)
	if err != nil {
		return nil, err
	}
	users, err := s.usersOf(r, given)
	if err != nil {
		return nil, err
	}
	body, err := web.ReadBody(w, r, int(s.config.MaxBody), s.config.Timeout, web.Refuse(http.StatusRequestEntityTooLarge, web.TooLarge, "body",
		"must have at most "+strconv.FormatInt(s.config.MaxBody, 10)+" bytes"))
	if err != nil {
		return nil, err
	}
	b, err := decodeBulk(body, s.config.MaxEntries, users)
	if err != nil {
		return nil, err
	}
	switch wait, most := s.Charge(r, b.entries()); {
	case most > 0:
		return nil, web.Refuse(http.StatusBadRequest, "too_many_entries", "add", "must have at most "+strconv.Itoa(most)+
			" elements together with remove: the limit of this token's user allows no more at once")
	case wait > 0:
		return nil, web.RefuseFor(wait, http.StatusTooManyRequests, web.TooMany, "add",
			"has too many elements for now: every entry counts as a request")
	}
	added, removed, err := s.change(ctx, users, b.directed(b.add), b.directed(b.remove))
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Added   int64 `json:"added"`
		Removed int64 `json:"removed"`
	}{added, removed})
}

// list answers with a page of followers, in the order of their ids.
func (s *Server) list(ctx context.Context, _ http.ResponseWriter, r *http.Request) ([]byte, error) {
	given, err := s.parameters(r, "limit", "cursor")
	if err != nil {
		return nil, err
	}
	users, err := s.usersOf(r, given)
	if err != nil {
		return nil, err
	}
	user, err := users.parse("user_id", web.UserOf(r))
	if err != nil {
		return nil, err
	}
	limit, after := defaultLimit, schemas.UserID(0)
	if text, ok := given["limit"]; ok {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxLimit {
			return nil, schemas.Invalid("limit", "must be between 1 and "+strconv.Itoa(maxLimit))
		}
	}
	if text, ok := given["cursor"]; ok {
		// The cursor is the last follower of the page before.
		if after, _, err = users.User("cursor", users.tenant, text); err != nil {
			return nil, schemas.Invalid("cursor", "must be the next_cursor of an answer to this request")
		}
	}
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	page, err := s.Store.Page(ctx, nil, user, after, graph.LastID, limit+1)
	if err != nil {
		return nil, err
	}
	texts, err := s.texts(ctx, users, user, page)
	if err != nil {
		return nil, err
	}
	answer := struct {
		Followers  []string `json:"followers"`
		NextCursor *string  `json:"next_cursor"`
	}{Followers: texts[:min(limit, len(texts))]}
	if len(texts) > limit {
		answer.NextCursor = &texts[limit-1]
	}
	return json.Marshal(answer)
}

// texts returns what requests call the followers of user. A user who is known by another name than
// asked has none.
func (s *Server) texts(ctx context.Context, asked users, user schemas.UserID, followers []schemas.UserID) ([]string, error) {
	texts := make([]string, 0, len(followers))
	var names graph.Names
	if len(asked.names) > 0 {
		var err error
		if names, err = s.Store.Names(ctx, append(followers, user)); err != nil {
			return nil, err
		}
	}
	if name, known := names[user]; known && name != asked.names[user] {
		return texts, nil
	}
	for _, id := range followers {
		// The user may have been erased since the page was read.
		if name := asked.Called(id, names[id]); name.Text != "" {
			texts = append(texts, name.Text)
		}
	}
	return texts, nil
}

// parameters returns the query's parameters, which must be among names or tenant, each given once.
func (s *Server) parameters(r *http.Request, names ...string) (map[string]string, error) {
	given := map[string]string{}
	for name, values := range r.URL.Query() {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		known = known || name == "tenant" && s.Tenant != nil
		switch {
		case !known:
			return nil, &schemas.FieldError{Code: "unknown_parameter", Field: name, Reason: "is not a parameter of this request"}
		case len(values) > 1:
			return nil, schemas.Invalid(name, "must be given once")
		}
		given[name] = values[0]
	}
	return given, nil
}
