package delivery

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhere/stillhere/internal/testkit/must"
	"github.com/stillhere/stillhere/schemas"
)

// slow takes as long as the version says, in seconds down from 20.
type slow struct {
	mu   sync.Mutex
	busy map[schemas.UserID]bool
	told map[schemas.UserID][]schemas.Version
	both bool // one user was told of twice at the same time
}

func (s *slow) Deliver(_ context.Context, n Notice) error {
	user := n.Transition.User
	s.mu.Lock()
	s.both = s.both || s.busy[user]
	s.busy[user] = true
	s.mu.Unlock()
	time.Sleep(time.Duration(20-n.Transition.Version) * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[user] = false
	s.told[user] = append(s.told[user], n.Transition.Version)
	return nil
}

func TestOfOneUserEverythingComesInOrderAndOfOthersMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{busy: map[schemas.UserID]bool{}, told: map[schemas.UserID][]schemas.Version{}}
		c, _ := newConsumer(t, Defaults(), s)
		var items []Item
		for version := schemas.Version(10); version < 15; version++ {
			items = append(items, item(int64(len(items)), 7, version, 1), item(int64(len(items)+1), 8, version, 1))
		}
		begun := time.Now()
		must.Do(t, apply(c, t.Context(), batch(items...)))
		for _, user := range []schemas.UserID{7, 8} {
			if !slices.Equal(s.told[user], []schemas.Version{10, 11, 12, 13, 14}) {
				t.Errorf("of %d it is told %v", user, s.told[user])
			}
		}
		if took := time.Since(begun); s.both || took != 40*time.Second {
			t.Errorf("it took %s; one user twice at the same time: %t", took, s.both)
		}
	})
}
