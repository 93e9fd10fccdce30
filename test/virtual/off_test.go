//go:build !synctests

package virtual

// virtualTime: without the tag the Kafka client blocks on sync.Mutex, which does
// not let a bubble's clock move.
const virtualTime = false
