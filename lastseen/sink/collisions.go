package sink

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/schemas"
)

// Topics is where Collisions reads; kafka.Reader implements it.
type Topics interface {
	Partitions(ctx context.Context, topic schemas.Topic) (int32, error)
	Read(ctx context.Context, topic schemas.Topic, partition int32, from, to int64, committed bool, each func(*schemas.Record) error) error
}

// Collisions reads from the topic of names which user ids two names have, ordered by user. It reads
// the whole topic. Records that cannot be read are left out.
func Collisions(ctx context.Context, from Topics, users identity.Users) ([]schemas.UserName, error) {
	partitions, err := from.Partitions(ctx, schemas.Names)
	if err != nil {
		return nil, err
	}
	decode := DecodeName(users)
	found := map[schemas.UserID]schemas.UserName{}
	for partition := range partitions {
		err := from.Read(ctx, schemas.Names, partition, -1, -1, true, func(r *schemas.Record) error {
			n, err := decode(r)
			switch {
			case err != nil:
			case n.Collided:
				found[n.User] = n
			case n.Name.Text == "": // erased
				delete(found, n.User)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the names of partition %d: %w", partition, err)
		}
	}
	byUser := func(a, b schemas.UserName) int { return cmp.Compare(a.User, b.User) }
	return slices.SortedFunc(maps.Values(found), byUser), nil
}
