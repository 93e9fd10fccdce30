package expand

import (
	"context"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/fanout/graph"
	"github.com/stillhere/stillhere/schemas"
)

// Names is where the names of followers are, in pipelines whose users have names; see graph.Store.
type Names interface {
	Names(ctx context.Context, users []schemas.UserID) (graph.Names, error)
}

// namesOf returns the names of users who have changed and of those followers who may get a delivery now;
// nil if users have no names.
func (d *Dependencies) namesOf(ctx context.Context, changed []schemas.UserID, followers ...[]schemas.UserID) (graph.Names, error) {
	if d.Names == nil {
		return nil, nil
	}
	var users []schemas.UserID
	for _, some := range followers {
		users = append(users, some...)
	}
	slices.Sort(users)
	users = slices.Compact(users)
	if !d.Config.Everyone {
		users = d.Online.Filter(nil, users)
	}
	users = append(users, changed...)
	names := make(graph.Names, len(users))
	for part := range slices.Chunk(users, pageSize) {
		some, err := d.Names.Names(ctx, part)
		if err != nil {
			return nil, err
		}
		maps.Copy(names, some)
	}
	return names, nil
}

// texts are the names of recipients in a delivery.
func texts(names graph.Names, recipients []schemas.UserID) []string {
	texts := make([]string, len(recipients))
	for i, recipient := range recipients {
		texts[i] = names[recipient].Text
	}
	return texts
}

// ofAnother reports whether the graph knows the user of t by another name: two names have one id, and
// the followers are not those of the user of t.
func ofAnother(names graph.Names, t *schemas.Transition) bool {
	known, found := names[t.User]
	return found && t.Name.Text != "" && t.Name != known
}
