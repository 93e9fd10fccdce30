package delivery

import (
	"testing"

	"github.com/stillhere/stillhere/schemas"
)

func TestTheCacheIsBoundedAndForgetsTheOldestFirst(t *testing.T) {
	t.Parallel()
	m := NewDelivered(100)
	for r := range schemas.UserID(1000) {
		m.Add(7, 5, []schemas.UserID{r + 1})
		if n := len(m.newer) + len(m.older); n > 100 {
			t.Fatalf("%d pairs are kept", n)
		}
		if len(m.Fresh(7, 5, []schemas.UserID{max(1, r-40)})) != 0 {
			t.Fatalf("after %d pairs, one of the last 50 is forgotten", r+1)
		}
	}
}
