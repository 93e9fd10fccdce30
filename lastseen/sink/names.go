package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Names writes the topic of names to the durable store. It is a handler of a consumer. Transitions
// bring most names sooner; the topic has those that came after the user's last transition, and
// collisions.
//
// It finds collisions that the detector cannot find, because it had forgotten the first user when the
// second one came.
type Names struct {
	store  NameStore
	config lastseen.Config
	report Report
}

// NameStore is the part of the durable store that Names needs.
type NameStore interface {
	store.Namer
	Names(ctx context.Context, ids []schemas.UserID) (map[schemas.UserID]schemas.UserName, error)
}

// Report lets the detector know two names of one user, n.Name and n.Other. After an error, and after
// a restart, a collision is reported again.
type Report func(ctx context.Context, n schemas.UserName) error

// NewNames makes a handler. config must be valid.
func NewNames(to NameStore, config lastseen.Config, report Report) *Names {
	return &Names{to, config, report}
}

// Hides are the records of heartbeats by which a Report lets the detector know both names: it finds the
// collision when it reads the second one, for it remembers the names of hidden users.
func Hides(n schemas.UserName, partitions int32) []schemas.Outgoing {
	var hides []schemas.Outgoing
	for _, name := range []schemas.Name{n.Name, n.Other} {
		hides = append(hides, schemas.Outgoing{Topic: schemas.Heartbeats, Partition: schemas.PartitionOf(n.User, partitions), Key: n.User.Key(),
			Value: schemas.AppendNamedVisibility(nil, n.User, schemas.Nobody, name)})
	}
	return hides
}

// DecodeName returns how to read the topic of a pipeline with these users. A tombstone has no name.
func DecodeName(users identity.Users) func(*schemas.Record) (schemas.UserName, error) {
	return func(r *schemas.Record) (schemas.UserName, error) {
		user, err := schemas.UserOfKey(r.Key)
		if err != nil || r.Value == nil {
			return schemas.UserName{User: user}, err
		}
		n, err := schemas.DecodeUserName(r.Value)
		switch {
		case err != nil:
			return n, err
		case n.User != user:
			return n, schemas.Invalid("user_id", "is not the user of the key")
		case !users.Is(n.User, n.Name) || n.Other != (schemas.Name{}) && !users.Is(n.User, n.Other):
			return n, &schemas.FieldError{Code: "id_mismatch", Field: "user_id", Reason: "is not the id of the name"}
		}
		return n, nil
	}
}

// Apply writes the batch. After an error the same batch may come again.
func (n *Names) Apply(ctx context.Context, batch stream.Batch[schemas.UserName]) error {
	ctx, cancel := context.WithTimeout(ctx, n.config.WriteTimeout)
	defer cancel()
	if err := n.store.WriteNames(ctx, batch.Items); err != nil {
		return fmt.Errorf("partition %d: %w", batch.Partition, err)
	}
	if err := n.reportCollisions(ctx, batch.Items); err != nil {
		return fmt.Errorf("partition %d: %w", batch.Partition, err)
	}
	return nil
}

// reportCollisions reports the users whom the store has known by another name, if the detector does not
// know it.
func (n *Names) reportCollisions(ctx context.Context, records []schemas.UserName) error {
	names := make(map[schemas.UserID]schemas.UserName, len(records))
	for _, r := range records {
		if r.Collided || r.Name.Text == "" {
			delete(names, r.User)
		} else {
			names[r.User] = r
		}
	}
	if len(names) == 0 {
		return nil
	}
	stored, err := n.store.Names(ctx, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return err
	}
	for user, r := range names {
		if s := stored[user]; s.Collided && s.Name != r.Name {
			s.Other = r.Name
			if err := n.report(ctx, s); err != nil {
				return fmt.Errorf("reporting that user %d has two names: %w", user, err)
			}
		}
	}
	return nil
}
