// Package client is what a gateway written in Go embeds to say who is connected
// to it.
//
//	c, err := beat.New(beat.Config{GatewayID: "gw-1", Partitions: 12}, log)
//	k, err := c.Connect(user, device, schemas.Mobile, 0) // when a connection opens
//	k.Beat(idle)                                  // on every ping
//	k.Bye()                                       // when the client closes it on purpose
//	k.Drop()                                      // when it was lost
//	c.Close(deadline)                             // on shutdown
//
// Connections are counted: a device that has several here leaves when the last of them
// says bye. A gateway that counts for itself may call c.Beat and c.Bye, which are about
// the device whatever connections it has.
//
// All of these only write into memory. The client sends from the first of them until
// Close: reports that can change a
// state at once within 10 ms, the others with the next flush, one frame per
// partition; and an empty frame to each partition in which the gateway has users
// when nothing else went there for a while. A device that beats a thousand times
// a second costs one row per flush.
//
// While Kafka is away the client keeps the newest report of each device and goes
// on trying; afterwards they arrive with their true ages.
//
// A connection that was lost is not a Bye: Drop it, or just stop beating for it.
package beat
