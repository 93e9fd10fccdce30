package bench

import (
	"fmt"
	"time"

	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/schemas"
)

// crowdInterval is how often everybody beats.
const crowdInterval = 15 * time.Second

// beating is a crowd that beats through a gateway, evenly spread over the interval.
// One goroutine may use it.
type beating struct {
	users   int
	gateway *gateway.Gateway
	began   time.Time
	sent    int // since then
}

func newBeating(users int, g *gateway.Gateway) *beating { return &beating{users: users, gateway: g} }

// everybody beats once, now.
func (b *beating) everybody() error {
	for user := range b.users {
		if err := b.beat(user); err != nil {
			return err
		}
	}
	b.began, b.sent = time.Now(), 0
	return nil
}

// catchUp sends what is due by now.
func (b *beating) catchUp() error {
	for due := int(float64(b.users) * float64(time.Since(b.began)) / float64(crowdInterval)); b.sent < due; b.sent++ {
		if err := b.beat(b.sent % b.users); err != nil {
			return err
		}
	}
	return nil
}

func (b *beating) beat(user int) error {
	if err := b.gateway.Beat(schemas.UserID(user+1), 7, schemas.Mobile, 0); err != nil {
		return fmt.Errorf("beating for user %d: %w", user+1, err)
	}
	return nil
}
