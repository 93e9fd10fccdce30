package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// The lines of an export, each with its type. 64-bit numbers are strings, times RFC 3339 UTC or null.
type (
	// presenceLine is what is known now, hidden or not: at most one line.
	presenceLine struct {
		Type       string          `json:"type"` // presence
		User       schemas.UserID  `json:"user_id,string"`
		State      string          `json:"state"`
		Since      schemas.Millis  `json:"since"`
		LastSeen   schemas.Millis  `json:"last_seen_at"`
		LastActive schemas.Millis  `json:"last_active_at"`
		Devices    []string        `json:"devices"`
		Visibility string          `json:"visibility"`
		Version    schemas.Version `json:"version,string"`
	}
	// changeLine is a change in the audit log, also of the time in which the user hid; oldest first.
	changeLine struct {
		Type       string           `json:"type"` // change
		Event      string           `json:"event_id"`
		Version    schemas.Version  `json:"version,string"`
		At         schemas.Millis   `json:"changed_at"`
		From       string           `json:"from_state"`
		To         string           `json:"to_state"`
		Cause      string           `json:"cause"`
		Device     schemas.DeviceID `json:"device_id"` // 0: no device caused it
		Devices    []string         `json:"device_kinds"`
		LastSeen   schemas.Millis   `json:"last_seen_at"`
		LastActive schemas.Millis   `json:"last_active_at"`
		Visibility string           `json:"visibility"`
		Policy     string           `json:"policy_id"`
		LeftOut    uint32           `json:"left_out"`
	}
	// edgeLine is a user who follows this one (follower), or whom this one follows (follows).
	edgeLine struct {
		Type string         `json:"type"`
		User schemas.UserID `json:"user_id,string"`
	}
)

// Export writes everything that the store and the follower graph hold of a user, as JSON lines. edges
// may be nil: then there is no graph.
func Export(ctx context.Context, from Store, edges *graph.Store, user schemas.UserID, to io.Writer) error {
	lines := json.NewEncoder(to)
	users, err := from.Users(ctx, []schemas.UserID{user})
	if err != nil {
		return err
	}
	if c, known := users[user]; known {
		err = lines.Encode(presenceLine{"presence", user, schemas.StateWord(c.State), c.Since, c.LastSeen, c.LastActive, c.Kinds.Words(),
			schemas.VisibilityWord(c.Visibility), c.Version})
	}
	if err != nil {
		return err
	}
	err = from.Changes(ctx, store.Range{User: user}, func(e *store.Entry) error {
		return lines.Encode(changeLine{"change", string(e.Event[:]), e.Version, e.At, schemas.StateWord(e.From), schemas.StateWord(e.To),
			schemas.CauseWord(e.Cause), e.Device, e.Kinds.Words(), e.LastSeen, e.LastActive, schemas.VisibilityWord(e.Visibility),
			e.Policy, e.LeftOut})
	})
	if err != nil || edges == nil {
		return err
	}
	return errors.Join(
		writeEdges(ctx, lines, "follower", func(after schemas.UserID) ([]schemas.UserID, error) {
			return edges.Page(ctx, nil, user, after, graph.LastID, edgesAtOnce)
		}),
		writeEdges(ctx, lines, "follows", func(after schemas.UserID) ([]schemas.UserID, error) {
			return edges.Followed(ctx, user, after, edgesAtOnce)
		}))
}

const edgesAtOnce = 10_000

// writeEdges writes the pages that next returns, each after the last user of the one before.
func writeEdges(ctx context.Context, lines *json.Encoder, kind string, next func(after schemas.UserID) ([]schemas.UserID, error)) error {
	for after := schemas.UserID(0); ctx.Err() == nil; {
		page, err := next(after)
		if err != nil {
			return err
		}
		for _, other := range page {
			if err := lines.Encode(edgeLine{kind, other}); err != nil {
				return fmt.Errorf("writing the export: %w", err)
			}
		}
		if len(page) < edgesAtOnce {
			return nil
		}
		after = page[len(page)-1]
	}
	return ctx.Err()
}
