// Package embedded runs Kafka (kfake) and Redis (miniredis) within the process, for
// `stillhere dev` and for tests. Clients use the real protocols, over TCP or, in a
// testing/synctest bubble, over pipes.
//
// Kafka keeps its data in a directory if the configuration names one. It locks the directory
// against other processes, and keeps every acknowledged record after kill -9. Its transactions do
// not survive that (a copy may be doubled), and one broker has no replicas. It stamps the records
// of topics with message.timestamp.type=LogAppendTime on arrival. It applies retention. It compacts
// topics only when it starts.
//
// Redis loses its data when it closes. It removes expired keys once a second.
//
// An error at the start is one line that names the cause: a port in use, a directory that cannot
// be read or that another process uses.
package embedded
