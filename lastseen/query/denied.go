package query

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/internal/shown"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// withhold makes users look hidden who deny the viewer, or of whom that is not known: then the answer is stale. It must
// come after the reads that it judges, because lists are never behind what was read before them.
func (r *Reader) withhold(ctx context.Context, v Viewer, ids []schemas.UserID, answers []answer) error {
	if v.User == 0 || v.Admin {
		return nil
	}
	var which []int
	var users []schemas.UserID
	var at []schemas.Version
	for i := range answers {
		if a := &answers[i]; a.Override.Audience != 0 && !a.denied && ids[i] != v.User {
			which, users, at = append(which, i), append(users, ids[i]), append(at, a.Override.Audience)
		}
	}
	if len(which) == 0 {
		return nil
	}
	denying, err := r.Denying(ctx, v.User, users, at)
	if err != nil {
		return err
	}
	for n, d := range denying {
		a := &answers[which[n]]
		if !d.Withholds() {
			continue
		}
		a.denied, a.Current = true, schemas.Current{User: users[n], State: schemas.Offline, Since: d.Since, LastSeen: d.Since,
			LastActive: d.Since, Visibility: schemas.Nobody, Version: d.Hidden, Hidden: d.Hidden, Override: a.Override.Staying()}
		if d.Version == 0 && a.stale == 0 {
			a.stale = cmp.Or(a.upTo, schemas.MillisOf(time.Now()))
			r.metrics.ReadStale.Inc()
		}
	}
	return nil
}

// Denying returns whether users, who are distinct, deny the viewer, in their order. at are the audience versions of what
// the viewer would be shown of them, which was read before. Where neither Redis nor the store has a list as new, the zero
// value withholds the user. An error means that neither answered.
func (r *Reader) Denying(ctx context.Context, viewer schemas.UserID, users []schemas.UserID, at []schemas.Version) ([]shown.Denying, error) {
	within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	denying, lost := r.view.Denying(within, viewer, users, at)
	cancel()
	if lost != nil {
		r.lost(ctx)
		denying = make([]shown.Denying, len(users))
	}
	var which []int
	var rest []schemas.UserID
	for i := range denying {
		if denying[i].Version == 0 {
			which, rest = append(which, i), append(rest, users[i])
		}
	}
	if len(rest) == 0 {
		return denying, nil
	}
	stored, err := r.durable.Denying(ctx, viewer, rest)
	switch {
	case err != nil && lost != nil:
		return nil, err
	case err != nil:
		return denying, nil
	}
	for n, i := range which {
		if d := stored[rest[n]]; d.Version >= at[i] {
			denying[i] = d
		}
	}
	return denying, nil
}

// Denied returns whom a user denies, as of the audience version at or later: from Redis or, where its list is older, from
// the store. The error is shown.ErrBehind if the store's is too; another one means that neither answered.
func (r *Reader) Denied(ctx context.Context, user schemas.UserID, at schemas.Version) (shown.Denied, error) {
	within, cancel := context.WithTimeout(ctx, r.config.RedisTimeout)
	denied, err := r.view.Denied(within, user, at)
	cancel()
	switch {
	case err == nil:
		return denied, nil
	case !errors.Is(err, shown.ErrBehind):
		r.lost(ctx)
	}
	list, version, fault := r.durable.DeniedBy(ctx, user, 0, store.All)
	switch {
	case fault != nil && !errors.Is(err, shown.ErrBehind):
		return shown.Denied{}, fault
	case fault != nil || version < at:
		return shown.Denied{}, shown.ErrBehind
	}
	denied = shown.Denied{Version: version, Viewers: make(map[schemas.UserID]schemas.Millis, len(list))}
	for _, d := range list {
		denied.Viewers[d.Viewer] = d.At
	}
	return denied, nil
}

// denialsAnswer is the answer to GET /presence/{user_id}/audience/deny.
type denialsAnswer struct {
	schemas.NamedUser
	Deny []denialAnswer `json:"deny"`
	Next *string        `json:"next"`
}

type denialAnswer struct {
	schemas.NamedUser
	Since schemas.Millis `json:"since"`
}

// denials answers GET /presence/{user_id}/audience/deny to the user and to administrators, as visibility does.
func (s *Server) denials(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	var answer denialsAnswer
	known, err := s.ofOwn(ctx, request, header, &answer.NamedUser, "after", "limit")
	if err != nil {
		return nil, err
	}
	after, limit := schemas.UserID(0), maxLimit
	if err := parseEach(request.URL.Query(), []parameter{
		{"after", func(text string) (err error) { after, err = schemas.ParseUserID("after", text); return err }},
		{"limit", func(text string) (err error) { limit, err = parseLimit(text); return err }},
	}); err != nil || known == nil {
		return mustJSON(answer), err
	}
	list, audience, err := s.durable.DeniedBy(ctx, known.User, after, limit+1)
	if err != nil {
		return nil, err
	}
	if len(list) > limit {
		list = list[:limit]
		next := list[limit-1].Viewer.String()
		answer.Next = &next
	}
	if audience < known.Override.Audience {
		header.Set(staleHeader, schemas.MillisOf(time.Now()).String())
	}
	answer.Deny, err = s.called(ctx, list)
	return mustJSON(answer), err
}

// called are denials with the names that the store knows of the viewers.
func (s *Server) called(ctx context.Context, list []schemas.Denial) ([]denialAnswer, error) {
	var names map[schemas.UserID]schemas.UserName
	if s.users.Text() {
		viewers := make([]schemas.UserID, len(list))
		for i, d := range list {
			viewers[i] = d.Viewer
		}
		var err error
		if names, err = s.durable.Names(ctx, viewers); err != nil {
			return nil, err
		}
	}
	called := make([]denialAnswer, len(list))
	for i, d := range list {
		called[i] = denialAnswer{s.users.Called(d.Viewer, names[d.Viewer].Name).Shown(), d.At}
	}
	return called, nil
}
