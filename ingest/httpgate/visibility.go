package httpgate

import (
	"fmt"
	"net/http"

	"github.com/stillhere/stillhere/ingest"
	"github.com/stillhere/stillhere/internal/strictjson"
	"github.com/stillhere/stillhere/internal/userpath"
	"github.com/stillhere/stillhere/schemas"
)

const maxVisibilityBody = 4096 // bytes

// putVisibility appends a change of visibility in a frame of its own. The log orders it among the
// beats.
func (g *Gate) putVisibility(w http.ResponseWriter, r *http.Request) (status int, err error) {
	user, err := schemas.ParseUserID("user_id", userpath.Of(r))
	if err != nil {
		return 0, err
	}
	if err := ingest.CallerOf(r.Context()).CheckVisibilityOf("user_id", user); err != nil {
		return 0, &refusal{status: http.StatusForbidden, err: err}
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
	if err := g.await(r.Context(), g.writeVisibility(user, visibility)); err != nil {
		return 0, err
	}
	w.Header().Set("Content-Type", "application/json")
	// If this fails the caller has disconnected; Kafka has the change.
	_, _ = fmt.Fprintf(w, "{\"user_id\":%q,\"visibility\":%q}\n", user, schemas.VisibilityWord(visibility))
	return http.StatusOK, nil
}

func decodeVisibility(body []byte) (schemas.Visibility, error) {
	var visibility schemas.Visibility
	seen := fields{known: []string{"visibility"}}
	r := strictjson.NewReader("body", body)
	err := r.Document(func(key []byte) error {
		field, err := seen.take(key)
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

func (g *Gate) writeVisibility(user schemas.UserID, visibility schemas.Visibility) <-chan error {
	written := make(chan error, 1)
	g.writer.append("visibility", 0, schemas.Outgoing{
		Partition: schemas.PartitionOf(user, g.cfg.Partitions),
		Key:       user.Key(), Value: schemas.AppendVisibility(nil, user, visibility),
	}, func(err error) { written <- err })
	return written
}
