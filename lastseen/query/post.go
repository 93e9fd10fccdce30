package query

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
)

// maxBody is more than 1,000 ids take, so that a list that is too long is answered by its length.
const maxBody = 256 << 10 // bytes

// postBatch answers POST /presence/batch: the same as batch for lists too long for a URL, or with
// detail the users as GET /presence/{user_id} returns them.
func (s *Server) postBatch(_ context.Context, request *http.Request, header http.Header) ([]byte, error) {
	p, err := s.posted(request, "detail", unsureParameter)
	if err != nil {
		return nil, err
	}
	users := p.users
	// A slow sender has not used up the time for the read.
	ctx, cancel := context.WithTimeout(request.Context(), s.config.ReadTimeout)
	defer cancel()
	if !p.detail {
		return s.states(ctx, request, users, header)
	}
	answers, err := s.charged(ctx, request, users)
	if err != nil {
		return nil, err
	}
	all := struct {
		Users []userAnswer `json:"users"`
	}{make([]userAnswer, len(answers))}
	s.reader.addUnsure(ctx, users.ids, answers)
	rows := s.reader.seenSince(ctx, users.ids, answers)
	for i, id := range users.ids {
		all.Users[i] = answers[i].userOf(id, users.users.Called(id, users.name(i)), &rows[i])
	}
	setStale(header, answers)
	return mustJSON(all), nil
}

// posted is the query and the body of a POST: {"user_ids":["1",2]} with repeated ids dropped, and one more field.
type posted struct {
	users  several
	detail bool    // of a batch
	since  *string // of changes
}

// posted reads them. Every error of the document is a *schemas.FieldError.
func (s *Server) posted(request *http.Request, more string, parameters ...string) (p posted, err error) {
	q, err := s.ask(request, parameters...)
	if err != nil {
		return p, err
	}
	body, err := bodyOf(request)
	if err != nil {
		return p, err
	}
	r := strictjson.NewReader("body", body)
	seen := strictjson.Fields{Known: []string{idsField, more}}
	err = r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		switch field {
		case idsField:
			p.users, err = q.decode(r)
		case sinceField:
			p.since = new(string)
			*p.since, err = r.Text(field)
		default:
			p.detail, err = r.Bool(field)
		}
		return err
	})
	if err == nil && len(p.users.ids) == 0 {
		err = errNoIDs
	}
	return p, err
}

// bodyOf reads a body of JSON.
func bodyOf(request *http.Request) ([]byte, error) {
	header := request.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(header)
	if header != "" && (err != nil || !web.IsJSON(kind)) {
		return nil, web.Refuse(http.StatusUnsupportedMediaType, "unsupported_media_type", "Content-Type", "must be application/json")
	}
	if encoding := request.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, web.Refuse(http.StatusUnsupportedMediaType, "unsupported_encoding", "Content-Encoding", "must not be set")
	}
	return web.ReadBody(nil, request, maxBody, 0,
		web.Refuse(http.StatusRequestEntityTooLarge, web.TooLarge, "body", "must have at most "+strconv.Itoa(maxBody)+" bytes"))
}
