package httpgate

import (
	"encoding/json"
	"net/http"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/tenants"
	"github.com/stillhere/stillhere/schemas"
)

const maxVisibilityBody = 4096 // bytes

// putVisibility sets who may see the user.
func (g *Gate) putVisibility(w http.ResponseWriter, r *http.Request) (status int, err error) {
	return g.change(w, r, maxVisibilityBody, func(body []byte, c *userChange) error {
		visibility, err := decodeVisibility(body)
		c.frames = [][]byte{schemas.AppendNamedVisibility(nil, c.user, visibility, c.name)}
		c.answer = struct {
			schemas.NamedUser
			Visibility string `json:"visibility"`
		}{g.cfg.Users.Called(c.user, c.name).Shown(), schemas.VisibilityWord(visibility)}
		if err != nil {
			return err
		}
		return refuseIf(visibility == schemas.Nobody && g.policyFor(r, c).ForbidHiding, "visibility", "forbid_hiding")
	})
}

// userChange is a change that a user asks for.
type userChange struct {
	user   schemas.UserID
	name   schemas.Name
	frames [][]byte // one after the other
	answer any      // when Kafka has it
}

// change appends a change of the user, which decode reads in the body of at most most bytes, in frames of its own. The
// log orders it among the beats.
func (g *Gate) change(
	w http.ResponseWriter, r *http.Request, most int, decode func(body []byte, c *userChange) error,
) (status int, err error) {
	var c userChange
	if c.user, c.name, err = ingest.UserOf(r, g.cfg.Users); err != nil {
		return 0, err
	}
	if err := ingest.CallerOf(r.Context()).CheckVisibilityOf("user_id", c.user); err != nil {
		return 0, err
	}
	body, err := g.readBody(w, r, most)
	if err != nil {
		return 0, err
	}
	leave, err := enter(g.visibilitySlots)
	if err != nil {
		return 0, err
	}
	defer leave()
	if err := decode(body, &c); err != nil {
		return 0, err
	}
	if over := g.tenants.Of(c.name.Tenant).Change(tenants.Visibility, 1); over != nil {
		return 0, over
	}
	for _, written := range g.writeChange(&c) {
		if err := g.await(r.Context(), written); err != nil {
			return 0, err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c.answer) // if it fails the caller has disconnected; Kafka has the change
	return http.StatusOK, nil
}

func decodeVisibility(body []byte) (schemas.Visibility, error) {
	var visibility schemas.Visibility
	seen := strictjson.Fields{Known: []string{"visibility"}}
	r := strictjson.NewReader("body", body)
	err := r.Document(func(key []byte) error {
		field, err := seen.Take(key)
		if err != nil {
			return err
		}
		word, err := r.Text(field)
		if err != nil {
			return err
		}
		visibility, err = schemas.ParseVisibility(field, word)
		return err
	})
	if err == nil && visibility == 0 {
		_, err = schemas.ParseVisibility("visibility", "")
	}
	return visibility, err
}

func (g *Gate) writeChange(c *userChange) (written []<-chan error) {
	for _, frame := range c.frames {
		done := make(chan error, 1)
		g.writer.append("visibility", 0, schemas.Outgoing{
			Partition: schemas.PartitionOf(c.user, g.cfg.Partitions),
			Key:       c.user.Key(), Value: frame,
		}, func(err error) { done <- err })
		written = append(written, done)
	}
	return written
}
