package beat

import (
	"time"

	"github.com/stillhere/stillhere/internal/devices"
	"github.com/stillhere/stillhere/schemas"
)

// Connection is one connection of a device to this gateway. The client counts them, so
// that a device of which two are open, say two tabs of a browser, leaves when the last
// of them says bye. End each with Bye or Drop. All methods may be called from any
// goroutine.
type Connection struct {
	client *Buffer
	kind   schemas.DeviceKind
	at     devices.Connection
}

// Connect reports that a device has opened a connection, which is its first beat; idle
// and the errors are those of Beat. After an error there is no connection.
func (c *Buffer) Connect(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) (*Connection, error) {
	k := &Connection{client: c, kind: kind, at: devices.Connection{Of: devices.Device{User: user, ID: device}}}
	if err := k.Beat(idle); err != nil {
		k.Drop()
		return nil, err
	}
	return k, nil
}

// Beat reports that the connection's device is here; see Client.Beat. It does nothing
// after Bye or Drop.
func (k *Connection) Beat(idle time.Duration) error {
	if !k.client.devices.Join(&k.at, k.client.now()) {
		return nil
	}
	return k.client.Beat(k.at.Of.User, k.at.Of.ID, k.kind, idle)
}

// Bye ends a connection that was closed on purpose. The device has left when no other of
// its connections here is alive: one on which nothing was heard for one and a half
// heartbeat intervals may be lost already and does not count. The error is that of
// Client.Bye.
func (k *Connection) Bye() (err error) {
	silent := k.client.now() - 3*time.Duration(k.client.interval.Load())/2
	k.client.devices.Part(&k.at, true, silent, func() { err = k.client.Bye(k.at.Of.User, k.at.Of.ID) })
	return err
}

// Drop ends a connection that was lost. That is not a bye: the detector waits for the
// device to come back.
func (k *Connection) Drop() { k.client.devices.Part(&k.at, true, 0, nil) }
