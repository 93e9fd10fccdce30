package query

import (
	"context"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Viewer is the sender of a request. The zero Viewer is unknown and sees what others see.
type Viewer struct {
	User  schemas.UserID // 0: not known, or not a user
	Admin bool
	// tenant is that of the users who are asked about.
	tenant string
}

// seesHidden reports whether the viewer sees how the user is while the user hides.
func (v Viewer) seesHidden(user schemas.UserID) bool { return v.Admin || v.User != 0 && v.User == user }

func (s *Server) viewerOf(request *http.Request) Viewer {
	if s.viewer == nil {
		return Viewer{}
	}
	return s.viewer(request)
}

// visibilityAnswer is the answer to GET /presence/{user_id}/visibility.
type visibilityAnswer struct {
	schemas.NamedUser
	Visibility *string `json:"visibility"`
}

// visibility answers GET /presence/{user_id}/visibility to the user and to administrators. To others
// it is null, whoever the user is: nothing is read, so nothing is revealed.
func (s *Server) visibility(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	var answer visibilityAnswer
	known, err := s.ofOwn(ctx, request, header, &answer.NamedUser)
	if err == nil && known != nil {
		answer.Visibility, err = s.base(ctx, known, header)
	}
	return mustJSON(answer), err
}

// base is to whom the user is shown, without an override.
func (s *Server) base(ctx context.Context, known *answer, header http.Header) (*string, error) {
	if known.Override.State == schemas.Invisible {
		if err := s.complete(ctx, known, header); err != nil {
			return nil, err
		}
	}
	visibility := schemas.KnownVisibility(known.Visibility)
	if known.Override.Hides {
		visibility = schemas.Everyone
	}
	word := schemas.VisibilityWord(visibility)
	return &word, nil
}

// audienceAnswer is the answer to GET /presence/{user_id}/audience.
type audienceAnswer struct {
	schemas.NamedUser
	Base     *string `json:"base"`
	LastSeen *string `json:"last_seen"`
}

// audience answers GET /presence/{user_id}/audience to the user and to administrators, as visibility does. Last seen is
// the choice: the policy may let others learn less.
func (s *Server) audience(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	var answer audienceAnswer
	known, err := s.ofOwn(ctx, request, header, &answer.NamedUser)
	if err == nil && known != nil {
		known.Override.Limit(false)
		lastSeen := schemas.LastSeenWord(known.Override.LastSeen)
		answer.LastSeen = &lastSeen
		answer.Base, err = s.base(ctx, known, header)
	}
	return mustJSON(answer), err
}

// ofOwn is what is known of the user of a request, for the user and for administrators; nil for others. It fills in
// called.
func (s *Server) ofOwn(ctx context.Context, request *http.Request, header http.Header, called *schemas.NamedUser, parameters ...string,
) (*answer, error) {
	q, err := s.ask(request, parameters...)
	if err != nil {
		return nil, err
	}
	id, name, err := q.user(request)
	if err != nil {
		return nil, err
	}
	*called = q.users.Called(id, name).Shown()
	if !s.viewerOf(request).seesHidden(id) {
		return nil, nil
	}
	answers, err := s.reader.read(ctx, []schemas.UserID{id})
	if err != nil {
		return nil, err
	}
	known := answers[0]
	known.User = id
	answers[0].Visibility = schemas.Everyone // to the viewer
	if len(s.reader.strangers(ctx, []schemas.Name{name}, answers)) > 0 {
		return nil, nil
	}
	setStale(header, answers)
	return &known, nil
}

// complete reads what Redis does not have of an override.
func (s *Server) complete(ctx context.Context, known *answer, header http.Header) error {
	stored, err := s.durable.Users(ctx, []schemas.UserID{known.User})
	if err != nil {
		return err
	}
	row := stored[known.User]
	if known.Override = row.Override; !store.Has(row, known.Current) {
		header.Set(staleHeader, schemas.MillisOf(time.Now()).String())
	}
	return nil
}
