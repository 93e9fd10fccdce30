package loadtest

import (
	"fmt"
	"strconv"
	"time"

	"github.com/stillhere/stillhere/client/gateway"
	"github.com/stillhere/stillhere/schemas"
)

// device is everybody's phone, and deviceName what requests call it.
const (
	device     = schemas.DeviceID(7)
	deviceName = "7"
)

// beatInterval is how often everybody beats.
const beatInterval = 15 * time.Second

// beating are users who beat through a gateway, evenly spread over the interval. One goroutine
// may use it.
type beating struct {
	users   int
	gateway *gateway.Gateway
	began   time.Time
	sent    int // since then
}

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
	for due := int(float64(b.users) * float64(time.Since(b.began)) / float64(beatInterval)); b.sent < due; b.sent++ {
		if err := b.beat(b.sent % b.users); err != nil {
			return err
		}
	}
	return nil
}

func (b *beating) beat(user int) error {
	if err := b.gateway.Beat(strconv.Itoa(user+1), deviceName, schemas.Mobile, 0); err != nil {
		return fmt.Errorf("beating for user %d: %w", user+1, err)
	}
	return nil
}
