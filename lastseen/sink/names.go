package sink

import (
	"context"
	"fmt"

	"github.com/stillhere/stillhere/internal/identity"
	"github.com/stillhere/stillhere/internal/stream"
	"github.com/stillhere/stillhere/lastseen"
	"github.com/stillhere/stillhere/lastseen/store"
	"github.com/stillhere/stillhere/schemas"
)

// Names writes the topic of names to the durable store. It is a handler of a consumer. Transitions
// bring most names sooner; the topic has those that came after the user's last transition.
type Names struct {
	store  store.Namer
	config lastseen.Config
}

// NewNames makes a handler. config must be valid.
func NewNames(to store.Namer, config lastseen.Config) *Names {
	return &Names{to, config}
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
		case !users.Is(n.User, n.Name):
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
	return nil
}
