package query

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/schemas"
)

// changesPage is the answer to GET /presence/changes.
type changesPage struct {
	Resync bool `json:"resync"`
	// Changes are what was missed; of a resync they are left out.
	Changes []schemas.Presence `json:"changes,omitzero"`
	// Reason and Users are of a resync only.
	Reason string             `json:"reason,omitempty"`
	Users  []schemas.Presence `json:"users,omitzero"`
	Cursor string             `json:"cursor"`
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
	parameters, err := s.parametersOf(request, idsField, sinceField)
	if err != nil {
		return nil, err
	}
	users, err := parseIDs(parameters[idsField])
	if err != nil {
		return nil, err
	}
	var since *string
	switch texts := parameters[sinceField]; len(texts) {
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
	if _, err := s.parametersOf(request); err != nil {
		return nil, err
	}
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	users, since, err := decodeChanges(body)
	if err != nil {
		return nil, err
	}
	// A slow sender has not used up the time for the read.
	ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
	defer cancel()
	return s.changesSince(ctx, request, users, since)
}

// decodeChanges reads {"user_ids":["1",2],"since":"CURSOR"}. Every error is a *schemas.FieldError.
func decodeChanges(body []byte) (users []schemas.UserID, since *string, err error) {
	r := strictjson.NewReader("body", body)
	met := map[string]bool{}
	err = r.Document(func(key []byte) (err error) {
		field := string(key)
		if met[field] {
			return strictjson.Twice(key)
		}
		met[field] = true
		switch field {
		case idsField:
			users, err = decodeIDs(r)
		case sinceField:
			since = new(string)
			*since, err = r.Text(field)
		default:
			err = strictjson.Unknown(key)
		}
		return err
	})
	if err == nil && len(users) == 0 {
		err = errNoIDs
	}
	return users, since, err
}

func (s *Server) changesSince(ctx context.Context, request *http.Request, users []schemas.UserID, since *string) ([]byte, error) {
	slices.Sort(users)
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
	current, withheld, err := s.asked(ctx, request, users)
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
		} else if m, err = s.reader.missed(ctx, users, current, withheld, p); err != nil {
			return nil, err
		}
	}
	page := changesPage{Resync: m.resync != "", Reason: m.resync, Changes: m.changes, More: m.more, StaleSince: m.stale}
	if page.Resync {
		m = resynced(current, withheld)
		page.StaleSince, page.Users = m.stale, make([]schemas.Presence, len(users))
		for i := range users {
			page.Users[i] = s.reader.presence(&current[i], withheld[i])
		}
	} else if page.Changes == nil {
		page.Changes = []schemas.Presence{}
	}
	s.metrics.Changes.WithLabelValues(cmp.Or(page.Reason, "listed")).Inc()
	page.Cursor = key.Seal(users, m.next)
	return mustJSON(page), nil
}

// asked reads users. It does not read those that the sender may not see.
func (s *Server) asked(ctx context.Context, request *http.Request, users []schemas.UserID) (current []answer, withheld []bool, err error) {
	withheld = make([]bool, len(users))
	visible := users
	if s.access != nil {
		refused, err := s.access.Refused(request.WithContext(ctx), users)
		if err != nil {
			return nil, nil, err
		}
		for _, user := range refused {
			i, _ := slices.BinarySearch(users, user)
			withheld[i] = true
		}
		visible = make([]schemas.UserID, 0, len(users)-len(refused))
		for i, user := range users {
			if !withheld[i] {
				visible = append(visible, user)
			}
		}
	}
	var read []answer
	if len(visible) > 0 {
		if read, err = s.reader.read(ctx, visible); err != nil {
			return nil, nil, err
		}
		s.reader.addUnsure(ctx, visible, read)
	}
	current = make([]answer, len(users))
	for i, user := range users {
		if !withheld[i] {
			current[i], read = read[0], read[1:]
		}
		current[i].User = user
	}
	return current, withheld, nil
}
