package socketgate

import (
	"testing"
	"time"

	"github.com/stillhere/stillhere/internal/beat"
	"github.com/stillhere/stillhere/schemas"
)

// counter counts beats.
type counter struct {
	beat.Reporter
	beats int
}

func (c *counter) Hold(schemas.UserID, *schemas.Name, schemas.DeviceID, schemas.DeviceKind, time.Duration) error {
	c.beats++
	return nil
}

func TestABeatOfOneByteAllocatesNothing(t *testing.T) {
	var beats counter
	registry := beat.NewRegistry(&beats)
	gate := &Gate{start: time.Now()}
	gate.pace.Store(&pace{})
	s := &connection{gate: gate, at: registry.New(beat.Device{User: 1, ID: 7}, nil, schemas.Mobile)}
	message := []byte{0}
	const runs = 1000
	if n := testing.AllocsPerRun(runs, func() { s.Message(message) }); n != 0 {
		t.Errorf("%g allocations for a message", n)
	}
	if beats.beats != runs+1 {
		t.Errorf("%d beats of %d messages", beats.beats, runs+1)
	}
}
