// Package client is what a gateway written in Go embeds to say who is connected
// to it.
//
//	c, err := client.New(client.Config{GatewayID: "gw-1", Partitions: 12}, log)
//	go c.Run(ctx)                                 // wait for it
//	c.Beat(user, device, schemas.Mobile, 0)       // on connect and on every ping
//	c.Bye(user, device)                           // when the user leaves on purpose
//	c.Close(deadline)                             // on shutdown, before Run's ctx ends
//
// Beat and Bye only write into memory. Run sends: reports that can change a
// state at once within 10 ms, the others with the next flush, one frame per
// partition; and an empty frame to each partition in which the gateway has users
// when nothing else went there for a while. A device that beats a thousand times
// a second costs one row per flush.
//
// While Kafka is away the client keeps the newest report of each device and goes
// on trying; afterwards they arrive with their true ages.
//
// A connection that was lost is not a Bye: just stop beating for it.
package client
