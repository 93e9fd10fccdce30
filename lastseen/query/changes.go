package query

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/schemas"
)

// changesPage is the answer to GET /presence/changes.
type changesPage struct {
	Resync bool `json:"resync"`
	// Changes are what was missed; of a resync they are left out.
	Changes []schemas.NamedPresence `json:"changes,omitzero"`
	// Reason and Users are of a resync only.
	Reason string                  `json:"reason,omitempty"`
	Users  []schemas.NamedPresence `json:"users,omitzero"`
	Cursor string                  `json:"cursor"`
	// More says that further changes can be read at once with Cursor.
	More bool `json:"more"`
	// StaleSince is since when changes may be missing.
	StaleSince schemas.Millis `json:"stale_since"`
}

// SetKeys makes the server answer GET /presence/changes, with cursors sealed by keys. Call it before
// Routes.
func (s *Server) SetKeys(keys *cursor.Keys) { s.keys = keys }

// sinceField is the field with the cursor of a reader; it is left out the first time.
const sinceField = "since"

// changes answers GET /presence/changes?user_ids=1,2,3&since=CURSOR with what the reader has missed,
// or with the current states.
func (s *Server) changes(ctx context.Context, request *http.Request, _ http.Header) ([]byte, error) {
	users, err := s.listed(request, sinceField)
	if err != nil {
		return nil, err
	}
	var since *string
	switch texts := users.Values[sinceField]; len(texts) {
	case 0:
	case 1:
		since = &texts[0]
	default:
		return nil, schemas.Invalid(sinceField, "must be given once")
	}
	return s.changesSince(ctx, request, users, since)
}

// postChanges answers POST /presence/changes: the same for lists too long for a URL.
func (s *Server) postChanges(_ context.Context, request *http.Request, _ http.Header) ([]byte, error) {
	p, err := s.posted(request, sinceField)
	if err != nil {
		return nil, err
	}
	// A slow sender has not used up the time for the read.
	ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
	defer cancel()
	return s.changesSince(ctx, request, p.users, p.since)
}

func (s *Server) changesSince(ctx context.Context, request *http.Request, all several, since *string) ([]byte, error) {
	all = all.sort()
	users := all.ids
	var sealed *cursor.Sealed
	if since != nil {
		var err error
		if sealed, err = cursor.Parse(*since); err != nil {
			return nil, schemas.Invalid(sinceField, "must be the cursor of an answer to this request, or left out the first time")
		}
	}
	if err := s.chargeFor(request, len(users)); err != nil {
		return nil, err
	}
	viewer := s.viewerOf(request)
	current, withheld, err := s.asked(ctx, request, viewer, all)
	if err != nil {
		return nil, err
	}
	key, err := s.keys.Key(ctx)
	if err != nil {
		return nil, err
	}
	m := missed{resync: resyncStart}
	if sealed != nil {
		if p, ours := sealed.Open(key, users); !ours {
			m.resync = resyncUnknown
		} else if m, err = s.reader.missed(ctx, viewer, users, current, withheld, p); err != nil {
			return nil, err
		}
	}
	page := changesPage{Resync: m.resync != "", Reason: m.resync, More: m.more, StaleSince: m.stale}
	if page.Resync {
		m = resynced(current, withheld)
		states := make([]schemas.Presence, len(users))
		for i := range users {
			states[i] = s.reader.presence(&current[i], withheld[i])
		}
		page.StaleSince, page.Users = m.stale, all.shown(states)
	} else {
		page.Changes = all.shown(m.changes)
	}
	s.metrics.Changes.WithLabelValues(cmp.Or(page.Reason, "listed")).Inc()
	page.Cursor = key.Seal(users, m.next)
	return mustJSON(page), nil
}

// asked reads users, who are ascending. It does not read those that the sender may not see. Strangers are
// withheld too, and users who deny the viewer.
func (s *Server) asked(ctx context.Context, request *http.Request, v Viewer, all several) (
	current []answer, withheld []bool, err error,
) {
	users := all.ids
	current, withheld, err = s.visible(ctx, request, users, func(visible []schemas.UserID) ([]answer, error) {
		read, err := s.reader.read(ctx, visible)
		s.reader.limit(all.tenant, read)
		if err == nil {
			err = s.reader.withhold(ctx, v, visible, read)
		}
		if err == nil {
			s.reader.addUnsure(ctx, visible, read)
		}
		return read, err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, user := range users {
		current[i].User = user
		withheld[i] = withheld[i] || current[i].denied
	}
	for _, i := range s.reader.strangers(ctx, all.names, current) {
		current[i], withheld[i] = answer{Current: schemas.Current{User: users[i]}}, true
	}
	return current, withheld, nil
}
