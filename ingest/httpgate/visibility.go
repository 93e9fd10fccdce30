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

// putVisibility appends a change of visibility in a frame of its own. The log orders it among the
// beats.
func (g *Gate) putVisibility(w http.ResponseWriter, r *http.Request) (status int, err error) {
	user, name, err := ingest.UserOf(r, g.cfg.Users)
	if err != nil {
		return 0, err
	}
	if err := ingest.CallerOf(r.Context()).CheckVisibilityOf("user_id", user); err != nil {
		return 0, err
	}
	body, err := g.readBody(w, r, maxVisibilityBody)
	if err != nil {
		return 0, err
	}
	leave, err := enter(g.visibilitySlots)
	if err != nil {
		return 0, err
	}
	defer leave()
	visibility, err := decodeVisibility(body)
	if err != nil {
		return 0, err
	}
	if over := g.tenants.Of(name.Tenant).Change(tenants.Visibility, 1); over != nil {
		return 0, over
	}
	if err := g.await(r.Context(), g.writeVisibility(user, visibility, name)); err != nil {
		return 0, err
	}
	w.Header().Set("Content-Type", "application/json")
	// If this fails the caller has disconnected; Kafka has the change.
	_ = json.NewEncoder(w).Encode(struct {
		schemas.NamedUser
		Visibility string `json:"visibility"`
	}{g.cfg.Users.Called(user, name).Shown(), schemas.VisibilityWord(visibility)})
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

func (g *Gate) writeVisibility(user schemas.UserID, visibility schemas.Visibility, name schemas.Name) <-chan error {
	written := make(chan error, 1)
	value := schemas.AppendNamedVisibility(nil, user, visibility, name)
	g.writer.append("visibility", 0, schemas.Outgoing{
		Partition: schemas.PartitionOf(user, g.cfg.Partitions),
		Key:       user.Key(), Value: value,
	}, func(err error) { written <- err })
	return written
}
