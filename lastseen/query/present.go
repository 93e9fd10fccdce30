package query

import (
	"context"

	"github.com/stillhere/stillhere/schemas"
)

// Present returns which of the users are online or away, in their order, hidden users as others. It is
// not for answers to clients. A user of whom only old data is known counts as present.
func (r *Reader) Present(ctx context.Context, ids []schemas.UserID) ([]bool, error) {
	answers, err := r.read(ctx, ids)
	if err != nil {
		return nil, err
	}
	present := make([]bool, len(ids))
	for i := range answers {
		present[i] = answers[i].stale != 0 || answers[i].present()
	}
	return present, nil
}
