package beat

import (
	"time"

	"github.com/stillhere/stillhere/internal/devices"
	"github.com/stillhere/stillhere/schemas"
)

// Connection is one connection of a device to this gateway. The buffer counts them: a device with
// two open connections, say two tabs of a browser, leaves when the last one says bye. End each with
// Bye or Drop. All methods may be called from any goroutine.
type Connection struct {
	buffer *Buffer
	kind   schemas.DeviceKind
	at     devices.Connection
}

// Connect reports that a device has opened a connection, which is its first beat. idle and the
// errors are those of Beat. After an error there is no connection.
func (b *Buffer) Connect(user schemas.UserID, device schemas.DeviceID, kind schemas.DeviceKind, idle time.Duration) (
	*Connection, error) {
	k := &Connection{buffer: b, kind: kind, at: devices.Connection{Of: devices.Device{User: user, ID: device}}}
	if err := k.Beat(idle); err != nil {
		k.Drop()
		return nil, err
	}
	return k, nil
}

// Beat reports that the connection's device is online; see Buffer.Beat. It does nothing after Bye
// or Drop.
func (k *Connection) Beat(idle time.Duration) error {
	if !k.buffer.devices.Join(&k.at, k.buffer.now()) {
		return nil
	}
	return k.buffer.Beat(k.at.Of.User, k.at.Of.ID, k.kind, idle)
}

// Bye ends a connection that was closed on purpose. The device leaves if none of its other
// connections has been heard within one and a half heartbeat intervals: a silent one may be lost
// already. The error is that of Buffer.Bye.
func (k *Connection) Bye() (err error) {
	silent := k.buffer.now() - 3*time.Duration(k.buffer.interval.Load())/2
	k.buffer.devices.Part(&k.at, true, silent, func() { err = k.buffer.Bye(k.at.Of.User, k.at.Of.ID) })
	return err
}

// Drop ends a connection that was lost. That is no bye: the detector waits for the device to
// return.
func (k *Connection) Drop() { k.buffer.devices.Part(&k.at, true, 0, nil) }
