package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/internal/cursor"
	"github.com/stillhere/stillhere/schemas"
)

// request is something for a viewer's goroutine to do.
type request struct {
	kind    requestKind
	ids     []schemas.UserID                 // distinct, in the order asked for
	names   map[schemas.UserID]*schemas.Name // of ids
	err     error                            // answer with this
	message []byte                           // of say
	once    bool                             // of subscribe: the client cannot ask again, so end on failure
	on      bool                             // of deliveries: switch on or off
	// cursors, of subscribe: messages shall carry cursors. since is the one to resume from; nil: none.
	cursors bool
	since   *cursor.Sealed
}

type requestKind int

const (
	subscribe requestKind = iota
	unsubscribe
	deliveries
	refuse    // answer with err
	say       // send message
	renew     // take another token; not for the viewer
	greet     // send hello
	keepAlive // send a keep-alive
	recheck   // ask MayWatch again
	goodbye   // send when to reconnect, and end
)

// parseRequest reads a message of a viewer. known is false when the type is unknown or missing; the
// request then answers with what is wrong.
func parseRequest(message []byte, n naming) (r request, known bool) {
	var envelope struct {
		Type    *string         `json:"type"`
		UserIDs json.RawMessage `json:"user_ids"`
		Enabled json.RawMessage `json:"enabled"`
		Since   json.RawMessage `json:"since"`
	}
	if err := json.Unmarshal(message, &envelope); err != nil {
		return refusal(&schemas.FieldError{Code: "malformed", Reason: "not a JSON message: " + err.Error()}), false
	}
	if envelope.Type == nil {
		return refusal(schemas.Invalid("type", "must be given")), false
	}
	var err error
	switch *envelope.Type {
	case "subscribe", "unsubscribe":
		known := []string{"user_ids", sinceField}
		if *envelope.Type == "unsubscribe" {
			r.kind, known = unsubscribe, known[:1]
		}
		if err = onlyKnown(message, known...); err == nil {
			var users asked
			users, err = n.list(envelope.UserIDs)
			r.ids, r.names = users.ids, users.names
		}
		if r.cursors = envelope.Since != nil; err == nil && r.cursors {
			var text string
			if json.Unmarshal(envelope.Since, &text) != nil {
				err = schemas.Invalid(sinceField, "must be a string")
			} else if text != "" {
				r.since, err = parseSince(sinceField, text)
			}
		}
	case "token":
		return request{kind: renew}, true
	case "deliveries":
		r.kind, r.on = deliveries, string(envelope.Enabled) == "true"
		if err = onlyKnown(message, "enabled"); err == nil && !r.on && string(envelope.Enabled) != "false" {
			err = schemas.Invalid("enabled", "must be true or false")
		}
	default:
		return refusal(&schemas.FieldError{Code: "unknown_type", Field: "type",
			Reason: "must be one of subscribe unsubscribe deliveries token"}), false
	}
	if err != nil {
		return refusal(err), true
	}
	return r, true
}

// onlyKnown refuses fields that would be ignored: a misspelled field would seem to work.
func onlyKnown(message []byte, known ...string) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(message, &fields); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "type" && !slices.Contains(known, name) {
			return &schemas.FieldError{Code: "unknown_field", Field: name, Reason: "is not known"}
		}
	}
	return nil
}

// sinceField is the field and the parameter with the cursor to resume from.
const sinceField = "since"

// parseSince reads a cursor; field names it in the error.
func parseSince(field, text string) (*cursor.Sealed, error) {
	sealed, err := cursor.Parse(text)
	if err != nil {
		return nil, schemas.Invalid(field, "must be the cursor of an earlier message")
	}
	return sealed, nil
}

func refusal(err error) request { return request{kind: refuse, err: err} }

func tooOften(each float64, wait time.Duration) error {
	return &schemas.FieldError{Code: "rate_limited", Field: "user_ids",
		Reason: fmt.Sprintf("a connection may ask for %g users a second; ask again in %s", each, wait.Round(time.Second)+time.Second)}
}

func tooMany(maxUsers int) error {
	return &schemas.FieldError{Code: "too_many_subscriptions", Field: "user_ids",
		Reason: "one connection may watch at most " + strconv.Itoa(maxUsers) + " users"}
}
