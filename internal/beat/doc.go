// Package beat is the buffer of a gateway: it collects the reports of connected devices and writes
// them to Kafka.
//
//	b, err := beat.New(beat.Config{GatewayID: "gw-1", Partitions: 12}, log)
//	k, err := b.Connect(user, name, device, schemas.Mobile, 0) // when a connection opens
//	k.Beat(idle)                                               // on every ping
//	k.Bye()                                              // when the client closes it on purpose
//	k.Drop()                                             // when it was lost; not a bye
//	b.Close(deadline)                                    // on shutdown
//
// Connections are counted: a device leaves when the last of its connections says bye. A gateway
// that counts for itself calls b.Beat and b.Bye, which are about the device, whatever connections
// it has.
//
// All of these only write into memory. Reports that can change a state are sent within 10 ms, the
// others with the next flush, one frame per partition. While the gateway has devices an empty frame says
// every 1.5 s that it is there, for all partitions. A device that beats a thousand
// times a second costs one row per flush.
//
// While Kafka is unreachable the buffer keeps the newest report of each device and retries. The
// reports arrive later with their true ages; that a connection is open is told as of then.
package beat
