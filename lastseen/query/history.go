package query

import (
	"context"
	"encoding/base64"
	"net/http"
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
	EventID      string         `json:"event_id"`
	From         string         `json:"from"`
	To           string         `json:"to"`
	At           schemas.Millis `json:"at"`
	LastSeenAt   schemas.Millis `json:"last_seen_at"`
	LastActiveAt schemas.Millis `json:"last_active_at"`
	Cause        string         `json:"cause"`
	DeviceID     *int64         `json:"device_id"`
	Devices      []string       `json:"devices"`
	Version      string         `json:"version"`
	PolicyID     string         `json:"policy_id"`
	// LeftOut counts the changes since the one before that were not published.
	LeftOut uint32 `json:"left_out"`
}

type historyPage struct {
	Changes    []change `json:"changes"`
	NextCursor *string  `json:"next_cursor"`
}

// history answers GET /presence/{user_id}/history. The history of a hidden user is empty, as of
// one never seen.
func (s *Server) history(ctx context.Context, request *http.Request, _ http.Header) ([]byte, error) {
	query, err := s.parseHistory(request)
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
	page, err := s.durable.History(ctx, query)
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

func changeOf(t *schemas.Transition) change {
	c := change{
		EventID: t.EventID().String(), From: schemas.StateWord(t.From), To: schemas.StateWord(t.To), At: t.At,
		LastSeenAt: t.LastSeen, LastActiveAt: t.LastActive, Cause: schemas.CauseWord(t.Cause), Devices: t.Kinds.Words(),
		Version: t.Version.String(), PolicyID: t.Policy, LeftOut: t.LeftOut,
	}
	if t.Device != 0 {
		device := int64(t.Device)
		c.DeviceID = &device
	}
	return c
}

func (s *Server) parseHistory(request *http.Request) (store.HistoryQuery, error) {
	query := store.HistoryQuery{Limit: defaultLimit}
	var err error
	if query.User, err = schemas.ParseUserID("user_id", request.PathValue("user_id")); err != nil {
		return query, err
	}
	parameters, err := s.parametersOf(request, "from", "to", "limit", "cursor")
	if err != nil {
		return query, err
	}
	for _, p := range []struct {
		name  string
		parse func(text string) error
	}{
		{"from", func(text string) (err error) { query.From, err = parseInstant("from", text); return err }},
		{"to", func(text string) (err error) { query.To, err = parseInstant("to", text); return err }},
		{"limit", func(text string) (err error) { query.Limit, err = parseLimit(text); return err }},
		{"cursor", func(text string) (err error) { query.After, err = parseCursor(text); return err }},
	} {
		values := parameters[p.name]
		if len(values) > 1 {
			return query, schemas.Invalid(p.name, "must be given once")
		}
		if len(values) == 0 {
			continue
		}
		if err := p.parse(values[0]); err != nil {
			return query, err
		}
	}
	if query.To != 0 && query.To <= query.From {
		return query, schemas.Invalid("to", "must be after from")
	}
	return query, nil
}

// parseInstant reads RFC 3339 or Unix milliseconds, rounded down to milliseconds.
func parseInstant(field, text string) (schemas.Millis, error) {
	bad := schemas.Invalid(field, "must be RFC 3339, as 2026-11-20T10:00:00Z, or Unix milliseconds, and between 1970 and 9999")
	instant, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		// A plus sign that was not escaped arrives as a space.
		t, err := time.Parse(time.RFC3339, strings.ReplaceAll(text, " ", "+"))
		if err != nil {
			return 0, bad
		}
		instant = t.UnixMilli()
	}
	// Zero is the beginning of time, as from; and as to, a page without anything.
	if instant < 0 || schemas.Millis(instant) > maxInstant || (instant == 0 && field == "to") {
		return 0, bad
	}
	return schemas.Millis(instant), nil
}

func parseLimit(text string) (int, error) {
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, schemas.Invalid("limit", "must be between 1 and "+strconv.Itoa(maxLimit))
	}
	return limit, nil
}

// A cursor is base64 of "<at>.<version>". Clients must not interpret it.
func cursorOf(p store.Cursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(int64(p.At), 10) + "." + p.Version.String()))
}

func parseCursor(text string) (store.Cursor, error) {
	bad := schemas.Invalid("cursor", "must be the next_cursor of an answer to this request")
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return store.Cursor{}, bad
	}
	at, version, _ := strings.Cut(string(decoded), ".")
	instant, atErr := strconv.ParseInt(at, 10, 64)
	number, versionErr := strconv.ParseInt(version, 10, 64)
	if atErr != nil || versionErr != nil || instant < 1 || schemas.Millis(instant) > maxInstant || number < 1 {
		return store.Cursor{}, bad
	}
	return store.Cursor{At: schemas.Millis(instant), Version: schemas.Version(number)}, nil
}
