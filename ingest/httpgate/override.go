package httpgate

import (
	"cmp"
	"net/http"
	"time"

	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// overrideAnswer is the answer to PUT and DELETE /presence/{user_id}/override.
type overrideAnswer struct {
	schemas.NamedUser
	Override *schemas.AskedOverride `json:"override"`
}

// putOverride sets what the user is shown as, until it ends.
func (g *Gate) putOverride(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.change(w, r, maxVisibilityBody, func(body []byte, c *userChange) error {
		o, err := decodeOverride(body, schemas.MillisOf(time.Now()))
		if err != nil {
			return err
		}
		g.fill(c, o)
		return refuseIf(o.State == schemas.Invisible && g.policyFor(r, c).ForbidInvisible, "state", "forbid_invisible")
	})
}

// deleteOverride ends it.
func (g *Gate) deleteOverride(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.change(w, r, maxVisibilityBody, func(body []byte, c *userChange) error {
		if len(body) > 0 {
			return schemas.Invalid("body", "must be empty")
		}
		g.fill(c, schemas.Override{})
		return nil
	})
}

// fill makes the frame and the answer of an override.
func (g *Gate) fill(c *userChange, o schemas.Override) {
	c.frames = [][]byte{schemas.AppendOverride(nil, c.user, o, c.name)}
	c.answer = overrideAnswer{g.cfg.Users.Called(c.user, c.name).Shown(), o.Asked()}
}

// decodeOverride reads the body of a PUT at the instant now.
func decodeOverride(body []byte, now schemas.Millis) (o schemas.Override, err error) {
	seen := strictjson.Fields{Known: []string{"state", "until", "note"}}
	r := strictjson.NewReader("body", body)
	err = r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		text, err := r.Text(field)
		if err != nil {
			return err
		}
		switch field {
		case "state":
			o.State, err = schemas.ParseOverride(field, text)
		case "until":
			o.Until, err = untilOf(text, now)
		default:
			o.Note = text
		}
		return err
	})
	if err == nil && o.State == 0 {
		_, err = schemas.ParseOverride("state", "")
	}
	return o, cmp.Or(err, o.Check())
}

func untilOf(text string, now schemas.Millis) (schemas.Millis, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, schemas.Invalid("until", "must be an instant to come, as 2026-02-01T17:00:00Z")
	}
	o := schemas.Override{State: schemas.DoNotDisturb, Until: schemas.MillisOf(t)}
	if o.Until <= now || o.Check() != nil { // whether it is to come is no matter of form
		return 0, web.Refuse(http.StatusConflict, "over", "until", "must be an instant to come, by the year 9999")
	}
	return o.Until, nil
}
