package query

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxInstant is the last instant of RFC 3339: 9999-12-31.
	maxInstant schemas.Millis = 253402300799999
)

// change is one entry of a history. Unknown values are null.
type change struct {
	EventID      string             `json:"event_id"`
	From         string             `json:"from"`
	To           string             `json:"to"`
	At           schemas.Millis     `json:"at"`
	LastSeenAt   schemas.Millis     `json:"last_seen_at"`
	LastActiveAt schemas.Millis     `json:"last_active_at"`
	Cause        string             `json:"cause"`
	DeviceID     *int64             `json:"device_id"`
	Devices      []string           `json:"devices"`
	Kinds        schemas.KindStates `json:"kinds"`
	Version      string             `json:"version"`
	PolicyID     string             `json:"policy_id"`
	// LeftOut counts the changes since the one before that were not published.
	LeftOut uint32 `json:"left_out"`
}

// Change is one entry of a history.
type Change = change

// ChangeOf is how a history shows a transition.
func ChangeOf(t *schemas.Transition) Change { return changeOf(t) }

type historyPage struct {
	Changes    []change `json:"changes"`
	NextCursor *string  `json:"next_cursor"`
}

// history answers GET /presence/{user_id}/history. The history of a hidden user is empty, as of one never seen, and so
// is, for others, that of a user who does not show last seen exactly or denies the viewer.
func (s *Server) history(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	query, name, empty, err := s.parseHistory(request)
	if err != nil {
		return nil, err
	}
	if s.access != nil {
		may, err := s.access.MayReadHistory(request.WithContext(ctx), query.User)
		if err != nil {
			return nil, err
		}
		if !may {
			return nil, notAllowed("history")
		}
	}
	if !empty {
		if empty, err = s.isStranger(ctx, query.User, name); err != nil {
			return nil, err
		}
	}
	var page store.Page
	viewer := s.viewerOf(request)
	viewer.tenant = name.Tenant
	switch {
	case empty:
	case viewer.seesHidden(query.User):
		page, err = s.durable.History(ctx, query)
	default:
		page, err = s.historyFor(ctx, viewer, query, header)
	}
	if err != nil {
		return nil, err
	}
	body := historyPage{Changes: make([]change, len(page.Changes))}
	for i, t := range page.Changes {
		body.Changes[i] = changeOf(t)
	}
	if page.Next != (store.Cursor{}) {
		cursor := cursorOf(page.Next)
		body.NextCursor = &cursor
	}
	return mustJSON(body), nil
}

// historyFor is a page for a viewer who is neither the user nor an administrator: without the changes of the list of
// denied viewers. What it may show is read after it.
func (s *Server) historyFor(ctx context.Context, v Viewer, query store.HistoryQuery, header http.Header) (page store.Page, err error) {
	limit := query.Limit
	query.Limit++
	var newest schemas.Version // audience version
	for more := true; more; query.Limit = maxLimit {
		part, err := s.durable.History(ctx, query)
		if err != nil {
			return store.Page{}, err
		}
		for _, t := range part.Changes {
			newest = max(newest, t.Override.Audience)
			if n := len(page.Changes) - 1; t.Cause != schemas.AudienceSet {
				page.Changes = append(page.Changes, t)
			} else if n >= 0 && page.Changes[n].Cause != schemas.VisibilityChange { // see store.RedactHidden
				page.Changes[n].LeftOut += t.LeftOut
			}
		}
		query.After, more = part.Next, part.Next != store.Cursor{} && len(page.Changes) <= limit
	}
	if len(page.Changes) > limit {
		page.Changes = page.Changes[:limit]
		last := page.Changes[limit-1]
		page.Next = store.Cursor{At: last.At, Version: last.Version}
	}
	ids := []schemas.UserID{query.User}
	known, err := s.reader.read(ctx, ids)
	if err == nil {
		s.reader.limit(v.tenant, known)
		known[0].Override.Audience = max(known[0].Override.Audience, newest)
		err = s.reader.withhold(ctx, v, ids, known)
	}
	switch {
	case err != nil:
		return store.Page{}, err
	case known[0].denied && known[0].Hidden == 0: // the list is not known
		setStale(header, known)
	}
	if known[0].denied || known[0].Override.LastSeen != 0 {
		return store.Page{}, nil
	}
	return page, nil
}

func changeOf(t *schemas.Transition) change {
	c := change{
		EventID: t.EventID().String(), From: schemas.StateWord(t.From), To: schemas.StateWord(t.To), At: t.At,
		LastSeenAt: t.LastSeen, LastActiveAt: t.LastActive, Cause: schemas.CauseWord(t.Cause), Devices: t.Kinds.Words(),
		Kinds: t.Kinds.States(), Version: t.Version.String(), PolicyID: t.Policy, LeftOut: t.LeftOut,
	}
	if t.Device != 0 {
		device := int64(t.Device)
		c.DeviceID = &device
	}
	return c
}

// parseHistory reads the request. empty: no instant is between from and to.
func (s *Server) parseHistory(request *http.Request) (query store.HistoryQuery, name schemas.Name, empty bool, err error) {
	query.Limit = defaultLimit
	q, err := s.ask(request, "from", "to", "limit", "cursor")
	if err != nil {
		return query, name, false, err
	}
	if query.User, name, err = q.user(request); err != nil {
		return query, name, false, err
	}
	err = parseEach(q.Values, []parameter{
		{"from", func(text string) (err error) { query.From, err = parseInstant("from", text); return err }},
		{"to", func(text string) (err error) { query.To, err = parseInstant("to", text); return err }},
		{"limit", func(text string) (err error) { query.Limit, err = parseLimit(text); return err }},
		{"cursor", func(text string) (err error) { query.After, err = parseCursor(text); return err }},
	})
	return query, name, len(q.Values["to"]) > 0 && query.To <= query.From, err
}

// parameter is one that may be given once.
type parameter struct {
	name  string
	parse func(text string) error
}

// parseEach parses those that are given.
func parseEach(given url.Values, parameters []parameter) error {
	for _, p := range parameters {
		switch values := given[p.name]; len(values) {
		case 0:
		case 1:
			if err := p.parse(values[0]); err != nil {
				return err
			}
		default:
			return schemas.Invalid(p.name, "must be given once")
		}
	}
	return nil
}

// parseInstant reads RFC 3339 or Unix milliseconds, rounded down to milliseconds. Nothing happened
// before 1970: an earlier instant is 0.
func parseInstant(field, text string) (schemas.Millis, error) {
	instant, err := strconv.ParseInt(text, 10, 64)
	bad := err == nil && (instant < 0 || schemas.Millis(instant) > maxInstant)
	if err != nil {
		// A plus sign that was not escaped arrives as a space.
		t, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
		bad = err != nil
		instant = t.UnixMilli()
	}
	if bad {
		return 0, schemas.Invalid(field, "must be RFC 3339, as 2026-11-20T10:00:00Z, or Unix milliseconds between 1970 and 9999")
	}
	return min(max(0, schemas.Millis(instant)), maxInstant), nil
}

func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, schemas.Invalid("limit", "must be between 1 and "+strconv.Itoa(maxLimit))
	}
	return limit, nil
}

// cursorPattern is that of openapi.yaml.
var cursorPattern = regexp.MustCompile(`^[1-9][0-9]{0,14}\.[1-9][0-9]{0,18}$`)

// A cursor is "<at>.<version>", which a pattern in openapi.yaml describes. Clients must not
// interpret it.
func cursorOf(p store.Cursor) string {
	return strconv.FormatInt(int64(p.At), 10) + "." + p.Version.String()
}

func parseCursor(text string) (store.Cursor, error) {
	if !cursorPattern.MatchString(text) {
		return store.Cursor{}, schemas.Invalid("cursor", "must be the next_cursor of an answer to this request")
	}
	at, version, _ := strings.Cut(text, ".")
	// Numbers that no answer has are read as the greatest possible.
	instant, _ := strconv.ParseInt(at, 10, 64)
	number, _ := strconv.ParseInt(version, 10, 64)
	return store.Cursor{At: min(schemas.Millis(instant), maxInstant), Version: schemas.Version(number)}, nil
}
