package query

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// maxIDs is the greatest number of users in one batch read.
const maxIDs = 1000

// staleHeader is on batch answers, whose body has no field for it: the earliest stale_since of the
// users.
const staleHeader = "Stale-Since"

// batch answers GET /presence/batch?user_ids=1,2,3 with the states by user, in the order of the
// request.
func (s *Server) batch(ctx context.Context, request *http.Request, header http.Header) ([]byte, error) {
	users, err := s.listed(request, unsureParameter)
	if err != nil {
		return nil, err
	}
	return s.states(ctx, request, users, header)
}

// unsureParameter, mark, has the states that are not certain be "unsure".
const unsureParameter = "unsure"

// states is the answer to a batch without detail.
func (s *Server) states(ctx context.Context, request *http.Request, users several, header http.Header) ([]byte, error) {
	answers, err := s.charged(ctx, request, users)
	if err != nil {
		return nil, err
	}
	if !users.Has(unsureParameter) {
		return users.answer(answers, header, appendState), nil
	}
	s.reader.addUnsure(ctx, users.ids, answers)
	return users.answer(answers, header, func(body []byte, a *answer) []byte {
		if (a.unsure != 0 || a.stale != 0) && !a.hidden() {
			return append(body, `"unsure"`...)
		}
		return appendState(body, a)
	}), nil
}

// charged counts a batch towards the limit of its sender and reads it.
func (s *Server) charged(ctx context.Context, request *http.Request, users several) ([]answer, error) {
	if mark := users.Values[unsureParameter]; len(mark) > 1 || len(mark) == 1 && mark[0] != "mark" {
		return nil, schemas.Invalid(unsureParameter, "must be mark, once, or left out")
	}
	if err := s.chargeFor(request, len(users.ids)); err != nil {
		return nil, err
	}
	answers, err := s.allowed(ctx, request, users)
	if err == nil {
		s.reader.onlyOf(ctx, users.names, answers)
	}
	return answers, err
}

// chargeFor counts ids towards the limit of their sender.
func (s *Server) chargeFor(request *http.Request, ids int) error {
	if s.charge == nil {
		return nil
	}
	wait, most, err := s.charge(request, ids)
	switch {
	case err != nil:
		return err
	case most > 0:
		return tooManyIDs(most, ids)
	case wait > 0:
		return web.RefuseFor(wait, http.StatusTooManyRequests, web.TooMany, idsField,
			"are too many for now: every 50 ids count as a request of their user")
	}
	return nil
}

// answer has what each appends for every user, by user.
func (all several) answer(answers []answer, header http.Header, each func([]byte, *answer) []byte) []byte {
	const usual = 40 // bytes of one user
	body := append(make([]byte, 0, usual*len(answers)), '{')
	for i := range answers {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(all.users.AppendCalled(body, all.ids[i], all.name(i)), ':')
		body = each(body, &answers[i])
	}
	setStale(header, answers)
	return append(body, "}\n"...)
}

// setStale sets the header if any of the answers may be out of date.
func setStale(header http.Header, answers []answer) {
	var stale schemas.Millis
	for i := range answers {
		if since := answers[i].stale; since != 0 && (stale == 0 || since < stale) {
			stale = since
		}
	}
	if stale != 0 {
		header.Set(staleHeader, stale.String())
	}
}

// allowed reads the users that the sender may see. The others look hidden; nothing is read of
// them.
func (s *Server) allowed(ctx context.Context, request *http.Request, users several) ([]answer, error) {
	viewer, ids := s.viewerOf(request), users.ids
	viewer.tenant = users.tenant
	answers, withheld, err := s.visible(ctx, request, ids, func(visible []schemas.UserID) ([]answer, error) {
		return s.reader.readFor(ctx, viewer, visible)
	})
	for i := range answers {
		if withheld[i] {
			answers[i] = answer{Current: schemas.Current{User: ids[i], Visibility: schemas.Nobody}, seen: true}
		}
	}
	return answers, err
}

// visible reads those of ids whom the sender may see, and puts the answers where they are in ids.
func (s *Server) visible(ctx context.Context, request *http.Request, ids []schemas.UserID, read func([]schemas.UserID) ([]answer, error)) (
	answers []answer, withheld []bool, err error,
) {
	withheld = make([]bool, len(ids))
	var refused []schemas.UserID
	if s.access != nil {
		if refused, err = s.access.Refused(request.WithContext(ctx), ids); err != nil {
			return nil, nil, err
		}
	}
	if len(refused) == 0 {
		answers, err = read(ids)
		return answers, withheld, err
	}
	hidden := make(map[schemas.UserID]bool, len(refused))
	for _, id := range refused {
		hidden[id] = true
	}
	visible := make([]schemas.UserID, 0, len(ids))
	for i, id := range ids {
		if withheld[i] = hidden[id]; !withheld[i] {
			visible = append(visible, id)
		}
	}
	var found []answer
	if len(visible) > 0 {
		if found, err = read(visible); err != nil {
			return nil, nil, err
		}
	}
	answers = make([]answer, len(ids))
	for i := range ids {
		if !withheld[i] {
			answers[i], found = found[0], found[1:]
		}
	}
	return answers, withheld, nil
}

// appendState appends the state as PresenceOf and NeverSeen would show it.
func appendState(body []byte, a *answer) []byte {
	switch {
	case !a.seen:
		return appendWord(body, schemas.Offline)
	case a.Visibility == schemas.Nobody:
		return append(body, "null"...)
	default:
		return appendWord(body, a.State)
	}
}

func appendWord(body []byte, state schemas.State) []byte {
	return append(append(append(body, '"'), schemas.StateWord(state)...), '"') // has nothing to escape
}

// idsField is the field with the ids of a batch.
const idsField = "user_ids"

var errNoIDs = schemas.Invalid(idsField, "must name at least one user")

func tooManyIDs(most, count int) error {
	return &schemas.FieldError{Code: "too_many_ids", Field: idsField,
		Reason: "must be at most " + strconv.Itoa(most) + " ids, are " + strconv.Itoa(count)}
}

// at adds the index of a bad id to its error.
func at(err error, i int) error {
	var bad *schemas.FieldError
	if !errors.As(err, &bad) {
		return err
	}
	named := *bad
	named.Field += "[" + strconv.Itoa(i) + "]"
	return &named
}

// user answers GET /presence/{user_id}. A user never seen is offline; 404 would reveal who has
// ever been online.
func (s *Server) user(ctx context.Context, request *http.Request, _ http.Header) ([]byte, error) {
	q, err := s.ask(request, devicesParameter)
	if err != nil {
		return nil, err
	}
	id, name, err := q.user(request)
	if err != nil {
		return nil, err
	}
	if s.access != nil {
		refused, err := s.access.Refused(request.WithContext(ctx), []schemas.UserID{id})
		if err != nil {
			return nil, err
		}
		if len(refused) > 0 {
			return nil, notAllowed("presence")
		}
	}
	devices, err := s.wantsDevices(request, q.Values[devicesParameter], id)
	if err != nil {
		return nil, err
	}
	ids := []schemas.UserID{id}
	viewer := s.viewerOf(request)
	viewer.tenant = q.tenant
	answers, err := s.reader.readFor(ctx, viewer, ids)
	if err != nil {
		return nil, err
	}
	s.reader.onlyOf(ctx, []schemas.Name{name}, answers)
	s.reader.addUnsure(ctx, ids, answers)
	row := &s.reader.seenSince(ctx, ids, answers)[0]
	user := answers[0].userOf(id, q.users.Called(id, name), row)
	if devices {
		return mustJSON(userWithDevices{user, answers[0].devicesOf(row)}), nil
	}
	return mustJSON(user), nil
}

// mustJSON encodes types of this package, which can always be encoded.
func mustJSON(value any) []byte {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return append(body, '\n')
}
