package redisview

import (
	"context"
	"fmt"
)

// KeepCursorKey stores own as the key of the deployment's cursors unless there is one, and returns the
// one that is there; see cursor.Keep.
func (v *View) KeepCursorKey(ctx context.Context, own []byte) ([]byte, error) {
	key := v.prefix + "cursors"
	err := v.client.SetNX(ctx, key, own, 0).Err()
	if err != nil {
		return nil, fmt.Errorf("storing the key of cursors: %w", err)
	}
	stored, err := v.client.Get(ctx, key).Bytes()
	if err != nil {
		return nil, fmt.Errorf("reading the key of cursors: %w", err)
	}
	return stored, nil
}
