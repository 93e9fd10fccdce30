package httpgate

import (
	"net/http"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/web"
	"github.com/stillhere/stillhere/schemas"
)

// audience is who sees a user, and what others learn of when the user was last here: the body of a PUT, of which either
// may be missing, and the answer.
type audience struct {
	Base     string `json:"base,omitempty"`
	LastSeen string `json:"last_seen,omitempty"`
}

// putAudience sets what is given of it.
func (g *Gate) putAudience(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.change(w, r, maxVisibilityBody, func(body []byte, c *userChange) error {
		base, lastSeen, err := decodeAudience(body)
		if err != nil {
			return err
		}
		var answer struct {
			schemas.NamedUser
			audience
		}
		answer.NamedUser = g.cfg.Users.Called(c.user, c.name).Shown()
		if base != 0 {
			answer.Base = schemas.VisibilityWord(base)
			c.frames = append(c.frames, schemas.AppendNamedVisibility(nil, c.user, base, c.name))
		}
		if lastSeen != 0 {
			answer.LastSeen = schemas.LastSeenWord(lastSeen)
			c.frames = append(c.frames, schemas.AppendLastSeen(nil, c.user, lastSeen, c.name))
		}
		c.answer = answer
		return refuseIf(base == schemas.Nobody && g.policyFor(r, c).ForbidHiding, "base", "forbid_hiding")
	})
}

// policyFor is the policy that binds the sender of a change: nothing is forbidden to administrators.
func (g *Gate) policyFor(r *http.Request, c *userChange) schemas.Policy {
	if caller := ingest.CallerOf(r.Context()); caller != nil && caller.Any {
		return schemas.Policy{}
	}
	return (*g.policyOf.Load())(c.name.Tenant)
}

// refuseIf is the error of a field that a setting of the policy forbids.
func refuseIf(forbidden bool, field, setting string) error {
	if !forbidden {
		return nil
	}
	return web.Refuse(http.StatusForbidden, "forbidden", field, "is not allowed by the policy, which has "+setting)
}

func decodeAudience(body []byte) (base schemas.Visibility, lastSeen schemas.LastSeen, err error) {
	seen := strictjson.Fields{Known: []string{"base", "last_seen"}}
	r := strictjson.NewReader("body", body)
	err = r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		word, err := r.Text(field)
		switch {
		case err != nil:
		case field == "base":
			base, err = schemas.ParseVisibility(field, word)
		default:
			lastSeen, err = schemas.ParseLastSeen(field, word)
		}
		return err
	})
	if err == nil && base == 0 && lastSeen == 0 {
		err = schemas.Invalid("body", "must have base or last_seen")
	}
	return base, lastSeen, err
}
