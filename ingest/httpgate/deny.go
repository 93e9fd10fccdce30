package httpgate

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// maxDenyBody holds more than schemas.MaxDenies names, so that a list that is too long is answered by its length.
const maxDenyBody = 256 << 10 // bytes

// denied are viewers as callers call them: the answer to POST /presence/{user_id}/audience/deny, without repetitions.
type denied struct {
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// postDeny adds and removes viewers to whom the user looks hidden. The detector has the list and its bound,
// schemas.MaxDenied: it drops a change that would exceed it, which the answer cannot know.
func (g *Gate) postDeny(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.change(w, r, maxDenyBody, func(body []byte, c *userChange) error {
		d, called, err := g.decodeDenies(body, c)
		if err != nil {
			return err
		}
		c.frames = [][]byte{schemas.AppendDenies(nil, c.user, d, c.name)}
		c.answer = struct {
			schemas.NamedUser
			denied
		}{g.cfg.Users.Called(c.user, c.name).Shown(), called}
		return nil
	})
}

// codeConflict is of requests whose parts are valid but contradict each other. No schema can say it.
const codeConflict = "conflict"

// decodeDenies reads the body of a change of c.user, whose tenant is that of the viewers.
func (g *Gate) decodeDenies(body []byte, c *userChange) (d schemas.Denies, called denied, err error) {
	seen := strictjson.Fields{Known: []string{"add", "remove"}}
	r := strictjson.NewReader("body", body)
	var add, remove []schemas.UserID
	in := map[schemas.UserID]string{} // the field of each viewer
	count, longest := 0, 0
	err = r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		viewers, texts := &add, &called.Add
		if field == "remove" {
			viewers, texts = &remove, &called.Remove
		}
		return r.Within(field, r.Array(func(i int) error {
			text, err := r.Scalar()
			longest = max(longest, i+1)
			if count++; err != nil || count > schemas.MaxDenies {
				return err // what is too much is only counted
			}
			viewer, name, err := g.cfg.Users.User("", c.name.Tenant, string(text))
			switch other := in[viewer]; {
			case err != nil:
				return err
			case viewer == c.user:
				return &schemas.FieldError{Code: codeConflict, Reason: "must not be the user"}
			case other == "":
				in[viewer] = field
				*viewers, *texts = append(*viewers, viewer), append(*texts, g.cfg.Users.Called(viewer, name).Text)
			case other != field:
				return &schemas.FieldError{Code: codeConflict, Reason: "must not be in add and in remove"}
			}
			return nil
		}))
	})
	if err == nil && (count < 1 || count > schemas.MaxDenies) {
		bad := schemas.Invalid("body", "must add and remove 1 to "+strconv.Itoa(schemas.MaxDenies)+" viewers, not "+strconv.Itoa(count))
		if longest <= schemas.MaxDenies && count > 0 {
			bad.Code = codeConflict
		}
		err = bad
	}
	if bad := new(schemas.FieldError); errors.As(err, &bad) && bad.Code == codeConflict {
		err = web.Refuse(http.StatusConflict, bad.Code, bad.Field, bad.Reason)
	}
	if err == nil {
		d, err = schemas.NewDenies("", c.user, add, remove)
	}
	return d, called, err
}
